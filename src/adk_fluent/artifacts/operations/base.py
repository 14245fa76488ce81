"""What every `A` operation is, and the form in which one is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from adk_fluent.artifacts.asking import Work
from adk_fluent.ir.annotations import ArtifactSpec
from adk_fluent.ir.files import ArtifactUse
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.matching import StateView
from adk_fluent.state.operations.base import Described

# The types of the fields of operations. What a field is called says what it is for; these say what it takes.
Filename = str
Key = str
Pairs = tuple[tuple[str, str], ...]
Mime = str | None
Metadata = tuple[tuple[str, Any], ...]
VersionNumber = int | None
Content = Any


class ArtifactOperation(Described, ArtifactSpec):
    """Base of the `A` operations.

    Beside what each operation says of itself, a subclass says what it does (`work`) and what it does with
    which artifacts (`_using`).
    """

    def __init_subclass__(cls) -> None:
        if cls.name:
            OPERATIONS[cls.name] = cls

    def work(self, state: StateView) -> Work:
        """Do it: yields what it asks of the artifact service, gives what it changes in the state.

        Raises:
            ArtifactError: a value, or the content of a file, has not the shape it needs.
            MissingKeyError: a state key that it needs is not set.
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
        """The operation that was stored with these parameters; what it does follows from them."""
        return cls(**params)


OPERATIONS: Final[dict[str, type[ArtifactOperation]]] = {}
"""Every operation by name; defining its class puts it here."""


@frozen
class Stored(Frozen):
    """An operation as stored graphs hold it: its name and the parameters that differ from their defaults."""

    __module__ = "adk_fluent.artifacts.operations"  # this name stays, wherever the class moves

    name: str
    params: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> ArtifactOperation:
        stored = cls(**values)
        found = OPERATIONS.get(stored.name)
        if found is None:
            raise ValueError(f"A has no operation {stored.name!r}")
        return found.restored(dict(stored.params))


# --- what operations have in common ---------------------------------------------------------------


def asking(state: StateView, operation: str) -> str:
    """Who asks, for messages: `Step 'publish': A.publish`; outside a run the operation alone."""
    place = str(getattr(state, "place", ""))
    return f"{place[0].upper()}{place[1:]}: A.{operation}" if place else f"A.{operation}"
