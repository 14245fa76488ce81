"""The mock backend and tools: those that models bring, agents inside tools, and scripts that call tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent  # pyright: ignore[reportDeprecated]  # users have them
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import enterprise_web_search, google_search, url_context
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent import Agent, C, Loop, T
from adk_fluent.errors import MockError, RunError
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import play, replies, seen, system

# AgentTool of newer ADKs hands plugins to its runner in a way that ADK itself deprecates.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:SequentialAgent is deprecated:DeprecationWarning"),
]


class Forbidden(BaseLlm):
    """A model that must not be asked."""

    model: str = "forbidden"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        raise AssertionError("a real model was asked")
        yield


INNER = Agent("inner", Forbidden()).instruct("Be kind.")
CALLS_INNER = [call_tool("inner", request="go"), "done"]


def order(size: int = 1) -> dict[str, int]:
    """Order something."""
    return {"ordered": size}


def refund(order: str) -> str:
    """Pay back."""
    return f"{order} is paid back"


def offered(request: LlmRequest) -> types.Tool:
    """The one tool that a request offers."""
    (tool,) = cast(Any, request.config).tools  # its type names the optional mcp
    assert isinstance(tool, types.Tool)
    return tool


# --- what models bring themselves -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        (google_search, "google_search"),
        (url_context, "url_context"),
        (enterprise_web_search, "enterprise_web_search"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("model", ["gemini-2.5-flash", None])
async def test_a_tool_that_the_model_brings(tool: BaseTool, field: str, model: str | None) -> None:
    """A tool that ADK offers to Gemini alone is offered: the script stands for the agent's own model."""
    backend = mock_backend({"a": "found"})
    result = await Agent("a", model).tool(tool).run("hi", backend=backend)
    assert result.text == "found"
    (request,) = backend.calls["a"]
    assert request.model == (model or LlmAgent.DEFAULT_MODEL)
    assert getattr(offered(request), field) is not None


async def test_code_that_the_model_runs() -> None:
    """Code execution inside the model is offered as well."""
    backend = mock_backend({"a": "4"})
    agent = Agent("a", "gemini-2.5-flash").code_executor(BuiltInCodeExecutor())
    assert (await agent.run("2 + 2?", backend=backend)).text == "4"
    assert offered(backend.calls["a"][0]).code_execution is not None


async def test_a_tool_that_the_model_lacks() -> None:
    """For a model that ADK does not offer the tool to, a test fails as the real run would."""
    with pytest.raises((ValueError, RunError), match=r"not supported for model.* some-other-model"):
        await play(Agent("a", "some-other-model").tool(google_search), {"a": "found"})


async def test_a_request_names_the_model_it_is_for() -> None:
    """Each request has the name of the agent's own model, else of the one above it, else of ADK's default."""
    team = Agent("boss", "gemini-2.5-pro").delegate(Agent("helper"), Agent("expert", Forbidden()))
    script = {"boss": call_tool("transfer_to_agent", agent_name="helper"), "expert": "e"}
    script["helper"] = call_tool("transfer_to_agent", agent_name="expert")
    backend = mock_backend(script, default="ok")
    await (team >> Agent("last")).run("hi", backend=backend)
    assert {agent: calls[0].model for agent, calls in backend.calls.items()} == {
        "boss": "gemini-2.5-pro",
        "helper": "gemini-2.5-pro",
        "expert": "forbidden",
        "last": LlmAgent.DEFAULT_MODEL,
    }


# --- agents inside tools --------------------------------------------------------------------------


class Holder(BaseAgent):
    """An agent that runs one that it holds in a field of its own."""

    held: LlmAgent

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.held.run_async(ctx):
            yield event


def native(name: str = "inner", **fields: Any) -> LlmAgent:
    """An agent of ADK's own, with a model that must not be asked."""
    return LlmAgent(name=name, model=Forbidden(), **fields)


def _held() -> BaseAgent:
    held = native("held")
    return Holder(name="inner", held=held)


def _held_below() -> BaseAgent:
    held = native("held")
    return Holder(name="inner", held=held, sub_agents=[held])


