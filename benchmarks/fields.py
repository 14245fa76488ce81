"""Typed access to state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any

from adk_fluent import StateSchema
from adk_fluent.state import UserScoped
from benchmarks.harness import Figure, compare

ROUNDS = 30
TIMES = 2000


class BillingState(StateSchema):
    """The schema that is read and written."""

    intent: str
    tier: Annotated[str, UserScoped]


def figures() -> Iterator[Figure]:
    """A typed field of ADK's own state against its key."""
    from google.adk.sessions.state import State

    stored = State({"intent": "refund", "user:tier": "gold"}, {})
    state = BillingState.bind(stored)

    def write() -> None:
        state.tier = "silver"

    def write_key() -> None:
        stored["user:tier"] = "silver"

    pairs: tuple[tuple[str, Callable[[], Any], Callable[[], Any]], ...] = (
        ("reading a typed field", lambda: state.intent, lambda: stored["intent"]),
        ("writing a typed field", write, write_key),
    )
    for what, typed, plain in pairs:
        figure = compare(what, _repeated(typed), _repeated(plain), rounds=ROUNDS, per=TIMES)
        yield replace(figure, against="the key", target=5e-6, of="seconds")


def _repeated(run: Callable[[], Any]) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(TIMES):
            run()

    return repeated
