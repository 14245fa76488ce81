"""Run each function of `adk_fluent.patterns`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pytest
from pydantic import BaseModel

from adk_fluent import Agent, C, S, StateSchema, T, patterns, until
from adk_fluent.adopt import to_source
from adk_fluent.contracts import check_all
from adk_fluent.errors import ADKFluentError, AnswerError, ArgumentError
from adk_fluent.expr.base import Expr
from adk_fluent.patterns import (
    cascade,
    chain,
    conditional,
    debate,
    fan_out_merge,
    map_reduce,
    review_loop,
    supervised,
)
from adk_fluent.testing import call_tool, mock_backend

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest


class Review(StateSchema):
    score: float
    remarks: str


class Verdict(BaseModel):
    sure: bool


async def test_a_review_ends_when_the_score_is_reached() -> None:
    """The loop stops early, with the draft that reached the score, and the writer saw the remarks before."""
    pipeline = review_loop(
        worker=Agent("writer").instruct("Write a draft.").writes("draft"),
        reviewer=Agent("reviewer").instruct("Review the draft."),
        quality_key="review_score",
        target=0.8,
        max_rounds=3,
    )
    backend = mock_backend(
        {"writer": ["one", "two", "three"], "reviewer": ["0.5", "0.8", "1"]}, exhaust="error"
    )
    result = await pipeline.run("Go", backend=backend)
    assert result.state == {"draft": "two", "review_score": "0.8"}
    assert "0.5" in str(backend.calls["writer"][1].contents)
    assert pipeline.check().ok


async def test_a_review_ends_after_its_rounds() -> None:
    """A score that is never reached costs `max_rounds` rounds."""
    pipeline = review_loop(Agent("w"), Agent("r"), "score", 0.9, max_rounds=2)
    backend = mock_backend({"w": "draft", "r": "0.1"})
    await pipeline.run("Go", backend=backend)
    assert len(backend.calls["w"]) == len(backend.calls["r"]) == 2


async def test_a_reviewer_may_write_more_than_the_score() -> None:
    """A reviewer that writes the score among other fields is not changed."""
    reviewer = Agent("r").writes(Review.score, Review.remarks)
    pipeline = review_loop(Agent("w"), reviewer, "score", 1)
    backend = mock_backend({"w": "draft", "r": {"score": 1.0, "remarks": "fine"}})
    assert (await pipeline.run("Go", backend=backend)).state == {"score": 1.0, "remarks": "fine"}


async def test_a_supervisor_sends_back() -> None:
    """The worker runs again until the verdict approves."""
    boss = Agent("boss").writes("verdict")
    pipeline = supervised(Agent("clerk").writes("letter"), boss, lambda state: state["verdict"] == "yes")
    backend = mock_backend({"clerk": ["a", "b", "c"], "boss": ["no", "yes", "no"]})
    assert (await pipeline.run("Go", backend=backend)).state == {"letter": "b", "verdict": "yes"}


async def test_a_debate_goes_in_turn_and_the_judge_hears_it_all() -> None:
    """Each debater speaks once a round and sees the other texts; the judge's answer is the result."""
    talk = debate(Agent("pro"), Agent("con"), judge=Agent("judge"), rounds=2)
    backend = mock_backend({"pro": ["p1", "p2"], "con": ["c1", "c2"], "judge": "pro wins"}, exhaust="error")
    result = await talk.run("Tea or coffee?", backend=backend)
    assert result.text == "pro wins"
    assert all(said in str(backend.calls["judge"][0].contents) for said in ("p1", "c1", "p2", "c2"))
    assert "c1" in str(backend.calls["pro"][1].contents)


