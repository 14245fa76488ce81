"""Who may hear a speaker later on, found without asking everybody."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from adk_fluent.analysis.plan import Step, first_after
from adk_fluent.analysis.talk.sight import sight_of
from adk_fluent.ir.execution import ONE_COUNTS, InParallel

_APART: Final = (*ONE_COUNTS, InParallel)
"""Of the children of these only one runs, or all run at the same time."""


class Audience:
    """The models of a tree, by whom they are shown.

    Args:
        models: every model step.
        turn: whom a model that sees the current turn only hears in it; see `Flow.turn`.
    """

    def __init__(self, models: Iterable[Step], turn: Callable[[Step], Mapping[Step | None, bool]]) -> None:
        self._last: set[Step | None] = set()
        self._open = _Listeners()
        self._named: dict[str, _Listeners] = {}
        for model in sorted(models, key=_index):
            sight = sight_of(model.node)
            if sight.history == "none":
                continue
            if sight.history == "last":
                heard = turn(model)
                self._last |= heard.keys() - {*talked_over(heard), model}
                continue
            if sight.authors is None:
                self._open.add(model)
            for name in sight.authors or ():
                self._named.setdefault(name, _Listeners()).add(model)

    def hears(self, speaker: Step) -> bool:
        """Whether a model that may run later is shown what the speaker says."""
        if speaker in self._last:
            return True
        for listeners in (self._open, self._named.get(speaker.origin), self._named.get(speaker.name)):
            if listeners and (_sees(speaker, listeners.on_branches) or _sees(speaker, listeners.on_root)):
                return True
        return False


def talked_over(turn: Iterable[Step | None]) -> list[Step]:
    """Those of the last speakers who speak at the same time: a model that sees the turn only hears one."""
    speakers = [speaker for speaker in turn if speaker]
    found = {one for one in speakers for other in speakers if one is not other and _both_speak(one, other)}
    return sorted(found, key=_index)


def _both_speak(one: Step, other: Step) -> bool:
    """Whether two steps run at the same time, and both to their end."""
    place = apart(one, other)
    return (
        place is not None and isinstance(place.node.runs, InParallel) and place.node.merge != "first_complete"
    )


class _Listeners:
    """Models in order; those on the root branch of the conversation, which hear all, by themselves."""

    def __init__(self) -> None:
        self.on_root: list[Step] = []
        self.on_branches: list[Step] = []

    def add(self, model: Step) -> None:
        """One more model; they come in order."""
        (self.on_branches if model.branch else self.on_root).append(model)


def _sees(speaker: Step, listeners: list[Step]) -> bool:
    """Look at listeners in order, jumping over places whose steps do not run after the speaker."""
    index = bisect_left(listeners, first_after(speaker), key=_index)
    while index < len(listeners):
        listener = listeners[index]
        if speaker.branch and listener.branch and listener.index >= _branch_end(speaker):
            return False  # it is on another conversation branch, and so are all after it
        place = apart(speaker, listener)
        if place is not None:
            index = bisect_left(listeners, place.end, lo=index + 1, key=_index)
        elif listener is not speaker and sight_of(listener.node).sees(speaker, listener) != "no":
            return True
        else:
            index += 1
    return False


def _index(step: Step) -> int:
    return step.index


def _branch_end(speaker: Step) -> int:
    """Where the conversation branch of the speaker ends, as an index of steps."""
    inner = speaker
    for outer in speaker.above():
        if len(outer.branch) < len(speaker.branch):
            break
        inner = outer
    return inner.end


def apart(speaker: Step, listener: Step) -> Step | None:
    """The innermost place around both, if of its children only one runs, or all at the same time."""
    around = set(speaker.above())
    shared = next((outer for outer in listener.above() if outer in around), None)
    return shared if shared is not None and isinstance(shared.node.runs, _APART) else None
