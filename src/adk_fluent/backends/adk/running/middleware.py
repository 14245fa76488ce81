"""The one plugin that a stack of middleware becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, partial
from typing import Any, Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.asides import in_full, in_place_of
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.middleware.answers import content_of, response_of
from adk_fluent.backends.adk.middleware.calls import step_of, surround, take_step, wrap_tools
from adk_fluent.backends.adk.middleware.context import PLUGIN, HookContext
from adk_fluent.backends.adk.middleware.stack import (
    NOTHING,
    Hook,
    Stack,
    callback_of,
    stack_at,
    stack_of,
    surround_all,
)
from adk_fluent.backends.adk.running.convert import to_agent_event
from adk_fluent.backends.adk.running.replacing import replaced
from adk_fluent.backends.adk.running.toolsets import agents_inside, every_agent
from adk_fluent.backends.adk.steps.tree import below
from adk_fluent.errors import MiddlewareError, sentence, what_happened
from adk_fluent.ir.base import Node, walk


class MiddlewarePlugin(AddedPlugin):
    """Calls the middleware of an app; made by `plugin_of`, with the callbacks in use and no others.

    Which middleware acts on an agent, the agent knows: it was compiled with it.

    Args:
        everything: the middleware of the whole app, in order.
        root: what runs first.
    """

    def __init__(self, everything: Stack, root: BaseAgent) -> None:
        super().__init__(name=PLUGIN)
        self._everything = everything
        # ADK's contexts do not tell of a workflow that it is the root.
        self._around = None if isinstance(cast(object, root), BaseAgent) else stack_at(root)
        self._root = root
        self._authors: tuple[BaseAgent | None, dict[str, Stack]] = (None, {})

    def author(self, ctx: InvocationContext, name: str) -> Stack:
        """The middleware that acts on what an agent says."""
        if self._around is not None and ctx.agent is None:  # a workflow's own event
            return self._around
        root = cast(BaseAgent, ctx.agent).root_agent
        if self._authors[0] is not root:
            self._authors = (root, dict(reversed(list(acting(root)))))  # as in `_acting`
        own = self._authors[1].get(name)
        own = stack_at(root) if own is None else own
        outer = private.caller(ctx)
        return own if outer is None else stack_of(outer).around(own.middleware)

    def place_of(self, middleware: object) -> tuple[int, frozenset[str]]:
        """Where a middleware stands among all of the app, and the names of the agents that it acts on."""
        everything = self._everything.middleware
        position = everything.index(middleware) if middleware in everything else -1
        names = (name for name, stack in self._acting.items() if middleware in stack.middleware)
        return position, frozenset(names)

    def acts_on(self, middleware: object, author: str) -> bool:
        """Whether a middleware acts on what an agent says, wherever in the app that is."""
        return middleware in self._acting.get(author, stack_at(self._root)).middleware

    @cached_property
    def _acting(self) -> Mapping[str, Stack]:
        if self._around is not None:
            return {}
        return dict(reversed(list(acting(self._root))))  # of one name, the outer one counts

    def begin(self, ctx: InvocationContext) -> None:
        """Note that a run begins, unless that is known."""
        runs.begin(ctx, self._everything.middleware, self._root)
        if self._around is not None:
            surround_all(ctx, self._around)

    @property
    def everything(self) -> Stack:
        """The middleware of the whole app."""
        return self._everything

    async def close(self) -> None:
        """Close the middleware; see `close`."""
        await close(self._everything.middleware)


def acting(root: BaseAgent, around: Stack = NOTHING) -> Iterator[tuple[str, Stack]]:
    """The name of every agent with the middleware that acts on it; agents inside tools after the others.

    What these say the run around the tool tells, in which alone there are plugins.
    """
    agents = [(agent, around.around(stack_at(agent).middleware)) for agent in below(root)]
    yield from ((agent.name, own) for agent, own in agents)
    for agent, own in agents:
        for tool in getattr(agent, "tools", ()):
            for inner in agents_inside(tool):
                yield from acting(inner, own)


async def close(middleware: Iterable[object]) -> None:
    """Close some middleware, each whatever the others do; one that a run needs stays open.

    Older ADKs close the plugins of a run after each agent inside a tool, in the middle of it.

    Raises:
        MiddlewareError: one could not be closed.
    """
    failed: MiddlewareError | None = None
    for each in middleware:
        closing = getattr(each, "close", None)
        try:
            if closing is not None and not runs.using(each):
                await closing()
        except Exception as error:  # noqa: BLE001  # it is somebody else's
            what = sentence(what_happened(error))
            problem = MiddlewareError(f"{type(each).__name__}.close() raised {what}")
            problem.__cause__ = error
            failed = failed or problem
    if failed is not None:
        raise failed


async def close_inside(root: Node) -> None:
    """Close the middleware of a tree."""
    await close(Stack(each for node in walk(root) for each in node.annotations.middleware).middleware)


def middleware_plugins(root: BaseAgent) -> list[BasePlugin]:
    """The plugin that a tree of native agents needs, if it or an agent inside its tools has middleware."""
    found = [each for agent in (root, *every_agent(root)) for each in stack_at(agent).middleware]
    return [plugin_of(Stack(found), root)] if found else []


# --- the run --------------------------------------------------------------------------------------


async def _on_user_message(
    self: MiddlewarePlugin, *, invocation_context: InvocationContext, user_message: types.Content
) -> types.Content | None:
    if private.caller(invocation_context) is not None:  # an agent's tool asks: no user said that
        return None
    self.begin(invocation_context)
    ctx, given = HookContext(invocation_context), user_message
    for hook in self.everything.of("on_user_message"):
        answer = await hook.ask(ctx, lambda said: content_of(said, "user", "on_user_message"), given)
        if answer is not None:
            given = answer
            break
    await ctx.store()
    return None if given is user_message else given


async def _before_run(
    self: MiddlewarePlugin, *, invocation_context: InvocationContext
) -> types.Content | None:
    if private.caller(invocation_context) is not None:
        return None
    self.begin(invocation_context)
    ctx, answer = HookContext(invocation_context), None
    for hook in self.everything.of("before_run"):
        answer = await hook.ask(ctx, lambda said: content_of(said, "model", "before_run"))
        if answer is not None:
            break
    await ctx.store()
    return answer


async def _after_run(self: MiddlewarePlugin, *, invocation_context: InvocationContext) -> None:
    if private.caller(invocation_context) is not None:
        return
    try:
        ctx = HookContext(invocation_context)
        for hook in self.everything.of("after_run"):
            await hook.ask(ctx, _ignored)
        await ctx.store()
    finally:
        runs.end(invocation_context)


async def _on_run_error(
    self: MiddlewarePlugin, *, invocation_context: InvocationContext, error: Exception
) -> None:
    if private.caller(invocation_context) is not None:
        return
    try:
        ctx = HookContext(invocation_context)
        for hook in self.everything.of("on_run_error"):
            await hook.ask(ctx, _ignored, error)
        await ctx.store()
    finally:
        runs.end(invocation_context)


async def _on_event(
    self: MiddlewarePlugin, *, invocation_context: InvocationContext, event: Event
) -> Event | None:
    hooks = self.author(invocation_context, event.author).of("on_event")
    if not hooks:
        return None
    whole = current = in_full(event)
    ctx = HookContext(invocation_context, event.author)
    for hook in hooks:
        ctx.event = current
        given = to_agent_event(current, ctx.session_id)
        changed = await hook.ask(ctx, partial(replaced, current, given), given)
        current = current if changed is None else changed
    await ctx.store()
    return None if current is whole else in_place_of(event, current)


# --- agents ---------------------------------------------------------------------------------------


async def _before_agent(
    self: MiddlewarePlugin, *, agent: BaseAgent, callback_context: CallbackContext
) -> types.Content | None:
    hooks = stack_of(private.invocation(callback_context)).of("before_agent")
    if not hooks:
        return None
    ctx = HookContext(callback_context, agent.name)
    for hook in hooks:
        answer = await hook.ask(ctx, lambda said: content_of(said, "model", "before_agent"), agent.name)
        if answer is not None:
            return answer
    return None


async def _after_agent(
    self: MiddlewarePlugin, *, agent: BaseAgent, callback_context: CallbackContext
) -> types.Content | None:
    ctx, answer = HookContext(callback_context, agent.name), None
    for hook in stack_of(ctx.invocation).of("after_agent"):
        said = await hook.ask(ctx, lambda said: content_of(said, "model", "after_agent"), agent.name)
        answer = answer if said is None else said
    return answer


async def _on_agent_error(
    self: MiddlewarePlugin, *, agent: BaseAgent, callback_context: CallbackContext, error: Exception
) -> None:
    ctx = HookContext(callback_context, agent.name)
    for hook in stack_of(ctx.invocation).of("on_agent_error"):
        await hook.ask(ctx, _ignored, agent.name, error)


def _ignored(answer: object) -> None:
    """What a hook returns where there is nothing to be answered."""


# --- models ---------------------------------------------------------------------------------------


async def _before_model(
    self: MiddlewarePlugin, *, callback_context: CallbackContext, llm_request: LlmRequest
) -> LlmResponse | None:
    invocation = private.invocation(callback_context)
    stack = stack_of(invocation)
    if getattr(callback_context, "operation", None) is None:
        take_step(callback_context)
        if "around_tool" in stack.hooks:
            wrap_tools(llm_request)
        if "around_model" in stack.hooks:
            surround(invocation)
    hooks = stack.of("before_model")
    if not hooks:
        return None
    made = partial(response_of, "before_model", None)
    return await _first_answer(HookContext(callback_context), hooks, made, llm_request)


async def _after_model(
    self: MiddlewarePlugin, *, callback_context: CallbackContext, llm_response: LlmResponse
) -> LlmResponse | None:
    ctx = HookContext(_in_step(callback_context))
    hooks = stack_of(ctx.invocation).of("after_model")
    return await _last_change(ctx, hooks, partial(response_of, "after_model"), llm_response)


async def _on_model_error(
    self: MiddlewarePlugin, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
) -> LlmResponse | None:
    ctx = HookContext(_in_step(callback_context))
    made = partial(response_of, "on_model_error", None)
    hooks = stack_of(ctx.invocation).of("on_model_error")
    answer = await _first_answer(ctx, hooks, made, llm_request, error)
    if answer is None:
        await ctx.keep()
    return answer


def _in_step(ctx: CallbackContext) -> CallbackContext:
    """The context whose writes ADK stores: before 2.x, plugins get another one after a call."""
    if getattr(ctx, "operation", None) is not None:
        return ctx
    return step_of(private.invocation(ctx)) or ctx


# --- tools ----------------------------------------------------------------------------------------


async def _before_tool(
    self: MiddlewarePlugin, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
) -> Any:
    ctx = HookContext(tool_context, tool=tool)
    hooks = stack_of(ctx.invocation).of("before_tool")
    return await _first_answer(ctx, hooks, partial(_as_it_is, None), tool.name, tool_args)


async def _after_tool(
    self: MiddlewarePlugin,
    *,
    tool: BaseTool,
    tool_args: dict[str, Any],
    tool_context: ToolContext,
    result: Any,
) -> Any:
    ctx = HookContext(tool_context, tool=tool)
    hooks = stack_of(ctx.invocation).of("after_tool")
    return await _last_change(ctx, hooks, _as_it_is, tool.name, tool_args, result)


async def _on_tool_error(
    self: MiddlewarePlugin,
    *,
    tool: BaseTool,
    tool_args: dict[str, Any],
    tool_context: ToolContext,
    error: BaseException,
) -> Any:
    ctx, failed = HookContext(tool_context, tool=tool), isinstance(error, Exception)
    # ADK 2.x tells plugins of a cancellation, too.
    hooks = [hook for hook in stack_of(ctx.invocation).of("on_tool_error") if hook.native or failed]
    answer = await _first_answer(ctx, hooks, partial(_as_it_is, None), tool.name, tool_args, error)
    if answer is None and failed:
        await ctx.keep()
    return answer


def _as_it_is(before: object, answer: Any) -> Any:
    """What a tool gives is passed on, whatever it is."""
    return answer


# --- models and tools -----------------------------------------------------------------------------


async def _first_answer(
    ctx: HookContext, hooks: Iterable[Hook], made: Callable[[Any], Any], *given: Any
) -> Any:
    """The first answer of the hooks of a call; what they wrote is kept when one of them raises."""
    try:
        for hook in hooks:
            answer = await hook.ask(ctx, made, *given)
            if answer is not None:
                return answer
    except Exception:
        await ctx.keep()
        raise
    return None


async def _last_change(
    ctx: HookContext, hooks: Iterable[Hook], made: Callable[[Any, Any], Any], *given: Any
) -> Any:
    """The last of the values `given`, as the hooks of a call changed it in turn; `None` if none of them did.

    What they wrote is kept when one of them raises.

    Args:
        made: gives a hook's answer its form, from the value before it and the answer.
    """
    *beside, current = given
    try:
        for hook in hooks:
            changed = await hook.ask(ctx, partial(made, current), *beside, current)
            current = current if changed is None else changed
    except Exception:
        await ctx.keep()
        raise
    return None if current is given[-1] else current


# --- which of them there are ----------------------------------------------------------------------


_CALLBACKS: Final[Mapping[str, Callable[..., Any]]] = {
    "on_user_message": _on_user_message,
    "before_run": _before_run,
    "after_run": _after_run,
    "on_run_error": _on_run_error,
    "on_event": _on_event,
    "before_agent": _before_agent,
    "after_agent": _after_agent,
    "on_agent_error": _on_agent_error,
    "before_model": _before_model,
    "after_model": _after_model,
    "on_model_error": _on_model_error,
    "before_tool": _before_tool,
    "after_tool": _after_tool,
    "on_tool_error": _on_tool_error,
}

_ALWAYS: Final = frozenset({"before_run", "after_run", "on_run_error"})
"""What begins and ends the values of a run."""

_PREPARED: Final = frozenset({"after_model", "on_model_error", "around_model", "around_tool"})
"""Hooks that `before_model` prepares: where writes to state are stored, and what tools there are."""


_WRITING: Final[Mapping[str, frozenset[str]]] = {
    "on_model_error": frozenset({"before_model", "around_model", "after_model"}),
    "on_tool_error": frozenset({"before_tool", "around_tool"}),
}
"""Hooks of a call, by the callback that keeps what they wrote if the call fails."""


def _callbacks(stack: Stack) -> frozenset[str]:
    used = _ALWAYS | (stack.hooks.keys() & _CALLBACKS.keys())
    used |= {name for name, hooks in _WRITING.items() if stack.hooks.keys() & hooks}
    return used | {"before_model"} if stack.hooks.keys() & _PREPARED else used


def plugin_of(everything: Stack, root: BaseAgent) -> MiddlewarePlugin:
    """The plugin for the middleware of an app, whose root this is."""
    return _shaped(_callbacks(everything))(everything, root)


@cache
def _shaped(hooks: frozenset[str]) -> type[MiddlewarePlugin]:
    """The plugin with these callbacks alone."""
    methods = {callback_of(hook): _CALLBACKS[hook] for hook in hooks}
    return type("MiddlewarePlugin", (MiddlewarePlugin,), {"__module__": __name__, **methods})
