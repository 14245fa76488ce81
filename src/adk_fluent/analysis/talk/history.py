"""The conversation at one point of a run: who may have spoken, and who spoke last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from adk_fluent.analysis.plan import Branch, Step

MOST: Final = 64
"""How many last speakers are followed; more than this many optional steps in a row are not told apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """After all that was said `before`, `step` spoke on a branch; if not `certain`, it may have."""

    step: Step
    branch: Branch
    certain: bool
    before: History | None


@dataclass(frozen=True, slots=True, eq=False)
class AnyOf:
    """One of several conversations took place."""

    ways: tuple[History | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AllOf:
    """Several conversations took place at the same time."""

    ways: tuple[History | None, ...]


History = Said | AnyOf | AllOf


class Talk(NamedTuple):
    """The conversation at one point.

    Attributes:
        history: everything said so far.
        last: who spoke last, so that the next model is the first to react.
        edges: steps whose answer is passed on in pieces to whatever comes right after them.
    """

    history: History | None = None
    last: tuple[Step, ...] = ()
    edges: tuple[Step, ...] = ()

    def spoke(self, step: Step, branch: Branch, *, certain: bool = True) -> Talk:
        """After `step` has spoken on a conversation branch."""
        last = (step,) if certain else _union([(step,), self.last])
        return Talk(Said(step, branch, certain, self.history), last)

    @classmethod
    def either(cls, talks: Sequence[Talk]) -> Talk:
        """After one of several."""
        first = talks[0]
        if all(talk is first for talk in talks):
            return first
        history = first.history
        if any(talk.history is not history for talk in talks):
            history = AnyOf(tuple(talk.history for talk in talks))
        return cls(history, _union([t.last for t in talks]), _union([t.edges for t in talks]))

    @classmethod
    def both(cls, talks: Sequence[Talk], before: Talk) -> Talk:
        """After several at the same time, each of which went on from `before`."""
        spoke = [talk for talk in talks if talk.history is not before.history]
        if not spoke:
            return before._replace(edges=())
        history = AllOf(tuple(talk.history for talk in spoke)) if len(spoke) > 1 else spoke[0].history
        return cls(history, _union([t.last for t in spoke]), _union([t.edges for t in spoke]))


def _union(groups: Sequence[tuple[Step, ...]]) -> tuple[Step, ...]:
    return tuple(dict.fromkeys(step for group in groups for step in group))[:MOST]


Voice = tuple[Step, Branch]
"""A step that speaks, on a branch; a transfer may make it speak on another than where it stands."""


Known = dict["AnyOf | AllOf", "dict[Voice, bool]"]
"""Who spoke in conversations that took one of several ways, or several: found once for all listeners."""


def heard(
    situations: Sequence[tuple[History | None, Branch]], known: Known | None = None
) -> Mapping[Step, bool]:
    """Who may have spoken, so that a listener could hear it, in any of several situations.

    Args:
        situations: what was said before the listener ran and the branch it ran on, once per situation.
        known: what was found for other listeners; it grows.

    Returns:
        Speaker → whether it is certain, in every situation.
    """
    known = {} if known is None else known
    ways: list[dict[Step, bool]] = []
    for history, branch in situations:
        way: dict[Step, bool] = {}
        for (step, spoken_on), certain in _voices(history, known).items():
            if audible(spoken_on, branch):
                way[step] = way.get(step, False) or certain
        ways.append(way)
    return ways[0] if len(ways) == 1 else _one_of(ways)


def turn(situations: Sequence[tuple[History | None, Branch]], listener: Step) -> Mapping[Step | None, bool]:
    """Whom a model hears that ADK shows the current turn only.

    The turn starts with what the user or another agent said last. What the model itself said since then
    belongs to it.

    Args:
        situations: what was said before the listener ran and the branch it ran on, once per situation.
        listener: the model.

    Returns:
        Speaker, `None` for the user → whether it is certain, in every situation.
    """
    found: dict[Step | None, None] = {}
    for history, branch in situations:
        pending, seen = [history], set[History]()
        while pending:
            said = pending.pop()
            if said is None:
                found[None] = None
            elif said not in seen:
                seen.add(said)
                if not isinstance(said, Said):
                    pending += said.ways
                    continue
                hears = audible(said.branch, branch)
                if hears:
                    found[said.step] = None
                if not (hears and said.certain) or said.step is listener:
                    pending.append(said.before)
    certain = len(found) - (listener in found) == 1
    return {speaker: certain and speaker is not listener for speaker in found}


def audible(spoken_on: Branch, branch: Branch) -> bool:
    """Whether what is said on one conversation branch is heard on another."""
    return branch[: len(spoken_on)] == spoken_on or not branch


def _voices(history: History | None, known: Known) -> dict[Voice, bool]:
    """Everybody who spoke, and whether certainly; without recursion, since conversations are long."""
    latest, before = _since_fork(history)
    pending = [before] if before is not None else []
    while pending:
        fork = pending[-1]
        pieces = [_since_fork(way) for way in fork.ways]
        missing = [piece[1] for piece in pieces if piece[1] is not None and piece[1] not in known]
        if fork in known or not missing:
            pending.pop()
        pending += missing
        if not missing and fork not in known:
            ways = [_all_of([known[earlier], said]) if earlier else said for said, earlier in pieces]
            known[fork] = _one_of(ways) if isinstance(fork, AnyOf) else _all_of(ways)
    return latest if before is None else _all_of([known[before], latest])


def _since_fork(history: History | None) -> tuple[dict[Voice, bool], AnyOf | AllOf | None]:
    """Who spoke since the conversation last came of several ways, and that place."""
    latest: dict[Voice, bool] = {}
    while isinstance(history, Said):
        voice = (history.step, history.branch)
        latest[voice] = latest.get(voice, False) or history.certain
        history = history.before
    return latest, history


V = TypeVar("V")


def _one_of(ways: Sequence[Mapping[V, bool]]) -> dict[V, bool]:
    everyone = dict.fromkeys(voice for way in ways for voice in way)
    return {voice: all(way.get(voice, False) for way in ways) for voice in everyone}


def _all_of(ways: Sequence[Mapping[V, bool]]) -> dict[V, bool]:
    everyone = dict.fromkeys(voice for way in ways for voice in way)
    return {voice: any(way.get(voice, False) for way in ways) for voice in everyone}
