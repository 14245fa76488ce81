"""Examples of every `A` operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final

from adk_fluent.artifacts.formats import DECODINGS
from adk_fluent.artifacts.operations import ArtifactOperation
from adk_fluent.ir import ArtifactNode
from tests import operations
from tests.operations import kinds_of

ROWS: Final = [{"a": 1, "b": "x"}, {"a": 2}]
VALUES: Final[tuple[Any, ...]] = ("v0", '{"a": [1]}', "a,b\n1,2", "# One\ntext", ROWS, {"x": 1}, 3)
"""Values of all kinds, each of which some operation takes."""


def kinds() -> list[type[ArtifactOperation]]:
    """Every operation of the library."""
    return kinds_of(ArtifactOperation)


@dataclass(frozen=True)
class Sampler(operations.Sampler[ArtifactOperation]):
    """Makes operations.

    Attributes:
        files: the files that they are about.
    """

    base = ArtifactOperation
    files: tuple[str, ...] = ("f",)

    def file(self) -> str:
        return self.random.choice(self.files)

    def pairs(self) -> tuple[tuple[str, str], ...]:
        count = self.random.randint(1, 2)
        keys = self.random.sample(self.keys, count)
        return tuple(zip(self.random.sample(self.files, count), keys, strict=True))

    def steps(self) -> tuple[ArtifactNode, ...]:
        return tuple(ArtifactNode(operation=operation) for operation in self.inside())

    fields: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "filename": file,
        "key": operations.Sampler[Any].key,
        "pairs": pairs,
        "mime": lambda made: made.random.choice((None, "text/markdown", "application/json")),
        "metadata": lambda made: made.random.choice(((), (("by", "me"),))),
        "version": lambda made: made.random.choice((None, None, 0)),
        "content": lambda made: made.random.choice(VALUES),
        "decode": lambda made: made.random.choice(("text", "text", *DECODINGS)),
        "Predicate": operations.Sampler[Any].predicate,
        "steps": steps,
    }


FOOD: Final[Mapping[str, Any]] = {
    "as_csv": ROWS,
    "from_json": '{"a": [1]}',
    "from_csv": "a,b\n1,2",
    "from_markdown": "# One\ntext",
}
"""Operation → a value that it takes, where not every one will do."""


def food(operation: ArtifactOperation) -> dict[str, Any]:
    """Values that an operation needs its keys to have."""
    return {read.key: FOOD.get(operation.name, "v0") for read in operation.reads if read.level == "required"}


def states(random: Random, keys: tuple[str, ...]) -> dict[str, Any]:
    """A state that holds some of some keys."""
    return {key: random.choice(VALUES) for key in keys if random.random() < 0.6}
