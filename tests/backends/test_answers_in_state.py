"""What a structured answer puts into state: the same in the run that wrote it and in a later one."""

from __future__ import annotations

import json
import pickle
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from google.adk.apps.app import App
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from google.genai import types
from pydantic import BaseModel, Field

from adk_fluent import (
    Agent,
    C,
    FanOut,
    P,
    Pipeline,
    Route,
    S,
    StateSchema,
    final_text,
    loop_until,
    map_over,
    race,
    tap,
)
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.steps.scripted import Script, ScriptedLlm
from adk_fluent.errors import ADKFluentError, MissingKeyError
from adk_fluent.expr.base import Expr
from adk_fluent.ir.predicates import is_held
from adk_fluent.state import AppScoped, UserScoped
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.backends.support import ANYWAY, SERVICES, close, session_service


class Mood(Enum):
    CALM = "calm"
    UPSET = "upset"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Line(BaseModel):
    price: Decimal
    note: str | None = None


class Bill(BaseModel):
    due: date
    paid: datetime | None = None
    mood: Mood
    level: Level
    total: Decimal
    id: UUID
    file: Path
    lines: list[Line] = []
    first: Line | None = None


class Desk(StateSchema):
    due: date
    paid: datetime
    mood: Mood
    level: Level
    total: Annotated[Decimal, Field(ge=0)]
    id: Annotated[UUID, UserScoped]
    file: Path
    first: Line
    lines: Annotated[list[Line], AppScoped]
    bill: Bill | None = None


BILL = Bill(
    due=date(2025, 6, 1),
    paid=datetime(2025, 6, 1, 12, 30, 0, 500, tzinfo=UTC),
    mood=Mood.UPSET,
    level=Level.HIGH,
    total=Decimal("10.10"),
    id=UUID(int=7),
    file=Path("bills/7.pdf"),
    lines=[Line(price=Decimal("9.5")), Line(price=Decimal(3), note="late")],
    first=Line(price=Decimal("9.5")),
)
DATA = json.loads(BILL.model_dump_json())
SAID = {**DATA, "total": 10.10}  # a model may well say a number
FIELDS: tuple[object, ...] = (
    Desk.due,
    Desk.paid,
    Desk.mood,
    Desk.level,
    Desk.total,
    Desk.id,
    Desk.file,
    Desk.first,
    Desk.lines,
)
NAMES = ("due", "paid", "mood", "level", "total", "id", "file", "first", "lines")
A = Agent("a")
WHOLE, FIELD, PARTS = (A @ Bill).writes("bill"), (A @ Bill).writes(Desk.bill), A.writes(*FIELDS)
BOTH = (A @ Bill).writes(*FIELDS)

SHAPES: Mapping[str, Callable[[Expr[Any]], Expr[Any]]] = {
    "agent": lambda agent: agent,
    "sequence": lambda agent: S.set(x=1) >> agent >> Agent("b"),
    "nested": lambda agent: Pipeline("outer", Agent("b"), Pipeline("inner", agent, S.counter("n"))),
    "fan out": lambda agent: FanOut(agent, Agent("b")),
    "race": lambda agent: race(agent, Agent("broken")),
    "loop": lambda agent: agent * 2,
    "route": lambda agent: Route("x").eq(1, agent).otherwise(Agent("b")),
    "condition": lambda agent: agent.proceed_if(lambda state: True),
    "fallback": lambda agent: Agent("broken") // agent,
    "timeout": lambda agent: agent.timeout(60),
    "map": lambda agent: map_over("items", agent),
    "delegate": lambda agent: Agent("boss").delegate(Pipeline("below", agent)),
}
RESPONSES = {
    "a": SAID,
    "broken": RuntimeError("down"),
    "boss": call_tool("transfer_to_agent", agent_name="below"),
}


@pytest.fixture(params=SERVICES)
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseSessionService]:
    """Each of ADK's session services in turn."""
    made = session_service(request.param, tmp_path)
    yield made
    await close(made)


