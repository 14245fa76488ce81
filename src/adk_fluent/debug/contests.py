"""Races, decided again as they were."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from adk_fluent.debug.order import Order
from adk_fluent.debug.values import Choice


class Contest:
    """A race that is replayed: it takes what its branches give in the order of the recording.

    So it has the winner that it had, and those that lost have done as much by then, however fast each is.
    Where a branch gives less than it did, its turns are passed over; where it gives more, the winner goes
    before the others.

    Args:
        choice: how it was decided; `None` for a race that was not recorded, where any branch may win.
        names: its branches; what was recorded of others, as before the pipeline was changed, is passed over.
        order: what happened when.
        over: called when it is decided.
    """

    def __init__(
        self, choice: Choice | None, names: Collection[str], order: Order, over: Callable[[], object]
    ) -> None:
        known = choice or Choice("")
        self._turns = deque(turn for turn in known.taken if turn in names)
        self._winner = known.winner if known.winner in names else ""
        self._recorded, self._seq = choice is not None, known.seq
        self._order = order
        self._over = over
        self._done: set[str] = set()

    def may(self, branch: str, wins: bool) -> bool:
        """Whether what a branch gives is taken now; its good end, which decides, only if it did so then."""
        is_open = not self._winner or self._winner in self._done
        if wins and branch != self._winner and not is_open:
            self._turns = deque(turn for turn in self._turns if turn != branch)
            return False
        if self._turns:
            return branch == self._turns[0]
        return is_open or branch == self._winner

    def took(self, branch: str, ends: bool) -> None:
        """What a branch gave was taken."""
        if self._turns and self._turns[0] == branch:
            self._turns.popleft()
        if ends:
            self._done.add(branch)
            self._turns = deque(turn for turn in self._turns if turn != branch)

    async def settles(self, wins: bool) -> None:
        """Wait until it was decided; where that never happened, until all else waits."""
        if self._seq:
            await self._order.turn(self._seq)
        elif wins and self._recorded:
            await self._order.last()

    def decided(self, winner: str) -> None:
        """It goes on with one of its branches."""
        self._order.mark(self._seq or None)
        self._over()
