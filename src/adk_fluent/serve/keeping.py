"""What a server without a store keeps in memory: the newest conversations, up to a limit."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from adk_fluent.serve.limits import ServeLimits


@dataclass(slots=True)
class _Conversation:
    tasks: dict[str, Any] = field(default_factory=dict[str, Any])
    running: int = 0
    size: int = 0


class Kept:
    """The conversations in memory, from the one that was silent for longest to the newest.

    Args:
        forget_session: deletes the session of a user and conversation.
        forget_task: deletes a task, given its id and the call that made it.
    """

    def __init__(
        self,
        limits: ServeLimits,
        forget_session: Callable[[str, str], Awaitable[None]],
        forget_task: Callable[[str, Any], Awaitable[None]],
    ) -> None:
        self._limits, self._forget_session, self._forget_task = limits, forget_session, forget_task
        self._known: OrderedDict[tuple[str, str], _Conversation] = OrderedDict()
        self._size = 0

    def begin(self, user: str, session: str, task: str, call: Any) -> None:
        """Take note of a task that begins or goes on."""
        held = self._known.setdefault((user, session), _Conversation())
        held.tasks[task] = call
        held.running += 1
        self._known.move_to_end((user, session))

    async def end(self, user: str, session: str, size: int) -> None:
        """Take note that it does not run any more, and forget what is above the limits.

        Args:
            size: bytes of what was asked and told in it.
        """
        held = self._known[user, session]
        held.running -= 1
        held.size += size
        self._size += size
        while self._is_over and (key := self._silent()) is not None:
            gone = self._known.pop(key)
            self._size -= gone.size
            await self._forget_session(*key)
            for task, call in gone.tasks.items():
                await self._forget_task(task, call)

    @property
    def _is_over(self) -> bool:
        return len(self._known) > self._limits.conversations or self._size > self._limits.memory

    def _silent(self) -> tuple[str, str] | None:
        """The conversation that was silent for longest; `None` if the newest alone does not run.

        The newest stays: a2a-sdk is about to store how its task ended.
        """
        newest = next(reversed(self._known))
        silent = (key for key, held in self._known.items() if not held.running and key != newest)
        return next(silent, None)
