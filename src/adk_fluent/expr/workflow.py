"""Expressions that contain others and that no operator makes: `Race` and `MapOver`.

Those that an operator makes are in `base`, beside the operators.
"""

from __future__ import annotations

from typing import TypeVar

from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.arguments import check_key, positive
from adk_fluent.expr.base import Expr, lift

# Pickled expressions name these classes in this module:
from adk_fluent.expr.base import Fallback as Fallback
from adk_fluent.expr.base import FanOut as FanOut
from adk_fluent.expr.base import Loop as Loop
from adk_fluent.expr.base import Pipeline as Pipeline
from adk_fluent.expr.base import Until as Until
from adk_fluent.ir.nodes import MapOverNode, RaceNode

T_co = TypeVar("T_co", covariant=True)


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
