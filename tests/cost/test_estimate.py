"""Estimates agree with the costs of real runs; an estimate names its assumptions."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from adk_fluent import Agent, C, Loop, P, Route, S, T, map_over, race, tap, transfer
from adk_fluent.cost import (
    ModelCandidate,
    Price,
    TrafficAssumptions,
    estimate_cost,
    register_price,
    unregister_price,
)
from adk_fluent.errors import ArgumentError, MissingExtraError, ModelError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import cache, retry
from adk_fluent.testing import call_tool, mock_backend
from tests.cost.pipelines import LONG, QUESTION, Case, cases, helped
from tests.limits import LIMIT

ONE = Price.per_million(input=1, output=4)
PRICES = {"m": ONE, "dear": Price.per_million(input=10, output=40)}
PLAIN: dict[str, Any] = {"characters_per_token": 4, "tokens_per_message": 0}
"""As scripted models count."""


def agent(name: str, model: str = "m") -> Agent[str]:
    """An agent."""
    return Agent(name, model).instruct("Do it.")


def calls(expression: Expr[Any], **traffic: Any) -> dict[str, float]:
    """The expected calls of each agent."""
    found = estimate_cost(expression, TrafficAssumptions(**traffic), prices=PRICES)
    return {one.agent: round(one.calls, 3) for one in found.agents}


def tokens(expression: Expr[Any], **traffic: Any) -> dict[str, float]:
    """The input tokens of each agent."""
    found = estimate_cost(expression, TrafficAssumptions(**traffic), prices=PRICES)
    return {one.agent: one.input_tokens for one in found.agents}


class Answer(BaseModel):
    """A typed answer."""

    total: float


def test_retries_count_as_often_as_answers_are_wrong() -> None:
    """Each wrong answer is a call more, whose request shows those before; the highest cost takes them all."""
    typed = agent("a").returns(Answer, retries=2)
    assert calls(typed) == {"a": 1.052}
    assert calls(typed, wrong_answer_rate=0.5) == {"a": 1.75}
    assert calls(agent("a").returns(Answer)) == {"a": 1}
    once = estimate_cost(agent("a").returns(Answer), prices=PRICES)
    found = estimate_cost(typed, prices=PRICES)
    assert found.low == once.total_estimated < found.total_estimated < found.high
    assert found.high > 3 * once.total_estimated
    assert "5% of answers do not fit where an agent may be asked again" in str(found)
    assert "do not fit" not in str(once)


# --- against what a run uses ----------------------------------------------------------------------


async def measured(case: Case, backend: Any) -> float:
    """The average cost of one turn in a real run."""
    cost = 0.0
    async with case.expression.session(backend=backend, state=dict(case.state)) as chat:
        for _ in range(case.turns):
            result = await chat.send(QUESTION)
            for used in result.usage.values():
                cost += float(ONE.input) * used.input_tokens + float(ONE.output) * used.output_tokens
    return cost / case.turns / 1e6


def estimated(case: Case, **counting: Any) -> float:
    """The same, foreseen."""
    traffic = TrafficAssumptions(
        avg_input_tokens=len(QUESTION) / counting["characters_per_token"],
        avg_output_tokens=LONG,
        **{**counting, **case.traffic},
    )
    return estimate_cost(case.expression, traffic, prices=PRICES).per_invocation


CASES = cases("m") | helped("m")
USUAL = "x" * LONG * 4


@pytest.mark.parametrize("name", CASES)
async def test_an_estimate_is_near_what_a_run_uses(name: str) -> None:
    """For each pipeline, what is foreseen of tokens and calls is within 20 % of what the runner sends."""
    case = CASES[name]
    backend = mock_backend({"c:relevant": "1"}, default=USUAL)
    foreseen = estimated(case, **PLAIN)
    assert foreseen == pytest.approx(await measured(case, backend), rel=0.2)


# --- calls ----------------------------------------------------------------------------------------

a, b, c = agent("a"), agent("b"), agent("c")


@pytest.mark.parametrize(
    ("expression", "traffic", "expected"),
    [
        (a >> b, {}, {"a": 1, "b": 1}),
        (a | b, {}, {"a": 1, "b": 1}),
        (a * 3, {}, {"a": 3}),
        (Loop(a, max_iterations=5).until(lambda s: True), {}, {"a": 2}),
        (Loop(a, max_iterations=5).until(lambda s: True), {"loop_iterations": 2.5}, {"a": 2.5}),
        (Loop(a, max_iterations=2).named("again"), {"loop_iterations": {"again": 9}}, {"a": 2}),
        (map_over("items", a), {}, {"a": 3}),
        (map_over("items", a), {"map_items": {"items": 7}}, {"a": 7}),
        (a // b // c, {"fallback_rate": 0.1}, {"a": 1, "b": 0.1, "c": 0.01}),
        (race(a, b), {}, {"a": 1, "b": 1}),
        (Route("k").eq("x", a).eq("y", b).otherwise(c), {}, {"a": 0.333, "b": 0.333, "c": 0.333}),
        (
            Route("k").eq("x", a).eq("y", b).otherwise(c),
            {"branch_probabilities": {"x": 0.5, "c": 0.1}},
            {"a": 0.5, "b": 0.4, "c": 0.1},
        ),
        (Route("k").eq("x", a >> b), {"branch_probabilities": {"a": 0.25}}, {"a": 0.25, "b": 0.25}),
        (
            Route("k").eq(1, a).when(lambda s: True, b),
            {"branch_probabilities": {"b": 0.2}},
            {"a": 0.8, "b": 0.2},
        ),
        (a.timeout(5), {}, {"a": 1}),
        (a.proceed_if(lambda s: True), {}, {"a": 1}),
        (a.delegate(b, c), {}, {"a": 1, "b": 0.333, "c": 0.333}),
        (a.delegate(b, c), {"branch_probabilities": {"b": 0.5, "c": 0.25}}, {"a": 1, "b": 0.5, "c": 0.25}),
        (a >> transfer("c") >> b >> c, {}, {"a": 1, "c": 1}),
        (
            a >> transfer("c", condition=lambda s: True) >> b >> c,
            {"branch_probabilities": {"c": 0.25}},
            {"a": 1, "b": 0.75, "c": 1},
        ),
        (a.tool(len), {"tool_calls": 2}, {"a": 3}),
        (a, {"retries": 0.5}, {"a": 1.5}),
        (a >> a, {}, {"a": 1, "a_2": 1}),
        ((a >> b) * 2 >> c, {}, {"a": 2, "b": 2, "c": 1}),
    ],
    ids=repr,
)
def test_how_often_each_agent_is_asked(
    expression: Expr[Any], traffic: dict[str, Any], expected: dict[str, float]
) -> None:
    """Calls follow branches, rounds, items, fallbacks, delegates, transfers, tools and retries."""
    assert calls(expression, **traffic) == expected


# --- what each agent sees -------------------------------------------------------------------------


def test_history_grows_along_a_sequence() -> None:
    """Each agent reads what those before it answered; a context or other conversation branch cuts that."""
    grown = tokens(a >> b >> c, avg_output_tokens=1000, avg_input_tokens=0)
    assert 1000 < grown["b"] < 1200
    assert 2000 < grown["c"] < 2400
    cut = tokens(a >> b.context(C.none()) >> c.context(C.from_agents("b")), avg_output_tokens=1000)
    assert cut["b"] < 600
    assert 1500 < cut["c"] < 1800
    apart = tokens((a | b) >> c, avg_output_tokens=1000, avg_input_tokens=0)
    assert apart["a"] < 100 > apart["b"]
    assert apart["c"] > 2000


def test_a_branch_that_is_rarely_taken_is_rarely_read() -> None:
    """A step after a route pays for each branch's text by its probability; inside, a branch costs in full."""
    routed = Route("k").eq("x", a >> b).otherwise(S.set(y=1)) >> c
    found = tokens(routed, branch_probabilities={"x": 0.1}, avg_output_tokens=1000, avg_input_tokens=0)
    assert found["b"] / 0.1 > 1000
    assert 200 < found["c"] < 300


