"""Errors of callbacks, planners, code executors, toolsets and plugins name the agent and the function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.planners.plan_re_act_planner import PlanReActPlanner
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

from adk_fluent import Agent, T
from adk_fluent.adopt.native_runs import as_compiled
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.running.backend import ADKBackend
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import CallbackError, MiddlewareError, RunError, StateGuardError, StepError, ToolError
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import play, raises_from, script

HOOKS = (
    *("before_agent", "after_agent", "before_model", "after_model", "on_model_error"),
    *("before_tool", "after_tool", "on_tool_error"),
)
every_hook = pytest.mark.parametrize("hook", HOOKS)
# AgentTool of newer ADKs hands plugins to its runner in a way that ADK itself deprecates.
tolerant = pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")


def look(word: str) -> str:
    """Look a word up."""
    if word == "bad":
        raise OSError("no such word")
    return word


def loose(function: Any) -> Any:
    """A function that takes what any callback is given."""
    return function


@loose
def check(**given: Any) -> None:
    """Fail."""
    raise LookupError("no\n such thing")


@loose
async def check_later(**given: Any) -> None:
    """Fail."""
    raise LookupError("no such thing")


def answers(hook: str) -> dict[str, Any]:
    """Responses with which every kind of callback is called."""
    if hook == "on_model_error":
        return {"a": OSError("down")}
    return {"a": [call_tool("look", word="bad" if hook == "on_tool_error" else "tea"), "done"]}


async def _run(expression: Any, backend: Any) -> None:
    await expression.run("hi", backend=backend)


async def _stream(expression: Any, backend: Any) -> None:
    async for _ in expression.stream("hi", backend=backend):
        pass


@every_hook
@pytest.mark.parametrize("function", [check, check_later])
@pytest.mark.parametrize("way", [_run, _stream])
async def test_a_callback_that_raises_is_named(
    hook: str, function: Callable[..., Any], way: Callable[..., Any]
) -> None:
    """One line names the agent, the kind of callback and the function; the error itself is the cause."""
    agent = getattr(Agent("a", "m").tool(look), hook)(function)
    with raises_from(LookupError) as caught:
        await way(Agent("z").writes("k") >> agent, mock_backend({"z": "said", **answers(hook)}))
    name = function.__name__
    assert type(caught.value) is CallbackError
    assert str(caught.value) == f"Agent 'a': its {hook} callback {name!r} raised LookupError: no such thing."
    assert caught.value.result is not None
    assert caught.value.result.state == {"k": "said"}


@every_hook
async def test_plain_adk_gets_the_error_itself(hook: str) -> None:
    """Under ADK's own runner a callback's error is the one that was raised."""
    backend = mock_backend(answers(hook))
    agent = getattr(Agent("a", "m").tool(look), hook)(check)
    root = backend.compile(agent.node).app.root_agent
    runner = Runner(
        app=App(name="plain", root_agent=root),
        session_service=InMemorySessionService(),
        auto_create_session=True,
    )
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    with pytest.raises(LookupError):
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass


class Checker:
    def __call__(self, **given: Any) -> None:
        raise LookupError("no such thing")

    def method(self, **given: Any) -> None:
        raise LookupError("no such thing")


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (Checker(), "Checker"),
        (Checker().method, "method"),
        (functools.partial(check, more=1), "check"),
    ],
    ids=["object", "method", "partial"],
)
async def test_whatever_the_callback_is(function: Callable[..., Any], name: str) -> None:
    """A callable object, a method and a partial function are named."""
    with raises_from(LookupError, match=rf"^Agent 'a': its before_model callback '{name}' raised"):
        await play(Agent("a").before_model(function))


async def test_a_callback_that_gets_a_resource_is_named() -> None:
    """So is a callback that is given what `.inject` provides."""

    @loose
    def audit(callback_context: Any, db: str) -> None:
        raise LookupError(db)

    @loose
    def fine(callback_context: Any, db: str) -> None:
        assert db

    with raises_from(LookupError, match="its after_agent callback 'audit' raised LookupError: db"):
        await play(Agent("a").before_agent(fine).after_agent(audit).inject(db="db"))


async def test_one_function_for_two_kinds_of_callback() -> None:
    """Where the function alone does not tell which callback it was, both are named."""
    agent = Agent("a").before_model(check).after_model(check)
    with raises_from(LookupError, match="its before_model or after_model callback 'check' raised"):
        await play(agent)


async def test_errors_of_ours_pass_as_they_are() -> None:
    """A callback can refuse with one of our errors."""

    @loose
    def refuse(**given: Any) -> None:
        raise StateGuardError("Not today.")

    with pytest.raises(StateGuardError, match=r"^Not today\.$"):
        await play(Agent("a").before_agent(refuse))


@loose
def raise_again(error: Exception, **given: Any) -> None:
    """Raise what the tool or the model raised."""
    raise error


async def test_an_error_that_is_raised_again_is_that_of_the_tool() -> None:
    """A callback that passes an error of a tool or a model on is not what failed."""
    tool = Agent("a").tool(look).on_tool_error(raise_again)
    with raises_from(OSError, match="its tool 'look' raised OSError") as caught:
        await play(tool, answers("on_tool_error"))
    assert type(caught.value) is ToolError
    with raises_from(OSError, match="got no answer from its model"):
        await play(Agent("a").on_model_error(raise_again), answers("on_model_error"))


async def test_a_fallback_takes_over_from_a_callback() -> None:
    """An agent whose callback raises has failed, and its fallback answers."""
    result = await play(Agent("a").before_agent(check) // Agent("b"))
    assert result.text == "ok"


@tolerant
@pytest.mark.parametrize("hook", ["before_agent", "before_model", "after_tool"])
async def test_a_callback_of_an_agent_inside_a_tool_is_named(hook: str) -> None:
    """What is named is the agent whose callback raised, not the tool that it is behind."""
    inner = getattr(Agent("a").describe("Helps.").tool(look), hook)(check)
    for tool in (T.agent(inner), AgentTool(inner.build())):
        backend = mock_backend({"boss": [call_tool("a", request="help"), "done"], **answers(hook)})
        with raises_from(LookupError, match=rf"^Agent 'a': its {hook} callback 'check' raised"):
            await Agent("boss").tool(tool).run("hi", backend=backend)


# --- native agents --------------------------------------------------------------------------------


@every_hook
@pytest.mark.parametrize("root", [True, False], ids=["root", "step"])
async def test_a_callback_of_a_native_agent_is_named(hook: str, root: bool) -> None:
    """So are the callbacks of an agent that was made with ADK alone, alone and as a step."""
    model: Any = mock_backend(answers(hook)).model_for(Agent("a").node, "a")
    native = LlmAgent.model_validate(
        {"name": "a", "model": model, "tools": [look], f"{hook}_callback": check}
    )
    with raises_from(LookupError, match=rf"^Agent 'a': its {hook} callback 'check' raised"):
        if root:
            compiled = as_compiled(native, ExecutionConfig())
            await ADKBackend().run(compiled, "hi", session_id="s")
        else:
            await (Agent("z") >> native).run("hi", backend=mock_backend({"z": "said", **answers(hook)}))


async def test_an_instruction_of_a_native_agent_is_named() -> None:
    """An instruction provider of an agent that was made with ADK alone is told like one of ours."""
    model: Any = script().model_for(Agent("a").node, "a")

    def words(ctx: Any) -> str:
        raise LookupError("no such thing")

    for made in (LlmAgent(name="a", model=model, instruction=words), Agent("a").instruct(words)):
        with raises_from(LookupError, match=r"^Agent 'a'.* raised LookupError: no such thing\.$") as caught:
            await (Agent("z") >> made).run("hi", backend=script())
        assert type(caught.value) is StepError


# --- other parts of an agent ----------------------------------------------------------------------


class Plans(PlanReActPlanner):
    def build_planning_instruction(self, readonly_context: Any, llm_request: Any) -> str:
        raise LookupError("no plan")


class Executes(BaseCodeExecutor):
    def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
        raise LookupError("no machine")


class Breaks(BaseToolset):
    async def get_tools(self, readonly_context: Any = None) -> Any:
        raise LookupError("no tools")

    async def close(self) -> None:
        """Nothing is open."""


async def test_a_toolset_is_named() -> None:
    """What gives an agent its tools is named by its class, on an ADK that does not go on without them."""
    if private.drops_failing_toolsets():
        assert (await play(Agent("a").tool(Breaks()))).text == "ok"
        return
    with raises_from(LookupError) as caught:
        await play(Agent("a").tool(Breaks()))
    assert str(caught.value) == "Agent 'a': its toolset 'Breaks' raised LookupError: no tools."


async def test_a_planner_and_a_code_executor_are_named() -> None:
    """What makes plans, and what runs code, is named by its class."""
    with raises_from(LookupError) as caught:
        await play(Agent("a").planner(Plans()))
    assert str(caught.value) == "Agent 'a': its planner 'Plans' raised LookupError: no plan."
    with raises_from(LookupError) as caught:
        await play(Agent("a").code_executor(Executes()), {"a": "```python\nprint(1)\n```"})
    assert str(caught.value) == "Agent 'a': its code executor 'Executes' raised LookupError: no machine."
    assert type(caught.value) is CallbackError


# --- plugins --------------------------------------------------------------------------------------


class Audit(BasePlugin):
    """A plugin of the user's that fails in one place."""

    def __init__(self, hook: str, error: Exception) -> None:
        super().__init__(name="audit")

        async def fail(self: Any, **given: Any) -> None:
            raise error

        fail.__name__ = fail.__qualname__ = f"{hook}_callback"
        fail.__code__ = fail.__code__.replace(co_name=f"{hook}_callback")
        setattr(self, f"{hook}_callback", fail.__get__(self))


