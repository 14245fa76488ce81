from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, cast

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.tools.exit_loop_tool import exit_loop
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, Loop, Route, S, StateSchema, gate, map_over, race, tap, transfer, until
from adk_fluent.backends.adk.compile.workflow import build_workflow
from adk_fluent.backends.mock import MockBackend
from adk_fluent.di import Resource
from adk_fluent.errors import (
    ADKFluentError,
    AnswerError,
    CompileError,
    ExpressionError,
    MissingKeyError,
    PredicateError,
    RunError,
    SerializationError,
    StateGuardError,
    StateKeyError,
    StateTypeError,
    UnsupportedNodeError,
)
from adk_fluent.expr.base import Expr
from adk_fluent.ir.adk_objects import Native
from adk_fluent.ir.annotations import Annotations, EdgeSemantics
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import (
    NODE_TYPES,
    AgentNode,
    CaptureNode,
    FallbackNode,
    GateNode,
    KnownNativeNode,
    MapOverNode,
    ModelSelectorNode,
    NativeNode,
    ParallelNode,
    RaceNode,
    RemoteAgentNode,
    SequenceNode,
    TimeoutNode,
    TransferNode,
)
from adk_fluent.middleware import retry, timeout
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import raises_from, system

newest = pytest.mark.newest


class Due(BaseModel):
    day: date
    total: Decimal


@dataclass
class Ran:
    """What a run on the workflow target did."""

    events: list[Event]
    state: dict[str, Any]

    @property
    def answers(self) -> list[tuple[str, str]]:
        return [(event.author, text(event)) for event in self.events if text(event)]


def text(event: Event) -> str:
    """What an event says."""
    return "".join(part.text or "" for part in (event.content.parts if event.content else None) or [])


def said(request: LlmRequest) -> list[tuple[str | None, str]]:
    """The text of each turn that a model saw."""
    return [(c.role, "".join(part.text or "" for part in c.parts or [])) for c in request.contents]


def instruction(request: LlmRequest) -> str:
    """The system instruction that a model got."""
    config: Any = request.config
    return str(config.system_instruction)


def user(message: str) -> types.Content:
    """A message of the user."""
    return types.Content(role="user", parts=[types.Part(text=message)])


class Conversation:
    """A session with an expression on the workflow target, on ADK's own runner."""

    def __init__(
        self, expr: Expr[Any] | Node, backend: MockBackend, state: Mapping[str, Any] | None = None
    ) -> None:
        self._service = InMemorySessionService()
        self._state = dict(state or {})
        root = build_workflow(expr.node if isinstance(expr, Expr) else expr, backend.model_for)
        self._runner = Runner(
            app=App(name="app", root_agent=root, plugins=backend.plugins()),
            session_service=self._service,
        )

    async def send(self, message: types.Content) -> Ran:
        if await self._session() is None:
            await self._service.create_session(app_name="app", user_id="u", session_id="s", state=self._state)
        stream = self._runner.run_async(user_id="u", session_id="s", new_message=message)
        events = [event async for event in stream]
        session = await self._session()
        assert session is not None
        return Ran(events, {key: value for key, value in session.state.items() if value is not None})

    async def _session(self) -> Session | None:
        return await self._service.get_session(app_name="app", user_id="u", session_id="s")


async def run(
    expr: Expr[Any] | Node,
    backend: MockBackend,
    message: str = "Hello",
    state: Mapping[str, Any] | None = None,
) -> Ran:
    """One message to the expression on the workflow target, in a new session."""
    return await Conversation(expr, backend, state).send(user(message))


# --- both ADK lines -------------------------------------------------------------------------------


def test_build_gives_a_workflow_exactly_where_adk_has_one() -> None:
    """`build(target="workflow")` gives ADK's `Workflow`, or says which ADK it needs when there is none."""
    pipeline = Agent("a") >> Agent("b")
    if find_spec("google.adk.workflow") is None:
        with pytest.raises(CompileError, match=r"build\(target='workflow'\) needs google-adk 2\.x"):
            pipeline.build(target="workflow")
    else:
        from google.adk.workflow import Workflow

        assert isinstance(pipeline.build(target="workflow"), Workflow)
    assert isinstance(pipeline.build(), BaseAgent)


