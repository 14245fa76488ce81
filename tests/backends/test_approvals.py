"""Several approvals of one run: together or one by one, in any order, by `resume` or by a client of ADK's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.adk.apps.app import App
from google.adk.sessions import InMemorySessionService
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, T, gate, map_over, race
from adk_fluent.backends.adk.events.signals import spoken_text
from adk_fluent.expr.base import Expr
from adk_fluent.testing import MockBackend, call_tool
from tests.backends.support import Client, called, requested, script, speakers, system

A, B, AFTER = Agent("a"), Agent("b"), Agent("after")
MOST = 9
"""Times that any of the pipelines is answered at most."""
Pick = Callable[[list[str]], list[str]]
"""Which of the requests that wait are answered next."""


@dataclass
class Desk:
    """Agents with tools that ask first, and what those tools really did."""

    paid: list[str] = field(default_factory=list[str])

    def payer(self, name: str) -> Agent[str]:
        """An agent that pays whom its script says."""

        def pay(to: str) -> str:
            """Pay somebody."""
            self.paid.append(to)
            return f"paid {to}"

        return Agent(name).tool(pay, require_confirmation=True)


def asks(name: str) -> Any:
    """A gate that always asks."""
    return gate(lambda state: True, message=f"{name}?").named(name)


def hands_over(to: str) -> list[Any]:
    """The script of an agent that hands over."""
    return [call_tool("transfer_to_agent", agent_name=to), "never said"]


def both(request: Any) -> Any:
    """The answer of a model that pays two people at once, and then says so."""
    if called(request):
        return "done"
    calls = [types.FunctionCall(name="pay", args={"to": to}) for to in ("ann", "bob")]
    return types.Content(role="model", parts=[types.Part(function_call=call) for call in calls])


def of_item(request: Any) -> Any:
    """The answer of a model that pays the person its instruction names."""
    return "done" if called(request) else call_tool("pay", to=system(request).split()[1])


def two(left: Any, right: Any, name: str = "fan") -> FanOut[Any]:
    """Two branches that go on after what stands in them."""
    return FanOut(name, Pipeline("left", left, A), Pipeline("right", right, B))


@dataclass(frozen=True)
class Shape:
    """A pipeline in which several approvals are awaited at once.

    Attributes:
        make: gives the pipeline.
        paid: who is paid, by the tools that were approved.
        said: who says something from the first pause on, each once.
        responses: scripts beside those of the payers.
    """

    make: Callable[[Desk], Expr[Any]]
    paid: Sequence[str]
    said: Sequence[str]
    responses: dict[str, Any] = field(default_factory=dict[str, Any])


SHAPES = {
    "tool and tool": Shape(
        lambda desk: two(desk.payer("one"), desk.payer("two")) >> AFTER,
        ["one", "two"],
        ["a", "after", "b", "one", "two"],
    ),
    "gate and tool": Shape(
        lambda desk: two(asks("g"), desk.payer("two")) >> AFTER, ["two"], ["a", "after", "b", "two"]
    ),
    "tool and gate": Shape(
        lambda desk: two(desk.payer("one"), asks("g")) >> AFTER, ["one"], ["a", "after", "b", "one"]
    ),
    "gate and gate": Shape(lambda desk: two(asks("g"), asks("h")) >> AFTER, [], ["a", "after", "b"]),
    "two calls of one answer": Shape(
        lambda desk: desk.payer("payer") >> AFTER, ["ann", "bob"], ["after", "payer"], {"payer": both}
    ),
    "an agent alone with two calls": Shape(
        lambda desk: desk.payer("payer"), ["ann", "bob"], ["payer"], {"payer": both}
    ),
    "branches in a branch": Shape(
        lambda desk: FanOut("outer", two(desk.payer("one"), asks("g")), desk.payer("two")) >> AFTER,
        ["one", "two"],
        ["a", "after", "b", "one", "two"],
    ),
    "behind branches in a branch": Shape(
        lambda desk: FanOut("outer", two(A, B, "inner") >> desk.payer("one"), desk.payer("two")) >> AFTER,
        ["one", "two"],
        ["after", "one", "two"],
    ),
    "items of a map": Shape(
        lambda desk: (
            S.set(items=["ann", "bob"])
            >> map_over("items", desk.payer("payer").instruct("Pay {_item} now"))
            >> AFTER
        ),
        ["ann", "bob"],
        ["after", "payer", "payer"],
        {"payer": of_item},
    ),
    "branches of the items of a map": Shape(
        lambda desk: (
            S.set(items=["ann", "bob"])
            >> map_over("items", two(desk.payer("payer").instruct("Pay {_item} now"), asks("g")))
            >> AFTER
        ),
        ["ann", "bob"],
        ["a", "a", "after", "b", "b", "payer", "payer"],
        {"payer": of_item},
    ),
    "branches in a race": Shape(
        lambda desk: race(two(desk.payer("one"), asks("g")), Agent("fails")) >> AFTER,
        ["one"],
        ["a", "after", "b", "one"],
        {"fails": RuntimeError("no")},
    ),
    "branches in other composites": Shape(
        lambda desk: (
            Loop(
                "loop",
                Route().when(lambda state: True, two(asks("g"), desk.payer("two")).timeout(60)) // Agent("x"),
                max_iterations=1,
            )
            >> AFTER
        ),
        ["two"],
        ["a", "after", "b", "two"],
    ),
    "agents that were handed over to": Shape(
        lambda desk: (
            FanOut("fan", Agent("x").delegate(desk.payer("one")), Agent("y").delegate(desk.payer("two")))
            >> AFTER
        ),
        ["one", "two"],
        ["after", "one", "two"],
        {"x": hands_over("one"), "y": hands_over("two")},
    ),
    "below a model": Shape(
        lambda desk: Agent("boss").delegate(
            Pipeline("steps", two(desk.payer("one"), asks("g")), desk.payer("two"), AFTER)
        ),
        ["one", "two"],
        ["a", "after", "b", "one", "two"],
        {"boss": hands_over("steps")},
    ),
    "below a model in a sequence": Shape(
        lambda desk: (
            Agent("boss").delegate(
                Pipeline(
                    "steps", two(desk.payer("one"), asks("g")), desk.payer("two"), asks("h"), Agent("end")
                )
            )
            >> AFTER
        ),
        ["one", "two"],
        ["a", "after", "b", "end", "one", "two"],
        {"boss": hands_over("steps")},
    ),
}
PICKS: dict[str, Pick] = {
    "together": lambda ids: ids,
    "together, backwards": lambda ids: ids[::-1],
    "first by first": lambda ids: ids[:1],
    "last by last": lambda ids: ids[-1:],
}


async def by_resume(expression: Expr[Any], backend: MockBackend, pick: Pick) -> list[str]:
    """Answer by `resume` until nothing waits; who spoke from then on."""
    result = await expression.run("hi", backend=backend)
    assert result.pending
    said: list[str] = []
    for _ in range(MOST):
        ids = pick([pending.id for pending in result.pending])
        result = await expression.resume(
            session_id=result.session_id, approvals=dict.fromkeys(ids, True), backend=backend
        )
        said += speakers(result)
        if not result.pending:
            return said
    raise AssertionError(f"It still waits, after {said}.")


async def by_client(expression: Expr[Any], backend: MockBackend, pick: Pick) -> list[str]:
    """Answer as a client of ADK's own runner does: all answers of a turn in one message."""
    client = Client.of(expression, backend)
    waiting = requested(await client.say("hi"))
    assert waiting
    said: list[str] = []
    for _ in range(MOST):
        picked = pick(waiting)
        events = await client.confirm(*picked)
        said += [event.author for event in events if spoken_text(event)]
        waiting = [request for request in waiting if request not in picked] + requested(events)
        if not waiting:
            return said
    raise AssertionError(f"It still waits, after {said}.")


