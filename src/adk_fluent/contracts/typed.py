"""What type a value has where it is read: what its writers give, or what a schema says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from adk_fluent.contracts.fact import PRESENT, stored_values
from adk_fluent.contracts.issues import TypeMismatch
from adk_fluent.contracts.kinds import named, values_of
from adk_fluent.contracts.plan import Step
from adk_fluent.contracts.reads import Read
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.contracts.spelling import Spelling
from adk_fluent.ir.fields import StateFieldRef

if TYPE_CHECKING:
    from adk_fluent.contracts.facts import Facts

_SHOWN: Final = 6
"""So many values are named in a message."""


@dataclass(frozen=True, slots=True)
class Known:
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
    def source(self) -> str:
        """Who says so, for a message: `a gives text`."""
        if self.field is not None:
            who = f"{self.field.schema.__name__ if self.field.schema else 'the route'} declares"
        else:
            writers = self.read.facts[-1].writers
            who = f"{writers[-1].name if writers else 'the initial state'} gives"
        return f"{who} {shown_type(self.types[-1])}"

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


def known_type(read: Read, facts: Facts) -> Known | None:
    """What is known of the type of what is read; `None` if nothing is.

    A schema that holds where it is read narrows text, and tells the type of what a function wrote.
    """
    types: list[object] = []
    for fact in read.facts:
        if fact.mask & PRESENT and fact.type not in types:
            types.append(fact.type)
    unknown = not types or None in types
    field = declared(read, facts) if unknown or types == [str] else None
    if field is not None and (unknown or values_of(field.type) is not None):
        return Known((field.type,), read, field)
    return None if unknown else Known(tuple(types), read)


def declared(read: Read, facts: Facts) -> StateFieldRef | None:
    """The schema field that says what is read: named by the step itself, or of a schema bound around it."""
    for field in read.step.node.given.get("read_fields", ()):
        if field.key == read.key:
            return field
    for bound in facts.schemas:
        if bound.holds_for(read.step) and read.key in bound.by_key:
            return bound.by_key[read.key]
    return None


def shown_type(kind: object) -> str:
    """A type as a message names a value of it: `text`, `an int`, `one of 'a', 'b'`."""
    if kind is str:
        return "text"
    if (values := values_of(kind)) is not None and kind is not bool:
        return one_of(values)
    name = named(kind)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name} as a dict" if hasattr(kind, "model_fields") else f"{article} {name}"


def one_of(values: Sequence[object]) -> str:
    """`one of 'a', 'b'`."""
    more = ", ..." if len(values) > _SHOWN else ""
    return f"one of {', '.join(map(repr, values[:_SHOWN]))}{more}"


def mismatch(step: Step, key: str, why: str, hint: str = "") -> ContractIssue:
    """The finding that a value cannot be used as what it is used as."""
    return TypeMismatch(
        severity=Severity.ERROR,
        agent=step.name,
        key=key,
        message=f'{step.name} cannot use "{key}": {why}',
        hint=hint
        or f'Convert it in between: S.transform("{key}", fn), or make its writer give the right type.',
    )


def nearest(value: object, known: Sequence[object]) -> str:
    """Which of a few values was meant."""
    like = Spelling(map(str, known)).like(str(value))
    meant = next((one for one in known if str(one) == like), None)
    return f"It can be {one_of(known)}." if meant is None else f"Did you mean {meant!r}?"
