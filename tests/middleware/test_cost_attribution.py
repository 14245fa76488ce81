"""`cost_attribution`: who spent what, told to whom, and a budget of which nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import InMemorySessionService
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adk_fluent import Agent, C, FanOut, S
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.cost import Price
from adk_fluent.errors import ArgumentError, MissingKeyError, ModelError
from adk_fluent.middleware import cost_attribution, fallback_model, retry
from adk_fluent.middleware.costs import _Budget, _Seen  # pyright: ignore[reportPrivateUsage]  # the arithmetic alone
from adk_fluent.testing import mock_backend
from tests.backends.support import PlainLlm, play, reply, script, session_service

A, B = Agent("a", "m"), Agent("b", "n")
PRICES = {
    "m": Price.per_million(input=1, output=10),
    "n": Price.per_million(input=2, output=20),
    "h": Price.per_million(input=1, output=1),
}


def using(asked: int, answered: int, text: str = "ok") -> Any:
    """An answer whose call used so many tokens."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=asked, candidates_token_count=answered
    )
    return reply(text, usage_metadata=usage)


async def test_each_agent_and_model_has_its_sum() -> None:
    """The sums of tokens and dollars are exact, by agent and model, over all runs."""
    costs = cost_attribution(prices=PRICES)
    pipeline = (A >> B).middleware(costs)
    says = {"a": using(1000, 100), "b": using(500, 10)}
    await play(pipeline, says)
    result = await play(pipeline, says)
    spent = costs.spent
    assert (spent["a", "m"].input_tokens, spent["a", "m"].output_tokens) == (2000, 200)
    assert (spent["a", "m"].cost, spent["b", "n"].cost) == (Decimal("0.004"), Decimal("0.0024"))
    assert costs.total == Decimal("0.0064")
    assert result.by("a")[0].metadata["adk_fluent.cost_usd"] == "0.002"


async def test_every_call_counts() -> None:
    """Helper questions, fallback models and calls that broke off after they reported usage count."""
    costs = cost_attribution(prices=PRICES)
    backend = mock_backend({"a": using(10, 10), "b": using(10, 10), "b:summarize": using(100, 0, "short")})
    context = C.window(1) | C.summarize(model="n")
    await (A >> B.context(context)).middleware(costs).run("hi", backend=backend)
    assert sum(spent.input_tokens for (agent, _), spent in costs.spent.items() if agent == "b") == 110

    costs = cost_attribution(prices=PRICES)
    agent = A.middleware(retry(backoff_base=0), fallback_model("n"), costs)
    await play(agent, {"a": ConnectionError("x"), "n": using(10, 10)})
    assert set(costs.spent) == {("a", "n")}

    async def breaks_off(request: LlmRequest) -> AsyncGenerator[Any, None]:
        piece = using(50, 1, "One ")
        piece.partial = True
        yield piece
        raise ConnectionError("lost")

    costs = cost_attribution(prices=PRICES)
    with pytest.raises(ModelError):
        async for _ in Agent("a", PlainLlm.of(breaks_off)).middleware(costs).stream("hi"):
            pass
    assert [spent.input_tokens for spent in costs.spent.values()] == [50]


async def test_a_price_that_nobody_knows_is_not_nothing() -> None:
    """Calls without a price are counted as such, and the event says no cost."""
    costs = cost_attribution(prices=PRICES)
    result = await play(Agent("a", "no-such-model").middleware(costs), {"a": using(10, 10)})
    (spent,) = costs.spent.values()
    assert (spent.calls, spent.unpriced, spent.cost) == (1, 1, 0)
    assert "adk_fluent.cost_usd" not in result.by("a")[0].metadata


# --- budgets --------------------------------------------------------------------------------------


