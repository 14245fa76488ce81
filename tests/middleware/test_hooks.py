"""When each hook is called, with what, and what its answer does, on every way to run."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from adk_fluent import Agent
from adk_fluent.errors import MiddlewareError, ModelError, RunError
from adk_fluent.middleware import CallModel, Context, Middleware
from adk_fluent.middleware.checking import HOOKS
from adk_fluent.testing import call_tool, mock_backend

Said = list[tuple[str, ...]]


class Notes(Middleware):
    """Notes every hook that is called."""

    def __init__(self, sign: str = "", heard: Said | None = None) -> None:
        self.sign = sign
        self.heard: Said = [] if heard is None else heard

    def note(self, *what: str) -> None:
        self.heard.append((self.sign, *what) if self.sign else what)

    async def on_user_message(self, ctx: Context, message: types.Content) -> None:
        self.note("on_user_message", (message.parts or [])[0].text or "")

    async def before_run(self, ctx: Context) -> None:
        self.note("before_run", ctx.agent_name)

    async def after_run(self, ctx: Context) -> None:
        self.note("after_run", ctx.agent_name)

    async def on_event(self, ctx: Context, event: Any) -> None:
        self.note("on_event", event.author, event.content or "")

    async def before_agent(self, ctx: Context, agent_name: str) -> None:
        self.note("before_agent", agent_name)

    async def after_agent(self, ctx: Context, agent_name: str) -> None:
        self.note("after_agent", agent_name)

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        self.note("before_model", ctx.agent_name)

    async def after_model(self, ctx: Context, response: LlmResponse) -> None:
        self.note("after_model", ctx.agent_name)

    async def on_model_error(self, ctx: Context, request: LlmRequest, error: Exception) -> None:
        self.note("on_model_error", ctx.agent_name, str(error))

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        self.note("around_model", ctx.agent_name)
        async for response in call(request):
            yield response
        self.note("around_model ends", ctx.agent_name)

    async def before_tool(self, ctx: Context, tool_name: str, args: dict[str, Any]) -> None:
        self.note("before_tool", tool_name)

    async def after_tool(
        self, ctx: Context, tool_name: str, args: dict[str, Any], result: dict[str, Any]
    ) -> None:
        self.note("after_tool", tool_name, str(result))

    async def on_tool_error(
        self, ctx: Context, tool_name: str, args: dict[str, Any], error: Exception
    ) -> None:
        self.note("on_tool_error", tool_name, str(error))

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: Any) -> Any:
        self.note("around_tool", tool_name)
        result = await call(args)
        self.note("around_tool ends", tool_name)
        return result


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


async def test_every_hook_is_called_where_it_should() -> None:
    """A run with a tool calls the hooks in the order of what happens."""
    notes = Notes()
    agent = Agent("a").tool(double).middleware(notes)
    result = await agent.run("hi", backend=mock_backend({"a": [call_tool("double", n=2), "four"]}))
    assert result.text == "four"
    assert notes.heard == [
        ("on_user_message", "hi"),
        ("before_run", "a"),
        ("before_agent", "a"),
        ("before_model", "a"),
        ("around_model", "a"),
        ("around_model ends", "a"),
        ("after_model", "a"),
        ("on_event", "a", ""),
        ("before_tool", "double"),
        ("around_tool", "double"),
        ("around_tool ends", "double"),
        ("after_tool", "double", "4"),
        ("on_event", "a", ""),
        ("before_model", "a"),
        ("around_model", "a"),
        ("around_model ends", "a"),
        ("after_model", "a"),
        ("on_event", "a", "four"),
        ("after_agent", "a"),
        ("after_run", "a"),
    ]


# --- order and answers ----------------------------------------------------------------------------


class Native(BasePlugin):
    """One of ADK's own plugins, which notes the same."""

    def __init__(self, sign: str, heard: Said) -> None:
        super().__init__(name=sign)
        self.heard = heard

    async def before_model_callback(self, **given: Any) -> None:
        self.heard.append((self.name, "before_model", given["callback_context"].agent_name))

    async def after_model_callback(self, **given: Any) -> None:
        self.heard.append((self.name, "after_model", given["callback_context"].agent_name))

    async def before_tool_callback(self, **given: Any) -> None:
        self.heard.append((self.name, "before_tool", given["tool"].name, str(given["tool_args"])))

    async def after_tool_callback(self, **given: Any) -> None:
        self.heard.append((self.name, "after_tool", str(given["result"])))

    async def on_event_callback(self, **given: Any) -> None:
        self.heard.append((self.name, "on_event", given["event"].author))

    async def before_agent_callback(self, **given: Any) -> None:
        self.heard.append((self.name, "before_agent", given["agent"].name))

    async def before_run_callback(self, **given: Any) -> None:
        self.heard.append((self.name, "before_run", given["invocation_context"].agent.name))

    async def on_user_message_callback(self, **given: Any) -> None:
        self.heard.append((self.name, "on_user_message", given["user_message"].parts[0].text))


