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

    def _look(self, changes: int) -> None:
        if self._stuck is not None and self._count <= 0 and self._changes == changes:
            self._stuck()
