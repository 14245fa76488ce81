"""What goes on at the same time in a run, counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Afoot:
    """Counts what goes on in a run, so that it is known when each part of it waits for another.

    Args:
        stuck: called, in the next round of the event loop, when nothing goes on.
    """

    def __init__(self, stuck: Callable[[], None] | None = None) -> None:
        self._count = 0
        self._changes = 0
        self._stuck = stuck
        self._awaited: set[asyncio.Event] = set()
        self._error: Exception | None = None

    def begin(self) -> None:
        """One more goes on."""
        self._count += 1
        self._changes += 1

    def end(self) -> None:
        """One has ended."""
        self._count -= 1
        self._changes += 1
        if self._stuck is not None and self._count <= 0:
            # Behind all that was woken until now; what changes before then looks for itself.
            asyncio.get_running_loop().call_soon(self._look, self._changes)

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Within, one waits for another to do something."""
        self.end()
        try:
            yield
        finally:
            self.begin()

    async def wait(self, event: asyncio.Event) -> None:
        """Wait until another sets this.

        Raises:
            Exception: what `fail` was given, since nobody will set it.
        """
        self._awaited.add(event)
        try:
            with self.waiting():
                await event.wait()
        finally:
            self._awaited.discard(event)
        if self._error is not None:
            raise self._error

    def fail(self, error: Exception) -> None:
        """Nothing can go on: let this be raised by all that wait for an event, if anything does.

        What is being cancelled at the moment still goes on, so it is looked at again in the next round.
        """
        asyncio.get_running_loop().call_soon(self._fail, error, self._changes)

    def _fail(self, error: Exception, changes: int) -> None:
        if self._awaited and self._changes == changes:
            self._error = error
            for event in self._awaited:
                event.set()

    def _look(self, changes: int) -> None:
        if self._stuck is not None and self._count <= 0 and self._changes == changes:
            self._stuck()
