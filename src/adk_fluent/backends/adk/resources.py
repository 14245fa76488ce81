"""Resources that are open: each opened once in its scope, when a run first needs it, and closed once.

They are kept here, in tables beside the runs and sessions that they belong to, and never in the state. Each
has a task of its own that opens it, waits, and closes it: the first and the last user may be different tasks,
which not every context manager allows. A task ends with its event loop at the latest.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar, cast, get_type_hints

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService

from adk_fluent._tasks import PerLoop
from adk_fluent._tracebacks import in_logs
from adk_fluent.backends.adk.events.branch_sessions import really, store
from adk_fluent.backends.adk.events.signals import failure, note_problems
from adk_fluent.backends.adk.threads import Thread, Turns
from adk_fluent.errors import ResourceError, RunError, no_answer, sentence, what_happened
from adk_fluent.ir.resources import Resource, wanted

logger: logging.Logger = logging.getLogger("adk_fluent.resources")

Resources: TypeAlias = Mapping[str, object]
"""Name → a resource, or a value that is there already."""
E = TypeVar("E")

CLOSING: Final = 30.0
"""Seconds that closing one resource may take; then the run goes on without it."""


# --- one that is open -----------------------------------------------------------------------------


class Open:
    """A resource that is being opened, is open, or is being closed.

    Args:
        resource: the resource.
        name: the name it is injected under, for messages.
        thread: where a factory that is not async is called; `None` is the event loop.

    Attributes:
        value: what was opened, once it is.
        users: runs that use it now.
        thread: the thread it was opened in.
    """

    def __init__(self, resource: Resource, name: str, thread: Thread | None) -> None:
        loop = asyncio.get_running_loop()
        self.value: asyncio.Future[Any] = loop.create_future()
        self.users = 0
        self.thread = thread
        self._name = name
        self._scope = resource.scope
        self._end: asyncio.Future[BaseException | None] = loop.create_future()
        self._failure: Exception | None = None
        self._task = loop.create_task(self._keep(resource))

    async def _keep(self, resource: Resource) -> None:
        why: BaseException | None = None
        try:
            async with _entered(resource, self.thread) as value:
                self.value.set_result(value)
                why = await self._ended()
                if why is not None:
                    raise why
        except asyncio.CancelledError:
            self.value.cancel()
        except BaseException as error:  # noqa: BLE001  # it is told or kept, whatever a factory raises
            if not self.value.done():
                self.value.set_exception(error)
                self.value.exception()  # whoever waits for it hears of it; perhaps nobody does any more
            elif error is not why:
                self._note_failure(error)
        finally:
            if self._scope != "invocation" and self.thread is not None:
                self.thread.end()

    async def _ended(self) -> BaseException | None:
        """Why it is closed: the exception that ended its run, if one did."""
        try:
            return await self._end
        except asyncio.CancelledError as error:  # the event loop ends
            return error if self._scope == "invocation" or self.users else None

    def _note_failure(self, error: BaseException) -> None:
        if not isinstance(error, Exception):
            raise error
        self._failure = error

    async def close(self, why: BaseException | None = None) -> Exception | None:
        """Close it, and wait until it is; what its context manager raised, if that is not `why`.

        Args:
            why: the exception that its context manager is given.
        """
        traceback = None if why is None else why.__traceback__
        if not self.value.done():
            self._task.cancel()
        elif not self._end.done():
            self._end.set_result(why)
        await asyncio.wait([self._task], timeout=CLOSING)
        if why is not None:
            why.__traceback__ = traceback  # without the frames of this module
        if not self._task.done():
            _still_closing.add(self._task)
            self._task.add_done_callback(_still_closing.discard)
            return TimeoutError(f"it took longer than {CLOSING:g} s")
        return self._failure

    def log(self, error: Exception) -> None:
        """Log that it could not be closed."""
        logger.warning("Resource %r could not be closed: %s", self._name, sentence(in_logs(error)))

    def failed(self, error: Exception) -> ResourceError:
        """The error of a run whose resource could not be closed."""
        said = sentence(what_happened(error))
        return ResourceError(
            f"The run ended, but its resource {self._name!r} could not be closed, so what was done with it "
            f"may be lost: {said}"
        )


_still_closing: Final = set[asyncio.Task[None]]()


@asynccontextmanager
async def _entered(resource: Resource, thread: Thread | None) -> AsyncGenerator[Any]:
    """What a factory makes, entered if it is a context manager."""
    factory = resource.factory
    if inspect.isasyncgenfunction(factory):
        factory = asynccontextmanager(factory)
    elif inspect.isgeneratorfunction(factory):
        factory = contextmanager(factory)
    entering = _Entering(factory)
    made = await _first(entering, thread)
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        async with cast("AbstractAsyncContextManager[Any]", made) as value:
            yield value
    elif thread is None and isinstance(made, AbstractContextManager):
        with cast("AbstractContextManager[Any]", made) as value:
            yield value
    else:
        try:
            yield made
        except BaseException as error:
            if not await _last(entering, thread, error):
                raise
        else:
            await _last(entering, thread, None)


async def _first(entering: _Entering, thread: Thread | None) -> Any:
    if thread is None:
        return entering.factory()
    try:
        return await thread(entering.enter)
    except asyncio.CancelledError as error:
        thread.start(functools.partial(entering.leave, error)).add_done_callback(_retrieved)
        raise
    except RuntimeError as error:
        if "event loop" not in str(error):
            raise
        raise RuntimeError(f"{error}{_NEEDS_LOOP}") from error


_NEEDS_LOOP: Final = (
    " (a factory that is not async is called in a thread: let it be async, or say "
    "Resource(..., in_thread=False))"
)


async def _last(entering: _Entering, thread: Thread | None, why: BaseException | None) -> bool:
    """Leave what was entered in a thread; whether `why` was suppressed."""
    if thread is None or entering.manager is None:
        return False
    if not thread.is_stuck:
        return await thread(functools.partial(entering.leave, why))
    thread.start(functools.partial(entering.leave, why)).add_done_callback(_retrieved)
    return False  # a call that was given up still uses it


def _retrieved(done: asyncio.Future[Any]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        logger.warning("A resource could not be closed: %s", sentence(in_logs(error)))


@dataclass(slots=True)
class _Entering:
    """Calls a factory in a thread, and enters and leaves the context manager that it may give.

    Attributes:
        factory: what makes it.
        manager: what was entered, until it is left.
    """

    factory: Callable[[], Any]
    manager: AbstractContextManager[Any] | None = None

    def enter(self) -> Any:
        """What was made, or, of a context manager that is not async, what it gives."""
        made: object = self.factory()
        if isinstance(made, AbstractAsyncContextManager) or not isinstance(made, AbstractContextManager):
            return cast(object, made)
        manager = cast("AbstractContextManager[Any]", made)
        value = manager.__enter__()
        self.manager = manager
        return value

    def leave(self, why: BaseException | None) -> bool:
        """Leave what was entered; whether it suppressed the exception."""
        manager, self.manager = self.manager, None
        if manager is None:
            return False
        told = (None, None, None) if why is None else (type(why), why, why.__traceback__)
        return bool(manager.__exit__(*told))


def _runs_in_thread(resource: Resource) -> bool:
    """Whether a factory is called in a thread: it is not async, and may block."""
    if not resource.in_thread:
        return False
    if isinstance(resource.factory, type):
        return not (hasattr(resource.factory, "__aenter__") or hasattr(resource.factory, "__await__"))
    called = inspect.unwrap(written(resource.factory))  # of @asynccontextmanager only what is inside is async
    return not (inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called))


# --- where they are kept --------------------------------------------------------------------------

APP: Final = "app"
SessionKey: TypeAlias = tuple[BaseSessionService, str, str, str]
"""Session service, app, user and session: two services may have sessions of equal ids."""


@dataclass(slots=True)
class _Run:
    """What one run uses.

    Attributes:
        holders: agents of ours around what runs now.
        own: the resources of the run itself, in the order in which they were opened.
        used: those of its session and app.
        turns: of its tools that are not async; in their thread its own factories are called that are not
            async, too.
    """

    holders: int = 0
    own: dict[Resource, Open] = field(default_factory=dict[Resource, Open])
    used: dict[tuple[Hashable, Resource], Open] = field(default_factory=dict[tuple[Hashable, Resource], Open])
    turns: Turns = field(default_factory=Turns)


@dataclass(slots=True)
class _Loop:
    """What is open in one event loop.

    Attributes:
        runs: run → what it uses.
        shared: app or session → what is open for it.
        idle: what closes a session's resources when nobody has needed them for a while.
        closing: what is being closed, and nobody waits for.
    """

    runs: dict[str, _Run] = field(default_factory=dict[str, _Run])
    shared: dict[tuple[Hashable, Resource], Open] = field(
        default_factory=dict[tuple[Hashable, Resource], Open]
    )
    idle: dict[tuple[Hashable, Resource], asyncio.TimerHandle] = field(
        default_factory=dict[tuple[Hashable, Resource], asyncio.TimerHandle]
    )
    closing: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])


_loops: Final = PerLoop(_Loop)


def _session_of(ctx: InvocationContext) -> SessionKey:
    return store(ctx), ctx.app_name, ctx.user_id, ctx.session.id


async def holding(ctx: InvocationContext, events: AsyncGenerator[E]) -> AsyncGenerator[E]:
    """The events of an agent; what is opened meanwhile for the run is closed when the outermost one ends.

    What ended the run is passed to the context managers: the exception that was raised, a `RunError` for an
    event that reports an error, or `CancelledError` if the run was cancelled or its reader left.

    Raises:
        ResourceError: the run has succeeded, but a resource of its own could not be closed.
    """
    loop = _loops.here()
    run = loop.runs.setdefault(ctx.invocation_id, _Run())
    run.holders += 1
    problems, authors, why = dict[str, str](), dict[str, str](), None
    try:
        async with aclosing(events) as passed:
            async for event in passed:
                if isinstance(event, Event):
                    note_problems(problems, event)
                    if failure(event):
                        authors[event.id] = event.author
                yield event
    except GeneratorExit:
        why = asyncio.CancelledError("the events of the run were not read to the end")
        raise
    except BaseException as error:
        why = error
        raise
    finally:
        run.holders -= 1
        if run.holders == 0:
            loop.runs.pop(ctx.invocation_id, None)
            for failed, problem in problems.items():
                why = why or RunError(no_answer(authors[failed], problem))
            await _leave(loop, run, why)


async def _leave(loop: _Loop, run: _Run, why: BaseException | None) -> None:
    done: list[Open] = []
    for place, opened in run.used.items():
        opened.users -= 1
        if opened.users == 0:
            if loop.shared.get(place) is not opened:  # it was to be closed meanwhile
                done.append(opened)
            elif not opened.value.done():  # nobody waits for it to open any more
                del loop.shared[place]
                done.append(opened)
            elif place[0] != APP:
                later = asyncio.get_running_loop().call_later
                loop.idle[place] = later(place[1].idle, _forget, loop, place)
    try:
        await _finish(_close_own(list(run.own.values()), why))
    finally:
        run.turns.end()
        await _close(done)


async def _close_own(opened: list[Open], why: BaseException | None) -> None:
    """Close the resources of a run, the last one first; an error while one is closed ends the run, too."""
    problem: ResourceError | None = None
    for one in reversed(opened):
        if (error := await one.close(why)) is None:
            continue
        if why is not None:
            one.log(error)
            continue
        problem, why = one.failed(error), error
    if problem is not None:
        raise problem from why


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Do some work to its end, whatever happens to who waits for it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # the cancellation counts
        raise


async def _close(opened: Iterable[Open]) -> None:
    """Close what was shared, the last one first."""
    await _finish(_in_turn(list(opened)[::-1]))


async def _in_turn(opened: Iterable[Open]) -> None:
    for one in opened:
        if (error := await one.close()) is not None:
            one.log(error)


def _forget(loop: _Loop, place: tuple[Hashable, Resource]) -> None:
    loop.idle.pop(place, None)
    if (opened := loop.shared.pop(place, None)) is not None:
        task = asyncio.ensure_future(_in_turn([opened]))
        loop.closing.add(task)
        task.add_done_callback(loop.closing.discard)


async def _opened(resource: Resource, name: str, ctx: InvocationContext) -> Any:
    """What a resource is in the scope it has."""
    loop = _loops.here()
    run = loop.runs[ctx.invocation_id]
    if resource.scope == "invocation":
        if resource not in run.own:
            run.own[resource] = Open(resource, name, run.turns.thread if _runs_in_thread(resource) else None)
        opened = run.own[resource]
    else:
        place = (APP if resource.scope == "app" else _session_of(ctx), resource)
        opened = loop.shared.get(place)
        if opened is None:
            thread = Thread() if _runs_in_thread(resource) else None
            opened = loop.shared[place] = Open(resource, name, thread)
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


def thread_of(names: Iterable[str], resources: Resources, ctx: InvocationContext) -> Thread | None:
    """The thread of the run, if one of these resources was opened there for the run alone.

    Functions that block and use it are called there, too, one after another: a connection that a run has for
    itself stays in one thread.
    """
    run = _loops.here().runs.get(ctx.invocation_id) or _Run()
    given = (resources[name] for name in names)
    found = (run.own[each] for each in given if isinstance(each, Resource) and each in run.own)
    return next((opened.thread for opened in found if opened.thread is not None), None)


@asynccontextmanager
async def in_turn(ctx: InvocationContext) -> AsyncGenerator[None]:
    """Wait until the calls of the run that came before have ended, and let those that come later wait.

    The worker of a durable run knows no run: there the run itself asks for one call after another.
    """
    run = _loops.here().runs.get(ctx.invocation_id)
    if run is None:
        yield
        return
    async with run.turns.one():
        yield


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


async def end_session(service: BaseSessionService, app: str, user: str, session: str) -> None:
    """Close the resources of a session that is over."""
    await _end(lambda place: place[0] == (really(service), app, user, session))


async def _end(which: Callable[[tuple[Hashable, Resource]], bool]) -> None:
    loop = _loops.here()
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
    """The types of the other parameters; as it is written, where a name in one is not known."""
    code, hidden = written(function), set(gone)
    names = getattr(inspect.unwrap(code), "__globals__", {})
    raw = cast("dict[str, Any]", getattr(code, "__annotations__", {}))
    return {name: _hint(name, hint, names) for name, hint in raw.items() if name not in hidden}


def _hint(name: str, hint: Any, names: dict[str, Any]) -> Any:
    def like() -> None: ...

    like.__annotations__ = {name: hint}
    try:
        return get_type_hints(like, names, include_extras=True)[name]
    except NameError:
        return hint


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind a callable: `__call__` of an object, `__init__` of a class, a partial's inside."""
    while isinstance(function, functools.partial):
        function = cast("Callable[..., Any]", function.func)
    if isinstance(function, type):
        return function.__init__
    return function if inspect.isroutine(function) else cast(Any, type(function)).__call__


BEHIND: Final = "__adk_fluent_function__"
"""The attribute of a callback or tool that stands for the user's function: that function."""


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
        needed = [name for name in names if name not in kwargs]  # what ADK gives by that name stands
        given = await provided(needed, resources, ctx_of(context), whose)
        result = function(*args, **kwargs, **given)
        return await result if inspect.isawaitable(result) else result

    hide(call, function, names)
    setattr(call, BEHIND, function)
    return call
