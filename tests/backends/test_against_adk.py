"""Built agents beside ADK's own: the same turns, and the same effect of changing a field."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from google.adk import agents
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, C, Loop, Pipeline
from adk_fluent.adopt import adopt
from adk_fluent.backends.adk.running.convert import resumability
from adk_fluent.errors import MissingKeyError
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.backends.support import system

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # ADK 2.x deprecates its workflow agents

Turns = list[list[Any]]
natives: Any = agents  # whose deprecation a type checker reports


def ask(what: str) -> dict[str, str]:
    """Ask a person."""
    return {"status": "pending", "what": what}


def later(what: str) -> None:
    """Ask a person, who answers some day."""


def look(what: str) -> str:
    """Look something up."""
    return what


def told(event: Event) -> tuple[str, list[Any]]:
    """Who says what, without ids."""
    parts = (event.content and event.content.parts) or []
    return event.author, [
        part.text
        or (part.function_call and part.function_call.name)
        or (part.function_response and part.function_response.response)
        for part in parts
    ]


class Session:
    """A conversation on ADK's own runner."""

    def __init__(
        self, root: BaseAgent, *, resumable: bool = False, state: dict[str, Any] | None = None
    ) -> None:
        app = App(name="x", root_agent=root, resumability_config=resumability() if resumable else None)
        self.service = InMemorySessionService()
        self.runner = Runner(app=app, session_service=self.service, auto_create_session=True)
        self.resumable, self.events = resumable, list[Event]()

    async def send(self, *parts: types.Part, **options: Any) -> list[Any]:
        """One turn."""
        message, turn = types.Content(role="user", parts=list(parts)), list[Any]()
        async for event in self.runner.run_async(user_id="u", session_id="s", new_message=message, **options):
            self.events.append(event)
            if event.content:
                turn.append(told(event))
        return turn

    async def say(self, text: str = "hi") -> list[Any]:
        """One turn of text."""
        return await self.send(types.Part(text=text))

    async def answer(self) -> list[Any]:
        """Answer the call that waits."""
        waiting = next(event for event in self.events if event.long_running_tool_ids)
        call = next(
            call for call in waiting.get_function_calls() if call.id in (waiting.long_running_tool_ids or ())
        )
        given = types.FunctionResponse(id=call.id, name=call.name, response={"status": "done"})
        options = {"invocation_id": waiting.invocation_id} if self.resumable else {}
        return await self.send(types.Part(function_response=given), **options)

    async def state(self) -> dict[str, Any]:
        """What is in the state."""
        session = await self.service.get_session(app_name="x", user_id="u", session_id="s")
        assert session is not None
        return dict(session.state)


# --- turns ----------------------------------------------------------------------------------------

Both = Callable[[Any, Any], tuple[BaseAgent, Any]]


def _alone(a: Any, b: Any) -> tuple[BaseAgent, Any]:
    native = LlmAgent(name="a", model=a, tools=_tools())
    return native, Agent("a", a).tools(*_tools())


def _sequence(a: Any, b: Any) -> tuple[BaseAgent, Any]:
    (first, ours), second = _alone(a, b), LlmAgent(name="b", model=b)
    return natives.SequentialAgent(name="s", sub_agents=[first, second]), Pipeline("s", ours, Agent("b", b))


def _loop(a: Any, b: Any) -> tuple[BaseAgent, Any]:
    (first, ours), second = _alone(a, b), LlmAgent(name="b", model=b)
    native = natives.LoopAgent(name="l", sub_agents=[first, second], max_iterations=2)
    return native, Loop(ours, Agent("b", b), max_iterations=2).named("l")


def _tools() -> list[Any]:
    return [LongRunningFunctionTool(ask), LongRunningFunctionTool(later), look]