async def test_a_cascade_stops_at_the_first_accepted_answer() -> None:
    """The agents after the accepted one are not asked, and a rejected text is not the answer."""
    asked = cascade(Agent("s"), Agent("m"), Agent("l"), accept=lambda text: text.startswith("It is"))
    backend = mock_backend({"s": "Perhaps.", "m": "It is 42.", "l": "never"})
    result = await asked.run("?", backend=backend)
    assert (result.text, [*backend.calls]) == ("It is 42.", ["s", "m"])
    assert result.state == {"cascade_answer": "It is 42."}
    assert asked.check().ok


async def test_the_last_of_a_cascade_is_not_judged() -> None:
    """If no answer is accepted, the last one counts; after an agent that fails, the next one is asked."""
    asked = cascade(Agent("s"), Agent("m").writes("mine"), Agent("l"), accept=lambda text: False)
    backend = mock_backend({"s": RuntimeError("down"), "m": "no", "l": "at last"})
    result = await asked.run("?", backend=backend)
    assert (result.text, result.state) == ("at last", {"mine": "no"})


async def test_a_cascade_judges_a_structured_answer_by_its_json() -> None:
    """`accept` receives text, also for a structured answer."""
    seen: list[str] = []

    def accept(text: str) -> bool:
        seen.append(text)
        return "true" in text

    asked = cascade(Agent("s") @ Verdict, Agent("l") @ Verdict, accept=accept)
    backend = mock_backend({"s": {"sure": True}, "l": {"sure": False}})
    assert (await asked.run("?", backend=backend)).output == Verdict(sure=True)
    assert seen == ['{"sure": true}']


async def test_one_of_two() -> None:
    """`conditional` runs one expression and not the other."""
    door = conditional(lambda state: state.get("vip", False), Agent("butler"), Agent("clerk"))
    for state, who in (({"vip": True}, "butler"), ({}, "clerk")):
        backend = mock_backend({"butler": "Sir?", "clerk": "Next!"})
        await door.run("Hi", state=state, backend=backend)
        assert [*backend.calls] == [who]


async def test_answers_merge_in_order() -> None:
    """A fan-out stores each answer under a key, and the merged one under `into`; a function may merge."""
    agents = (Agent("a"), Agent("b").writes("kept"), Agent("c").writes("x") >> Agent("d").writes("last"))
    backend = mock_backend({"a": "1", "b": "2", "c": "3", "d": "4"})
    result = await fan_out_merge(*agents, into="all").run("Go", backend=backend)
    assert result.state == {"a": "1", "kept": "2", "x": "3", "last": "4", "all": "1\n2\n4"}
    longest = fan_out_merge(*agents, into="all", merge=lambda *answers: max(answers))
    assert (await longest.run("Go", backend=backend)).state["all"] == "4"


def told_item(request: LlmRequest) -> str:
    """Answer with the name of the item in the request."""
    return f"graded {'p1' if 'Grade p1' in str(request.config) else 'p2'}"


async def test_a_map_is_reduced_by_an_agent_or_a_function() -> None:
    """A reducing agent receives the answers in order and stores its own; a function receives the list."""
    mapper = Agent("grade").instruct("Grade {_item}.")
    backend = mock_backend({"grade": told_item, "sum": "B"})
    state = {"papers": ["p1", "p2"]}
    told = map_reduce(mapper, Agent("sum").instruct("Sum up."), "papers", into="grade")
    result = await told.run("Go", state=state, backend=backend)
    assert result.state["grade"] == "B"
    assert '["graded p1", "graded p2"]' in str(backend.calls["sum"][0].config)
    assert check_all(told, state=state).ok
    counted = map_reduce(mapper, lambda answers: len(answers), "papers", into="n")
    assert (await counted.run("Go", state=state, backend=backend)).state["n"] == 2
    assert check_all(counted, state=state).ok


async def test_a_reducer_that_reads_the_answers_is_left_as_it_is() -> None:
    """A placeholder or a context of the reducer decides how it receives the answers."""
    reducer = Agent("sum").instruct("Sum up {results}.").writes("total")
    assert map_reduce(Agent("m"), reducer, "items", into="total").node.children[-1] == reducer.node


