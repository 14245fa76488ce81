"""`on_agent_error` and `on_run_error`, which ADK calls from 2.x on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

import pytest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from adk_fluent import Agent, C, Route, S, T
from adk_fluent.config import TelemetryConfig
from adk_fluent.errors import ModelError, RunError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import Context, Middleware, cache, fallback_model, retry, stores
from adk_fluent.telemetry import set_up
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Client, Hang, replies

pytestmark = pytest.mark.newest

A, B, BOSS = Agent("a", "m"), Agent("b", "m"), Agent("boss", "m")
DOWN = ConnectionError("down")


def breaks(n: int) -> str:
    """Break."""
    raise ValueError(f"no {n}")


def divide(state: Any) -> None:
    """Fail as a step."""
    raise ArithmeticError("by zero")


class Errors(Middleware):
    """Notes how agents and runs end."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []

    async def on_agent_error(self, ctx: Context, agent_name: str, error: Exception) -> None:
        assert ctx.agent_name == agent_name
        self.heard.append(("agent", agent_name, str(error)))

    async def on_run_error(self, ctx: Context, error: Exception) -> None:
        self.heard.append(("run", ctx.agent_name, str(error)))
        ctx.state["failed"] = str(error)

    async def after_run(self, ctx: Context) -> None:
        self.heard.append(("ended", ctx.agent_name))


