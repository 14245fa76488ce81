"""What of the conversation an agent is shown, according to its context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.talk.history import audible
from adk_fluent.analysis.walk.steps import Flow
from adk_fluent.context.spec import Context
from adk_fluent.ir.nodes import AgentNode

Answer = Literal["yes", "no", "maybe"]


@dataclass(frozen=True, slots=True)
class Sight:
    """What an agent is shown of what was said before.

    Attributes:
        history: all of it, none of it, or only what was said `last`.
        authors: if not `None`, only what these agents said.
        excluded: not what these agents said.
        user: whether the user's messages of earlier turns are shown.
        earlier: whether anything of earlier turns is shown.
        files: whether images and other files survive.
        keys: state keys that are shown beside it.
        blunt: others' words are left out wholesale, not by name: `none`, `.reads`, `from_state`, `template`.
        unknown: a function of the user decides.
        shown: how a message calls it.
    """

    history: Literal["all", "none", "last"] = "all"
    authors: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    user: bool = True
    earlier: bool = True
    files: bool = True
    keys: tuple[str, ...] = ()
    blunt: bool = False
    unknown: bool = False
    shown: str = "C.default()"

    def sees(self, speaker: Step, listener: Step) -> Answer:
        """Whether the listener is shown what the speaker said, given that it ran before."""
        return self.admits(speaker) if audible(speaker.branch, listener.branch) else "no"

    def admits(self, speaker: Step) -> Answer:
        """Whether what the speaker said is shown, if it can be heard."""
        if self.history == "none":
            return "no"
        names = {speaker.origin, speaker.name}
        if self.authors is not None and not names & self.authors:
            return "no"
        if names & self.excluded:
            return "no"
        return "maybe" if self.unknown or self.history == "last" else "yes"


EVERYTHING: Final = Sight()
LAST_TURN: Final = Sight(history="last", earlier=False, shown='include_contents("none")')


def sight_of(node: Any) -> Sight:
    """What the agent of this node is shown."""
    if not isinstance(node, AgentNode):
        return EVERYTHING
    spec = node.annotations.context
    if isinstance(spec, Context):
        return _sight(spec)
    return LAST_TURN if node.given.get("include_contents") == "none" else EVERYTHING


def shown(flow: Flow, listener: Step) -> Mapping[Step, bool]:
    """Whose text may be in the request of a model, and whether it certainly is.

    What comes in through state, by a placeholder or a key of the context, is not meant.
    """
    sight = sight_of(listener.node)
    found: dict[Step, bool] = {}
    for speaker, certain in flow.speakers(listener).items():
        answer = sight.admits(speaker)
        if answer != "no":
            found[speaker] = certain and answer == "yes"
    return found


def shown_of_earlier(flow: Flow, listener: Step) -> set[Step]:
    """Whose text of earlier runs of the session may be in the conversation that a model is shown."""
    sight = sight_of(listener.node)
    if not sight.earlier:
        return set()
    return {speaker for speaker in flow.earlier_speakers(listener) if sight.admits(speaker) != "no"}


@lru_cache(maxsize=512)
def _sight(spec: Context) -> Sight:
    seen = spec.view()
    return Sight(
        "none" if seen.history == "none" else "all",
        authors=seen.authors,
        excluded=seen.excluded,
        user=seen.user,
        earlier=seen.history != "none" and seen.turns != 1,
        files=seen.files,
        keys=seen.keys,
        blunt=seen.history == "none",
        unknown=seen.unknown,
        shown=repr(spec),
    )
