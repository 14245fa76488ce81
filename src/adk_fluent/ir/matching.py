"""The comparisons a route makes, as data: each is a callable `state -> bool`."""

from __future__ import annotations

import inspect
import logging
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, cast

from adk_fluent.errors import ArgumentError, PredicateError, sentence, what_happened
from adk_fluent.ir.fields import StateFieldRef, state_key
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import Access, function_name
from adk_fluent.spelling import did_you_mean

logger: logging.Logger = logging.getLogger("adk_fluent.route")

Comparison = Literal["eq", "ne", "gt", "gte", "lt", "lte", "contains", "matches", "truthy"]

StateView = Mapping[str, Any]
"""State as functions see it: read-only. A key that holds `None` is not in it, but reading it gives `None`."""

Predicate = Callable[[StateView], object]


def is_held(state: StateView, key: str) -> bool:
    """Whether a state has a value at `key`, which may be `None`.

    >>> is_held({"x": None}, "x"), is_held({}, "x")
    (True, False)
    """
    tell = getattr(state, "holds", None)
    return bool(tell(key)) if callable(tell) else key in state


def lost(state: StateView, key: str) -> str:
    """What to add to a message that says a key of `state` is missing, if the state knows that it was lost."""
    tell = getattr(state, "lost", None)
    return str(tell(key)) if callable(tell) else ""


