"""`.model_select` chooses at each call, wherever the agent runs, and its calls count against a budget."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.adk.models import Gemini, LLMRegistry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from adk_fluent import Agent, C, Loop, Route, S, T, gate, map_over, race
from adk_fluent.backends import ADKBackend
from adk_fluent.backends.mock import MockBackend
from adk_fluent.cost import ModelCandidate, Price, register_price, unregister_price
from adk_fluent.errors import CompileError, ModelError, PredicateError, RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend

SMALL = ModelCandidate("gemini-2.5-flash", 0.15, 0.60, quality_tier=1)
LARGE = ModelCandidate("openai/gpt-4o", 2.50, 10.00, quality_tier=3)
MIDDLE = ModelCandidate("gemini-2.5-pro", 1.25, 5.00, quality_tier=2)
CANDIDATES = (LARGE, SMALL, MIDDLE)


def urgent(state: Mapping[str, Any]) -> bool:
    """A condition."""
    return state.get("urgent") is True


def picky(
    strategy: Any = "cost_optimized", *, candidates: Sequence[ModelCandidate] = CANDIDATES, **options: Any
) -> Agent[str]:
    """An agent that chooses."""
    return Agent("picky").model_select(strategy, candidates=candidates, **options).instruct("Do.")


def asked(backend: MockBackend, agent: str = "picky") -> list[str | None]:
    """Which models an agent asked, in order."""
    return [request.model for request in backend.calls[agent]]


def spent(text: str) -> Decimal:
    """What a call with SMALL costs, asked this text after the instruction, and answered `fine`."""
    return Decimal("0.00015") * ((len(text) + INSTRUCTION) // 4) + Decimal("0.0006")


INSTRUCTION = len('Do.\n\nYou are an agent. Your internal name is "picky".')


# --- strategies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "state", "expected"),
    [
        ("cost_optimized", {}, "gemini-2.5-flash"),
        ("cost_optimized", {"urgent": True}, "gemini-2.5-flash"),
        ("quality_optimized", {}, "gemini-2.5-pro"),
        ("quality_optimized", {"urgent": True}, "openai/gpt-4o"),
    ],
)
async def test_cheapest_or_best_whose_condition_holds(
    strategy: str, state: dict[str, Any], expected: str
) -> None:
    """`cost_optimized` takes the cheapest candidate, `quality_optimized` the best, whose condition holds."""
    agent = picky(strategy, candidates=[LARGE.replace(condition=urgent), SMALL, MIDDLE])
    backend = mock_backend({"picky": "fine"})
    result = await agent.run("Go", state=state, backend=backend)
    assert asked(backend) == [expected]
    assert [event.model for event in result] == [expected]
    assert list(result.usage) == [("picky", expected)]


async def test_cheapest_by_the_data_set() -> None:
    """Candidates without prices of their own are compared by those that are known of the models."""
    candidates = [ModelCandidate("gemini-2.5-pro"), ModelCandidate("gemini-2.5-flash-lite"), SMALL]
    backend = mock_backend({"picky": "fine"})
    await picky(candidates=candidates).run("Go", backend=backend)
    assert asked(backend) == ["gemini-2.5-flash-lite"]


async def test_a_budget_lasts_until_it_is_used_up() -> None:
    """`budget_bounded` asks the cheapest while something is left, then the fallback; each call is counted."""
    agent = picky("budget_bounded", budget_key="left", fallback_model="house")
    backend = mock_backend({"picky": "fine"})
    first = await agent.run("Go", state={"left": "0.005"}, backend=backend, session_id="s")
    cost = spent("Go")
    assert first.state["left"] == format(Decimal("0.005") - cost, "f")
    assert first.usage["picky", "gemini-2.5-flash"].cost == cost
    second = await agent.run("Go on", backend=backend, session_id="s")
    assert second.state["left"] == "0"
    third = await agent.run("Go on", backend=backend, session_id="s")
    assert third.state["left"] == "0"
    assert asked(backend) == ["gemini-2.5-flash", "gemini-2.5-flash", "house"]
    assert third.usage["picky", "house"].cost is None


async def test_an_exhausted_budget_without_a_fallback_refuses_the_call() -> None:
    """Without a fallback the call is refused before any model is asked, naming the agent and the key."""
    backend = mock_backend({"picky": "fine"})
    with pytest.raises(ModelError, match=r"^Agent 'picky' has no model .* budget \"left\" is used up"):
        await picky("budget_bounded", budget_key="left").run("Go", state={"left": 0}, backend=backend)
    assert backend.calls["picky"] == []


@pytest.mark.parametrize("left", [1, 1.0, "1", "1.0", Decimal(1)])
async def test_a_budget_may_be_any_number(left: Any) -> None:
    """A budget may start as a number or text; what is left is always text, exact to the last digit."""
    if isinstance(left, Decimal):  # which a store in memory keeps
        agent = S.compute(left=lambda state: Decimal(1)) >> picky("budget_bounded", budget_key="left")
        result = await agent.run("Go", backend=mock_backend({"picky": "fine"}))
    else:
        agent = picky("budget_bounded", budget_key="left")
        result = await agent.run("Go", state={"left": left}, backend=mock_backend({"picky": "fine"}))
    assert isinstance(result.state["left"], str)
    assert Decimal(result.state["left"]) == 1 - spent("Go")


@pytest.mark.parametrize("left", [-1, "-0.01", "lots", True, [1], "nan"])
async def test_what_is_no_budget_is_refused(left: Any) -> None:
    """A negative budget, or one that is no number, refuses the call in a line that names agent and key."""
    agent = S.set(**{"user:left": left}) >> picky("budget_bounded", budget_key="user:left")
    with pytest.raises(ModelError, match=r"^Agent 'picky': its budget \"user:left\" holds .* S\.set\(left="):
        await agent.run("Go", backend=mock_backend({"picky": "fine"}))


async def test_any_strategy_counts_and_none_limits_without_a_budget() -> None:
    """With `budget_key`, every strategy counts; where the key is not set, nothing is counted or refused."""
    agent = picky("quality_optimized", budget_key="left")
    result = await agent.run("Go", state={"left": "0.001"}, backend=mock_backend({"picky": "fine"}))
    assert result.state["left"] == "0"
    free = await picky("budget_bounded", budget_key="left").run("Go", backend=mock_backend({"picky": "fine"}))
    assert "left" not in free.state


def judged(*scores: object) -> tuple[Expr[Any], MockBackend]:
    """A worker that is judged after each answer, with what it says."""
    worker = picky("adaptive", quality_key="score", quality_threshold=0.7)
    return worker >> Agent("judge").writes("score"), mock_backend(
        {"picky": "fine", "judge": list(map(str, scores))}
    )


async def test_adaptive_goes_up_a_tier_when_the_score_is_too_low() -> None:
    """It starts at the lowest tier, goes up one when a low score was written since, and never down."""
    work, backend = judged(0.2, 0.7, 0.69, 0.1)
    await Loop(work, max_iterations=5).run("Go", backend=backend)
    flash, pro, gpt = "gemini-2.5-flash", "gemini-2.5-pro", "openai/gpt-4o"
    assert asked(backend) == [flash, pro, pro, gpt, gpt]


async def test_adaptive_goes_on_in_the_next_turn_and_after_a_restart(tmp_path: Path) -> None:
    """The tier lasts as long as the session; a score that was heeded once does not count again."""
    work, backend = judged(0.1, 0.9)
    sessions: dict[str, Any] = {
        "session_service": SqliteSessionService(str(tmp_path / "s.db")),
        "session_id": "s",
    }
    await work.run("Go", backend=backend, **sessions)
    sessions["session_service"] = SqliteSessionService(str(tmp_path / "s.db"))
    await work.run("Go on", backend=backend, **sessions)
    await work.run("Go on", backend=backend, **sessions)
    assert asked(backend) == ["gemini-2.5-flash", "gemini-2.5-pro", "gemini-2.5-pro"]


async def test_adaptive_heeds_a_score_of_its_own_callback() -> None:
    """A score that an `after_model` callback writes counts for the next call of the same turn."""

    def judge(callback_context: Any, llm_response: LlmResponse) -> None:
        callback_context.state["score"] = 0.1

    def look() -> str:
        """Look."""
        return "seen"

    agent = picky("adaptive", quality_key="score", quality_threshold=0.5).tool(look).after_model(judge)
    backend = mock_backend({"picky": [call_tool("look"), "fine"]})
    await agent.run("Go", backend=backend)
    assert asked(backend) == ["gemini-2.5-flash", "gemini-2.5-pro"]


async def test_a_score_that_is_no_number_is_refused() -> None:
    """A score must be a number; the line names agent and key."""
    work, backend = judged("good", "good")
    with pytest.raises(
        ModelError, match=r"'picky' chooses its model by the score \"score\", which holds 'good'"
    ):
        await (work * 2).run("Go", backend=backend)


async def test_long_requests_go_to_who_may_get_them() -> None:
    """`max_tokens` is the longest request of a candidate, with its tools; when none is left it is refused."""

    def look(where: str) -> str:
        """Look around in a place of which there is a lot to be said, so that this takes some tokens."""
        return where

    short = SMALL.replace(max_tokens=60)
    backend = mock_backend({"picky": "fine"})
    agent = picky(candidates=[short, MIDDLE.replace(max_tokens=120)])
    await agent.run("Go", backend=backend)
    await agent.run("Go" * 100, backend=backend)
    await agent.tool(look).run("Go", backend=backend)
    assert asked(backend) == ["gemini-2.5-flash", "gemini-2.5-pro", "gemini-2.5-pro"]
    with pytest.raises(ModelError, match=r"'gemini-2.5-pro': it may get 120 tokens, and .* about 2\d\d\."):
        await agent.run("Go" * 400, backend=backend)


async def test_when_nothing_can_be_chosen_the_call_is_refused_or_falls_back() -> None:
    """Without a candidate the call is refused, naming agent and reasons; a fallback takes it instead."""
    backend = mock_backend({"picky": "fine"})
    with pytest.raises(
        ModelError, match=r"^Agent 'picky' has no model .*'gemini-2.5-pro': its condition does"
    ):
        await picky(candidates=[MIDDLE.replace(condition=urgent)]).run("Go", backend=backend)
    assert backend.calls["picky"] == []
    await picky(candidates=[MIDDLE.replace(condition=urgent)], fallback_model="house").run(
        "Go", backend=backend
    )
    assert asked(backend) == ["house"]


async def test_a_condition_that_raises_is_named() -> None:
    """An error in a condition is told with the agent whose choice it was for."""

    def broken(state: Mapping[str, Any]) -> bool:
        raise RuntimeError("no")

    with pytest.raises(PredicateError, match="'picky'"):
        await picky(candidates=[SMALL.replace(condition=broken)]).run(
            "Go", backend=mock_backend({"picky": "x"})
        )


def test_an_unknown_price_refuses_to_build() -> None:
    """What must be compared or counted needs a price; a registered one will do."""
    house = ModelCandidate("house-model")
    agent = picky(candidates=[SMALL, house])
    with pytest.raises(
        CompileError, match=r"Agent 'picky': the price of model 'house-model' is unknown\. Give"
    ):
        agent.build()
    register_price("house-model", Price.per_million(input=1, output=1))
    try:
        agent.build()
    finally:
        unregister_price("house-model")
    picky("quality_optimized", candidates=[SMALL, house.replace(quality_tier=2)]).build()


# --- every place where an agent runs --------------------------------------------------------------

MEANT = SMALL.model


def places() -> dict[str, tuple[Expr[Any], dict[str, Any]]]:
    """Expressions that ask `picky` once, each with what others say."""
    one = picky()
    other = Agent("other")
    return {
        "alone": (one, {}),
        "sequence": (other >> one, {}),
        "parallel": (other | one, {}),
        "loop": (one * 1, {}),
        "fallback": (other // one, {"other": RuntimeError("no")}),
        "race": (
            race(one, other // other.named("third")),
            {"other": RuntimeError("no"), "third": ValueError()},
        ),
        "route": (S.set(k="v") >> Route("k").eq("v", one), {}),
        "map": (S.set(items=["x"]) >> map_over("items", one), {}),
        "timeout": (one.timeout(30), {}),
        "delegate": (
            Agent("boss", "gemini-2.5-pro").delegate(one),
            {"boss": call_tool("transfer_to_agent", agent_name="picky")},
        ),
        "inherited": (
            Agent("boss").model_select("cost_optimized", candidates=CANDIDATES).delegate(Agent("picky")),
            {"boss": call_tool("transfer_to_agent", agent_name="picky")},
        ),
        "tool": (
            Agent("boss", "gemini-2.5-pro").tool(AgentTool(one.build())),
            {"boss": [call_tool("picky", request="x"), "done"]},
        ),
        "inherited in a tool": (
            Agent("boss")
            .model_select("cost_optimized", candidates=CANDIDATES)
            .tools(T.agent(Agent("picky"))),
            {"boss": [call_tool("picky", request="x"), "done"]},
        ),
        "reads": (S.set(k="v") >> one.reads("k"), {}),
        "no history": (other >> one.context(C.none()), {}),
        "structured": (one.returns(int), {"picky": "3"}),
        "with a tool": (one.tool(len), {}),
    }


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")  # of AgentTool
@pytest.mark.parametrize("place", places())
async def test_it_chooses_in_every_place(place: str) -> None:
    """In every composite, as a delegate, in a tool, with any context: the model is chosen."""
    expression, said = places()[place]
    backend = mock_backend({"picky": "fine", "other": "well", "boss": "ok", **said})
    await expression.run("Go", backend=backend)
    assert asked(backend) == [MEANT]


async def test_it_chooses_on_every_entry_point() -> None:
    """`ask`, `run`, `map`, `stream` and `session` choose alike, and what is streamed names the model."""
    backend = mock_backend({"picky": "fine and well"})
    agent = picky("budget_bounded", budget_key="left")
    await agent.ask_async("Go", backend=backend)
    await agent.map(["Go", "Go"], backend=backend)
    streamed = [event async for event in agent.stream("Go", backend=backend, state={"left": "1"})]
    assert [event.model for event in streamed if not event.is_partial] == [MEANT]
    assert any(event.is_partial for event in streamed)
    assert [set(event.state_delta) for event in streamed if event.state_delta] == [{"left"}]
    async with agent.session(backend=backend, state={"left": "1"}) as chat:
        first = await chat.send("Go")
        second = await chat.send("Go on")
    assert Decimal(second.state["left"]) < Decimal(first.state["left"]) < 1
    assert asked(backend) == [MEANT] * 6


class Echo(BaseLlm):
    """A provider of its own, which says what it was asked as."""

    @classmethod
    def supported_models(cls) -> list[str]:
        return ["echo-.*"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        part = types.Part(text=f"I am {llm_request.model}")
        used = types.GenerateContentResponseUsageMetadata(prompt_token_count=1000, candidates_token_count=500)
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=used)


@pytest.fixture
def echo() -> None:
    """A provider that answers to every `echo-` model."""
    LLMRegistry.register(Echo)


ECHOES = (ModelCandidate("echo-dear", 3, 3, quality_tier=2), ModelCandidate("echo-cheap", 1, 1))


@pytest.mark.usefixtures("echo")
async def test_plain_adk_runs_it() -> None:
    """On ADK's own Runner of `to_app()`, real models of any provider are resolved, asked and counted."""
    sessions = InMemorySessionService()
    expression = Agent("picky").model_select(
        "budget_bounded", candidates=ECHOES, budget_key="user:left", fallback_model="echo-last"
    )
    app = expression.to_app()
    runner = Runner(app=app, session_service=sessions)
    await sessions.create_session(app_name=app.name, user_id="u", session_id="s", state={"user:left": "2"})
    said: list[str] = []
    for _ in range(3):
        message = types.Content(role="user", parts=[types.Part(text="Who are you?")])
        async for event in runner.run_async(user_id="u", session_id="s", new_message=message):
            said += [part.text or "" for part in (event.content and event.content.parts) or []]
            assert event.model_version == said[-1].removeprefix("I am ")
    assert said == ["I am echo-cheap", "I am echo-cheap", "I am echo-last"]
    session = await sessions.get_session(app_name=app.name, user_id="u", session_id="s")
    assert session is not None
    assert session.state["user:left"] == "0"


