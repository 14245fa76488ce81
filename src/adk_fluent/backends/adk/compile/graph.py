"""IR nodes as nodes of ADK's graph `Workflow`. Imported only where google-adk has it; see `workflow`.

Every composite is a `Workflow` with its children as nodes, so a composite has one way in and one way out
wherever it stands: a join waits for whole branches, and a loop repeats its body and nothing else. A step that
says nothing itself (a transform, a choice, a check) hands on what it was given.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from itertools import pairwise
from typing import Any, Final, cast

from google.adk.agents.context import Context
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.workflow import DEFAULT_ROUTE, START, BaseNode, Edge, FunctionNode, JoinNode, Workflow
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent.backends.adk.artifacts.files import Files
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compile.boundaries import with_crossings
from adk_fluent.backends.adk.compile.compiler import compile_node
from adk_fluent.backends.adk.compile.scope import (
    Compilation,
    ModelFor,
    adk_fields,
    construct,
    names_below,
    needs_holding,
    whole,
    within,
)
from adk_fluent.backends.adk.context.functions import holds
from adk_fluent.backends.adk.events.signals import resumed
from adk_fluent.backends.adk.resources import given_to, holding
from adk_fluent.backends.adk.steps.artifacts import performed
from adk_fluent.backends.adk.steps.leaves import captured, shown_to, transformed
from adk_fluent.backends.adk.steps.llm_agent import FluentLlmAgent
from adk_fluent.backends.adk.steps.typed import check_writes
from adk_fluent.config import ExecutionConfig
from adk_fluent.contracts.checks.resources import missing_resources
from adk_fluent.contracts.refusals import raise_first
from adk_fluent.contracts.tree_rules import depth_refusals
from adk_fluent.errors import UnsupportedNodeError
from adk_fluent.ir._generated import LOOP_FIELDS, PARALLEL_FIELDS, SEQUENCE_FIELDS
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import Repeated
from adk_fluent.ir.graph import resolve_names
from adk_fluent.ir.nodes import (
    NODE_TYPES,
    AgentNode,
    ArtifactNode,
    CaptureNode,
    LoopNode,
    ParallelNode,
    RouteNode,
    SequenceNode,
    TapNode,
    TransformNode,
)
from adk_fluent.ir.predicates import Predicate, report_missed_label
from adk_fluent.state.delta import ReadOnlyState
from adk_fluent.state.fidelity import check_storable
from adk_fluent.state.schema import StateSchema

_AGAIN: Final = "again"
_DONE: Final = "done"


class FluentWorkflow(Workflow):
    """ADK's `Workflow`, knowing the IR node it was made from."""

    _ir: Node = PrivateAttr()
    _holds: bool = PrivateAttr(default=False)

    def bind(self, node: Node) -> None:
        """Remember the node it was made from."""
        self._ir = node

    @property
    def ir(self) -> Node:
        """The node it was made from."""
        return self._ir

    def hold(self) -> None:
        """Close what is opened for a run when it ends."""
        self._holds = True

    async def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        events = super()._run_impl(ctx=ctx, node_input=node_input)
        async with aclosing(holding(private.invocation(ctx), events) if self._holds else events) as run:
            async for event in run:
                yield event


def compile_workflow(root: Node, model_for: ModelFor | None = None) -> Workflow:
    """A `Workflow` for a tree; always of fresh objects. A single step gets a `Workflow` around it."""
    if not isinstance(root, _COMPOSITES):
        _visitor(root)  # to refuse it under its own name
        root = SequenceNode(children=(root,))
    raise_first(depth_refusals(root))
    named = with_crossings(resolve_names(_bound(root)), ExecutionConfig())
    raise_first(missing_resources(named.root, (node.name for node in named.nodes)))
    made = _compile(named.root, whole(named, model_for))
    assert isinstance(made, FluentWorkflow)
    if needs_holding(named.nodes):
        made.hold()
    return made


def _bound(node: Node, schema: type | None = None) -> Node:
    """The tree with each schema on the steps it binds: a graph's nodes write state without their parents.

    Raises:
        UnsupportedNodeError: one schema is bound inside another; a step can be held to one.
    """
    own = node.annotations.schema
    if own is not None and schema is not None and own is not schema:
        raise UnsupportedNodeError(
            f"{node.name or node.label!r}: build(target='workflow') cannot hold a step to {own.__name__} and "
            f"to {schema.__name__} around it. Call build() without a target."
        )
    schema = own or schema
    if schema is None and not node.children:
        return node
    bound = node.with_children(tuple(_bound(child, schema) for child in node.children))
    return bound.replace(annotations=node.annotations.replace(schema=schema))


