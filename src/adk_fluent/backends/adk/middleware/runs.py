"""What middleware keeps for a run or a session, and when it is dropped."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from copy import deepcopy
from typing import Any, Final, Protocol

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import BaseSessionService

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.branch_sessions import really, store
from adk_fluent.backends.adk.events.signals import undone
from adk_fluent.backends.afoot import Afoot
from adk_fluent.middleware.keeping import Scope, Simulation

SESSIONS: Final = 10_000
"""Of how many sessions and users of a service values are kept; those not used for longest go first."""

VALUES: Final = 64
"""How many values one session, user or app has at most; those not used for longest go first."""

COPIES: Final = 32
"""Of how many runs of a session copies of its values are kept; to go back further clears the values."""

Values = MutableMapping[object, Any]
_Key = tuple[str, str, str]


class _Recent(OrderedDict[object, Any]):
    """The values of one session, user or app, of which those used last are kept.

    Attributes:
        before: of a session: run → copies of the values as they were before it, for a rewind.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before: OrderedDict[str, dict[object, Any]] = OrderedDict()
        self._dropped = ""

    def begins(self, run: str, events: Sequence[Event]) -> None:
        """Note that a run begins, unless that is known; what runs did that were undone since is taken back.

        Runs before the last `COPIES` have no copies; if one of those was undone, the values start anew.
        """
        if run in self.before:
            return
        annulled = undone(events)
        if self.before and (taken := [each for each in self.before if each in annulled]):
            is_known = self._dropped not in annulled
            values = self.before[taken[0]] if is_known else {}
            self._dropped = self._dropped if is_known else ""
            for each in taken:
                del self.before[each]
            self.clear()
            self.update(values)
        self.before[run] = _copies(self)
        if len(self.before) > COPIES:
            self._dropped, _ = self.before.popitem(last=False)

    def __getitem__(self, key: object) -> Any:
        value = super().__getitem__(key)
        self.move_to_end(key)
        return value

    def __setitem__(self, key: object, value: Any) -> None:
        super().__setitem__(key, value)
        if len(self) > VALUES:
            self.popitem(last=False)


def _copies(values: Mapping[object, Any]) -> dict[object, Any]:
    """Copies of values; one that cannot be copied is left out, and made anew when it is asked for."""
    made: dict[object, Any] = {}
    for name, value in values.items():
        with suppress(Exception):
            made[name] = deepcopy(value)
    return made


class _Run:
    """A run that is on: its values, and where those of its session are."""

    __slots__ = ("__weakref__", "ctx", "id", "key", "middleware", "root", "service", "values")

    def __init__(self, ctx: InvocationContext, middleware: tuple[object, ...], root: object) -> None:
        self.ctx = weakref.ref(ctx)
        self.root = root
        self.middleware = middleware
        self.id = ctx.invocation_id
        self.service = store(ctx)
        self.key: _Key = (ctx.session.app_name, ctx.session.user_id, ctx.session.id)
        self.values: Values = {}

    def failed(self, error: Exception) -> None:
        """Tell the values that want to know it why the run ends, which not every ADK does."""
        for value in self.values.values():
            if (tell := getattr(value, "run_failed", None)) is not None:
                tell(error)

    def end(self) -> None:
        """Drop the values; those that want to know it are told."""
        for value in self.values.values():
            if (tell := getattr(value, "run_ended", None)) is not None:
                tell()
        self.values.clear()
        if _runs.get(self.id) is self:
            del _runs[self.id]


_runs: dict[str, _Run] = {}
_sessions: weakref.WeakKeyDictionary[BaseSessionService, OrderedDict[_Key, _Recent]] = (
    weakref.WeakKeyDictionary()
)
_NOTHING: Final[Mapping[_Key, _Recent]] = {}
_starting: ContextVar[list[_Run] | None] = ContextVar("adk_fluent_starting", default=None)


