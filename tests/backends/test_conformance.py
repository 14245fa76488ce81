"""What every backend keeps, run over every backend there is.

To add one (a durable engine, replay):

1. put a function that makes it into `BACKENDS`. It gets the expression and what each agent says, and gives
   the backend and the expression to run, which differs from the one given only if the backend asks the
   agents' own models;
2. put what it cannot do into `CANNOT`: what is asked of it (one of `ASKED`) with the class and the text of
   the error that says so. The tests assert that error; nothing is skipped;
3. if it stores sessions, nothing else: `test_who_stores_sessions` finds it by its methods.

`Toy` is a whole backend, and `Keeping` one that stores sessions.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, S, gate
from adk_fluent.backends import (
    ADKBackend,
    AgentEvent,
    Backend,
    MockBackend,
    Pending,
    SessionBackend,
    StoredSession,
    Usage,
    VizBackend,
)
from adk_fluent.backends.adk.running.runner import fresh_services
from adk_fluent.backends.preview import PreviewBackend
from adk_fluent.backends.turns import state_after
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import (
    ADKFluentError,
    AnswerError,
    ArgumentError,
    BackendError,
    ContractError,
    DuplicateNameError,
    EventLoopError,
    RunError,
    SessionError,
    UnsupportedNodeError,
)
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AgentNode, GateNode, Node, SequenceNode, TransformNode, rewrite, walk
from adk_fluent.state.delta import changes
from tests.backends.support import PlainLlm, failing, reply, seen

A, B = Agent("a"), Agent("b")
ASK = gate(lambda state: True, message="Send it?")

Said = str | Exception | Callable[[str], str]
"""What an agent says: text, an error to raise, or a function of all that it hears."""
BLOCKED = "(blocked)"
"""What is said in place of an answer that the provider blocks."""


class Size(BaseModel):
    size: int


# --- two backends ---------------------------------------------------------------------------------


class Toy:
    """Runs sequences of agents and steps; agents say what `says` has for them, or what the user said."""

    def __init__(self, says: Mapping[str, Said] | None = None) -> None:
        self.says: Mapping[str, Said] = says or {}

    def compile(self, node: Node, config: ExecutionConfig | None = None) -> list[Node]:
        return [step for step in walk(node) if not isinstance(step, SequenceNode)]

    async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
        return [event async for event in self.stream(compiled, prompt, **options)]

    async def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncGenerator[AgentEvent, None]:
        state, history = dict(options["state"]), options["history"]
        heard = "\n".join([*(event.content or "" for event in history), str(prompt)])
        for step in compiled:
            match step:
                case AgentNode(name=name):
                    said = self.says.get(name, str(prompt))
                    event = spoken(
                        name, said if isinstance(said, str | Exception) else said(heard), step.output_key
                    )
                case TransformNode():
                    event = AgentEvent(step.label, state_delta=changes(step, step.fn(state), state))
                case GateNode():
                    yield AgentEvent("gate", pending=(Pending(str(uuid.uuid4()), "gate", str(step.message)),))
                    return
                case _:
                    raise UnsupportedNodeError(f"Toy runs no {step.kind}; take ADKBackend().")
            state.update(event.state_delta)
            yield event


def spoken(name: str, said: str | Exception, key: Any) -> AgentEvent:
    """The event of an agent that says something, and writes it under a key."""
    if isinstance(said, Exception):
        raise said
    if said == BLOCKED:
        return AgentEvent(name, error="SAFETY: blocked")
    wrote: dict[str, Any] = {key: said} if isinstance(key, str) else {}
    return AgentEvent(name, said, wrote, is_final=True, model="plain", usage=Usage(1, 2, 3))


@dataclass
class Kept:
    """What `Keeping` keeps of a session."""

    state: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[AgentEvent] = field(default_factory=list[AgentEvent])
    before: dict[str, tuple[dict[str, Any], int]] = field(
        default_factory=dict[str, tuple[dict[str, Any], int]]
    )
    waiting: dict[str, tuple[Pending, list[Node]]] = field(
        default_factory=dict[str, tuple[Pending, "list[Node]"]]
    )


class Keeping(Toy):
    """A `Toy` that stores sessions, by their ids."""

    def __init__(self, says: Mapping[str, Said] | None = None) -> None:
        super().__init__(says)
        self.kept: dict[str, Kept] = {}

    async def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncGenerator[AgentEvent, None]:
        if options["services"]:
            raise BackendError(f"Keeping has its own store; leave {min(options['services'])} out.")
        kept, run = self.kept.setdefault(options["session_id"], Kept()), str(uuid.uuid4())
        kept.before[run] = (dict(kept.state), len(kept.events))
        kept.state.update(options["state"])
        kept.events.append(AgentEvent("user", prompt, invocation_id=run))
        async with aclosing(self._steps(kept, run, compiled, prompt)) as events:
            async for event in events:
                yield event

    async def _steps(
        self, kept: Kept, run: str, steps: list[Node], prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        history = [event for event in kept.events if event.invocation_id != run]
        async for event in super().stream(steps, prompt, state=kept.state, history=history):
            event = replace(event, id=str(uuid.uuid4()), invocation_id=run)
            kept.events.append(event)
            kept.state = state_after(kept.state, [event])
            for asked in event.pending:
                here = next(i for i, step in enumerate(steps) if isinstance(step, GateNode))
                kept.waiting[run] = (asked, steps[here + 1 :])
            yield event

    def _kept(self, session_id: str) -> Kept:
        if session_id not in self.kept:
            raise SessionError(f"There is no session {session_id!r}.")
        return self.kept[session_id]

    async def session(self, compiled: Any, *, session_id: str, **whose: Any) -> StoredSession:
        kept = self._kept(session_id)
        runs: dict[str, list[AgentEvent]] = {}
        for event in kept.events:
            runs.setdefault(event.invocation_id, []).extend([event] if event.author != "user" else [])
        return StoredSession(kept.state, {run: [asked] for run, (asked, _) in kept.waiting.items()}, runs)

    async def resume(
        self, compiled: Any, *, session_id: str, approvals: Mapping[str, Any], **whose: Any
    ) -> AsyncGenerator[AgentEvent, None]:
        kept = self._kept(session_id)
        run = next((run for run, (asked, _) in kept.waiting.items() if asked.id in approvals), None)
        if run is None:
            raise SessionError(f"Session {session_id!r} does not wait for {', '.join(approvals)}.")
        _, rest = kept.waiting.pop(run)
        yield AgentEvent("gate", invocation_id=run)
        async for event in self._steps(kept, run, rest, ""):
            yield event

    async def rewind(self, compiled: Any, *, session_id: str, before_invocation_id: str, **_: Any) -> None:
        kept = self._kept(session_id)
        if before_invocation_id not in kept.before:
            raise SessionError(f"Session {session_id!r} has no run {before_invocation_id!r}.")
        kept.state, count = kept.before[before_invocation_id]
        del kept.events[count:]

    async def forget(self, compiled: Any, *, session_id: str, **whose: Any) -> None:
        self.kept.pop(session_id, None)


# --- all of them ----------------------------------------------------------------------------------

Says = Mapping[str, Said]
Made = tuple[Backend, Expr[Any]]


def _response(name: str, says: Says, request: LlmRequest) -> LlmResponse | Exception:
    """What a scripted model answers."""
    said = says.get(name, "ok")
    text = said if isinstance(said, str | Exception) else said(seen(request))
    if isinstance(text, Exception):
        return text
    if text == BLOCKED:
        return failing()
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=2, candidates_token_count=3)
    return reply(text, usage_metadata=usage, model_version="plain")


def _models(expression: Expr[Any], says: Says) -> Expr[Any]:
    """The expression, each agent with a scripted model of its own, the same wherever it is used."""

    @cache
    def model(name: str) -> PlainLlm:
        async def answer(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
            response = _response(name, says, request)
            if isinstance(response, Exception):
                raise response
            yield response

        return PlainLlm.of(answer)

    def scripted(node: Node) -> Node:
        return node.replace(model=model(node.name)) if isinstance(node, AgentNode) else node

    return expression.from_node(rewrite(expression.node, scripted))


def _script(expression: Expr[Any], says: Says) -> dict[str, Any]:
    agents = [node.name for node in walk(expression.node) if isinstance(node, AgentNode)]
    return {name: partial(_response, name, says) for name in agents}


def _adk(expression: Expr[Any], says: Says) -> Made:
    return ADKBackend(fresh_services().session_service), _models(expression, says)


BACKENDS: Mapping[str, Callable[[Expr[Any], Says], Made]] = {
    "adk": _adk,
    "mock": lambda expr, says: (MockBackend(_script(expr, says)), expr),
    "preview": lambda expr, says: (PreviewBackend(expr.node, _script(expr, says)), expr),
    "viz": lambda expr, says: (VizBackend(), expr),
    "toy": lambda expr, says: (Toy(says), expr),
    "keeping": lambda expr, says: (Keeping(says), expr),
}
"""Name → what makes the backend, and the expression to run on it."""

ASKED = (
    *("run", "stream", "ask", "map", "session", "resume", "rewind", "chat.resume"),
    *("session_id", "keep", "session_service", "artifact_service"),
)
"""What is asked of a backend: a terminal, or an option."""

Errors = Mapping[str, tuple[type[ADKFluentError], str]]

DRAWS = (BackendError, r"^VizBackend draws expressions and runs nothing, .*visualize\(\); to run, take .*\.$")


def stores_none(backend: str) -> dict[str, tuple[type[ADKFluentError], str]]:
    """What a backend without sessions says."""
    take = r"take a backend that does, such as ADKBackend\(\)\."
    start = f"^{backend} stores no sessions, which "
    return {
        "resume": (BackendError, rf"{start}resume\(\) needs\. T{take[1:]}$"),
        "rewind": (BackendError, rf"{start}rewind\(\) needs\. T{take[1:]}$"),
        "chat.resume": (BackendError, rf"{start}resume\(\) needs\. T{take[1:]}$"),
        "keep": (BackendError, rf"{start}session\(keep=True\) needs\. Leave keep out, or {take}$"),
        **{
            name: (BackendError, rf"{start}\w+\({name}=\) needs\. Leave {name} out, or {take}$")
            for name in ("session_id", "session_service", "artifact_service")
        },
    }


CANNOT: Mapping[str, Errors] = {
    "adk": {},
    "mock": {},
    "preview": {},
    "viz": {
        **stores_none("VizBackend"),
        **dict.fromkeys(("run", "stream", "ask", "map", "session", "chat.resume"), DRAWS),
    },
    "toy": stores_none("Toy"),
    # A refusal of its own.
    "keeping": {
        "session_service": (BackendError, "^Keeping has its own store; leave session_service out.$"),
        "artifact_service": (BackendError, "^Keeping has its own store; leave artifact_service out.$"),
    },
}
"""Backend → what it cannot do → the error that says so."""


@dataclass(frozen=True)
class Stage:
    """One backend at a time."""

    kind: str

    def __call__(self, expression: Expr[Any], says: Says | None = None) -> tuple[Any, dict[str, Any]]:
        """An expression to run, and the option that runs it on this backend."""
        backend, expression = BACKENDS[self.kind](expression, says or {})
        return expression, {"backend": backend}

    @contextmanager
    def may(self, asked: str) -> Generator[pytest.ExceptionInfo[ADKFluentError] | None]:
        """Inside, the backend does what is asked, or raises the error that the table has for it."""
        assert asked in ASKED
        expected = CANNOT[self.kind].get(asked)
        if expected is None:
            yield None
            return
        cls, text = expected
        with pytest.raises(cls, match=text) as caught:
            yield caught
        assert "\n" not in str(caught.value)


@pytest.fixture(params=BACKENDS)
def stage(request: pytest.FixtureRequest) -> Stage:
    """Every backend in turn."""
    return Stage(request.param)


# --- every backend, every terminal ----------------------------------------------------------------


def said(events: Sequence[AgentEvent]) -> list[tuple[str, str | None]]:
    """Who said what, pieces of answers left out."""
    return [(event.author, event.content) for event in events if event.content and not event.is_partial]


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
    """Agents before the last are internal, `.hide()` and `.show()` count, and `.visible` leaves out the rest."""
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
        "stream": lambda: _read(expression.stream("hi", **on)),
        "ask": lambda: expression.ask_async("hi", **on),
        "map": lambda: expression.map(["hi"], **on),
        "session": send,
    }
    for asked, call in calls.items():
        with stage.may(asked), pytest.raises((ConnectionError, RunError), match="cut off"):
            await call()


def _reading(expression: Expr[Any]) -> Callable[..., Any]:
    async def reads(prompt: Any, **options: Any) -> list[AgentEvent]:
        return await _read(expression.stream(prompt, **options))

    return reads


async def _read(stream: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    return [event async for event in stream]


async def test_an_error_event_that_nothing_catches_is_raised(stage: Stage) -> None:
    """An event that reports a failure raises `RunError`, which names the agent and has the run so far."""
    expression, on = stage(A >> B, {"a": "one", "b": BLOCKED})
    with stage.may("run"):
        with pytest.raises(RunError, match="'b' gave no answer but an error: .*SAFETY") as caught:
            await expression.run("hi", **on)
        assert caught.value.result is not None
        assert said(caught.value.result.by("a")) == [("a", "one")]
    with stage.may("stream"), pytest.raises(RunError, match="'b' gave no answer"):
        await _read(expression.stream("hi", **on))


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
                await _read(expression.stream("hi", **on))
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
    made = {kind: make(A, {})[0] for kind, make in BACKENDS.items()}
    assert all(isinstance(backend, Backend) for backend in made.values())
    stores = {kind for kind, backend in made.items() if isinstance(backend, SessionBackend)}
    assert stores == {kind for kind in made if "resume" not in CANNOT[kind]}
    assert set(CANNOT) == set(BACKENDS)


# --- options --------------------------------------------------------------------------------------

READS = Agent("reader").instruct("Read {key}.")


async def test_contracts_are_checked_whoever_runs_it(stage: Stage) -> None:
    """A missing key is refused on every backend, by the configuration or `.strict()`; state that is given counts."""
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


# --- one backend ----------------------------------------------------------------------------------


class Noting(Toy):
    """A toy that notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[ExecutionConfig | None] = []
        self.told: list[dict[str, Any]] = []

    def compile(self, node: Node, config: ExecutionConfig | None = None) -> list[Node]:
        self.compiled.append(config)
        return super().compile(node, config)

    async def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncGenerator[AgentEvent, None]:
        self.told.append(options)
        async with aclosing(super().stream(compiled, prompt, **options)) as events:
            async for event in events:
                yield event