def _write(node: Node, ctx: Context, delta: Mapping[str, Any]) -> None:
    """Write state for a step, if a store can hold it and it fits the schema that is bound to the step."""
    check_storable(delta, f"Step {node.name!r} wrote")
    if node.annotations.schema is not None:
        check_writes(cast("type[StateSchema]", node.annotations.schema), node.name, delta)
    ctx.state.update(dict(delta))


def _compile(node: Node, scope: Compilation) -> BaseNode:
    edge = node.annotations.edge
    if edge is not None and edge.buffering != "full":
        raise UnsupportedNodeError(
            f"{node.name!r}: build(target='workflow') cannot pass on {edge.buffering!r} pieces of an answer, "
            "since a node of ADK's graph starts when the one before has ended. Leave out .stream_to(...), or "
            "call build() without a target."
        )
    visit = _visitor(node)
    return visit(node, scope if isinstance(node, AgentNode) else within(node, scope))


def _visitor(node: Node) -> Callable[[Node, Compilation], BaseNode]:
    visit = VISITORS.get(type(node))
    if visit is None:
        raise UnsupportedNodeError(
            f"{node.name or node.label!r}: build(target='workflow') cannot run a {node.kind} node "
            f"({type(node).__name__}). Call build() without a target."
        )
    return visit


# --- composites -----------------------------------------------------------------------------------


def _workflow(node: Node, edges: list[Edge], fields: Collection[str] = ()) -> Workflow:
    values = adk_fields(node, fields, Workflow)
    made = construct(FluentWorkflow, node, {**values, "edges": list(edges)})
    made.bind(node)
    return made


def _children(node: Node, scope: Compilation) -> list[BaseNode]:
    return [_compile(child, scope) for child in node.children]


def _chain(nodes: list[BaseNode]) -> list[Edge]:
    return [Edge(from_node=a, to_node=b) for a, b in pairwise(nodes)]


def _sequence(node: Node, scope: Compilation) -> BaseNode:
    return _workflow(node, _chain([START, *_children(node, scope)]), SEQUENCE_FIELDS)


def _parallel(node: Node, scope: Compilation) -> BaseNode:
    assert isinstance(node, ParallelNode)
    if node.merge == "first_complete":
        raise UnsupportedNodeError(
            f"{node.name!r}: build(target='workflow') cannot merge branches by {node.merge!r}, since "
            "a join of ADK's graph waits for all. Leave it out, or call build() without a target."
        )

    def answers(node_input: dict[str, Any]) -> dict[str, Any]:
        # ADK gathers them in no particular order, and the next agent gets them as text.
        return {child.name: node_input[child.name] for child in node.children}

    join = JoinNode(name=_own_name(node, "join"))
    branches = _children(node, scope)
    edges = [edge for branch in branches for edge in _chain([START, branch, join])]
    in_order = FunctionNode(func=answers, name=_own_name(node, "answers"))
    return _workflow(node, [*edges, *_chain([join, in_order])], PARALLEL_FIELDS)


def _loop(node: Node, scope: Compilation) -> BaseNode:
    assert isinstance(node, LoopNode)
    enders = frozenset(names_below(node, until=(Repeated,)))

    async def check(ctx: Context, node_input: Any) -> Event:
        # The check runs once per round, so the number of its run is the number of the round. ADK counts runs
        # afresh whenever the loop starts, and gets the same numbers again when a paused run goes on.
        over = int(ctx.run_id) >= node.max_iterations or _escalated(ctx, enders)
        if not over and node.until is not None:
            over = await _holds(node.until, ctx, node, scope)
        return Event(output=_handed_on(node_input), actions=EventActions(route=_DONE if over else _AGAIN))

    body = _children(node, scope)
    test, exit_ = FunctionNode(func=check, name=_own_name(node, "check")), _pass(_own_name(node, "exit"))
    edges = [
        *_chain([START, *body, test]),
        Edge(from_node=test, to_node=body[0], route=_AGAIN),
        Edge(from_node=test, to_node=exit_, route=_DONE),
    ]
    return _workflow(node, edges, LOOP_FIELDS)


def _escalated(ctx: Context, enders: frozenset[str]) -> bool:
    """Whether one of `enders` asked to end this run of the loop; `Workflow` itself takes no notice of it."""
    loop, _, _ = ctx.node_path.rpartition("/")
    return any(
        event.actions.escalate
        and event.author in enders
        and event.invocation_id == ctx.invocation_id
        and event.node_info.path.startswith(f"{loop}/")
        for event in ctx.session.events
    )