@pytest.mark.usefixtures("echo")
async def test_a_helper_of_a_chosen_model_asks_the_first_candidate() -> None:
    """What a context asks its agent's model goes to the candidate that the strategy prefers."""
    agent = Agent("a", "echo-one") >> Agent("picky").model_select(
        "quality_optimized", candidates=ECHOES
    ).context(C.default() | C.summarize())
    result = await agent.run("Go", backend=ADKBackend())
    assert [model for name, model in result.usage if name == "picky"] == ["echo-dear"]
    assert result.usage["picky", "echo-dear"].calls == 2


@pytest.mark.usefixtures("echo")
async def test_a_callback_may_ask_another_model() -> None:
    """A callback that changes the model of the request gets that one, candidate or not."""

    def prefer(name: str) -> Callable[[Any, LlmRequest], None]:
        def change(callback_context: Any, llm_request: LlmRequest) -> None:
            llm_request.model = name

        return change

    for name in ("echo-dear", "echo-other"):
        agent = Agent("picky").model_select("cost_optimized", candidates=ECHOES).before_model(prefer(name))
        assert await agent.ask_async("Go", backend=ADKBackend()) == f"I am {name}"


@pytest.mark.usefixtures("echo")
async def test_tool_calls_are_paired_for_providers_that_pair_by_id() -> None:
    """What is not Gemini gets its tool calls and their results with ids, also where ADK leaves them out."""
    seen: list[LlmRequest] = []

    class Caller(Echo):
        @classmethod
        def supported_models(cls) -> list[str]:
            return ["caller"]

        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            seen.append(llm_request)
            if len(seen) > 1:
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="done")]))
                return
            calls = [types.FunctionCall(name="look", args={"where": where}) for where in ("here", "there")]
            parts = [types.Part(function_call=call) for call in calls]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    def look(where: str) -> str:
        """Look."""
        return where

    LLMRegistry.register(Caller)
    candidates = [ModelCandidate("caller", 1, 1)]
    agent = Agent("picky").model_select("cost_optimized", candidates=candidates).tool(look)
    assert await agent.ask_async("Go", backend=ADKBackend()) == "done"
    parts = [part for content in seen[1].contents for part in content.parts or []]
    calls = [part.function_call.id for part in parts if part.function_call]
    results = [part.function_response.id for part in parts if part.function_response]
    assert len(set(calls)) == 2
    assert calls == results