async def test_a_backend_is_told_how_to_run() -> None:
    """`compile` gets the configuration; `run` and `stream` whose run it is, the state, and what was before."""
    backend, config = Noting(), ExecutionConfig(max_llm_calls=3)
    await A.run("hi", backend=backend, config=config, app_name="shop", user_id="ann", state={"x": 1})
    await _read(A.stream("hi", backend=backend))
    assert backend.compiled == [replace(config, app_name="shop"), ExecutionConfig()]
    first, second = backend.told
    assert first.pop("session_id") != second.pop("session_id")
    assert first == {"user_id": "ann", "state": {"x": 1}, "history": (), "streaming": False}
    assert second == {"user_id": "user", "state": {}, "history": (), "streaming": True}


async def test_history_is_what_everybody_said() -> None:
    """The history of a turn is the turns before it: the user's words and parts, and the events."""
    backend = Noting()
    png = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
    async with S.counter("n").session(backend=backend) as chat:
        for prompt in ("hi", ["look ", "here", png], types.Content(parts=[types.Part(text="and")]), "so?"):
            await chat.send(prompt)
        history = backend.told[-1]["history"]
    assert {told["session_id"] for told in backend.told} == {chat.session_id}
    assert [(event.author, event.content, event.parts) for event in history if event.author == "user"] == [
        ("user", "hi", ()),
        ("user", "look here", (png,)),
        ("user", "and", ()),
    ]
    assert [event.state_delta for event in history if event.author != "user"] == [
        {"n": 1},
        {"n": 2},
        {"n": 3},
    ]


