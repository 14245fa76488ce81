"""Running an expression for a2a-sdk's server: one task is one run, or the rest of one that waited."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from a2a.server.agent_execution import AgentExecutor
from google.genai import types

from adk_fluent._tracebacks import in_logs
from adk_fluent.a2a.protocol import sdk
from adk_fluent.backends.adk.api import REFUSED, ADKBackend, Compiled, sqlite
from adk_fluent.backends.events import AgentEvent, Pending, answers, uncaught
from adk_fluent.backends.protocol import StoredSession
from adk_fluent.backends.reading import Reading
from adk_fluent.errors import ADKFluentError, ArgumentError, SessionError
from adk_fluent.ir.graph import Named
from adk_fluent.serve import asked
from adk_fluent.serve.keeping import Kept
from adk_fluent.serve.limits import ServeLimits
from adk_fluent.serve.owners import name_of

if TYPE_CHECKING:
    from a2a.server.agent_execution import RequestContext
    from a2a.server.events import EventQueue
    from a2a.server.tasks import TaskUpdater

    from adk_fluent.backends.temporal.backend import Durable, TemporalBackend

logger: logging.Logger = logging.getLogger("adk_fluent.serve")

HANDED_BACK = "The server stopped before this was done. Send it again."
TASK = "adk_fluent_task"
"""The key of the state under which a durable run notes its task; two tasks of the same words differ by it."""


class FluentExecutor(AgentExecutor):
    """Runs one expression for every task.

    Args:
        named: its tree, with unique names.
        kept: what is kept in memory, where there is no store.

    Attributes:
        is_stopping: whether no more tasks are taken.
        is_durable: whether runs go on when this process dies.
        left: ids of tasks that a server that died left running; their runs may have ended since.
    """

    def __init__(
        self,
        backend: ADKBackend | TemporalBackend,
        compiled: Compiled | Durable,
        named: Named,
        limits: ServeLimits,
        kept: Kept | None = None,
        *,
        is_durable: bool = False,
    ) -> None:
        self._backend: Any = backend
        self._compiled, self._limits, self._kept = compiled, limits, kept
        self._reading = Reading(named)
        self._inputs = asked.inputs_of(named.root)
        self.is_durable: bool = is_durable
        self.left: set[str] = set()
        self._running: dict[asyncio.Task[Any], TaskUpdater] = {}
        self._arriving: dict[object, None] = {}  # calls whose task does not run yet, oldest first
        self.is_stopping: bool = False

    # --- a2a-sdk's side ---------------------------------------------------------------------------

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run the expression for a message."""
        from a2a.server.tasks import TaskUpdater

        updater = TaskUpdater(event_queue, str(context.task_id), str(context.context_id))
        running = cast("asyncio.Task[Any]", asyncio.current_task())
        self._running[running] = updater
        self._arriving.pop(next(iter(self._arriving), None), None)
        limit = asyncio.timeout(self._limits.seconds)
        whose, size = (_whose(context), str(context.context_id)), sdk.size_of(context.message)
        if self._kept is not None:
            self._kept.begin(*whose, str(context.task_id), context.call_context)
        try:
            if context.current_task is None:
                await event_queue.enqueue_event(sdk.new_task(context))
            ids = _ids_asked(context)  # before the task goes on, which its status tells
            async with sqlite.turns_of(("conversation", id(self), *whose)).taken():
                await updater.start_work()
                async with limit:
                    size += await self._run(context, updater, ids)
        except asyncio.CancelledError:
            if not self.is_stopping:
                raise
            await updater.failed(_words(updater, HANDED_BACK))
        except Exception as error:  # noqa: BLE001  # whatever it is, the caller must be told that it ended
            said = _told(error, context)
            if isinstance(error, TimeoutError) and limit.expired():
                said = f"It took longer than {self._limits.seconds:g} seconds."
            logger.error("Task %s failed: %s", context.task_id, in_logs(error))
            await updater.failed(_words(updater, said))
        finally:
            self._running.pop(running, None)
            if self._kept is not None:
                await self._kept.end(*whose, size)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Say that a task is cancelled; a2a-sdk ends its run."""
        from a2a.server.tasks import TaskUpdater

        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()

    # --- the server's side ------------------------------------------------------------------------

    @property
    def refusal(self) -> str | None:
        """Why no further task is taken; `None` if one is."""
        if self.is_stopping:
            return "the server is stopping"
        if len(self._running) + len(self._arriving) >= self._limits.tasks:
            return f"{self._limits.tasks} tasks are running, which is as many as may"
        return None

    @contextmanager
    def place(self, body: bytes) -> Generator[str | None]:
        """A place for a call until its task runs, or it is answered; why there is none, where it needs one.

        Calls that ask for a task, or cancel one, need none.
        """
        call = object()
        refusal = self.refusal if (begins := sdk.begins_task(body)) else None
        if begins and refusal is None:
            self._arriving[call] = None
        try:
            yield refusal
        finally:
            self._arriving.pop(call, None)

    async def stop(self) -> None:
        """Take no more tasks, let the running ones finish for a while, and hand back the rest."""
        self.is_stopping = True
        if running := list(self._running):
            await asyncio.wait(running, timeout=self._limits.grace)
        for task in (left := list(self._running)):
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=self._limits.grace)

    # --- one run ----------------------------------------------------------------------------------

    async def _run(self, context: RequestContext, updater: TaskUpdater, ids: frozenset[str] | None) -> int:
        """Run for a message; bytes of what was told."""
        user, session = _whose(context), str(context.context_id)
        message = asked.read(sdk.from_a2a(cast(Any, context.message).parts), self._inputs)
        approvals, pending = message.given(ids or ()), list[Pending]()
        if ids is not None:
            stored = await self._stored(user, session)
            pending = [each for found in stored.waiting.values() for each in found if each.id in ids]
        if ids is not None and not approvals:
            said = asked.in_words(message.parts, pending)
            if pending and said is None:
                await self._ask(updater, pending, again=True)
                return 0
            approvals = said or {}
        if self.is_durable and not approvals:
            message = replace(message, state={**message.state, TASK: str(context.task_id)})
        telling = _Telling(updater, 0 if context.task_id in self.left else _said_before(context))
        events = await self._ended(context, user, session) or self._events(message, approvals, user, session)
        try:
            return await self._tell(events, telling, updater, user, session)
        except ArgumentError as error:
            if telling.has_begun or not pending:
                raise
            logger.info("Task %s is asked again: %s", context.task_id, in_logs(error))
            await self._ask(updater, pending, again=True)  # it was no answer of the form that is needed
            return 0

    async def _ended(
        self, context: RequestContext, user: str, session: str
    ) -> AsyncGenerator[AgentEvent, None] | None:
        """The events of a task's run that ended while no server was there; `None` if it goes on."""
        if context.task_id not in self.left:
            return None
        self.left.discard(str(context.task_id))
        if await self._backend.is_open(self._compiled, session_id=session, user_id=user):
            return None
        stored = await self._stored(user, session)
        if not stored.runs or stored.state.get(TASK) != context.task_id:
            return None
        return _given([*stored.runs.values()][-1])

    def _events(
        self, message: asked.Asked, approvals: Any, user: str, session: str
    ) -> AsyncGenerator[AgentEvent, None]:
        if approvals:
            return self._backend.resume(self._compiled, session_id=session, user_id=user, approvals=approvals)
        said = [part for part in message.parts if part.text != ""]  # an empty one reaches no model
        return self._backend.stream(
            self._compiled,
            said or [types.Part(text="(no text)")],
            user_id=user,
            session_id=session,
            state=message.state,
            streaming=True,
        )

    async def _tell(
        self,
        events: AsyncGenerator[AgentEvent, None],
        telling: _Telling,
        updater: TaskUpdater,
        user: str,
        session: str,
    ) -> int:
        """Send what is meant for the user, as it comes; how the task ends is the last of it."""
        seen = list[AgentEvent]()
        async with aclosing(events) as run:
            async for event in run:
                telling.has_begun = True
                if event.visibility == "user":
                    await telling.tell(event, held=event.author in self._reading.strays)
                if not event.is_partial:
                    seen.append(event)
        if (problem := uncaught(seen)) is not None:
            raise ADKFluentError(f"{problem.author!r}: {problem.error}")
        stored = await self._stored(user, session)
        waiting = stored.waiting  # of other tasks of the conversation, too
        runs = {event.invocation_id for event in seen}
        if pending := [each for run in waiting if run in runs for each in waiting[run]]:
            await telling.release()
            await self._ask(updater, pending)
            return telling.size
        if any(event.metadata.get(REFUSED) for event in seen):
            refused = next(event for event in seen if event.metadata.get(REFUSED))
            await telling.release()
            await updater.reject(_words(updater, refused.content or "Not approved."))
            return telling.size
        answers_of = self._reading.answered(seen, stored.state, ())
        if answers_of.absence is not None:
            answers_of.absence.value()
        await telling.release()
        if not telling.has_told and (found := answers(seen)):  # nobody visible spoke; somebody stands in
            await telling.tell(found[-1])
        await updater.complete()
        return telling.size

    async def _stored(self, user: str, session: str) -> StoredSession:
        """What is stored of a conversation; nothing if it is new."""
        try:
            return await self._backend.session(self._compiled, session_id=session, user_id=user)
        except SessionError:
            return StoredSession({})

    async def _ask(self, updater: TaskUpdater, pending: Sequence[Pending], *, again: bool = False) -> None:
        """Ask the caller what a run waits for."""
        parts = [sdk.to_a2a(part) for part in asked.request_parts(pending)]
        if again:
            parts.append(sdk.to_a2a(types.Part(text=asked.again(pending))))
        said = updater.new_agent_message(parts)
        if any(each.kind == "credential" for each in pending):
            await updater.requires_auth(said)
        else:
            await updater.requires_input(said)