def exactly(state: Mapping[str, Any]) -> str:
    """State to compare by: also the types count, and anything but JSON types is refused."""
    return json.dumps({key: value for key, value in state.items() if value is not None}, sort_keys=True)


async def stored(service: BaseSessionService, session_id: str, app: str = "adk_fluent_app") -> dict[str, Any]:
    """What a later run would find."""
    session = await service.get_session(app_name=app, user_id="user", session_id=session_id)
    assert session is not None
    return dict(session.state)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "agent", [WHOLE, FIELD, PARTS, BOTH], ids=["whole", "whole field", "fields", "fields of a model"]
)
async def test_state_is_the_same_in_the_run_and_after_it(
    shape: str, agent: Agent[Any], service: BaseSessionService
) -> None:
    """In every composite, on every session service, the next step sees what the next run reads."""
    seen: list[str] = []
    backend = mock_backend(RESPONSES, default="ok", session_service=service)
    expr = SHAPES[shape](agent) >> tap(lambda state: seen.append(exactly(dict(state))))
    state = {"x": 1, "items": ["one", "two"]}
    run = await expr.run("hi", backend=backend, session_id="s", state=state)
    later = await stored(service, "s")
    assert seen == [exactly(later)] == [exactly(run.state)]
    if shape == "map":
        assert len(later["results"]) == 2
        return
    if agent in (WHOLE, FIELD):
        assert Desk.bind(later).bill == BILL
    else:
        typed = Desk.bind(later)
        assert [getattr(typed, name) for name in NAMES] == [getattr(BILL, name) for name in NAMES]


PREDICATES: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "enumeration": lambda state: state["bill"]["mood"] == "upset",
    "number": lambda state: state["bill"]["level"] >= 2,
    "date": lambda state: state["bill"]["due"] < "2025-07-01",
    "decimal": lambda state: state["bill"]["total"] == "10.1",
    "none": lambda state: state["bill"]["lines"][0].get("note") is None,
    "typed": lambda state: Desk.bind(state).bill.total < Decimal(11),  # pyright: ignore[reportOptionalMemberAccess]  # it was written
}


@pytest.mark.parametrize("name", PREDICATES)
async def test_a_predicate_has_one_answer(name: str, service: BaseSessionService) -> None:
    """A route takes the same branch right after the answer and in a later run of the session."""
    route = Route().when(PREDICATES[name], Agent("yes")).otherwise(Agent("no"))
    backend = mock_backend({"a": SAID, "yes": "yes", "no": "no"}, session_service=service)
    at_once = await (WHOLE >> route).run("hi", backend=backend, session_id="s")
    later = await route.run("hi", backend=backend, session_id="s")
    assert (at_once.text, later.text) == ("yes", "yes")


@pytest.mark.parametrize("agent", [WHOLE, PARTS, BOTH])
@pytest.mark.parametrize("built", ["build", "to_app"])
async def test_a_plain_runner_stores_the_same(
    agent: Agent[Any], built: str, service: BaseSessionService
) -> None:
    """What answers need travels with native agents and apps, whoever runs them."""
    seen: list[str] = []
    model = ScriptedLlm.of(Script("a", json.dumps(SAID), "repeat", []), merge_state=False)
    expr = agent.model(model) >> tap(lambda state: seen.append(exactly(dict(state))))
    app = App(name="x", root_agent=expr.build()) if built == "build" else expr.to_app()
    runner = Runner(app=app, session_service=service)
    await service.create_session(app_name=app.name, user_id="user", session_id="s")
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async for _ in runner.run_async(user_id="user", session_id="s", new_message=message):
        pass
    assert seen == [exactly(await stored(service, "s", app.name))]
    assert json.loads(seen[0])


