"""Examples of every `S` operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final

from pydantic import BaseModel

from adk_fluent.ir import Access, TransformNode, declares
from adk_fluent.ir.functions import NO_ACCESS
from adk_fluent.state.operations import StateOperation
from tests import operations
from tests.operations import State, kinds_of

VALUES: Final = ("v0", "v1")


class Fields(BaseModel):
    """A schema for `validate` with a required key, an optional one, and one that may be `None`."""

    k0: str | int | list[str] | dict[str, object]
    k1: object = None
    k2: str | None


def kinds() -> list[type[StateOperation]]:
    """Every operation of the library."""
    return kinds_of(StateOperation)


def _text(value: object) -> str:
    return f"v1 {value}"


def _join(*values: object) -> str:
    return f"v1 {values}"


def _write(state: State) -> State:
    return {"k1": "v1"}


_ANYTHING: Final = Access(writes_known=False, reads_known=False)


@dataclass(frozen=True)
class Sampler(operations.Sampler[StateOperation]):
    """Makes operations."""

    base = StateOperation

    def several(self, most: int = 2) -> tuple[str, ...]:
        return tuple(self.random.sample(self.keys, self.random.randint(1, most)))

    def constants(self) -> tuple[tuple[str, object], ...]:
        values = (*VALUES, None, 3, ["v0"], {"x": 1, "y": {"z": 2}})
        return tuple((key, self.random.choice(values)) for key in self.several())

    def pairs(self) -> tuple[tuple[str, str], ...]:
        olds = self.several()
        return tuple(zip(olds, self.random.sample(self.keys, len(olds)), strict=True))

    def reader(self) -> Callable[[State], object]:
        key = self.key()
        return declares(reads=[key])(lambda state: [state.get(key)])

    def steps(self) -> tuple[TransformNode, ...]:
        return tuple(TransformNode(fn=operation) for operation in self.inside())

    fields: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "str": operations.Sampler[Any].key,
        "message": lambda made: made.random.choice(("", "stop")),
        "label": lambda made: made.random.choice(("", "stop")),
        "tuple[str, ...]": several,
        "frozenset[str]": lambda made: frozenset(made.several()),
        "tuple[tuple[str, str], ...]": pairs,
        "tuple[tuple[str, Any], ...]": constants,
        "int | float": lambda made: made.random.choice((1, -2, 0.5)),
        "int": lambda made: made.random.randint(1, 3),
        "Callable[[Any], Any]": lambda made: _text,
        "Callable[..., Any] | None": lambda made: made.random.choice((None, _join)),
        "tuple[tuple[str, Callable[[StateView], Any]], ...]": lambda made: tuple(
            (key, made.reader()) for key in made.several()
        ),
        "TransformFn": lambda made: _write,
        "Access": lambda made: made.random.choice((Access(writes=frozenset({"k1"})), NO_ACCESS | _ANYTHING)),
        "Predicate": operations.Sampler[Any].predicate,
        "steps": steps,
        "cases": lambda made: tuple((value, made.steps()) for value in VALUES),
        "type[BaseModel]": lambda made: Fields,
    }


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