def _route(node: Node, scope: Compilation) -> BaseNode:
    assert isinstance(node, RouteNode)

    async def choose(ctx: Context, node_input: Any) -> Event:
        chosen = DEFAULT_ROUTE
        for index, (test, _) in enumerate(node.rules):
            if await _holds(test, ctx, node, scope):
                chosen = str(index)
                break
        else:
            report_missed_label(node.name, (test for test, _ in node.rules), _state(ctx))
        return Event(output=_handed_on(node_input), actions=EventActions(route=chosen))

    branches = _children(node, scope)
    choice = FunctionNode(func=choose, name=_own_name(node, "choose"))
    default = branches[-1] if node.default is not None else _pass(_own_name(node, "no_match"))
    edges = [
        *_chain([START, choice]),
        *(
            Edge(from_node=choice, to_node=branches[index], route=str(index))
            for index, _ in enumerate(node.rules)
        ),
        Edge(from_node=choice, to_node=default, route=DEFAULT_ROUTE),
    ]
    return _workflow(node, edges)


def _own_name(node: Node, role: str) -> str:
    """A name for a node that a composite adds to its graph, other than those of its children."""
    name = f"{node.name}_{role}"
    while name in {child.name for child in node.children}:
        name += "_"
    return name


# --- steps ----------------------------------------------------------------------------------------


def _agent(node: Node, scope: Compilation) -> BaseNode:
    if node.children:
        raise UnsupportedNodeError(
            f"{node.name!r}: build(target='workflow') cannot let an agent delegate to others. "
            "Choose by a Route, or call build() without a target."
        )
    made = compile_node(node, scope)
    assert isinstance(made, FluentLlmAgent)
    made.bind(node)
    made.place(scope.named.root)  # a node of a graph has no parent that leads there
    return made


def _transform(node: Node, scope: Compilation) -> BaseNode:
    assert isinstance(node, TransformNode)

    async def step(ctx: Context, node_input: Any) -> Any:
        given = await given_to(node.function, scope.resources, private.invocation(ctx), node.name)
        _write(node, ctx, await transformed(node, node.name, _state(ctx), **given))
        return _handed_on(node_input)

    return FunctionNode(func=step, name=node.name)


def _tap(node: Node, scope: Compilation) -> BaseNode:
    assert isinstance(node, TapNode)

    async def step(ctx: Context, node_input: Any) -> Any:
        given = await given_to(node.fn, scope.resources, private.invocation(ctx), node.name)
        await shown_to(node, node.name, _state(ctx), **given)
        return _handed_on(node_input)

    return FunctionNode(func=step, name=node.name)


def _capture(node: Node, scope: Compilation) -> BaseNode:
    assert isinstance(node, CaptureNode)

    def step(ctx: Context, node_input: Any) -> Any:
        # While an agent runs, ADK keeps its input in the session as if the user had said it, with its path.
        events = [e for e in ctx.session.events if e.author != "user" or not e.node_info.path]
        _write(node, ctx, captured(node, events))
        return _handed_on(node_input)

    return FunctionNode(func=step, name=node.name)


def _artifact(node: Node, scope: Compilation) -> BaseNode:
    assert isinstance(node, ArtifactNode)

    async def step(ctx: Context, node_input: Any) -> Any:
        files = Files(private.invocation(ctx), f"Step {node.name!r}")
        changed, _ = await performed(node, _state(ctx), files, node.name)
        _write(node, ctx, dict(changed))
        ctx.actions.artifact_delta.update(files.saved)
        return _handed_on(node_input)

    return FunctionNode(func=step, name=node.name)


def _pass(name: str) -> BaseNode:
    return FunctionNode(func=_handed_on, name=name)


def _state(ctx: Context) -> ReadOnlyState:
    return ReadOnlyState(ctx.state.to_dict(), lambda: resumed(ctx.session.events, ctx.invocation_id))


async def _holds(predicate: Predicate, ctx: Context, node: Node, scope: Compilation) -> bool:
    """Whether a predicate of a node holds for the state, with the resources that it takes."""
    given = await given_to(predicate, scope.resources, private.invocation(ctx), node.name)
    return await holds(predicate, _state(ctx), node.name, **given)


def _handed_on(node_input: Any) -> Any:
    """What a step that says nothing gives to the next.

    The user's message is left out: an agent without input sees it anyway, and it would be stored twice.
    """
    return None if isinstance(node_input, types.Content) else node_input


VISITORS: Final[Mapping[type[Node], Callable[[Node, Compilation], BaseNode]]] = {
    AgentNode: _agent,
    SequenceNode: _sequence,
    ParallelNode: _parallel,
    LoopNode: _loop,
    RouteNode: _route,
    TransformNode: _transform,
    TapNode: _tap,
    CaptureNode: _capture,
    ArtifactNode: _artifact,
}
"""How each node type becomes a node of the graph."""

_COMPOSITES: Final = (SequenceNode, ParallelNode, LoopNode, RouteNode)

REFUSED_TYPES: Final = frozenset(NODE_TYPES) - VISITORS.keys()
"""Node types that this target refuses by name."""