async def test_a_turn_that_failed_is_no_history() -> None:
    """After a turn that raised, the conversation goes on from before it."""
    backend = Noting()
    says: Says = {"a": lambda heard: BLOCKED if heard.endswith("bad") else "fine"}
    backend.says = says
    async with (S.counter("n") >> A).session(backend=backend) as chat:
        await chat.send("good")
        with pytest.raises(RunError, match="SAFETY"):
            await chat.send("bad")
        assert (await chat.send("good again")).state == {"n": 2}
    assert [event.content for event in backend.told[-1]["history"] if event.author == "user"] == ["good"]


async def test_an_expression_is_compiled_once() -> None:
    """A backend compiles an expression once for all terminals, and one that can keep nothing once per call."""
    backend = Noting()
    await A.run("hi", backend=backend)
    assert await A.map(["x", "y"], backend=backend) == ["x", "y"]
    async with A.session(backend=backend) as chat:
        await chat.send("hi")
        await chat.send("hi")
    assert len(backend.compiled) == 1

    class Slotted:
        __slots__ = ("inner",)

        def __init__(self) -> None:
            self.inner = Noting()

        def compile(self, node: Node, config: ExecutionConfig | None = None) -> list[Node]:
            return self.inner.compile(node, config)

        async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
            return await self.inner.run(compiled, prompt, **options)

        def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncIterator[AgentEvent]:
            return self.inner.stream(compiled, prompt, **options)

    slotted = Slotted()
    await A.ask_async("hi", backend=slotted)
    assert len(slotted.inner.compiled) == 1