def outermost(ctx: InvocationContext) -> InvocationContext:
    """The run that everything belongs to: that of the agent whose tools led here."""
    while (outer := private.caller(ctx)) is not None:
        ctx = outer
    return ctx


SCRIPTED: Final = "adk_fluent_unscripted"
"""The plugin of backends on which something else answers in the place of models; it has a `simulation`."""


def simulation(ctx: InvocationContext) -> Simulation | None:
    """What is kept for the simulated runs of the backend that a run is on; `None` for a live run.

    All that outlives a run must ask it: what a simulated run leaves in a store, a live one must not find.
    """
    plugin = outermost(ctx).plugin_manager.get_plugin(SCRIPTED)
    return getattr(plugin, "simulation", None)


def root_of(ctx: InvocationContext) -> object:
    """What runs first in the run that everything belongs to; ADK's contexts do not always lead there."""
    first = outermost(ctx)
    if (run := _runs.get(first.invocation_id)) is not None:
        return run.root
    return getattr(first.agent, "root_agent", first.agent)


def begin(ctx: InvocationContext, middleware: tuple[object, ...], root: object) -> None:
    """Note that a run begins, unless that is known.

    It ends with `end`, with `watched`, or when nobody holds its context any more: not every ADK tells of a
    run that failed, and none of one that was left.

    Args:
        middleware: what acts in it.
        root: what runs first in it.
    """
    known = _runs.get(ctx.invocation_id)
    if known is not None and known.ctx() is ctx:
        return
    run = _runs[ctx.invocation_id] = _Run(ctx, middleware, root)
    weakref.finalize(ctx, run.end).atexit = False
    if (holder := _starting.get()) is not None and (not holder or holder[0].ctx() is ctx):
        holder.append(run)


def end(ctx: InvocationContext) -> None:
    """Drop what was kept for a run."""
    if (run := _runs.get(ctx.invocation_id)) is not None:
        run.end()


def using(middleware: object) -> bool:
    """Whether a run is on in which this middleware acts."""
    return any(each is middleware for run in list(_runs.values()) for each in run.middleware)


@contextmanager
def watched() -> Generator[None]:
    """Ends the run that begins within, however it does."""
    holder: list[_Run] = []
    _starting.set(holder)
    try:
        yield
    except Exception as error:
        for run in holder:
            run.failed(error)
        raise
    finally:
        for run in holder:
            run.end()


