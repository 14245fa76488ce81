"""The listeners of a speaker: the models that receive its message, and what their context lets through.

`Audience` finds whether any later model receives a message, without comparing all pairs of steps. It keeps
the listeners in order of their steps. A search starts at the first one that can run after the speaker, and
jumps over composites of which only one child runs, or all run at the same time as the speaker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from adk_fluent.analysis.data_flow import Flow
from adk_fluent.analysis.history import branch_is_visible
from adk_fluent.analysis.plan import Step, first_after
from adk_fluent.context.spec import Context
from adk_fluent.ir.execution import ONE_COUNTS, InParallel
from adk_fluent.ir.nodes import agent_of

# --- what a context lets through ------------------------------------------------------------------


Tristate = Literal["yes", "no", "maybe"]


@dataclass(frozen=True, slots=True)
class VisibleHistory:
    """The part of the conversation history that an agent's model receives.

    Attributes:
        history: all messages, none, or only the `last` turn.
        authors: if not `None`, only the messages of these agents.
        excluded: the agents whose messages are left out.
        user: true if the model receives the user's messages of earlier turns.
        earlier: true if it receives any messages of earlier turns.
        files: true if it receives images and other files.
        keys: state keys that it receives, too.
        wholesale: true if all other agents' messages are left out, not by name: by `none`, `.reads`,
            `from_state` or `template`.
        unknown: true if a user's function decides.
        message: true if the current user message is certainly sent as the user wrote it.
        context_name: the name of the context in messages.
    """

    history: Literal["all", "none", "last"] = "all"
    authors: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    user: bool = True
    earlier: bool = True
    files: bool = True
    keys: tuple[str, ...] = ()
    wholesale: bool = False
    unknown: bool = False
    message: bool = True
    context_name: str = "C.default()"

    def receives(self, speaker: Step, listener: Step) -> Tristate:
        """The answer whether the listener receives the message of a speaker that ran before it."""
        return self.admits(speaker) if branch_is_visible(speaker.branch, listener.branch) else "no"

    @property
    def is_whole(self) -> bool:
        """True if the model receives the messages of all agents."""
        return self.history == "all" and self.authors is None and not self.excluded and not self.unknown

    def admits(self, speaker: Step) -> Tristate:
        """The answer whether the context lets the speaker's messages through, whatever their branches."""
        if self.history == "none":
            return "no"
        names = {speaker.origin, speaker.name}
        if self.authors is not None and not names & self.authors:
            return "no"
        if names & self.excluded:
            return "no"
        return "maybe" if self.unknown or self.history == "last" else "yes"


EVERYTHING: Final = VisibleHistory()
LAST_TURN: Final = VisibleHistory(history="last", earlier=False, context_name='include_contents("none")')


def visible_history(node: Any) -> VisibleHistory:
    """The part of the conversation that the agent of this node receives."""
    if not agent_of(node):
        return EVERYTHING
    spec = node.annotations.context
    if isinstance(spec, Context):
        return _history_in_view(spec)
    return LAST_TURN if node.given.get("include_contents") == "none" else EVERYTHING


@lru_cache(maxsize=512)
def _history_in_view(spec: Context) -> VisibleHistory:
    view = spec.view()
    return VisibleHistory(
        "none" if view.history == "none" else "all",
        authors=view.authors,
        excluded=view.excluded,
        user=view.user,
        earlier=view.history != "none" and view.turns != 1,
        files=view.files,
        keys=view.keys,
        wholesale=view.history == "none",
        unknown=view.unknown,
        message=view.message,
        context_name=repr(spec),
    )


# --- the models that receive a message ------------------------------------------------------------


_SEPARATING: Final = (*ONE_COUNTS, InParallel)
"""The ways to run children in which only one runs, or all run at the same time."""


class Audience:
    """The listeners of a tree, indexed by the speakers whose messages they receive.

    Args:
        models: every model step.
        turn_speakers: the speakers of the current turn for a model that receives only that.
    """

    def __init__(
        self, models: Iterable[Step], turn_speakers: Callable[[Step], Mapping[Step | None, bool]]
    ) -> None:
        self._last_speakers: set[Step | None] = set()
        self._unrestricted = _Listeners()
        self._by_author: dict[str, _Listeners] = {}
        for model in sorted(models, key=_index):
            visible = visible_history(model.node)
            if visible.history == "none":
                continue
            if visible.history == "last":
                speakers = turn_speakers(model)
                self._last_speakers |= speakers.keys() - {*concurrent_speakers(speakers), model}
                continue
            if visible.authors is None:
                self._unrestricted.add(model)
            for name in visible.authors or ():
                self._by_author.setdefault(name, _Listeners()).add(model)

    def has_listener(self, speaker: Step) -> bool:
        """True if a model that may run later receives the speaker's message."""
        if speaker in self._last_speakers:
            return True
        for listeners in (
            self._unrestricted,
            self._by_author.get(speaker.origin),
            self._by_author.get(speaker.name),
        ):
            if listeners and (
                _any_receives(speaker, listeners.on_branches) or _any_receives(speaker, listeners.on_root)
            ):
                return True
        return False


