"""Many sessions at once in one process."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent import Agent
from benchmarks.by_hand import USER, InOrder, runner
from benchmarks.harness import Figure, compare, event_loop

ROUNDS = 3
SESSIONS = 1000


class Together(BaseLlm):
    """A model that answers when every session waits for it."""

    _all: asyncio.Barrier = PrivateAttr(default_factory=lambda: asyncio.Barrier(SESSIONS))

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Say `ok`, once all are there."""
        await self._all.wait()
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="ok")]))


Crowd = Callable[[], Coroutine[Any, Any, object]]


def by_hand() -> Crowd:
    """All sessions through ADK's runner, and the state after each."""
    model = Together(model="together")
    agents: list[BaseAgent] = [
        LlmAgent(name="a", model=model, instruction="Begin.", output_key="k"),
        LlmAgent(name="b", model=model, instruction="Go on from {k}.", output_key="answer"),
    ]
    native = runner(InOrder(name="pipeline", sub_agents=agents))

    async def one() -> object:
        session_id, message = str(uuid.uuid4()), types.Content(role="user", parts=[types.Part(text="go")])
        source = native.run_async(user_id=USER, session_id=session_id, new_message=message)
        events = [event async for event in source]
        kept = await native.session_service.get_session(
            app_name=native.app_name, user_id=USER, session_id=session_id
        )
        assert kept is not None
        return events, kept.state

    async def all_of_them() -> object:
        return await asyncio.gather(*(one() for _ in range(SESSIONS)))

    return all_of_them


def fluent() -> Crowd:
    """All sessions through `run`."""
    model = Together(model="together")
    begin = Agent("a", model).instruct("Begin.").writes("k")
    pipeline = begin >> Agent("b", model).instruct("Go on from {k}.").writes("answer")
    service = InMemorySessionService()

    async def one() -> object:
        return await pipeline.run("go", session_id=str(uuid.uuid4()), session_service=service)

    async def all_of_them() -> object:
        return await asyncio.gather(*(one() for _ in range(SESSIONS)))

    return all_of_them


def memory(run: Callable[[], object]) -> float:
    """Bytes that each session holds at most while all of them run."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (most - before) / SESSIONS


def figures() -> Iterator[Figure]:
    """A sequence of two agents in every session, all in their model calls at the same time."""
    with event_loop() as blocking:
        ours, theirs = blocking(fluent()), blocking(by_hand())
        figure = compare(f"one of {SESSIONS} sessions at once", ours, theirs, rounds=ROUNDS, per=SESSIONS)
        held = [memory(run) / 1000 for run in (ours, theirs)]
        rates = [1 / each for each in (figure.seconds, figure.reference or figure.seconds)]
        yield replace(
            figure,
            note=f"{rates[0]:.0f} sessions a second against {rates[1]:.0f}, "
            f"{held[0]:.0f} kB each against {held[1]:.0f} kB",
        )