def test_state_values_count_where_they_are_read() -> None:
    """A key counts as the answer that was written to it, as the value that was set, or as was assumed."""
    written = tokens(a.writes("x") >> b.instruct("{x}").context(C.none()), avg_output_tokens=1000)
    plain = tokens(a.writes("x") >> b.instruct("").context(C.none()), avg_output_tokens=1000)
    assert written["b"] - plain["b"] == pytest.approx(1000, abs=10)
    known = tokens(S.set(x="y" * 400) >> a.reads("x"))["a"]
    unknown = tokens(a.reads("x"), key_tokens={"x": 900})["a"]
    assert unknown - known == pytest.approx(800, abs=2)


def test_turns_of_a_session_are_read_again() -> None:
    """In a session of several turns, what was said before is read again, as far as the context shows it."""
    once = tokens(a)["a"]
    assert tokens(a, turns_per_session=5)["a"] - once == pytest.approx(2 * 704, rel=0.05)
    assert tokens(a.context(C.none()), turns_per_session=5)["a"] == tokens(a.context(C.none()))["a"]
    window = a.context(C.window(2))
    assert tokens(window, turns_per_session=9)["a"] - tokens(window)["a"] == pytest.approx(704, rel=0.05)


def test_labels_and_limits_are_short_answers() -> None:
    """An answer that a route compares with labels is a label, and none is longer than its agent's limit."""
    labelled = a.writes("k") >> Route("k").eq("billing", b).otherwise(c.generate(max_output_tokens=30))
    found = estimate_cost(labelled, prices=PRICES)
    out = {one.agent: one.output_tokens / one.calls for one in found.agents}
    assert out["a"] < 5
    assert (out["b"], out["c"]) == (200, 30)
    said = TrafficAssumptions(output_tokens={"a": 77})
    assert estimate_cost(labelled, said, prices=PRICES).agents[0].output_tokens == 77


