"""Values that no session store can hold are refused where they are written, on every store alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.tool_context import ToolContext
from pydantic import BaseModel, Field, PlainSerializer, SecretStr, field_serializer, model_serializer

from adk_fluent import Agent, RemoteAgent, S, StateSchema, transfer
from adk_fluent.adopt import adopt
from adk_fluent.errors import ADKFluentError, AnswerError, ArgumentError, SchemaError, StateTypeError
from adk_fluent.state.answers import answer_type
from adk_fluent.state.fidelity import unstorable
from adk_fluent.testing import call_tool, mock_backend


class Reading(BaseModel):
    value: float = 0.0
    text: str = ""


class Hidden(BaseModel):
    x: int
    y: int = Field(default=0, exclude=True)


class Login(BaseModel):
    word: SecretStr


class Marked(BaseModel):
    x: int

    @field_serializer("x")
    def _marked(self, x: int) -> str:
        return f"#{x}"


class Worded(BaseModel):
    x: Annotated[int, PlainSerializer(str, return_type=str)]


class Short(BaseModel):
    x: int

    @model_serializer
    def _short(self) -> str:
        return "x"


class Masked(BaseModel):
    word: str

    @field_serializer("word")
    def _masked(self, word: str) -> str:
        return "***"


class Day(BaseModel):
    day: date

    @field_serializer("day")
    def _iso(self, day: date) -> str:
        return day.isoformat()


class Shape(BaseModel):
    sides: int


class Circle(Shape):
    radius: int


@dataclass
class Around:
    inner: list[Hidden]


@dataclass
class Pair:
    left: float
    right: str


OBJECT = {"type": "object"}
JSON_HAS = "JSON has finite numbers only"
ANSWERS: list[tuple[Any, str, str]] = [
    (Reading, '{"value": NaN}', f"value is nan, and {JSON_HAS}"),
    (Reading, '{"value": "-inf"}', f"value is -inf, and {JSON_HAS}"),
    (Reading, '{"value": 1e999}', f"value is inf, and {JSON_HAS}"),
    (Reading, '{"text": "a\\u0000b"}', "text has the character U+0000"),
    (dict[str, float], '{"a": NaN}', f"a is nan, and {JSON_HAS}"),
    (list[Pair], '[{"left": NaN, "right": ""}]', f"[0].left is nan, and {JSON_HAS}"),
    (OBJECT, '{"a": [NaN]}', f"a[0] is nan, and {JSON_HAS}"),
    (OBJECT, '{"a": "\\ud800"}', "a has half a character"),
    (OBJECT, '{"a\\u0000": 1}', "a key of it has the character U+0000"),
]
LOST: list[tuple[Any, str]] = [
    (Login, "Login.word is a SecretStr, which is stored as asterisks"),
    (list[Login], "Login.word is a SecretStr"),
    (Hidden | None, "Hidden.y has exclude=True and is not stored"),
    (dict[str, Marked], "the serializer of Marked.x writes str, which is not read back as int"),
    (Worded, "the serializer of Worded.x writes str, which is not read back as int"),
    (Short, "the serializer of Short writes str, which is not read back"),
    (Around, "Hidden.y has exclude=True"),
]


@pytest.mark.parametrize(("schema", "text", "says"), ANSWERS)
def test_an_answer_that_no_store_holds_is_refused(schema: Any, text: str, says: str) -> None:
    """The answer is refused where it is checked, whether or not state gets it; the error names the place."""
    for read in (answer_type(schema).parse, answer_type(schema).data):
        with pytest.raises(AnswerError) as caught:
            read(text, "a", "k")
        assert "'a' answered" in str(caught.value)
        assert "for state key 'k'" in str(caught.value)
        assert says in str(caught.value)


@pytest.mark.parametrize(("kind", "says"), LOST)
def test_a_type_that_json_would_change_is_refused_when_it_is_declared(kind: Any, says: str) -> None:
    """A secret, an excluded field and a serializer of another type are refused where a type is declared."""
    for declare in (
        lambda: Agent("a").returns(kind),
        lambda: Agent("a") @ kind,
        lambda: Agent("a").accepts(kind),
        lambda: RemoteAgent("a", endpoint="http://host").returns(kind),
        lambda: RemoteAgent("a", endpoint="http://host", output_schema=kind),
    ):
        with pytest.raises(ArgumentError) as caught:
            declare()
        assert says in str(caught.value)
        assert "gent 'a': " in str(caught.value)
    with pytest.raises(SchemaError, match=r"Kept\.field: ") as refused:
        type("Kept", (StateSchema,), {"__annotations__": {"field": kind}})
    assert says in str(refused.value)


def test_a_value_that_would_not_be_read_back_is_refused() -> None:
    """A serializer that says nothing of its type is held to each value; one that reads back is taken."""

    class Kept(StateSchema):
        masked: Masked
        day: Day
        reading: Reading
        shape: Shape

    state: dict[str, Any] = {}
    bound = Kept.bind(state)
    bound.reading, bound.day = Reading(value=1.5, text="漢"), Day(day=date(2026, 1, 2))
    bound.masked = Masked(word="***")
    assert (bound.reading, bound.day) == (Reading(value=1.5, text="漢"), Day(day=date(2026, 1, 2)))
    for name, value, says in (
        ("masked", Masked(word="tea"), "word would be read back as '***'"),
        ("shape", Circle(sides=0, radius=1), "it would be read back as Shape(sides=0)"),
        ("reading", Reading(value=float("nan")), f"value is nan, and {JSON_HAS}"),
    ):
        with pytest.raises(StateTypeError) as caught:
            setattr(bound, name, value)
        assert f"Kept.{name} (session key '{name}') cannot hold" in str(caught.value)
        assert says in str(caught.value)
    assert answer_type(Masked).parse('{"word": "tea"}', "a").word == "tea"
    with pytest.raises(AnswerError, match=r"answered .* for state key 'k', .*word would be read back"):
        answer_type(Masked).data('{"word": "tea"}', "a", "k")


def test_a_value_that_holds_itself_ends() -> None:
    """The search looks into each container once."""
    loop: list[Any] = [1]
    loop.append(loop)
    assert unstorable(loop) is None
    loop.append(float("inf"))
    assert unstorable({"k": loop}) == f"k[2] is inf, and {JSON_HAS}"


def nested(levels: int) -> Any:
    """A text in so many lists."""
    value: Any = "tea"
    for _ in range(levels):
        value = [value]
    return value


async def test_the_deepest_value_is_read_back(tmp_path: Path) -> None:
    """A value of 192 levels is stored and read again; a deeper one is refused, also as an answer."""
    assert unstorable(nested(192), "k") is None
    assert unstorable([[1]] * 1000) is None
    deep = "nests more than 192 levels, which a session store does not read back"
    assert unstorable(nested(193), "k") == f"k {deep}"
    assert unstorable(nested(5000), "k") == f"k {deep}"
    service, model = SqliteSessionService(str(tmp_path / "s.db")), mock_backend({"a": "ok"})
    for _ in range(2):
        result = await (S.set(k=nested(192)) >> Agent("a")).run(
            "Go", session_id="s", session_service=service, backend=model
        )
        assert result.state["k"] == nested(192)
    with pytest.raises(AnswerError, match=deep):
        answer_type(list[Any]).data("[" * 195 + "]" * 195, "a", "k")


def write(tool_context: ToolContext) -> str:
    """Write what no store holds."""
    tool_context.state["k"] = {"rate": float("nan")}
    return "done"


def call_back(callback_context: Any) -> None:
    """Write it in a callback."""
    callback_context.state["k"] = {"rate": float("nan")}


def call_back_model(callback_context: Any, llm_response: Any) -> None:
    """Write it where a model has answered."""
    call_back(callback_context)


def stores(folder: Path) -> list[BaseSessionService]:
    """A store in memory and one in a file."""
    return [InMemorySessionService(), SqliteSessionService(str(folder / "s.db"))]


class Native(BaseAgent):
    """An agent of ADK's that is no model's."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        actions = EventActions(state_delta={"k": {"rate": float("nan")}})
        yield Event(author=self.name, invocation_id=ctx.invocation_id, actions=actions)


