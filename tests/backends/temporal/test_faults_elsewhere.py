"""Workers die in calls of remote agents and MCP tools; no finished call is made again."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from adk_fluent import Agent
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.expr.base import Expr
from adk_fluent.serve import A2AServer
from adk_fluent.testing import mock_backend
from tests.backends.temporal.processes import Crew, backend_of
from tests.backends.temporal.steps import (
    FOLDER,
    remote,
    remote_tool,
    shouting,
)
from tests.limits import comes_true

pytestmark = pytest.mark.newest


_BOTH = ("begins", "ends")


@pytest.mark.parametrize("calling", [remote, remote_tool])
async def test_a_worker_is_killed_in_a_remote_call(
    calling: Callable[[], Expr[str]], temporal: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call that was on its way is made again; once it is answered, no death repeats it."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    called, let = asyncio.Event(), asyncio.Event()
    calls: list[str] = []

    async def answer(request: object) -> AsyncIterator[str]:
        calls.append("called")
        called.set()
        await let.wait()
        yield "From afar."

    try:
        async with A2AServer(Agent("clerk"), backend=mock_backend({"clerk": answer})) as far:
            (tmp_path / "endpoint").write_text(far.url)
            expression = remote()
            crew.hold("last")
            crew.start("remote")
            run = asyncio.ensure_future(expression.run("hi", backend=backend_of(crew)))
            await called.wait()
            called.clear()
            crew.kill("first begins", "remote")
            await called.wait()
            let.set()
            await crew.until("last begins")
            crew.kill("last begins", "remote")
            crew.release("last")
            result = await run
    finally:
        crew.end()
    assert [event.content for event in result if event.content] == ["I am first.", "From afar.", "I am last."]
    assert len(calls) == 2
    begun = Counter(line for line in crew.log() if line.endswith("begins"))
    assert begun == {"first begins": 1, "last begins": 2}


async def test_a_worker_is_killed_in_a_call_of_an_mcp_tool(
    temporal: DevServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next worker starts a server of its own and calls the tool again; no model is asked again."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    crew.hold("shout")
    try:
        crew.start("shouting")
        run = asyncio.ensure_future(shouting().run("hi", backend=backend_of(crew)))
        await comes_true((tmp_path / "called").exists, "a call of the tool")
        crew.kill("first begins", "shouting")
        crew.release("shout")
        result = await run
    finally:
        crew.end()
    (answer,) = [answer for event in result for answer in event.tool_responses]
    assert "HI" in str(answer.result)
    assert result.text == "I am last."
    assert (tmp_path / "mcp").read_text().split()[::2] == ["start", "start"]
    assert (tmp_path / "called").read_text().split()[::2] == ["call", "call"]
    assert Counter(crew.log()) == {
        f"{name} {what}": 1 for name in ("first", "shouter", "last") for what in _BOTH
    }