async def test_an_answer_that_arrives_in_chunks() -> None:
    """The next agent is asked once for each piece, and reads what was said before it each time."""
    first, second, last = agent("first"), agent("second"), agent("last")
    pipeline = first.writes("draft").stream_to(buffering="chunked", chunk_size=50) >> second >> last
    words = "A word and another one. "
    script = {"first": words * 40, "second": words * 8, "last": words * 40}
    traffic = TrafficAssumptions(
        avg_input_tokens=len(QUESTION) / 4, avg_output_tokens=240, characters_per_token=4
    )
    found = estimate_cost(pipeline, traffic, prices=PRICES)
    assert [(one.agent, one.calls) for one in found.agents] == [("first", 1), ("second", 5), ("last", 1)]
    assert "second: runs on 5 pieces, and says to all as much as in one answer" in found.assumptions
    used = (await pipeline.run(QUESTION, backend=mock_backend(script))).usage
    for one in found.agents:
        told = used[one.agent, "m"]
        assert one.input_tokens == pytest.approx(told.input_tokens, rel=0.2)
        assert one.output_tokens == pytest.approx(told.output_tokens, rel=0.2)


def test_only_what_a_model_reads_in_pieces_costs_more() -> None:
    """Chunks cost more only if a model reads them: a tap is free, and a whole answer is read once."""

    def show(piece: str) -> None:
        pass

    for edge in (a.stream_to("token"), a.stream_to("full"), a.stream_to("chunked", chunk_size=9999)):
        assert calls(edge >> tap(show) >> b) == {"a": 1, "b": 1}
        assert calls(edge >> b) == {"a": 1, "b": 1}


