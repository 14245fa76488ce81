"""`Route`: choose a branch by what is in state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Never, TypeVar, cast

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.arguments import check_key, describe, observer
from adk_fluent.expr.base import Expr, lift
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.nodes import RouteNode
from adk_fluent.ir.predicates import Comparison, Match, Predicate
from adk_fluent.ir.state_keys import StateFieldRef

T_co = TypeVar("T_co", covariant=True)
if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent as NativeAgent
    from typing_extensions import TypeVar as TypeVarWithDefault

    U = TypeVarWithDefault("U", default=str)  # what a native agent answers
    Branch = Expr[U] | NativeAgent
else:
    U = TypeVar("U")


class Route(Expr[T_co]):
    """Runs the first branch whose test holds; without one, `otherwise`, or nothing.

    Args:
        key: the state key that `eq` and its relatives compare, as text or as a field of a schema; not needed
            for `when`.

    Example:
        >>> from adk_fluent import Agent, Route
        >>> Route("intent").eq("booking", Agent("booker")).otherwise(Agent("helper"))
        Route(booker, helper)
    """

    __slots__ = ()
    _what = "route"

    def __init__(self: Route[Never], key: str | None = None) -> None:
        made = RouteNode(
            key=None if key is None else check_key(key, "Route()"),
            read_fields=(key,) if isinstance(key, StateFieldRef) else (),
        )
        object.__setattr__(self, "_node", made)

    @property
    def node(self) -> RouteNode:
        """The IR node that this route is."""
        return self._node

    def eq(self, value: object, then: Branch[U], *, ignore_case: bool = False) -> Route[T_co | U]:
        """Run `then` when the key equals `value`; text is compared without surrounding white space."""
        return self._rule("eq", value, then, ignore_case=ignore_case)

    def ne(self, value: object, then: Branch[U], *, ignore_case: bool = False) -> Route[T_co | U]:
        """Run `then` when the key does not equal `value`, or is missing."""
        return self._rule("ne", value, then, ignore_case=ignore_case)

    def gt(self, value: float | str, then: Branch[U]) -> Route[T_co | U]:
        """Run `then` when the key is greater than `value`; text that is a number counts as one."""
        return self._rule("gt", value, then)

    def gte(self, value: float | str, then: Branch[U]) -> Route[T_co | U]:
        """Run `then` when the key is at least `value`."""
        return self._rule("gte", value, then)

    def lt(self, value: float | str, then: Branch[U]) -> Route[T_co | U]:
        """Run `then` when the key is less than `value`."""
        return self._rule("lt", value, then)

    def lte(self, value: float | str, then: Branch[U]) -> Route[T_co | U]:
        """Run `then` when the key is at most `value`."""
        return self._rule("lte", value, then)

    def contains(self, part: object, then: Branch[U], *, ignore_case: bool = False) -> Route[T_co | U]:
        """Run `then` when the key's text or list contains `part`."""
        return self._rule("contains", part, then, ignore_case=ignore_case)

    def matches(self, pattern: str, then: Branch[U], *, ignore_case: bool = False) -> Route[T_co | U]:
        """Run `then` when the regular expression is found in the key's text.

        Raises:
            ArgumentError: the pattern is not a regular expression.
        """
        self._in_order("matches", pattern, then)
        if not isinstance(pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"matches() takes a regular expression as text, not {describe(pattern)}.")
        try:
            re.compile(pattern)
        except re.error as error:
            raise ArgumentError(f"matches({pattern!r}) is not a regular expression: {error}.") from error
        return self._rule("matches", pattern, then, ignore_case=ignore_case)

    def when(self, predicate: Predicate, then: Branch[U]) -> Route[T_co | U]:
        """Run `then` when `predicate(state)` holds."""
        self._in_order("when", predicate, then)
        return self._add(observer(predicate, "when()"), then)

    def otherwise(self, then: Branch[U]) -> Route[T_co | U]:
        """Run `then` when no test holds.

        Raises:
            ExpressionError: there is an `otherwise` already.
        """
        if self.node.default is not None:
            raise ExpressionError("This route has an otherwise() already; a route has at most one.")
        return cast("Route[T_co | U]", self._set(default=lift(then, "otherwise()").node))

    def _rule(
        self, op: Comparison, value: object, then: Branch[U], *, ignore_case: bool = False
    ) -> Route[T_co | U]:
        if self.node.key is None:
            raise ExpressionError(
                f"Route() has no key to compare: write Route('key').{op}(...), or use .when(...)."
            )
        self._in_order(op, value, then)
        if op in _ORDERS and (isinstance(value, bool) or not isinstance(value, int | float | str)):
            raise ArgumentError(f"{op}() compares with a number or text, not {describe(value)}.")
        return self._add(Match(self.node.key, op, value, ignore_case), then)

    def _in_order(self, method: str, test: object, then: object) -> None:
        """Refuse a branch that stands where its test should."""
        if isinstance(test, Expr) and not isinstance(then, Expr):
            key = "" if self.node.key is None else repr(self.node.key)
            value = repr(then) if isinstance(then, str | int | float) else function_name(then, "test")
            branch = cast("Expr[Any]", test).name or "branch"
            raise ArgumentError(
                f"{method}() takes its branch second, and here the two are swapped: "
                f"write Route({key}).{method}({value}, {branch})."
            )

    def _add(self, test: Predicate, then: Expr[Any] | NativeAgent) -> Route[Any]:
        return self._set(rules=(*self.node.rules, (test, lift(then, f"the branch {_label(test)}").node)))


_ORDERS = ("gt", "gte", "lt", "lte")


def _label(test: Predicate) -> str:
    return str(test) if isinstance(test, Match) else function_name(test, "when(...)")
