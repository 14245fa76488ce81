"""Resources: what tools, callbacks and steps are given beside what a model says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, NamedTuple, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.spelling import did_you_mean

Scope = Literal["app", "session", "invocation"]
SCOPES: Final = ("app", "session", "invocation")
RESERVED: Final = frozenset({"tool_context", "callback_context", "state", "self"})
"""Names that mean something else where functions are called."""


@frozen
class Resource(Frozen):
    """A thing that is opened when a run first needs it, and closed once.

    Args:
        factory: makes it, without arguments: a function or class, async or not; a (async) generator function,
            or a function that gives a (async) context manager, also says how it is closed.
        scope: how long it lives. `app`: as long as the event loop, or until the runner of `to_runner()` or
            `adk_fluent.di.close()` closes it; `session`: until its session is forgotten, or `idle` seconds
            after the last run in it; `invocation`: as long as one run, whose exception its context manager is
            given if it fails or is cut short.
        idle: seconds, for `session`.
        in_thread: whether a factory that is not async is called in a thread, and its context manager entered
            and left there, so that it may block. `False` calls it in the event loop, for one that needs that.

    Example:
        >>> from contextlib import contextmanager
        >>> from adk_fluent import Agent
        >>> from adk_fluent.di import Resource
        >>> from adk_fluent.testing import call_tool, mock_backend
        >>> @contextmanager
        ... def open_shop():
        ...     yield {"tea": 3}
        ...     print("closed")
        >>> def price(article: str, shop: dict[str, int]) -> int:
        ...     return shop[article]
        >>> clerk = Agent("clerk").tool(price).inject(shop=Resource(open_shop, scope="invocation"))
        >>> clerk.ask("Tea?", backend=mock_backend({"clerk": [call_tool("price", article="tea"), "3"]}))
        closed
        '3'
    """

    factory: Callable[[], Any]
    scope: Scope = "app"
    idle: float = 600.0
    in_thread: bool = True


def checked(resources: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    """Resources by name, as pairs.

    Raises:
        ArgumentError: there is none, a name is taken, or a resource cannot be one.
    """
    if not resources:
        raise ArgumentError("inject() needs at least one resource: inject(db=Resource(connect)).")
    for name, resource in resources.items():
        if name in RESERVED:
            raise ArgumentError(f"inject({name}=): functions are given something else under this name.")
        if isinstance(resource, type) and issubclass(resource, Resource):
            raise ArgumentError(f"inject({name}=Resource): say what makes it: Resource(factory).")
        if isinstance(resource, Resource):
            _check(name, resource)
    return tuple(resources.items())


def _check(name: str, resource: Resource) -> None:
    where = f"inject({name}=Resource(...))"
    if not callable(resource.factory):
        raise ArgumentError(
            f"{where}: the factory is a function without arguments, not {type(resource.factory).__name__}. "
            f"A value that is there already stands as it is: inject({name}=value)."
        )
    if resource.scope not in SCOPES:
        hint = did_you_mean(str(resource.scope), SCOPES)
        raise ArgumentError(
            f"{where}: scope= is 'app', 'session' or 'invocation', not {resource.scope!r:.40}.{hint}"
        )
    idle = cast(object, resource.idle)
    if not isinstance(idle, int | float) or isinstance(idle, bool) or idle <= 0:
        raise ArgumentError(f"{where}: idle= is a positive number of seconds, not {idle!r:.40}.")
    if not isinstance(cast(object, resource.in_thread), bool):
        raise ArgumentError(f"{where}: in_thread= is True or False, not {resource.in_thread!r:.40}.")


class Call(NamedTuple):
    """How a function of the user's is called.

    Attributes:
        function: the function; `None` where there is none.
        what: what it is to the step, for messages: `its test`.
        told: how many arguments it is given beside resources.
        injected: whether it is given resources, too.
    """

    function: object
    what: str
    told: int = 1
    injected: bool = True


def wanted(function: object, resources: Collection[str]) -> tuple[str, ...]:
    """The parameters of a function that are resources."""
    if not resources:
        return ()
    return tuple(name for name in _parameters(function) if name in resources and name not in RESERVED)


def lacking(call: Call, resources: Collection[str]) -> str | None:
    """The first parameter of a function that must be filled, and that nobody fills.

    >>> lacking(Call(lambda state, db: None, "its test"), ["shop"])
    'db'
    """
    code = getattr(call.function, "__code__", None)
    if code is not None and code.co_argcount <= call.told and not code.co_kwonlyargcount:
        return None  # as of most functions
    told, given = call.told, wanted(call.function, resources if call.injected else ())
    for name, parameter in _parameters(call.function).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in given:
            continue
        if told and parameter.kind is not parameter.KEYWORD_ONLY:
            told -= 1
        elif parameter.default is parameter.empty:
            return name
    return None


def taken_twice(call: Call, resources: Collection[str]) -> str | None:
    """The parameter of a step's function that is filled by its place, and has the name of a resource.

    >>> taken_twice(Call(lambda prices: None, "its test"), ["prices"])
    'prices'
    """
    names = set(wanted(call.function, resources)) if call.injected else ()
    if not names:
        return None
    listed = _parameters(call.function).values()
    placed = [one.name for one in listed if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    return next((name for name in placed[: call.told] if name in names), None)


def _parameters(function: object) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function; of what tells none, none."""
    if not callable(function):
        return {}
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
