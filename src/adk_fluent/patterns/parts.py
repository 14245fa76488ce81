"""What the shapes ask of the expressions they are given."""

from __future__ import annotations

from typing import Any, TypeVar

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.agent import Agent
from adk_fluent.expr.arguments import describe
from adk_fluent.expr.base import Expr
from adk_fluent.ir.base import walk

T = TypeVar("T")


def expression(value: Expr[T], where: str) -> Expr[T]:
    """`value` itself if it is an expression.

    Raises:
        ArgumentError: it is none.
    """
    if not isinstance(value, Expr):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ArgumentError(f"{where} takes an agent or another expression, not {describe(value)}.")
    return value


def several(values: tuple[Expr[T], ...], least: int, where: str) -> tuple[Expr[T], ...]:
    """`values` themselves if they are expressions, and enough of them.

    Raises:
        ArgumentError: there are fewer, or one is none.
    """
    if len(values) < least:
        raise ArgumentError(f"{where} takes {least} or more agents, not {len(values)}.")
    return tuple(expression(value, where) for value in values)


def aside(value: Expr[T]) -> Expr[T]:
    """An expression that judges what is before it, and leaves the last word to that, unless it is shown."""
    return value if value.node.annotations.visibility == "user" else value.hide(aside=True)


def writes(value: Expr[T], key: str, where: str) -> Expr[T]:
    """An expression that writes `key`: itself if it does, or the agent with its answer stored there.

    Raises:
        ArgumentError: it writes other keys and not that one.
    """
    written = keys_of(value)
    if key in written:
        return value
    if isinstance(value, Agent) and not written:
        return value.writes(key)
    what = f"writes {', '.join(map(repr, written))}" if written else "writes nothing"
    raise ArgumentError(f'{where}: {value!r} {what}, not {key!r}. Add .writes("{key}") to an agent in it.')


def answer_key(value: Expr[Any], otherwise: str) -> str:
    """The key an agent stores its answer under, or another name if it stores it nowhere."""
    key = value.node.given.get("output_key")
    return key if isinstance(key, str) else otherwise


def keys_of(value: Expr[Any]) -> tuple[str, ...]:
    """The keys that something in an expression is known to write."""
    return tuple(dict.fromkeys(key for node in walk(value.node) for key in node.key_writes))