@newest
def test_without_workflow_the_message_names_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `google.adk.workflow` cannot be found, building says what to do about it."""
    monkeypatch.setitem(sys.modules, "google.adk.workflow", None)
    with pytest.raises(CompileError, match=r"needs google-adk 2\.x.*call build\(\) without a target"):
        Agent("a").build(target="workflow")


# --- the same result as the default target --------------------------------------------------------


def shout(state: Mapping[str, Any]) -> dict[str, Any]:
    """A plain function as a step: writes one key and drops another."""
    return {"w": f"{state['x']}!", "old": None}


writer = Agent("writer").writes("draft")
critic = Agent("critic").instruct("Judge {draft}").writes("score")
SAME: Sequence[tuple[str, Expr[Any], Mapping[str, Any], Mapping[str, Any]]] = [
    (
        "sequence",
        Agent("a").writes("x") >> Agent("b").instruct("Do {x}").writes("y") >> Agent("c"),
        {"a": "A", "b": "B", "c": "C"},
        {},
    ),
    (
        "state steps",
        S.set(z=1) >> Agent("a").writes("x") >> shout >> S.capture("msg"),
        {"a": "A"},
        {"old": "gone"},
    ),
    (
        "parallel",
        S.set(n=0)
        >> (Agent("p").writes("kp") | (Agent("q").writes("kq") >> Agent("r").instruct("{kq}").writes("kr")))
        >> Agent("end").instruct("{kp} {kr}").writes("out"),
        {"p": "P", "q": "Q", "r": "R", "end": "E"},
        {},
    ),
    (
        "loop until",
        (writer >> critic) * until(lambda s: s.get("score") == "9", max=5) >> Agent("end"),
        {"writer": ["d1", "d2", "d3"], "critic": ["1", "9", "2"], "end": "E"},
        {},
    ),
    ("loop max", (writer >> critic) * 3, {"writer": ["d1", "d2", "d3", "d4"], "critic": "1"}, {}),
    (
        "nested loops",
        ((Agent("i").writes("i") * 2 >> Agent("o").writes("o")) * 2) >> Agent("end"),
        {"i": ["1", "2", "3", "4", "5"], "o": ["a", "b", "c"], "end": "E"},
        {},
    ),
    *(
        (
            f"route {answer}",
            Agent("cls").writes("kind")
            >> Route("kind")
            .eq("bug", Agent("dev").writes("out"))
            .eq("idea", Agent("plan").writes("out") >> S.set(planned=True))
            >> Agent("end"),
            {"cls": answer, "dev": "D", "plan": "P", "end": "E"},
            {},
        )
        for answer in ("bug", " idea\n", "other")
    ),
    (
        "route otherwise",
        Route("kind").eq("bug", Agent("dev")).otherwise(Agent("talk").writes("out")),
        {"dev": "D", "talk": "T"},
        {"kind": "other"},
    ),
    (
        "route in loop in parallel",
        (Route("n").eq(1, Agent("x").writes("x")).otherwise(S.counter("n")) * 2) | Agent("y").writes("y"),
        {"x": "X", "y": "Y"},
        {},
    ),
]


@newest
@pytest.mark.parametrize(
    ("expr", "responses", "state"), [case[1:] for case in SAME], ids=[case[0] for case in SAME]
)
async def test_both_targets_leave_the_same_state_and_answers(
    expr: Expr[Any], responses: Mapping[str, Any], state: Mapping[str, Any]
) -> None:
    """An expression writes the same state and each agent gives the same answers in order on both targets."""
    default = await expr.run("Hello", backend=mock_backend(responses), state=state)
    ran = await run(expr, mock_backend(responses), state=state)
    assert ran.state == default.state
    expected = [(event.author, event.content) for event in default if event.content]
    assert sorted(ran.answers) == sorted(expected)
    if "parallel" not in {node.kind for node in [expr.node, *expr.node.children]}:  # branches may interleave
        assert ran.answers == expected


# --- what the models see --------------------------------------------------------------------------


@newest
async def test_a_model_sees_only_the_answer_before_it() -> None:
    """A later agent's model sees its predecessor's answer as the user's only turn; by default it sees all."""
    expr, responses = Agent("a") >> Agent("b") >> Agent("c"), {"a": "A", "b": "B", "c": "C"}
    workflow, default = mock_backend(responses), mock_backend(responses)
    await run(expr, workflow)
    await expr.run("Hello", backend=default)
    assert {agent: said(calls[0]) for agent, calls in workflow.calls.items()} == {
        "a": [("user", "Hello")],
        "b": [("user", "A")],
        "c": [("user", "B")],
    }
    seen = said(default.calls["c"][0])
    assert seen[0] == ("user", "Hello")
    assert [any(word in turn for _, turn in seen) for word in ("[a] said", "[b] said")] == [True, True]