@pytest.mark.parametrize("way", [by_resume, by_client])
@pytest.mark.parametrize("pick", PICKS.values(), ids=PICKS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_every_approval_is_heard(
    shape: Shape, pick: Pick, way: Callable[[Expr[Any], MockBackend, Pick], Awaitable[list[str]]]
) -> None:
    """However approvals are given, each tool runs once, each branch goes on once, and then what follows."""
    desk = Desk()
    payers = {name: [call_tool("pay", to=name), "done"] for name in ("one", "two")}
    said = await way(shape.make(desk), script({**payers, **shape.responses}), pick)
    assert sorted(desk.paid) == list(shape.paid)
    assert sorted(said) == list(shape.said)


@pytest.mark.newest
@pytest.mark.parametrize("resumable", [False, True])
async def test_the_branches_of_a_workflow_are_heard_too(resumable: bool) -> None:
    """Built as ADK's `Workflow`, two branches that are answered in one message both go on."""
    from adk_fluent.backends.adk.compile.workflow import build_workflow
    from adk_fluent.backends.adk.running.convert import resumability

    desk = Desk()
    payers = {name: [call_tool("pay", to=name), "done"] for name in ("one", "two")}
    shape = two(desk.payer("one"), desk.payer("two")) >> AFTER
    client = Client(
        App(
            name="app",
            root_agent=build_workflow(shape.node, script(payers).model_for),
            resumability_config=resumability() if resumable else None,
        )
    )
    events = await client.confirm(*requested(await client.say("hi")))
    assert sorted(desk.paid) == ["one", "two"]
    assert sorted(e.author for e in events if spoken_text(e)) == ["a", "after", "b", "one", "two"]


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("wrap", ["not", "as a tool", "with a limit"])
async def test_a_tool_may_ask_by_itself(wrap: str, approved: bool) -> None:
    """A function that asks through its context pauses the run, which goes on with the steps behind it."""

    def look(tool_context: ToolContext) -> str:
        """Look out."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="Shall I look out?")
            tool_context.actions.skip_summarization = True
            return "asked"
        return "sunny" if tool_context.tool_confirmation.confirmed else "nobody looked"

    tools: dict[str, Any] = {"not": look, "as a tool": T.fn(look), "with a limit": T.timeout(look, 60)}
    pipeline = A.tool(tools[wrap]) >> B
    backend = MockBackend({"a": [call_tool("look"), "done"], "b": "bye"})
    service = InMemorySessionService()
    (waiting,) = (await pipeline.run("hi", backend=backend, session_id="s", session_service=service)).pending
    assert (waiting.agent, waiting.message) == ("a", "Shall I look out?")
    approvals = {waiting.id: approved}
    result = await pipeline.resume(
        session_id="s", approvals=approvals, backend=backend, session_service=service
    )
    assert result.text == "bye"
    ((answer,),) = [event.tool_responses for event in result if event.tool_responses]
    assert answer.result == {"result": "sunny" if approved else "nobody looked"}
