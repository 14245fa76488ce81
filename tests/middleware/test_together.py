"""The built-ins together: in the order that is recommended and in others, everywhere, and under load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest

from adk_fluent import Agent, C, FanOut, Loop, Route, map_over, race
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.errors import RunError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import (
    cache,
    pii_filter,
    rate_limiter,
    retry,
    timeout,
)
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Client, play, script, seen
from tests.middleware.everything import everything

A, B = Agent("a", "m"), Agent("b", "m")


# --- order ----------------------------------------------------------------------------------------


async def test_retry_outside_and_inside_of_a_cache() -> None:
    """Either way an answer that took two attempts is kept, and replayed without an attempt."""
    for stack in ([cache(), retry(backoff_base=0)], [retry(backoff_base=0), cache()]):
        backend = mock_backend({"a": [ConnectionError("x"), "answer", "not asked"]})
        for _ in range(2):
            assert (await A.middleware(*stack).run("hi", backend=backend)).text == "answer"
        assert len(backend.calls["a"]) == 2


async def test_a_limiter_outside_of_a_cache_counts_replays() -> None:
    """Inside of a cache a limiter counts what is really asked; outside also what is replayed."""
    for inside in (True, False):
        limiter = rate_limiter(1, per=1000, on_limit="refuse")
        agent = A.middleware(*([cache(), limiter] if inside else [limiter, cache()]))
        backend = mock_backend({"a": "answer"})
        assert (await agent.run("hi", backend=backend)).text == "answer"
        if inside:
            assert (await agent.run("hi", backend=backend)).text == "answer"
        else:
            with pytest.raises(RunError, match="was not let through"):
                await agent.run("hi", backend=backend)


async def test_a_timeout_inside_of_a_retry_is_for_each_attempt() -> None:
    """Outside it is for all attempts together."""

    async def hangs(request: LlmRequest) -> AsyncGenerator[str, None]:
        await asyncio.Event().wait()
        yield ""

    inside = A.middleware(retry(backoff_base=0), timeout(0.01))
    assert (await play(inside, {"a": [hangs, "answer"]})).text == "answer"
    outside = A.middleware(timeout(0.01), retry(backoff_base=0))
    with pytest.raises(RunError, match=r"within 0\.01 seconds"):
        await play(outside, {"a": [hangs, "answer"]})


async def test_personal_data_outside_of_a_cache_is_not_stored() -> None:
    """A cache inside of the filter holds placeholders, and one person's answer serves another's question."""
    kept = cache()
    agent = A.middleware(pii_filter(reversible=True), kept)
    backend = mock_backend({"a": ["Dear [EMAIL_1]", "not asked"]}, stores="real")
    for mail in ("ann@example.org", "bob@example.org"):
        assert (await agent.run(f"I am {mail}", backend=backend)).text == f"Dear {mail}"
    store: object = vars(kept)["_store"]
    assert "[EMAIL_1]" in str(vars(store))
    assert "example.org" not in str(vars(store))


# --- everywhere -----------------------------------------------------------------------------------


SHAPES: dict[str, Expr[Any]] = {
    "sequence": A >> B,
    "parallel": FanOut(A, B),
    "loop": Loop(A >> B, max_iterations=2),
    "fallback": A // B,
    "race": race(A, B),
    "route": A.writes("x") >> Route("x").contains("I", B),
    "map": map_over("people", A, output_key="said") >> B,
    "transfer": A.delegate(B),
    "context": A >> B.context(C.window(1) | C.summarize()),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_all_of_them_in_every_shape(shape: str) -> None:
    """With all built-ins on, no shape sends personal data, loses an answer, or miscounts the budget."""
    backend = script(dict.fromkeys(("a", "b", "b:summarize"), "I know [EMAIL_1]"))
    stack = everything()
    state = {"budget": "1", "people": ["ann@example.org"]}
    result = await SHAPES[shape].middleware(*stack).run("I am ann@example.org", state=state, backend=backend)
    assert "ann@example.org" in result.text
    requests = [request for asked in backend.calls.values() for request in asked]
    assert not [
        request for request in requests if "example.org" in request.model_dump_json(exclude_none=True)
    ]
    costs = stack[-1]
    assert float(result.state["budget"]) == pytest.approx(1 - float(costs.total))
    assert sum(spent.calls for spent in costs.spent.values()) == len(requests)


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # ADK's, of its own AgentTool
async def test_inside_an_agents_tool() -> None:
    """An agent that another one calls as a tool is under the same middleware."""
    from google.adk.tools.agent_tool import AgentTool

    inner = Agent("inner", "m").build()
    outer = Agent("outer", "m").tool(AgentTool(inner)).middleware(*everything())
    backend = script({"outer": [call_tool("inner", request="[EMAIL_1]?"), "told"], "inner": "yes"})
    await outer.run("ask ann@example.org", state={"budget": "1"}, backend=backend)
    assert "example.org" not in seen(backend.calls["inner"][0])


async def test_on_adks_own_runner() -> None:
    """`to_app()` brings all of them to ADK's own runner."""
    backend = script({"a": [ConnectionError("x"), "Dear [EMAIL_1]"]})
    stack = everything()[:-1]
    client = Client.of(A.middleware(*stack), backend)
    events = await client.say("I am ann@example.org")
    texts = [part.text for event in events if event.content for part in event.content.parts or []]
    assert texts[-1] == "Dear ann@example.org"
    assert "example.org" not in seen(backend.calls["a"][1])