def test_gemini_is_resolved_as_adk_does() -> None:
    """A Gemini name becomes ADK's Gemini, asked under the name of the candidate."""
    agent: Any = picky(candidates=[SMALL]).build()
    name, model = agent.canonical_model._asked(LlmRequest(model="gemini-2.5-flash"))
    assert (name, type(model)) == ("gemini-2.5-flash", Gemini)


# --- at the same time, and later ------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BaseSessionService:
    """A session service."""
    if request.param == "memory":
        return InMemorySessionService()
    return SqliteSessionService(str(tmp_path / "sessions.db"))


async def test_turns_of_one_user_at_the_same_time_all_count(store: BaseSessionService) -> None:
    """Ten sessions of one user that run at once take what they cost from one budget, to the last digit."""
    agent = picky("budget_bounded", budget_key="user:left")
    begun, all_begun = 0, asyncio.Event()

    async def when_all_have_begun() -> Any:
        nonlocal begun
        begun += 1
        if begun == 10:
            all_begun.set()
        await all_begun.wait()
        yield "fine"

    backend = mock_backend({"picky": lambda request: when_all_have_begun()}, session_service=store)
    other = mock_backend({"other": "x"}, session_service=store)
    await Agent("other").run("Hi", backend=other, state={"user:left": "1"})
    await asyncio.gather(*(agent.run("Go", backend=backend) for _ in range(10)))
    end = await Agent("other").run("Hi", backend=other)
    assert Decimal(end.state["user:left"]) == 1 - 10 * spent("Go")


