"""What type a value has where it is read: what its writers give, or what a schema says."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType

from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.values.fact import PRESENT, stored_values
from adk_fluent.analysis.values.kinds import values_of
from adk_fluent.analysis.values.read import Read
from adk_fluent.ir.state_keys import StateFieldRef


@dataclass(frozen=True, slots=True)
class KnownType:
    """What is known of a value's type.

    Attributes:
        types: it has one of these.
        read: where it is read.
        field: the schema field that says so, if it is not the writers.
    """

    types: tuple[object, ...]
    read: Read
    field: StateFieldRef | None = None

    @property
    def values(self) -> tuple[object, ...] | None:
        """All that it can be, if those are few."""
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
    """What is known of the type of what is read; `None` if nothing is.

    A schema that holds where it is read narrows text, and tells the type of what a function wrote. A key that
    starts as `None` has no value, so it has no type either.
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
    """The schema field that says what is read: named by the step itself, or of a schema bound around it."""
    for field in read.step.node.given.get("read_fields", ()):
        if field.key == read.key:
            return field
    for bound in facts.schemas:
        if bound.holds_for(read.step) and read.key in bound.by_key:
            return bound.by_key[read.key]
    return None
