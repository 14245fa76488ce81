"""The possible effects of a subtree on the state, for parallel branches and for attempts that failed.

In both cases any part of the subtree may have run. So the order of its steps does not matter here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import ABSENT, PRESENT, STATUS, UNKNOWN, Fact, Why, WrittenIn
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.nodes import CALLBACK_FIELDS, AgentNode, agent_of
from adk_fluent.ir.state_keys import is_session_scoped
from adk_fluent.state.effects import Keeps, Transform, all_effects


@dataclass(frozen=True, slots=True)
class Effects:
    """The possible effects of a subtree on the state.

    Attributes:
        writes: key → the last step that may write it.
        removes: session key → the step that may remove it.
        clears: the step that may remove all session keys but some; `None` without one.
        unknown: a step that may write anything; `None` without one.
        pauses: a step at which the run may stop for a person; `None` without one.
    """

    writes: Mapping[str, Step] = field(default_factory=dict[str, Step])
    removes: Mapping[str, Step] = field(default_factory=dict[str, Step])
    clears: Step | None = None
    unknown: Step | None = None
    pauses: Step | None = None


class StepKeys:
    """The effects of the steps of a plan, each computed once."""

    def __init__(self) -> None:
        self._writes: dict[Step, tuple[str, ...]] = {}
        self._effects: dict[Step, Effects] = {}

    def writes(self, step: Step) -> tuple[str, ...]:
        """The keys that the step itself names as written, in a stable order."""
        found = self._writes.get(step)
        if found is None:
            found = self._writes[step] = step.node.key_writes
        return found

    def effects(self, step: Step) -> Effects:
        """The possible effects of the step and of all steps inside it."""
        found = self._effects.get(step)
        if found is None:
            node = step.node
            if agent_of(node) is not None and _BESIDE.isdisjoint(node.given) and not step.children:
                found = Effects(dict.fromkeys(self.writes(step), step))  # most steps: no need to look further
            else:
                self._effects[step] = Effects()  # a transfer may lead back here
                found = self._inside(step)
            self._effects[step] = found
        return found

    def _inside(self, step: Step) -> Effects:
        node = step.node
        writes: dict[str, Step] = {}
        removes: dict[str, Step] = {}
        clears = unknown = pauses = None
        for child in (*step.children, *([step.target] if step.target else ())):
            inner = self.effects(child)
            writes |= inner.writes
            removes |= inner.removes
            clears, unknown = clears or inner.clears, unknown or inner.unknown
            pauses = pauses or inner.pauses
        if node.may_pause:
            pauses = step
        if isinstance(node, Transform):
            for effect in all_effects(node):
                removes |= dict.fromkeys(effect.may_remove, step)
                if isinstance(effect, Keeps):
                    clears = step
            if not node.access.writes_known:
                unknown = step
        else:
            if (agent := agent_of(node)) is not None:
                removes |= dict.fromkeys(nullable(agent), step)
            if node.undeclared()[1]:
                unknown = step
        writes |= dict.fromkeys(self.writes(step), step)
        return Effects(writes, removes, clears, unknown, pauses)


_BESIDE: Final = CALLBACK_FIELDS | {
    "annotations",
    "declared_writes",
    "output_schema",
    "tools",
    "written_fields",
}
"""The fields of an agent by which it may write other keys, or leave its output key without a value."""


def nullable(node: AgentNode) -> tuple[str, ...]:
    """The keys that an agent's answer may leave without a value, because their type allows `None`."""
    given = node.given
    if "written_fields" not in given and "output_schema" not in given:
        return ()
    fields = node.written_fields
    if len(fields) == 1 and fields[0].is_text:
        return ()
    if fields or node.output_schema is UNSET:
        return tuple(field.key for field in fields if field.allows_none)
    if type(None) not in get_args(node.output_schema):
        return ()
    return (node.output_key,) if isinstance(node.output_key, str) else ()


# --- parallel branches ----------------------------------------------------------------------------
# Branches run at the same time. Before any step of one branch, another may have run completely, in part or
# not at all. So `Knowledge` adds the effects of all other branches to each fact that a branch looks up.


class Siblings:
    """The effects of all branches of a parallel step, indexed by key."""

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
        """The fact about a key that branch `own` has not changed, after any part of the other branches.

        Args:
            base: the fact at the start of the parallel step.
        """
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
            either.type = None  # the type of another branch's value is not known
            return either
        writers = tuple(self._effects[index].writes[key] for index in others)
        why = Why("sibling", self.step, writers)
        return Fact(mask, base.writers + writers, (), None, why, of=(base, beside))

    def may_touch(self, key: str) -> bool:
        """True if a branch may write or remove this key."""
        return bool(key in self._writes or key in self._removes or self._unknown or self._clears)

    def removes_from(self, key: str, writers: Sequence[int]) -> bool:
        """True if a branch may remove a key that one of these other branches wrote."""
        removers = [*self._removes.get(key, ())[:2], *(self._clears[:2] if is_session_scoped(key) else ())]
        return any(writer != remover for remover in removers for writer in writers[:2])

    @property
    def keys(self) -> set[str]:
        """Every key that a branch certainly or possibly writes or removes by name."""
        return {*self._writes, *self._removes}


def _others(indices: Sequence[int], own: int) -> list[int]:
    """The first few of these branches, without `own`. A few are enough for a message."""
    return [index for index in indices[:4] if index != own]
