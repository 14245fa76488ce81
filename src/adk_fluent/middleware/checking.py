"""What is attached as middleware, checked by name and signature before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.base import Node
from adk_fluent.middleware.protocol import Middleware

HOOKS: Final[Mapping[str, tuple[str, ...]]] = {
    "on_user_message": ("message",),
    "before_run": (),
    "after_run": (),
    "on_run_error": ("error",),
    "on_event": ("event",),
    "before_agent": ("agent_name",),
    "after_agent": ("agent_name",),
    "on_agent_error": ("agent_name", "error"),
    "before_model": ("request",),
    "after_model": ("response",),
    "on_model_error": ("request", "error"),
    "around_model": ("request", "call"),
    "before_tool": ("tool_name", "args"),
    "after_tool": ("tool_name", "args", "result"),
    "on_tool_error": ("tool_name", "args", "error"),
    "around_tool": ("tool_name", "args", "call"),
}
"""Every hook, with what it is given beside `ctx`."""

GENERATOR: Final = "around_model"
"""The one hook that is an async generator."""


def is_plugin(value: object) -> bool:
    """Whether it is a plugin of ADK's, which this module must not import."""
    bases = (cls for cls in type(value).__mro__ if cls.__module__.startswith("google.adk."))
    return any(cls.__name__ == "BasePlugin" for cls in bases)


def hooks_of(middleware: object) -> dict[str, Any]:
    """The hooks that a middleware has itself, by name; those that `Middleware` has do nothing."""
    found: dict[str, Any] = {}
    for name in HOOKS:
        hook = getattr(middleware, name, None)
        if hook is not None and getattr(hook, "__func__", hook) is not getattr(Middleware, name):
            found[name] = hook
    return found


def attached(values: Iterable[object], where: str) -> tuple[object, ...]:
    """Some middleware, each checked.

    Args:
        where: what they are given to, for the message.

    Raises:
        ArgumentError: one is no middleware, or one of its hooks could not be called.
    """
    found = tuple(values)
    for value in found:
        if not is_plugin(value):
            _check(value, where)
    return found


def _check(value: object, where: str) -> None:
    if isinstance(value, type):
        raise ArgumentError(f"{where} takes objects, not a class; make one: {value.__name__}(...).")
    if isinstance(value, list | tuple):
        kind = type(cast(object, value)).__name__
        raise ArgumentError(f"{where} takes one middleware after the other, not a {kind}; unpack it with *.")
    name, hooks = type(value).__name__, hooks_of(value)
    _check_names(value, name)
    for hook, function in hooks.items():
        _check_hook(function, f"{name}.{hook}", HOOKS[hook], generator=hook == GENERATOR)
    if not hooks and not isinstance(value, Middleware):
        raise ArgumentError(
            f"{where} takes middleware, and {name} has no hook, such as before_model(self, ctx, request)."
        )


def _check_names(value: object, name: str) -> None:
    """Refuse a method whose name is all but that of a hook: it would never be called."""
    for attribute in dir(type(value)):
        if attribute.startswith("_") or attribute in HOOKS or hasattr(Middleware, attribute):
            continue
        if not callable(getattr(type(value), attribute, None)):
            continue
        if near := get_close_matches(attribute, HOOKS, n=1, cutoff=0.85):
            raise ArgumentError(f"{name}.{attribute}: there is no such hook. Did you mean {near[0]!r}?")


def _check_hook(function: Any, where: str, names: tuple[str, ...], *, generator: bool) -> None:
    signature = f"{where.partition('.')[2]}(self, {', '.join(('ctx', *names))})"
    if not callable(function):
        raise ArgumentError(f"{where} is {function!r:.40}, not a function: write `async def {signature}`.")
    if generator and not inspect.isasyncgenfunction(inspect.unwrap(function)):
        raise ArgumentError(
            f"{where} must be an async generator: write `async def {signature}` with "
            "`async for response in call(request): yield response`."
        )
    if not generator and not inspect.iscoroutinefunction(inspect.unwrap(function)):
        raise ArgumentError(f"{where} must be async: write `async def {signature}`.")
    if not _takes(function, ("ctx", *names)):
        raise ArgumentError(f"{where}{_shown(function)} cannot be called: write `async def {signature}`.")


def _takes(function: Any, names: tuple[str, ...]) -> bool:
    """Whether a function has parameters of these names, in this order, and needs no others."""
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    given, more = positional[: len(names)], positional[len(names) :]
    if any(p.name.lstrip("_") != name for p, name in zip(given, names, strict=False)):
        return False
    keywords = (p for p in parameters if p.kind is p.KEYWORD_ONLY)
    needed = any(p.default is p.empty for p in [*more, *keywords])
    return not needed and (rest or len(given) == len(names))


def _shown(function: Any) -> str:
    return str(inspect.signature(function)).partition(" -> ")[0].replace("'", "")


def given_to(node: Node, middleware: object) -> Node:
    """The tree with what `middleware=` was given, one or several, around it.

    Raises:
        ArgumentError: one is no middleware, or one of its hooks could not be called.
    """
    several = isinstance(middleware, list | tuple)
    given = cast("Iterable[object]", middleware) if several else (middleware,)
    own, added = node.annotations, attached(given, "middleware=")
    return node.replace(annotations=own.replace(middleware=(*added, *own.middleware)))