@newest
async def test_no_identity_line() -> None:
    """A node's model is not told its internal name, which ADK tells an agent of the default target."""
    expr = Agent("a").instruct("Be brief.") >> Agent("b")
    workflow, default = mock_backend(default="x"), mock_backend(default="x")
    await run(expr, workflow)
    await expr.run("Hello", backend=default)
    assert instruction(workflow.calls["a"][0]) == "Be brief."
    assert "internal name" in instruction(default.calls["a"][0])


@newest
async def test_include_contents_brings_the_user_but_no_sibling() -> None:
    """With `include_contents("default")` a node sees the user's messages, its own replies and its input."""
    backend = mock_backend({"a": ["A1", "A2"], "b": ["B1", "B2"], "c": ["C1", "C2"]})
    expr = Agent("a") >> Agent("b") >> Agent("c").include_contents("default")
    chat = Conversation(expr, backend)
    await chat.send(user("one"))
    await chat.send(user("two"))
    assert said(backend.calls["c"][1]) == [
        ("user", "one"),
        ("model", "C1"),
        ("user", "two"),
        ("user", "B2"),
    ]


@newest
async def test_after_parallel_branches_a_model_sees_their_answers_in_order() -> None:
    """The step after a fan-out gets the branches' answers by name as JSON, in the order they were written."""
    branches = [Agent(f"branch_{letter}") for letter in "zyxwvuts"]
    backend = mock_backend({"end": "E"}, default="said")
    await run(FanOut(*branches) >> Agent("end"), backend)
    expected = ", ".join(f'"branch_{letter}": "said"' for letter in "zyxwvuts")
    assert said(backend.calls["end"][0]) == [("user", "{" + expected + "}")]


@newest
async def test_steps_that_say_nothing_hand_on_what_they_were_given() -> None:
    """Transforms, taps, captures, loops' checks and routes without a match do not change what comes next."""
    looks: list[object] = []
    quiet = S.set(k=1) >> S.capture("m") >> Route("k").eq(2, Agent("never")) >> (S.counter("k") * 2)
    backend = mock_backend({"a": "A", "b": "B"})
    ran = await run(Agent("a").tap(lambda s: looks.append(dict(s))) >> quiet >> Agent("b"), backend)
    assert said(backend.calls["b"][0]) == [("user", "A")]
    assert (ran.state, looks) == ({"k": 3, "m": "Hello"}, [{}])


@newest
async def test_before_the_first_answer_the_input_is_the_users_message() -> None:
    """An agent behind steps that say nothing sees the user's message once."""
    backend = mock_backend({"a": "A"})
    await run(S.set(k=1) >> Route("k").eq(1, S.set(j=2) >> Agent("a")), backend, "Help me")
    assert said(backend.calls["a"][0]) == [("user", "Help me")]


@newest
async def test_each_round_of_a_loop_starts_from_the_last_answer() -> None:
    """In a loop the first agent sees the last one's answer of the round before, and nothing older."""
    backend = mock_backend({"writer": ["d1", "d2"], "critic": ["meh", "good"]})
    await run((writer >> critic) * 2, backend)
    assert [said(call) for call in backend.calls["writer"]] == [[("user", "Hello")], [("user", "meh")]]


@newest
async def test_capture_beside_a_running_agent_finds_the_user() -> None:
    """A capture takes the user's message even while ADK shows a sibling its input as if the user said it."""
    captures = (CaptureNode(key="msg"), CaptureNode(key="turns", turns=5))
    tree = SequenceNode(
        children=(AgentNode(name="a"), ParallelNode(children=(AgentNode(name="p"), *captures)))
    )
    ran = await run(tree, mock_backend({"a": "A", "p": "P"}))
    assert ran.state["msg"] == "Hello"
    assert ran.state["turns"].startswith("[user]: Hello\n[a]: A")
    assert "[user]: A" not in ran.state["turns"]


# --- events ---------------------------------------------------------------------------------------