INSIDE: dict[str, tuple[BaseAgent, str]] = {
    "an expression": (INNER.build(), "inner"),
    "a pipeline": ((Agent("first", Forbidden()) >> INNER.named("last")).named("inner").build(), "last"),
    "a loop": (Loop("inner", INNER.named("again"), max_iterations=1).build(), "again"),
    "a native agent": (native(), "inner"),
    "a native agent above": (native("above", sub_agents=[native()]).sub_agents[0], "inner"),
    "an agent in a tool": (native(tools=[AgentTool(native("deep"))]), "deep"),
    "an expression in a tool": (native(tools=[AgentTool(INNER.named("deep").build())]), "deep"),
    "in a field": (_held(), "held"),
    "in a field and below": (_held_below(), "held"),
}


@pytest.mark.parametrize("plugins", [True, False])
@pytest.mark.parametrize("inside", INSIDE.values(), ids=INSIDE)
async def test_an_agent_inside_a_tool(inside: tuple[BaseAgent, str], plugins: bool) -> None:
    """Whatever agents a tool runs, their models are scripted, and their requests are in `calls`."""
    agent, speaker = inside
    backend = mock_backend(
        {"outer": CALLS_INNER, speaker: "from inside", "first": "1", "inner": "from inside"}
        | ({"inner": [call_tool("deep", request="go"), "from inside"]} if speaker == "deep" else {})
    )
    outer = Agent("outer", Forbidden()).tool(AgentTool(agent, include_plugins=plugins))
    result = await outer.run("hi", backend=backend)
    assert [r.result for e in result for r in e.tool_responses] == [{"result": "from inside"}]
    assert result.text == "done"
    assert seen(backend.calls[speaker][0]).startswith("go")


async def test_a_sequence_of_native_agents_inside_a_tool() -> None:
    """ADK's own composites inside a tool are reached too."""
    agents: list[BaseAgent] = [native("one"), native("two")]
    steps = SequentialAgent(name="inner", sub_agents=agents)  # pyright: ignore[reportDeprecated]  # users have them
    backend = mock_backend({"outer": CALLS_INNER, "one": "1", "two": "2"})
    result = await Agent("outer").tool(AgentTool(steps)).run("hi", backend=backend)
    assert [r.result for e in result for r in e.tool_responses] == [{"result": "2"}]


async def test_the_agent_inside_a_tool_is_left_as_it_was() -> None:
    """A test changes neither the tool nor the agent that the program uses."""
    inner = INNER.build()
    tool = AgentTool(inner)
    await Agent("outer").tool(tool).run("hi", backend=mock_backend({"outer": CALLS_INNER, "inner": "x"}))
    assert tool.agent is inner
    assert isinstance(inner, LlmAgent)
    assert isinstance(inner.model, Forbidden)


async def test_an_agent_inside_a_tool_without_a_script() -> None:
    """It is named in the error, as any agent."""
    outer = Agent("outer").tool(AgentTool(INNER.build()))
    with pytest.raises(MockError, match=r"No scripted response for agent 'inner'\..*Add 'inner'"):
        await outer.run("hi", backend=mock_backend({"outer": CALLS_INNER}))


async def test_a_dict_of_an_agent_inside_a_tool() -> None:
    """What it writes into state reaches the agent around it, be it one of ours or of ADK's."""
    for inner in (INNER.build(), native()):
        backend = mock_backend({"outer": CALLS_INNER, "inner": {"mood": "good"}})
        result = await Agent("outer").tool(AgentTool(inner)).run("hi", backend=backend)
        assert result.state == {"mood": "good"}


async def test_what_an_agent_inside_a_tool_asks_of_helper_models() -> None:
    """The models that its context asks are scripted, too."""
    last = INNER.named("last").context(C.summarize(model=Forbidden()))
    tool = AgentTool((Agent("first", Forbidden()) >> last).named("inner").build())
    backend = mock_backend({"outer": CALLS_INNER, "last:summarize": "In short: go."}, default="x")
    await Agent("outer").tool(tool).run("hi", backend=backend)
    assert "In short: go." in system(backend.calls["last"][0])
    assert "Be kind." in system(backend.calls["last"][0])


async def test_a_tool_that_two_uses_of_an_agent_have() -> None:
    """An agent that stands in two places is still one agent, whose tool is one tool."""
    outer = Agent("outer").tool(AgentTool(INNER.build()))
    backend = mock_backend({"outer": [*CALLS_INNER, *CALLS_INNER], "inner": ["one", "two"], "b": "ok"})
    result = await (outer >> Agent("b") >> outer).run("hi", backend=backend)
    assert [r.result for e in result for r in e.tool_responses] == [{"result": "one"}, {"result": "two"}]


