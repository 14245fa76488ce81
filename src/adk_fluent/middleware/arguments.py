"""Arguments, checked where they are given: one line each that says which one was wrong, and how."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any

from adk_fluent.errors import ArgumentError


def whole(value: object, where: str, least: int = 1) -> int:
    """A whole number.

    >>> whole(0, "retry(max_attempts=)")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ArgumentError: retry(max_attempts=) is a whole number, at least 1, not 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{where} is a whole number, at least {least}, not {value!r:.40}.")
    return value


def positive(value: Any, where: str, *, zero: bool = False) -> float:
    """A finite number above 0; with `zero`, 0 as well."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (0 < value < float("inf") or (zero and value == 0)):
        return float(value)
    least = "a number, 0 or more" if zero else "a positive number"
    raise ArgumentError(f"{where} is {least}, not {value!r:.40}.")


def one_of(value: object, choices: Sequence[str], where: str) -> Any:
    """One of some words."""
    if value not in choices:
        raise ArgumentError(f"{where} is one of {', '.join(map(repr, choices))}, not {value!r:.40}.")
    return value


def flag(value: object, where: str) -> bool:
    """`True` or `False`."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{where} is True or False, not {value!r:.40}.")
    return value


def of_type(value: object, kind: type | UnionType, where: str, what: str, *, secret: bool = False) -> Any:
    """A value of a type; of one that may be secret the error shows nothing but its own type.

    >>> of_type("fast", int | None, "wait(seconds=)", "a whole number")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ArgumentError: wait(seconds=) is a whole number, not 'fast'.
    """
    if not isinstance(value, kind):
        shown = type(value).__name__ if secret else f"{value!r:.40}"
        raise ArgumentError(f"{where} is {what}, not {shown}.")
    return value
