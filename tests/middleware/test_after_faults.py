"""Whatever goes wrong in a call, no built-in holds on to it: the call is ended, and the next run is well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from itertools import product
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent
from adk_fluent.cost import Price
from adk_fluent.errors import RunError
from adk_fluent.middleware import (
    cache,
    circuit_breaker,
    cost_attribution,
    fallback_model,
    otel_enrichment,
    pii_filter,
    rate_limiter,
    retry,
    timeout,
    token_budget,
    tool_approval,
    visibility,
)
from tests.backends.support import PlainLlm, failing, reply
from tests.middleware.everything import everything
from tests.middleware.test_faults import OpenAIError

PRICES = {"plain": Price.per_million(input=1, output=10)}
# Each as tight as a call that went wrong may leave it: what is reserved or counted for ever is missed then.
BUILT_INS: dict[str, Callable[[], list[Any]]] = {
    "token_budget": lambda: [token_budget(150, per="session")],
    "larger token_budget": lambda: [token_budget(250, per="session")],
    "cache": lambda: [cache()],
    "rate_limiter": lambda: [rate_limiter(2, per=1000, on_limit="refuse")],
    "retry": lambda: [retry(1)],
    "circuit_breaker": lambda: [circuit_breaker(failure_threshold=2)],
    "timeout": lambda: [timeout(60)],
    "fallback_model": lambda: [fallback_model(PlainLlm.of(well))],
    "tool_approval": lambda: [tool_approval(["look"])],
    "pii_filter": lambda: [pii_filter()],
    "reversible pii_filter": lambda: [pii_filter(reversible=True)],
    "cost_attribution": lambda: [cost_attribution("budget", PRICES)],
    "otel_enrichment": lambda: [otel_enrichment()],
    "visibility": lambda: [visibility()],
    "all of them": lambda: everything()[:3] + everything()[4:],
}


async def well(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
    """An answer."""
    yield reply("well")


async def raises() -> AsyncGenerator[LlmResponse, None]:
    """No line."""
    raise ConnectionError("down")
    yield


async def refuses() -> AsyncGenerator[LlmResponse, None]:
    """Too many requests, and when to come back."""
    raise OpenAIError(429, retry_after="0")
    yield


async def blocks() -> AsyncGenerator[LlmResponse, None]:
    """An answer that reports a failure."""
    yield failing()


async def hangs() -> AsyncGenerator[LlmResponse, None]:
    """Nothing, ever."""
    await asyncio.Event().wait()
    yield reply("")


async def breaks() -> AsyncGenerator[LlmResponse, None]:
    """A beginning."""
    yield reply("We", partial=True)
    raise ConnectionError("lost")


async def stalls() -> AsyncGenerator[LlmResponse, None]:
    """A beginning, longer than what a filter holds back, and nothing more."""
    yield reply("We " * 60, partial=True)
    await asyncio.Event().wait()


FAULTS = [raises, refuses, blocks, hangs, breaks, stalls]


def look() -> str:
    """Look."""
    return "seen"


async def play(agent: Agent[str], asked: asyncio.Event, fault: Any, service: InMemorySessionService) -> None:
    """A run that goes wrong, is cancelled if nothing comes, or left where an answer stalls."""

    async def run() -> None:
        said = agent.stream("hi", session_id="s", session_service=service, state={"budget": "1"})
        async with aclosing(said) as events:
            async for _ in events:
                if fault is stalls:
                    return

    task = asyncio.ensure_future(run())
    await asyncio.wait([task, waiting := asyncio.ensure_future(asked.wait())], return_when="FIRST_COMPLETED")
    waiting.cancel()
    if fault is hangs:
        task.cancel()
    with suppress(RunError, asyncio.CancelledError):
        await task


SPENT = [("token_budget", fault) for fault in (blocks, breaks, stalls)]
"""What has used the budget up: a request that was answered, if only in part."""


@pytest.mark.parametrize(
    ("name", "fault"), [case for case in product(BUILT_INS, FAULTS) if case not in SPENT]
)
async def test_after_a_fault_all_is_as_before(name: str, fault: Any) -> None:
    """The call that went wrong has ended, and the next one is let through, made, and answered."""
    asked, ended = asyncio.Event(), list[str]()

    async def answer(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        wrong = not asked.is_set()
        asked.set()
        try:
            async with aclosing(fault() if wrong else well(request)) as responses:
                async for response in responses:
                    yield response
        finally:
            ended.append("wrong" if wrong else "well")

    agent = Agent("a", PlainLlm.of(answer)).instruct("x" * 240).tool(look).middleware(*BUILT_INS[name]())
    service = InMemorySessionService()  # the session of another test has spent what it has spent
    await play(agent, asked, fault, service)
    assert ended[0] == "wrong"
    assert await agent.ask_async("again", session_id="s", session_service=service) == "well"
    assert ended[-1] == "well"
