"""Expressions that contain others and that no operator makes: `race` and `map_over`.

Those that an operator makes are in `base`, beside the operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.arguments import check_key, positive
from adk_fluent.expr.base import Expr, Fallback, FanOut, Loop, Pipeline, Until, lift
from adk_fluent.ir import MapOverNode, RaceNode

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent as NativeAgent

# Pickled expressions of earlier versions name `Pipeline` and the other classes of `base` in this module.
__all__ = ["Fallback", "FanOut", "Loop", "MapOver", "Pipeline", "Race", "Until", "map_over", "race"]

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


class Race(Expr[T_co]):
    """Branches that run at the same time; the first to succeed is kept. Made by `race`."""

    __slots__ = ()
    _what = "race"

    @classmethod
    def of(cls, *branches: object) -> Race[T_co]:
        """Make a race between at least two expressions."""
        if len(branches) < 2:
            raise ExpressionError("race() needs at least two expressions to choose from.")
        return cls.from_node(RaceNode(children=tuple(lift(branch, "race()").node for branch in branches)))


class MapOver(Expr[T_co]):
    """A body that runs once per item of a list in state. Made by `map_over`."""

    __slots__ = ()
    _what = "map"

    @classmethod
    def of(cls, key: str, body: object, item_key: str, output_key: str, concurrency: int) -> MapOver[T_co]:
        """Make a map over the list at `key`."""
        key, item_key = check_key(key, "map_over(key=)"), check_key(item_key, "map_over(item_key=)")
        output_key = check_key(output_key, "map_over(output_key=)")
        if item_key in (key, output_key):
            raise ArgumentError(
                f"map_over(item_key={item_key!r}): give the item another key; it is removed afterwards."
            )
        if not positive(concurrency):
            raise ArgumentError(f"map_over(concurrency=) takes a positive whole number, not {concurrency!r}.")
        inner = lift(body, "map_over()").node
        return cls.from_node(
            MapOverNode(
                list_key=key, body=inner, item_key=item_key, output_key=output_key, concurrency=concurrency
            )
        )


@overload
def race(*branches: Expr[U]) -> Race[U]: ...
@overload
def race(*branches: Expr[Any] | NativeAgent) -> Race[Any]: ...
def race(*branches: Any) -> Race[Any]:
    """Run all branches at once, keep the first that succeeds, and cancel the others.

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
        key: the state key of the list.
        body: the expression that runs for each item; it reads its item under `item_key`.
        item_key: the state key of the item, `_item` by default; it exists only while the item runs.
        output_key: the state key for the list of answers, in the order of the items.
        concurrency: most items that run at the same time, 5 by default.
    """
    return MapOver[Any].of(key, body, item_key, output_key, concurrency)