async def test_what_a_backend_says_of_its_events_counts() -> None:
    """An event that its backend marked, and one whose author is not in the tree, stay as they are."""

    class Marking(Toy):
        async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
            return [
                AgentEvent("b", "for agents", is_final=True, visibility="internal"),
                AgentEvent("somebody", "for you", is_final=True),
            ]

    result = await (A >> B).run("hi", backend=Marking())
    assert [(event.content, event.visibility) for event in result] == [
        ("for agents", "internal"),
        ("for you", "user"),
    ]
    assert result.text == "for you"


async def test_what_is_no_event_is_named() -> None:
    """A backend that gives something else than events is named, with what it should give."""

    class Talking(Toy):
        async def run(self, compiled: Any, prompt: Any, **options: Any) -> Any:
            return ["hello"]

        async def stream(self, compiled: Any, prompt: Any, **options: Any) -> AsyncGenerator[Any, None]:
            yield "hello"

    for call in (A.run("hi", backend=Talking()), _read(A.stream("hi", backend=Talking()))):
        with pytest.raises(BackendError, match=r"^Talking gave str 'hello' as an event .*AgentEvent\("):
            await call


async def test_a_stream_need_not_be_a_generator() -> None:
    """`stream` may give any async iterator, which has nothing to close."""

    class Once:
        def __init__(self) -> None:
            self.left = [AgentEvent("a", "hello", is_final=True)]

        def __aiter__(self) -> Once:
            return self

        async def __anext__(self) -> AgentEvent:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    class Iterating(Toy):
        def stream(self, compiled: Any, prompt: Any, **options: Any) -> Any:
            return Once()

    assert said(await _read(A.stream("hi", backend=Iterating()))) == [("a", "hello")]


