"""A call over A2A against ADK's own client, and many clients of one server at once."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from statistics import median

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.genai import types

from adk_fluent import Agent, RemoteAgent
from adk_fluent.serve import A2AServer
from benchmarks.by_hand import USER, InstantLlm, runner
from benchmarks.harness import Figure

ROUNDS = 60
CLIENTS = 500


def figures() -> Iterator[Figure]:
    """Each call goes to the same server on this machine, in turn; each begins a session of its own."""
    fluent, native = asyncio.run(calls())
    yield Figure(
        what="one call of a remote agent",
        seconds=median(fluent),
        against="RemoteA2aAgent in ADK's runner",
        reference=median(native),
        ratio=median(ours / theirs for ours, theirs in zip(fluent, native, strict=True)),
        target=1.1,
    )
    seconds, failed = asyncio.run(crowd())
    yield Figure(
        what=f"{CLIENTS} clients of one server at once",
        seconds=seconds,
        note=f"{failed} of them got no answer; {CLIENTS / seconds:.0f} answers a second",
    )


async def calls() -> tuple[list[float], list[float]]:
    """Seconds of each call, ours and ADK's, in turn."""
    fluent, native = list[float](), list[float]()
    async with A2AServer(Agent("clerk", InstantLlm(model="instant"))) as server:
        far = RemoteAgent("far", endpoint=server.url)
        remote = RemoteA2aAgent(name="far", agent_card=server.url + ".well-known/agent-card.json")
        theirs = runner(remote)

        async def by_hand(number: int) -> None:
            said = types.Content(role="user", parts=[types.Part(text="go")])
            session = f"s-{number}"
            await theirs.session_service.create_session(
                app_name=theirs.app_name, user_id=USER, session_id=session
            )
            source = theirs.run_async(user_id=USER, session_id=session, new_message=said)
            assert [event async for event in source]

        async def ours(number: int) -> None:
            assert (await far.run("go", session_id=f"s-{number}")).text == "ok"

        gc.collect()
        for number in range(-5, ROUNDS):
            pair = ((ours, fluent), (by_hand, native))
            for call, into in pair if number % 2 else reversed(pair):
                begun = time.process_time()  # both sides of a call are in this process
                await call(number)
                if number >= 0:
                    into.append(time.process_time() - begun)
        await remote.cleanup()
    return fluent, native


async def crowd() -> tuple[float, int]:
    """Seconds until all clients have their answers, and how many have none."""
    async with A2AServer(Agent("clerk", InstantLlm(model="instant"))) as server:
        far = RemoteAgent("far", endpoint=server.url, timeout=600)
        await far.run("go")
        begun = time.perf_counter()
        results = await asyncio.gather(*(far.run("go") for _ in range(CLIENTS)), return_exceptions=True)
        seconds = time.perf_counter() - begun
    return seconds, sum(isinstance(result, BaseException) or result.text != "ok" for result in results)
