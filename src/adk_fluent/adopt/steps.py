"""The nodes of a tree as source: composites and steps, and the table of what writes which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from adk_fluent.adopt.agents import agent, fields, native_agent, remote
from adk_fluent.adopt.notes import notes
from adk_fluent.adopt.writer import Writer
from adk_fluent.adopt.writing import Chain, OperatorChain, SourceCall, flat, named, text
from adk_fluent.errors import ArgumentError
from adk_fluent.ir import nodes
from adk_fluent.ir.annotations import TransformSpec
from adk_fluent.ir.base import Node
from adk_fluent.ir.predicates import Match


def _members(writer: Writer, node: Node, kind: str, sign: str, *more: str) -> Chain:
    """Steps between operators; in a call where something else is said, or an operator cannot stand."""
    members = tuple(writer.step(child) for child in node.children)
    plain = bool(node.children) and _is_function(node.children[0])
    joined = OperatorChain(members, sign)
    if len(members) > 1 and not (node.name or more or plain) and len(flat([joined])) < 60:
        return [joined]
    name = (f"name={text(node.name)}",) if node.name else ()
    return [SourceCall(writer.names.use("adk_fluent", kind), (*members, *name, *more))]


def sequence(writer: Writer, node: nodes.SequenceNode) -> Chain:
    """Steps one after another."""
    return [*_members(writer, node, "Pipeline", ">>"), *fields(writer, node)]


def parallel(writer: Writer, node: nodes.ParallelNode) -> Chain:
    """Branches at the same time."""
    merge = (f"merge={text(node.merge)}",) if "merge" in node.given else ()
    return [*_members(writer, node, "FanOut", "|", *merge), *fields(writer, node)]


def loop(writer: Writer, node: nodes.LoopNode) -> Chain:
    """Steps again and again."""
    if node.max_iterations < 1:
        writer.refuse(node, f"max_iterations={node.max_iterations}: a loop runs at least once")
    rounds = () if node.max_iterations == 10 else (f"max_iterations={node.max_iterations:_}",)
    members = tuple(writer.step(child) for child in node.children)
    name = (f"name={text(node.name)}",) if node.name else ()
    chain = [SourceCall(writer.names.use("adk_fluent", "Loop"), (*members, *name, *rounds))]
    if node.until is not None:
        chain.append(SourceCall(".until", (writer.of(node, "until", node.until),)))
    return [*chain, *fields(writer, node)]


def route(writer: Writer, node: nodes.RouteNode) -> Chain:
    """Branches, of which one runs."""
    key = () if node.key is None else (text(node.key),)
    if node.read_fields:
        key = (writer.of(node, "key", node.read_fields[0]),)
    chain = [SourceCall(writer.names.use("adk_fluent", "Route"), key)]
    for test, branch in node.rules:
        then = writer.step(branch)
        if isinstance(test, Match) and test.key == node.key and test.op != "truthy":
            case = ("ignore_case=True",) if test.ignore_case else ()
            chain.append(SourceCall(f".{test.op}", (writer.of(node, test.op, test.value), then, *case)))
        else:
            chain.append(SourceCall(".when", (writer.of(node, "a test", test), then)))
    if node.default is not None:
        chain.append(SourceCall(".otherwise", (writer.step(node.default),)))
    return [*chain, *writer.named(node)]


def fallback(writer: Writer, node: nodes.FallbackNode) -> Chain:
    """Alternatives."""
    writer.only(node, "children")
    return [OperatorChain(tuple(writer.step(child) for child in node.children), "//"), *writer.named(node)]


def race(writer: Writer, node: nodes.RaceNode) -> Chain:
    """Branches, of which the first counts."""
    members = tuple(writer.step(child) for child in node.children)
    return [SourceCall(writer.names.use("adk_fluent", "race"), members), *writer.named(node)]


def map_over(writer: Writer, node: nodes.MapOverNode) -> Chain:
    """A body for each item."""
    given = node.given
    options = [
        (name, writer.of(node, name, given[name]))
        for name in ("item_key", "output_key", "concurrency")
        if name in given
    ]
    call = SourceCall(
        writer.names.use("adk_fluent", "map_over"),
        (text(node.list_key), writer.step(node.body), *named(options)),
    )
    return [call, *writer.named(node)]


def timeout(writer: Writer, node: nodes.TimeoutNode) -> Chain:
    """What may take so long."""
    seconds = writer.value(node.seconds)
    return [OperatorChain((writer.step(node.body),)), SourceCall(".timeout", (seconds,)), *writer.named(node)]


def transform(writer: Writer, node: nodes.TransformNode) -> Chain:
    """An operation of `S`, or a plain function."""
    shown = writer.of(node, "fn", node.fn)
    if _is_function(node):
        writer.only(node, "fn")
        if node.name:
            writer.refuse(node, "the name of a plain function")
    else:
        writer.only(node, "fn", "semantics", "affected_keys")
    return [OperatorChain((shown,)), *writer.named(node)]


def capture(writer: Writer, node: nodes.CaptureNode) -> Chain:
    """What was said, into the state."""
    if node.turns is None:
        call = SourceCall(f"{writer.names.use('adk_fluent', 'S')}.capture", (text(node.key),))
    else:
        call = SourceCall(
            f"{writer.names.use('adk_fluent', 'C')}.capture_turns", (text(node.key), f"n={node.turns}")
        )
    return [call, *writer.named(node)]


def gate(writer: Writer, node: nodes.GateNode) -> Chain:
    """A person who approves."""
    options = [
        (name, writer.of(node, name, node.given[name])) for name in ("message", "into") if name in node.given
    ]
    test = writer.of(node, "predicate", node.predicate)
    return [SourceCall(writer.names.use("adk_fluent", "gate"), (test, *named(options))), *writer.named(node)]


def tap(writer: Writer, node: nodes.TapNode) -> Chain:
    """A function that looks."""
    shown = writer.of(node, "fn", node.fn)
    return [SourceCall(writer.names.use("adk_fluent", "tap"), (shown,)), *writer.named(node)]


def transfer(writer: Writer, node: nodes.TransferNode) -> Chain:
    """Another agent goes on."""
    test = () if node.condition is None else (f"condition={writer.of(node, 'condition', node.condition)}",)
    return [
        SourceCall(writer.names.use("adk_fluent", "transfer"), (text(node.target), *test)),
        *writer.named(node),
    ]


def artifact(writer: Writer, node: nodes.ArtifactNode) -> Chain:
    """An operation of `A`."""
    return [OperatorChain((writer.of(node, "operation", node.operation),)), *writer.named(node)]


def refused(writer: Writer, node: Node) -> Chain:
    """Refuse a node that is no step of its own, or whose type nobody has told how to write."""
    raise ArgumentError(
        f"to_source() cannot write {node.name!r}, a {node.kind} node ({type(node).__name__})."
    )


def _is_function(node: Node) -> bool:
    """Whether a step is a plain function, beside which only an expression makes an operator mean a step."""
    return isinstance(node, nodes.TransformNode) and not isinstance(node.fn, TransformSpec)


WRITERS: Final[Mapping[type[Node], Callable[[Writer, Any], Chain]]] = {
    nodes.AgentNode: agent,
    nodes.SequenceNode: sequence,
    nodes.ParallelNode: parallel,
    nodes.LoopNode: loop,
    nodes.TransformNode: transform,
    nodes.RouteNode: route,
    nodes.FallbackNode: fallback,
    nodes.RaceNode: race,
    nodes.GateNode: gate,
    nodes.TapNode: tap,
    nodes.MapOverNode: map_over,
    nodes.TimeoutNode: timeout,
    nodes.TransferNode: transfer,
    nodes.CaptureNode: capture,
    nodes.ModelSelectorNode: refused,
    nodes.RemoteAgentNode: remote,
    nodes.ArtifactNode: artifact,
    nodes.NativeNode: native_agent,
    nodes.KnownNativeNode: native_agent,
}
"""Every type of node, with the method that writes it."""


def write(writer: Writer, node: Node) -> Chain:
    """Write a node as an expression, with its annotations."""
    return [*WRITERS.get(type(node), refused)(writer, cast(Any, node)), *notes(writer, node)]
