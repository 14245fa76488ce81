"""When a run begins a new history, so that it may be longer than what one holds."""

from __future__ import annotations

from dataclasses import replace

from pydantic_core import to_json
from temporalio import workflow

from adk_fluent.backends.adk.api import Compiled, can_pause
from adk_fluent.backends.adk.durable.anew import Course, spine
from adk_fluent.backends.adk.durable.sessions import HeldSession
from adk_fluent.backends.adk.durable.steps import Json
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.reading import limited
from adk_fluent.backends.temporal import sizes
from adk_fluent.backends.temporal.engine import TemporalEngine
from adk_fluent.backends.temporal.messages import Before
from adk_fluent.config import ExecutionConfig
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import Repeated
from adk_fluent.ir.graph import resolve_names


class Anew:
    """Says where a run goes on in a new history, and sees to it that it can.

    A run that goes round notes in its session where it is, as one that may pause does in any case. Nobody
    hears of these notes, and they are stored only where the run goes on in a new history.

    Args:
        node: what runs.
        config: how it is asked to run.
        before: what came before, in earlier histories.

    Attributes:
        config: how it runs.
        hides: whether nobody hears of its notes.
    """

    def __init__(self, node: Node, config: ExecutionConfig, before: Before | None) -> None:
        root = resolve_names(limited(node, config)).root
        places = spine(root)
        self._places = frozenset(place.name for place in places)
        goes_round = any(isinstance(place.runs, Repeated) for place in places)
        self.hides: bool = config.resumable is None and goes_round and not can_pause(root)
        self.config: ExecutionConfig = replace(config, resumable=True) if self.hides else config
        self._course = Course(0 if before is None else before.calls)
        self._events = self._bytes = 0
        self._stays = False

    def watching(self, compiled: Compiled) -> Compiled:
        """The app, watched."""
        plugins = [*compiled.app.plugins, self._course]
        return replace(compiled, app=compiled.app.model_copy(update={"plugins": plugins}))

    def opened(self, session: Json, *, stays: bool) -> None:
        """Take note of the session with which a history begins, and whether every worker will find it."""
        info = workflow.info()
        self._events = info.get_current_history_length() + sizes.room(len(session["events"]))
        self._bytes = info.get_current_history_size() + len(to_json(session)) + sizes.LONG_BYTES
        self._stays = stays

    @property
    def calls(self) -> int:
        """How many model calls the run has made."""
        return self._course.calls

    def hidden(self, event: AgentEvent, held: HeldSession) -> bool:
        """Whether an event is a note that nobody hears of."""
        return self.hides and event.raw is not None and event.raw.id in held.notes

    def begins_at(self, event: AgentEvent, engine: TemporalEngine) -> bool:
        """Whether the run, which has just given an event, goes on in a new history."""
        info, raw = workflow.info(), event.raw
        is_long = (
            info.get_current_history_length() > self._events or info.get_current_history_size() > self._bytes
        )
        if not (is_long and self._stays and raw is not None and event.author in self._places):
            return False
        return raw.actions.agent_state is not None and engine.is_idle and self._course.can_be_left