async def test_branches_of_one_run_all_count(store: BaseSessionService) -> None:
    """Parallel branches, items of a map and rounds of a loop each take what they cost."""
    one = picky("budget_bounded", budget_key="left")
    two = one.named("other")
    expression = (
        S.set(items=["a", "b"]) >> (one | two) >> map_over("items", one.named("item")) >> one.named("end") * 2
    )
    backend = mock_backend({}, default="fine", session_service=store)
    result = await expression.run("Go", backend=backend, state={"left": "9"})
    costs = [used.cost for used in result.usage.values()]
    assert sum(used.calls for used in result.usage.values()) == 6
    assert Decimal(result.state["left"]) == 9 - sum(cost for cost in costs if cost is not None)


async def test_the_winner_of_a_race_counts() -> None:
    """Of a race, what the winner's calls cost is counted, all of them."""

    def look() -> str:
        """Look."""
        return "seen"

    fast = picky("budget_bounded", budget_key="left").tool(look)
    backend = mock_backend({"picky": [call_tool("look"), "fine"], "slow": RuntimeError("no")})
    result = await race(fast, Agent("slow")).run("Go", backend=backend, state={"left": "1"})
    assert result.usage["picky", MEANT].calls == 2
    assert Decimal(result.state["left"]) == 1 - (result.usage["picky", MEANT].cost or 0)


