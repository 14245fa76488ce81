"""The type of a value at the step that reads it, from its writers or from a schema."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.values.fact import PRESENT, stored_values
from adk_fluent.analysis.values.kinds import values_of
from adk_fluent.analysis.values.read import Read
from adk_fluent.ir.fields import StateFieldRef


@dataclass(frozen=True, slots=True)
class KnownType:
    """The known type of a value that a step reads.

    Attributes:
        types: the possible types.
        read: the read.
        field: the schema field that declares the type; `None` if it comes from the writers.
    """

    types: tuple[object, ...]
    read: Read
    field: StateFieldRef | None = None

    @property
    def values(self) -> tuple[object, ...] | None:
        """All possible values if there are only a few, otherwise `None`."""
        if self.field is not None:
            return values_of(self.field.type)
        values: list[object] = []
        for fact in self.read.facts:
            few = stored_values(fact) if fact.mask & PRESENT else ()
            if few is None:
                return None
            values += [value for value in few if value not in values]
        return tuple(values)


def known_type(read: Read, facts: Facts) -> KnownType | None:
    """The type of the value of a read; `None` if it is not known.

    A schema that applies to the reader narrows text, and gives the type of a value that a function wrote. A
    key that starts as `None` has no value, so it has no type either.
    """
    types: list[object] = []
    for fact in read.facts:
        if fact.mask & PRESENT and fact.type is not NoneType and fact.type not in types:
            types.append(fact.type)
    unknown = not types or None in types
    field = declared(read, facts) if unknown or types == [str] else None
    if field is not None and (unknown or values_of(field.type) is not None):
        return KnownType((field.type,), read, field)
    return None if unknown else KnownType(tuple(types), read)


def declared(read: Read, facts: Facts) -> StateFieldRef | None:
    """The schema field of a read: one that the step itself names, or one of a schema bound around it."""
    for field in read.step.node.given.get("read_fields", ()):
        if field.key == read.key:
            return field
    for bound in facts.schemas:
        if bound.holds_for(read.step) and read.key in bound.by_key:
            return bound.by_key[read.key]
    return None