class Agents(BaseToolset):
    """Tools that are made when they are asked for."""

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return [AgentTool(native())]


async def test_an_agent_that_comes_to_be_in_the_run() -> None:
    """The model of an agent that nobody knew of before the run is answered for, not asked."""
    backend = mock_backend({"outer": CALLS_INNER, "inner": "from inside"})
    result = await Agent("outer").tool(Agents()).run("hi", backend=backend)
    assert [r.result for e in result for r in e.tool_responses] == [{"result": "from inside"}]
    assert seen(backend.calls["inner"][0]) == "go"


async def test_a_preview_asks_no_model_inside_a_tool() -> None:
    """Nor does a preview, also where a tool keeps plugins out."""
    outer = Agent("outer").tool(AgentTool(INNER.build(), include_plugins=False))
    found = await outer.preview("hi", {"outer": CALLS_INNER})
    assert list(found) == ["outer"]
    assert "(what inner answers)" in str(found["outer"][1].contents)


# --- scripts that call tools ----------------------------------------------------------------------


async def test_calling_a_tool_that_is_not_there() -> None:
    """A script that calls a tool which the agent lacks is wrong; the nearest name is given."""
    agent = Agent("a").tools(refund, order)
    with pytest.raises(MockError) as caught:
        await play(agent, {"a": [call_tool("refnd", order="7"), "done"]})
    assert str(caught.value) == (
        "The script of agent 'a' calls tool 'refnd', which the agent does not have. Did you mean 'refund'?"
    )


@pytest.mark.parametrize(
    ("agent", "tools"), [(Agent("a"), "none"), (Agent("a").tools(refund, order), "'refund', 'order'")]
)
async def test_calling_a_tool_that_is_like_none(agent: Agent[str], tools: str) -> None:
    """Where no name is near, the tools that there are are listed."""
    with pytest.raises(MockError, match=rf"'zzz', which the agent does not have. Its tools: {tools}\."):
        await play(agent, {"a": replies(lambda request: call_tool("zzz"))})


async def test_tools_that_adk_adds_can_be_called() -> None:
    """A transfer, which ADK offers as a tool, is one."""
    team = Agent("boss").delegate(Agent("helper"))
    result = await play(team, {"boss": call_tool("transfer_to_agent", agent_name="helper"), "helper": "here"})
    assert result.text == "here"


CALL = call_tool("order", size=2)
AS_CONTENT = types.Content(
    role="model", parts=[types.Part(function_call=types.FunctionCall(name="order", args={"size": 2}))]
)


@pytest.mark.parametrize("response", [CALL, [CALL], ["text first", CALL], AS_CONTENT])
async def test_a_script_that_only_calls_a_tool(response: Any) -> None:
    """A script that never comes to an answer is an error that names the agent and what to write."""
    ran: list[int] = []

    def order(size: int) -> str:
        """Order something."""
        ran.append(size)
        return "ordered"

    agent = Agent("a").tool(order)
    steps = agent * 2 if response == ["text first", CALL] else agent
    with pytest.raises(MockError) as caught:
        await play(steps, {"a": response})
    assert str(caught.value) == (
        "The script of agent 'a' never answers: it called 'order' 10 times in a row. "
        "End it with an answer, as in [call_tool('order'), 'done']."
    )
    assert ran == [2] * 10


async def test_a_function_that_only_calls_a_tool() -> None:
    """So is a function that never comes to an answer, which is given more time to do so."""
    with pytest.raises(MockError, match="'a' never answers: it called 'order' 100 times in a row"):
        await play(Agent("a").tool(order), {"a": replies(lambda r: call_tool("order", size=len(r.contents)))})


async def test_a_long_list_of_tool_calls() -> None:
    """As many calls as a script lists are made."""
    calls = [call_tool("order") for _ in range(30)]
    backend = mock_backend({"a": [*calls, "done"]})
    assert (await Agent("a").tool(order).run("hi", backend=backend)).text == "done"
    assert len(backend.calls["a"]) == 31


async def test_a_function_may_call_a_tool_often() -> None:
    """A function of the request may go on as long as a test wants, short of for ever."""
    backend = mock_backend({"a": replies(lambda r: "done" if len(r.contents) > 100 else call_tool("order"))})
    assert (await Agent("a").tool(order).run("hi", backend=backend)).text == "done"
    assert len(backend.calls["a"]) == 51


