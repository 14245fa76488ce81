"""The operations that run other transforms: `when`, `branch`, and the join of transforms by `+`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from adk_fluent.errors import TransformError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyReads, declared
from adk_fluent.ir.matching import Match, Predicate, StateView, holds
from adk_fluent.state.delta import changes
from adk_fluent.state.effects import AtOnce, Effect, OneOf
from adk_fluent.state.operations.base import Cases, Changes, Key, StateOperation, Steps, chained, each


@frozen
class ConditionalTransform(StateOperation):
    """Runs other transforms if a predicate holds (`S.when`)."""

    name: ClassVar[str] = "when"
    test: Predicate
    steps: Steps

    def __call__(self, state: StateView) -> Changes:
        return chained(state, self.steps) if holds(self.test, state, "S.when") else {}

    def _reading(self) -> KeyReads:
        return declared([self.test], "operation", "tolerant")

    def _doing(self) -> Iterable[Effect]:
        return (OneOf(((self.test, self.steps),)),)


@frozen
class Branch(StateOperation):
    """Runs the transforms of the case that the value of a key names; nothing if there is no such case."""

    name: ClassVar[str] = "branch"
    key: Key
    cases: Cases

    def __call__(self, state: StateView) -> Changes:
        if (value := state.get(self.key)) is None:
            return {}
        label = value.strip() if isinstance(value, str) else str(value)
        return chained(state, next((steps for case, steps in self.cases if case == label), ()))

    def _reading(self) -> KeyReads:
        return each((self.key,))

    def _doing(self) -> Iterable[Effect]:
        return (OneOf(tuple((Match(self.key, "eq", case), steps) for case, steps in self.cases)),)


@frozen
class Together(StateOperation):
    """Runs several transforms on the same input, and merges their changes.

    If one of them replaces state, as `S.pick` does, its changes win over those of the others.
    """

    name: ClassVar[str] = "together"
    steps: Steps

    def __call__(self, state: StateView) -> Changes:
        deltas: dict[str, Any] = {}
        removed: dict[str, None] = {}
        moved: dict[str, Any] = {}
        for step in self.steps:
            delta = changes(step, step.fn(state), state)
            if step.semantics != "merge":
                removed |= {key: None for key, value in delta.items() if value is None}
                moved |= {key: value for key, value in delta.items() if value is not None}
                continue
            if clash := deltas.keys() & delta.keys():
                raise TransformError(
                    f"Two transforms joined by + both write {min(clash)!r}; chain them with >>."
                )
            deltas |= delta
        return deltas | removed | moved

    def _reading(self) -> KeyReads:
        return (read for step in self.steps for read in declared([step.fn], "operation"))

    def _doing(self) -> Iterable[Effect]:
        return (AtOnce(self.steps),)
