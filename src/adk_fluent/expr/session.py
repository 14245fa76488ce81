"""A conversation with an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from adk_fluent.backends.events import RunResult
    from adk_fluent.expr.running import Run

T_co = TypeVar("T_co", covariant=True)


class Chat(Generic[T_co]):
    """Several turns in one session; made by `expr.session()`.

    Attributes:
        session_id: the session; another process can go on in it when the session service is shared.
    """

    def __init__(self, run: Run[T_co]) -> None:
        self._run = run
        self.session_id = run.new_session_id()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        return None

    async def send(self, prompt: Any) -> RunResult[T_co]:
        """One turn: what the user says, and everything that follows."""
        result = await self._run.result(prompt, self.session_id)
        self._run = self._run.without_state()
        return result
