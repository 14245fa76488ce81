"""Examples of every operation of `S` or `A`, made by the types of its fields: a new one too.

A sampler finds the maker of a field's value by the name of the field, or else by its annotation as the class
writes it. It fails for a field without a maker: add one there, for all operations that have such a field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from adk_fluent.ir import Match, declares

Operation = TypeVar("Operation")
State = Mapping[str, Any]


def _name(kind: Any) -> str:
    return kind.name


def kinds_of(base: type[Operation]) -> list[type[Operation]]:
    """Every operation of the library below a base, in order of their names."""
    found: list[Any] = []
    pending: list[Any] = [base]
    while pending:
        below = pending.pop().__subclasses__()
        found += below
        pending += below
    own = (kind for kind in found if kind.__module__.startswith("adk_fluent.") and kind.name)
    return sorted(own, key=_name)


@dataclass(frozen=True)
class Sampler(Generic[Operation]):
    """Makes operations.

    Attributes:
        random: by which they are chosen.
        keys: the keys that they are about.
        deep: how deep those stand that run others.
    """

    base: ClassVar[type[Any]]
    """What all the operations are."""
    fields: ClassVar[Mapping[str, Callable[[Any], Any]]]
    """The maker of a field's value, by the name of the field or by its annotation."""
    nested: ClassVar[frozenset[str]] = frozenset({"steps", "cases"})
    """The names of fields that hold steps."""

    random: Random
    keys: tuple[str, ...]
    deep: int = 1

    def of(self, kind: type[Operation]) -> Operation:
        """An example of an operation."""
        values: dict[str, Any] = {}
        for field in fields(cast(Any, kind)):
            make = self.fields.get(field.name) or self.fields.get(str(field.type))
            assert make is not None, f"Say in the sampler how to make the {field.type} of {kind.__name__}."
            values[field.name] = make(self)
        return kind(**values)

    def any(self) -> Operation:
        """An example of some operation."""
        return self.of(self.random.choice(kinds_of(self.base)))

    def inside(self) -> list[Operation]:
        """One or two of those that a step may hold, less deep."""
        inner: Self = cast(Any, type(self))(**{**vars(self), "deep": self.deep - 1})
        chosen = [kind for kind in kinds_of(self.base) if self.deep or not self._holds_steps(kind)]
        return [inner.of(self.random.choice(chosen)) for _ in range(self.random.randint(1, 2))]

    def _holds_steps(self, kind: type[Operation]) -> bool:
        return any(field.name in self.nested for field in fields(cast(Any, kind)))

    def key(self) -> str:
        return self.random.choice(self.keys)

    def predicate(self) -> Callable[[State], bool]:
        if self.random.random() < 0.5:
            return Match(self.key(), self.random.choice(("truthy", "eq", "ne", "contains")), "v0")
        key, wanted = self.key(), self.random.random() < 0.5
        return declares(reads=[key])(lambda state: (key in state) is wanted)