def _ids_asked(context: RequestContext) -> frozenset[str] | None:
    """What the task of a request waits for; `None` if it does not wait."""
    if not sdk.waits(context):
        return None
    task: Any = context.current_task
    for message in (task.status.message, *reversed(task.history or ())):  # a2a-sdk 0.3 has moved it there
        if message is not None and (ids := asked.ids_in(sdk.from_a2a(message.parts))):
            return ids
    return frozenset()


async def _given(events: Iterable[AgentEvent]) -> AsyncGenerator[AgentEvent, None]:
    for event in events:
        yield event


class _Telling:
    """Sends answers as artifacts: in pieces while they are generated, and whole in their place at the end.

    Args:
        before: messages that the task had before this one; with the order of the answers to this one they
            give ids to artifacts, so that what is told again after a crash replaces what was told.
    """

    def __init__(self, updater: TaskUpdater, before: int) -> None:
        self._updater, self._before = updater, before
        self._open: dict[str, str] = {}
        self._begun: Counter[str] = Counter()
        self._held: list[AgentEvent] = []
        self.has_begun: bool = False  # whether the run gave anything
        self.has_told: bool = False
        self.size: int = 0  # bytes of what was told whole

    async def release(self) -> None:
        """Send what was held back."""
        held, self._held = self._held, []
        for event in held:
            await self.tell(event)

    async def tell(self, event: AgentEvent, *, held: bool = False) -> None:
        """Send the words and files of an event; what asks or answers a tool stays here.

        Args:
            held: whether to wait until somebody else speaks, or the run has ended well.
        """
        parts = [types.Part(text=event.content)] if event.content else []
        parts += [part for part in event.parts if part.inline_data or part.file_data]
        if not parts or event.metadata.get(REFUSED):
            return
        if held:
            self._held += () if event.is_partial else (event,)
            return
        await self.release()
        who = f"{event.author}\n{event.branch or ''}"
        begun = who in self._open
        id = self._open.setdefault(who, self._id(who))
        if not event.is_partial:
            del self._open[who]
            self.has_told = True
            files = (part.inline_data.data for part in parts if part.inline_data)
            self.size += len((event.content or "").encode()) + sum(len(data or b"") for data in files)
        await self._updater.add_artifact(
            [sdk.to_a2a(part) for part in parts],
            artifact_id=id,
            append=begun and event.is_partial,
            last_chunk=not event.is_partial,
        )

    def _id(self, who: str) -> str:
        """The id of the next artifact of somebody."""
        self._begun[who] += 1
        order = f"{self._before}\n{self._begun[who]}\n{who}"
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._updater.task_id}\n{order}"))


def _said_before(context: RequestContext) -> int:
    """How many messages the task of a request had before."""
    return 0 if context.current_task is None else len(context.current_task.history or ())


def _whose(context: RequestContext) -> str:
    """Whose session it is: that of the user who was let in, or else of the conversation alone."""
    return name_of(context.call_context) or f"A2A_USER_{context.context_id}"


def _words(updater: TaskUpdater, text: str) -> Any:
    return updater.new_agent_message([sdk.to_a2a(types.Part(text=text))])


def _told(error: Exception, context: RequestContext) -> str:
    """What a caller is told of a failure: no words of agents, which an error's message may hold."""
    return f"The run failed ({type(error).__name__}). The server's log says more of task {context.task_id}."
