"""The conversation at one point of a run: its possible speakers, and the last one.

A `History` is a linked list that grows at its end: `WithMessage` adds one message, `AnyOf` and `AllOf`
join alternatives and parallel branches. States share these lists, so a fork costs nothing.
`possible_speakers` collects the speakers only when a check asks, and keeps the result for each join,
because many listeners share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from adk_fluent.analysis.plan import Branch, Step

MAX_LAST_SPEAKERS: Final = 64
"""The most last speakers that are kept, for example after so many optional steps in a row."""


@dataclass(frozen=True, slots=True, eq=False)
class WithMessage:
    """A history that continues `before` with a message of `step`, on a branch; optional if not `certain`."""

    step: Step
    branch: Branch
    certain: bool
    before: History | None


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    """A history that is one of several."""

    ways: tuple[History | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """A history of several conversations that took place at the same time."""

    ways: tuple[History | None, ...]


History = WithMessage | AnyOf | AllOf


class ConversationSoFar(NamedTuple):
    """The conversation at one point.

    Attributes:
        history: all messages so far.
        last: the possible last speakers: the next model is the first to react to them.
        edges: steps whose answer is streamed to the step directly after them.
    """

    history: History | None = None
    last: tuple[Step, ...] = ()
    edges: tuple[Step, ...] = ()

    def with_message(self, step: Step, branch: Branch, *, certain: bool = True) -> ConversationSoFar:
        """The conversation after `step` has spoken on a branch."""
        last = (step,) if certain else _union([(step,), self.last])
        return ConversationSoFar(WithMessage(step, branch, certain, self.history), last)

    @classmethod
    def either(cls, ways: Sequence[ConversationSoFar]) -> ConversationSoFar:
        """The conversation after one of several."""
        first = ways[0]
        if all(way is first for way in ways):
            return first
        history = first.history
        if any(way.history is not history for way in ways):
            history = AnyOf(tuple(way.history for way in ways))
        return cls(history, _union([t.last for t in ways]), _union([t.edges for t in ways]))

    @classmethod
    def both(cls, ways: Sequence[ConversationSoFar], before: ConversationSoFar) -> ConversationSoFar:
        """The conversation after several at the same time, each of which continued `before`."""
        spoke = [way for way in ways if way.history is not before.history]
        if not spoke:
            return before._replace(edges=())
        history = AllOf(tuple(way.history for way in spoke)) if len(spoke) > 1 else spoke[0].history
        return cls(history, _union([t.last for t in spoke]), _union([t.edges for t in spoke]))


def _union(groups: Sequence[tuple[Step, ...]]) -> tuple[Step, ...]:
    return tuple(dict.fromkeys(step for group in groups for step in group))[:MAX_LAST_SPEAKERS]


SpeakerOnBranch = tuple[Step, Branch]
"""A step that speaks, and the branch; after a transfer it may speak on the branch of the transfer."""


Known = dict["AnyOf | AllOf", "dict[SpeakerOnBranch, bool]"]
"""The speakers of each join in a history, found once for all listeners."""


def possible_speakers(
    situations: Sequence[tuple[History | None, Branch]], known: Known | None = None
) -> Mapping[Step, bool]:
    """The speakers whose messages may be in the history of a listener, in any of several situations.

    Args:
        situations: the history and the branch of the listener, once per situation.
        known: the speakers of the joins that were found for other listeners; this function adds to it.

    Returns:
        Speaker → true if the message is there in every situation.
    """
    known = {} if known is None else known
    ways: list[dict[Step, bool]] = []
    for history, branch in situations:
        way: dict[Step, bool] = {}
        for (step, spoken_on), certain in _speakers_by_branch(history, known).items():
            if branch_is_visible(spoken_on, branch):
                way[step] = way.get(step, False) or certain
        ways.append(way)
    return ways[0] if len(ways) == 1 else _one_of(ways)


def turn_speakers(
    situations: Sequence[tuple[History | None, Branch]], listener: Step
) -> Mapping[Step | None, bool]:
    """The speakers for a model that receives only the current turn (`include_contents="none"`).

    The turn starts with the last message of the user or of another agent. The model's own messages since then
    belong to it.

    Args:
        situations: the history and the branch of the listener, once per situation.
        listener: the model.

    Returns:
        Speaker, `None` for the user → true if the message is there in every situation.
    """
    found: dict[Step | None, None] = {}
    for history, branch in situations:
        pending, seen = [history], set[History]()
        while pending:
            entry = pending.pop()
            if entry is None:
                found[None] = None
            elif entry not in seen:
                seen.add(entry)
                if not isinstance(entry, WithMessage):
                    pending += entry.ways
                    continue
                received = branch_is_visible(entry.branch, branch)
                if received:
                    found[entry.step] = None
                if not (received and entry.certain) or entry.step is listener:
                    pending.append(entry.before)
    certain = len(found) - (listener in found) == 1
    return {speaker: certain and speaker is not listener for speaker in found}


def branch_is_visible(spoken_on: Branch, branch: Branch) -> bool:
    """True if a listener on `branch` receives messages of the branch `spoken_on`."""
    return branch[: len(spoken_on)] == spoken_on or not branch


def _speakers_by_branch(history: History | None, known: Known) -> dict[SpeakerOnBranch, bool]:
    """All speakers of a history: true if certain. Not recursive, because histories can be long."""
    latest, before = _since_fork(history)
    pending = [before] if before is not None else []
    while pending:
        fork = pending[-1]
        parts = [_since_fork(way) for way in fork.ways]
        missing = [join for _, join in parts if join is not None and join not in known]
        if fork in known or not missing:
            pending.pop()
        pending += missing
        if not missing and fork not in known:
            ways = [_all_of([known[join], latest_of]) if join else latest_of for latest_of, join in parts]
            known[fork] = _one_of(ways) if isinstance(fork, AnyOf) else _all_of(ways)
    return latest if before is None else _all_of([known[before], latest])


def _since_fork(history: History | None) -> tuple[dict[SpeakerOnBranch, bool], AnyOf | AllOf | None]:
    """The speakers since the last join of a history, and that join."""
    latest: dict[SpeakerOnBranch, bool] = {}
    while isinstance(history, WithMessage):
        speaker = (history.step, history.branch)
        latest[speaker] = latest.get(speaker, False) or history.certain
        history = history.before
    return latest, history


V = TypeVar("V")


def _one_of(ways: Sequence[Mapping[V, bool]]) -> dict[V, bool]:
    """The speakers if one of the ways was taken: certain if certain on each."""
    first, *others = ways or [{}]
    merged: dict[V, bool] = dict(first)
    for way in others:
        for speaker, certain in merged.items():
            merged[speaker] = certain and way.get(speaker, False)
        for speaker in way:
            merged.setdefault(speaker, False)
    return merged


def _all_of(ways: Sequence[Mapping[V, bool]]) -> dict[V, bool]:
    """The speakers if all ways were taken: certain if certain on one."""
    merged: dict[V, bool] = {}
    for way in ways:
        for speaker, certain in way.items():
            merged[speaker] = certain or merged.get(speaker, False)
    return merged
