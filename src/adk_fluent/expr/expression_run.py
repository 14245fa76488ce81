"""`Run`: one call of a terminal: it runs the expression, and reads the events and the state after them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any, Generic, Literal, TypeVar, cast

from adk_fluent import errors
from adk_fluent._tracebacks import brief, briefly
from adk_fluent.backends.events import AgentEvent, Pending, RunResult, answers, uncaught
from adk_fluent.backends.protocol import LiveBackend, LiveConversation, StoredSession
from adk_fluent.backends.spending import noted_calls, noting_calls, untold
from adk_fluent.backends.turns import pending_after, state_after, user_said
from adk_fluent.errors import ArgumentError, BackendError, EventLoopError, RunError, SessionError
from adk_fluent.expr.run_setup import RunSetup

T_co = TypeVar("T_co", covariant=True)


class Run(RunSetup, Generic[T_co]):
    """One call of a terminal: an expression and its options, and how it runs."""

    # --- running ----------------------------------------------------------------------------------

    async def stream(self, prompt: Any) -> AsyncGenerator[AgentEvent, None]:
        """Yield events as they happen; at the end, delete the session unless it is named or the run waits."""
        with brief():
            form, session_id, waits = self._form, self._session_id(), False
            plain, shown = self.sessions is None, form.reading.shown
            whole: list[AgentEvent] = []
            try:
                arguments = self._arguments(prompt, session_id, streaming=True)
                async with _closing(self.backend.stream(form.compiled, prompt, **arguments)) as events:
                    async for event in events:
                        if plain:
                            self._check_event(event)
                        waits = waits or bool(event.pending)
                        if not event.is_partial:
                            whole.append(event)
                        yield shown(event)
                if (error := self._uncaught(whole)) is not None:
                    raise error
            except RunError as error:
                await self._set_result(error, form.reading.all_marked(whole), session_id)
                raise
            finally:
                if not waits:
                    await self._forget(form.compiled, session_id)

    @briefly
    async def result(self, prompt: Any) -> RunResult[T_co]:
        """Run to the end; return all events and the state after them."""
        session_id = self._session_id()
        with noting_calls():
            return await self._collect(await self._events(prompt, session_id), session_id)

    @briefly
    async def turn(self, prompt: Any, session_id: str) -> tuple[RunResult[T_co], Run[T_co]]:
        """Run one turn of a conversation; return its result, and the `Run` for the next turn.

        If the backend stores no sessions, the next `Run` holds the events of the turns that succeeded.
        """
        with noting_calls():
            events = await self._events(prompt, session_id)
            result = await self._collect(events, session_id)
        if self.sessions is not None:
            options = {name: value for name, value in self._options.items() if name != "state"}
            options["session_id"] = session_id  # the session exists now; the given state was for its start
            return result, Run(self._expression, options, terminal=self._terminal)
        options = {**self._options, "state": result.state}
        history = [*self._history, user_said(prompt, session_id), *events]
        return result, Run(self._expression, options, terminal=self._terminal, history=history)

    async def _events(self, prompt: Any, session_id: str) -> list[AgentEvent]:
        """Run to the end; return all events, marked with their visibility."""
        form = self._form
        arguments = self._arguments(prompt, session_id, streaming=False)
        try:
            events = await self.backend.run(form.compiled, prompt, **arguments)
        except RunError as error:
            await self._set_result(error, form.reading.all_marked(error.result or ()), session_id)
            raise
        if self.sessions is None:
            for event in events:
                self._check_event(event)
        return form.reading.all_marked(events)

    def _check_event(self, event: object) -> None:
        if not isinstance(event, AgentEvent):
            name = type(self.backend).__name__
            raise BackendError(
                f"{name} returned {type(event).__name__} {event!r:.40} as an event of a run. "
                f"Let run() and stream() of {name} return AgentEvent(author, text, is_final=True)."
            )

    @briefly
    async def answer(self, prompt: Any, keep: Callable[[T_co], None] | None = None) -> T_co:
        """Run and return only the answer; delete the session unless the user named it.

        Args:
            prompt: the user's message.
            keep: called with the answer as soon as it is known, before the session is deleted.

        Raises:
            RunError: the run waits for a person, or ended with an event that reports an error.
        """
        compiled, session_id = self.compiled, self._session_id()
        try:
            answer = _answer(await self._collect(await self._events(prompt, session_id), session_id))
            if keep is not None:
                keep(answer)
        finally:
            await self._forget(compiled, session_id)
        return answer

    def prepare(self, prompts: Iterable[Any]) -> None:
        """Compile the expression, and check prompts that run in new sessions, before the first paid call.

        Raises:
            ArgumentError: a session is given, or a message cannot hold one of the prompts.
        """
        if "session_id" in self._options:
            raise ArgumentError("map() runs each prompt in a new session; leave session_id out.")
        _ = self.compiled
        for prompt in prompts:
            self._arguments(prompt, "", streaming=False)

    def ask(self, prompt: Any) -> T_co:
        """Block until the answer is known, and return it."""
        with brief():
            if is_running():
                raise EventLoopError(
                    "ask() cannot wait inside a running event loop; write `await expr.ask_async(...)`."
                )
            return asyncio.run(self.answer(prompt))

    @briefly
    async def resume(
        self,
        session_id: str,
        answers: Mapping[str, Any] | None,
        approvals: Mapping[str, Any] | None,
    ) -> RunResult[T_co]:
        """Continue a paused run and return the rest of it.

        Args:
            session_id: the session of the run.
            answers: the answer for each id of a question.
            approvals: the answer for each id of an approval.

        Raises:
            ArgumentError: both have an answer for one id, or an argument is not a mapping.
        """
        sessions, form = self._storing("resume()"), self._form
        source = sessions.resume(
            form.compiled,
            session_id=session_id,
            approvals=_answers(answers, approvals),
            user_id=self._user_id,
            services=self._services,
        )
        events: list[AgentEvent] = []
        with noting_calls():
            try:
                async with _closing(source) as stream:
                    async for event in stream:
                        events.append(event)
            except RunError as error:
                await self._set_result(error, form.reading.all_marked(events), session_id, resumed=True)
                raise
            return await self._collect(form.reading.all_marked(events), session_id, resumed=True)

    @briefly
    async def live(self, session_id: str, modality: Literal["audio", "text"]) -> LiveConversation:
        """Open a live conversation.

        Raises:
            BackendError: the backend does not support live conversations.
            UnsupportedNodeError: a node of the expression cannot run live.
        """
        backend = self.backend
        if not isinstance(backend, LiveBackend):
            raise BackendError(
                f"{type(backend).__name__} has no live conversations. Take a backend that does, such as "
                "ADKBackend()."
            )
        return await backend.live(
            self.compiled,
            session_id=session_id,
            user_id=self._user_id,
            state=self._options.get("state") or {},
            modality=modality,
            services=self._services,
        )

    async def heard(self, line: LiveConversation, session_id: str) -> AsyncGenerator[AgentEvent, None]:
        """Yield the events of a live conversation as the user should see them.

        Raises:
            RunError: the conversation failed, or an event reports a failure that nothing caught.
        """
        with brief():
            reading = self._form.reading
            whole: list[AgentEvent] = []
            try:
                async with aclosing(line.events()) as events:
                    async for event in events:
                        if not (event.is_partial or any(part.inline_data for part in event.parts)):
                            whole.append(event)  # sound would fill the memory
                        yield reading.shown(event)
                if (error := self._uncaught(whole)) is not None:
                    raise error
            except RunError as error:
                await self._set_result(error, reading.all_marked(whole), session_id)
                raise

    @briefly
    async def rewind(self, before_invocation_id: str) -> None:
        """Undo a run and all later ones."""
        await self._storing("rewind()").rewind(
            self.compiled,
            session_id=self._options["session_id"],
            before_invocation_id=before_invocation_id,
            user_id=self._user_id,
            services=self._services,
        )

    async def _collect(
        self, events: Sequence[AgentEvent], session_id: str, *, resumed: bool = False
    ) -> RunResult[T_co]:
        """Make the result of a run from its events.

        Raises:
            RunError: an event reports a failure that nothing caught.
        """
        result = self._result(events, session_id, *await self._after(events, session_id, resumed))
        if (error := self._uncaught(events)) is not None:
            error.result = result
            raise error
        return result

    def _result(
        self,
        events: Sequence[AgentEvent],
        session_id: str,
        state: Mapping[str, Any],
        pending: Sequence[Pending],
        earlier: Sequence[AgentEvent] = (),
    ) -> RunResult[T_co]:
        reading = self._form.reading
        answer = next(reversed(answers(events)), None)  # the user sees the answer of any agent
        return RunResult[T_co](
            [event if event is answer else reading.shown(event) for event in events],
            state=state,
            session_id=session_id,
            origins=reading.named.origins,
            parse=reading.answered([*earlier, *events], state, pending),
            pending=pending,
            earlier=earlier,
            untold=untold(noted_calls() or (), events),
        )

    async def _set_result(
        self, error: RunError, events: Sequence[AgentEvent], session_id: str, *, resumed: bool = False
    ) -> None:
        """Set the `result` of an error that ended a run: the events and the state up to the error."""
        try:
            if isinstance(error, SessionError):  # the store failed, so it is not read again
                raise error
            state, pending, earlier = await self._after(events, session_id, resumed)
        except Exception:  # noqa: BLE001  # the caller raises the first error, not this one
            state, pending = state_after(self._options.get("state") or {}, events), pending_after(events)
            earlier = ()
        error.result = self._result(events, session_id, state, pending, earlier)

    async def _after(
        self, events: Sequence[AgentEvent], session_id: str, resumed: bool
    ) -> tuple[Mapping[str, Any], Sequence[Pending], Sequence[AgentEvent]]:
        """The state after these events, their open questions, and the earlier events of the same run."""
        if self.sessions is None:
            return state_after(self._options.get("state") or {}, events), pending_after(events), ()
        session = await self._session(self.sessions, session_id)
        waiting = session.waiting
        asked = waiting.get(events[-1].invocation_id, ()) if events else itertools.chain(*waiting.values())
        return session.state, list(asked), _before(session, events) if resumed else ()

    def _uncaught(self, events: Sequence[AgentEvent]) -> RunError | None:
        """The error for a failure that an event reports and nothing caught; else `None`."""
        if (event := uncaught(events)) is None:
            return None
        return RunError(errors.no_answer(self._form.reading.origin(event.author), event.error or ""))

    # --- sessions ---------------------------------------------------------------------------------

    async def leave(self, session_id: str) -> bool:
        """End a conversation and delete its session, as `answer` does; return True if it is deleted."""
        if self.sessions is None:
            return True
        if "_form" not in vars(self):  # no turn ran, perhaps because the first was refused
            return False
        try:
            session = await self._session(self.sessions, session_id)
        except SessionError:  # no turn ran
            return False
        return not session.waiting and await self._forget(self.compiled, session_id)


def is_running() -> bool:
    """True if an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _closing(
    source: AsyncIterator[AgentEvent],
) -> AbstractAsyncContextManager[AsyncIterator[AgentEvent]]:
    """Close a source of events at the end of the block, if it can be closed."""
    if hasattr(source, "aclose"):
        return aclosing(cast("AsyncGenerator[AgentEvent, None]", source))
    return nullcontext(source)