async def test_a_tool_that_ends_the_turn_may_be_called_every_time() -> None:
    """A script may be one tool call where the tool itself ends the turn."""

    def leave(tool_context: ToolContext) -> str:
        """Leave the loop."""
        tool_context.actions.escalate = True
        tool_context.actions.skip_summarization = True
        return "left"

    backend = mock_backend({"a": call_tool("leave"), "b": "ok"})
    loop = Loop("l", Agent("a").tool(leave), max_iterations=3) >> Agent("b")
    for _ in range(12):
        assert (await loop.run("hi", backend=backend, session_id="s")).text == "ok"


TWICE = [["Both.", call_tool("order", size=2), call_tool("refund", order="A7")], "Done."]


async def test_several_calls_in_one_answer() -> None:
    """A list in a list is one answer: its texts and calls are parts of one message, and each tool runs."""
    backend = mock_backend({"a": TWICE})
    result = await Agent("a", "m").tool(order).tool(refund).run("hi", backend=backend)
    assert result.text.endswith("Done.")
    assert [each.result for event in result for each in event.tool_responses] == [
        {"ordered": 2},
        {"result": "A7 is paid back"},
    ]
    assert [event.content for event in result if event.tool_calls] == ["Both."]
    assert len(backend.calls["a"]) == 2


async def test_the_words_of_such_an_answer_stream() -> None:
    """They arrive word by word, as those of a plain text do."""
    agent = Agent("a", "m").tool(order).tool(refund)
    stream = agent.stream("hi", backend=mock_backend({"a": [["Both of them.", call_tool("order")], "ok"]}))
    assert [event.content async for event in stream if event.is_partial] == ["Both ", "of ", "them.", "ok"]


async def test_a_tool_in_such_an_answer_that_is_not_there() -> None:
    """Each of the calls must be of a tool that the agent has."""
    backend = mock_backend({"a": [["", call_tool("order"), call_tool("refnd")], "ok"]})
    with pytest.raises(MockError, match=r"calls tool 'refnd', which the agent does not have.*'refund'"):
        await Agent("a", "m").tool(order).tool(refund).run("hi", backend=backend)


class Holding(BaseToolset):
    """A toolset whose only tool is known during a run."""

    def __init__(self, tool: BaseTool) -> None:
        super().__init__()
        self.tool = tool

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        """The tool."""
        return [self.tool]


HELD: dict[str, Callable[[AgentTool], Agent[str]]] = {
    "timeout": lambda tool: Agent("outer").tools(T.timeout(tool, 5)),
    "retry in timeout": lambda tool: Agent("outer").tools(T.timeout(T.retry(tool, 2), 5)),
    "transform": lambda tool: Agent("outer").tools(T.transform(tool, post=str)),
    "cache": lambda tool: Agent("outer").tools(T.cache(tool, key=lambda args, context: "key")),
    "T.agent": lambda tool: Agent("outer").tools(T.agent(Agent("middle").tools(T.retry(tool, 2)))),
}
SEEN_IN_A_RUN: dict[str, Callable[[AgentTool], Agent[str]]] = {
    "a toolset": lambda tool: Agent("outer").tool(Holding(tool)),
    "a wrapped toolset": lambda tool: Agent("outer").tools(T.timeout(Holding(tool), 5)),
}


def calls_on(request: Any) -> Any:
    """Call the agent that is a tool, once."""
    tools = [tool.name for each in request.config.tools or () for tool in each.function_declarations]
    given = any(part.function_response for content in request.contents for part in content.parts or ())
    called = next((name for name in ("middle", "deep") if name in tools), None)
    return "done" if given or called is None else call_tool(called, request="hi")


@pytest.mark.parametrize(
    ("place", "plugins"),
    [(place, plugins) for place in (*HELD, *SEEN_IN_A_RUN) for plugins in (True, False)],
)
async def test_a_mock_answers_for_an_agent_wherever_a_tool_holds_it(place: str, plugins: bool) -> None:
    """The name of its model, which ADK does not know, is never looked up."""
    deep = LlmAgent(name="deep", description="Deep.", model="nobody-knows-this-model")
    backend = mock_backend({}, default=calls_on)
    made = {**HELD, **SEEN_IN_A_RUN}[place](AgentTool(deep, include_plugins=plugins))
    assert (await made.run("hi", backend=backend)).text == "done"
    assert len(backend.calls["deep"]) == 1
    assert deep.model == "nobody-knows-this-model"
