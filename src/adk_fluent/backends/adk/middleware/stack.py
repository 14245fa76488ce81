"""The middleware that acts in one place, laid out by hook."""

from __future__ import annotations

import logging
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool

from adk_fluent._tracebacks import in_logs
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.middleware.context import PLUGIN, HookContext
from adk_fluent.errors import ADKFluentError, MiddlewareError, ModelError, sentence, what_happened
from adk_fluent.middleware.checking import HOOKS, hooks_of
from adk_fluent.middleware.protocol import Middleware

logger: logging.Logger = logging.getLogger("adk_fluent.middleware")

INWARD: Final = frozenset(name for name in HOOKS if name.startswith(("before", "around", "on_user")))
"""Hooks for what goes in, which passes the stack in its order; what comes out passes in the reverse one."""

_RAISED: Final = "__adk_fluent_hook__"

E = TypeVar("E", bound=BaseException)


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook of one middleware.

    Attributes:
        owner: the name of the middleware's class.
        name: the hook, as `Middleware` has it.
        function: called with the context and what the hook is given.
        best_effort: whether its failures are only logged.
        native: whether it is that of an ADK plugin.
        observes: whether its middleware only looks on.
        idle: whether it need not be called now; `None` where it always is.
        passes_on: whether it gives on what the model says, as it is and at once.
        middleware: the middleware whose hook it is.
    """

    owner: str
    name: str
    function: Callable[..., Any]
    best_effort: bool = False
    native: bool = False
    observes: bool = False
    idle: Callable[[], bool] | None = None
    passes_on: bool = False
    middleware: object = field(default=None, compare=False, repr=False)

    async def ask(self, ctx: HookContext, made: Callable[[Any], Any], *given: Any) -> Any:
        """What the hook returns, as `made` makes it; `None` if nothing, or if it failed and may.

        Raises:
            MiddlewareError: it raised, or returned what cannot be used.
        """
        try:
            answer = await self.function(ctx, *given)
            return None if answer is None else made(answer)
        except Exception as error:  # noqa: BLE001  # it is the user's code
            raised = self.failed(ctx, error)
            if raised is None:
                return None
            raise raised from cause_of(raised, error)

    def failed(self, ctx: HookContext, error: Exception) -> Exception | None:
        """What a failure of this hook stops the run with; `None` if it is only logged."""
        what = f"{self.owner}.{self.name}() raised"
        if self.best_effort:
            told = sentence(in_logs(error))
            logger.warning("%s: %s %s The run goes on, since it is best_effort.", ctx.agent_name, what, told)
            return None
        what = f"{what} {sentence(what_happened(error))}"
        if isinstance(error, ModelError):  # it counts as the model's
            return error
        if isinstance(error, ADKFluentError):  # it says itself what is wrong
            return by_hook(error)
        return by_hook(MiddlewareError(f"{ctx.agent_name!r}: {what}"))


def cause_of(raised: Exception, error: Exception) -> BaseException | None:
    """What the error of a hook is raised from: what it raised, or where that itself came from."""
    return error.__cause__ if raised is error else error


def by_hook(error: E) -> E:
    """The error, marked as that of a hook: it stops the run also where a failure would not."""
    BaseException.__setattr__(error, _RAISED, True)
    return error


_OUTCOME: Final = "__adk_fluent_outcome__"


def as_outcome(error: E) -> E:
    """The error, marked as what a tool raised, though a hook raises it in its place."""
    BaseException.__setattr__(error, _OUTCOME, True)
    return error


def is_outcome(error: BaseException) -> bool:
    """Whether it is marked so."""
    return getattr(error, _OUTCOME, False) is True


def hook_error(error: BaseException | None) -> ADKFluentError | None:
    """What a hook raised, from an error or from what ADK made of it."""
    while error is not None:
        if getattr(error, _RAISED, False):
            return cast(ADKFluentError, error)
        error = error.__cause__ if isinstance(error, RuntimeError) else None
    return None


_Arguments = Callable[..., dict[str, Any]]


def _of_run(ctx: HookContext, **given: Any) -> dict[str, Any]:
    return {"invocation_context": ctx.invocation, **given}


def _of_event(ctx: HookContext, event: object) -> dict[str, Any]:
    return _of_run(ctx, event=ctx.event)


def _of_agent(ctx: HookContext, name: str, **given: Any) -> dict[str, Any]:
    return {"agent": ctx.invocation.agent, "callback_context": ctx.native, **given}


def _of_model(ctx: HookContext, **given: Any) -> dict[str, Any]:
    return {"callback_context": ctx.native, **given}


def _of_tool(ctx: HookContext, name: str, args: dict[str, Any], **given: Any) -> dict[str, Any]:
    return {"tool": ctx.tool, "tool_args": args, "tool_context": ctx.native, **given}


_NATIVE: Final[Mapping[str, tuple[_Arguments, tuple[str, ...]]]] = {
    "on_user_message": (_of_run, ("user_message",)),
    "before_run": (_of_run, ()),
    "after_run": (_of_run, ()),
    "on_run_error": (_of_run, ("error",)),
    "on_event": (_of_event, ()),
    "before_agent": (_of_agent, ()),
    "after_agent": (_of_agent, ()),
    "on_agent_error": (_of_agent, ("error",)),
    "before_model": (_of_model, ("llm_request",)),
    "after_model": (_of_model, ("llm_response",)),
    "on_model_error": (_of_model, ("llm_request", "error")),
    "before_tool": (_of_tool, ()),
    "after_tool": (_of_tool, ("result",)),
    "on_tool_error": (_of_tool, ("error",)),
}
"""What ADK's plugins are given for each hook: by whom it is said, and the names of the last of ours."""


