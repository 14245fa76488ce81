"""Find whether any later model receives a speaker's message, without comparing all pairs of steps.

The listeners are kept in order of their steps. A search starts at the first one that can run after the
speaker, and jumps over composites of which only one child runs, or all run at the same time as the speaker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from adk_fluent.analysis.plan import Step, first_after
from adk_fluent.analysis.talk.sight import sight_of
from adk_fluent.ir.execution import ONE_COUNTS, InParallel

_APART: Final = (*ONE_COUNTS, InParallel)
"""The ways to run children in which only one runs, or all run at the same time."""


class Audience:
    """The listeners of a tree, indexed by the speakers whose messages they receive.

    Args:
        models: every model step.
        turn: the speakers of the current turn for a model that receives only that; see `Flow.turn`.
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
        """True if a model that may run later receives the speaker's message."""
        if speaker in self._last:
            return True
        for listeners in (self._open, self._named.get(speaker.origin), self._named.get(speaker.name)):
            if listeners and (_sees(speaker, listeners.on_branches) or _sees(speaker, listeners.on_root)):
                return True
        return False


def talked_over(turn: Iterable[Step | None]) -> list[Step]:
    """The last speakers that run at the same time: a model that receives one turn gets only one of them."""
    speakers = [speaker for speaker in turn if speaker]
    found = {one for one in speakers for other in speakers if one is not other and _both_speak(one, other)}
    return sorted(found, key=_index)


def _both_speak(one: Step, other: Step) -> bool:
    """True if two steps run at the same time, and both to their end."""
    place = apart(one, other)
    return (
        place is not None and isinstance(place.node.runs, InParallel) and place.node.merge != "first_complete"
    )


class _Listeners:
    """Models in order of their steps. Those on the root branch are kept apart: they hear all branches."""

    def __init__(self) -> None:
        self.on_root: list[Step] = []
        self.on_branches: list[Step] = []

    def add(self, model: Step) -> None:
        """Add the next model in order."""
        (self.on_branches if model.branch else self.on_root).append(model)


def _sees(speaker: Step, listeners: list[Step]) -> bool:
    """True if a listener receives the speaker's message; jumps over composites that do not run after it."""
    index = bisect_left(listeners, first_after(speaker), key=_index)
    while index < len(listeners):
        listener = listeners[index]
        if speaker.branch and listener.branch and listener.index >= _branch_end(speaker):
            return False  # this listener and all after it are on other conversation branches
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
    """The index after the last step on the speaker's conversation branch."""
    inner = speaker
    for outer in speaker.above():
        if len(outer.branch) < len(speaker.branch):
            break
        inner = outer
    return inner.end


def apart(speaker: Step, listener: Step) -> Step | None:
    """The innermost composite around both, if only one of its children runs, or all at the same time."""
    around = set(speaker.above())
    shared = next((outer for outer in listener.above() if outer in around), None)
    return shared if shared is not None and isinstance(shared.node.runs, _APART) else None