async def test_fields_that_are_none_are_kept_in_an_answer_under_a_plain_key() -> None:
    """What is stored reads back equal, also where a field may be `None` and has no default."""

    class Found(BaseModel):
        who: str | None
        count: int

    said, backend = {"who": None, "count": 1}, mock_backend(default='{"who": null, "count": 1}')
    finder = Agent("a").returns(Found)
    run = await finder.writes("found").run("hi", backend=backend)
    assert run.state["found"] == said
    assert Found.model_validate(run.state["found"]) == run.output
    run = await map_over("items", finder).run("hi", backend=backend, state={"items": ["x"]})
    assert run.state["results"] == [said]


def instruction(backend: MockBackend) -> str:
    """What the agent was told in its latest request."""
    config: Any = backend.calls["a"][-1].config
    return config.system_instruction


@pytest.mark.parametrize("state", [{"k": None}, {}], ids=["none", "absent"])
async def test_a_key_that_holds_none_is_empty_text_as_in_adk(state: dict[str, None]) -> None:
    """A placeholder needs its key, which may hold `None`; a `?` makes the key itself optional."""
    reader, backend = Agent("a").instruct("<{k}>"), mock_backend(default="ok")
    for agent in (reader, reader.context(C.none()), Agent("a").instruct(P.task("<{k}>"))):
        if state:
            await agent.run("hi", backend=backend, state=state)
            assert "<>" in instruction(backend)
        else:
            with pytest.raises(MissingKeyError, match=r"\{k\}"):
                await agent.run("hi", backend=backend, state=state)
    await Agent("a").instruct("<{k?}>").run("hi", backend=backend, state=state)
    assert "<>" in instruction(backend)


async def test_an_item_may_be_none_as_in_the_answer_that_has_it() -> None:
    """`map_over` gives its body each item of a typed answer; one that is null is a key that holds `None`."""
    seen: list[object] = []
    found, note = Agent("f").returns(list[int | None]).writes("k"), S.fn(lambda s: seen.append(s["_item"]))
    backend, none, some = mock_backend({"f": "[1, null]"}, default="ok"), Agent("none"), Agent("some")
    reader = found >> map_over("k", note >> Agent("a").instruct("<{_item}>"), concurrency=1)
    run = await reader.run("hi", backend=backend)
    assert (seen, run.state["k"], run.state["results"]) == ([1, None], [1, None], ["ok", "ok"])
    assert "<>" in instruction(backend)
    routed = found >> map_over("k", Route("_item").eq(None, none).otherwise(some))
    run = await routed.run("hi", backend=mock_backend({"f": "[1, null]", "none": "none", "some": "some"}))
    assert run.state["results"] == ["some", "none"]
    (issue,) = (found >> map_over("k", Agent("a").instruct("{_item}"))).check().warnings
    assert (issue.key, "Leave such items out before map, or write {_item?}." in issue.hint) == ("_item", True)
    assert not routed.check().warnings
    ints = Agent("f").returns(list[int]).writes("k")
    assert not (ints >> map_over("k", none.instruct("{_item}"))).check().warnings


async def test_a_route_sees_that_an_answer_was_none() -> None:
    """A predicate may read a key under which a typed answer stored `None`."""
    backend = mock_backend({"a": "null", "yes": "yes"})
    asked = Agent("a").returns(int | None).writes("k")
    for none in (
        Route().when(lambda state: state["k"] is None, Agent("yes")),
        Route("k").eq(None, Agent("yes")),
    ):
        assert (await (asked >> none).run("hi", backend=backend)).text == "yes"


@pytest.mark.parametrize("step", [S.drop("k"), S.set(k=None), S.rename(k="j")], ids=["drop", "set", "rename"])
async def test_a_key_that_a_step_removes_is_missing_in_every_template(step: Expr[Any]) -> None:
    """A removed key holds None, but an instruction, a prompt and a context have no text for it."""
    reader, backend = Agent("a"), mock_backend(default="ok")
    template = reader.instruct("x").context(C.template("{k}"))
    for agent in (reader.instruct("{k}"), reader.instruct(P.task("{k}")), template):
        with pytest.raises(MissingKeyError, match="'k'"):
            await (step >> agent).run("hi", backend=backend, state={"k": 1}, config=ANYWAY)
    optional = reader.instruct("x").context(C.template("<{k?}>"))
    assert (await (step >> optional).run("hi", backend=backend, state={"k": 1})).text == "ok"
    assert (await template.run("hi", backend=backend, state={"k": None})).text == "ok"


