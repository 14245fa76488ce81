"""Other steps: `Route`, `tap`, `gate`, `transfer`, `until`, `@agent`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Never, TypeVar, cast, overload

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.agent import Agent
from adk_fluent.expr.arguments import check_key, describe, observer, rounds
from adk_fluent.expr.base import Expr, Loop, Step, Until, lift
from adk_fluent.ir import functions, graph
from adk_fluent.ir.nodes import GateNode, PieceFn, RouteNode, TapFn, TapNode, TransferNode
from adk_fluent.ir.predicates import Comparison, Match, Predicate
from adk_fluent.ir.state_keys import StateFieldRef, state_key

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent as NativeAgent
    from google.adk.models import BaseLlm
    from typing_extensions import TypeVar as TypeVarWithDefault

    B = TypeVarWithDefault("B", default=str)  # the answer of a native agent is text
    Branch = Expr[B] | NativeAgent
else:
    B = TypeVar("B")


@overload
def tap(fn: TapFn) -> Step: ...
@overload
def tap(fn: PieceFn) -> Step: ...
def tap(fn: TapFn | PieceFn) -> Step:
    """Make a step that calls `fn` with the state, which `fn` cannot change.

    >>> from adk_fluent import Agent, tap
    >>> Agent("a") >> tap(print)
    Pipeline(a, print)
    """
    return Step.from_node(TapNode(fn=observer(fn, "tap()")))


def gate(predicate: Predicate, *, message: str = "Approval required", into: object = None) -> Step:
    """Make a step that stops the run until a person approves.

    Args:
        predicate: `state -> bool`; a true value means that approval is required.
        message: the question to the person; `{key}` is filled from the state at that time.
        into: the state key for the payload of the approval, or for `True` if it has none. Give it as text or
            as a field of a `StateSchema` (to a type checker, a field is its value). Nothing is written if
            approval is not required, or is refused.

    The run ends with `RunResult.pending`; `resume(session_id=, approvals={id: True})` continues it. If the
    person refuses, the pipeline ends with a final event that reports the refusal.

    >>> from adk_fluent import Agent, gate
    >>> large = gate(lambda state: state["total"] > 100, message="Refund {total}?", into="approval")
    >>> Agent("refund").writes("total") >> large >> Agent("pay")
    Pipeline(refund, gate, pay)
    """
    if not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not type-check
        raise ArgumentError(f"gate(message=) takes text, not {message!r:.40}.")
    key = None if into is None else state_key(cast(str, into), "gate(into=)")
    return Step.from_node(GateNode(predicate=observer(predicate, "gate()"), message=message, into=key))


def transfer(target: str, *, condition: Predicate | None = None) -> Step:
    """Make a step that transfers to the agent `target` and skips the rest of the enclosing sequence.

    Args:
        target: the name of an agent, or of any named expression, in the same tree. If it contains this step,
            it starts again.
        condition: `state -> bool`; without one, the step always transfers.
    """
    test = None if condition is None else observer(condition, "transfer(condition=)")
    return Step.from_node(TransferNode(target=graph.check_name(target, "target"), condition=test))


def until(predicate: Predicate, *, max: int = 10) -> Until:
    """The right side of `body * until(predicate)`: repeat until the predicate holds, at most `max` times."""
    return Until(observer(predicate, "until()"), rounds(max))


@overload
def loop_until(predicate: Predicate, body: Expr[U], *, max_iterations: int = 10) -> Loop[U]: ...
@overload
def loop_until(predicate: Predicate, body: NativeAgent, *, max_iterations: int = 10) -> Loop[Any]: ...
def loop_until(predicate: Predicate, body: Expr[Any] | NativeAgent, *, max_iterations: int = 10) -> Loop[Any]:
    """Repeat `body` until `predicate(state)` holds, at most `max_iterations` times."""
    return Loop(body, max_iterations=max_iterations).until(predicate)


def agent(name: str, model: str | BaseLlm | None = None) -> Callable[[Callable[..., Any]], Agent[str]]:
    """Make an agent from a function; the function's docstring is the instruction.

    Raises:
        InvalidNameError: ADK would reject the name.
        ExpressionError: the function has no docstring.

    Example:
        >>> @agent("poet", model="gemini-2.5-flash")
        ... def poet() -> None:
        ...     "Write one line about {topic}."
        >>> poet.node.instruction
        'Write one line about {topic}.'
    """
    begun = Agent(name, model)

    def make(fn: Callable[..., Any]) -> Agent[str]:
        if not inspect.isroutine(fn):
            raise ArgumentError(f"@agent({name!r}) goes before a function, not {describe(fn)}.")
        instruction = inspect.getdoc(fn)
        if not instruction:
            raise ExpressionError(f"@agent({name!r}): the function needs a docstring; it is the instruction.")
        return begun.instruct(instruction)

    return make


class Route(Expr[T_co]):
    """Run the first branch whose test holds. If none holds, run `otherwise`, or nothing.

    Args:
        key: the state key that `eq` and the other comparisons read, as text or as a field of a schema; not
            needed for `when`.

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

    def eq(self, value: object, then: Branch[B], *, ignore_case: bool = False) -> Route[T_co | B]:
        """Run `then` when the key equals `value`; text is compared without surrounding white space."""
        return self._rule("eq", value, then, ignore_case=ignore_case)

    def ne(self, value: object, then: Branch[B], *, ignore_case: bool = False) -> Route[T_co | B]:
        """Run `then` when the key does not equal `value`, or is missing."""
        return self._rule("ne", value, then, ignore_case=ignore_case)

    def gt(self, value: float | str, then: Branch[B]) -> Route[T_co | B]:
        """Run `then` when the key is greater than `value`; text that is a number counts as one."""
        return self._rule("gt", value, then)

    def gte(self, value: float | str, then: Branch[B]) -> Route[T_co | B]:
        """Run `then` when the key is at least `value`."""
        return self._rule("gte", value, then)

    def lt(self, value: float | str, then: Branch[B]) -> Route[T_co | B]:
        """Run `then` when the key is less than `value`."""
        return self._rule("lt", value, then)

    def lte(self, value: float | str, then: Branch[B]) -> Route[T_co | B]:
        """Run `then` when the key is at most `value`."""
        return self._rule("lte", value, then)

    def contains(self, part: object, then: Branch[B], *, ignore_case: bool = False) -> Route[T_co | B]:
        """Run `then` when the key's text or list contains `part`."""
        return self._rule("contains", part, then, ignore_case=ignore_case)

    def matches(self, pattern: str, then: Branch[B], *, ignore_case: bool = False) -> Route[T_co | B]:
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

    def when(self, predicate: Predicate, then: Branch[B]) -> Route[T_co | B]:
        """Run `then` when `predicate(state)` holds."""
        self._in_order("when", predicate, then)
        return self._add(observer(predicate, "when()"), then)

    def otherwise(self, then: Branch[B]) -> Route[T_co | B]:
        """Run `then` when no test holds.

        Raises:
            ExpressionError: there is an `otherwise` already.
        """
        if self.node.default is not None:
            raise ExpressionError("This route has an otherwise() already; a route has at most one.")
        return cast("Route[T_co | B]", self._set(default=lift(then, "otherwise()").node))

    def _rule(
        self, op: Comparison, value: object, then: Branch[B], *, ignore_case: bool = False
    ) -> Route[T_co | B]:
        if self.node.key is None:
            raise ExpressionError(
                f"Route() has no key to compare: write Route('key').{op}(...), or use .when(...)."
            )
        self._in_order(op, value, then)
        if op in _ORDERS and (isinstance(value, bool) or not isinstance(value, int | float | str)):
            raise ArgumentError(f"{op}() compares with a number or text, not {describe(value)}.")
        return self._add(Match(self.node.key, op, value, ignore_case), then)

    def _in_order(self, method: str, test: object, then: object) -> None:
        """Refuse a test and a branch in the wrong order."""
        if isinstance(test, Expr) and not isinstance(then, Expr):
            key = "" if self.node.key is None else repr(self.node.key)
            known = isinstance(then, str | int | float)
            value = repr(then) if known else functions.function_name(then, "test")
            branch = cast("Expr[Any]", test).name or "branch"
            raise ArgumentError(
                f"{method}() takes the branch as its second argument; here the two are swapped: "
                f"write Route({key}).{method}({value}, {branch})."
            )

    def _add(self, test: Predicate, then: Expr[Any] | NativeAgent) -> Route[Any]:
        return self._set(rules=(*self.node.rules, (test, lift(then, f"the branch {_label(test)}").node)))


_ORDERS = ("gt", "gte", "lt", "lte")


def _label(test: Predicate) -> str:
    return str(test) if isinstance(test, Match) else functions.function_name(test, "when(...)")