async def test_what_is_no_backend_is_refused() -> None:
    """An object without one of the three methods is refused with the name of that method; so is a class."""

    class Half:
        def compile(self, node: Node, config: ExecutionConfig | None = None) -> Node:
            return node

        async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
            return []

    for wrong, hint in ((Half(), r"It has no stream\(\)\.$"), (Toy, r"Make one of it: Toy\(\.\.\.\)\.$")):
        options: dict[str, Any] = {"backend": wrong}
        with pytest.raises(ArgumentError, match=hint):
            await A.run("hi", **options)


@pytest.mark.parametrize(("format", "start"), [("mermaid", "flowchart TD"), ("svg", "<svg"), ("html", "<!")])
def test_viz_compiles_to_the_picture(format: Any, start: str) -> None:
    """What `VizBackend` compiles an expression to is the picture that `visualize` draws."""
    expression = A.writes("x") >> Agent("b").instruct("Use {x}.")
    picture = VizBackend(format).compile(expression.node)
    assert isinstance(picture, str)
    assert picture.startswith(start)
    assert picture == expression.visualize(format)


def test_viz_names_its_formats() -> None:
    """A format that is none is refused with those that are."""
    wrong: Any = "gif"
    with pytest.raises(ArgumentError, match=r"format='gif'.*mermaid, svg, html, png\.$"):
        VizBackend(wrong)


WITHOUT_ADK = """
import asyncio, sys
import adk_fluent.backends
from adk_fluent import Agent
from adk_fluent.backends import AgentEvent, VizBackend

class Echo:
    def compile(self, node, config=None):
        return node

    async def run(self, compiled, prompt, **options):
        return [AgentEvent(compiled.name, prompt, is_final=True)]

    async def stream(self, compiled, prompt, **options):
        yield AgentEvent(compiled.name, prompt, is_final=True)

async def main():
    a = Agent("a")
    assert VizBackend().compile(a.node)
    assert (await a.run("hi", backend=Echo())).text == "hi"
    assert await a.map(["x", "y"], backend=Echo()) == ["x", "y"]
    assert [event.content async for event in a.stream("hi", backend=Echo())] == ["hi"]
    async with a.session(backend=Echo()) as chat:
        assert (await chat.send("hi")).state == {}

asyncio.run(main())
print([name for name in sys.modules if name.startswith(("google.adk", "google.genai"))])
"""


def test_a_backend_of_its_own_needs_no_adk() -> None:
    """Neither importing the backends nor running on one that does not use ADK imports any of ADK."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_ADK], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