SHAPES: dict[str, Both] = {"agent": _alone, "sequence": _sequence, "loop": _loop}
TOGETHER = types.Content(
    role="model",
    parts=[
        types.Part(function_call=types.FunctionCall(name=name, args={"what": "x"}))
        for name in ("ask", "look")
    ],
)
CALLS: dict[str, Any] = {"one call": call_tool("ask", what="x"), "two calls": TOGETHER}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("calls", CALLS)
async def test_a_long_running_call_in_a_resumable_app(shape: str, calls: str) -> None:
    """A pending result, its answer and the next turn give what ADK's own agents give, turn by turn."""
    turns: list[Turns] = []
    for which in (0, 1):
        backend = mock_backend({"a": [CALLS[calls], "one", "two", "three"], "b": ["four", "five", "six"]})
        models = (backend.model_for(Agent(name).node, name) for name in "ab")
        both = SHAPES[shape](*models)
        session = Session(both[which].build() if which else both[0], resumable=True)
        turns.append([await session.say(), await session.answer(), await session.say("and?")])
    assert turns[0] == turns[1]


@pytest.mark.parametrize("calls", CALLS)
async def test_a_long_running_call_in_another_app(calls: str) -> None:
    """So it is for an agent in an app that is not resumable."""
    turns: list[Turns] = []
    for which in (0, 1):
        backend = mock_backend({"a": [CALLS[calls], "one", "two", "three"]})
        both = _alone(backend.model_for(Agent("a").node, "a"), None)
        session = Session(both[which].build() if which else both[0])
        turns.append([await session.say(), await session.answer(), await session.say("and?")])
    assert turns[0] == turns[1]


@pytest.mark.parametrize("shape", ["sequence", "loop"])
async def test_an_error_code_ends_our_sequence_alone(shape: str) -> None:
    """After an answer with an error code nothing more of our sequence or loop runs; ADK's own goes on."""
    spoke: list[set[str]] = []
    for which in (0, 1):
        backend = mock_backend({"a": LlmResponse(error_code="SAFETY", error_message="blocked"), "b": "said"})
        both = SHAPES[shape](*(backend.model_for(Agent(name).node, name) for name in "ab"))
        session = Session(both[which].build() if which else both[0])
        await session.say()
        spoke.append({event.author for event in session.events})
    assert spoke == [{"a", "b"}, {"a"}]


@pytest.mark.newest
async def test_the_model_says_what_it_waits_for() -> None:
    """In a resumable app ADK 2.x asks the model once more, and the text counts as the answer of the turn."""
    backend = mock_backend({"a": [call_tool("ask", what="x"), "I have asked.", "Done."], "b": "never"})
    pipeline = Agent("a").tools(*_tools()) >> Agent("b")
    app = pipeline.to_app()
    assert app.resumability_config is not None
    result = await pipeline.run("hi", backend=backend)
    assert [event.content for event in result.by("a") if event.content] == ["I have asked."]
    assert result.by("b") == []


# --- changed fields -------------------------------------------------------------------------------


def built(expression: Any, backend: MockBackend | None = None) -> Any:
    """The native agent, with scripted models."""
    return (backend or mock_backend(default="x")).compile(expression.node, state=None).app.root_agent


def cloned(agent: Any, **update: Any) -> Any:
    """As ADK copies and changes an agent."""
    return agent.clone(update=update or None)


def assigned(agent: Any, **update: Any) -> Any:
    """A clone whose fields are set."""
    made = agent.clone()
    for name, value in update.items():
        setattr(made, name, value)
    return made


def modelled(agent: Any, **update: Any) -> Any:
    """As pydantic copies and changes an agent."""
    return agent.model_copy(update=update)


change = pytest.mark.parametrize("change", [cloned, assigned, modelled])
Change = Callable[..., Any]


@change
async def test_the_limit_of_a_loop_can_be_changed(change: Change) -> None:
    """A loop runs as many rounds as its `max_iterations` says, as ADK's own does."""
    loop = Loop(Agent("a"), max_iterations=3).named("l")
    for make in (built(loop), natives.LoopAgent(name="l", sub_agents=[built(Agent("a"))], max_iterations=3)):
        assert make.max_iterations == 3
        assert len(await Session(change(make, max_iterations=1)).say()) == 1


async def test_a_loop_without_a_limit() -> None:
    """As in ADK's own, `None` is no limit: the loop ends when an agent escalates."""
    from google.adk.tools.exit_loop_tool import exit_loop

    backend = mock_backend({"a": ["x"] * 12 + [call_tool("exit_loop")]})
    loop = built(Loop(Agent("a").tool(exit_loop), max_iterations=2), backend)
    turn = await Session(loop.clone(update={"max_iterations": None})).say()
    assert [said for _, said in turn].count(["x"]) == 12


