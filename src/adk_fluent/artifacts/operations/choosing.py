"""The operation that runs others: `when`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, cast

from adk_fluent.artifacts.asking import Work
from adk_fluent.artifacts.operations.base import ArtifactOperation
from adk_fluent.ir.files import ArtifactUse
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyReads, declared
from adk_fluent.ir.matching import Predicate, StateView, holds
from adk_fluent.ir.nodes import ArtifactNode
from adk_fluent.state.delta import ReadOnlyState
from adk_fluent.state.effects import Effect, OneOf

Steps = tuple[ArtifactNode, ...]


@frozen
class When(ArtifactOperation):
    """Runs some operations if a predicate holds."""

    name: ClassVar[str] = "when"
    test: Predicate
    steps: Steps

    def work(self, state: StateView) -> Work:
        if not holds(self.test, state, "A.when"):
            return {}
        total: dict[str, Any] = {}
        for step in self.steps:
            known = state if isinstance(state, ReadOnlyState) else ReadOnlyState(state)
            view = known.over(total)
            total |= yield from cast(ArtifactOperation, step.operation).work(view)
        return total

    def _reading(self) -> KeyReads:
        yield from declared([self.test], "artifact", "tolerant")
        written = set[str]()
        for step in self.steps:
            for read in step.operation.reads:
                if read.key not in written:
                    yield read._replace(level="tolerant" if read.level == "required" else read.level)
            written.update(step.key_writes)

    def _doing(self) -> Iterable[Effect]:
        return (OneOf(((self.test, self.steps),)),)

    def _using(self) -> Iterable[ArtifactUse]:
        inner = (use for step in self.steps for use in step.operation.artifacts)
        return (use._replace(certain=False, level="tolerant") for use in inner)

    @property
    def wording(self) -> str:
        return f"when: {', then '.join(step.operation.wording for step in self.steps)}"
