"""`StateSchema` on ADK's real runner: answers that become fields, contexts, and writes held to a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.tool_context import ToolContext
from pydantic import BaseModel, Field

from adk_fluent import Agent, Route, S, StateSchema, gate, map_over, tap
from adk_fluent.errors import (
    ArgumentError,
    ExpressionError,
    ReadOnlyStateError,
    StateKeyError,
    StateTypeError,
)
from adk_fluent.ir import AgentNode, walk
from adk_fluent.state import AppScoped, Temp, UserScoped
from adk_fluent.testing import MockBackend, call_tool, mock_backend


class Ticket(BaseModel):
    id: str
    urgent: bool = False


class Bill(StateSchema):
    intent: str
    confidence: Annotated[float, Field(ge=0, le=1)]
    ticket_id: str | None = None
    attempts: int = 0
    ticket: Ticket
    mood: Literal["calm", "upset"]
    tier: Annotated[str, UserScoped]
    version: Annotated[str, AppScoped]
    scratch: Annotated[dict[str, int], Temp]


class Answer(BaseModel):
    intent: str
    confidence: float
    reason: str = ""


def mocked(responses: Mapping[str, Any] | None = None, **options: Any) -> MockBackend:
    """Scripted models on sessions of their own, since users and apps share state across sessions."""
    options.setdefault("session_service", InMemorySessionService())
    return mock_backend(responses, **options)


def asked(backend: MockBackend, agent: str) -> Mapping[str, Any]:
    """The JSON schema that an agent's model was asked to answer with."""
    schema: Any = backend.calls[agent][0].config.response_schema
    return schema.model_json_schema()


def told(backend: MockBackend, agent: str) -> str:
    """The instruction that an agent's model got."""
    config: Any = backend.calls[agent][0].config
    return str(config.system_instruction)


# --- what an agent writes -------------------------------------------------------------------------


async def test_one_text_field_holds_the_answer_as_it_is() -> None:
    """An agent that writes one `str` field answers in plain text, stored under the field's key."""
    backend = mocked({"a": "gold", "b": "done"})
    run = await (Agent("a").writes(Bill.tier) >> Agent("b").instruct("Tier: {user:tier}")).run(
        "x", backend=backend
    )
    assert run.state["user:tier"] == "gold"
    assert backend.calls["a"][0].config.response_schema is None
    assert "Tier: gold" in told(backend, "b")


async def test_several_fields_are_asked_for_as_json_and_land_under_their_own_keys() -> None:
    """The model is asked for JSON of just those fields; each value gets its own scoped key."""
    answer = {"intent": "refund", "confidence": 0.5, "tier": "gold", "scratch": {"n": 1}, "ticket_id": None}
    backend = mocked({"a": answer, "b": "done"})
    first = Agent("a").writes(Bill.intent, Bill.confidence, Bill.tier, Bill.scratch, Bill.ticket_id)
    second = Agent("b").instruct("{intent} {confidence} {user:tier} {temp:scratch}")
    run = await (first >> second).run("x", backend=backend)
    assert run.state == {"intent": "refund", "confidence": 0.5, "user:tier": "gold"}
    assert set(asked(backend, "a")["properties"]) == set(answer)
    assert "refund 0.5 gold {'n': 1}" in told(backend, "b")
    assert json.loads(first.node.name and (await first.run("x", backend=backend)).text) == answer


async def test_one_field_that_is_no_text_is_asked_for_as_json() -> None:
    """A single field of another type is a JSON answer too, and a dict after `>>` routes on its key."""
    backend = mocked({"a": {"mood": "upset"}, "yes": "sorry", "no": "fine"})
    pipeline = Agent("a").writes(Bill.mood) >> {"upset": Agent("yes"), "calm": Agent("no")}
    run = await pipeline.run("x", backend=backend)
    assert (run.text, run.state) == ("sorry", {"mood": "upset"})


class Rated(StateSchema):
    score: float
    scores: list[float]


async def test_a_model_may_write_a_float_as_a_whole_number() -> None:
    """An agent that answers `1` for a field that is a float has written `1.0`, which later steps read."""
    got: list[Any] = []
    rater = Agent("rater").writes(Rated.score, Rated.scores)
    step = tap(lambda state: got.append((state["score"], Rated.bind(state).scores)))
    result = await (rater >> step).run(
        "hi", backend=mock_backend({"rater": '{"score": 1, "scores": [2, 0.5]}'})
    )
    assert repr(result.state) == "{'score': 1.0, 'scores': [2.0, 0.5]}"
    assert repr(got) == "[(1.0, [2.0, 0.5])]"


