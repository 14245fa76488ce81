"""What a run is asked, what it tells its reader, and what it leaves to its next history."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

READER: Final = timedelta(seconds=10)
"""How long a streamed run waits for its reader before it goes on alone."""


@dataclass(frozen=True)
class Before:
    """What came before, of a run that goes on in a new history.

    Attributes:
        run: ADK's id of the run.
        temporary: its `temp:` state.
        calls: how many model calls it has made.
        histories: the histories that it had, by Temporal's id, each with how many events the run had given
            at its end.
    """

    run: str
    temporary: dict[str, Any]
    calls: int
    histories: dict[str, int]

    @property
    def events(self) -> int:
        """How many events the run has given."""
        return max(self.histories.values())

    def history_of(self, cursor: int) -> str:
        """The history that has the event at a place."""
        return min((end, name) for name, end in self.histories.items() if cursor < end)[1]


@dataclass(frozen=True)
class Asked:
    """What a run is asked for.

    Attributes:
        config: its configuration, as JSON.
        policy: how its steps are done.
        prompt: what the user says, ADK's `Content` as JSON.
        streaming: whether pieces of answers are wanted, and somebody reads along.
        patience: seconds within which workers of its segments must take them up.
        before: what it has done already, when it goes on in a new history.
    """

    config: dict[str, Any]
    policy: dict[str, Any]
    user_id: str
    session_id: str
    prompt: dict[str, Any]
    state: dict[str, Any]
    streaming: bool
    patience: float = 10.0
    before: Before | None = None


@dataclass(frozen=True)
class Page:
    """What a reader gets.

    Attributes:
        events: ADK events as JSON, in order.
        status: of the run, once all of its events are read: `running`, `waiting`, `done` or `failed`;
            `continued` once all of a history are read, and the run goes on in another.
        state: the state of the session, when it does not run.
        error: what ended a run that `failed`.
        history: the earlier history that has the events which are asked for.
    """

    events: list[str]
    status: str = "running"
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    error: dict[str, Any] | None = None
    history: str | None = None