def test_a_chain_is_a_pipeline() -> None:
    """`chain` joins agents of a list like `>>`."""
    steps = [Agent("a"), Agent("b"), Agent("c")]
    assert chain(*steps).node == (steps[0] >> steps[1] >> steps[2]).node


shapes: Any = patterns  # what a caller without a type checker does
A, B = Agent("a"), Agent("b")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: shapes.cascade(A, accept=len), "takes 2 or more agents, not 1"),
        (
            lambda: shapes.cascade(A, B, accept=True),
            "takes a function text -> bool, not bool True",
        ),
        (
            lambda: shapes.cascade(A >> B, Agent("c"), accept=bool),
            "because each has one answer",
        ),
        (lambda: shapes.debate(A, judge=B), "takes 2 or more agents, not 1"),
        (
            lambda: shapes.debate(A, B, judge="me"),
            "takes an agent or another expression, not str",
        ),
        (lambda: shapes.chain(), "takes 1 or more agents, not 0"),
        (lambda: shapes.chain("a"), "not str 'a'"),
        (
            lambda: shapes.review_loop(Agent("w"), Agent("r").writes("note"), "score", 1),
            "writes 'note', not 'score'",
        ),
        (lambda: shapes.review_loop(Agent("w"), S.identity(), "score", 1), "writes nothing, not 'score'"),
        (lambda: shapes.review_loop(Agent("w"), Agent("r"), "score", "high"), "takes a number, not 'high'"),
        (lambda: shapes.review_loop(Agent("w"), Agent("r"), "", 1), "quality_key"),
        (
            lambda: shapes.fan_out_merge(A, B.writes("a"), into="x"),
            "two branches write 'a'",
        ),
        (lambda: shapes.fan_out_merge(A, S.identity(), into="x"), "writes nothing"),
        (
            lambda: shapes.map_reduce(A, 3, "items", into="x"),
            "an agent or a function as its reducer, not int",
        ),
        (
            lambda: shapes.map_reduce(A, B.writes("y"), "items", into="x"),
            "writes 'y', not 'x'",
        ),
        (lambda: shapes.conditional(len, A, None), "not NoneType None"),
        (lambda: shapes.supervised(A, B, "yes"), "yes"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make: Callable[[], object], says: str) -> None:
    """The error is one line that names the function and the argument."""
    with pytest.raises(ADKFluentError) as error:
        make()
    assert says in str(error.value)
    assert "\n" not in str(error.value)