async def test_a_returned_model_that_has_the_fields_is_the_answer() -> None:
    """With `.returns`, in any order, its fields land under their keys and `ask` gives the model."""
    backend = mocked({"a": {"intent": "refund", "confidence": 0.5, "reason": "r"}})
    for agent in (
        Agent("a").returns(Answer).writes(Bill.intent, Bill.confidence),
        Agent("a").writes(Bill.intent, Bill.confidence).returns(Answer),
        Agent("a").writes(Bill.intent, Bill.confidence) @ Answer,
    ):
        run = await agent.run("x", backend=backend)
        assert run.state == {"intent": "refund", "confidence": 0.5}
        answer = await agent.ask_async("x", backend=backend)
        assert answer == Answer(intent="refund", confidence=0.5, reason="r")


async def test_a_field_of_the_returned_type_holds_the_whole_answer() -> None:
    """A field whose type is what the agent returns is stored as ADK stores such an answer."""
    backend = mocked({"a": {"id": "T-1", "urgent": True}})
    run = await Agent("a").returns(Ticket).writes(Bill.ticket).run("x", backend=backend)
    assert Bill.bind(run.state).ticket == Ticket(id="T-1", urgent=True)


async def test_reads_takes_fields() -> None:
    """`.reads` shows the value under a field's key, and the node keeps the field with its type."""
    agent = Agent("a").reads(Bill.tier, "note")
    backend = mocked(default="ok")
    await agent.run("x", backend=backend, state={"user:tier": "gold", "note": "n"})
    block = told(backend, "a").partition("<conversation_context>")[2]
    assert "gold" in block
    assert "n" in block
    assert agent.node.reads_keys == {"user:tier", "note"}
    assert [field.key for field in agent.reads(Bill.confidence).node.read_fields] == [
        "user:tier",
        "confidence",
    ]


def test_writes_and_returns_that_do_not_fit_are_refused() -> None:
    """A field that the returned model lacks is found when the expression is written; the nearest is named."""

    class Wrong(BaseModel):
        intnt: str

    with pytest.raises(
        ExpressionError, match=r"'a' writes field 'intent', which its answer, Wrong,.*'intnt'"
    ):
        Agent("a").writes(Bill.intent, Bill.confidence).returns(Wrong)
    with pytest.raises(ExpressionError, match="does not have"):
        Agent("a").returns(Wrong).writes(Bill.intent)


@pytest.mark.parametrize("keys", [(), ("a", "b"), (Bill.intent, "b")])
def test_writes_takes_one_key_or_fields(keys: tuple[object, ...]) -> None:
    """Several plain keys would have no types, so they are refused with the way out."""
    with pytest.raises(ArgumentError, match="takes one key, or fields of a StateSchema"):
        Agent("a").writes(*keys)
    with pytest.raises(ArgumentError, match="not int 3"):
        Agent("a").writes(3)


def test_the_last_writes_wins() -> None:
    """Each call replaces what earlier ones said, in both directions."""
    fields = Agent("a").writes("x").writes(Bill.intent, Bill.confidence)
    assert fields.node.writes_keys == {"intent", "confidence"}
    assert fields.writes("x").node.writes_keys == {"x"}
    assert fields.writes("x") == Agent("a").writes("x")


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ("no json", StateTypeError, "'a' must answer in JSON to write intent, confidence"),
        ("[1]", StateTypeError, "'a' must answer with a JSON object"),
        ({"intent": "x"}, StateKeyError, r"'a' answered without Bill\.confidence"),
        ({"intent": "x", "confidnce": 1}, StateKeyError, "Did you mean 'confidnce'"),
        ({"intent": "x", "confidence": 3}, StateTypeError, "'a' wrote what does not fit.*less than or equal"),
        ({"intent": 3, "confidence": 1}, StateTypeError, r"Bill\.intent \(session key 'intent'\) takes str"),
    ],
)
async def test_an_answer_that_does_not_fit_stops_the_run(
    answer: Any, error: type[Exception], says: str
) -> None:
    """Nothing wrong reaches the state: the run ends with an error that names agent, field and key."""
    with pytest.raises(error, match=says):
        await Agent("a").writes(Bill.intent, Bill.confidence).run("x", backend=mocked({"a": answer}))


async def test_a_mapped_agent_with_fields_gives_its_answers_parsed() -> None:
    """`map_over` collects what agents that answer in JSON say as data."""
    body = Agent("a").writes(Bill.intent, Bill.confidence)
    backend = mocked({"a": {"intent": "x", "confidence": 1}})
    run = await map_over("items", body, output_key="results").run("x", backend=backend, state={"items": [1]})
    assert run.state["results"] == [{"intent": "x", "confidence": 1}]


