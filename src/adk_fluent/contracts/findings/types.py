"""Findings about the types of values, and the wording of types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from adk_fluent.analysis.facts import KnownType
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.kinds import named, values_of
from adk_fluent.contracts.issues import TypeMismatch
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.spelling import Spelling

_SHOWN: Final = 6
"""The most values that a message names."""


def source(known: KnownType) -> str:
    """The step or schema that gives a value its type, and the type: `a gives text`."""
    if known.field is not None:
        who = f"{known.field.schema.__name__ if known.field.schema else 'the route'} declares"
    else:
        writers = known.read.facts[-1].writers
        who = f"{writers[-1].name if writers else 'the initial state'} gives"
    return f"{who} {shown_type(known.types[-1])}"


def shown_type(kind: object) -> str:
    """A value of a type, as messages name it: `text`, `an int`, `one of 'a', 'b'`."""
    if kind is str:
        return "text"
    if (values := values_of(kind)) is not None and kind is not bool:
        return one_of(values)
    name = named(kind)
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name} as a dict" if hasattr(kind, "model_fields") else f"{article} {name}"


def one_of(values: Sequence[object]) -> str:
    """Some values in words: `one of 'a', 'b'`."""
    more = ", ..." if len(values) > _SHOWN else ""
    return f"one of {', '.join(map(repr, values[:_SHOWN]))}{more}"


def mismatch(step: Step, key: str, why: str, hint: str = "") -> ContractIssue:
    """The finding that a value has a type which its reader cannot use."""
    return TypeMismatch(
        severity=Severity.ERROR,
        agent=step.name,
        key=key,
        message=f'{step.name} cannot use "{key}": {why}',
        hint=hint
        or f'Convert it in between: S.transform("{key}", fn), or make its writer give the right type.',
    )


def nearest(value: object, known: Sequence[object]) -> str:
    """A hint at the value that was probably meant, or at all that are possible."""
    like = Spelling(map(str, known)).like(str(value))
    meant = next((one for one in known if str(one) == like), None)
    return f"It can be {one_of(known)}." if meant is None else f"Did you mean {meant!r}?"