@frozen
class Match(Frozen):
    """Compares one state value with a constant.

    Text is compared after stripping white space, since models add it, and with a number as a number. A
    missing key equals `None` and nothing else.

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
        """Whether the comparison holds for `state`.

        Raises:
            Unordered: the value has no order with what it is compared with.

        >>> Match("score", "gt", 5)({"score": " 7 "})
        True
        >>> Match("score", "gt", 5)({"score": "high"})  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        Unordered: 'score' is 'high', which is no number.
        """
        actual = state.get(self.key)
        if actual is None:
            return self.op == ("eq" if self.value is None else "ne")
        if self.op == "matches":
            return re.search(self.value, str(actual).strip(), re.IGNORECASE * self.ignore_case) is not None
        if self.op == "contains":
            return self._contains(actual)
        try:
            return bool(_COMPARE[self.op](self._text(actual), self._text(self.value)))
        except TypeError as error:
            wanted = "text" if isinstance(self.value, str) else "number"
            raise Unordered(f"{self.key!r} is {actual!r:.60}, which is no {wanted}.") from error

    def _contains(self, actual: object) -> bool:
        if isinstance(actual, Collection) and not isinstance(actual, str):
            return any(
                self._text(item) == self._text(self.value) for item in cast("Collection[object]", actual)
            )
        return self._case(str(self.value)) in self._case(str(actual))

    def _text(self, value: object) -> Any:
        return self._case(value).strip() if isinstance(value, str) else value

    def _case(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text

    def __str__(self) -> str:
        return f"{self.key} {_SIGNS.get(self.op, self.op)} {self.value!r}"


def missed_label(tests: Iterable[Predicate], state: StateView) -> str:
    """Say which label of a route the state nearly holds, when no test holds; empty if none is near.

    A model often writes `Booking.` for `booking`. Near labels differ in case and punctuation only.

    >>> missed_label([Match("team", "eq", "booking")], {"team": "Booking."})
    "state key 'team' is not the label 'booking', but only in case or punctuation"
    """
    for test in tests:
        if isinstance(test, Match) and test.op == "eq" and isinstance(test.value, str):
            actual = state.get(test.key)
            if isinstance(actual, str) and (bare := _bare(actual)) and bare == _bare(test.value):
                return (
                    f"state key {test.key!r} is not the label {test.value!r}, but only in case or punctuation"
                )
    return ""


def _bare(label: str) -> str:
    """The letters and digits of a label, without regard to case."""
    return "".join(filter(str.isalnum, label.casefold()))


def report_missed_label(name: str, tests: Iterable[Predicate], state: StateView) -> None:
    """Log a warning if no test of the route `name` holds, but the state nearly holds one of its labels."""
    if missed := missed_label(tests, state):
        logger.warning(
            "Route %r: %s, so no branch for a label ran. Declare the key as a Literal, which holds the model "
            "to the labels, or compare with .eq(..., ignore_case=True) or .matches(...).",
            name,
            missed,
        )


class Unordered(TypeError):
    """A state value cannot be compared with what a test compares it with."""


class AbsentKey(KeyError):
    """A function asked the state for a key that it does not hold."""


def missing(error: AbsentKey, state: StateView) -> str:
    """What to say of a function that did; the end of a sentence.

    >>> missing(AbsentKey("x"), {"topic": "tea"})
    "needs state key 'x', which is not set. Use state.get('x') if it may be missing."
    """
    key = error.args[0]
    near = did_you_mean(str(key), state)
    told = lost(state, key) or f"{near} Use state.get({key!r}) if it may be missing."
    return f"needs state key {key!r}, which is not set.{told}"


def untestable(where: str, predicate: Predicate, error: Exception, state: StateView) -> PredicateError:
    """What to raise, from its cause, when a predicate raised `error`.

    Args:
        where: where it stands.
        state: what it was tested on.
    """
    start = _asked(where, predicate)
    if isinstance(error, Unordered):
        return PredicateError(f"{start} cannot be tested: {error}")
    if isinstance(error, AbsentKey):
        return PredicateError(f"{start} {missing(error, state)}")
    return PredicateError(f"{start} raised {sentence(what_happened(error))}")


def _asked(where: str, predicate: Predicate) -> str:
    shown = str(predicate) if isinstance(predicate, Match) else function_name(predicate, "<lambda>")
    return f"{where}: its predicate {shown!r}"


def truth_of(predicate: Predicate | str | StateFieldRef, where: str) -> Predicate:
    """A predicate; a state key stands for "this key is set and true"."""
    if isinstance(predicate, str | StateFieldRef):
        return Match(state_key(predicate, where), "truthy", True)
    return predicate


NOT_PLAIN: Final = "takes a plain function; an async one can be a step of its own, with >>."
"""Ends the message that refuses an async function where nothing would await it."""


def plain(fn: Any, where: str) -> Any:
    """`fn` itself, unless it is async, where its result is used at once.

    What an async function gives counts as true until it is awaited, so a condition would always hold.

    Raises:
        ArgumentError: it is async.

    >>> async def later(state):
    ...     return False
    >>> plain(later, "P.when()")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ArgumentError: P.when() takes a plain function; an async one can be a step of its own, with >>.
    """
    called = getattr(cast("type[object]", type(fn)), "__call__", None)  # noqa: B004  # whether it is async, not whether it can be called
    if any(map(inspect.iscoroutinefunction, (fn, called))):
        raise ArgumentError(f"{where} {NOT_PLAIN}")
    return fn


def holds(test: Predicate, state: StateView, operation: str, agent: str = "") -> bool:
    """Whether the condition of `S.when`, `P.when` or `C.when` holds: one meaning for them all.

    Args:
        operation: which of them it is, for messages.
        agent: whose condition it is, as far as that is known; else the place that the state knows is named.

    Raises:
        PredicateError: the condition raised (the cause is chained), or must be awaited.

    >>> holds(lambda state: state.get("n", 0) > 1, {"n": 2}, "P.when")
    True
    """
    place = repr(agent) if agent else str(getattr(state, "place", ""))
    where = f"{place[0].upper()}{place[1:]} in {operation}" if place else operation
    asked: Callable[[str], StateView] | None = getattr(state, "at", None)
    view = asked("a predicate") if asked else state
    try:
        return bool(at_once(test(view), _asked(where, test), operation))
    except PredicateError:
        raise
    except Exception as error:
        raise untestable(where, test, error, state) from error


def at_once(answer: object, told: str, operation: str) -> object:
    """What a user's function gave, unless it must be awaited, as of a lambda around an async function.

    Raises:
        PredicateError: it must be awaited.
    """
    if not inspect.isawaitable(answer):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
    raise PredicateError(f"{told} is async. {operation} {NOT_PLAIN}")


_SIGNS: Final = {"eq": "==", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _number(value: object) -> Any:
    """Text a model wrote as a number is compared as a number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _numeric(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """The comparison, with text that is compared with a number read as one."""

    def numeric(actual: Any, other: Any) -> bool:
        is_number = isinstance(other, int | float) and not isinstance(other, bool)
        return compare(_number(actual) if is_number else actual, other)

    return numeric


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": _numeric(operator.eq),
    "ne": _numeric(operator.ne),
    "gt": _numeric(operator.gt),
    "gte": _numeric(operator.ge),
    "lt": _numeric(operator.lt),
    "lte": _numeric(operator.le),
    "truthy": lambda actual, value: bool(actual) is value,
}