class Marked(Middleware):
    def __init__(self, sign: str, heard: Said) -> None:
        self.sign, self.heard = sign, heard

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        self.heard.append((self.sign, "before_model"))

    async def after_model(self, ctx: Context, response: LlmResponse) -> None:
        self.heard.append((self.sign, "after_model"))

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        self.heard.append((self.sign, "in"))
        async for response in call(request):
            yield response
        self.heard.append((self.sign, "out"))

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: Any) -> Any:
        self.heard.append((self.sign, "tool in"))
        result = await call(args)
        self.heard.append((self.sign, "tool out"))
        return result


async def test_what_goes_in_passes_in_order_and_what_comes_out_in_reverse() -> None:
    """The first is the outermost: of the run, then of the expression around, then of the inner one."""
    heard: Said = []
    inner = Agent("a").middleware(Marked("3", heard), Native("4", heard))
    pipeline = (inner >> Agent("b")).middleware(Marked("2", heard))
    await pipeline.run("hi", backend=mock_backend(default="x"), middleware=[Marked("1", heard)])
    of_a = heard[: heard.index(("1", "before_model"), 1 + heard.index(("1", "before_model")))]
    assert [said for said in of_a if said[1] in ("before_model", "in", "out", "after_model")] == [
        ("1", "before_model"),
        ("2", "before_model"),
        ("3", "before_model"),
        ("4", "before_model", "a"),
        ("1", "in"),
        ("2", "in"),
        ("3", "in"),
        ("3", "out"),
        ("2", "out"),
        ("1", "out"),
        ("4", "after_model", "a"),
        ("3", "after_model"),
        ("2", "after_model"),
        ("1", "after_model"),
    ]
    assert {said[0] for said in heard[len(of_a) :] if "model" in said[1]} == {"1", "2"}


async def test_native_plugins_get_what_adk_gives_them() -> None:
    """A plugin of ADK's in the stack is called with its own arguments, for the part of the tree it is on."""
    heard: Said = []
    inner = Agent("a").tool(double).middleware(Native("n", heard))
    backend = mock_backend({"a": [call_tool("double", n=2), "four"], "b": "x"})
    await (Agent("b") >> inner).run("hi", backend=backend)
    assert heard == [
        ("n", "on_user_message", "hi"),
        ("n", "before_run", "sequence"),
        ("n", "before_agent", "a"),
        ("n", "before_model", "a"),
        ("n", "after_model", "a"),
        ("n", "on_event", "a"),
        ("n", "before_tool", "double", "{'n': 2}"),
        ("n", "after_tool", "4"),
        ("n", "on_event", "a"),
        ("n", "before_model", "a"),
        ("n", "after_model", "a"),
        ("n", "on_event", "a"),
    ]


