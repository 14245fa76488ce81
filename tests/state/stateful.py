"""Runs state transforms on a plain dict, the way every backend does."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from adk_fluent.expr.base import Expr
from adk_fluent.ir import SequenceNode, TransformNode
from adk_fluent.state.delta import ReadOnlyState, changes


def delta(expression: Expr[Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of one transform; fails if the given state changes."""
    node = expression.node
    assert isinstance(node, TransformNode)
    before = copy.deepcopy(dict(state))
    view = ReadOnlyState(state)
    found = changes(node, node.fn(view), view)
    assert dict(state) == before
    return found


def after(expression: Expr[Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The state after a transform, or a chain of them, without the keys that are absent."""
    node = expression.node
    steps = node.children if isinstance(node, SequenceNode) else (node,)
    current = dict(state)
    for step in steps:
        current |= delta(Expr[Any].from_node(step), current)
    return {key: value for key, value in current.items() if value is not None}
