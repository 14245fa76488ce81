"""Usage of model calls that no event of a run tells: of losers, failed attempts, helpers, agents in tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from adk_fluent.backends.events import AgentEvent, Spent, Usage
from adk_fluent.cost.prices import tokens_of


def usage_of(metadata: Any, model: str, cost: str | None) -> Usage:
    """What one call used.

    Args:
        metadata: the `usage_metadata` of its response.
        cost: what it cost in USD, where its agent gives the price.
    """
    tokens = tokens_of(metadata)
    return Usage(1, *tokens, spent=(Spent(model, tokens, cost),))


class ModelCall(NamedTuple):
    """A model call that reported what it used.

    Attributes:
        author: the agent, by the name that it runs under.
        model: the model that answered.
        usage: what it used.
    """

    author: str
    model: str
    usage: Usage


_calls: ContextVar[list[ModelCall] | None] = ContextVar("adk_fluent_calls", default=None)


@contextmanager
def noting_calls() -> Generator[None]:
    """Note the model calls of the run that is made within."""
    before = _calls.set([])
    try:
        yield
    finally:
        _calls.reset(before)


def noted_calls() -> list[ModelCall] | None:
    """The calls of the run at hand, to add to; `None` where nobody notes them."""
    return _calls.get()


def untold(calls: Iterable[ModelCall], events: Iterable[AgentEvent]) -> Sequence[ModelCall]:
    """The calls whose answers are in none of the events."""
    told = Counter(
        (event.author, event.usage) for event in events if event.usage is not None and not event.is_partial
    )
    found = list[ModelCall]()
    for call in calls:
        if told[call.author, call.usage] > 0:
            told[call.author, call.usage] -= 1
        else:
            found.append(call)
    return found