@newest
async def test_steps_without_a_model_speak_under_the_name_of_their_workflow() -> None:
    """Events of agents keep the agent's name; those of other steps carry the workflow's, and their path."""
    expr = (Agent("a") >> S.set(k=1).named("mark")).named("pipeline")
    ran = await run(expr, mock_backend({"a": "A"}))
    assert [(event.author, event.node_info.path) for event in ran.events] == [
        ("a", "pipeline@1/a@1"),
        ("pipeline", "pipeline@1/mark@1"),
    ]
    default = await expr.run("Hello", backend=mock_backend({"a": "A"}))
    assert [event.author for event in default] == ["a", "mark"]


@newest
async def test_a_failure_is_an_event_and_is_raised() -> None:
    """Errors keep their type on this target, and ADK also stores an event that tells of them."""
    cases: list[tuple[Expr[Any], type[ADKFluentError]]] = [
        (Agent("a") >> Agent("b").instruct("{nobody}"), MissingKeyError),
        (Agent("a") >> Route("k").when(lambda s: s["k"], Agent("b")), PredicateError),
        (Agent("a") * until(lambda s: s["k"], max=2), PredicateError),
        (Agent("a") >> S.require("k"), StateGuardError),
    ]
    for expr, error in cases:
        root = build_workflow(expr.to_ir(), mock_backend(default="x").model_for)
        service = InMemorySessionService()
        runner = Runner(node=root, app_name="app", session_service=service, auto_create_session=True)
        with pytest.raises(error):
            _ = [e async for e in runner.run_async(user_id="u", session_id="s", new_message=user("Hi"))]
        session = await service.get_session(app_name="app", user_id="u", session_id="s")
        assert session is not None
        assert session.events[-1].error_code == error.__name__


@newest
async def test_a_workflow_keeps_to_execution_boundaries() -> None:
    """Behind one `temp:` keys are gone, and what could not cross stops the run there."""
    after = Agent("after").instruct("[{temp:note?}{note?}]").execution_boundary()
    backend = mock_backend(default="x")
    await run(S.set(**{"temp:note": "n"}) >> after, backend)
    assert system(backend.calls["after"][0]).startswith("[]")
    with pytest.raises(SerializationError, match="'note' cannot cross the execution boundary of 'after'"):
        await run(S.set(note={1}) >> after, mock_backend(default="x"))


@newest
async def test_a_missing_key_is_explained_by_the_whole_tree() -> None:
    """The error for a key that is not set names the step elsewhere in the workflow that would write it."""
    expr = Route("k").eq(1, Agent("scribe").writes("notes")) >> Agent("reader").instruct("Read {notes}")
    with pytest.raises(MissingKeyError, match=r"'reader' needs state key 'notes'.*written by 'scribe'"):
        await run(expr, mock_backend(default="x"))


class Notes(StateSchema):
    notes: str
    rounds: int = 0


@newest
async def test_typed_fields_and_schemas_hold_on_this_target_too() -> None:
    """Answers land under their fields, and every step of a bound expression keeps to its schema."""
    fine = (Agent("a").writes(Notes.notes, Notes.rounds) >> S.counter("rounds")).schema(Notes)
    ran = await run(fine, mock_backend({"a": {"notes": "n", "rounds": 1}}))
    assert ran.state == {"notes": "n", "rounds": 2}
    broken: list[tuple[Expr[Any], str]] = [
        (Agent("a").writes("nots"), "Agent 'a' wrote state key 'nots'.*'notes'"),
        (Agent("a") >> S.set(oops=1).named("w"), "'w' wrote state key 'oops'"),
        (Route("k").ne(1, S.capture("oops").named("w")) >> Agent("a"), "'w' wrote state key 'oops'"),
        (Agent("a").writes("rounds") * 2, r"Notes\.rounds .*takes int, not 'x'"),
    ]
    for expr, says in broken:
        with pytest.raises((StateKeyError, StateTypeError), match=says):
            await run(expr.schema(Notes), mock_backend(default="x"))


