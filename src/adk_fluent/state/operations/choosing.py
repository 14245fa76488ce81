"""The operations that run others: `when`, `branch`, and what `+` makes."""

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
class When(StateOperation):
    """Runs some transforms if a predicate holds."""

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
    """Runs the transforms that the value at a key names, or none."""

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
    """Runs all on the same input; what a replacement removes or writes wins over a delta."""

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
