"""What `token_budget` and `cost_attribution` count where calls overlap: in tools, in races, and live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from decimal import Decimal
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adk_fluent import Agent, C, FanOut, T, gate, race
from adk_fluent.cost import ModelCandidate, Price, register_price, unregister_price
from adk_fluent.errors import BudgetError, MiddlewareError
from adk_fluent.middleware import (
    cost_attribution,
    fallback_model,
    pii_filter,
    retry,
    timeout,
    token_budget,
)
from adk_fluent.testing import MockBackend, mock_backend
from tests.backends.support import PlainLlm, called, reply
from tests.clock import still

INSIDE_A_TOOL = pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # ADK's own
PRICES = {name: Price.per_million(input=1, output=10) for name in ("m", "plain")}
BOSS = Agent("boss", "m")
NAMES = ("e0", "e1", "e2", "e3")


def using(asked: int, answered: int, text: str = "ok", *, partial: bool = False) -> LlmResponse:
    """An answer whose call used so many tokens."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=asked, candidates_token_count=answered, total_token_count=asked + answered
    )
    return reply(text, usage_metadata=usage, partial=partial)


async def calls_all(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
    """Call every expert at once, then be done; either call uses 100 tokens."""
    answer = using(100, 0, "done")
    if not called(request) and answer.content is not None:
        answer.content.parts = [
            types.Part.from_function_call(name=name, args={"request": "go"}) for name in NAMES
        ]
    yield answer


def team(tool: Callable[[Agent[str]], Any]) -> Agent[str]:
    """An agent with four others as tools, which answer, with 1,000 tokens each, when all have been asked."""
    everybody, asked = asyncio.Event(), list[int]()

    async def answers(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        asked.append(1)
        if len(asked) == len(NAMES):
            everybody.set()
        await everybody.wait()
        yield using(1000, 0)

    experts = (Agent(name, PlainLlm.of(answers)) for name in NAMES)
    return Agent("boss", PlainLlm.of(calls_all)).tools(*map(tool, experts))


WAYS: dict[str, Callable[[Agent[str]], Any]] = {
    "native": lambda expert: AgentTool(expert.build()),
    "expression": lambda expert: T.agent(expert),
}


@INSIDE_A_TOOL
@pytest.mark.parametrize("way", WAYS)
async def test_agents_in_tools_that_are_called_at_once_are_all_counted(way: str) -> None:
    """Of four experts that one answer asks together, no cost is missing in the sums, nor in the budget."""
    costs = cost_attribution("budget", PRICES)
    result = await team(WAYS[way]).middleware(costs).run("hi", state={"budget": "1"})
    assert {agent: spent.input_tokens for (agent, _), spent in costs.spent.items()} == {
        "boss": 200,
        **dict.fromkeys(NAMES, 1000),
    }
    assert Decimal(result.state["budget"]) == 1 - costs.total == Decimal("0.9958")


@INSIDE_A_TOOL
@pytest.mark.parametrize("way", WAYS)
async def test_agents_in_tools_that_are_called_at_once_share_the_tokens(way: str) -> None:
    """The boss and its experts have used 4,100 tokens when it is asked again, and with that all there are."""
    assert await team(WAYS[way]).middleware(token_budget(4_300)).ask_async("hi") == "done"
    with pytest.raises(BudgetError, match=r"^'boss' would exceed .* the run has used 4,100"):
        await team(WAYS[way]).middleware(token_budget(4_100)).run("hi")


async def test_what_a_race_used_is_counted() -> None:
    """The winner's call counts in full, and the loser's as far as it had reported before it was cancelled."""
    begun = asyncio.Event()

    async def loses(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield using(500, 0, "I think", partial=True)
        begun.set()
        await asyncio.Event().wait()

    async def wins(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        await begun.wait()
        yield using(1000, 0, "I know")

    costs, budget = cost_attribution("budget", PRICES), token_budget(1_600, per="session")
    raced = race(Agent("slow", PlainLlm.of(loses)), Agent("quick", PlainLlm.of(wins)))
    raced = raced.middleware(budget, costs)
    service = InMemorySessionService()
    given: Any = {"session_id": "s", "session_service": service}
    events = [event async for event in raced.stream("hi", state={"budget": "1"}, **given)]
    assert [event.content for event in events if event.content and not event.is_partial] == ["I know"]
    assert {agent: spent.input_tokens for (agent, _), spent in costs.spent.items()} == {
        "slow": 500,
        "quick": 1000,
    }
    assert (await state_of(service))["budget"] == "0.9985"
    with pytest.raises(BudgetError, match="the session has used 1,500"):
        await raced.run("word " * 400, **given)


async def state_of(service: BaseSessionService) -> dict[str, Any]:
    """The state of the session `s`."""
    stored = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    assert stored is not None
    return dict(stored.state)


# --- what a result says was spent ---------------------------------------------------------------


def tokens_of(result: Any) -> dict[str, int]:
    """The input tokens of a run, by agent."""
    used: dict[str, int] = {}
    for (agent, _), usage in result.usage.items():
        used[agent] = used.get(agent, 0) + usage.input_tokens
    return used


def contest(loser: Agent[str], winner: Agent[str], way: str) -> Any:
    """Two agents of which one wins."""
    return race(loser, winner) if way == "race" else FanOut(loser, winner, merge="first_complete")


@pytest.mark.parametrize("way", ["race", "first_complete"])
async def test_a_result_says_what_losers_cost(way: str) -> None:
    """Its usage has the loser's finished call, and what its broken-off one had reported, too."""
    begun, asked = asyncio.Event(), list[int]()

    async def loses(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        asked.append(1)
        if len(asked) == 1:
            answer = using(300, 0, "call")
            assert answer.content is not None
            answer.content.parts = [types.Part.from_function_call(name="look", args={})]
            yield answer
            return
        yield using(40, 0, "I think", partial=True)
        begun.set()
        await asyncio.Event().wait()

    async def wins(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        await begun.wait()
        yield using(1000, 0, "I know")

    def look() -> str:
        """Look."""
        return "seen"

    slow = Agent("slow", PlainLlm.of(loses)).tool(look)
    result = await contest(slow, Agent("quick", PlainLlm.of(wins)), way).run("hi")
    assert (result.text, tokens_of(result)) == ("I know", {"slow": 340, "quick": 1000})


def test_a_result_says_what_failed_attempts_and_other_models_cost() -> None:
    """Attempts that failed or were too late after they reported usage count, as does who answered."""
    asked = list[int]()

    async def fails(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        asked.append(1)
        if len(asked) == 1:
            yield LlmResponse(error_code="UNAVAILABLE", usage_metadata=using(10, 0).usage_metadata)
            return
        yield using(100, 0, "It", partial=True)
        await asyncio.Event().wait()

    async def answers(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield using(1000, 0)

    first, other = PlainLlm.of(fails), PlainLlm.of(answers)
    late = Agent("a", first).middleware(retry(2, backoff_base=0), timeout(5))
    result = still((late // Agent("b", other)).run("hi"))
    assert (result.text, tokens_of(result)) == ("ok", {"a": 110, "b": 1000})
    asked.clear()
    result = still(Agent("a", first).middleware(fallback_model(other)).run("hi"))
    assert (result.text, tokens_of(result)) == ("ok", {"a": 1010})


@INSIDE_A_TOOL
@pytest.mark.parametrize("way", WAYS)
async def test_a_result_says_what_agents_in_tools_cost(way: str) -> None:
    """The experts that an agent asks as tools are in its usage, each under its own name."""
    result = await team(WAYS[way]).middleware(cost_attribution(prices=PRICES)).run("hi")
    assert tokens_of(result) == {"boss": 200, **dict.fromkeys(NAMES, 1000)}


async def test_a_result_says_what_helper_models_cost() -> None:
    """Questions of contexts are in the usage of the agent that asks them."""
    backend = mock_backend({"a": using(10, 0), "b": using(20, 0), "b:summarize": using(300, 0, "short")})
    pipeline = Agent("a") >> Agent("b").context(C.window(1) | C.summarize())
    assert tokens_of(await pipeline.run("hi", backend=backend)) == {"a": 10, "b": 320}


async def test_a_result_counts_each_call_once() -> None:
    """Calls whose answers are events are counted once, also in turns of a session and after a pause."""
    pipeline = Agent("a") >> gate(lambda state: True, message="Go on?") >> Agent("b")
    backend = mock_backend({"a": using(10, 0), "b": using(20, 0)})
    paused = await pipeline.run("hi", session_id="s", backend=backend)
    yes = {pending.id: True for pending in paused.pending}
    resumed = await pipeline.resume(session_id="s", approvals=yes, backend=backend)
    assert (tokens_of(paused), tokens_of(resumed)) == ({"a": 10}, {"b": 20})
    async with Agent("a").session(backend=backend) as chat:
        assert [tokens_of(await chat.send("hi")) for _ in range(2)] == [{"a": 10}, {"a": 10}]


# --- live -----------------------------------------------------------------------------------------


async def say(agent: Agent[str], backend: MockBackend, turns: int = 1, **options: Any) -> dict[str, Any]:
    """A live conversation of so many turns; the state after it."""
    service = InMemorySessionService()
    where: Any = {"session_id": "s", "session_service": service, **options}
    async with agent.live(backend=backend, modality="text", **where) as live:
        for _ in range(turns):
            await live.send("hi")
            async for event in live:
                if event.turn_complete:
                    break
    return await state_of(service)


async def test_live_answers_are_paid_for() -> None:
    """What the events of a live conversation report is in the sums, and taken off the budget."""
    costs = cost_attribution("budget", PRICES)
    backend = mock_backend({"boss": [using(1000, 10), using(2000, 20)]})
    state = await say(BOSS.middleware(costs), backend, 2, state={"budget": "1"})
    assert costs.spent["boss", "m"][:3] == (2, 3000, 30)
    assert Decimal(state["budget"]) == 1 - costs.total == Decimal("0.9967")


async def test_live_events_say_what_they_used() -> None:
    """Each event of an answer has its tokens, the model's name where it names none, and what that cost."""
    register_price("m", PRICES["m"])
    backend = mock_backend({"boss": using(1000, 10)})
    try:
        async with BOSS.live(backend=backend, modality="text") as live:
            await live.send("hi")
            async for event in live:
                if event.usage is not None:
                    assert (event.model, event.usage.cost) == ("m", Decimal("0.0011"))
                    break
    finally:
        unregister_price("m")


async def test_live_answers_count_against_the_budget_of_a_choice() -> None:
    """The model is chosen when the connection opens; what it then says is counted down once, at its price."""
    chosen = Agent("boss").model_select(
        "budget_bounded", candidates=[ModelCandidate("small", 0.001, 0.01)], budget_key="budget"
    )
    costs = cost_attribution("budget", PRICES)
    backend = mock_backend({"boss": [using(1000, 10), using(2000, 20)]})
    state = await say(chosen.middleware(costs), backend, 2, state={"budget": "1"})
    assert [request.model for request in backend.calls["boss"]] == ["small", "small"]
    assert Decimal(state["budget"]) == 1 - costs.total == Decimal("0.9967")


@pytest.mark.parametrize("per", ["run", "session", "agent"])
async def test_a_live_conversation_ends_when_its_tokens_are_used(per: Any) -> None:
    """Nothing is refused before it is said; the answer that exceeds the budget ends the conversation."""
    backend = mock_backend({"boss": [using(600, 0), using(600, 0), using(1, 0)]})
    with pytest.raises(BudgetError, match=r"^'boss' has exceeded its token_budget\(1000, .* used 1,200, and"):
        await say(BOSS.middleware(token_budget(1000, per=per)), backend, 3)
    assert len(backend.calls["boss"]) == 2


async def test_a_live_conversation_is_not_filtered_so_it_is_refused() -> None:
    """Before anything is said to the model, the filter says that it could not keep anything from it."""
    backend = mock_backend({"boss": "ok"})
    with pytest.raises(MiddlewareError, match=r"^'boss': pii_filter cannot keep personal data from a model"):
        await say(BOSS.middleware(pii_filter()), backend)
    assert not backend.calls.get("boss")
