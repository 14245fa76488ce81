"""What every backend keeps, run over every backend there is; `every_backend` says how to add one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, S, gate
from adk_fluent.backends import (
    AgentEvent,
    Backend,
    SessionBackend,
)
from adk_fluent.backends.adk.running.runner import fresh_services
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import (
    AnswerError,
    ArgumentError,
    ContractError,
    DuplicateNameError,
    EventLoopError,
    RunError,
    SessionError,
)
from adk_fluent.expr.base import Expr
from tests.backends.every_backend import BACKENDS, BLOCKED, CANNOT, NEWEST, Says, Stage, read
from tests.backends.support import said

A, B = Agent("a"), Agent("b")
ASK = gate(lambda state: True, message="Send it?")


class Size(BaseModel):
    size: int


EVERY = [pytest.param(kind, marks=[pytest.mark.newest] * (kind in NEWEST)) for kind in BACKENDS]


@pytest.fixture(params=EVERY)
def stage(request: pytest.FixtureRequest) -> Stage:
    """Every backend in turn."""
    if request.param == "temporal":
        request.getfixturevalue("workers")
    return Stage(request.param)


# --- every backend, every terminal ----------------------------------------------------------------


TWO: Says = {"a": "one", "b": "two"}


async def test_run_gives_events_and_their_answer(stage: Stage) -> None:
    """`run` gives every event in order; `.text` and `.output` are what was said to the user."""
    expression, on = stage(A >> B, TWO)
    with stage.may("run"):
        result = await expression.run("hi", **on)
        assert said(result) == [("a", "one"), ("b", "two")]
        assert (result.text, result.output, result.pending) == ("two", "two", [])
        assert [event.content for event in result.by("a")] == ["one"]


async def test_events_are_for_whom_the_expression_says(stage: Stage) -> None:
    """Agents before the last are internal, unless `.show()` says otherwise; `.visible` leaves them out."""
    with stage.may("run"):
        for expression, seen_by_user in (
            (A >> B, ["two"]),
            (A.show() >> B, ["one", "two"]),
            (A >> B.hide(), []),
        ):
            runs, on = stage(expression, TWO)
            result = await runs.run("hi", **on)
            assert [event.content for event in result.visible if event.content] == seen_by_user


async def test_what_is_filtered_leaves_no_words(stage: Stage) -> None:
    """Under `.filtered()` the words of internal agents reach the caller of neither `run` nor `stream`."""
    expression, on = stage((A >> B).filtered(), TWO)
    with stage.may("run"):
        result = await expression.run("hi", **on)
        assert (said(result), result.text) == ([("b", "two")], "two")
    with stage.may("stream"):
        assert said([event async for event in expression.stream("hi", **on)]) == [("b", "two")]


STEPS = S.set(x=1, y=2) >> A.writes("said") >> S.drop("y", "z") >> B


async def test_the_state_is_what_was_given_and_written(stage: Stage) -> None:
    """`.state` is the state given with everything written in order: what is dropped is gone, `temp:` too."""
    given = {"z": [1], "kept": [2], "user:name": "Ann", "app:n": 3, "temp:t": 4, "none": None}
    expression, on = stage(STEPS >> S.set(x=5), TWO)
    with stage.may("run"):
        result = await expression.run("hi", state=given, **on)
        assert result.state == {"x": 5, "said": "one", "kept": [2], "user:name": "Ann", "app:n": 3}
        result.state["kept"].append(3)
        assert given["kept"] == [2]


async def test_usage_is_by_agent_and_model(stage: Stage) -> None:
    """`.usage` sums what the events of each agent report, of every place where it is used."""
    expression, on = stage(A >> B >> A, TWO)
    with stage.may("run"):
        result = await expression.run("hi", **on)
        used = {key: (usage.calls, usage.total_tokens) for key, usage in result.usage.items()}
        assert used == {("a", "plain"): (2, 10), ("b", "plain"): (1, 5)}


async def test_a_stream_gives_the_same_events(stage: Stage) -> None:
    """`stream` gives the events of `run`, marked with who should see them."""
    expression, on = stage(A >> B, TWO)
    with stage.may("stream"):
        async with aclosing(expression.stream("hi", **on)) as stream:
            events = [event async for event in stream if not event.is_partial]
        assert [(e.author, e.content, e.visibility) for e in events] == [
            ("a", "one", "internal"),
            ("b", "two", "user"),
        ]


async def test_a_stream_can_be_closed_early(stage: Stage) -> None:
    """Who stops reading a stream ends it: no later agent is asked."""
    asked: list[str] = []
    expression, on = stage(A >> B, {"a": "one", "b": lambda heard: str(asked.append(heard))})
    with stage.may("stream"):
        async with aclosing(expression.stream("hi", **on)) as stream:
            async for event in stream:
                assert event.author == "a"
                break
    assert asked == []


def test_ask_waits_for_the_answer(stage: Stage) -> None:
    """`ask` gives the text, and inside an event loop says what to write instead."""
    expression, on = stage(A >> B, TWO)
    with stage.may("ask"):
        assert [expression.ask("hi", **on), expression.ask("hi", **on)] == ["two", "two"]


async def test_ask_in_an_event_loop_is_refused(stage: Stage) -> None:
    """On no backend does `ask` wait where it would never get an answer."""
    expression, on = stage(A, TWO)
    with pytest.raises(EventLoopError, match="ask_async"):
        expression.ask("hi", **on)


async def test_a_typed_answer_is_parsed(stage: Stage) -> None:
    """`ask_async`, `.output` and `map` give the type that the answering agent returns."""
    expression, on = stage(A >> B @ Size, {"a": "one", "b": '{"size": 3}'})
    with stage.may("ask"):
        assert await expression.ask_async("hi", **on) == Size(size=3)
    with stage.may("run"):
        assert (await expression.run("hi", **on)).output == Size(size=3)
    with stage.may("map"):
        assert await expression.map(["x", "y"], **on) == [Size(size=3)] * 2


@pytest.mark.parametrize(
    ("answer", "reason"), [("no idea", "'b' .*JSON"), ("", "'b' gave no answer: .*(empty|nothing)")]
)
async def test_what_is_no_typed_answer_is_refused(stage: Stage, answer: str, reason: str) -> None:
    """An answer of the wrong shape, or none, is an `AnswerError` that names the agent."""
    expression, on = stage(A >> B @ Size, {"a": "one", "b": answer})
    with stage.may("ask"), pytest.raises(AnswerError, match=reason):
        await expression.ask_async("hi", **on)


async def test_map_keeps_the_order(stage: Stage) -> None:
    """`map` gives one answer per prompt, in the order of the prompts, each in a session of its own."""
    expression, on = stage(A, {"a": lambda heard: f"<{heard}>"})
    with stage.may("map"):
        assert await expression.map(["x", "y", "z"], concurrency=2, **on) == ["<x>", "<y>", "<z>"]


async def test_an_error_reaches_the_caller(stage: Stage) -> None:
    """What a model raises, `run`, `stream`, `ask_async`, `map` and `send` raise, or name as the cause."""
    expression, on = stage(A >> B, {"a": ConnectionError("cut off"), "b": "two"})

    async def send() -> None:
        async with expression.session(**on) as chat:
            await chat.send("hi")

    calls: Mapping[str, Callable[[], Any]] = {
        "run": lambda: expression.run("hi", **on),
        "stream": lambda: read(expression.stream("hi", **on)),
        "ask": lambda: expression.ask_async("hi", **on),
        "map": lambda: expression.map(["hi"], **on),
        "session": send,
    }
    for asked, call in calls.items():
        with stage.may(asked), pytest.raises((ConnectionError, RunError), match="cut off"):
            await call()


def _reading(expression: Expr[Any]) -> Callable[..., Any]:
    async def reads(prompt: Any, **options: Any) -> list[AgentEvent]:
        return await read(expression.stream(prompt, **options))

    return reads


async def test_an_error_event_that_nothing_catches_is_raised(stage: Stage) -> None:
    """An event that reports a failure raises `RunError`, which names the agent and has the run so far."""
    expression, on = stage(A >> B, {"a": "one", "b": BLOCKED})
    with stage.may("run"):
        with pytest.raises(RunError, match=r"'b' gave no answer but an error: .*SAFETY") as caught:
            await expression.run("hi", **on)
        assert caught.value.result is not None
        assert said(caught.value.result.by("a")) == [("a", "one")]
    with stage.may("stream"), pytest.raises(RunError, match="'b' gave no answer"):
        await read(expression.stream("hi", **on))


@pytest.mark.parametrize("prompt", ["", [], None, 3, b"bytes", ["ok", 3], types.Content(role="user")])
async def test_a_wrong_prompt_is_refused(stage: Stage, prompt: Any) -> None:
    """What no message can hold is an `ArgumentError` on every backend, before anything runs."""
    asked: list[str] = []
    expression, on = stage(A, {"a": lambda heard: str(asked.append(heard))})
    for call in (expression.run, expression.ask_async, _reading(expression)):
        with pytest.raises(ArgumentError, match=r"^(The prompt is empty|A prompt is text)"):
            await call(prompt, **on)
    assert asked == []


# --- conversations --------------------------------------------------------------------------------


async def test_a_conversation_goes_on(stage: Stage) -> None:
    """Each turn hears those before it, and finds the state as they left it, but for what was `temp:`."""
    heard: list[str] = []
    steps = S.counter("n") >> S.set(**{"temp:t": 1}) >> A.writes("said")
    expression, on = stage(steps, {"a": lambda all: str(heard.append(all)) + str(len(heard))})
    with stage.may("session"):
        async with expression.session(state={"n": 10, "temp:given": 1}, **on) as chat:
            results = [await chat.send(prompt) for prompt in ("my cat is Tom", "what is its name?")]
        assert [result.state for result in results] == [
            {"n": 11, "said": "None1"},
            {"n": 12, "said": "None2"},
        ]
        assert {result.session_id for result in results} == {chat.session_id}
        assert ["Tom" in all for all in heard] == [True, True]
        assert "None1" in heard[1]


async def test_conversations_are_apart(stage: Stage) -> None:
    """Two conversations on one backend hear nothing of each other."""
    heard: list[str] = []
    expression, on = stage(A, {"a": lambda all: str(heard.append(all))})
    with stage.may("session"):
        async with expression.session(**on) as one, expression.session(**on) as other:
            await one.send("first")
            await other.send("second")
        assert ["first" in all for all in heard] == [True, False]


async def test_a_conversation_that_is_over_is_over(stage: Stage) -> None:
    """After its end a conversation takes no turn."""
    expression, on = stage(A, TWO)
    with stage.may("session"):
        async with expression.session(**on) as chat:
            await chat.send("hi")
        with pytest.raises(SessionError, match="is over"):
            await chat.send("again")


async def test_a_filtered_conversation_is_heard_whole(stage: Stage) -> None:
    """What `.filtered()` keeps from the caller, the agents of the next turn hear all the same."""
    heard: list[str] = []
    expression, on = stage((A >> B).filtered(), {"a": "secret", "b": lambda all: str(heard.append(all))})
    with stage.may("session"):
        async with expression.session(**on) as chat:
            await chat.send("hi")
            await chat.send("and now?")
        assert "secret" in heard[1]


async def test_a_conversation_may_be_kept(stage: Stage) -> None:
    """`session(keep=True)` leaves a session in which another run goes on."""
    expression, on = stage(S.counter("n") >> A, TWO)
    with stage.may("keep"):
        async with expression.session(keep=True, **on) as chat:
            await chat.send("hi")
        assert (await expression.run("hi", session_id=chat.session_id, **on)).state == {"n": 2}


# --- stored sessions ------------------------------------------------------------------------------

GATED = A >> ASK >> B


async def test_a_run_that_waits_is_resumed(stage: Stage) -> None:
    """`.pending` says what a run waits for, and `resume` goes on with it; until then there is no text."""
    expression, on = stage(GATED, TWO)
    session_id, approvals = "s", {"p": True}
    with stage.may("run"):
        asked = await expression.run("hi", **on)
        assert [pending.message for pending in asked.pending] == ["Send it?"]
        assert (said(asked.by("a")), asked.text) == ([("a", "one")], "")
        session_id, approvals = asked.session_id, {pending.id: True for pending in asked.pending}
    with stage.may("resume"):
        result = await expression.resume(session_id=session_id, approvals=approvals, **on)
        assert (said(result), result.text, result.pending) == ([("b", "two")], "two", [])
        with pytest.raises(SessionError, match="does not wait"):
            await expression.resume(session_id=session_id, approvals=approvals, **on)


async def test_what_waits_is_no_answer(stage: Stage) -> None:
    """`ask_async` of a run that waits for a person says who waits for what."""
    expression, on = stage(GATED, TWO)
    with stage.may("ask"), pytest.raises(RunError, match="'gate' waits for approval: Send it"):
        await expression.ask_async("hi", **on)


async def test_what_was_said_before_the_pause_counts(stage: Stage) -> None:
    """After `resume` a typed answer from before the run waited is the answer of the whole run."""
    expression, on = stage(A @ Size >> ASK, {"a": '{"size": 3}'})
    session_id, approvals = "s", {"p": True}
    with stage.may("run"):
        asked = await expression.run("hi", **on)
        session_id, approvals = asked.session_id, {pending.id: True for pending in asked.pending}
    with stage.may("resume"):
        result = await expression.resume(session_id=session_id, approvals=approvals, **on)
        assert result.output == Size(size=3)


async def test_a_turn_that_waits_is_resumed(stage: Stage) -> None:
    """In a conversation the turn that waits goes on with `chat.resume`, and the next turn follows."""
    expression, on = stage(GATED, TWO)
    with stage.may("chat.resume"):
        async with expression.session(**on) as chat:
            for _ in range(2):
                asked = await chat.send("hi")
                result = await chat.resume(approvals={asked.pending[0].id: True})
                assert result.text == "two"


async def test_a_run_is_rewound(stage: Stage) -> None:
    """`rewind` undoes a run and all after it; a run that is not there is a `SessionError`."""
    expression, on = stage(S.counter("n") >> A, TWO)
    session_id, run = "s", "r"
    with stage.may("run"):
        first = await expression.run("hi", **on)
        session_id, run = first.session_id, first.invocation_id
    with stage.may("session_id"):
        assert (await expression.run("hi", session_id=session_id, **on)).state == {"n": 2}
    with stage.may("rewind"):
        with pytest.raises(SessionError, match="has no run"):
            await expression.rewind(session_id=session_id, before_invocation_id="other", **on)
        await expression.rewind(session_id=session_id, before_invocation_id=run, **on)
        assert (await expression.run("hi", session_id=session_id, **on)).state == {"n": 1}


@pytest.mark.parametrize("terminal", ["run", "stream", "ask_async", "session", "map", "resume", "rewind"])
async def test_no_terminal_needs_what_no_protocol_has(stage: Stage, terminal: str) -> None:
    """A session that is not there is asked for in words: the terminal, the backend, what to do instead."""
    expression, on = stage(A, TWO)
    asked = terminal if terminal in ("resume", "rewind") else "session_id"

    async def call() -> None:
        on["session_id"] = "s"
        match terminal:
            case "stream":
                await read(expression.stream("hi", **on))
            case "session":
                async with expression.session(**on) as chat:
                    await chat.send("hi")
            case "map":
                with pytest.raises(ArgumentError, match="leave session_id out"):
                    await expression.map(["hi"], **on)
            case "resume":
                with pytest.raises(SessionError):
                    await expression.resume(approvals={"p": True}, **on)
            case "rewind":
                with pytest.raises(SessionError):
                    await expression.rewind(before_invocation_id="r", **on)
            case _:
                await getattr(expression, terminal)("hi", **on)

    with stage.may(asked) as caught:
        await call()
    if caught is not None:
        assert f"{terminal}(" in str(caught.value)


@pytest.mark.parametrize("service", ["session_service", "artifact_service"])
async def test_services_of_the_caller(stage: Stage, service: str) -> None:
    """Services go to a backend that stores sessions; another one refuses them instead of ignoring them."""
    expression, on = stage(A, TWO)
    given = getattr(fresh_services(), service)
    with stage.may(service):
        assert (await expression.run("hi", **{service: given}, **on)).text == "one"


def test_who_stores_sessions() -> None:
    """A backend stores sessions when it has the methods for it, and the table says who does not."""
    made = {kind: make(A, {})[0] for kind, make in BACKENDS.items() if kind not in NEWEST}
    assert all(isinstance(backend, Backend) for backend in made.values())
    stores = {kind for kind, backend in made.items() if isinstance(backend, SessionBackend)}
    assert stores == {kind for kind in made if "resume" not in CANNOT[kind]}
    assert set(CANNOT) == set(BACKENDS)


@pytest.mark.newest
def test_the_durable_engine_stores_sessions() -> None:
    """Its workers do."""
    from adk_fluent.backends.temporal.backend import TemporalBackend

    assert isinstance(TemporalBackend(), SessionBackend)


# --- options --------------------------------------------------------------------------------------

READS = Agent("reader").instruct("Read {key}.")


async def test_contracts_are_checked_whoever_runs_it(stage: Stage) -> None:
    """A missing key is refused on every backend, by the configuration or `.strict()`; given state counts."""
    expression, on = stage(READS, {"reader": "read"})
    refusing = ExecutionConfig(contracts="error")
    for runs, options in ((expression, {"config": refusing}), (expression.strict(), {})):
        with pytest.raises(ContractError, match="key"):
            await runs.run("hi", **options, **on)
        with stage.may("run"):
            assert (await runs.run("hi", state={"key": 1}, **options, **on)).text == "read"


async def test_two_nodes_of_one_name_are_refused(stage: Stage) -> None:
    """Two different agents of one name are refused on every backend, before anything runs."""
    expression, on = stage(A >> B, TWO)
    clashing = expression >> Agent("a").instruct("Another.")
    with pytest.raises(DuplicateNameError, match="'a'"):
        await clashing.run("hi", **on)


async def test_wrong_options_are_refused(stage: Stage) -> None:
    """An option that does not exist, or is of the wrong kind, is an `ArgumentError` on every backend."""
    expression, on = stage(A, TWO)
    wrong: list[dict[str, Any]] = [{"sesion_id": "s"}, {"state": [1]}, {"config": {}}, {"user_id": ""}]
    for options in wrong:
        with pytest.raises(ArgumentError, match=next(iter(options))):
            await expression.run("hi", **options, **on)