@pytest.mark.parametrize(
    "step",
    [
        S.transform("k", len),
        S.require("k"),
        S.zip("k", into="z"),
        S.group_by("k", len, into="z"),
        S.identity() + S.transform("k", len),
        map_over("k", Agent("z").instruct("{_item}")),
    ],
    ids=["transform", "require", "zip", "group_by", "together", "map"],
)
async def test_a_none_in_the_state_is_an_error_where_a_step_needs_a_value(step: Expr[Any]) -> None:
    """The check refuses what certainly raises; a default before it is enough."""
    agent, state = Agent("a").instruct("hi"), {"k": None}
    (issue,) = (step >> agent).check(state=state).errors
    assert (issue.code, issue.key) == ("read-before-write", "k")
    with pytest.raises(ADKFluentError, match="'k'"):
        await (step >> agent).run("hi", backend=mock_backend(default="ok"), state=state)
    assert not (S.default(k=["x"]) >> step >> agent).check(state=state).errors


@pytest.mark.parametrize("none", [S.set(k=None), S.compute(k=lambda state: None)], ids=["set", "function"])
async def test_a_none_for_an_absent_key_writes_nothing(none: Expr[Any]) -> None:
    """A key that is absent stays absent; one that has a value holds None afterwards."""
    asked: list[bool] = []
    step = none >> S.fn(lambda state: asked.append(is_held(state, "k")))
    for state in ({}, {"k": 1}):
        await (step >> Agent("a")).run("hi", backend=mock_backend(default="ok"), state=state)
    assert asked == [False, True]


def test_a_route_with_a_rule_for_none_expects_it() -> None:
    """A rule for None is an answer to a key that may hold it; without one the check warns."""
    asked = Agent("a").instruct("x").returns(int | None).writes("k")
    yes, no = Agent("yes").instruct("x"), Agent("no").instruct("x")
    codes = [
        {issue.code for issue in (asked >> route.otherwise(no)).check().warnings}
        for route in (Route("k").eq(None, yes), Route("k").eq(1, no).eq(None, yes), Route("k").eq(1, yes))
    ]
    assert ["route-missing-key" in found for found in codes] == [False, False, True]
    assert Route("k").eq(None, yes).otherwise(no).check().errors


def test_predicates_of_a_route_say_what_a_none_is_to_them() -> None:
    """One that expects an absent key gets no finding for `None`, and one that reads it gets a single one."""
    yes, no, none = Agent("yes"), Agent("no"), {"k": None}
    expects = Route("k").when(lambda state: state.get("k") is None, yes).otherwise(no)
    reads = Route("k").when(lambda state: state["k"] is None, yes).otherwise(no)
    assert not expects.check(state=none).warnings
    assert [issue.code for issue in reads.check(state=none).warnings] == ["read-before-write"]
    assert expects.check().errors


@pytest.mark.parametrize("test", ["gt", "eq"])
async def test_a_none_has_no_type_that_a_comparison_could_miss(test: str) -> None:
    """A comparison with `None` does not hold, and does not raise either."""
    node = getattr(Route("k"), test)(1, Agent("yes")).otherwise(Agent("no"))
    assert (await node.run("hi", backend=mock_backend({"no": "no"}), state={"k": None})).text == "no"
    report = node.check(state={"k": None})
    assert [issue.code for issue in (*report.errors, *report.warnings)] == ["route-missing-key"]


