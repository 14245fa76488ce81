"""Graphs of ADK 2: what is a sequence, a fan-out, a route or a loop is looked into; all run as they are."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Any

import pytest
from google.adk.agents import LlmAgent
from pydantic import BaseModel

from adk_fluent import Agent
from adk_fluent.adopt import adopt
from adk_fluent.adopt.proving import run_alike
from adk_fluent.adopt.reading.workflow_shapes import GraphFunction, Onward, Routed
from adk_fluent.errors import CompileError
from adk_fluent.ir import (
    KnownNativeNode,
    LoopNode,
    NativeNode,
    ParallelNode,
    RouteNode,
    TransformNode,
    from_dict,
    to_dict,
    walk,
)
from adk_fluent.testing import mock_backend

if TYPE_CHECKING:
    from google.adk.agents.context import Context

pytestmark = pytest.mark.newest  # before ADK 2 there are none


class Plan(BaseModel):
    """What to do."""

    steps: list[str]


def choose(ctx: Any, draft: str) -> None:
    """Choose a way."""
    ctx.route = draft


def agent(name: str, **fields: Any) -> LlmAgent:
    """An agent of a graph."""
    return LlmAgent(name=name, **fields)


def graph(*edges: Any) -> Any:
    """A workflow of these edges."""
    from google.adk.workflow import Workflow

    return Workflow(name="graph", edges=list(edges))


def kinds(native: Any) -> list[type]:
    """The composites in what was read of a graph."""
    node = adopt(native).node
    return [type(inner) for inner in walk(node) if inner.children and not isinstance(inner, KnownNativeNode)]


def test_a_route_with_a_default_and_what_follows() -> None:
    """Branches that come together again are followed by what is behind."""
    from google.adk.workflow import DEFAULT_ROUTE, START

    left, right, last = agent("left", output_key="x"), agent("right"), agent("last", instruction="{x}")
    made = graph(
        (START, agent("a", output_key="draft"), choose, {"l": left, DEFAULT_ROUTE: right}),
        (left, last),
        (right, last),
    )
    assert RouteNode in kinds(made)
    report = adopt(made).check()
    assert not report.errors
    assert [(issue.agent, issue.key) for issue in report.warnings] == [("last", "x")]


def test_a_route_without_a_default_is_the_graphs_own_business() -> None:
    """What it is told could be written into an expression only."""
    from google.adk.workflow import START

    made = graph((START, agent("a", output_key="draft"), choose, {"l": agent("left"), "r": agent("right")}))
    assert not adopt(made).check().infos


def test_a_route_with_one_way_runs_what_follows_only_if_it_is_chosen() -> None:
    """The graph ends where the way is not chosen, so its steps stand in the route."""
    from google.adk.workflow import START

    writer = agent("writer", output_key="x")
    first = agent("first", output_key="draft")
    made = graph((START, first, choose, {"l": writer}), (writer, agent("reader", instruction="{x}")))
    expression = adopt(made)
    assert RouteNode in kinds(made)
    assert expression.check().ok
    [route] = [node for node in walk(expression.node) if isinstance(node, RouteNode)]
    assert {node.name for node in walk(route)} > {"writer", "reader"}
    expression.build()


def test_a_way_that_leads_straight_to_where_the_others_meet() -> None:
    """It is no fault; what another way writes may be missing behind."""
    from google.adk.workflow import START, JoinNode

    writer, last = agent("writer", output_key="x"), agent("last", instruction="{x}")
    first = agent("first", output_key="draft")
    report = adopt(graph((START, first, choose, {"l": writer, "r": last}), (writer, last))).check()
    assert not report.errors
    assert [(issue.agent, issue.key) for issue in report.warnings] == [("last", "x")]
    join, end = JoinNode(name="join"), agent("end", instruction="{y}")
    branch = agent("branch", output_key="y")
    lead = agent("lead")
    made = graph((START, lead), (lead, branch), (lead, join), (branch, join), (join, end))
    assert ParallelNode in kinds(made)
    assert adopt(made).check().ok


def test_ways_of_which_only_some_meet_again() -> None:
    """One way gives up; what the others write is certainly there behind them."""
    from google.adk.workflow import DEFAULT_ROUTE, START

    car, home = agent("car", output_key="x"), agent("home", output_key="x")
    letter = agent("letter", instruction="{x} {nobody}")
    made = graph(
        (
            START,
            agent("first", output_key="draft"),
            choose,
            {"c": car, "h": home, DEFAULT_ROUTE: agent("no")},
        ),
        (car, letter),
        (home, letter),
    )
    report = adopt(made).check()
    assert [(issue.agent, issue.key) for issue in [*report.errors, *report.warnings]] == [
        ("letter", "nobody")
    ]
    outer, inner = [node for node in walk(adopt(made).node) if isinstance(node, RouteNode)]
    assert [test.__name__ for test, _ in outer.rules] == ["it chooses 'c' or 'h'"]
    assert {node.name for node in walk(inner)} >= {"car", "home"}
    adopt(made).build()


def test_a_loop_with_two_ways_out_and_two_back() -> None:
    """A loop may succeed or give up, and each way out has its own steps."""
    from google.adk.workflow import START

    judge, end = agent("judge", output_key="draft"), agent("end", instruction="{draft} {nobody}")
    ways: Any = {"again": judge, "once_more": judge, "done": end, "failed": agent("sorry")}
    made = graph((START, judge, choose, ways))
    assert kinds(made).count(LoopNode) == kinds(made).count(RouteNode) == 1
    assert [(issue.agent, issue.key) for issue in adopt(made).check().errors] == [("end", "nobody")]


def test_an_edge_for_several_values() -> None:
    """The route shows all of them."""
    from google.adk.workflow import START, Edge, FunctionNode

    first, step = agent("first", output_key="draft"), FunctionNode(func=choose)
    end = agent("end", instruction="{nobody}")
    made = graph((START, first, step), Edge(from_node=step, to_node=end, route=["a", "b"]))
    assert [(issue.agent, issue.key) for issue in adopt(made).check().errors] == [("end", "nobody")]
    [route] = [node for node in walk(adopt(made).node) if isinstance(node, RouteNode)]
    assert route.rules[0][0].__name__ == "it chooses 'a' or 'b'"


def test_a_fan_out_that_is_joined_and_a_loop() -> None:
    """What is written in a branch is there after the join; a way back is a loop."""
    from google.adk.workflow import START, JoinNode

    one, two = agent("one", output_key="draft"), agent("two", output_key="more")
    judge = agent("judge", instruction="{draft} {more} {nobody}")
    made = graph(
        (START, (one, two), JoinNode(name="both"), judge, choose),
        (choose, {"again": judge, "done": agent("end")}),
    )
    assert kinds(made).count(ParallelNode) == kinds(made).count(LoopNode) == 1
    assert [(issue.agent, issue.key) for issue in adopt(made).check().errors] == [("judge", "nobody")]


def test_a_parameter_of_a_function_is_a_key_that_it_reads() -> None:
    """ADK fills it from the state, by name."""
    from google.adk.workflow import START

    report = adopt(graph((START, agent("a"), choose))).check()
    assert [(issue.agent, issue.key) for issue in report.errors] == [("choose", "draft")]


def decide(ctx: Any, draft: str) -> None:
    """Note what was decided, and read what was asked."""
    if draft:
        ctx.state["verdict"] = draft
    ctx.state["seen"] = ctx.state.get("seen", 0) + ctx.state["weight"]


def tell(node_input: Any) -> Any:
    """Say it as an event with a change of the state."""
    from google.adk.events import Event

    return Event(author="graph", state={"told": node_input})  # pyright: ignore[reportCallIssue]  # ADK 2 has it


def anything(ctx: Any) -> None:
    """Hand the context on."""
    list(map(decide, [ctx], ["x"]))


def test_what_a_function_writes_is_found_in_its_source() -> None:
    """It may be there, no more, with file and line; what nobody writes is an error again."""
    from google.adk.workflow import START

    reader = agent("reader", instruction="{verdict} {told} {nobody}")
    report = adopt(graph((START, agent("a", output_key="draft"), decide, tell, reader))).check()
    assert [(issue.agent, issue.key) for issue in report.errors] == [("reader", "nobody")]
    found = {(issue.agent, issue.key): str(issue.hint) for issue in report.warnings}
    assert set(found) == {("reader", "verdict"), ("decide", "weight")}  # "told" is certain
    line = decide.__code__.co_firstlineno + 3
    assert f"code of decide (test_workflows.py, line {line})" in found["reader", "verdict"]
    assert not [issue for issue in report.infos if issue.code == "unknown-access"]


def typed(where: Context, draft: str) -> None:
    """A context of any name, told by its type."""
    where.state["noted"] = draft


def prepared(topic: str) -> str:
    """What came before has the topic."""
    return topic.strip()


def outside(node_input: Any) -> Any:
    """Somebody else makes the result, which may be an event."""
    return tell(node_input)


def test_a_parameter_that_is_no_key() -> None:
    """A context under any name, and what is filled from what came before."""
    from google.adk.workflow import START, FunctionNode

    bound = FunctionNode(func=prepared, parameter_binding="node_input")
    report = adopt(graph((START, bound, agent("a", output_key="draft"), typed))).check()
    assert not [*report.errors, *report.warnings]
    report = adopt(graph((START, outside, agent("reader", instruction="{told}")))).check()
    assert not report.errors
    assert [issue.agent for issue in report.infos if issue.code == "unknown-access"] == ["outside"]


def test_a_function_that_hands_its_context_on_is_unknown() -> None:
    """Its source does not show all there is."""
    from google.adk.workflow import START

    report = adopt(graph((START, anything, agent("reader", instruction="{verdict}")))).check()
    assert not report.errors
    assert [issue.agent for issue in report.infos if issue.code == "unknown-access"] == ["anything"]


def test_another_shape_is_opaque() -> None:
    """Two ways that cross are no tree: one note names the graph, and nothing else is said."""
    from google.adk.workflow import START, JoinNode

    a, b, c = agent("a"), agent("b"), agent("c", instruction="{nobody}")
    first, second = JoinNode(name="first"), JoinNode(name="second")
    made = graph(
        (START, (a, b)), (a, first), (b, first), (a, second), (b, second), (first, c), (second, agent("d"))
    )
    assert isinstance(adopt(made).node, NativeNode)
    assert [issue.code for issue in adopt(made).check().issues] == ["unknown-access"]


async def test_a_graph_runs_as_it_is() -> None:
    """ADK runs the graph; a script plays its agents."""
    from google.adk.workflow import START

    made = graph((START, agent("a"), agent("b")))
    result = await adopt(made).run("go", backend=mock_backend({"a": "one", "b": "two"}))
    assert [event.author for event in result if event.content] == ["a", "b"]
    assert result.text == "two"


def test_a_graph_is_no_step() -> None:
    """ADK runs a graph only by itself, and the line says so."""
    from google.adk.workflow import START

    with pytest.raises(CompileError, match="'graph' is a Workflow, which ADK runs only by itself"):
        (Agent("a") >> adopt(graph((START, agent("b"))))).build()


def test_a_remote_agent_stores_nothing() -> None:
    """What it does elsewhere writes no state here, so nothing is unknown."""
    from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

    remote: Any = RemoteA2aAgent(name="far", agent_card="http://127.0.0.1:1/card.json")
    report = (Agent("a") >> remote >> Agent("b").instruct("{nobody}")).check()
    assert [(issue.agent, issue.key) for issue in report.errors] == [("b", "nobody")]
    assert not [issue for issue in report.infos if issue.code == "unknown-access"]


async def test_a_typed_agent_that_a_node_runs_answers_in_its_type() -> None:
    """A preview and a proof give it the smallest answer of its type, since no tree has it."""
    from google.adk.workflow import START, node

    inner = agent("inner", output_schema=Plan)

    @node(rerun_on_resume=True)
    async def asks(ctx: Any, node_input: str) -> str:
        """Give the steps that the agent plans."""
        return str(await ctx.run_node(inner, node_input))

    made = graph((START, asks))
    assert await run_alike(made, adopt(made)) == []
    assert str(await adopt(made).preview("Hello.")).strip() == "There is no agent here."


def test_a_stored_graph_names_its_parts_as_ever() -> None:
    """Its classes have moved; a graph that was stored before is read, and stored under the same names."""
    parts: tuple[Any, ...] = (GraphFunction(dumps), Onward("end"), Routed("yes"))
    for fn in parts:
        node = TransformNode(name="step", fn=fn)
        stored = to_dict(node)
        assert stored["root"]["fn"]["$value"] == {
            "$ref": f"adk_fluent.backends.adk.adopting.workflows:{type(fn).__name__}"
        }
        assert from_dict(stored) == node