STEP = "Step 'divide' raised ArithmeticError: by zero."
CASES: dict[str, tuple[Expr[Any], list[tuple[str, ...]]]] = {
    "model": (A, [("agent", "a", "down"), ("run", "a", "down")]),
    "sequence": (
        B >> A,
        [("agent", "a", "down"), ("agent", "sequence", "down"), ("run", "sequence", "down")],
    ),
    "tool": (B.tool(breaks), [("agent", "b", "no 1"), ("run", "b", "no 1")]),
    "agent in a tool": (
        BOSS.tools(T.agent(A)),
        [("agent", "a", "down"), ("agent", "boss", "down"), ("run", "boss", "down")],
    ),
    "step": (
        B >> divide,
        [("agent", "divide", STEP), ("agent", "sequence", STEP), ("run", "sequence", STEP)],
    ),
    "caught": (A // B, [("agent", "a", "down"), ("ended", "fallback")]),
}
ANSWERS: dict[str, Any] = {
    "a": DOWN,
    "b": replies(lambda request: call_tool("breaks", n=1) if request.tools_dict else "ok"),
    "boss": call_tool("a", request="go"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ours", [True, False], ids=["run", "native"])
async def test_who_failed_is_told_from_the_inside_out(case: str, ours: bool) -> None:
    """Each agent that fails is told, the innermost first, then the run; after a fallback the run is well."""
    expression, heard = CASES[case]
    errors, backend = Errors(), mock_backend(ANSWERS)
    watched = expression.middleware(errors)
    try:
        await (watched.run("hi", backend=backend) if ours else Client.of(watched, backend).say("hi"))
    except (RunError, ConnectionError, ValueError):
        assert case != "caught"
    assert errors.heard == heard


async def test_what_is_written_when_a_run_fails_is_stored() -> None:
    """The state that `on_run_error` writes is there in the next run of the session."""
    service = InMemorySessionService()
    backend = mock_backend({"a": [DOWN, "well"]}, session_service=service)
    agent = A.middleware(Errors())
    with pytest.raises(ModelError):
        await agent.run("hi", backend=backend, session_id="s")
    assert (await agent.run("hi", backend=backend, session_id="s")).state["failed"] == "down"


class Broken(Middleware):
    """Fails when it is told of a failure."""

    async def on_agent_error(self, ctx: Context, agent_name: str, error: Exception) -> None:
        raise KeyError("agent")

    async def on_run_error(self, ctx: Context, error: Exception) -> None:
        raise KeyError("run")


async def test_a_hook_that_fails_does_not_hide_the_error(caplog: pytest.LogCaptureFixture) -> None:
    """The run ends with what the model raised, and the log names the hook that failed."""
    with caplog.at_level(logging.WARNING), pytest.raises(ModelError, match="down"):
        await A.middleware(Broken()).run("hi", backend=mock_backend({"a": DOWN}))
    assert "Broken.on_agent_error" in caplog.text
    assert "Broken.on_run_error" in caplog.text


async def test_a_run_that_is_left_has_not_failed() -> None:
    """A cancelled run calls neither hook."""
    errors, hang = Errors(), Hang()
    run = asyncio.ensure_future(A.middleware(errors).run("hi", backend=mock_backend({"a": hang})))
    await hang.started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not [heard for heard in errors.heard if heard[0] != "ended"]


MARKER = "zebra-4711"


class Total(BaseModel):
    """A number."""

    total: int


class Leaky(Middleware):
    """Quotes what it sees in errors, which only the log is told of."""

    best_effort: ClassVar[bool] = True

    async def before_model(self, ctx: Context, request: Any) -> None:
        """Fail."""
        raise ValueError(f"{MARKER} in {request.contents}")


async def test_no_log_quotes_what_is_said(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record, warning or span event has words of users, models, tools, state or errors that quote them."""

    def look(what: str) -> str:
        """Look it up."""
        if not looked:
            looked.append(what)
            raise ConnectionError(f"{what} is away")
        return f"{what} is here"

    async def full(_: object, key: str, text: str, ttl: float | None) -> None:
        raise ValueError(text)

    monkeypatch.setattr(stores.MemoryStore, "set", full)
    looked: list[str] = []
    helped = [C.extract(Total, into="x"), C.relevant(top_k=1), C.summarize()]
    first = Agent("first").tool(T.retry(look, backoff_base=0)).writes("label")
    typed = Agent("typed").returns(Total, retries=1).middleware(cache())
    again = Agent("again").middleware(retry(backoff_base=0), Leaky())
    last = Agent("last").middleware(fallback_model("other"))
    steps = [Agent(f"help{n}").context(each) for n, each in enumerate(helped)]
    routed = Route("label").eq("zebra4711", Agent("never")).otherwise(S.set(kept=MARKER))
    pipeline = first >> steps[0] >> steps[1] >> steps[2] >> routed >> typed >> again >> last
    failing = LlmResponse(error_code="UNAVAILABLE", error_message=MARKER)
    script: dict[str, Any] = {
        "first": [call_tool("look", what=MARKER), MARKER],
        **{f"help{n}": MARKER for n in range(3)},
        "help0:extract": f'{{"total": "{MARKER}"}}',
        "help1:relevant": MARKER[:5],
        "help2:summarize": RuntimeError(MARKER),
        "typed": [f'{{"total": "{MARKER}"}}', '{"total": 1}'],
        "again": [failing, ConnectionError(MARKER), MARKER],
        "last": [ValueError(MARKER), MARKER],
    }
    exporter = InMemorySpanExporter()
    set_up(TelemetryConfig(custom_exporters=[exporter]))
    with caplog.at_level(logging.INFO):
        run = await pipeline.run(MARKER, state={"given": MARKER}, backend=mock_backend(script))
        with pytest.raises(RunError, match=MARKER):
            await Agent("bad").run(MARKER, backend=mock_backend({"bad": ValueError(MARKER)}))
    events = [event for span in exporter.get_finished_spans() for event in span.events]
    exporter.shutdown()
    assert run.text == MARKER
    own = [record for record in caplog.records if record.name.startswith("adk_fluent")]
    assert {record.name.partition(".")[2] for record in own} >= {"context", "middleware", "route"}
    said = [logging.Formatter().format(record) for record in own]
    said += [str(each.message) for each in recwarn]
    said += [str(dict(event.attributes or {})) for event in events if event.name.startswith("adk_fluent")]
    assert {event.name for event in events} >= {"adk_fluent.retry", "adk_fluent.fallback"}
    assert [each for each in said if MARKER[:5] in each.replace("zebra4711", "")] == []
