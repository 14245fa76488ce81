"""How much a durable run holds: conversations go on, and what is too large is one clear line."""

from __future__ import annotations

from typing import Any

import pytest

from adk_fluent import Agent, C, Loop
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal import sizes
from adk_fluent.errors import RunError
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.temporal.engine import Served, Workers

pytestmark = pytest.mark.newest

LONG = "w" * 700_000


async def test_a_conversation_may_be_longer_than_a_message(workers: Workers) -> None:
    """Each turn is a run of its own, which gets the session in pages; four turns are more than 2 MB."""
    agent = Agent("a").context(C.user_only())
    backend = Served(workers, {"models": mock_backend({"a": LONG})})
    for _ in range(5):
        assert (await agent.run("hi", session_id="long", backend=backend)).text == LONG
    stored = await backend.session(backend.compile(agent.node), session_id="long")
    assert [event.content for run in stored.runs.values() for event in run] == [LONG] * 5


async def test_one_run_may_say_more_than_a_message(workers: Workers) -> None:
    """What it said is stored in pages."""
    agent = Agent("a").context(C.user_only())
    backend = Served(workers, {"models": mock_backend({"a": LONG})})
    result = await Loop(agent, max_iterations=4).run("hi", backend=backend)
    assert [event.content for event in result if event.author == "a"] == [LONG] * 4


async def test_a_result_that_is_too_large_is_said_once(workers: Workers) -> None:
    """The tool is not called again for it."""
    called: list[int] = []

    def big() -> str:
        """Much."""
        called.append(1)
        return "x" * 3_000_000

    backend = Served(workers, {"models": mock_backend({"a": [call_tool("big"), "done"]})})
    with pytest.raises(RunError, match=r"What the tool 'a.tools.0' gave is 3.0 MB.* Keep it as an artifact"):
        await Agent("a").tool(big).run("hi", backend=backend)
    assert called == [1]


async def test_a_request_that_is_too_large(workers: Workers) -> None:
    """The agent is named, and how its conversation gets shorter; the model is not asked."""
    script = mock_backend({"a": LONG})
    backend = Served(workers, {"models": script})
    for _ in range(3):
        await Agent("a").run("hi", session_id="big", backend=backend)
    with pytest.raises(RunError, match=r"What the model 'a@.*' is given is 2.1 MB.*\.context"):
        await Agent("a").run("hi", session_id="big", backend=backend)
    assert len(script.calls["a"]) == 3


@pytest.mark.parametrize(("prompt", "state"), [("z" * 3_000_000, {}), ("hi", {"t": "z" * 3_000_000})])
async def test_what_a_run_is_given_is_too_large(prompt: str, state: dict[str, Any]) -> None:
    """It is refused before a server is asked."""
    with pytest.raises(RunError, match=r"What the run is given is 3.0 MB"):
        await Agent("a").run(prompt, state=state, backend=TemporalBackend("127.0.0.1:9"))


async def test_a_run_of_too_many_steps_ends_before_the_engine_ends_it(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to do, and what was done until then is in the session."""
    monkeypatch.setattr(sizes, "MOST_EVENTS", 40)
    script = mock_backend({}, default="ok")
    loop = Loop(Agent("a").writes("said"), max_iterations=100)
    backend = Served(workers, {"models": script})
    with pytest.raises(RunError, match=r"The run has \d+ events of .*\.execution_boundary\(\)"):
        await loop.run("hi", session_id="many", backend=backend)
    done = len(script.calls["a"])
    assert 3 < done < 20
    stored = await backend.session(backend.compile(loop.node), session_id="many")
    assert stored.state == {"said": "ok"}
    assert [event.content for run in stored.runs.values() for event in run] == ["ok"] * done
