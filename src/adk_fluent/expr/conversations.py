"""Uses of an expression beyond one question and one answer: `Chat`, `Live`, `ask_all` and `EventStream`.

Each works with a `Run`. `Chat` is a conversation turn by turn, and `Live` one in both directions at once.
`ask_all` asks many prompts, several at the same time. `EventStream` yields the events of one run. Read `Chat`
first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Self, TypeVar, cast

from adk_fluent._tracebacks import briefly
from adk_fluent.errors import ADKFluentError, ArgumentError, RunError, SessionError, sentence, what_happened

if TYPE_CHECKING:
    from types import AsyncGeneratorType, TracebackType

    from adk_fluent.backends.events import AgentEvent, RunResult
    from adk_fluent.backends.protocol import LiveConversation
    from adk_fluent.expr.expression_run import Run

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class OpenedAsync:
    """Base of classes that `async with` opens; a plain `with` raises an error that says so."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker reports `with` itself

        def __enter__(self) -> Never:
            raise ArgumentError(
                f"A {type(self).__name__} is opened by `async with`, inside an async function, not by `with`."
            )

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
        ) -> None: ...


class Chat(OpenedAsync, Generic[T_co]):
    """A conversation of several turns in one session; made by `expr.session()`.

    Inside `async with`, connections of tools, such as those to MCP servers, stay open from turn to turn.

    If the backend stores no sessions, only this object holds the conversation: it passes the earlier turns
    to each new one, and no turn can be resumed.

    Args:
        run: the expression and its options.
        keep: True if the session is kept after the conversation.

    Attributes:
        session_id: the session's id; another process can continue the session if the service is shared.
    """

    def __init__(self, run: Run[T_co], *, keep: bool = False) -> None:
        if keep:
            run.check_stores("session(keep=True)", "Leave keep out")
        self._first, self._next = run, run
        self._keep = keep
        self._forgotten = False
        self._open = AsyncExitStack()
        self.session_id: str = run.new_session_id()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._first.opened())
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the conversation, as `async with` does.

        The session is deleted, unless you named it with `session_id=`, gave a session service, set
        `keep=True`, or a run in it waits for an answer.
        """
        try:
            await self._open.aclose()
        finally:
            if not (self._keep or self._forgotten):
                self._forgotten = await self._first.leave(self.session_id)

    async def send(self, prompt: Any) -> RunResult[T_co]:
        """Run one turn: send the user's message and return the result."""
        self._check_open()
        result, self._next = await self._next.turn(prompt, self.session_id)
        return result

    async def resume(
        self, answers: Mapping[str, Any] | None = None, *, approvals: Mapping[str, Any] | None = None
    ) -> RunResult[T_co]:
        """Continue the turn that waits for an answer.

        Args:
            answers: the answer for each id in `RunResult.pending`, in the form that `Pending.form` names.
            approvals: for each id of an approval, `True`, `False`, or a payload that approves.

        Raises:
            SessionError: no turn waits for one of these answers.
            ArgumentError: an answer does not have the form that `Pending.form` names.
            BackendError: the backend stores no sessions.
        """
        self._check_open()
        return await self._first.resume(self.session_id, answers, approvals)

    def _check_open(self) -> None:
        if self._forgotten:
            raise SessionError(
                f"Conversation {self.session_id!r} is over and its session deleted. "
                "Start another, or keep it with session(keep=True)."
            )