@newest
@pytest.mark.parametrize("kind", [Due, Due | None, list[Due]])
async def test_a_structured_answer_is_stored_and_handed_on_as_json(kind: Any) -> None:
    """What `build()` stores of a fenced answer with dates is stored here; the next node gets it as JSON."""
    answer: Any = {"day": "2025-06-01", "total": "1.50"}
    answer = [answer] if kind == list[Due] else answer
    backend = mock_backend({"a": f"```json\n{json.dumps(answer)}\n```", "b": "done"})
    for agent, state in (((Agent("a") @ kind).writes("due"), {"due": answer}), (Agent("a") @ kind, {})):
        ran = await run(agent >> Agent("b"), backend)
        assert ran.state == state
        assert said(backend.calls["b"][-1])[-1] == ("user", json.dumps(answer))


@newest
async def test_an_answer_that_does_not_fit_is_our_error_on_this_target_too() -> None:
    """With `writes` and without, the agent is named, and the path to the fault."""
    backend = mock_backend({"a": {"day": "2025-06-01"}, "b": "done"})
    for agent, key in (((Agent("a") @ Due).writes("due"), " for state key 'due'"), (Agent("a") @ Due, "")):
        with pytest.raises(AnswerError) as error:
            await run(agent >> Agent("b"), backend)
        said = "'a' answered '{\"day\": \"2025-06-01\"}'"
        assert str(error.value) == f"{said}{key}, which is not a Due: total is missing."


@newest
def test_a_schema_inside_another_is_refused() -> None:
    """A step of a workflow is held to one schema; the same one twice is one."""
    same = Agent("a").schema(Notes) >> Agent("b")
    assert same.schema(Notes).build(target="workflow").name == "sequence"
    other = type("Other", (StateSchema,), {})
    with pytest.raises(UnsupportedNodeError, match=r"'a': .* to Notes and to Other around it"):
        same.schema(other).build(target="workflow")


# --- loops and routes -----------------------------------------------------------------------------


@newest
async def test_until_ends_a_loop_before_its_limit() -> None:
    """A loop stops after the first round in which `until` holds."""
    backend = mock_backend({"writer": ["d1", "d2", "d3", "d4"]})
    await run(writer * until(lambda s: s["draft"] == "d2", max=4), backend)
    assert len(backend.calls["writer"]) == 2


@newest
async def test_the_limit_ends_a_loop_whose_until_never_holds() -> None:
    """A loop runs `max_iterations` rounds when `until` never holds, each time it is run."""
    backend = mock_backend({"writer": "d"})
    chat = Conversation(Loop(writer, max_iterations=3).until(lambda s: False), backend)
    await chat.send(user("one"))
    await chat.send(user("two"))
    assert len(backend.calls["writer"]) == 6


@newest
async def test_until_is_not_asked_after_the_last_round() -> None:
    """A loop of one round runs once without asking its `until`, as on the default target."""
    asked: list[bool] = []

    def done(state: Mapping[str, Any]) -> bool:
        asked.append(True)
        return False

    for _ in range(2):
        await run(writer * until(done, max=2), mock_backend({"writer": "d"}))
    assert len(asked) == 2


@newest
async def test_escalate_ends_the_nearest_loop_after_its_round() -> None:
    """`exit_loop` ends the loop around the agent when the round is over, and no loop outside it."""
    inner = (Agent("quits").tool(exit_loop) >> Agent("last")) * 5
    backend = mock_backend({"quits": call_tool("exit_loop"), "last": "L", "outer": "O", "end": "E"})
    ran = await run((inner >> Agent("outer")) * 2 >> Agent("end"), backend)
    assert [author for author, _ in ran.answers] == ["last", "outer", "last", "outer", "end"]


@newest
async def test_a_route_without_a_match_goes_on_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """A route with neither match nor `otherwise` runs no branch and logs no complaint."""
    backend = mock_backend({"a": "A", "end": "E"})
    with caplog.at_level(logging.WARNING):
        ran = await run(Agent("a") >> Route("k").eq("x", Agent("never")) >> Agent("end"), backend)
    assert [author for author, _ in ran.answers] == ["a", "end"]
    assert caplog.records == []


@newest
async def test_names_added_by_a_composite_never_clash() -> None:
    """A child may be called what a composite would call the nodes it adds."""
    route = Route("k").eq(1, Agent("r_choose")).otherwise(Agent("r_choose_")).named("r")
    fan = FanOut(Agent("f_join"), Agent("f_answers")).named("f")
    loop = Loop(Agent("l_check") >> Agent("l_exit"), max_iterations=2).named("l")
    ran = await run(route >> fan >> loop, mock_backend(default="x"), state={"k": 1})
    spoke = [author for author, _ in ran.answers]
    assert spoke[0] == "r_choose"
    assert sorted(spoke[1:3]) == ["f_answers", "f_join"]
    assert spoke[3:] == ["l_check", "l_exit"] * 2


