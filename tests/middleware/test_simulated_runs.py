"""Runs without a model: what they leave in middleware is not found by live runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent import Agent, T
from adk_fluent.backends import ADKBackend, DryRunBackend, TraceBackend
from adk_fluent.cost import Price
from adk_fluent.debug import Recorder, ReplayerBackend
from adk_fluent.errors import ArgumentError, CircuitOpenError, RateLimitError, RunError
from adk_fluent.middleware import Middleware, cache, circuit_breaker, cost_attribution, rate_limiter
from adk_fluent.testing import call_tool, mock_backend

PRICES = {"live": Price.per_million(input=1, output=1)}


class Live(BaseLlm):
    """A model of the user's own, as a live run asks it."""

    model: str = "live"
    _asked: int = PrivateAttr(default=0)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answers that it is live."""
        self._asked += 1
        said = types.Content(role="model", parts=[types.Part(text="live")])
        used = types.GenerateContentResponseUsageMetadata(prompt_token_count=10, candidates_token_count=5)
        yield LlmResponse(content=said, usage_metadata=used)


async def rehearse(expression: Any, kind: str) -> None:
    """One run in which no model is asked."""
    if kind == "preview":
        await expression.preview("hi", responses={"a": "scripted"})
    elif kind == "dry run":
        await expression.run("hi", backend=DryRunBackend({"a": "scripted"}))
    elif kind == "mock":
        await expression.run("hi", backend=mock_backend({"a": "scripted"}))
    elif kind == "traced mock":
        await expression.run("hi", backend=TraceBackend(mock_backend({"a": "scripted"})))
    else:
        tape, plain = Recorder(), Agent("a", Live())
        await plain.run("hi", backend=mock_backend({"a": "scripted"}), middleware=[tape])
        await expression.run("hi", backend=ReplayerBackend(tape.get_recording()))


KINDS = ["preview", "dry run", "mock", "traced mock", "replay"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["memory", "folder"])
async def test_scripted_answers_are_in_no_cache_of_live_runs(kind: str, where: str, tmp_path: Path) -> None:
    """After a preview, a dry run, a mock or a replay the model is asked, and what it said is found again."""
    kept = cache("memory" if where == "memory" else tmp_path)
    agent = Agent("a", Live()).middleware(kept)
    await rehearse(agent, kind)
    assert not [*tmp_path.iterdir()]
    assert [await agent.ask_async("hi"), await agent.ask_async("hi")] == ["live", "live"]
    assert (kept.hits, kept.misses) == (1, 1)
    scripted = mock_backend({"a": "scripted"})
    assert await agent.ask_async("hi", backend=scripted) == "scripted"
    await kept.close()


async def test_runs_on_one_mock_backend_share_a_cache() -> None:
    """A test sees what its own backend left: the same request is answered once on it, and anew on another."""
    kept = cache()
    agent = Agent("a", Live()).middleware(kept)
    backend = mock_backend({"a": ["first", "second"]})
    assert [await agent.ask_async("hi", backend=backend) for _ in range(2)] == ["first", "first"]
    assert (len(backend.calls["a"]), kept.hits, kept.misses) == (1, 1, 1)
    assert await agent.ask_async("hi", backend=mock_backend({"a": "other"})) == "other"


async def test_failing_mocks_open_no_circuit_of_live_runs() -> None:
    """A circuit that a mock opened is open on that mock, and closed for the model."""
    breaker = circuit_breaker(failure_threshold=1)
    agent = Agent("a", Live()).middleware(breaker)
    backend = mock_backend({"a": ConnectionError("down")})
    with pytest.raises(RunError):
        await agent.run("hi", backend=backend)
    assert breaker.state("live") == "open"
    with pytest.raises(CircuitOpenError):
        await agent.run("hi", backend=backend)
    assert await agent.ask_async("hi") == "live"
    assert breaker.state("live") == "closed"


@pytest.mark.parametrize("kind", KINDS)
async def test_simulated_runs_take_nothing_from_rates_and_costs(kind: str) -> None:
    """No call of a live run is refused or counted because of one that asked no model."""
    costs = cost_attribution(prices=PRICES)
    agent = Agent("a", Live()).middleware(rate_limiter(1, per=3600, on_limit="refuse"), costs)
    await rehearse(agent, kind)
    assert await agent.ask_async("hi") == "live"
    assert [(who, spent.calls) for who, spent in costs.spent.items()] == [(("a", "live"), 1)]
    with pytest.raises(RateLimitError):
        await agent.ask_async("hi")


@pytest.mark.parametrize("kind", KINDS)
async def test_simulated_runs_are_not_in_recordings_of_live_runs(kind: str) -> None:
    """An installed recorder holds the live runs alone, whatever was run before and after them."""
    tape = Recorder()
    agent = tape.install(Agent("a", Live()))
    await rehearse(agent, kind)
    await agent.run("really")
    await rehearse(agent, kind)
    recording = tape.get_recording()
    assert [run.text for run in recording.runs] == ["really"]
    assert [call.response_content for call in recording.llm_interactions] == ["live"]


async def test_a_preview_is_not_recorded() -> None:
    """A preview leaves nothing in a recorder, also where there was no other run."""
    tape = Recorder()
    await rehearse(tape.install(Agent("a")), "preview")
    assert tape.get_recording().runs == ()


async def test_middleware_of_users_knows_which_runs_are_live() -> None:
    """`ctx.simulated` says so in every hook, also inside tools, and `shared` keeps a value for each kind."""

    class Asking(Middleware):
        def __init__(self) -> None:
            self.asked = self.shared(list[str])
            self.seen: set[tuple[str, bool]] = set()

        async def before_run(self, ctx: Any) -> None:
            self.seen.add(("run", ctx.simulated))

        async def on_event(self, ctx: Any, event: Any) -> None:
            self.seen.add(("event", ctx.simulated))

        async def around_model(self, ctx: Any, request: Any, call: Any) -> AsyncIterator[Any]:
            self.asked(ctx).append(ctx.agent_name)
            self.seen.add((ctx.agent_name, ctx.simulated))
            async for response in call(request):
                yield response

    asking = Asking()
    agent = Agent("a", Live()).tools(T.agent(Agent("inner", Live()))).middleware(asking)
    backend = mock_backend({"a": [call_tool("inner", request="?"), "ok"], "inner": "well"})
    await agent.run("hi", backend=backend)
    assert asking.seen == {(who, True) for who in ("run", "event", "a", "inner")}
    assert asking.asked.current == ["a", "inner", "a"]
    asking.seen.clear()
    await agent.run("hi", backend=ADKBackend())
    assert asking.seen == {(who, False) for who in ("run", "event", "a")}
    assert asking.asked.current == ["a"]


async def test_a_test_may_use_the_real_stores(tmp_path: Path) -> None:
    """With `mock_backend(stores="real")` two caches on one folder share the scripted answers."""
    backend = mock_backend({"a": ["first", "second"]}, stores="real")
    for _ in range(2):
        kept = cache(tmp_path)
        assert await Agent("a").middleware(kept).ask_async("hi", backend=backend) == "first"
        await kept.close()
    with pytest.raises(ArgumentError, match=r"mock_backend\(stores=\) is 'own' or 'real', not 'none'"):
        mock_backend({}, stores="none")  # pyright: ignore[reportArgumentType]  # what a hurried user types
