"""ADK's sessions as every backend's are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from google.adk.events.event import Event
from google.adk.sessions import Session

from adk_fluent.analysis.visibility import Outlet
from adk_fluent.backends.adk.events.approvals import waiting_in
from adk_fluent.backends.adk.running.convert import to_agent_event
from adk_fluent.backends.adk.running.visibility import event_visibility, marked
from adk_fluent.backends.events import AgentEvent, Pending
from adk_fluent.backends.protocol import StoredSession


def stored(session: Session, outlet: Outlet) -> StoredSession:
    """A session of ADK's; its events are converted when somebody asks for them."""
    waiting: dict[str, list[Pending]] = {}
    for asked in waiting_in(session).values():
        waiting.setdefault(asked.event.invocation_id, []).append(asked.pending)
    return StoredSession(session.state, waiting, _Runs(session, outlet))


@dataclass(frozen=True, slots=True)
class _Runs(Mapping[str, "Iterator[AgentEvent]"]):
    """The events of each run, converted one by one."""

    session: Session
    outlet: Outlet

    def __getitem__(self, run: str) -> Iterator[AgentEvent]:
        events = [event for event in self.session.events if event.invocation_id == run]
        if not events:
            raise KeyError(run)
        return (self._converted(event) for event in events if event.author != "user")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(event.invocation_id for event in self.session.events))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _converted(self, event: Event) -> AgentEvent:
        return to_agent_event(marked(event, event_visibility(event, self.outlet)), self.session.id)