# --- what only a graph does ---------------------------------------------------------------------


@newest
async def test_adks_own_retry_is_heeded() -> None:
    """An agent with ADK's `retry_config` is run again after a failure, and the workflow goes on."""
    from google.adk.workflow import RetryConfig

    first = Agent("a").retry_config(RetryConfig(max_attempts=2, initial_delay=0.0, jitter=0.0))
    backend = mock_backend({"a": [OSError("no"), "A"], "b": "B"})
    ran = await run(first >> Agent("b"), backend)
    assert ran.answers == [("a", "A"), ("b", "B")]
    with raises_from(OSError, match="no"):
        await (first >> Agent("b")).run("Hi", backend=mock_backend({"a": [OSError("no"), "A"], "b": "B"}))


@newest
async def test_an_agents_key_holds_its_last_answer_only() -> None:
    """What an agent said before it called a tool is not in its key here; on the default target it is."""

    def look() -> str:
        return "found"

    thinking = types.Content(
        role="model",
        parts=[
            types.Part(text="Let me look. "),
            types.Part(function_call=types.FunctionCall(name="look", args={})),
        ],
    )
    expr, script = Agent("a").tool(look).writes("k"), {"a": [thinking, "Found."]}
    assert (await run(expr, mock_backend(script))).state == {"k": "Found."}
    default = await expr.run("Hi", backend=mock_backend(script))
    assert default.state == {"k": "Let me look. Found."}


# --- pausing --------------------------------------------------------------------------------------


@newest
async def test_a_confirmation_deep_inside_pauses_and_goes_on() -> None:
    """A tool that needs approval stops the run; approved, it runs once and the loop goes on where it was.

    Only a tap before the first answer runs again, and the agent that goes on sees the user's message.
    """
    paid: list[int] = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    payer = Agent("payer").tool(pay, require_confirmation=True)
    script = [call_tool("pay", amount=1), "done 1", call_tool("pay", amount=2), "done 2"]
    backend = mock_backend({"first": "F", "pre": "P", "payer": script, "end": "E"})
    looks: list[str] = []
    before, after = tap(lambda state: looks.append("before")), tap(lambda state: looks.append("after"))
    loop = (Agent("pre") >> payer) * 2
    chat = Conversation(before >> Agent("first") >> after >> loop >> Agent("end"), backend)
    ran = await chat.send(user("Hello"))
    for expected in ([1], [1, 2]):
        assert not backend.calls["end"]
        (request,) = {id for event in ran.events for id in event.long_running_tool_ids or ()}
        answer = types.FunctionResponse(
            id=request, name="adk_request_confirmation", response={"confirmed": True}
        )
        ran = await chat.send(types.Content(role="user", parts=[types.Part(function_response=answer)]))
        assert paid == expected
    assert {agent: len(calls) for agent, calls in backend.calls.items()} == {
        "first": 1,
        "pre": 2,
        "payer": 4,
        "end": 1,
    }
    assert said(backend.calls["payer"][0]) == [("user", "P")]
    assert said(backend.calls["payer"][1])[0] == ("user", "Hello")
    assert looks == ["before", "after", "before", "before"]


# --- ADK takes it ---------------------------------------------------------------------------------


@newest
@pytest.mark.parametrize("how", ["app", "node", "agent"])
async def test_adk_runs_it_as_app_node_and_agent(how: str) -> None:
    """ADK's `App` and `Runner` take the workflow as their root."""
    root = build_workflow((Agent("a") >> Agent("b")).to_ir(), mock_backend({"a": "A", "b": "B"}).model_for)
    given: dict[str, Any] = {how: App(name="app", root_agent=root) if how == "app" else root}
    if how != "app":
        given["app_name"] = "app"
    runner = Runner(session_service=InMemorySessionService(), auto_create_session=True, **given)
    stream = runner.run_async(user_id="u", session_id="s", new_message=user("Hi"))
    assert [text(event) async for event in stream] == ["A", "B"]