def concurrent_speakers(speakers: Iterable[Step | None]) -> list[Step]:
    """The last speakers that run at the same time: a model that receives one turn gets only one of them."""
    steps = [speaker for speaker in speakers if speaker]
    found = {one for one in steps for other in steps if one is not other and _both_speak(one, other)}
    return sorted(found, key=_index)


def _both_speak(one: Step, other: Step) -> bool:
    """True if two steps run at the same time, and both to their end."""
    place = separating_composite(one, other)
    return (
        place is not None and isinstance(place.node.runs, InParallel) and place.node.merge != "first_complete"
    )


class _Listeners:
    """Models in order of their steps; those on the root branch receive the messages of all branches."""

    def __init__(self) -> None:
        self.on_root: list[Step] = []
        self.on_branches: list[Step] = []

    def add(self, model: Step) -> None:
        """Add the next model in order."""
        (self.on_branches if model.branch else self.on_root).append(model)


def _any_receives(speaker: Step, listeners: list[Step]) -> bool:
    """True if a listener receives the speaker's message; jumps over composites that do not run after it."""
    index = bisect_left(listeners, first_after(speaker), key=_index)
    while index < len(listeners):
        listener = listeners[index]
        if speaker.branch and listener.branch and listener.index >= _branch_end(speaker):
            return False  # this listener and all after it are on other conversation branches
        place = separating_composite(speaker, listener)
        if place is not None:
            index = bisect_left(listeners, place.end, lo=index + 1, key=_index)
        elif listener is not speaker and visible_history(listener.node).receives(speaker, listener) != "no":
            return True
        else:
            index += 1
    return False


def _index(step: Step) -> int:
    return step.index


def _branch_end(speaker: Step) -> int:
    """The index after the last step on the speaker's conversation branch."""
    inner = speaker
    for outer in speaker.above():
        if len(outer.branch) < len(speaker.branch):
            break
        inner = outer
    return inner.end


def separating_composite(speaker: Step, listener: Step) -> Step | None:
    """The innermost composite around both, if only one of its children runs, or all at the same time."""
    around = set(speaker.above())
    shared = next((outer for outer in listener.above() if outer in around), None)
    return shared if shared is not None and isinstance(shared.node.runs, _SEPARATING) else None


# --- what a model receives ------------------------------------------------------------------------


def received_speakers(flow: Flow, listener: Step) -> Mapping[Step, bool]:
    """The speakers whose messages may be in the request of a model; true if certain.

    Values from state, in a placeholder or through a key of the context, do not count.
    """
    visible = visible_history(listener.node)
    if visible.is_whole:
        return flow.speakers(listener)
    if visible.history == "none":
        return {}
    if visible.history == "last":
        return {speaker: certain for speaker, certain in flow.turn_speakers(listener).items() if speaker}
    found: dict[Step, bool] = {}
    for speaker, certain in flow.speakers(listener).items():
        answer = visible.admits(speaker)
        if answer != "no":
            found[speaker] = certain and answer == "yes"
    return found


def message_reaches(flow: Flow, speaker: Step, listener: Step) -> Tristate:
    """The answer whether the listener receives the message of a speaker that ran before it."""
    visible = visible_history(listener.node)
    if visible.history != "last":
        return visible.receives(speaker, listener)
    certain = flow.turn_speakers(listener).get(speaker)
    return "no" if certain is None else "yes" if certain else "maybe"


def receives_user_message(flow: Flow, listener: Step) -> Tristate:
    """The answer whether the current user message is in the request of a model, as the user wrote it."""
    visible = visible_history(listener.node)
    if visible.history != "last":
        return "yes" if visible.message else "maybe"
    certain = flow.turn_speakers(listener).get(None)
    return "no" if certain is None else "yes" if certain else "maybe"


def received_earlier_speakers(flow: Flow, listener: Step) -> Set[Step]:
    """The speakers whose messages of earlier runs of the session may be in the request of a model."""
    visible = visible_history(listener.node)
    if not visible.earlier:
        return frozenset()
    speakers = flow.earlier_speakers(listener)
    return speakers if visible.is_whole else {s for s in speakers if visible.admits(s) != "no"}