# --- money ----------------------------------------------------------------------------------------


def test_sums() -> None:
    """Agents and models add up to the day; low and high enclose it; equal where all was said."""
    found = estimate_cost(a >> agent("b", "dear"), TrafficAssumptions(invocations_per_day=10), prices=PRICES)
    assert found.total_estimated == pytest.approx(found.per_invocation * 10)
    assert sum(found.per_agent.values()) == pytest.approx(found.total_estimated)
    assert sum(found.per_model.values()) == pytest.approx(found.total_estimated)
    assert list(found.per_model) == ["m", "dear"]
    assert found.low == found.high == found.total_estimated
    first = found.agents[0]
    assert first.cost == pytest.approx((first.input_tokens + 4 * first.output_tokens) / 1e6)


def test_between_the_cheapest_and_the_dearest() -> None:
    """Probabilities that are not given vary from the cheapest way (`low`) to the dearest (`high`)."""
    routed = Route("k").eq("x", a).otherwise(agent("b", "dear"))
    cheap, dear = (estimate_cost(one, prices=PRICES).total_estimated for one in (a, agent("b", "dear")))
    found = estimate_cost(routed, prices=PRICES)
    assert (found.low, found.high) == (pytest.approx(cheap), pytest.approx(dear))
    assert found.low < found.total_estimated < found.high
    said = estimate_cost(routed, TrafficAssumptions(branch_probabilities={"x": 0.9}), prices=PRICES)
    assert said.low == pytest.approx(0.9 * cheap + 0.1 * dear) or said.low == said.total_estimated
    loop = Loop(a, max_iterations=5).until(lambda s: True)
    rounds = estimate_cost(loop, prices=PRICES)
    assert rounds.low < rounds.total_estimated < rounds.high
    maybe = estimate_cost(a // agent("b", "dear"), prices=PRICES)
    assert maybe.low == pytest.approx(cheap)


def test_long_requests_cost_their_tier() -> None:
    """A request above the limit of a price tier costs that tier's price."""
    short = TrafficAssumptions(avg_input_tokens=100_000, avg_output_tokens=0)
    long = TrafficAssumptions(avg_input_tokens=300_000, avg_output_tokens=0)
    pro = Agent("a", "gemini-2.5-pro")
    ratio = estimate_cost(pro, long).per_invocation / estimate_cost(pro, short).per_invocation
    assert ratio == pytest.approx(6, rel=0.01)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("cost_optimized", "m"), ("quality_optimized", "dear"), ("budget_bounded", "m"), ("adaptive", "m")],
)
def test_a_chosen_model_is_the_one_that_would_be_chosen(strategy: Any, expected: str) -> None:
    """An agent that selects costs what its strategy would take, at the candidates' own prices."""
    more: dict[str, Any] = {"quality_key": "q", "quality_threshold": 1} if strategy == "adaptive" else {}
    candidates = [ModelCandidate("dear", 0.01, 0.04, quality_tier=2), ModelCandidate("m", 0.001, 0.004)]
    chosen = Agent("a").model_select(strategy, candidates=candidates, budget_key="left", **more)
    found = estimate_cost(chosen.instruct("Do it."))
    assert list(found.per_model) == [expected]
    plain = estimate_cost(agent("a", expected), prices=PRICES)
    assert found.per_invocation == pytest.approx(plain.per_invocation)
    assert found.assumptions[-1] == "prices as of the candidates"
    if strategy == "adaptive":
        assert found.high == pytest.approx(10 * found.low)


def test_delegates_have_the_model_of_their_parent() -> None:
    """An agent without a model has the one above, or what chooses that one."""
    found = estimate_cost(agent("a", "dear").delegate(Agent("b")), prices=PRICES)
    assert list(found.per_model) == ["dear"]