class Answers(Middleware):
    """Answers in one hook, and notes whether it was asked."""

    def __init__(self, hook: str, answer: Any) -> None:
        self.hook, self.answer = hook, answer
        self.asked = 0

    def _say(self, hook: str) -> Any:
        self.asked += self.hook == hook
        return self.answer if self.hook == hook else None

    async def on_user_message(self, ctx: Context, message: types.Content) -> Any:
        return self._say("on_user_message")

    async def before_run(self, ctx: Context) -> Any:
        return self._say("before_run")

    async def before_agent(self, ctx: Context, agent_name: str) -> Any:
        return self._say("before_agent") if agent_name == "a" else None

    async def before_model(self, ctx: Context, request: LlmRequest) -> Any:
        return self._say("before_model")

    async def after_model(self, ctx: Context, response: LlmResponse) -> Any:
        if self.hook != "after_model":
            return None
        self.asked += 1
        return f"{((response.content and response.content.parts) or [types.Part()])[0].text}{self.answer}"

    async def on_model_error(self, ctx: Context, request: LlmRequest, error: Exception) -> Any:
        return self._say("on_model_error")

    async def before_tool(self, ctx: Context, tool_name: str, args: dict[str, Any]) -> Any:
        return self._say("before_tool")

    async def after_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], result: Any) -> Any:
        if self.hook != "after_tool":
            return None
        self.asked += 1
        said = cast("dict[str, Any]", result)["result"] if isinstance(result, dict) else cast(object, result)
        return {"result": f"{said}{self.answer}"}

    async def on_tool_error(
        self, ctx: Context, tool_name: str, args: dict[str, Any], error: Exception
    ) -> Any:
        return self._say("on_tool_error")


def refuse(n: int) -> int:
    """Never works."""
    raise ValueError("no")


def text_of(request: LlmRequest) -> str:
    """What a model is sent last, a tool's result included."""
    parts = request.contents[-1].parts or []
    results = [part.function_response.response for part in parts if part.function_response]
    return f"got {results[0] if results else parts[0].text}"


async def answered(hook: str, *answers: Any, script: Any = None, tool: Any = double) -> tuple[str, list[int]]:
    """What a run says in which middleware answers so, and how often each was asked."""
    stack = [Answers(hook, answer) for answer in answers]
    agent = Agent("a").tool(tool).middleware(*stack)
    backend = mock_backend({"a": text_of if script is None else script})
    result = await agent.run("hi", backend=backend)
    return result.text, [each.asked for each in stack]


@pytest.mark.parametrize("hook", ["before_run", "before_agent", "before_model"])
async def test_the_first_that_answers_before_decides(hook: str) -> None:
    """What `before_*` returns is the answer; neither the next middleware nor the model is asked."""
    assert await answered(hook, None, "no need", "never") == ("no need", [1, 1, 0])


async def test_the_message_of_the_user_can_be_replaced() -> None:
    """What `on_user_message` returns is what the agents see."""
    assert await answered("on_user_message", "bye", "never") == ("got bye", [1, 0])


async def test_each_that_answers_after_sees_what_the_one_before_made() -> None:
    """`after_model` and `after_tool` run from the innermost on, each on what the last one made."""
    assert await answered("after_model", " outer", " inner") == ("got hi inner outer", [1, 1])
    script = [call_tool("double", n=2), text_of]
    text, asked = await answered("after_tool", " outer", " inner", script=script)
    assert (text, asked) == ("got {'result': '4 inner outer'}", [1, 1])


async def test_a_tool_can_be_answered_for() -> None:
    """What `before_tool` returns is the result, and the tool is not called."""
    script = [call_tool("refuse", n=2), text_of]
    text, asked = await answered("before_tool", {"r": 1}, {"r": 2}, script=script, tool=refuse)
    assert (text, asked) == ("got {'r': 1}", [1, 0])