@pytest.mark.parametrize("hook", [*HOOKS, "before_run", "on_event", "on_user_message"])
async def test_a_plugin_of_an_app_is_named(hook: str) -> None:
    """A plugin of ADK's app is named with its callback, and with the agent where one was at work."""
    model: Any = mock_backend(answers(hook)).model_for(Agent("a").node, "a")
    plugin = Audit(hook, LookupError("no such thing"))
    app = App(name="x", root_agent=LlmAgent(name="a", model=model, tools=[look]), plugins=[plugin])
    with raises_from(LookupError) as caught:
        await ADKBackend().run(as_compiled(app, ExecutionConfig()), "hi", session_id="s")
    assert type(caught.value) is CallbackError
    told = f"{hook}_callback of the plugin 'audit' raised LookupError: no such thing."
    agent = "" if hook in ("before_run", "on_event", "on_user_message") else "Agent 'a': "
    assert str(caught.value) == agent + told


async def test_a_plugin_can_raise_our_errors() -> None:
    """What a plugin raises of ours passes as it is; ADK wraps it."""
    model: Any = script().model_for(Agent("a").node, "a")
    plugin = Audit("before_model", StateGuardError("Not today."))
    app = App(name="x", root_agent=LlmAgent(name="a", model=model), plugins=[plugin])
    with pytest.raises(StateGuardError, match=r"^Not today\.$"):
        await ADKBackend().run(as_compiled(app, ExecutionConfig()), "hi", session_id="s")


async def test_a_plugin_as_middleware_is_named() -> None:
    """A plugin that is attached to an expression is told as the middleware that it is."""
    plugin = Audit("before_model", LookupError("no such thing"))
    with raises_from(LookupError, match=r"'a': Audit\.before_model\(\) raised") as caught:
        await play(Agent("a").middleware(plugin))
    assert type(caught.value) is MiddlewareError


def test_every_error_is_one_of_a_run() -> None:
    """`except RunError` catches what callbacks raise."""
    assert issubclass(CallbackError, RunError)