@change
async def test_an_instruction_can_be_changed(change: Change) -> None:
    """The new instruction reaches the model; what the old one needed is not asked for any more."""
    backend = mock_backend(default="x")
    agent = change(built(Agent("a").instruct("{gone}"), backend), instruction="plain")
    await Session(agent).say()
    assert system(backend.calls["a"][0]).startswith("plain")
    with pytest.raises(MissingKeyError, match="'gone'"):
        await Session(change(built(Agent("a").instruct("plain")), instruction="{gone}")).say()


@change
async def test_a_changed_instruction_keeps_its_context(change: Change) -> None:
    """What the agent sees of the conversation stays, and a function or a template is rendered as ever."""

    def words(ctx: Any) -> str:
        return f"New: {ctx.state['tone']}."

    for given in ("New: {tone}.", words):
        backend = mock_backend(default="x")
        agent = built(Agent("a").instruct("Old.").context(C.from_state("fact")), backend)
        session = Session(change(agent, instruction=given))
        await session.service.create_session(
            app_name="x", user_id="u", session_id="s", state={"fact": "tea is hot", "tone": "kind"}
        )
        await session.say()
        text = system(backend.calls["a"][0])
        assert "New: kind." in text
        assert "tea is hot" in text
        assert "Old" not in text


class Size(BaseModel):
    size: int


@change
async def test_other_fields_can_be_changed(change: Change) -> None:
    """The name, output key, model, tools, schema and callbacks that an agent has now are those that count."""
    seen: list[str] = []

    def note(callback_context: Any) -> None:
        seen.append(callback_context.agent_name)

    backend = mock_backend({"a": "from a", "other": [call_tool("look", what="x"), "from other"]})
    agent = built(Agent("a").writes("k"), backend)
    changed = change(
        agent,
        name="b",
        output_key="z",
        model=backend.model_for(Agent("other").node, "other"),
        tools=[look],
        before_agent_callback=note,
    )
    session = Session(changed)
    assert [author for author, _ in await session.say()] == ["b"] * 3
    assert (await session.state(), seen) == ({"z": "from other"}, ["b"])
    session = Session(change(built(Agent("a").writes("k").returns(Size), backend), output_schema=None))
    await session.say()
    assert await session.state() == {}


async def test_sub_agents_can_be_changed() -> None:
    """A sequence runs the agents that it has now."""
    pipeline = built(Pipeline("p", Agent("a"), Agent("b")))
    turn = await Session(pipeline.clone(update={"sub_agents": [built(Agent("c"))]})).say()
    assert [author for author, _ in turn] == ["c"]


def deep(agent: Any) -> Any:
    """As pydantic copies all of an agent."""
    return agent.model_copy(deep=True)


@pytest.mark.parametrize("copied", [cloned, copy.deepcopy, deep])
def test_a_copy_is_whole(copied: Callable[[Any], Any]) -> None:
    """A copy finds its own agents by name, and is read as the expression that it was made from."""
    loop = Loop(Agent("a", "m").instruct("{k?}"), Agent("b", "m").context(C.none()), max_iterations=2)
    native: Any = loop.build()
    made = copied(native)
    assert made.find_agent("b") is made.sub_agents[1]
    assert made.find_agent("b").root_agent is made
    assert adopt(made).node == native.ir


@change
async def test_a_changed_agent_is_a_step_as_it_is_now(change: Change) -> None:
    """As a step of an expression, a built agent keeps what was changed since, also below it."""
    backend = mock_backend(default="x")
    agent = change(Agent("a").instruct("old").build(), instruction="plain", description="Helps.")
    loop = change(Loop(Agent("b"), max_iterations=3).build(), max_iterations=1)
    pipeline: Any = Pipeline("p", Agent("c").instruct("old")).build()
    pipeline.sub_agents[0].instruction = "plain"
    result = await (Agent("z") >> agent >> loop >> pipeline).run("hi", backend=backend)
    assert [system(backend.calls[name][0])[:5] for name in "ac"] == ["plain", "plain"]
    assert len(result.by("b")) == 1
    read: Any = adopt(agent).node
    assert read.description == "Helps."