def test_an_inner_model_object_is_priced_by_its_name() -> None:
    """A model object costs what its name costs, without ADK being asked."""
    from google.adk.models import Gemini

    found = estimate_cost(Agent("a", Gemini(model="gemini-2.5-flash")))
    assert list(found.per_model) == ["gemini-2.5-flash"]


# --- how it is shown ------------------------------------------------------------------------------


def test_a_table_to_read() -> None:
    """`str()` is a table with the sums, and each assumption in words, with the date of the prices."""
    routed = a.writes("k") >> Route("k").eq("x", b).otherwise(agent("c", "dear"))
    traffic = TrafficAssumptions(
        invocations_per_day=10_000, branch_probabilities={"x": 0.75}, turns_per_session=2, retries=0.1
    )
    text = str(estimate_cost(routed, traffic, prices=PRICES))
    lines = text.splitlines()
    assert lines[0].split() == ["agent", "model", "calls", "tokens", "in", "out", "per", "day"]
    assert [line.split()[:2] for line in lines[1:4]] == [["a", "m"], ["b", "m"], ["c", "dear"]]
    assert " per invocation; $" in text
    assert "between" not in text
    assert " a day, between $" in str(estimate_cost(routed, prices=PRICES))
    assert "- route: b 75%, c 25%" in text
    assert "- sessions of 2 turns, which see the turns before as far as contexts let them" in text
    assert "- 0.1 more attempts per model call" in text
    assert lines[-1] == "- prices as of given"


