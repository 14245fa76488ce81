"""The comparisons of a route, as data: each is a callable `state -> bool`."""

from __future__ import annotations

import inspect
import logging
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, cast

from adk_fluent.errors import ArgumentError, PredicateError, sentence, what_happened
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import Access, function_name
from adk_fluent.ir.state_keys import StateFieldRef, state_key
from adk_fluent.spelling import did_you_mean

logger: logging.Logger = logging.getLogger("adk_fluent.route")

Comparison = Literal["eq", "ne", "gt", "gte", "lt", "lte", "contains", "matches", "truthy"]

StateView = Mapping[str, Any]
"""The read-only state that functions receive. A key that holds `None` is not in it; reading gives `None`."""

Predicate = Callable[[StateView], object]


def is_held(state: StateView, key: str) -> bool:
    """True if a state has a value at `key`, which may be `None`.

    >>> is_held({"x": None}, "x"), is_held({}, "x")
    (True, False)
    """
    tell = getattr(state, "holds", None)
    return bool(tell(key)) if callable(tell) else key in state


def lost(state: StateView, key: str) -> str:
    """The hint for a message about a missing key, if the state knows that the key was lost; else empty."""
    tell = getattr(state, "lost", None)
    return str(tell(key)) if callable(tell) else ""


@frozen
class Match(Frozen):
    """Compares one state value with a constant.

    White space around a text does not count, because models add it. A text is compared with a number as a
    number. A missing key equals only `None`.

    Attributes:
        key: the state key, scope prefix included.
        op: the comparison.
        value: the constant; a regular expression for `matches`.
        ignore_case: compare text without regard to case.
    """

    key: str
    op: Comparison
    value: Any
    ignore_case: bool = False

    @property
    def access(self) -> Access:
        """The state keys that it reads: its key alone."""
        return Access(reads=frozenset({self.key}))

    def __call__(self, state: StateView) -> bool:
        """True if the comparison holds for `state`.

        Raises:
            Unordered: the value and the constant have no order.

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
    """A message about the label of a route that the state nearly holds, if no test holds; else empty.

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
    """A state value and the constant of a comparison have no order."""


class AbsentKey(KeyError):
    """A function read a key that the state does not have."""


def missing(error: AbsentKey, state: StateView) -> str:
    """The message for a function that read an absent key, as the end of a sentence.

    >>> missing(AbsentKey("x"), {"topic": "tea"})
    "needs state key 'x', which is not set. Use state.get('x') if it may be missing."
    """
    key = error.args[0]
    near = did_you_mean(str(key), state)
    told = lost(state, key) or f"{near} Use state.get({key!r}) if it may be missing."
    return f"needs state key {key!r}, which is not set.{told}"


def untestable(where: str, predicate: Predicate, error: Exception, state: StateView) -> PredicateError:
    """The error to raise, with `error` as its cause, after a predicate raised `error`.

    Args:
        where: the place of the predicate, for the message.
        state: the state that it received.
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
    """The predicate itself; for a state key, the test that the key is set and true."""
    if isinstance(predicate, str | StateFieldRef):
        return Match(state_key(predicate, where), "truthy", True)
    return predicate


NOT_PLAIN: Final = "takes a plain function; an async one can be a separate step, with >>."
"""Ends the message that refuses an async function where nothing would await it."""


def plain(fn: Any, where: str) -> Any:
    """Return `fn` if it is not async, for a place where its result is used at once.

    A coroutine counts as true, so a condition that is an async function would always hold.

    Raises:
        ArgumentError: `fn` is async.

    >>> async def later(state):
    ...     return False
    >>> plain(later, "P.when()")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ArgumentError: P.when() takes a plain function; an async one can be a separate step, with >>.
    """
    called = getattr(cast("type[object]", type(fn)), "__call__", None)  # noqa: B004  # whether it is async, not whether it can be called
    if any(map(inspect.iscoroutinefunction, (fn, called))):
        raise ArgumentError(f"{where} {NOT_PLAIN}")
    return fn


def holds(test: Predicate, state: StateView, operation: str, agent: str = "") -> bool:
    """True if the condition of `S.when`, `P.when`, `C.when` or `A.when` holds; all have the same meaning.

    Args:
        operation: the operation, for messages.
        agent: the agent with this condition, for messages; if empty, they name the place in the state.

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
    """Return the answer of a user's function, if it need not be awaited.

    Raises:
        PredicateError: the answer must be awaited, for example that of a lambda around an async function.
    """
    if not inspect.isawaitable(answer):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
    raise PredicateError(f"{told} is async. {operation} {NOT_PLAIN}")


_SIGNS: Final = {"eq": "==", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _number(value: object) -> Any:
    """Convert a text to a number if it is one."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _numeric(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Change a comparison so that it compares a text with a number as a number."""

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