class Holder(BaseAgent):
    """An agent that runs another one."""

    held: BaseAgent

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.held.run_async(ctx):
            yield event


NATIVE = Native(name="n", description="Rates.")
NATIVE_MODEL = LlmAgent(name="a", model="gemini-2.5-flash", after_agent_callback=call_back)
WRITERS: dict[str, Any] = {
    "tool": Agent("a").tool(write),
    "callback": Agent("a").before_agent(call_back),
    "transform": S.transform("k", lambda _: {"rate": float("nan")}) >> Agent("a"),
    "set": S.set(k={"rate": float("nan")}) >> Agent("a"),
    "fan-out": Agent("a").before_agent(call_back) | Agent("b"),
    "after": Agent("a").after_agent(call_back),
    "after model": Agent("a").after_model(call_back_model),
    "native": NATIVE >> Agent("a"),
    "native in a fan-out": NATIVE | Agent("a"),
    "native in a loop": (NATIVE >> Agent("a")) * 2,
    "native in a native": Holder(name="s", held=NATIVE.clone()) >> Agent("a"),
    "native by transfer": Agent("a") >> transfer("n") >> NATIVE,
    "native as a tool": Agent("b").tool(NATIVE),
    "native model": NATIVE_MODEL >> Agent("b"),
    "native root": adopt(NATIVE.clone()),
    "native model as root": adopt(NATIVE_MODEL.clone()),
    "native root with another": adopt(Holder(name="s", held=NATIVE.clone())),
    "native root with a tool": adopt(LlmAgent(name="a", model="gemini-2.5-flash", tools=[write])),
}