async def test_a_budget_is_counted_down_exactly() -> None:
    """Ten calls of 0.0001 leave 0.999 of 1.00, as text, in the stored state."""
    agent = (A * 10).middleware(cost_attribution("budget", PRICES))
    result = await play(agent, {"a": using(50, 5)}, state={"budget": "1.00"})
    assert result.state["budget"] == "0.9990"


async def test_branches_at_once_lose_nothing() -> None:
    """Of ten agents that answer together every cost is in what is stored at the end."""
    agents = [Agent(f"a{n}", "m") for n in range(10)]
    backend = script({agent.name: using(1000, 0) for agent in agents})
    costs = cost_attribution("budget", PRICES)
    result = await FanOut(*agents).middleware(costs).run("hi", state={"budget": "1"}, backend=backend)
    assert result.state["budget"] == "0.990"


@pytest.mark.parametrize("key", ["budget", "user:budget", "app:budget"])
async def test_turns_at_once_lose_nothing(key: str) -> None:
    """Of ten turns that run together, in as many sessions where these share a budget, every cost counts."""
    service = InMemorySessionService()
    together = asyncio.Event()
    begun: list[int] = []

    async def hold(request: LlmRequest) -> AsyncGenerator[str, None]:
        begun.append(1)
        if len(begun) == 10:
            together.set()
        await together.wait()
        yield "x" * 40

    backend = mock_backend({"a": hold, "b": "ok"}, session_service=service)
    sessions = ["s"] * 10 if key == "budget" else [f"s{number}" for number in range(10)]
    await B.run("hi", session_id=sessions[0], state={key: "1"}, backend=backend)
    costs = cost_attribution(key, PRICES)
    agent = A.middleware(costs)
    await asyncio.gather(*(agent.run("hi", session_id=session, backend=backend) for session in sessions))
    assert costs.spent["a", "m"].calls == 10
    stored = await B.run("hi", session_id=sessions[0], backend=backend)
    assert Decimal(stored.state[key]) == 1 - costs.total


async def test_a_new_budget_stays_though_nothing_is_spent() -> None:
    """A value that is set anew is left alone by a run that asks no model, and then counted down."""
    costs = cost_attribution("budget", PRICES)
    given: Any = {"backend": mock_backend({"a": using(1000, 0)}), "session_id": "s"}
    agent, step = A.middleware(costs), S.set(done=True).middleware(costs)
    assert (await agent.run("hi", state={"budget": "1"}, **given)).state["budget"] == "0.999"
    assert (await step.run("hi", state={"budget": "5"}, **given)).state["budget"] == "5"
    assert (await agent.run("more", **given)).state["budget"] == "4.999"


async def test_a_budget_survives_a_restart(tmp_path: Path) -> None:
    """Another process goes on from what is stored."""
    for left in ("0.998", "0.996"):
        backend = mock_backend({"a": using(1000, 100)}, session_service=session_service("sqlite", tmp_path))
        state = {"budget": "1"} if left == "0.998" else {}
        agent = A.middleware(cost_attribution("budget", PRICES))
        assert (await agent.run("hi", session_id="s", state=state, backend=backend)).state["budget"] == left


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("spend"), st.integers(1, 30), st.integers(0, 5)),
            st.tuples(st.just("set"), st.integers(1, 40), st.just(0)),
        ),
        max_size=30,
    )
)
def test_older_amounts_are_told_from_new_ones(steps: list[tuple[str, int, int]]) -> None:
    """However old the amount that a turn holds, what is left is the last amount written less all spent."""
    budget, held, left = _Budget(), [_Seen("30", "")], Decimal(30)
    for what, number, age in steps:
        if what == "set":
            found = held[-1]._replace(value=str(number))
            if found != held[-1]:  # what is written again unchanged is no new amount
                held, left = [found], Decimal(number)
        else:
            found = held[-1 - min(age, len(held) - 1)]
            held.append(budget.take(found, Decimal(number), "budget"))
            left = max(left - number, Decimal(0))
            assert Decimal(held[-1].value) == left


