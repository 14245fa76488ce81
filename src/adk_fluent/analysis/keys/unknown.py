"""Which functions in a step say nothing about the keys they touch."""

from __future__ import annotations

from adk_fluent.analysis.keys.functions import unknown_functions
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import access
from adk_fluent.ir.nodes import AgentNode, GateNode, LoopNode, RouteNode, TapNode, TransferNode, TransformNode
from adk_fluent.state.effects import Packs, Unpacks, effects_of

Functions = list[object]


def unknown_functions_of(node: Node) -> tuple[Functions, Functions]:
    """The functions that may read, and those that may write, keys they do not declare."""
    match node:
        case AgentNode():
            return unknown_functions(node)
        case LoopNode():
            return _silent((node.until,)), []
        case GateNode():
            return _silent((node.predicate,)), []
        case TransferNode():
            return _silent((node.condition,)), []
        case RouteNode():
            return _silent(tuple(test for test, _ in node.rules)), []
        case TapNode():
            return _silent((node.fn,)), []
        case TransformNode():
            return _of_transform(node)
        case _:
            return [], []


def _silent(functions: tuple[object, ...]) -> Functions:
    return [fn for fn in functions if fn is not None and not access(fn).reads_known]


def _of_transform(node: TransformNode) -> tuple[Functions, Functions]:
    """The function of a transform, unless the analysis knows about what it names only as it runs."""
    fn, touched = node.fn, node.access
    if any(isinstance(effect, Packs | Unpacks) for effect in effects_of(node)):
        return [], []
    return [fn] * (not touched.reads_known), [fn] * (not touched.writes_known)
