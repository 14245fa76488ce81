"""Errors that a model reports in an event: what nothing catches ends the run, and names the agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, race, transfer
from adk_fluent.backends.events import AgentEvent, final_text, uncaught
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import mock_backend
from tests.backends.support import Hang, PlainLlm, failing, play, raises_from, reply, said, script, speakers

A, B, C = Agent("a"), Agent("b"), Agent("c")
AROUND: dict[str, Expr[Any]] = {
    "alone": A,
    "first": A >> B,
    "read later": A.writes("k") >> B.instruct("{k?}"),
    "last": B >> A,
    "fan-out": FanOut("fan", A, C) >> B,
    "loop": Loop(A, B, max_iterations=2),
    "route": Route("go").eq("here", A) >> B,
    "map": map_over("items", A) >> B,
    "race": race(A, A.named("a_2")) >> B,
    "timeout": A.timeout(60) >> B,
    "transfer": Pipeline("all", transfer("end"), B, Pipeline("end", A)),
    "last of a fallback": (A.named("a_1") // A) >> B,
    "branch of a fan-out in a map": map_over("items", FanOut("fan", A >> B, C) >> B),
    "race in a loop": Loop(race(A >> B, A.named("a_2")), B),
}
CODES = ("SAFETY", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "OTHER")


def scripts(around: str, code: str = "SAFETY") -> dict[str, Any]:
    """Scripts in which every `a` fails, and what is beside it in a fan-out never ends."""
    problem = failing(code)
    return {"a": problem, "a_1": problem, "a_2": problem, "b": "ok", "c": Hang()}


STATE = {"go": "here", "items": ["x", "y"]}


@pytest.mark.parametrize("resumable", [False, True])
@pytest.mark.parametrize("around", AROUND)
async def test_an_error_event_ends_the_run(around: str, resumable: bool) -> None:
    """In every composite nothing runs after it, and it is the last event."""
    backend = script(scripts(around))
    config = ExecutionConfig(resumable=resumable)
    with pytest.raises(RunError, match=r"^'a(_2|_1)?' gave no answer but an error: SAFETY") as caught:
        await AROUND[around].run("hi", backend=backend, state=STATE, config=config)
    result = caught.value.result
    assert result is not None
    assert result[-1].error == "SAFETY: blocked"
    assert speakers(result) == (["b"] if around == "last" else [])


@pytest.mark.parametrize("code", CODES)
async def test_every_error_code_counts(code: str) -> None:
    """Whatever code a model reports, without an answer it is an error."""
    with pytest.raises(RunError, match=f"'a' gave no answer but an error: {code}: blocked"):
        await play(A >> B, {"a": failing(code)})


async def test_an_answer_that_was_cut_is_an_answer() -> None:
    """Text that ends at the token limit is an answer all the same."""
    half = LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text="half")]), error_code="MAX_TOKENS"
    )
    assert said(await play(A >> B, {"a": half})) == [("a", "half"), ("b", "ok")]


@pytest.mark.parametrize("around", AROUND)
async def test_ask_and_map_raise_it(around: str) -> None:
    """Neither gives an empty answer."""
    backend = script(scripts(around))
    with pytest.raises(RunError, match="SAFETY: blocked"):
        await AROUND[around].ask_async("hi", backend=backend, state=STATE)
    with pytest.raises(RunError, match="SAFETY: blocked"):
        await AROUND[around].map(["hi"], backend=backend, state=STATE)


@pytest.mark.parametrize("around", AROUND)
async def test_stream_and_session_raise_it_at_the_end(around: str) -> None:
    """The events come first, then the error."""
    backend, events = script(scripts(around)), list[AgentEvent]()

    async def follow() -> None:
        async with aclosing(AROUND[around].stream("hi", backend=backend, state=STATE)) as stream:
            async for event in stream:
                events.append(event)

    with pytest.raises(RunError, match="SAFETY: blocked"):
        await follow()
    assert events[-1].error == "SAFETY: blocked"
    async with AROUND[around].session(backend=backend, state=STATE) as chat:
        with pytest.raises(RunError, match="SAFETY: blocked"):
            await chat.send("hi")


@pytest.mark.parametrize("around", [name for name in AROUND if name != "transfer"])
async def test_natively_it_is_the_last_event(around: str) -> None:
    """On ADK's own runner the event that reports the error is the last."""

    async def fail(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield failing()

    async def answer(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield reply("ok")

    def model(agent: Any) -> Any:
        return PlainLlm.of(answer if agent.name.startswith(("b", "c")) else fail)

    root = AROUND[around].build()
    pending = [root]
    while pending:
        agent: Any = pending.pop()
        pending.extend(agent.sub_agents)
        if hasattr(agent, "model"):
            agent.model = model(agent)
    service = InMemorySessionService()
    await service.create_session(app_name="app", user_id="u", session_id="s", state=STATE)
    runner = Runner(app_name="app", agent=root, session_service=service)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    events = [e async for e in runner.run_async(user_id="u", session_id="s", new_message=message)]
    assert events[-1].error_code == "SAFETY"


CAUGHT: dict[str, Expr[Any]] = {
    "fallback": (A // B) >> C,
    "fallback in a fallback": (((A // B) >> C) // Agent("d")) >> Agent("e"),
    "fallback in a race": race((A // B) >> C, A.named("a_2")),
    "fallback in a map": map_over("items", (A // B) >> C),
    "fallback in a fan-out": FanOut("fan", (A // B) >> C, Agent("e")),
    "fallback in a loop": Loop((A // B) >> C, max_iterations=1),
    "race": race(A, B) >> C,
    "race in a race": race(race(A, B) >> C, A.named("a_2")),
    "pipeline in a fallback": (Pipeline("p", B, A, Agent("never")) // S.set(x=1)) >> C,
}


@pytest.mark.parametrize("around", CAUGHT)
async def test_what_is_caught_does_not_end_the_run(around: str) -> None:
    """A fallback or a race around it, however deep, lets the run go on."""
    backend = script({"a": failing(), "a_2": failing(), "c": "the end"})
    result = await CAUGHT[around].run("hi", backend=backend, state=STATE)
    assert ("c", "the end") in said(result)
    assert not any(backend.calls.get(name) for name in ("d", "never"))


async def test_a_gate_before_and_an_error_after_it() -> None:
    """An error after an approval is raised by `resume`."""
    expression = gate(lambda s: True) >> A >> B
    backend = script({"a": failing()})
    first = await expression.run("hi", backend=backend)
    with pytest.raises(RunError, match="'a' gave no answer") as caught:
        await expression.resume(
            session_id=first.session_id, approvals={first.pending[0].id: True}, backend=backend
        )
    assert caught.value.result is not None
    assert caught.value.result.session_id == first.session_id


async def test_a_failure_says_whose_it_is_when_an_agent_is_used_twice() -> None:
    """The name in the message is the one the user gave."""
    with pytest.raises(RunError, match=r"^'a' gave no answer"):
        await play(A >> A, {"a": ["fine", failing()]})


# --- an agent that ADK runs again -----------------------------------------------------------------


def again(**more: Any) -> Any:
    """A `RetryConfig` that waits for nothing."""
    from google.adk.workflow import RetryConfig

    return RetryConfig(initial_delay=0.0, jitter=0.0, **more)


@pytest.mark.newest
@pytest.mark.parametrize("boss", [False, True], ids=["alone", "with sub-agents"])
async def test_an_agent_that_adk_runs_again_answers(boss: bool) -> None:
    """Where ADK's `retry_config` has a root agent run again, its answer counts, however it is run."""
    agent = Agent("a").retry_config(again(max_attempts=3))
    agent = agent.delegate(Agent("b").describe("Helps.")) if boss else agent

    def backend() -> Any:
        return mock_backend({"a": [OSError("one"), OSError("two"), "fine"]})

    result = await agent.run("hi", backend=backend())
    assert (result.text, [event.error for event in result if event.error]) == (
        "fine",
        ["OSError: one", "OSError: two"],
    )
    assert await agent.ask_async("hi", backend=backend()) == "fine"
    assert await agent.map(["hi"], backend=backend()) == ["fine"]
    assert final_text([event async for event in agent.stream("hi", backend=backend())]) == "fine"
    async with agent.session(backend=backend()) as chat:
        assert (await chat.send("hi")).text == "fine"


@pytest.mark.newest
async def test_an_agent_that_fails_each_time_raises() -> None:
    """When no attempt is left, the last error is raised; so is an error event, which ADK does not retry."""
    agent = Agent("a", "m").retry_config(again(max_attempts=2))
    with raises_from(OSError, match="OSError: two") as caught:
        await agent.run("hi", backend=mock_backend({"a": [OSError("one"), OSError("two"), "fine"]}))
    assert caught.value.result is not None
    assert [event.error for event in caught.value.result] == ["OSError: one", "OSError: two"]
    blocked = LlmResponse(error_code="SAFETY", error_message="blocked")
    with pytest.raises(RunError, match="SAFETY: blocked"):
        await agent.run("hi", backend=mock_backend({"a": [OSError("one"), blocked]}))


@pytest.mark.newest
async def test_a_native_agent_that_adk_runs_again_answers() -> None:
    """So it is for an agent that was made with ADK alone."""
    from google.adk.agents.llm_agent import LlmAgent

    from adk_fluent.adopt.native_runs import as_compiled

    backend = mock_backend({"a": [OSError("one"), "fine"]})
    model: Any = backend.model_for(Agent("a").node, "a")
    native = LlmAgent(name="a", model=model, retry_config=again(max_attempts=2))
    events = await backend.run(as_compiled(native, ExecutionConfig()), "hi", session_id="s")
    assert (final_text(events), uncaught(events)) == ("fine", None)