async def telling(ctx: InvocationContext, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The events of the outermost agent of a run; if it fails, the values that want to know it are told.

    Of ADK's own runner nobody hears it before 2.x.
    """
    try:
        async with aclosing(events) as passed:
            async for event in passed:
                yield event
    except Exception as error:
        if private.caller(ctx) is None and (run := _runs.get(ctx.invocation_id)) is not None:
            run.failed(error)
        raise


class Onlooker(Protocol):
    """What looks on while branches compete, and may say whose turn it is."""

    def may(self, branch: str, wins: bool) -> bool:
        """Whether what a branch gives is taken now; `wins` when that is its end, and it has succeeded."""
        ...

    def took(self, branch: str, ends: bool) -> None:
        """What a branch gave was taken."""
        ...

    async def settles(self, wins: bool) -> None:
        """It is about to be decided, and the other branches to be cancelled; `wins` if one has succeeded."""
        ...

    def decided(self, winner: str) -> None:
        """Which branch the run goes on with."""
        ...


def onlookers(ctx: InvocationContext, contest: BaseAgent) -> list[Onlooker]:
    """Of the values of a run, what those that look on when branches compete give for it."""
    names = [child.name for child in contest.sub_agents]
    found = [begins(contest.name, ctx.branch, names) for begins in asked(ctx, "race_begins")]
    return [each for each in found if each is not None]


def due(ctx: InvocationContext, step: str) -> Callable[[int, object], Awaitable[None]] | None:
    """What a branch awaits before it gives an event or an error, where a value of the run keeps an order.

    Args:
        step: the name of the composite whose branches they are.
    """
    first = outermost(ctx).invocation_id
    lane = f"{ctx.branch}.{step}" if ctx.branch else step
    events, errors = asked(ctx, "event_due"), asked(ctx, "error_due")
    if not events:
        return None

    async def wait(index: int, item: object) -> None:
        if isinstance(item, Event) and not item.partial and item.invocation_id == first:
            for event_due in events:
                await event_due(item.author, item.branch, item.id, lane)
        elif isinstance(item, BaseException):
            for error_due in errors:
                await error_due(item, step, ctx.branch, index)

    return wait


def failed(ctx: InvocationContext, step: str) -> Callable[[int], None]:
    """What is told that an error has left a branch of a step, and ends those beside it."""
    told = asked(ctx, "branch_failed")

    def tell(index: int) -> None:
        for each in told:
            each(step, ctx.branch, index)

    return tell


def afoot(ctx: InvocationContext) -> Afoot | None:
    """What counts what goes on in a run, where a value of it does."""
    return next(iter(asked(ctx, "afoot")), None)


def heard_apart(ctx: InvocationContext, event: Event) -> None:
    """Tell the values of a run that want to know it: what plugins have seen, the run may never give."""
    for tell in asked(ctx, "event_apart"):
        tell(event.id)


def given(ctx: InvocationContext, event: Event) -> None:
    """Tell them that what was apart is given."""
    for tell in asked(ctx, "event_given"):
        tell(event.id)


def asked(ctx: InvocationContext, name: str) -> list[Any]:
    """Of the values of a run, an attribute of those that have it."""
    run = _runs.get(outermost(ctx).invocation_id)
    held = [] if run is None else [getattr(value, name, None) for value in run.values.values()]
    return [each for each in held if each is not None]


def remote_asked(ctx: InvocationContext, agent: str, request: Callable[[], LlmRequest]) -> list[Any]:
    """What those values of a run make of a call of a remote agent that note such.

    Args:
        request: what it is sent, put together only if somebody notes it.
    """
    run = _runs.get(outermost(ctx).invocation_id)
    found = [] if run is None else [getattr(value, "remote_asked", None) for value in run.values.values()]
    if not (noting := [tell for tell in found if tell is not None]):
        return []
    sent = request()
    return [tell(agent, sent, ctx.branch) for tell in noting]


def keeps(ctx: InvocationContext) -> bool:
    """Whether anything is kept for the run of a context, its session, its user or its app.

    A value that says of itself that it is `momentary` does not count.
    """
    run = _runs.get(outermost(ctx).invocation_id)
    if run is None:
        return False
    lasting = [value for value in run.values.values() if not getattr(value, "momentary", False)]
    return bool(lasting or any(_sessions.get(run.service, _NOTHING).values()))


def values(ctx: InvocationContext, scope: Scope) -> Values:
    """What is kept for the scope that a context is in; nothing that lasts, once the run has ended."""
    first = outermost(ctx)
    run = _runs.get(first.invocation_id)
    if run is None:
        return {}
    if scope == "run":
        return run.values
    found = _beyond(run, scope)
    if scope == "session":
        found.begins(run.id, first.session.events)
    return found


def _beyond(run: _Run, scope: Scope) -> _Recent:
    app, user, session = run.key
    key = (app, "" if scope == "app" else user, session if scope == "session" else "")
    table = _sessions.setdefault(run.service, OrderedDict())
    found = table.setdefault(key, _Recent())
    table.move_to_end(key)
    if len(table) > SESSIONS:
        table.popitem(last=False)
    return found


def forget(service: BaseSessionService, app_name: str, user_id: str, session_id: str) -> None:
    """Drop what was kept for a session that is deleted."""
    if (table := _sessions.get(really(service))) is not None:
        table.pop((app_name, user_id, session_id), None)


def kept() -> tuple[int, int]:
    """How many runs and how many sessions there are values of; for tests."""
    return len(_runs), sum(map(len, _sessions.values()))
