"""A live conversation with an expression: speech or text in both directions at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from adk_fluent.errors import SessionError
from adk_fluent.expr.misuse import OpenedAsync

if TYPE_CHECKING:
    from adk_fluent.backends.events import AgentEvent
    from adk_fluent.backends.protocol import LiveConversation
    from adk_fluent.expr.expression_run import Run


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
