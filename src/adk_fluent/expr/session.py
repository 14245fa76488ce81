"""`Chat`: a conversation with an expression, turn by turn."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from adk_fluent.errors import SessionError
from adk_fluent.expr.misuse import OpenedAsync

if TYPE_CHECKING:
    from adk_fluent.backends.events import RunResult
    from adk_fluent.expr.expression_run import Run

T_co = TypeVar("T_co", covariant=True)


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