async def test_after_a_pause_and_a_restart_it_goes_on(tmp_path: Path) -> None:
    """A run that waited for a person goes on with what was left, after a restart too."""
    agent = picky("budget_bounded", budget_key="left")
    expression = agent >> gate(lambda state: True, message="Sure?") >> agent.named("after")
    backend = mock_backend({}, default="fine")
    sessions = SqliteSessionService(str(tmp_path / "s.db"))
    paused = await expression.run(
        "Go", backend=backend, session_service=sessions, session_id="s", state={"left": "1"}
    )
    (pending,) = paused.pending
    done = await expression.resume(
        session_id="s",
        approvals={pending.id: True},
        backend=mock_backend({}, default="fine"),
        session_service=SqliteSessionService(str(tmp_path / "s.db")),
    )
    assert Decimal(done.state["left"]) < Decimal(paused.state["left"]) < 1
    assert [event.model for event in done if event.usage] == [MEANT]


async def test_a_fallback_catches_a_refused_call() -> None:
    """A refused call is a failure like another: what stands behind `//` takes over."""
    agent = picky("budget_bounded", budget_key="left") // Agent("spare", "gemini-2.5-flash-lite")
    backend = mock_backend({"picky": "fine", "spare": "well"})
    result = await agent.run("Go", state={"left": "0"}, backend=backend)
    assert result.text == "well"


