"""Findings about the types of values, and how types are worded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.typed import KnownType
from adk_fluent.analysis.values.kinds import named, values_of
from adk_fluent.contracts.issues import TypeMismatch
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.spelling import Spelling

_SHOWN: Final = 6
"""So many values are named in a message."""


def source(known: KnownType) -> str:
    """Who says what type a value has: `a gives text`."""
    if known.field is not None:
        who = f"{known.field.schema.__name__ if known.field.schema else 'the route'} declares"
    else:
        writers = known.read.facts[-1].writers
        who = f"{writers[-1].name if writers else 'the initial state'} gives"
    return f"{who} {shown_type(known.types[-1])}"


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
