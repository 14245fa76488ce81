"""Dry runs say what would happen and what it would cost; traces log what did."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from pydantic import BaseModel

from adk_fluent import Agent, Route, S
from adk_fluent.backends import DryRunBackend, TraceBackend
from adk_fluent.cost import Price, register_price
from adk_fluent.errors import MockError
from adk_fluent.testing import call_tool, mock_backend
from tests.debug.pipelines import CALLED, look_up


class Size(BaseModel):
    size: int


DESK = Agent("sort").writes("kind") >> Route("kind").eq("bill", Agent("bill").tool(look_up)).otherwise(
    Agent("other")
)


async def test_a_dry_run_shows_the_requests() -> None:
    """What would be asked is in `.calls`: by stand-ins that fit, while steps really run and no tool does."""
    CALLED.clear()
    backend = DryRunBackend()
    pipeline = DESK >> S.counter("n") >> (Agent("size") @ Size)
    result = await pipeline.run("My bill is wrong.", backend=backend)
    assert [*backend.calls] == ["sort", "bill", "size"]
    assert (result.state["n"], result.output) == (1, Size(size=0))
    assert [*backend.calls["bill"][0].tools_dict] == ["look_up"]
    assert CALLED == []


async def test_answers_can_be_given() -> None:
    """An answer that is given decides where the run goes."""
    backend = DryRunBackend({"sort": "joke"})
    await DESK.run("Ha ha.", backend=backend)
    assert [*backend.calls] == ["sort", "other"]


async def test_a_dry_run_estimates_costs() -> None:
    """Each agent's requests are priced, with the tokens an answer is taken to have; unknown is `None`."""
    register_price("dry-model", Price.per_million(input=4, output=8))
    backend = DryRunBackend(output_tokens=1000)
    await (Agent("a", "dry-model") >> Agent("b", "dry-model")).run("x" * 4000, backend=backend)
    assert set(backend.costs) == {"a", "b"}
    total = backend.estimated_cost
    assert total is not None
    assert Decimal("0.024") < total < Decimal("0.026")
    unknown = DryRunBackend()
    await Agent("a", "model-without-price").run("hi", backend=unknown)
    assert unknown.estimated_cost is None


async def test_a_trace_logs_every_step() -> None:
    """Agents, requests, answers, tools and events are logged in order, each with its run and agent."""
    agent = Agent("a").tool(look_up).writes("said")
    backend = TraceBackend(mock_backend({"a": [call_tool("look_up", order="7"), "It is paid."]}))
    result = await (agent >> S.set(done=True)).run("Is it?", backend=backend)
    assert result.text == "It is paid."
    assert str(backend).splitlines() == [str(step) for step in backend.steps]
    kinds = [(step.agent, step.kind) for step in backend.steps]
    assert kinds == [
        ("sequence", "enter"),
        ("a", "enter"),
        ("a", "request"),
        ("a", "response"),
        ("a", "event"),
        ("a", "tool_call"),
        ("a", "tool_result"),
        ("a", "event"),
        ("a", "request"),
        ("a", "response"),
        ("a", "event"),
        ("a", "leave"),
        ("set", "enter"),
        ("set", "event"),
        ("set", "leave"),
        ("sequence", "leave"),
    ]
    by_kind = {step.kind: step for step in backend.steps if step.agent == "a"}
    assert by_kind["tool_call"].detail == {"tool": "look_up", "args": {"order": "7"}}
    assert by_kind["request"].detail["tools"] == ["look_up"]
    assert by_kind["event"].detail == {"text": "It is paid.", "state": {"said": "It is paid."}}
    assert {step.run for step in backend.steps} == {result.invocation_id}
    assert [step.number for step in backend.steps] == list(range(1, 17))
    assert [json.loads(line)["kind"] for line in backend.to_json().splitlines()] == [
        kind for _, kind in kinds
    ]
    assert str(by_kind["tool_call"]).endswith('a tool_call tool="look_up" args={"order": "7"}')


async def test_a_trace_logs_what_failed() -> None:
    """An error of a model is logged with its words, and raised as without the trace."""
    backend = TraceBackend(mock_backend({"a": ConnectionError("lost"), "b": "instead"}))
    assert (await (Agent("a") // Agent("b")).run("hi", backend=backend)).text == "instead"
    errors = [step.detail["error"] for step in backend.steps if step.kind == "error"]
    assert errors == ["ConnectionError: lost"]
    with pytest.raises(MockError, match="'c'"):
        await Agent("c").run("hi", backend=backend)