@newest
def test_it_carries_its_ir() -> None:
    """The workflow, every composite in it and every agent carry the IR node they were made from."""
    from google.adk.workflow import Workflow

    expr = Agent("a") >> (Agent("b") | Agent("c")).named("both")
    root = expr.build(target="workflow")
    assert isinstance(root, Workflow)
    assert root.graph is not None
    made: list[Any] = [root, *root.graph.nodes[1:]]
    assert [node.ir.name for node in made] == [root.name, "a", "both"]
    assert made[0].ir.children[0] == expr.node.children[0]


@newest
def test_each_build_gives_fresh_objects() -> None:
    """Two builds of one expression share no native object."""
    expr = Agent("a") >> Agent("b") * 2
    one, two = expr.build(target="workflow"), expr.build(target="workflow")
    assert one.graph is not None
    assert two.graph is not None
    # The first node is ADK's own START, of which there is one.
    assert not {id(node) for node in one.graph.nodes[1:]} & {id(node) for node in two.graph.nodes[1:]}


@newest
def test_a_single_step_gets_a_workflow_around_it() -> None:
    """One agent alone builds too; what cannot be built alone is refused under its own name."""
    root = Agent("solo").build(target="workflow")
    assert root.graph is not None
    assert [node.name for node in root.graph.nodes][1:] == ["solo"]
    with pytest.raises(UnsupportedNodeError, match=r"'ask': .* gate node"):
        gate(lambda s: True).named("ask").build(target="workflow")


@newest
async def test_functions_are_given_resources() -> None:
    """Steps, taps, tests of routes, ends of loops, tools and callbacks share what is open in the run."""
    log: list[str] = []

    @contextmanager
    def shop() -> Generator[str]:
        log.append("open")
        yield "shop"
        log.append("closed")

    def noted(where: str, result: Any = None) -> Any:
        def function(state: Any, shop: str) -> Any:
            log.append(f"{where} {shop}")
            return result

        return function

    def price(article: str, shop: str) -> str:
        return f"{article} of the {shop}"

    def before(callback_context: Any, shop: str) -> None:
        log.append(f"callback {shop}")

    expr = (
        S.fn(noted("step", {"x": 1}))
        >> Loop(Agent("a").tools(price).before_agent(cast(Any, before)), max_iterations=2).until(
            noted("until", True)
        )
        >> Route("x").when(noted("test", True), tap(noted("tap")))
    ).inject(shop=Resource(shop, scope="invocation"))
    ran = await run(expr, mock_backend({"a": [call_tool("price", article="tea"), "done"]}))
    assert ran.answers == [("a", "done")]
    assert log == ["open", "step shop", "callback shop", "until shop", "test shop", "tap shop", "closed"]


@newest
async def test_middleware_does_not_act(caplog: pytest.LogCaptureFixture) -> None:
    """A graph brings no plugin, and each agent says so, also of middleware that is around it."""
    await run(
        (Agent("a").middleware(retry()) >> Agent("b")).middleware(timeout(9)), mock_backend(default="ok")
    )
    told = [record.getMessage() for record in caplog.records if record.name == "adk_fluent.middleware"]
    assert [line.partition(" does not act")[0] for line in told] == [
        "'a': its middleware (Timeout, Retry)",
        "'b': its middleware (Timeout)",
    ]


# --- what it refuses ------------------------------------------------------------------------------

agent = AgentNode(name="inner")
NATIVE = Native(LlmAgent(name="native"))
REFUSED: Sequence[Node] = [
    FallbackNode(name="odd", children=(agent,)),
    RaceNode(name="odd", children=(agent,)),
    GateNode(name="odd", predicate=bool, message="{k}?", into="k"),
    MapOverNode(name="odd", list_key="k", body=agent),
    TimeoutNode(name="odd", body=agent, seconds=1),
    TransferNode(name="odd", target="first", condition=bool),
    ModelSelectorNode(name="odd"),
    RemoteAgentNode(name="odd", endpoint="http://127.0.0.1"),
    NativeNode(name="odd", native=NATIVE),
    KnownNativeNode(name="odd", native=NATIVE, body=agent),
]


@newest
def test_every_node_type_is_built_or_refused() -> None:
    """The target knows every node type there is: it builds it or refuses it, never both."""
    from adk_fluent.backends.adk.compile.graph import REFUSED_TYPES, VISITORS

    assert VISITORS.keys() | REFUSED_TYPES == set(NODE_TYPES)
    assert not VISITORS.keys() & REFUSED_TYPES
    assert {type(node) for node in REFUSED} == REFUSED_TYPES