async def test_a_preview_shows_what_would_be_asked() -> None:
    """`.preview` names the model that would be chosen."""
    preview = await picky("quality_optimized").preview("Go")
    assert [request.model for request in preview["picky"]] == ["openai/gpt-4o"]


# --- what calls cost ------------------------------------------------------------------------------


async def test_usage_says_what_calls_cost() -> None:
    """The cost of an agent's calls is exact, by the model that it asked; if unknown it is `None`, not 0."""
    pipeline = Agent("a", "gemini-2.5-flash") >> Agent("b", "house-model")
    result = await pipeline.run("x" * 4000, backend=mock_backend({"a": "y" * 400, "b": "z"}))
    used = result.usage["a", "gemini-2.5-flash"]
    assert used.output_tokens == 100
    assert used.cost == Decimal("0.0000003") * used.input_tokens + Decimal("0.00025")
    assert result.usage["b", "house-model"].cost is None
    assert (used + result.usage["b", "house-model"]).cost is None
    assert (used + used).cost == 2 * (used.cost or 0)


async def test_a_response_that_names_no_model_counts_for_the_agents_own() -> None:
    """Where a response names no model, the agent's counts: its own, that of the agent above, or ADK's."""
    from google.adk.agents.llm_agent import LlmAgent

    boss = Agent("boss", "gemini-2.5-pro").delegate(Agent("helper"))
    script = {"boss": call_tool("transfer_to_agent", agent_name="helper"), "helper": "ok", "plain": "x"}
    result = await (boss >> Agent("plain")).run("Go", backend=mock_backend(script))
    assert list(result.usage) == [
        ("boss", "gemini-2.5-pro"),
        ("helper", "gemini-2.5-pro"),
        ("plain", LlmAgent.DEFAULT_MODEL),
    ]


def test_run_errors_are_ours() -> None:
    """A refused call is a `RunError`, so whoever catches those of a run catches it."""
    assert issubclass(ModelError, RunError)


@pytest.mark.parametrize("key", ["left", "user:left"])
async def test_a_top_up_counts_whatever_its_amount(key: str) -> None:
    """An amount that the budget has had before is a new one, also for a budget that chooses the model."""
    backend = mock_backend({"picky": "fine"})
    agent = picky("budget_bounded", budget_key=key)
    for _ in range(3):
        given: Any = {"session_id": "s", "backend": backend}
        first = await agent.run("Go", state={key: "5.00"}, **given)
        second = await agent.run("Go", **given)
        assert Decimal(second.state[key]) < Decimal(first.state[key]) < Decimal("5.00")