@pytest.mark.parametrize("key", ["budget", "user:budget", "app:budget"])
async def test_a_top_up_counts_whatever_its_amount(key: str, tmp_path: Path) -> None:
    """An amount that the budget has had before is a new one each time the application writes it."""
    service = session_service("sqlite", tmp_path)
    backend = mock_backend({"a": using(1000, 0)}, session_service=service)
    agent = A.middleware(cost_attribution(key, PRICES))
    for amount in ("5.00", "5.00", "4.999", "5.00", "4.998", "4.999"):
        given: Any = {"session_id": "s", "backend": backend}
        result = await agent.run("hi", state={key: amount}, **given)
        assert Decimal(result.state[key]) == Decimal(amount) - Decimal("0.001")
        more = await agent.run("hi", **given)
        assert Decimal(more.state[key]) == Decimal(amount) - Decimal("0.002")


async def test_a_budget_of_one_run_starts_anew_with_each() -> None:
    """A budget under `temp:` is that of one run: the next one that is given the same amount has all of it."""
    left: list[str] = []

    def note(state: dict[str, Any]) -> dict[str, Any]:
        left.append(state["temp:budget"])
        return {}

    pipeline = (A >> note).middleware(cost_attribution("temp:budget", PRICES))
    backend = mock_backend({"a": using(1000, 0)})
    for _ in range(2):
        await pipeline.run("hi", session_id="s", state={"temp:budget": "1"}, backend=backend)
    assert left == ["0.999", "0.999"]


@pytest.mark.parametrize("key", ["budget", "user:budget"])
async def test_middleware_of_each_request_counts_one_budget(key: str) -> None:
    """Of turns at once that make an object each, as web servers do, no cost is lost, and one value is kept."""
    service, turns = InMemorySessionService(), 10
    together, begun = asyncio.Event(), list[int]()

    async def hold(request: LlmRequest) -> AsyncGenerator[Any, None]:
        begun.append(1)
        if len(begun) == turns:
            together.set()
        await together.wait()
        yield using(1000, 0)

    backend = mock_backend({"a": hold, "b": "ok"}, session_service=service)
    await B.run("hi", session_id="s", state={key: "10"}, backend=backend)

    async def request() -> None:
        await A.middleware(cost_attribution(key, PRICES)).run("hi", session_id="s", backend=backend)

    await asyncio.gather(*(request() for _ in range(turns)))
    stored = await B.run("hi", session_id="s", backend=backend)
    assert Decimal(stored.state[key]) == Decimal("9.990")
    assert [len(kept) for kept in runs._sessions[service].values()] == [1]  # pyright: ignore[reportPrivateUsage]  # how many values there are


async def test_wrong_budgets_are_named_before_anything_is_spent() -> None:
    """A missing budget and one that is no amount are one clear line each, and no model is asked."""
    agent = A.middleware(cost_attribution("budget", PRICES))
    backend = script({"a": "ok"})
    with pytest.raises(MissingKeyError, match=r"'a': the state has no budget 'budget' for cost_attribution"):
        await agent.run("hi", backend=backend)
    for wrong in ("much", -1):
        with pytest.raises(ModelError, match=r"'a': the budget in the state: budget takes an amount in USD"):
            await agent.run("hi", state={"budget": wrong}, backend=backend)
    assert not backend.calls.get("a")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((3,), "cost_attribution(budget_key=) is a key of the state, not 3."),
        (("",), "cost_attribution(budget_key=) is a key of the state, not ''."),
        ((None, {"m": 3}), "cost_attribution(prices=) maps names of models to prices"),
        ((None, [1]), "cost_attribution(prices=) maps names of models to prices"),
    ],
)
def test_wrong_arguments(wrong: tuple[Any, ...], message: str) -> None:
    """Each wrong argument is one clear line."""
    with pytest.raises(ArgumentError) as caught:
        cost_attribution(*wrong)
    assert str(caught.value).startswith(message)