@newest
@pytest.mark.parametrize("node", REFUSED, ids=lambda node: node.kind)
def test_a_refusal_names_the_node_and_its_type(node: Node) -> None:
    """A node that `Workflow` cannot run is refused by name and type, wherever it stands."""
    tree = SequenceNode(children=(AgentNode(name="first"), SequenceNode(children=(node,))))
    with pytest.raises(
        UnsupportedNodeError, match=rf"'odd': .* an? {node.kind} node \({type(node).__name__}\)"
    ):
        build_workflow(tree)


BEYOND: Sequence[tuple[Expr[Any], str]] = [
    (Agent("boss").delegate(Agent("helper")), "'boss': .* delegate"),
    (Agent("a") // Agent("b"), "fallback"),
    (race(Agent("a"), Agent("b")), "race"),
    (map_over("k", Agent("a")), "map"),
    (Agent("a").timeout(1), "timeout"),
    (Agent("a") >> transfer("a", condition=lambda s: False), "'to_a': .* transfer"),
]


@newest
@pytest.mark.parametrize(("expr", "reason"), BEYOND)
def test_expressions_beyond_a_workflow_are_refused(expr: Expr[Any], reason: str) -> None:
    """What `Workflow` has no counterpart for is refused when it is built, not when it runs."""
    with pytest.raises(UnsupportedNodeError, match=reason):
        expr.build(target="workflow")


@newest
def test_streaming_edges_are_refused() -> None:
    """An edge that passes pieces of answers on is refused rather than quietly waiting for the whole."""
    edge = Annotations(edge=EdgeSemantics(buffering="chunked", chunk_size=5))
    first = AgentNode(name="first", annotations=edge)
    with pytest.raises(UnsupportedNodeError, match=r"'first': .* 'chunked' .* Leave out .stream_to"):
        build_workflow(SequenceNode(children=(first, AgentNode(name="second"))))


@newest
def test_branches_that_do_not_wait_are_refused() -> None:
    """`JoinNode` waits for all branches, so to go on with the first is refused, saying what to do."""
    with pytest.raises(UnsupportedNodeError, match=r"'f': .* 'first_complete', .* Leave it out"):
        build_workflow(ParallelNode(name="f", children=(AgentNode(name="a"),), merge="first_complete"))


@newest
async def test_events_of_branches_come_as_they_happen() -> None:
    """A quick branch need not wait for a slow one, so `interleave` holds on this target."""
    called = asyncio.Event()

    async def slow(request: LlmRequest) -> AsyncGenerator[str]:
        await called.wait()
        yield "slow"

    def quick(request: LlmRequest) -> str:
        called.set()
        return "quick"

    branches = FanOut(Agent("a"), Agent("b"), merge="interleave")
    ran = await run(branches, mock_backend({"a": slow, "b": quick}))
    assert ran.answers == [("b", "quick"), ("a", "slow")]


@newest
def test_callbacks_of_a_composite_are_refused() -> None:
    """`Workflow` has no agent callbacks, so a composite that has some is refused."""
    expr = (Agent("a") >> Agent("b")).named("p").before_agent(lambda callback_context: None)
    with pytest.raises(CompileError, match=r"'p': .* 'before_agent_callback' on Workflow"):
        expr.build(target="workflow")


@newest
def test_empty_composites_are_refused_as_on_the_default_target() -> None:
    """The checks of a whole tree hold on this target too."""
    with pytest.raises(ExpressionError, match="'none' is empty"):
        build_workflow(SequenceNode(children=(ParallelNode(name="none"),)))


@newest
@pytest.mark.parametrize(
    "expr", [Agent("a") >> Agent("b"), FanOut("f", Agent("a"), Agent("c")) >> Agent("b"), Agent("a")]
)
async def test_an_error_event_ends_the_run(expr: Expr[Any]) -> None:
    """A graph goes on behind a node whose model reports an error; ours raises, naming the agent."""
    backend = mock_backend({"a": LlmResponse(error_code="SAFETY", error_message="blocked")}, default="ok")
    with pytest.raises(RunError, match="'a' gave no answer but an error: SAFETY: blocked"):
        await run(expr, backend)
    assert not backend.calls.get("b")