def _before(session: StoredSession, events: Sequence[AgentEvent]) -> list[AgentEvent]:
    """The stored events of the same run that come before these events."""
    these = {event.id for event in events}
    runs = dict.fromkeys(event.invocation_id for event in events)
    stored = itertools.chain.from_iterable(session.runs.get(run, ()) for run in runs)
    return list(itertools.takewhile(lambda event: event.id not in these, stored))


def _answers(answers: Mapping[str, Any] | None, approvals: Mapping[str, Any] | None) -> dict[str, Any]:
    """Join the two arguments of `resume`.

    Raises:
        ArgumentError: both have an answer for one id, or an argument is not a mapping.
    """
    for name, given in (("answers", answers), ("approvals", approvals)):
        if given is not None and not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not type-check
            raise ArgumentError(f"resume({name}=) takes {{id: value}}, not {given!r:.60}.")
    twice = (answers or {}).keys() & (approvals or {}).keys()
    if twice:
        raise ArgumentError(
            f"resume() got two answers to {min(twice)!r}: one in answers=, one in approvals=."
        )
    return {**(answers or {}), **(approvals or {})}


def _answer(result: RunResult[T_co]) -> T_co:
    """The answer of a result.

    Raises:
        RunError: the run waits for a person, or its answer does not match the type.
    """
    try:
        if waiting := result.pending:
            raise RunError(
                f"{waiting[0].agent!r} waits for {waiting[0].awaited}: {errors.sentence(waiting[0].message)} "
                "Use run(), whose result has .pending, and resume()."
            )
        return result.output
    except RunError as error:
        error.result = result
        raise