async def test_a_failure_can_be_answered_for() -> None:
    """What `on_*_error` returns takes the place of what failed; the innermost is asked first."""
    text, asked = await answered("on_model_error", "outer", "inner", script=ValueError("no"))
    assert (text, asked) == ("inner", [0, 1])
    script = [call_tool("refuse", n=2), text_of]
    text, asked = await answered("on_tool_error", {"r": 1}, {"r": 2}, script=script, tool=refuse)
    assert (text, asked) == ("got {'r': 2}", [0, 1])


async def test_a_failure_that_nobody_answers_for_is_as_without() -> None:
    """A model's error passes the middleware and is told as ever."""
    with pytest.raises(ModelError, match="Agent 'a' got no answer from its model") as caught:
        await answered("on_model_error", None, script=ValueError("no"))
    assert isinstance(caught.value.__cause__, ValueError)


# --- failures of hooks ----------------------------------------------------------------------------

RAISING = [name for name in HOOKS if "error" not in name]


def raising(hook: str, error: Exception, *, best_effort: bool = False) -> Middleware:
    """A middleware with one hook, which raises."""

    async def fail(self: Any, *given: Any) -> Any:
        raise error

    async def generate(self: Any, *given: Any) -> Any:
        raise error
        yield

    methods = {hook: generate if hook == "around_model" else fail, "best_effort": best_effort}
    return type("Broken", (Middleware,), methods)()


@pytest.mark.parametrize("hook", RAISING)
async def test_a_hook_that_raises_stops_the_run(hook: str) -> None:
    """The error names the middleware, its hook and the agent, and has the original as its cause."""
    error = KeyError("who")
    agent = Agent("a").tool(double).middleware(raising(hook, error))
    with pytest.raises(MiddlewareError) as caught:
        await agent.run("hi", backend=mock_backend({"a": [call_tool("double", n=2), "four"]}))
    assert str(caught.value) == f"'a': Broken.{hook}() raised KeyError: 'who'."
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("hook", RAISING)
async def test_a_hook_that_may_fail_is_only_logged(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    """With `best_effort` the failure is logged and the run is as without the middleware."""
    agent = Agent("a").tool(double).middleware(raising(hook, KeyError("who"), best_effort=True))
    backend = mock_backend({"a": [call_tool("double", n=2), "four"]})
    assert await agent.ask_async("hi", backend=backend) == "four"
    assert len(backend.calls["a"]) == 2
    logged = {record.getMessage() for record in caplog.records if record.name == "adk_fluent.middleware"}
    pattern = (
        rf"a: Broken\.{hook}\(\) raised KeyError at \w+\.py:\d+\. The run goes on, since it is best_effort\."
    )
    assert [re.fullmatch(pattern, each) is not None for each in logged] == [True]


@pytest.mark.parametrize("hook", RAISING)
async def test_an_error_of_the_library_passes_as_it_is(hook: str) -> None:
    """What says itself what is wrong, such as a refusal of a built-in, is raised unchanged."""
    error = RunError("The budget of 'a' is used up.")
    agent = Agent("a").tool(double).middleware(raising(hook, error))
    with pytest.raises(RunError) as caught:
        await agent.run("hi", backend=mock_backend({"a": [call_tool("double", n=2), "four"]}))
    assert caught.value is error


@pytest.mark.parametrize("hook", ["before_run", "before_agent", "before_model", "around_model", "on_event"])
async def test_an_answer_that_cannot_be_used_is_named(hook: str) -> None:
    """A hook that gives a number is told what it may give."""

    async def wrong(self: Any, *given: Any) -> Any:
        return 5

    async def generate(self: Any, *given: Any) -> Any:
        yield 5

    made = type("Odd", (Middleware,), {hook: generate if hook == "around_model" else wrong})()
    with pytest.raises(
        MiddlewareError, match=rf"Odd\.{hook}\(\) raised TypeError: it (returned|gave) 5, and"
    ):
        await Agent("a").middleware(made).run("hi", backend=mock_backend({"a": "x"}))
