"""Resources that are open: each opened once in its scope, when a run first needs it, and closed once.

They are kept here, in tables beside the runs and sessions that they belong to, and never in the state. Each
has a task of its own that opens it, waits, and closes it: whoever needs it first, and whoever leaves last, do
so from tasks of their own, which not every context manager takes. A task ends with its event loop at the
latest.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast, get_type_hints
from weakref import WeakKeyDictionary

from google.adk.agents.invocation_context import InvocationContext

from adk_fluent.errors import ResourceError, sentence, what_happened
from adk_fluent.ir.resources import Resource, wanted

logger: logging.Logger = logging.getLogger("adk_fluent.resources")

Resources: TypeAlias = Mapping[str, object]
"""Name → a resource, or a value that is there already."""
E = TypeVar("E")


# --- one that is open -----------------------------------------------------------------------------


class Open:
    """A resource that is being opened, is open, or is being closed.

    Attributes:
        value: what was opened, once it is.
        users: runs that use it now.
    """

    def __init__(self, resource: Resource, name: str) -> None:
        self.value: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.users = 0
        self._name = name
        self._closing = asyncio.Event()
        self._task = asyncio.create_task(self._keep(resource))

    async def _keep(self, resource: Resource) -> None:
        try:
            async with _entered(resource.factory) as value:
                self.value.set_result(value)
                await self._closing.wait()
        except BaseException as error:
            if not self.value.done():
                self.value.set_exception(error)
                self.value.exception()  # whoever waits for it hears of it; perhaps nobody does any more
                return
            if isinstance(error, asyncio.CancelledError):
                raise
            logger.warning("Resource %r could not be closed: %s", self._name, sentence(what_happened(error)))

    async def close(self) -> None:
        """Close it, and wait until it is."""
        self._closing.set()
        await asyncio.wait([self._task])


@asynccontextmanager
async def _entered(factory: Callable[[], Any]) -> AsyncGenerator[Any]:
    """What a factory makes, entered if it is a context manager."""
    if inspect.isasyncgenfunction(factory):
        factory = asynccontextmanager(factory)
    elif inspect.isgeneratorfunction(factory):
        factory = contextmanager(factory)
    made = factory()
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        async with cast("AbstractAsyncContextManager[Any]", made) as value:
            yield value
    elif isinstance(made, AbstractContextManager):
        with cast("AbstractContextManager[Any]", made) as value:
            yield value
    else:
        yield made


# --- where they are kept --------------------------------------------------------------------------

APP: Final = "app"
SessionKey: TypeAlias = tuple[str, str, str]
"""App, user and session."""


@dataclass(slots=True, weakref_slot=True)
class _Run:
    """What one run uses.

    Attributes:
        holders: agents of ours around what runs now.
        own: the resources of the run itself.
        used: those of its session and app.
    """

    holders: int = 0
    own: dict[Resource, Open] = field(default_factory=dict[Resource, Open])
    used: dict[tuple[Hashable, Resource], Open] = field(default_factory=dict[tuple[Hashable, Resource], Open])


@dataclass(slots=True, weakref_slot=True)
class _Loop:
    """What is open in one event loop.

    Attributes:
        runs: run → what it uses.
        shared: app or session → what is open for it.
        idle: what closes a session's resources when nobody has needed them for a while.
    """

    runs: dict[str, _Run] = field(default_factory=dict[str, _Run])
    shared: dict[tuple[Hashable, Resource], Open] = field(
        default_factory=dict[tuple[Hashable, Resource], Open]
    )
    idle: dict[tuple[Hashable, Resource], asyncio.TimerHandle] = field(
        default_factory=dict[tuple[Hashable, Resource], asyncio.TimerHandle]
    )


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = WeakKeyDictionary()


def _here() -> _Loop:
    return _loops.setdefault(asyncio.get_running_loop(), _Loop())


def _session_of(ctx: InvocationContext) -> SessionKey:
    return ctx.app_name, ctx.user_id, ctx.session.id


async def holding(ctx: InvocationContext, events: AsyncGenerator[E]) -> AsyncGenerator[E]:
    """The events of an agent; what is opened meanwhile for the run is closed when the outermost one ends."""
    loop = _here()
    run = loop.runs.setdefault(ctx.invocation_id, _Run())
    run.holders += 1
    try:
        async with aclosing(events) as passed:
            async for event in passed:
                yield event
    finally:
        run.holders -= 1
        if run.holders == 0:
            loop.runs.pop(ctx.invocation_id, None)
            await _leave(loop, run)


async def _leave(loop: _Loop, run: _Run) -> None:
    for place, opened in run.used.items():
        opened.users -= 1
        if opened.users == 0:
            if loop.shared.get(place) is not opened:  # it was to be closed meanwhile
                run.own[place[1]] = opened
            elif place[0] != APP:
                later = asyncio.get_running_loop().call_later
                loop.idle[place] = later(place[1].idle, _forget, loop, place)
    await _close(run.own.values())


async def _close(opened: Iterable[Open]) -> None:
    """Close some, the last one first, whatever happens to who waits for it."""
    work = asyncio.ensure_future(_in_turn(list(opened)[::-1]))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def _in_turn(opened: Iterable[Open]) -> None:
    for one in opened:
        await one.close()


def _forget(loop: _Loop, place: tuple[Hashable, Resource]) -> None:
    loop.idle.pop(place, None)
    if (opened := loop.shared.pop(place, None)) is not None:
        task = asyncio.ensure_future(opened.close())
        _closing.add(task)
        task.add_done_callback(_closing.discard)


_closing: set[asyncio.Task[None]] = set()


async def _opened(resource: Resource, name: str, ctx: InvocationContext) -> Any:
    """What a resource is in the scope it has."""
    loop = _here()
    run = loop.runs[ctx.invocation_id]
    if resource.scope == "invocation":
        if resource not in run.own:
            run.own[resource] = Open(resource, name)
        opened = run.own[resource]
    else:
        place = (APP if resource.scope == "app" else _session_of(ctx), resource)
        opened = loop.shared.get(place)
        if opened is None:
            opened = loop.shared[place] = Open(resource, name)
        if run.used.get(place) is not opened:
            run.used[place] = opened
            opened.users += 1
        if (timer := loop.idle.pop(place, None)) is not None:
            timer.cancel()
    try:
        return await asyncio.shield(opened.value)
    except Exception:
        _drop(loop, run, resource, opened)
        raise


def _drop(loop: _Loop, run: _Run, resource: Resource, opened: Open) -> None:
    """Forget what could not be opened: the next one who needs it tries again."""
    if run.own.get(resource) is opened:
        del run.own[resource]
    for table in (loop.shared, run.used):
        for place in [place for place, other in table.items() if other is opened]:
            del table[place]


async def close(*resources: Resource) -> None:
    """Close resources of the app in the running event loop: these, or all that are open.

    Those of sessions are closed, too, where none is named. What a run uses just now is closed when it ends.

    >>> import asyncio
    >>> from adk_fluent.di import close
    >>> asyncio.run(close())
    """
    await _end(lambda place: place[1] in resources if resources else True)


async def end_session(app: str, user: str, session: str) -> None:
    """Close the resources of a session that is over."""
    await _end(lambda place: place[0] == (app, user, session))


async def _end(which: Callable[[tuple[Hashable, Resource]], bool]) -> None:
    loop = _loops.get(asyncio.get_running_loop())
    if loop is None:
        return
    idle: list[Open] = []
    for place in [place for place in loop.shared if which(place)]:
        opened = loop.shared.pop(place)
        if (timer := loop.idle.pop(place, None)) is not None:
            timer.cancel()
        idle += [opened] if opened.users == 0 else []
    await _close(idle)


# --- who is given them ----------------------------------------------------------------------------


async def provided(
    names: Iterable[str], resources: Resources, ctx: InvocationContext, whose: str
) -> dict[str, Any]:
    """The values of some resources in a run.

    Args:
        whose: who needs them, as messages call it.

    Raises:
        ResourceError: one cannot be opened.
    """
    given: dict[str, Any] = {}
    for name in names:
        resource = resources[name]
        if not isinstance(resource, Resource):
            given[name] = resource
            continue
        try:
            given[name] = await _opened(resource, name, ctx)
        except Exception as error:
            said = sentence(what_happened(error))
            raise ResourceError(
                f"{whose} needs the resource {name!r}, which cannot be opened: {said}"
            ) from error
    return given


async def given_to(
    function: object, resources: Resources, ctx: InvocationContext, step: str
) -> dict[str, Any]:
    """The resources that a function of a step has parameters for.

    Raises:
        ResourceError: one cannot be opened.
    """
    names = wanted(function, resources)
    return await provided(names, resources, ctx, f"Step {step!r}") if names else {}


def hide(call: Callable[..., Any], function: Callable[..., Any], names: Iterable[str], *more: str) -> None:
    """Make `call` look like a function without some of its parameters, and with others given by name.

    Its types stand for themselves then, since ADK reads what it is told of a function without knowing where
    that was written.
    """
    gone = set(names)
    signature, hints = inspect.signature(function), _hints(function, gone)
    left = [
        one.replace(annotation=hints.get(name, one.annotation))
        for name, one in signature.parameters.items()
        if name not in gone
    ]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in more]
    last = [one for one in left if one.kind is inspect.Parameter.VAR_KEYWORD]
    made = signature.replace(
        parameters=[*(one for one in left if one not in last), *added, *last],
        return_annotation=hints.get("return", signature.return_annotation),
    )
    shown = cast(Any, call)
    shown.__signature__, shown.__annotations__ = made, hints
    del shown.__wrapped__


def _hints(function: Callable[..., Any], gone: Iterable[str]) -> dict[str, Any]:
    """The types of the other parameters; as they are written, where a name in them is not known."""
    written = function if inspect.isroutine(function) else type(function).__call__
    raw = {name: hint for name, hint in written.__annotations__.items() if name not in set(gone)}

    def like() -> None: ...

    like.__annotations__ = raw
    try:
        return get_type_hints(like, getattr(inspect.unwrap(written), "__globals__", {}), include_extras=True)
    except NameError:
        return raw


BEHIND: Final = "__adk_fluent_function__"
"""The attribute of a callback that is given resources: the user's function."""


def callback(
    function: Callable[..., Any], resources: Resources, agent: str, ctx_of: Callable[[Any], InvocationContext]
) -> Callable[..., Any]:
    """A callback of ADK's that is given the resources it has parameters for."""
    names = wanted(function, resources)
    if not names:
        return function
    whose = f"Agent {agent!r}: its callback {getattr(function, '__name__', 'callback')!r}"

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        context = next(one for one in (*args, *kwargs.values()) if hasattr(one, "_invocation_context"))
        given = await provided(names, resources, ctx_of(context), whose)
        result = function(*args, **kwargs, **given)
        return await result if inspect.isawaitable(result) else result

    hide(call, function, names)
    setattr(call, BEHIND, function)
    return call