@pytest.mark.parametrize("writer", WRITERS)
async def test_every_writer_is_refused_on_every_store(writer: str, tmp_path: Path) -> None:
    """The error names the agent, the key and the place, and does not depend on the store."""
    said: list[str] = []
    for service in stores(tmp_path):
        asks = [call_tool("n", request="?"), "x"] if "as a tool" in writer else "x"
        backend = mock_backend(
            {
                "a": [call_tool("write"), "x"]
                if writer.endswith("tool") and writer != "native as a tool"
                else "x",
                "b": asks,
            }
        )
        with pytest.raises(ADKFluentError) as caught:
            await WRITERS[writer].run("Hi", backend=backend, session_service=service, state={"k": 1})
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "wrote state key 'k'" in said[0]
    assert f"k.rate is nan, and {JSON_HAS}" in said[0]


async def test_a_native_agent_that_writes_it_has_failed() -> None:
    """A native agent that writes such a value fails: its fallback runs, and none of its changes stay."""
    result = await (NATIVE // Agent("a")).run("Hi", backend=mock_backend({"a": "x"}), state={"k": 1})
    assert (result.text, result.state["k"]) == ("x", 1)


async def test_the_state_argument_is_refused_and_temp_is_not(tmp_path: Path) -> None:
    """`state=` is checked before the run; a `temp:` key is in no store and may hold anything."""
    for service in stores(tmp_path):
        options: dict[str, Any] = {"backend": mock_backend({"a": "x"}), "session_service": service}
        with pytest.raises(
            StateTypeError, match=r"state= has state key 'k', .*k\[0\] has the character U\+0000"
        ):
            await Agent("a").run("Hi", state={"k": ["a\0b"]}, **options)
        await Agent("a").run("Hi", state={"temp:k": float("inf")}, **options)
