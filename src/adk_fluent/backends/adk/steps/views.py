"""What an agent sees of a session whose conversation has branches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent.backends.adk.events.branch_sessions import BranchSessions, append


class View:
    """A session as an agent on one branch sees it: all that concerns the branch happened on it.

    ADK shows an agent its own conversation branch and those above. So a step behind a fan-out that is itself
    in a branch would not see what that fan-out said; and of the answers that a person gives to several
    branches in one message, which ADK puts on the branch of the first, the others would hear nothing.

    Attributes:
        ctx: the context of the agent, with this view of the session.
    """

    def __init__(self, ctx: InvocationContext) -> None:
        self._outer = ctx
        session = ctx.session.model_copy()
        service = BranchSessions(ctx.session_service, self._append)
        self.ctx: InvocationContext = ctx.model_copy(update={"session": session, "session_service": service})
        self.refresh()

    def refresh(self) -> None:
        """Look again at the session, in which something was stored."""
        session = self._outer.session
        branch, given = self._outer.branch, _given(session.events)
        asked = _calls_on(branch, session.events) if given else frozenset[str]()
        self.ctx.session.state = session.state
        self.ctx.session.events = [_seen_from(branch, event, asked, given) for event in session.events]

    async def _append(self, event: Event) -> Event:
        stored = await append(self._outer, event)
        self.refresh()
        return stored


def own_view(ctx: InvocationContext) -> View | None:
    """The view of the session that an agent needs; `None` where the session itself will do."""
    events = ctx.session.events
    given = _given(events)
    if not (given or ctx.branch):
        return None
    asked = _calls_on(ctx.branch, events) if given else frozenset[str]()
    if all(_seen_from(ctx.branch, event, asked, given) is event for event in events):
        return None
    return View(ctx)


def _seen_from(branch: str | None, event: Event, asked: frozenset[str], given: frozenset[str]) -> Event:
    """The event as an agent on `branch` sees it.

    Args:
        asked: the ids of the calls that were made on the branch or below it.
        given: the ids of the calls that were answered from outside.
    """
    seen = _without_answered(event, given) if given else event
    if given and _answers(event):
        parts = _parts(event)
        mine = [part for part in parts if _answered(part) in asked]
        if mine and (event.branch != branch or (branch and len(mine) < len(parts))):
            content = event.content and event.content.model_copy(update={"parts": mine})
            return event.model_copy(update={"branch": branch, "content": content})
    if event.branch != branch and _is_below(event, branch):
        return seen.model_copy(update={"branch": branch})
    return seen


def _without_answered(event: Event, given: frozenset[str]) -> Event:
    """An event whose calls wait no more where they were answered: ADK 1.x looks for no answer behind it."""
    waits = event.long_running_tool_ids
    if not waits or waits.isdisjoint(given):
        return event
    return event.model_copy(update={"long_running_tool_ids": waits - given or None})


def _given(events: Iterable[Event]) -> frozenset[str]:
    """The ids of the calls that were answered from outside the run."""
    said = [event for event in events if event.author == "user"]
    return frozenset(each.id for event in said for each in event.get_function_responses() if each.id)


def _is_below(event: Event, branch: str | None) -> bool:
    """Whether the event is on a branch that a composite opened below `branch`; those of ADK have an @."""
    path = event.branch or ""
    return bool(branch) and path.startswith(f"{branch}.") and "@" not in path[len(branch or "") :]


def _calls_on(branch: str | None, events: Iterable[Event]) -> frozenset[str]:
    """The ids of the calls that were made on a branch or below it."""
    made = (event for event in events if event.branch == branch or _is_below(event, branch))
    return frozenset(call.id for event in made for call in event.get_function_calls() if call.id)


def _answers(event: Event) -> bool:
    """Whether a person answers calls with it."""
    return event.author == "user" and bool(event.get_function_responses())


def _parts(event: Event) -> list[Any]:
    return (event.content.parts if event.content else None) or []


def _answered(part: Any) -> str | None:
    """The id of the call that a part answers."""
    return part.function_response.id if part.function_response else None