# --- bind, wherever state is met ------------------------------------------------------------------


async def test_tools_and_callbacks_read_and_write_typed() -> None:
    """A schema bound in a tool or a callback reads state and writes it for good."""

    def open_ticket(query: str, tool_context: ToolContext) -> str:
        """Open a ticket."""
        state = Bill.bind(tool_context)
        state.ticket = Ticket(id=f"T-{query}")
        state.attempts += 1
        return f"opened for {state.intent}"

    def before(callback_context: CallbackContext) -> None:
        Bill.bind(callback_context).tier = "gold"

    agent = Agent("a").tool(open_ticket).before_agent(before)
    backend = mocked({"a": [call_tool("open_ticket", query="7"), "done"]})
    run = await agent.run("x", backend=backend, state={"intent": "refund"})
    assert run.state["ticket"] == {"id": "T-7", "urgent": False}
    assert Bill.bind(run.state).ticket == Ticket(id="T-7")
    assert (run.state["attempts"], run.state["user:tier"]) == (1, "gold")
    responses = [
        part.function_response for content in backend.calls["a"][1].contents for part in content.parts or ()
    ]
    assert [r.response for r in responses if r] == [{"result": "opened for refund"}]


async def test_an_instruction_reads_typed_but_cannot_write() -> None:
    """ADK's read-only context can be bound; a write through it is an error that names it."""

    def reading(ctx: ReadonlyContext) -> str:
        return f"Intent: {Bill.bind(ctx).intent}"

    def writing(ctx: ReadonlyContext) -> str:
        Bill.bind(ctx).intent = "x"
        return ""

    backend = mocked(default="ok")
    await Agent("a").instruct(reading).run("x", backend=backend, state={"intent": "refund"})
    assert "Intent: refund" in told(backend, "a")
    with pytest.raises(ReadOnlyStateError, match=r"'intent'.* ReadonlyContext is read-only"):
        await Agent("a").instruct(writing).run("x", backend=backend)


