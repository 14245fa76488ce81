"""The remaining building blocks: `tap`, `gate`, `race`, `map_over`, `transfer`, `until`, `agent`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.agent import Agent
from adk_fluent.expr.arguments import describe, observer
from adk_fluent.expr.base import Expr, Step
from adk_fluent.expr.workflow import Loop, MapOver, Race, Until
from adk_fluent.ir.node_names import check_name
from adk_fluent.ir.nodes import GateNode, PieceFn, TapFn, TapNode, TransferNode
from adk_fluent.ir.predicates import Predicate
from adk_fluent.ir.state_keys import state_key

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent as NativeAgent
    from google.adk.models import BaseLlm

U = TypeVar("U")


@overload
def tap(fn: TapFn) -> Step: ...
@overload
def tap(fn: PieceFn) -> Step: ...
def tap(fn: TapFn | PieceFn) -> Step:
    """A step that shows the state to `fn`, which cannot change it.

    >>> from adk_fluent import Agent, tap
    >>> Agent("a") >> tap(print)
    Pipeline(a, print)
    """
    return Step.from_node(TapNode(fn=observer(fn, "tap()")))


def gate(predicate: Predicate, *, message: str = "Approval required", into: object = None) -> Step:
    """A step that stops the run until a person approves.

    Args:
        predicate: `state -> bool`; true means that approval is required.
        message: what the person is asked; `{key}` is filled from the state when it is asked.
        into: the state key that gets the payload of the approval, or `True` if it has none; a text, or a
            field of a `StateSchema`, which to a type checker is its value. Nothing is written when approval
            is not required, or is refused.

    The run ends with `RunResult.pending`; `resume(session_id=, approvals={id: True})` goes on. A refused gate
    ends the pipeline with a final event that says so.

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
    """A step that hands over to the agent named `target` and skips the rest of the enclosing sequence.

    Args:
        target: the name of an agent, or any named expression, in the same tree. One that stands around this
            step starts again.
        condition: `state -> bool`; without one it always hands over.
    """
    test = None if condition is None else observer(condition, "transfer(condition=)")
    return Step.from_node(TransferNode(target=check_name(target, "target"), condition=test))


@overload
def race(*branches: Expr[U]) -> Race[U]: ...
@overload
def race(*branches: Expr[Any] | NativeAgent) -> Race[Any]: ...
def race(*branches: Any) -> Race[Any]:
    """Run all branches at once and keep only what the first to succeed did; the others are cancelled.

    Raises:
        ExpressionError: fewer than two branches.
    """
    return Race[Any].of(*branches)


@overload
def map_over(
    key: str, body: Expr[U], *, item_key: str = "_item", output_key: str = "results", concurrency: int = 5
) -> MapOver[U]: ...
@overload
def map_over(
    key: str, body: NativeAgent, *, item_key: str = "_item", output_key: str = "results", concurrency: int = 5
) -> MapOver[Any]: ...
def map_over(
    key: str,
    body: Expr[Any] | NativeAgent,
    *,
    item_key: str = "_item",
    output_key: str = "results",
    concurrency: int = 5,
) -> MapOver[Any]:
    """Run `body` once per item of the list at `key`.

    Args:
        key: state key of the list.
        body: what runs per item; it finds its item under `item_key`.
        item_key: exists only while an item runs.
        output_key: where the list of answers is written, in the order of the items.
        concurrency: how many items run at the same time, 5 by default.
    """
    return MapOver[Any].of(key, body, item_key, output_key, concurrency)


def until(predicate: Predicate, *, max: int = 10) -> Until:
    """The right side of `body * until(predicate)`: repeat until it holds, at most `max` times."""
    return Until(observer(predicate, "until()"), max)


@overload
def loop_until(predicate: Predicate, body: Expr[U], *, max_iterations: int = 10) -> Loop[U]: ...
@overload
def loop_until(predicate: Predicate, body: NativeAgent, *, max_iterations: int = 10) -> Loop[Any]: ...
def loop_until(predicate: Predicate, body: Expr[Any] | NativeAgent, *, max_iterations: int = 10) -> Loop[Any]:
    """Repeat `body` until `predicate(state)` holds, at most `max_iterations` times."""
    return Loop(body, max_iterations=max_iterations).until(predicate)


def agent(name: str, model: str | BaseLlm | None = None) -> Callable[[Callable[..., Any]], Agent[str]]:
    """Make an agent of a function; its docstring is the instruction.

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
    check_name(name)

    def make(fn: Callable[..., Any]) -> Agent[str]:
        if not inspect.isroutine(fn):
            raise ArgumentError(f"@agent({name!r}) goes before a function, not {describe(fn)}.")
        instruction = inspect.getdoc(fn)
        if not instruction:
            raise ExpressionError(f"@agent({name!r}): the function needs a docstring; it is the instruction.")
        return Agent(name, model).instruct(instruction)

    return make
