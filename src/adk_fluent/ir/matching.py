"""The comparisons a route makes, as data: each is a callable `state -> bool`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, cast

from adk_fluent.ir.fields import StateFieldRef, state_key
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import Access

Comparison = Literal["eq", "ne", "gt", "gte", "lt", "lte", "contains", "matches", "truthy"]

StateView = Mapping[str, Any]
"""State as functions see it: read-only, and a key whose value is `None` is absent."""

Predicate = Callable[[StateView], object]


@frozen
class Match(Frozen):
    """Compares one state value with a constant.

    Text is compared after stripping white space, since models add it. A missing key matches only `ne`.

    Attributes:
        key: the state key, scope prefix included.
        op: the comparison.
        value: what to compare with; a regular expression for `matches`.
        ignore_case: compare text without regard to case.
    """

    key: str
    op: Comparison
    value: Any
    ignore_case: bool = False

    @property
    def access(self) -> Access:
        """It reads its key and nothing else."""
        return Access(reads=frozenset({self.key}))

    def __call__(self, state: StateView) -> bool:
        """Whether the comparison holds for `state`."""
        actual = state.get(self.key)
        if actual is None:
            return self.op == "ne"
        if self.op == "matches":
            return re.search(self.value, str(actual).strip(), re.IGNORECASE * self.ignore_case) is not None
        return bool(_COMPARE[self.op](self._text(actual), self._text(self.value)))

    def _text(self, value: object) -> Any:
        if not isinstance(value, str):
            return value
        return value.strip().casefold() if self.ignore_case else value.strip()

    def __str__(self) -> str:
        return f"{self.key} {_SIGNS.get(self.op, self.op)} {self.value!r}"


def truth_of(predicate: Predicate | str | StateFieldRef) -> Predicate:
    """A predicate; a state key stands for "this key is set and true"."""
    if isinstance(predicate, str | StateFieldRef):
        return Match(state_key(predicate, "A test"), "truthy", True)
    return predicate


_SIGNS: Final = {"eq": "==", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _number(value: object) -> Any:
    """Text a model wrote as a number is compared as a number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(actual: Any, limit: Any) -> bool:
        return compare(actual if isinstance(limit, str) else _number(actual), limit)

    return ordered


def _contains(actual: Any, part: Any) -> bool:
    if isinstance(actual, str):
        return str(part) in actual
    return part in cast("list[Any]", actual)


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": lambda actual, value: actual == value,
    "ne": lambda actual, value: actual != value,
    "gt": _ordered(lambda actual, limit: actual > limit),
    "gte": _ordered(lambda actual, limit: actual >= limit),
    "lt": _ordered(lambda actual, limit: actual < limit),
    "lte": _ordered(lambda actual, limit: actual <= limit),
    "contains": _contains,
    "truthy": lambda actual, value: bool(actual) is value,
}
