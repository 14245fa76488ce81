"""The base of the `A` operations, their stored form, and the operation that runs others (`A.when`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self, cast

from adk_fluent.artifacts.requests import Work
from adk_fluent.ir.annotations import ArtifactSpec
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.keys import ArtifactUse, KeyReads, declared
from adk_fluent.ir.nodes import ArtifactNode
from adk_fluent.ir.predicates import Predicate, StateView, holds
from adk_fluent.state.delta import ReadOnlyState
from adk_fluent.state.effects import Effect, OneOf
from adk_fluent.state.operations.base import Described


class ArtifactOperation(Described, ArtifactSpec):
    """Base of the `A` operations.

    A subclass runs the operation (`work`) and declares its uses of artifacts (`_using`), in addition to the
    declarations of `Described`.
    """

    def __init_subclass__(cls) -> None:
        if cls.name:
            OPERATIONS[cls.name] = cls

    def work(self, state: StateView) -> Work:
        """Run the operation: yield requests to the artifact service, and return the changes of the state.

        Raises:
            ArtifactError: a value, or the content of a file, has the wrong shape.
            MissingKeyError: a state key that the operation needs is not set.
        """
        yield from ()
        return {}

    def _using(self) -> Iterable[ArtifactUse]:
        return ()

    @property
    def artifacts(self) -> tuple[ArtifactUse, ...]:
        return tuple(self._using())

    @property
    def step_label(self) -> str:
        return self.name

    def as_stored(self) -> Stored:
        given = self.given
        return Stored(self.name, tuple((field, given[field]) for field in self._defaults if field in given))

    @classmethod
    def restored(cls, params: Mapping[str, Any]) -> Self:
        """Restore the operation that was stored with these parameters."""
        return cls(**params)


OPERATIONS: Final[dict[str, type[ArtifactOperation]]] = {}
"""The class of every operation, by name. Python adds a class when it defines it."""


@frozen
class Stored(Frozen):
    """The stored form of an operation: its name and the parameters that were given."""

    __module__ = "adk_fluent.artifacts.operations"  # stored graphs name the class by this module

    name: str
    params: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> ArtifactOperation:
        stored = cls(**values)
        found = OPERATIONS.get(stored.name)
        if found is None:
            raise ValueError(f"A has no operation {stored.name!r}")
        return found.restored(dict(stored.params))


# --- shared by the operations ---------------------------------------------------------------------


def operation_at(state: StateView, operation: str) -> str:
    """The step and operation that a message is about: `Step 'publish': A.publish`.

    Outside a run there is no step, so it is the operation alone.
    """
    place = str(getattr(state, "place", ""))
    return f"{place[0].upper()}{place[1:]}: A.{operation}" if place else f"A.{operation}"


# --- an operation that runs others ----------------------------------------------------------------


@frozen
class ConditionalOperations(ArtifactOperation):
    """Runs other operations if a predicate holds (`A.when`)."""

    name: ClassVar[str] = "when"
    test: Predicate
    steps: tuple[ArtifactNode, ...]

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
