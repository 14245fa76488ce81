"""A conversation with an expression."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from adk_fluent.errors import SessionError

if TYPE_CHECKING:
    from adk_fluent.backends.events import RunResult
    from adk_fluent.expr.running import Run

T_co = TypeVar("T_co", covariant=True)


class Chat(Generic[T_co]):
    """Several turns in one session; made by `expr.session()`.

    In `async with`, what tools hold open, such as connections to MCP servers, stays open from turn to turn.

    On a backend that stores no sessions the conversation lives in this object alone: each turn is told of
    those before it, and none can be resumed.

    Args:
        run: what each turn runs.
        keep: whether the session outlives the conversation.

    Attributes:
        session_id: the session; another process can go on in it when the session service is shared.
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

        Its session is forgotten, unless it was named with `session_id=` or is kept in a service of the
        caller's, `keep=True` says so, or a run in it waits for an answer.
        """
        try:
            await self._open.aclose()
        finally:
            if not (self._keep or self._forgotten):
                self._forgotten = await self._first.leave(self.session_id)

    async def send(self, prompt: Any) -> RunResult[T_co]:
        """One turn: what the user says, and everything that follows."""
        self._check_open()
        result, self._next = await self._next.turn(prompt, self.session_id)
        return result

    async def resume(
        self, answers: Mapping[str, Any] | None = None, *, approvals: Mapping[str, Any] | None = None
    ) -> RunResult[T_co]:
        """Go on with the turn that waits; the conversation goes on after it.

        Args:
            answers: `RunResult.pending` id → the answer, in the form that `Pending.form` names.
            approvals: the same for approvals: id → `True`, `False`, or a payload that approves.

        Raises:
            SessionError: it does not wait for one of these answers.
            ArgumentError: an answer has another form.
            BackendError: the backend stores no sessions.
        """
        self._check_open()
        return await self._first.resume(self.session_id, answers, approvals)

    def _check_open(self) -> None:
        if self._forgotten:
            raise SessionError(
                f"Conversation {self.session_id!r} is over and its session forgotten. "
                "Start another, or keep it with session(keep=True)."
            )