# --- load -----------------------------------------------------------------------------------------


def hostile(request: LlmRequest) -> Any:
    """Says whom it was asked about, often fails first, slowly, in pieces, or never at all."""
    kind = int(seen(request).split("case ")[1].split()[0]) % 5

    async def pieces() -> AsyncGenerator[str, None]:
        for piece in ("Dear [EMA", "IL_1], ", f"case {kind}"):
            await asyncio.sleep(0)
            yield piece

    if kind == 0:
        return ConnectionError("down")
    return pieces() if kind in (1, 2) else f"Dear [EMAIL_1], case {kind}"


async def test_two_hundred_runs_at_once() -> None:
    """Each of 200 runs at once gets its own answer, also cancelled ones and failing ones among them."""
    stack = everything()
    agent = A.middleware(*stack)
    backend = mock_backend({"a": hostile, "other": "Dear [EMAIL_1], the other model"})

    async def one(number: int) -> str:
        prompt = f"case {number} of user{number}@example.org"
        run = asyncio.ensure_future(agent.run(prompt, state={"budget": "9"}, backend=backend))
        if number % 10 == 9:
            await asyncio.sleep(0)
            run.cancel()
        try:
            return (await run).text
        except asyncio.CancelledError:
            return "cancelled"

    answers = await asyncio.gather(*(one(number) for number in range(200)))
    for number, answer in enumerate(answers):
        who = f"Dear user{number}@example.org, "
        assert answer in ("cancelled", who + "the other model", who + f"case {number % 5}")
    assert answers.count("cancelled") <= 20
    requests = [request for asked in backend.calls.values() for request in asked]
    assert not any("example.org" in seen(request) for request in requests)


def held(stack: list[Any]) -> int:
    """How many objects these middleware hold, directly or not, of kinds that grow."""
    sizes = 0
    for each in stack:
        kept: object = each
        sizes += sum(len(value) for value in vars(kept).values() if hasattr(value, "__len__"))
    return sizes


async def test_nothing_grows_with_the_runs() -> None:
    """After a hundred more runs no middleware holds more than after the first fifty, nor is in use."""
    stack = everything()
    agent = A.middleware(*stack)
    backend = mock_backend({"a": "Dear [EMAIL_1]"})
    sizes: list[int] = []
    for number in range(150):
        prompt = f"I am user{number % 50}@example.org"
        await agent.ask_async(prompt, state={"budget": "9"}, backend=backend)
        if number in (49, 149):
            sizes.append(held(stack))
    assert sizes[0] == sizes[1] > 0
    assert not any(map(runs.using, stack))
