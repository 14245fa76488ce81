"""Resources: objects that the user injects in tools, callbacks and steps, such as a database connection."""

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
"""Parameter names with another meaning, which a resource cannot have."""


@frozen
class Resource(Frozen):
    """An object that is opened when a run first needs it, and closed once.

    Args:
        factory: makes the object, without arguments: a function or class, async or not. If it is an (async)
            generator function, or returns an (async) context manager, that also closes the object.
        scope: how long the object lives. `app`: until the event loop ends, or until the runner of
            `to_runner()` or `adk_fluent.di.close()` closes it. `session`: until its session is forgotten, or
            `idle` seconds after its last run. `invocation`: for one run; if the run fails or is cancelled,
            the context manager receives the exception.
        idle: seconds, for `session`.
        in_thread: call a factory that is not async in a thread, and enter and leave its context manager
            there, so that it may block. `False` calls it in the event loop, if it needs that.

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
    """Check resources, and return them as pairs of name and resource.

    Raises:
        ArgumentError: there is no resource, a name is reserved, or a resource is invalid.
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


class UserCall(NamedTuple):
    """A call of a user's function by a step.

    Attributes:
        function: the function; `None` if the step has none.
        what: its role in the step, for messages: `its test`.
        told: the number of its arguments, without resources.
        injected: True if it also receives resources.
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


def lacking(call: UserCall, resources: Collection[str]) -> str | None:
    """The first required parameter of a function for which there is no argument; `None` if all have one.

    >>> lacking(UserCall(lambda state, db: None, "its test"), ["shop"])
    'db'
    """
    code = getattr(call.function, "__code__", None)
    if code is not None and code.co_argcount <= call.told and not code.co_kwonlyargcount:
        return None  # the usual case, without the slow signature
    told, given = call.told, wanted(call.function, resources if call.injected else ())
    for name, parameter in _parameters(call.function).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in given:
            continue
        if told and parameter.kind is not parameter.KEYWORD_ONLY:
            told -= 1
        elif parameter.default is parameter.empty:
            return name
    return None


def taken_twice(call: UserCall, resources: Collection[str]) -> str | None:
    """A positional parameter of a step's function that has the name of a resource, or `None`.

    >>> taken_twice(UserCall(lambda prices: None, "its test"), ["prices"])
    'prices'
    """
    names = set(wanted(call.function, resources)) if call.injected else ()
    if not names:
        return None
    listed = _parameters(call.function).values()
    placed = [one.name for one in listed if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    return next((name for name in placed[: call.told] if name in names), None)


def _parameters(function: object) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function; empty if Python does not know them."""
    if not callable(function):
        return {}
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
