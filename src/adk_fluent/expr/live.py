"""A live conversation with an expression: speech or text in both directions at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Literal, Self

from adk_fluent.errors import SessionError

if TYPE_CHECKING:
    from adk_fluent.backends.events import AgentEvent
    from adk_fluent.backends.protocol import LiveConversation
    from adk_fluent.expr.running import Run


class Live:
    """A live conversation; made by `expr.live()`, and open within `async with`.

    What the model says comes as it is said, also while something is being sent: iterate over it and send as
    you like, from one task or from several. The loop goes on over all turns; `event.turn_complete` says where
    one ends, and a later loop goes on where an earlier one was left.

    Args:
        run: what is run, and how.
        modality: what the model answers in.

    Attributes:
        session_id: the session; what was said in it is there for a later `run` or `live`.
    """

    def __init__(self, run: Run[Any], modality: Literal["audio", "text"]) -> None:
        self._run = run
        self._modality: Literal["audio", "text"] = modality
        self._open = AsyncExitStack()
        self._line: LiveConversation | None = None
        self._events: AsyncGenerator[AgentEvent, None] | None = None
        self._over = ""
        self.session_id: str = run.new_session_id()

    async def __aenter__(self) -> Self:
        if self._line is not None:
            raise SessionError("This live conversation was opened already; call live() for another one.")
        await self._open.enter_async_context(self._run.opened())
        try:
            self._line, shown = await self._run.live(self.session_id, self._modality)
        except BaseException:
            await self._open.aclose()
            raise
        self._events = _shown(self._line.events(), shown)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the conversation, as `async with` does: the connection to the model is closed.

        The session is forgotten, unless it was named with `session_id=` or is kept in a service of yours.
        """
        if self._line is None or self._over == "closed":
            return
        self._over = "closed"
        self._line.close()
        try:
            assert self._events is not None
            await self._events.aclose()
        finally:
            await self._open.aclose()
            await self._run.leave(self.session_id)

    async def send(self, said: object) -> None:
        """Send text, a `Content`, a list of texts and parts, or a `Blob`.

        A `google.genai.types.Blob` is sound or pictures in real time, and the model itself decides when to
        answer; all else is a message that is answered at once.

        Raises:
            SessionError: the conversation is not open: it has not begun, was closed, or has ended.
            ArgumentError: it is nothing that can be sent.
        """
        await self._opened().send(said)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        self._opened()
        assert self._events is not None
        try:
            return await anext(self._events)
        except BaseException:  # it ended, or failed: nobody would hear what is sent now
            self._over = "over"
            raise

    def _opened(self) -> LiveConversation:
        if self._line is None:
            raise SessionError("This live conversation is not open; write `async with expr.live() as live:`.")
        if self._over:
            raise SessionError(f"This live conversation is {self._over}; call live() for another one.")
        return self._line


async def _shown(
    events: AsyncGenerator[AgentEvent, None], shown: Callable[[AgentEvent], AgentEvent]
) -> AsyncGenerator[AgentEvent, None]:
    async with aclosing(events) as source:
        async for event in source:
            yield shown(event)