def callback_of(hook: str) -> str:
    """The method of an ADK plugin that a hook corresponds to."""
    return f"{hook}_callback"


def _of_plugin(plugin: BasePlugin) -> Iterable[tuple[str, Callable[..., Awaitable[Any]]]]:
    for hook, (place, names) in _NATIVE.items():
        name = callback_of(hook)
        method = getattr(plugin, name, None)
        if method is not None and getattr(method, "__func__", method) is not getattr(BasePlugin, name):
            yield hook, _native(method, place, names)


def _native(
    method: Callable[..., Awaitable[Any]], place: _Arguments, names: tuple[str, ...]
) -> Callable[..., Awaitable[Any]]:
    def call(ctx: HookContext, *given: Any) -> Awaitable[Any]:
        rest = len(given) - len(names)
        return method(**place(ctx, *given[:rest], **dict(zip(names, given[rest:], strict=True))))

    return call


class Stack:
    """Some middleware, the outermost first; one that is there twice counts where it stands first.

    Attributes:
        middleware: the objects.
        hooks: the hooks that any of them has, each list in the order it is called in.
    """

    __slots__ = ("__weakref__", "_may_idle", "hooks", "middleware")

    def __init__(self, middleware: Iterable[object] = ()) -> None:
        self.middleware: tuple[object, ...] = tuple({id(each): each for each in middleware}.values())
        found: dict[str, list[Hook]] = {}
        for each in self.middleware:
            plugin = isinstance(each, BasePlugin)
            functions = dict(_of_plugin(each)) if isinstance(each, BasePlugin) else hooks_of(each)
            owner, best_effort = type(each).__name__, bool(getattr(each, "best_effort", False))
            observes = bool(getattr(each, "observes", False))
            idle, passes_on = _idle_of(each), bool(getattr(each, "_passes_on", False))
            for name, function in functions.items():
                hook = Hook(owner, name, function, best_effort, plugin, observes, idle, passes_on, each)
                found.setdefault(name, []).append(hook)
        self.hooks: Mapping[str, tuple[Hook, ...]] = {
            name: _placed(name, hooks if name in INWARD else reversed(hooks)) for name, hooks in found.items()
        }
        self._may_idle: bool = any(hook.idle for hooks in self.hooks.values() for hook in hooks)

    def around(self, inner: Iterable[object]) -> Stack:
        """These around others."""
        whole = Stack((*self.middleware, *inner))
        return self if len(whole.middleware) == len(self.middleware) else whole

    def of(self, hook: str) -> tuple[Hook, ...]:
        """The hooks of this name that are to be called now."""
        found = self.hooks.get(hook, ())
        if not found or not self._may_idle:
            return found
        for each in found:
            if each.idle is not None and each.idle():
                return tuple([other for other in found if other.idle is None or not other.idle()])
        return found


def _idle_of(middleware: object) -> Callable[[], bool] | None:
    """What says whether a middleware is idle; `None` for one that never is."""
    if not isinstance(middleware, Middleware) or type(middleware).idle is Middleware.idle:
        return None
    return middleware.idle


_BEGIN: Final = frozenset({"on_user_message", "before_run"})
"""Hooks of which the first that answers keeps the others from being asked."""


def _placed(name: str, hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """Hooks in the order they are called in: those that look on see what the others were given, or made."""
    return tuple(sorted(hooks, key=lambda hook: hook.observes is not (name in _BEGIN)))


NOTHING: Final = Stack()


_AROUND: Final = "_adk_fluent_around"


def surround_all(ctx: InvocationContext, stack: Stack) -> None:
    """Note in a context what acts on all that runs in it: ADK makes the contexts of what it runs from it."""
    object.__setattr__(ctx, _AROUND, stack)


class Replacing(ABC):
    """A plugin that puts others in the place of tools, also where ADK makes an approved call."""

    @abstractmethod
    def replaced(self, tool: BaseTool) -> BaseTool:
        """What is called in the place of a tool; the tool itself where it is not replaced."""
        ...


def stack_of(ctx: InvocationContext) -> Stack:
    """The middleware that acts on the agent of a context, that of those whose tools led here is around it."""
    own = stack_at(ctx.agent)
    around: Stack | None = ctx.__dict__.get(_AROUND)
    if around is not None:  # what runs it is no agent above it
        own = around.around(own.middleware)
    outer = private.caller(ctx)
    return own if outer is None else stack_of(outer).around(own.middleware)


def stack_at(agent: Any) -> Stack:
    """The middleware that a native agent was compiled with; one of ADK's own has that of the agent above."""
    while agent is not None:
        stack = getattr(agent, "_middleware", None)
        if isinstance(stack, Stack):
            return stack
        agent = getattr(agent, "parent_agent", None)
    return NOTHING


_idle: Final[weakref.WeakSet[Stack]] = weakref.WeakSet()
"""Stacks of which it was said that they do not act."""


def warn_idle(stack: Stack, agent: str, ctx: InvocationContext) -> None:
    """Say once that middleware does not act, where the runner at hand has not the plugin that calls it."""
    if ctx.plugin_manager.get_plugin(PLUGIN) is None and stack not in _idle:
        _idle.add(stack)
        names = ", ".join(type(each).__name__ for each in stack.middleware)
        logger.warning(
            "%r: its middleware (%s) does not act, since what build() gives has no plugins. Give ADK the app "
            "of to_app(), or take to_runner().",
            agent,
            names,
        )
