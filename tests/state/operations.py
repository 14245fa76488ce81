"""Examples of every `S` operation, made by the types of its fields; a new operation is among them by itself.

What a field takes is read from its annotation, as it is written in the class. One with an annotation that is
not in `FIELDS` says so, and is to be added there, once for all operations that will ever have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import Any, Final, cast

from pydantic import BaseModel

from adk_fluent.ir import Access, Match, TransformNode, declares
from adk_fluent.ir.functions import NO_ACCESS
from adk_fluent.state.operations import OPERATIONS, StateOperation

State = Mapping[str, Any]
VALUES: Final = ("v0", "v1")


class Fields(BaseModel):
    """What `validate` may ask for: one key that must be there, one that need not, one that may be `None`."""

    k0: str | int | list[str] | dict[str, object]
    k1: object = None
    k2: str | None


def kinds() -> list[type[StateOperation]]:
    """Every operation of the library."""
    found: list[type[StateOperation]] = []
    pending: list[type[StateOperation]] = [StateOperation]
    while pending:
        below = pending.pop().__subclasses__()
        found += below
        pending += below
    own = (kind for kind in found if kind.__module__.startswith("adk_fluent."))
    return sorted(own, key=lambda kind: kind.name)


def operation_named(name: str) -> type[StateOperation]:
    """The class of one operation."""
    return OPERATIONS[name]


@dataclass(frozen=True)
class Sampler:
    """Makes operations.

    Attributes:
        random: by which they are chosen.
        keys: the keys that they are about.
        deep: how deep those stand that run others.
    """

    random: Random
    keys: tuple[str, ...]
    deep: int = 1

    def of(self, kind: type[StateOperation]) -> StateOperation:
        """An example of an operation."""
        values: dict[str, Any] = {}
        for field in fields(cast(Any, kind)):
            make = FIELDS.get(str(field.type))
            assert make is not None, f"Say in FIELDS how to make the {field.type} of {kind.__name__}."
            values[field.name] = make(self)
        return kind(**values)

    def any(self) -> StateOperation:
        """An example of some operation."""
        return self.of(self.random.choice(kinds()))

    def key(self) -> str:
        return self.random.choice(self.keys)

    def several(self, most: int = 2) -> tuple[str, ...]:
        return tuple(self.random.sample(self.keys, self.random.randint(1, most)))

    def constants(self) -> tuple[tuple[str, object], ...]:
        values = (*VALUES, None, 3, ["v0"], {"x": 1, "y": {"z": 2}})
        return tuple((key, self.random.choice(values)) for key in self.several())

    def pairs(self) -> tuple[tuple[str, str], ...]:
        olds = self.several()
        return tuple(zip(olds, self.random.sample(self.keys, len(olds)), strict=True))

    def predicate(self) -> Callable[[State], bool]:
        if self.random.random() < 0.5:
            return Match(self.key(), self.random.choice(("truthy", "eq", "ne", "contains")), "v0")
        key, wanted = self.key(), self.random.random() < 0.5
        return declares(reads=[key])(lambda state: (key in state) is wanted)

    def reader(self) -> Callable[[State], object]:
        key = self.key()
        return declares(reads=[key])(lambda state: [state.get(key)])

    def steps(self) -> tuple[TransformNode, ...]:
        inner = Sampler(self.random, self.keys, self.deep - 1)
        chosen = [kind for kind in kinds() if self.deep or not inner_of(kind)]
        return tuple(
            TransformNode(fn=inner.of(self.random.choice(chosen))) for _ in range(self.random.randint(1, 2))
        )


def inner_of(kind: type[StateOperation]) -> bool:
    """Whether an operation runs others."""
    return any(str(field.type) in ("Steps", "Cases") for field in fields(cast(Any, kind)))


def _text(value: object) -> str:
    return f"v1 {value}"


def _join(*values: object) -> str:
    return f"v1 {values}"


def _write(state: State) -> State:
    return {"k1": "v1"}


FIELDS: Final[Mapping[str, Callable[[Sampler], Any]]] = {
    "Key": Sampler.key,
    "Keys": Sampler.several,
    "KeySet": lambda made: frozenset(made.several()),
    "Pairs": Sampler.pairs,
    "Constants": Sampler.constants,
    "Number": lambda made: made.random.choice((1, -2, 0.5)),
    "int": lambda made: made.random.randint(1, 3),
    "Text": lambda made: made.random.choice(("", "stop")),
    "ValueFn": lambda made: _text,
    "Combine": lambda made: made.random.choice((None, _join)),
    "Computed": lambda made: tuple((key, made.reader()) for key in made.several()),
    "TransformFn": lambda made: _write,
    "Access": lambda made: made.random.choice((Access(writes=frozenset({"k1"})), NO_ACCESS | _ANYTHING)),
    "Predicate": Sampler.predicate,
    "Steps": Sampler.steps,
    "Cases": lambda made: tuple((value, made.steps()) for value in VALUES),
    "type[BaseModel]": lambda made: Fields,
}
"""How to make what a field takes, by its annotation."""

_ANYTHING: Final = Access(writes_known=False, reads_known=False)


def food(operation: StateOperation, random: Random) -> dict[str, Any]:
    """Values of the types that an operation needs its keys to have."""
    found: dict[str, Any] = {}
    for read in operation.reads:
        if read.type is list:
            found[read.key] = ["v0", "v1"]
        elif read.type is not None:
            found[read.key] = random.choice((3, 0.5))
    return found


def states(random: Random, keys: Iterable[str]) -> dict[str, Any]:
    """A state that holds some of some keys."""
    values = (*VALUES, 3, ["v0", "v1"], {"x": 1, "y": {"z": 2}})
    return {key: random.choice(values) for key in keys if random.random() < 0.6}