async def test_transforms_and_predicates_read_typed() -> None:
    """The state that functions get can be bound; a transform returns what it writes."""

    def escalate(state: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        Bill.bind(changed).attempts = Bill.bind(state).attempts + 1
        return changed

    route = Route().when(lambda state: Bill.bind(state).attempts > 1, Agent("boss")).otherwise(Agent("clerk"))
    backend = mocked({"boss": "boss", "clerk": "clerk"})
    assert (await (S.fn(escalate) >> route).run("x", backend=backend)).text == "clerk"
    run = await (S.fn(escalate) >> route).run("x", backend=backend, state={"attempts": 1})
    assert (run.text, run.state) == ("boss", {"attempts": 2})
    asked = gate(lambda state: Bill.bind(state).attempts == 0) >> Agent("clerk")
    assert (await asked.run("x", backend=backend)).pending


async def test_typed_state_survives_a_session_store(tmp_path: Path) -> None:
    """Typed values that one run writes to SQLite are typed when a later run reads them."""

    def remember(callback_context: CallbackContext) -> None:
        state = Bill.bind(callback_context)
        state.ticket, state.version, state.tier = Ticket(id="T", urgent=True), "2", "gold"

    service = SqliteSessionService(str(tmp_path / "s.db"))
    backend = mocked(default="ok", session_service=service)
    await Agent("a").before_agent(remember).run("x", backend=backend, session_id="s")

    seen: list[object] = []

    def recall(ctx: ReadonlyContext) -> str:
        state = Bill.bind(ctx)
        seen.extend([state.ticket, state.version, state.tier])
        return "x"

    await Agent("a").instruct(recall).run("x", backend=backend, session_id="s")
    assert seen == [Ticket(id="T", urgent=True), "2", "gold"]


# --- .schema: a run keeps to it -------------------------------------------------------------------


def test_schema_is_said_on_any_expression() -> None:
    """`.schema` annotates the node of whatever it is called on, and takes nothing but a schema."""
    for expr in (Agent("a"), Agent("a") >> Agent("b"), Agent("a") | Agent("b"), Agent("a") * 2, S.set(a=1)):
        assert expr.schema(Bill).node.annotations.schema is Bill
    for wrong in (dict, Bill.intent, "Bill", BaseModel):
        with pytest.raises(ArgumentError, match="takes a subclass of StateSchema"):
            Agent("a").schema(wrong)  # pyright: ignore[reportArgumentType]  # what is refused


async def test_writes_that_fit_the_schema_pass() -> None:
    """A run that keeps to its schema is the same with and without it; other scopes are free."""
    pipeline = (
        Agent("a").writes(Bill.intent)
        >> S.set(attempts=2)
        >> S.fn(lambda state: {"user:other": 1})
        >> Agent("b")
    )
    plain = await pipeline.run("x", backend=mocked(default="ok"))
    bound = await pipeline.schema(Bill).run("x", backend=mocked(default="ok"))
    assert plain.state == bound.state == {"intent": "ok", "attempts": 2, "user:other": 1}
    assert [event.author for event in plain] == [event.author for event in bound]


def writer(name: str, **values: Any) -> Agent[str]:
    """An agent whose callback writes these values."""

    def write(callback_context: CallbackContext) -> None:
        for key, value in values.items():
            callback_context.state[key] = value

    return Agent(name).before_agent(write)


@pytest.mark.parametrize(
    ("expr", "error", "says"),
    [
        (Agent("w").writes("intnt"), StateKeyError, "'w' wrote state key 'intnt', which Bill.*'intent'"),
        (Agent("w").writes("attempts"), StateTypeError, r"'w' wrote .*Bill\.attempts.* takes int, not 'ok'"),
        (writer("w", mood="angry"), StateTypeError, r"'w' wrote .*Bill\.mood"),
        (writer("w", **{"user:tier": 3}), StateTypeError, r"'w' wrote .*user key 'user:tier'"),
        (S.set(oops=1).named("w"), StateKeyError, "'w' wrote state key 'oops'"),
        (Agent("x") >> (Agent("y") | Agent("w").writes("oops")), StateKeyError, "'w' wrote state key 'oops'"),
        (Agent("w").writes("oops") * 2, StateKeyError, "'w' wrote state key 'oops'"),
        (Route("k").ne("x", Agent("w").writes("oops")), StateKeyError, "'w' wrote state key 'oops'"),
    ],
)
async def test_a_write_that_breaks_the_schema_stops_the_run(
    expr: Any, error: type[Exception], says: str
) -> None:
    """Undeclared keys and wrong types raise, naming agent and key, wherever in the expression they happen."""
    backend = mocked(default="ok")
    with pytest.raises(error, match=says):
        await expr.schema(Bill).run("x", backend=backend, session_id="s")
    await expr.run("x", backend=mocked(default="ok"))


async def test_a_broken_write_is_not_stored() -> None:
    """The session keeps nothing of the event that broke the schema."""
    backend = mocked(default="ok")
    pipeline = Agent("a").writes(Bill.intent) >> Agent("w").writes("oops").schema(Bill)
    with pytest.raises(StateKeyError):
        await pipeline.run("x", backend=backend, session_id="kept")
    run = await Agent("b").run("x", backend=backend, session_id="kept")
    assert run.state == {"intent": "ok"}


async def test_a_schema_binds_only_its_expression() -> None:
    """Steps outside the bound expression may write what they like."""
    pipeline = Agent("a").writes(Bill.intent).schema(Bill) >> Agent("b").writes("free")
    run = await pipeline.run("x", backend=mocked(default="ok"))
    assert run.state == {"intent": "ok", "free": "ok"}


async def test_tools_are_held_to_the_schema() -> None:
    """A tool's writes count as writes of the agent that called it."""

    def scribble(tool_context: ToolContext) -> str:
        """Write something."""
        tool_context.state["oops"] = 1
        return "done"

    backend = mocked({"w": [call_tool("scribble"), "ok"]})
    with pytest.raises(StateKeyError, match="'w' wrote state key 'oops'"):
        await Agent("w").tool(scribble).schema(Bill).run("x", backend=backend)


def test_a_built_agent_keeps_its_schema() -> None:
    """`.build()` carries the schema, so native runners enforce it too."""
    root = Agent("w").writes("oops").schema(Bill).build()
    assert getattr(root, "ir").annotations.schema is Bill  # noqa: B009


def test_typed_fields_stay_in_the_graph() -> None:
    """The checker finds the types of what an agent writes on its node."""
    pipeline = Agent("a").writes(Bill.intent, Bill.confidence) >> Agent("b")
    nodes = [node for node in walk(pipeline.to_ir()) if isinstance(node, AgentNode)]
    assert [field.key for field in nodes[0].written_fields] == ["intent", "confidence"]
    assert nodes[0].writes_keys == {"intent", "confidence"}