def test_the_check_says_what_a_none_in_the_state_is() -> None:
    """A key that holds `None` at the start is a warning for a placeholder, not an error."""
    (issue,) = Agent("a").instruct("{k}").check(state={"k": None}).warnings
    assert 'The initial state holds None for "k"' in issue.hint


async def test_an_answer_in_place_of_the_model_s_is_stored_as_the_model_s(
    service: BaseSessionService,
) -> None:
    """A callback that answers instead of the model is read like the model."""

    def answer(callback_context: object, llm_request: object) -> Any:
        from google.adk.models.llm_response import LlmResponse

        text = f"```json\n{json.dumps(SAID)}\n```"
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))

    backend = mock_backend(session_service=service)
    run = await WHOLE.before_model(answer).run("hi", backend=backend, session_id="s")
    assert exactly(run.state) == exactly(await stored(service, "s"))
    assert Desk.bind(run.state).bill == BILL


def _words_and_call(words: str) -> types.Content:
    call = types.FunctionCall(name="look", args={"word": "x"})
    return types.Content(role="model", parts=[types.Part(text=words), types.Part(function_call=call)])


def look(word: str) -> str:
    """Look something up."""
    return word


SPOKEN = [_words_and_call("Let me look. "), _words_and_call("Again. "), "Found."]
AS_STORED = "Let me look. Again. Found." if private.keeps_all_text() else "Found."


async def test_words_beside_a_call_are_in_the_answer_as_in_state() -> None:
    """The answer of an agent is what ADK stores of it, with every release, in each turn of a conversation."""
    agent = Agent("a").tool(look).writes("k")
    run = await agent.run("hi", backend=mock_backend({"a": SPOKEN}))
    assert run.text == run.output == final_text(run) == run.state["k"] == AS_STORED
    assert pickle.loads(pickle.dumps(run)).text == AS_STORED
    assert await Agent("a").tool(look).ask_async("hi", backend=mock_backend({"a": SPOKEN})) == AS_STORED
    assert await agent.map(["1"], backend=mock_backend({"a": SPOKEN})) == [AS_STORED]
    async with agent.session(backend=mock_backend({"a": [*SPOKEN, *SPOKEN, "Short."]})) as session:
        turns = [await session.send("go") for _ in range(3)]
    assert (
        [turn.text for turn in turns]
        == [turn.state["k"] for turn in turns]
        == [AS_STORED, AS_STORED, "Short."]
    )


async def test_words_of_another_turn_are_not_in_the_answer() -> None:
    """What another round, another agent or a part before a pause said is not in an answer, as in state."""
    agent, b = Agent("a").tool(look).writes("k"), Agent("b")
    loop = await loop_until(lambda state: False, agent, max_iterations=2).run(
        "hi", backend=mock_backend({"a": [*SPOKEN, "Short."]})
    )
    assert loop.text == loop.state["k"] == "Short."
    assert (await (agent >> b).run("hi", backend=mock_backend({"a": SPOKEN, "b": "Mine."}))).text == "Mine."
    each = map_over("items", agent.context(C.none()))
    items = await each.run("hi", backend=mock_backend({"a": SPOKEN}), state={"items": [1]})
    assert items.state["results"] == [AS_STORED]
    asking = Agent("a").tool(look, require_confirmation=True).writes("k")
    backend = mock_backend({"a": [_words_and_call("May I? "), "Found."]})
    waiting = await asking.run("hi", backend=backend)
    assert waiting.text == ""
    (pending,) = waiting.pending
    done = await asking.resume(session_id=waiting.session_id, approvals={pending.id: True}, backend=backend)
    assert done.text == done.state["k"]


async def test_words_beside_a_call_are_in_no_typed_answer() -> None:
    """Of a structured answer, only the JSON counts, as in state."""
    agent = Agent("a").tool(look).returns(Line).writes("k")
    said = [_words_and_call("Let me look."), '{"price": "1.5"}']
    run = await agent.run("hi", backend=mock_backend({"a": said}))
    assert run.output == Line(price=Decimal("1.5"))