class Live(OpenedAsync):
    """A live conversation; made by `expr.live()`, and open within `async with`.

    Events arrive as the model generates them, also while you send: one task iterates over the conversation,
    and any number of tasks send. The loop covers all turns; `event.turn_complete` marks the end of a turn. A
    later loop continues where an earlier one stopped. If any task leaves `async with`, or calls `aclose()`,
    the connection is closed and the loop ends, also in another task.

    Args:
        run: the expression and its options.
        modality: the form of the model's answers.

    Attributes:
        session_id: the session's id; a later `run` or `live` can continue the session.
    """

    def __init__(self, run: Run[Any], modality: Literal["audio", "text"]) -> None:
        self._run = run
        self._modality: Literal["audio", "text"] = modality
        self._open = AsyncExitStack()
        self._line: LiveConversation | None = None
        self._over = ""
        self._listening: asyncio.Task[None] | None = None
        self._wanted = asyncio.Semaphore(0)
        self._heard = asyncio.Queue["AgentEvent | BaseException"]()
        self._is_reading = self._is_asked = self._has_loop = False
        self._leaving = asyncio.Lock()
        self.session_id: str = run.new_session_id()

    async def __aenter__(self) -> Self:
        if self._line is not None:
            raise SessionError("This live conversation was opened already; call live() for another one.")
        await self._open.enter_async_context(self._run.opened())
        try:
            self._line = await self._run.live(self.session_id, self._modality)
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the conversation, as `async with` does: close the connection to the model.

        A loop over the conversation ends, also in another task. A second call waits for the first one. The
        session is deleted, unless you named it with `session_id=` or gave a session service.
        """
        if self._line is None:
            return
        async with self._leaving:
            if self._over == "closed":
                return
            self._over = "closed"
            self._line.close()
            try:
                await self._hang_up()
            finally:
                self._heard.put_nowait(StopAsyncIteration())  # ends a read that still waits
                try:
                    await self._open.aclose()
                finally:
                    await self._run.leave(self.session_id)

    async def _hang_up(self) -> None:
        """Cancel the task that reads events; this ends the connection, too."""
        if self._listening is None:
            return
        self._listening.cancel()
        await asyncio.wait([self._listening])
        if not self._listening.cancelled():
            self._listening.result()

    async def send(self, said: object) -> None:
        """Send text, a `Content`, a list of texts and parts, or a `Blob`.

        A `google.genai.types.Blob` is sound or pictures in real time; the model decides when to answer. The
        model answers any other message at once.

        Raises:
            SessionError: the conversation is not open: it has not begun, was closed, or has ended.
            ArgumentError: the value cannot be sent.
        """
        await self._opened().send(said)

    def __aiter__(self) -> Self:
        self._opened()
        self._has_loop = True
        return self

    async def __anext__(self) -> AgentEvent:
        if self._over == "closed" and self._has_loop:  # closed while the body of the loop ran
            self._has_loop = False
            raise StopAsyncIteration
        line = self._opened()
        if self._is_reading:
            raise SessionError(
                "Another task reads this live conversation already. Let one task read it, and hand events on."
            )
        if self._listening is None:  # this task reads all events, so that any other task can cancel it
            self._listening = asyncio.ensure_future(self._listen(self._run.heard(line, self.session_id)))
        self._is_reading = True
        try:
            if not self._is_asked:  # a read that was cancelled may have asked already
                self._is_asked = True
                self._wanted.release()
            heard = await self._heard.get()
        finally:
            self._is_reading = False
        self._is_asked = False
        if not isinstance(heard, BaseException):
            return heard
        if self._over != "closed":  # the model would not answer a message that is sent now
            self._over = "over"
        raise heard

    async def _listen(self, events: AsyncGenerator[AgentEvent, None]) -> None:
        """Read the events one by one, each when the loop asks for it."""
        async with aclosing(events):
            while True:
                await self._wanted.acquire()
                try:
                    self._heard.put_nowait(await anext(events))
                except (Exception, asyncio.CancelledError) as error:
                    task = cast("asyncio.Task[None]", asyncio.current_task())
                    is_left = self._over == "closed" or task.cancelling()
                    if is_left and not isinstance(error, StopAsyncIteration):
                        raise
                    self._heard.put_nowait(error)
                    return

    def _opened(self) -> LiveConversation:
        if self._line is None:
            raise SessionError("This live conversation is not open; write `async with expr.live() as live:`.")
        if self._over:
            raise SessionError(f"This live conversation is {self._over}; call live() for another one.")
        return self._line


@briefly
async def ask_all(
    run: Run[T], prompts: Sequence[Any], concurrency: int, *, return_exceptions: bool
) -> list[T | ADKFluentError]:
    """Ask all prompts and return the answers in order.

    Args:
        run: the expression and its options.
        prompts: the prompts.
        concurrency: most runs at the same time.
        return_exceptions: True if a prompt's error takes the place of its answer.

    Raises:
        RunError: the first error, with the other answers, unless errors are returned.
    """
    whole = isinstance(concurrency, int) and concurrency >= 1  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not whole:  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
        raise ArgumentError("map() takes a list of prompts and a positive whole number as concurrency.")
    run.prepare(prompts)
    slots, answers, failed = asyncio.Semaphore(concurrency), dict[int, T](), asyncio.Event()

    async def one(index: int, prompt: Any) -> ADKFluentError | None:
        """Ask one prompt; return its error if errors are returned, else `None`."""
        async with slots:
            if failed.is_set():  # another prompt failed, and this task is not cancelled yet
                return None
            try:
                with _as_ours(index):
                    await run.answer(prompt, lambda answer: answers.update({index: answer}))
            except ADKFluentError as error:
                if return_exceptions:
                    return error
                failed.set()
                raise
            return None

    async with run.opened():
        tasks = [asyncio.ensure_future(one(*each)) for each in enumerate(prompts)]
        try:
            errors = await asyncio.gather(*tasks)
        except ADKFluentError as error:
            await _cancelled(tasks)
            error.answers = dict(sorted(answers.items()))
            raise
        finally:
            await _cancelled(tasks)
    return [answers[index] if error is None else error for index, error in enumerate(errors)]


async def _cancelled(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until each has ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _as_ours(index: int) -> Generator[None]:
    """Convert another library's error, which one prompt of a `map` raises, into a `RunError`.

    Raises:
        RunError: the prompt raised such an error, or a `CancelledError` although its task was not cancelled.
    """
    try:
        yield
    except ADKFluentError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # our task was cancelled from outside
            raise
        raise RunError(f"Prompt {index} of map(): a model, tool or step raised CancelledError.") from error
    except Exception as error:
        raise RunError(f"Prompt {index} of map() failed with {sentence(what_happened(error))}") from error


class EventStream(AsyncGenerator["AgentEvent", None]):
    """The events of one run, read once by `async for`; a second loop over a stream that ended is an error.

    Its methods return what the generator's own do, so that no traceback shows a frame of this class.
    """

    def __init__(self, events: AsyncGenerator[AgentEvent, None]) -> None:
        self._events = cast("AsyncGeneratorType[AgentEvent, None]", events)

    def __aiter__(self) -> EventStream:
        if self._events.ag_frame is None:
            raise RunError(
                "This stream has ended, and its events are gone. Call stream() again for a new run, "
                "or keep the events in a list."
            )
        return self

    def __anext__(self) -> Any:
        return self._events.__anext__()

    def asend(self, value: None) -> Any:
        """Do the same as `anext`."""
        return self._events.asend(value)

    def athrow(self, *error: Any) -> Any:
        """Raise an error inside the run."""
        return self._events.athrow(*error)

    def aclose(self) -> Any:
        """End the run, and cancel its model calls."""
        return self._events.aclose()

    if not TYPE_CHECKING:  # a type checker reports `for` itself

        def __iter__(self) -> Never:
            raise ArgumentError(
                "A stream is read by `async for`, inside an async function, not by `for`. "
                "Elsewhere, use ask(), which waits for the answer."
            )
