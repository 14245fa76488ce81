"""`.preview()`: the exact requests, with no real model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import google_search
from google.adk.tools.agent_tool import AgentTool
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter

from adk_fluent import Agent, C, Loop, Route, S, StateSchema, gate, until
from adk_fluent.backends.stand_ins import smallest, stand_in
from adk_fluent.errors import ArgumentError, MissingKeyError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AgentNode, Match, walk
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import seen, system


class Forbidden(BaseLlm):
    """A model that must not be asked."""

    model: str = "forbidden"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        raise AssertionError("a real model was asked")
        yield


class Intent(BaseModel):
    category: Literal["booking", "other"]
    confidence: float = Field(gt=0)


def lookup(city: str) -> str:
    """Look a city up."""
    return f"{city} is nice"


PIPELINE = Agent("classifier", "gemini-2.5-flash").instruct("Classify.").writes("intent") >> Route(
    "intent"
).eq("booking", Agent("booker").instruct("Book: {intent}")).otherwise(Agent("other"))


def plain(request: LlmRequest) -> dict[str, Any]:
    """A request as data."""
    return request.model_dump(exclude={"tools_dict"})


async def test_the_requests_are_those_of_a_run() -> None:
    """A preview equals the requests to scripted models in a real run, call by call."""
    answers = {"classifier": "booking", "booker": "Where to?", "other": "?"}
    backend = mock_backend(answers)
    await PIPELINE.run("A flight", backend=backend)
    found = await PIPELINE.preview("A flight", answers)
    assert {agent: list(map(plain, requests)) for agent, requests in found.items() if requests} == {
        agent: list(map(plain, requests)) for agent, requests in backend.calls.items()
    }
    assert [agent for agent, _ in found.order] == ["classifier", "booker"]
    assert found["other"] == []


async def test_a_route_gets_its_first_value() -> None:
    """Without a scripted answer, a route takes its first branch."""
    found = await PIPELINE.preview("A flight")
    assert system(found["booker"][0]).startswith("Book: booking")


Y, N = Agent("yes"), Agent("no")
K = Agent("a").writes("k")
STAND_INS: dict[str, tuple[Expr[Any], str]] = {
    "equal": (K >> Route("k").eq("x", Y).otherwise(N), "x"),
    "equal to a number": (K >> Route("k").eq(3, Y).otherwise(N), "3"),
    "containing": (K >> Route("k").contains("x y", Y).otherwise(N), "x y"),
    "the first of several": (K >> Route("k").contains("x", Y).eq("z", N).otherwise(N), "x"),
    "the first of a kind": (K >> Route("k").eq("x", Y).eq("z", N), "x"),
    "the first that can be made up": (K >> Route("k").matches("z", N).contains("x", Y).otherwise(N), "x"),
    "the first of two routes": (K >> Route("k").contains("x", Y) >> Route("k").eq("z", N), "x"),
    "a route before a loop": (
        Loop(K, Route("k").contains("x", Y), max_iterations=2).until(Match("k", "eq", "z")),
        "x",
    ),
    "not what is not there": (K >> Route("k").eq(None, N).contains("x", Y), "x"),
    "of its own key": (S.set(j=1) >> K >> Route("j").eq("z", N) >> Route("k").contains("x", Y), "x"),
    "in a set of values": (K >> Y >> Route("other").eq("x", N), "(what a answers)"),
}
"""Where a route compares what `a` answers: what that is, and that `yes` runs then, and `no` does not."""


@pytest.mark.parametrize("kind", STAND_INS)
async def test_an_answer_is_made_up_that_fits_the_first_branch(kind: str) -> None:
    """Without a scripted answer, the made-up answer matches a comparison of the route."""
    expression, answer = STAND_INS[kind]
    told = expression.node
    assert stand_in(next(n for n in walk(told) if isinstance(n, AgentNode) and n.name == "a"), told) == answer
    found = await expression.preview("Hi")
    assert [agent for agent, _ in found.order if agent != "a"][:1] == ["yes"]
    assert not found.get("no")


async def test_a_loop_gets_what_it_waits_for() -> None:
    """Without a scripted answer, a loop that waits for a value gets it."""
    loop = Loop(Agent("judge").writes("verdict")).until(Match("verdict", "eq", "good"))
    assert len((await loop.preview("Hi"))["judge"]) == 1
    assert len((await (Agent("judge") * 3).preview("Hi"))["judge"]) == 3
    assert len((await (Agent("a") * until(lambda state: False, max=2)).preview("Hi"))["a"]) == 2


@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")  # of ADK's own AgentTool
async def test_no_real_model_is_asked() -> None:
    """Neither an agent's own model, nor that of an agent used as a tool, nor a helper's is ever asked."""
    inner = LlmAgent(name="inner", model=Forbidden())
    outer = Agent("outer", Forbidden()).tool(AgentTool(inner))
    pipeline = Agent("first", Forbidden()) >> outer.context(C.summarize(model=Forbidden()))
    found = await pipeline.preview("Hi", {"outer": [call_tool("inner", request="x"), "done"]})
    assert [len(requests) for requests in found.values()] == [1, 2]
    assert "what inner answers" in str(found["outer"][1].contents)
    assert "(what a helper model answers)" in system(found["outer"][0])


async def test_requests_are_built_for_the_agents_model() -> None:
    """A request names the model it is for: the agent's own, else that of the agent above, else ADK's."""
    team = Agent("boss", "gemini-2.5-pro").delegate(Agent("helper"), Agent("other", Forbidden()))
    answers = {"boss": call_tool("transfer_to_agent", agent_name="helper")}
    found = await team.preview("Hi", answers)
    assert [request.model for _, request in found.order] == ["gemini-2.5-pro", "gemini-2.5-pro"]
    assert (await Agent("a").preview("Hi"))["a"][0].model == LlmAgent.DEFAULT_MODEL
    search: Any = (await Agent("a").tool(google_search).preview("Hi"))["a"][0].config
    assert search.tools


async def test_tools_run_only_when_they_are_called() -> None:
    """A tool is offered, and runs only if an answer calls it."""
    ran: list[str] = []

    def book(city: str) -> str:
        """Book."""
        ran.append(city)
        return "done"

    agent = Agent("a").tool(book)
    assert list((await agent.preview("Hi"))["a"][0].tools_dict) == ["book"]
    assert ran == []
    await agent.preview("Hi", {"a": [call_tool("book", city="Rome"), "ok"]})
    assert ran == ["Rome"]


class Shade(Enum):
    DARK = "dark"


class Deep(BaseModel):
    shade: Shade
    when: date
    names: Annotated[list[str], Field(min_length=2)]
    pair: tuple[int, str]
    choice: Intent | None
    share: Annotated[float, Field(gt=0, lt=1)]
    count: Annotated[int, Field(ge=3)]
    low: Annotated[int, Field(le=-3)]
    code: Annotated[str, Field(min_length=6, max_length=8)]
    yes: bool
    table: dict[str, int]
    nothing: None
    rest: str = "left out"


class Level(IntEnum):
    LOW = 1


class Season(Enum):
    SPRING = date(2025, 3, 1)


class Tree(BaseModel):
    """A type inside itself."""

    left: Tree | None
    more: list[Tree]


class Endless(BaseModel):
    next: Endless


class Desk(StateSchema):
    price: Decimal
    level: Level
    shade: Shade
    season: Season
    day: date
    moment: datetime
    length: timedelta
    id: UUID
    file: Path
    deep: Deep
    trees: list[Tree]


@pytest.mark.parametrize("name", list(Desk.fields()))
async def test_a_field_of_every_type_is_made_up(name: str) -> None:
    """A preview answers for an agent that writes a field, alone, beside others, or as what it returns."""
    field = Desk.fields()[name]

    def read(ctx: ReadonlyContext) -> str:
        return f"{name}: {getattr(Desk.bind(ctx), name)!r}"

    reader = Agent("b").instruct(read)
    for agent in (
        Agent("a").writes(field),
        Agent("a").writes(field, Desk.level),
        Agent("a").returns(field.type).writes(field),
    ):
        found = await (agent >> reader).preview("Hi")
        assert system(found["b"][0]).startswith(f"{name}: ")


async def test_a_type_without_end_cannot_be_made_up() -> None:
    """A type whose values hold each other without end is named by the error."""
    with pytest.raises(ArgumentError, match=r"cannot make up an answer of 'a': 'Endless' is inside itself"):
        await Agent("a").returns(Endless).preview("Hi")


@pytest.mark.parametrize("schema", [Intent, Deep, list[Intent], dict[str, int], Tree, Intent | None])
def test_a_typed_agent_answers_with_an_instance(schema: Any) -> None:
    """Without a scripted answer, a model answers with the smallest instance of its type."""
    adapter = TypeAdapter[Any](schema)
    described = adapter.json_schema()
    made = smallest(described, described.get("$defs", {}))
    assert adapter.dump_python(adapter.validate_python(made), mode="json", exclude_unset=True) == made


async def test_a_typed_answer_is_stored() -> None:
    """A made-up instance is stored like a real one."""
    found = await (Agent("a").returns(Intent).writes("x") >> Agent("b").instruct("{x}")).preview("Hi")
    assert system(found["b"][0]).startswith("{'category': 'booking', 'confidence': 1")
    assert "answer: JSON, Intent {category: Literal['booking', 'other'], confidence: float}" in str(found)


async def test_a_type_that_cannot_be_made_up() -> None:
    """A type whose validator refuses the instance needs a scripted answer, and the error says so."""

    def refuse(value: str) -> str:
        raise ValueError("never")

    class Strict(BaseModel):
        name: Annotated[str, AfterValidator(refuse)]

    with pytest.raises(ArgumentError, match=r"cannot make up an answer of 'a'.*responses={'a'"):
        await Agent("a").returns(Strict).preview("Hi")


@pytest.mark.parametrize(
    ("expression", "responses", "error", "words"),
    [
        (PIPELINE, {"clasifier": "x"}, ArgumentError, "no such agent. Did you mean 'classifier'?"),
        (Agent("a") >> Agent("b"), {"zoo": "x"}, ArgumentError, "no such agent. There is a, b.$"),
        (Agent("a").instruct("{nothing}"), {}, MissingKeyError, "'nothing'"),
    ],
)
async def test_what_goes_wrong_is_said(
    expression: Expr[Any], responses: dict[str, Any], error: type[Exception], words: str
) -> None:
    """A name that is not there, and a run that would fail, raise what they would elsewhere."""
    with pytest.raises(error, match=words.replace("?", r"\?")):
        await expression.preview("Hi", responses)


async def test_state_is_there_from_the_start() -> None:
    """`state` is in the session before the run."""
    found = await Agent("a").instruct("About {topic}.").preview("Hi", state={"topic": "tea"})
    assert system(found["a"][0]).startswith("About tea.")


async def test_it_prints_every_call() -> None:
    """Every call is printed with instruction, messages by role, tools and form of the answer."""
    agent = Agent("a", "m").instruct("Look it up.\nThen answer.").tool(lookup)
    found = await agent.preview("Rome?", {"a": [call_tool("lookup", city="Rome"), "Nice."]})
    lines = str(found).splitlines()
    assert lines[:3] == ["1. a (m), call 1 of 2", "  system: Look it up.", "          Then answer."]
    assert "  user: Rome?" in lines
    assert "  tools: lookup(city: string)" in lines
    assert '  model: <calls lookup(city="Rome")>' in lines
    assert '  user: <result of lookup: {"result": "Rome is nice"}>' in lines
    assert "  answer: text" in lines


async def test_it_says_who_is_not_asked_and_where_it_stops() -> None:
    """Agents that are not asked are named, and the approval at which the run stops."""
    pipeline = Agent("a") >> gate(lambda state: True, message="Really?") >> Agent("b")
    found = await pipeline.preview("Hi")
    assert str(found).splitlines()[-3:] == ["Not asked: b.", "", "Stopped: gate waits for approval: Really?"]
    assert [pending.message for pending in found.pending] == ["Really?"]


async def test_it_is_json_too() -> None:
    """The JSON holds the calls in order, and says which layout it has."""
    found = json.loads((await PIPELINE.preview("Hi", {"classifier": "other"})).to_json())
    assert found["version"] == 1
    assert [call["agent"] for call in found["calls"]] == ["classifier", "other"]
    assert found["calls"][0]["request"]["contents"][0]["parts"] == [{"text": "Hi"}]
    assert found["not_asked"] == ["booker"]


async def test_copies_share_a_script() -> None:
    """Two uses of one agent share the script under its name, unless one has its own script."""
    writer = Agent("writer").writes("draft")
    both = await (writer >> S.set(x=1) >> writer).preview("Hi")
    assert [len(requests) for requests in both.values()] == [2]
    apart = await (writer >> writer).preview("Hi", {"writer_2": "second"})
    assert [(agent, len(requests)) for agent, requests in apart.items()] == [("writer", 1), ("writer_2", 1)]


async def test_no_session_is_left_behind() -> None:
    """A preview leaves nothing where runs keep their sessions: the next one starts afresh."""
    first = await PIPELINE.preview("One")
    second = await PIPELINE.preview("Two")
    assert seen(first["classifier"][0]) == "One"
    assert seen(second["classifier"][0]) == "Two"
