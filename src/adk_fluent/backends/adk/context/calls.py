"""What belongs to one run of an agent, for as long as ADK holds the context of that run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import ref

from google.adk.agents.invocation_context import InvocationContext

T = TypeVar("T")


class PerContext(Generic[T]):
    """One value for each invocation context, which goes when its context does.

    ADK makes a context for every run of an agent, and gives that very object to the instruction provider,
    to the steps that assemble a request and to the agent's own loop. It cannot be hashed, and contexts of two
    runs may be equal: what counts is which one it is. A context variable would not do: whoever drives the
    events of a run may do so from a task for each, as `asyncio.wait_for` does before Python 3.12.

    Args:
        make: gives the value of a context that is met for the first time.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._held: dict[int, tuple[ref[InvocationContext], T]] = {}

    def of(self, ctx: InvocationContext) -> T:
        """The value of a context."""
        held = self._held.get(id(ctx))
        if held is None or held[0]() is not ctx:
            held = self._held[id(ctx)] = (ref(ctx, partial(self._forget, id(ctx))), self._make())
        return held[1]

    def _forget(self, key: int, gone: ref[Any]) -> None:
        held = self._held.get(key)
        if held is not None and held[0] is gone:
            del self._held[key]

    def __len__(self) -> int:
        """How many contexts have one."""
        return len(self._held)
