"""Mocks of tools: what calls give in the place of the tools, and what surrounds them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from adk_fluent import Agent, T
from adk_fluent.backends import MockBackend
from adk_fluent.eval import FluentCase
from adk_fluent.middleware import Middleware, retry, tool_approval
from adk_fluent.middleware.protocol import CallTool
from adk_fluent.testing import call_tool, mock_backend
from tests.eval.support import TICKET, desk, open_ticket, opened, pipeline, scripted


@dataclass
class Ticket:
    """What a class gives that is a mock."""

    title: str


def numbered(title: str) -> str:
    """A mock of the ticket's title."""
    return f"T-{title}"


async def later(title: str) -> dict[str, str]:
    """The same, async."""
    await asyncio.sleep(0)
    return {"ticket": title}


class Remembering:
    """A mock that is an object, and async."""

    async def __call__(self, **args: Any) -> Any:
        return args


def tool_results(backend: MockBackend) -> list[Any]:
    """What the resolver's model was told of its calls at last."""
    contents = backend.calls["resolver"][-1].contents
    found = [part.function_response for content in contents for part in content.parts or ()]
    return [response.response for response in found if response]


@pytest.mark.parametrize(
    ("mock", "told"),
    [
        ("T-1", {"result": "T-1"}),
        ({}, {}),
        ({"id": 1}, {"id": 1}),
        (["T-1", "T-2"], {"result": ["T-1", "T-2"]}),
        (("T-1", "T-2"), {"result": ("T-1", "T-2")}),
        (None, {"result": None}),
        (numbered, {"result": "T-bill"}),
        (lambda: "T-1", {"result": "T-1"}),
        (later, {"ticket": "bill"}),
        (Remembering(), {"title": "bill"}),
        (dict, {"title": "bill"}),
        (Ticket, {"result": Ticket("bill")}),
    ],
)
async def test_a_mock_replaces_the_tool(mock: Any, told: Any) -> None:
    """The real tool is not called; the model gets what the mock gives, as the tool would have given it."""
    opened.clear()
    backend = scripted(*TICKET)()
    case = FluentCase("x", mock_tool_outputs={"open_ticket": mock}, expected_trajectory=["open_ticket"])
    report = await desk(case).run(backend=backend, engine="light")
    assert report.passed, report.case_results[0].failures
    assert (tool_results(backend), opened) == ([told], [])


async def test_a_tool_without_a_mock_is_called() -> None:
    """Mocks of one case are not those of another, at the same time and on one backend."""
    opened.clear()
    cases = [
        FluentCase("a", mock_tool_outputs={"open_ticket": "T-1"}, expected_response_contains="T-1"),
        FluentCase("b", expected_response_contains="T-9"),
    ]
    backend = mock_backend({"classifier": "billing", "resolver": told_ticket})
    assert (await desk(*cases, backend=backend).run(engine="light", parallelism=2)).passed
    assert opened == ["bill"]


def told_ticket(request: Any) -> Any:
    """Open a ticket, then say which."""
    responses = [part.function_response for content in request.contents for part in content.parts]
    told = [response.response["result"] for response in responses if response]
    return str(told) if told else call_tool("open_ticket", title="bill")


class Caught(Middleware):
    """Takes down what happens around tools, and answers for errors."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def around_tool(self, ctx: Any, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        self.seen.append(f"around {tool_name}")
        return await call(args)

    async def on_tool_error(
        self, ctx: Any, tool_name: str, args: dict[str, Any], error: Exception
    ) -> dict[str, str]:
        self.seen.append(f"{type(error).__name__}: {error}")
        return {"problem": str(error)}


def raising(title: str) -> None:
    """A mock that fails."""
    raise ConnectionError(f"no desk for {title}")


async def raising_later(title: str) -> None:
    """The same, async."""
    raising(title)


@pytest.mark.parametrize(
    ("mock", "told"),
    [
        (ValueError("no desk"), "ValueError: no desk"),
        (ValueError, "ValueError: "),
        (raising, "ConnectionError: no desk for bill"),
        (raising_later, "ConnectionError: no desk for bill"),
    ],
)
async def test_a_mock_that_raises_is_a_tool_that_raises(mock: Any, told: str) -> None:
    """Middleware sees the error and may answer for it; else the case fails and names the tool."""
    case = FluentCase("x", mock_tool_outputs={"open_ticket": mock}, expected_response_contains="T-1")
    (alone,) = (await desk(case).run(engine="light")).case_results
    assert alone.failures == (
        f"ToolError: Agent 'resolver': its tool 'open_ticket' raised {told.rstrip(': ')}.",
    )
    caught, backend = Caught(), scripted(*TICKET)()
    report = await desk(case, pipeline=pipeline.middleware(caught), backend=backend).run(engine="light")
    assert report.passed, report.case_results[0].failures
    assert caught.seen == ["around open_ticket", told]
    assert tool_results(backend) == [{"problem": told.partition(": ")[2]}]


async def test_a_mock_is_called_again_by_retries() -> None:
    """As the real tool would be."""
    titles: list[str] = []

    def flaky(title: str) -> str:
        titles.append(title)
        if len(titles) < 3:
            raise ConnectionError("busy")
        return "T-1"

    case = FluentCase("x", mock_tool_outputs={"open_ticket": flaky}, expected_response_contains="T-1")
    flow = pipeline.middleware(retry(3, backoff_base=0, tools=True))
    report = await desk(case, pipeline=flow).run(engine="light")
    assert report.passed, report.case_results[0].failures
    assert titles == ["bill"] * 3


ASKING: dict[str, Callable[[Agent[str]], Any]] = {
    "a function": lambda agent: agent.tool(open_ticket, require_confirmation=True),
    "a wrapper": lambda agent: agent.tools(T.confirm(open_ticket)),
    "middleware": lambda agent: agent.tool(open_ticket).middleware(tool_approval(["open_ticket"])),
}


@pytest.mark.parametrize("asking", ASKING)
async def test_a_mock_needs_no_approval(asking: str) -> None:
    """Where the case says nothing of it, a person has approved the call."""
    opened.clear()
    case = FluentCase(
        "x",
        mock_tool_outputs={"open_ticket": "T-1"},
        expected_trajectory=["open_ticket"],
        expected_response_contains="T-1",
    )
    flow = ASKING[asking](Agent("resolver", "gemini-2.5-flash"))
    report = await desk(case, pipeline=flow).run(engine="light")
    assert report.passed, report.case_results[0].failures
    assert opened == []