Wrap = Callable[[Expr[Any]], Expr[Any]]
WRAPS: Final[dict[str, Wrap]] = {
    "sequence": lambda shape: Agent("first") >> shape >> Agent("last"),
    "beside": lambda shape: shape | Agent("beside"),
    "again": lambda shape: shape * 2,
    "fallback": lambda shape: shape // Agent("instead"),
    "timeout": lambda shape: shape.timeout(60),
    "until": lambda shape: (shape >> S.set(done=True)) * until(lambda state: state.get("done", False)),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
async def test_a_cascade_works_inside_others(wrap: Wrap) -> None:
    """Inside any composite, the rejected answers are dropped and the accepted one counts."""
    shape = cascade(Agent("s"), Agent("l").context(C.user_only()), accept=lambda text: text == "yes")
    backend = mock_backend({"s": "no", "l": "well"}, default="ok")
    result = await wrap(shape).run("?", backend=backend)
    assert "l" in backend.calls
    assert "no" not in [event.content for event in result.visible]


def test_arguments_of_the_wrong_kind_are_argument_errors() -> None:
    """Wrong arguments are errors of the caller."""
    with pytest.raises(ArgumentError):
        chain(3)  # pyright: ignore[reportArgumentType]  # the point of the test


def test_functions_that_nothing_would_await_are_refused() -> None:
    """An async `accept` or reducer is refused by name: its coroutine would count as true."""

    async def later(value: Any) -> bool:
        return False

    with pytest.raises(ArgumentError, match=r"^cascade\(accept=\) takes a plain function"):
        cascade(Agent("a"), Agent("b"), accept=later)  # pyright: ignore[reportArgumentType]  # what is refused
    with pytest.raises(ArgumentError, match=r"^map_reduce\(reducer=\) takes a plain function"):
        map_reduce(Agent("a"), later, "items", into="result")


# --- what is the answer -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["review_loop", "supervised"])
async def test_the_answer_is_the_work_and_not_the_verdict(shape: str) -> None:
    """`ask`, the visible text and a tool return the last answer of the worker; a typed answer stays typed."""

    def shaped(worker: Expr[Any], judge: Agent[str]) -> Expr[Any]:
        if shape == "review_loop":
            return review_loop(worker, judge, "score", 0.8)
        return supervised(worker, judge.writes("score"), lambda state: state["score"] == "0.9")

    said: dict[str, Any] = {"w": ["one", "two", "three"], "r": ["0.1", "0.9"], "e": "edited"}
    work = shaped(Agent("w"), Agent("r"))
    run = await work.run("Go", backend=mock_backend(said))
    assert (run.text, [event.content for event in run.visible]) == ("two", ["one", "two"])
    typed = shaped(Agent("w") @ Verdict, Agent("r"))
    given = {"w": {"sure": True}, "r": "0.9"}
    assert await typed.ask_async("Go", backend=mock_backend(given)) == Verdict(sure=True)
    with pytest.raises(AnswerError, match="'w' gave no answer: its answer was empty"):
        await typed.ask_async("Go", backend=mock_backend({**given, "w": ""}))
    later = await (work >> Agent("e")).run("Go", backend=mock_backend(said))
    assert [event.content for event in later.visible] == ["edited"]
    tool = Agent("boss").tool(T.agent(work.named("work")))
    calls = {**said, "boss": [call_tool("work", request="x"), "done"]}
    inner = await tool.run("Go", backend=mock_backend(calls))
    assert [answer.result for event in inner.by("boss") for answer in event.tool_responses] == [
        {"result": "two"}
    ]
    assert work.check().ok
    assert "aside=True" in to_source(shaped(Agent("w"), Agent("r"))) or shape == "supervised"


async def test_a_verdict_that_is_shown_is_the_answer() -> None:
    """A reviewer with `.show()` gives the answer."""
    work = review_loop(Agent("w"), Agent("r").show(), "score", 0.8)
    assert await work.ask_async("Go", backend=mock_backend({"w": "one", "r": "0.9"})) == "0.9"


def as_list(*answers: str) -> list[str]:
    """Return the answers as a list."""
    return list(answers)


async def test_the_answer_of_a_merge_is_what_was_merged() -> None:
    """`ask` returns all answers; an agent after it gives the answer, and sees each of them once."""
    views = fan_out_merge(Agent("a"), Agent("b"), into="all")
    said: dict[str, Any] = {"a": "1", "b": "2", "c": "3"}
    run = await views.run("Go", backend=mock_backend(said))
    assert (run.text, [event.content for event in run.visible]) == ("1\n2", ["1\n2"])
    listed = fan_out_merge(Agent("a"), Agent("b"), into="all", merge=as_list)
    assert await listed.ask_async("Go", backend=mock_backend(said)) == '["1","2"]'
    backend = mock_backend({**said, "boss": [call_tool("views", request="x"), "done"]})
    assert await (views >> Agent("c")).ask_async("Go", backend=backend) == "3"
    assert "1\n2" not in str(backend.calls["c"][0].contents)
    inner = await Agent("boss").tool(T.agent(views.named("views"))).run("Go", backend=backend)
    assert [answer.result for event in inner.by("boss") for answer in event.tool_responses] == [
        {"result": "1\n2"}
    ]
    assert not views.check().warnings