def test_assumptions_name_missing_numbers() -> None:
    """The assumptions name rounds, items, failures and agents without a count."""
    from adk_fluent import RemoteAgent

    looped = Loop(a, max_iterations=5).until(lambda s: True)
    remote = RemoteAgent("pay", endpoint="http://127.0.0.1:1")
    whole = looped >> map_over("items", b) >> (c // agent("d")) >> remote
    said = "\n".join(estimate_cost(whole, prices=PRICES).assumptions)
    assert "loop: 2 rounds" in said
    assert "map: 3 items" in said
    assert "fails in 5% of runs" in said
    assert "pay is served elsewhere" in said


def test_an_unknown_native_agent_is_named() -> None:
    """A class of the user's own may ask any model: the sums say that it is not in them."""
    from google.adk.agents import BaseAgent

    class Own(BaseAgent):
        """An agent written by hand."""

    said = "\n".join(estimate_cost(a >> Own(name="own"), prices=PRICES).assumptions)
    assert "own is a native agent whose models are unknown; its cost is not included" in said
    assert "served elsewhere" not in said


def test_additions_of_planners_and_code_executors_are_left_out() -> None:
    """Planners and code executors add text and requests; the estimate says that it leaves them out."""
    from google.adk.code_executors.unsafe_local_code_executor import UnsafeLocalCodeExecutor
    from google.adk.planners import PlanReActPlanner

    pipeline = a.planner(PlanReActPlanner()) >> b.code_executor(UnsafeLocalCodeExecutor())
    told = estimate_cost(pipeline, prices=PRICES).assumptions
    assert "a: the tokens of its planner are not included" in told
    assert "b: the tokens of its code executor are not included" in told


def test_effects_of_middleware_are_left_out() -> None:
    """The assumptions say that caches, retries and model changes of middleware are not in the sums."""
    found = estimate_cost((a.middleware(retry()) >> b).middleware(cache()), prices=PRICES)
    assert "the effect of middleware (Cache, Retry) is not included" in found.assumptions
    assert "middleware" not in str(estimate_cost(a, prices=PRICES))


def test_json_and_html() -> None:
    """JSON has all the numbers; a notebook shows a table, escaped."""
    found = estimate_cost(a >> b, prices=PRICES)
    data = json.loads(found.to_json())
    assert data == json.loads(json.dumps(found.to_dict()))
    assert data["version"] == 1
    assert data["total_estimated"] == found.total_estimated
    assert [one["agent"] for one in data["agents"]] == ["a", "b"]
    page = found._repr_html_()  # pyright: ignore[reportPrivateUsage]  # what notebooks call
    assert "<table" in page
    assert "prices as of" in page


# --- agents in tools, and helper models -----------------------------------------------------------

expert = agent("expert")
boss = agent("boss").tools(T.agent(expert))


@pytest.mark.parametrize(
    ("expression", "traffic", "expected"),
    [
        (boss, {}, {"boss": 2, "expert": 1}),
        (boss, {"tool_calls": 3}, {"boss": 4, "expert": 3}),
        (boss, {"tool_calls": 0}, {"boss": 1}),
        (boss.tool(len), {}, {"boss": 2, "expert": 0.5}),
        (boss.tool(len), {"branch_probabilities": {"expert": 0.9}}, {"boss": 2, "expert": 0.9}),
        (agent("boss").tools(T.agent(expert) | T.fn(len)), {}, {"boss": 2, "expert": 0.5}),
        (agent("boss").tools(T.confirm(T.agent((expert * 2).named("twice")))), {}, {"boss": 2, "expert": 2}),
        (agent("top").tools(T.agent(boss)) * 2, {}, {"top": 4, "boss": 4, "expert": 2}),
        (a >> boss >> b, {}, {"a": 1, "boss": 2, "expert": 1, "b": 1}),
        (Route("k").eq("x", boss), {"branch_probabilities": {"x": 0.2}}, {"boss": 0.4, "expert": 0.2}),
        (a >> b.context(C.summarize()), {}, {"a": 1, "b": 2}),
        (a >> b.context(C.summarize()), {"retries": 1}, {"a": 2, "b": 4}),
        (b.context(C.summarize()), {}, {"b": 1}),
        (a >> b.context(C.relevant()), {}, {"a": 1, "b": 1}),
        (a >> b.context(C.relevant(scorer=lambda one, other: 1.0, top_k=1)), {}, {"a": 1, "b": 1}),
        (a >> b.context(C.none()), {}, {"a": 1, "b": 1}),
        (a >> b.context(C.rolling(2, summarize=True)), {}, {"a": 1, "b": 1}),
        (a >> b.context(C.when("k", C.summarize())), {}, {"a": 1, "b": 2}),
        (a >> b.context(C.budget(5_000, "summarize")), {}, {"a": 1, "b": 1}),
        (a >> b.context(C.manus_cascade(budget=50)), {}, {"a": 1, "b": 2}),
        (a.instruct(P.task("Do {k}") | P.compress(max_tokens=9_000)), {}, {"a": 1}),
        (a.instruct(P.task("Do {k}") | P.compress(max_tokens=9)), {}, {"a": 2}),
        (a.instruct(P.when("x", P.task("Do it") | P.adapt(audience="all"))), {}, {"a": 1}),
    ],
)  # fmt: skip
def test_agents_in_tools_and_helper_models_count(
    expression: Expr[Any], traffic: dict[str, Any], expected: dict[str, float]
) -> None:
    """Agents in tools share their caller's calls; a helper model is asked once per answer."""
    assert calls(expression, **traffic) == {name: round(n, 3) for name, n in expected.items()}


async def test_a_run_with_an_agent_in_a_tool_makes_these_calls() -> None:
    """Each agent is asked as often as foreseen, and the run says what each cost, that in the tool, too."""
    backend = mock_backend({"boss": [call_tool("expert", request="x"), "done"], "expert": "yes"})
    register_price("m", ONE)
    try:
        result = await boss.run("hi", backend=backend)
        assert {agent: used.calls for (agent, _), used in result.usage.items()} == calls(boss)
        assert all(model == "m" and used.cost for (_, model), used in result.usage.items())
    finally:
        unregister_price("m")


def test_an_agent_in_a_tool_reads_the_request_alone() -> None:
    """An agent in a tool has its caller's model and reads the request alone; its answer is the result."""
    long = agent("boss", "dear").tools(T.agent(Agent("expert").instruct("Do it.")))
    told = tokens(a >> long, output_tokens={"expert": 1_000, "a": 5_000})
    assert told["expert"] < 100
    assert told["boss"] - tokens(a >> long, output_tokens={"expert": 0, "a": 5_000})["boss"] == 1_000
    assert estimate_cost(long, prices=PRICES).per_model.keys() == {"dear"}
    chosen = Agent("boss").model_select("cost_optimized", candidates=[ModelCandidate("m", 1, 1)])
    found = estimate_cost(chosen.tools(T.agent(Agent("expert"))))
    assert [(one.agent, one.model) for one in found.agents] == [("boss", "m"), ("expert", "m")]


def test_native_agents_in_tools() -> None:
    """One that was built of an expression counts; the cost of a handwritten one is not included."""
    from google.adk.agents.llm_agent import LlmAgent
    from google.adk.tools.agent_tool import AgentTool

    native = AgentTool(LlmAgent(name="native", model="m"))
    found = estimate_cost(agent("boss").tool(AgentTool(expert.build())).tool(native), prices=PRICES)
    assert {one.agent: one.calls for one in found.agents} == {"boss": 2, "expert": 0.5}
    assert (
        "boss: the cost of native, a native agent in one of its tools, is not included" in found.assumptions
    )


def test_unknown_tool_calls_widen_the_range() -> None:
    """The cheapest day calls no tool, the dearest calls it twice; said calls are the same in both."""
    found = estimate_cost(boss, prices=PRICES)
    assert found.low < found.total_estimated < found.high
    sure = estimate_cost(boss, TrafficAssumptions(tool_calls=1), prices=PRICES)
    assert sure.low == sure.high
    assert "boss: of its calls of tools, expert 100%" in sure.assumptions


def test_a_helper_model_has_its_own_price() -> None:
    """A helper model's requests cost its own price; a model without a price is named."""
    found = estimate_cost(a >> b.context(C.summarize(model="dear")), prices=PRICES)
    assert found.per_model["dear"] > found.per_model["m"]
    assert "b: C.summarize asks dear once for each of its answers, and gets 200 tokens" in found.assumptions
    with pytest.raises(ArgumentError, match=r"^Agent 'b': the price of model 'house' is unknown"):
        estimate_cost(a >> b.context(C.distill(into="facts", model="house")), prices=PRICES)


def test_uncounted_helper_requests_are_named() -> None:
    """A prompt that never changes is rewritten once, and embeddings have no price per answer."""
    fixed = a.instruct(P.task("Do it.") | P.adapt(audience="all"))
    found = estimate_cost(fixed >> b >> c.context(C.relevant(scorer="embedder", top_k=1)), prices=PRICES)
    said = "\n".join(found.assumptions)
    assert "a: P.adapt asks once for all runs of a process; the cost is not included" in said
    assert "c: C.relevant asks an embedding model; its cost is not included" in said


# --- what is no estimate --------------------------------------------------------------------------

routed = a.writes("k") >> Route("k").eq("x", b).otherwise(c)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrafficAssumptions(invocations_per_day=-1), "per_day= takes a number from 0 up, not -1"),
        (lambda: TrafficAssumptions(avg_input_tokens="many"), "avg_input_tokens= takes a number, not 'many'"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: TrafficAssumptions(avg_input_tokens=float("nan")), "takes a number, not nan"),
        (lambda: TrafficAssumptions(fallback_rate=2), "fallback_rate= takes a number from 0 to 1, not 2"),
        (lambda: TrafficAssumptions(branch_probabilities={"x": 1.5}), "={'x': …} takes a number from 0 to 1"),
        (lambda: TrafficAssumptions(branch_probabilities=0.5), "branch_probabilities= takes numbers by name"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: TrafficAssumptions(turns_per_session=0), "turns_per_session= takes a number from 1 up"),
        (lambda: calls(routed, branch_probabilities={"y": 1}), "names 'y', and there is no such"),
        (lambda: calls(routed, branch_probabilities={"nobody": 1}), "no such branch. There is b, c, x."),
        (lambda: calls(agent("writer") * 2, output_tokens={"wirter": 1}), "Did you mean 'writer'?"),
        (lambda: calls(routed, loop_iterations={"loop": 1}), "no such loop. There is none."),
        (lambda: calls(routed, branch_probabilities={"x": 0.7, "c": 0.7}), "add up to 1.4, not 1: b 0.7"),
        (lambda: calls(routed, branch_probabilities={"x": 0.2, "c": 0.2}), "add up to 0.4, not 1"),
        (lambda: estimate_cost(agent("a", "house")), "the price of model 'house' is unknown. Give it"),
        (lambda: estimate_cost(Agent("a") >> b), "Agent 'a' has no model, so its cost is unknown."),
        (lambda: estimate_cost(a, {"invocations_per_day": 1}), "takes TrafficAssumptions(…), not dict"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: estimate_cost("a"), "This takes an expression"),
    ],
)  # fmt: skip
def test_wrong_arguments_of_estimates_are_refused(make: Callable[[], object], message: str) -> None:
    """Wrong numbers, unknown names and prices, probabilities that do not add up: one line says which."""
    with pytest.raises(ArgumentError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_candidates_without_a_match_are_refused() -> None:
    """Candidates that cannot be satisfied are refused, naming the agent."""
    chosen = Agent("a").model_select("cost_optimized", candidates=[ModelCandidate("m", 1, 1, max_tokens=100)])
    with pytest.raises(ModelError, match=r"^Agent 'a' has no model .*'m': it may get 100 tokens"):
        estimate_cost(chosen)


def test_without_the_extra_given_prices_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without genai-prices, what needs it says what to install; what gives its prices needs nothing."""
    from adk_fluent.cost import prices

    prices._data.cache_clear()  # pyright: ignore[reportPrivateUsage]  # as in a new process
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'genai-prices>=0.2'"):
        estimate_cost(agent("a", "gemini-2.5-flash"))
    assert estimate_cost(a, prices=PRICES).per_invocation > 0
    chosen = Agent("a").model_select("cost_optimized", candidates=[ModelCandidate("gemini-2.5-flash", 1, 1)])
    assert estimate_cost(chosen).per_invocation > 0


def test_estimates_need_no_adk() -> None:
    """Estimating imports neither google.adk nor google.genai."""
    code = (
        "import sys\n"
        "from adk_fluent import Agent\n"
        "from adk_fluent.cost import estimate_cost\n"
        "print(estimate_cost(Agent('a', 'gemini-2.5-flash').tool(len) >> Agent('b', 'gemini-2.5-pro')))\n"
        "assert 'google.adk' not in sys.modules and 'google.genai' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=LIMIT).returncode == 0


def test_the_sample_of_the_specification() -> None:
    """A built pipeline can be estimated as well; the sum prints as money."""
    route = Route("intent")
    for name in ("billing", "technical", "general"):
        route = route.eq(name, Agent(name, "gemini-2.5-flash"))
    pipeline = Agent("classifier", "gemini-2.5-flash").writes("intent") >> route
    model = estimate_cost(
        pipeline.build(),
        TrafficAssumptions(
            invocations_per_day=10_000,
            avg_input_tokens=500,
            avg_output_tokens=200,
            branch_probabilities={"billing": 0.6, "technical": 0.3, "general": 0.1},
        ),
    )
    assert f"Estimated daily cost: ${model.total_estimated:.2f}".startswith("Estimated daily cost: $")
    assert {one.agent: round(one.calls, 3) for one in model.agents}["billing"] == 0.6
