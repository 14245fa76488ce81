"""What the branches of a parallel step may do to each other's keys."""

from __future__ import annotations

from collections.abc import Sequence

from adk_fluent.analysis.keys.effects import Effects
from adk_fluent.analysis.origins import WrittenIn
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import ABSENT, PRESENT, STATUS, UNKNOWN, Fact, Why
from adk_fluent.ir.state_keys import is_session_scoped


class Siblings:
    """What the other branches of a parallel step may do while one runs."""

    __slots__ = ("_clears", "_effects", "_removes", "_unknown", "_writes", "step")

    def __init__(self, step: Step, effects: Sequence[Effects]) -> None:
        self.step: Step = step
        self._effects = effects
        self._writes: dict[str, list[int]] = {}
        self._removes: dict[str, list[int]] = {}
        for index, effect in enumerate(effects):
            for key in effect.writes:
                self._writes.setdefault(key, []).append(index)
            for key in effect.removes:
                self._removes.setdefault(key, []).append(index)
        self._unknown = [index for index, effect in enumerate(effects) if effect.unknown]
        self._clears = [index for index, effect in enumerate(effects) if effect.clears]

    def over(self, key: str, base: Fact, own: int) -> Fact:
        """What branch `own` knows about a key that it has not touched itself."""
        mask = base.mask
        others = _others(self._writes.get(key, ()), own)
        if others:
            mask |= PRESENT
        if _others(self._removes.get(key, ()), own):
            mask |= ABSENT
        if _others(self._clears, own) and is_session_scoped(key):
            mask |= ABSENT
        unknown = _others(self._unknown, own)
        if unknown and mask & STATUS != PRESENT:
            mask |= UNKNOWN
        beside = WrittenIn(self.step, key, self.step.children[own])
        if mask == base.mask:
            if not others and not unknown:
                return base
            either = base.or_else(beside)
            either.type = None  # of what another branch writes instead, nothing is known
            return either
        writers = tuple(self._effects[index].writes[key] for index in others)
        why = Why("sibling", self.step, writers)
        return Fact(mask, base.writers + writers, (), None, why, of=(base, beside))

    def may_touch(self, key: str) -> bool:
        """Whether any branch may write or remove this key."""
        return bool(key in self._writes or key in self._removes or self._unknown or self._clears)

    def removes_from(self, key: str, writers: Sequence[int]) -> bool:
        """Whether a branch may remove a key that another of these branches wrote."""
        removers = [*self._removes.get(key, ())[:2], *(self._clears[:2] if is_session_scoped(key) else ())]
        return any(writer != remover for remover in removers for writer in writers[:2])

    @property
    def keys(self) -> set[str]:
        """Every key that some branch names as written or removed."""
        return {*self._writes, *self._removes}


def _others(indices: Sequence[int], own: int) -> list[int]:
    """The first few indices of other branches than one's own."""
    return [index for index in indices[:4] if index != own]
