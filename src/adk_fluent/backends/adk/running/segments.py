"""Runs one segment of a pipeline with what crossed into it, in a session of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import Session

from adk_fluent.backends.adk.events.partial import PartOfSession
from adk_fluent.backends.adk.events.stored import from_json, message_from_json, to_json
from adk_fluent.backends.adk.running.convert import run_config
from adk_fluent.backends.adk.running.toolsets import in_use
from adk_fluent.backends.adk.steps.leaves import FluentAgent
from adk_fluent.backends.adk.steps.segment import Came, Work

if TYPE_CHECKING:
    from adk_fluent.backends.adk.running.backend import Compiled
    from adk_fluent.backends.adk.running.runner import Services

_earlier: ContextVar[Sequence[Event]] = ContextVar("adk_fluent_earlier", default=())


class Earlier(BasePlugin):
    """Puts what earlier segments said behind the user's message, where it was said."""

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Write it before anything runs."""
        for event in _earlier.get():
            event.invocation_id = invocation_context.invocation_id
            await invocation_context.session_service.append_event(invocation_context.session, event)


def continuing(compiled: Compiled, others: Iterable[str]) -> Compiled:
    """A compiled segment that can go on where earlier segments stopped.

    Args:
        others: the agents of other segments that speak in its sessions.
    """
    root = compiled.app.root_agent
    if isinstance(root, FluentAgent):
        root.stand_for(others)
    plugins = [Earlier(name="adk_fluent_earlier"), *compiled.app.plugins]
    return replace(compiled, app=compiled.app.model_copy(update={"plugins": plugins}))


async def run_segment(
    compiled: Compiled, work: Work, services: Services, known: Iterable[str] | None = None
) -> AsyncGenerator[Came, None]:
    """What happens in a segment, event by event, each with what it wrote to the state.

    Args:
        compiled: the segment, as `continuing` gives it.
        work: what crossed.
        services: where artifacts and memories are; the session is one of its own, which ends with this.
        known: the keys that crossed if they were there; `None` if all do.
    """
    sessions = PartOfSession(known)
    runner = compiled.runner(services).keeping(sessions)
    session = await sessions.create_session(
        app_name=runner.app_name, user_id=work.user_id, session_id=work.session_id, state=dict(work.state)
    )
    for data in work.history:
        await sessions.append_event(session, from_json(data))
    options: dict[str, Any] = {
        "user_id": work.user_id,
        "session_id": work.session_id,
        "run_config": run_config(compiled.config, streaming=work.streaming),
    }
    told: list[Event] = []
    if work.own or work.answer is not None:  # a run that has begun goes on
        await _put_back(sessions, session, work)
        options["invocation_id"] = work.run_id
        if work.answer is not None:
            options["new_message"] = message_from_json(work.answer)
    else:
        options["new_message"] = message_from_json(work.message)
        told = [from_json(data) for data in work.events]
    _earlier.set(told)
    async with in_use(compiled.toolsets), aclosing(runner.annotated(**options)) as native:
        async for event in native:
            yield to_json(event), event.actions.state_delta


async def _put_back(sessions: PartOfSession, session: Session, work: Work) -> None:
    """Put a paused run back into a session: what the user said, and all that happened since."""
    run = work.run_id
    asked = Event(author="user", invocation_id=run, content=message_from_json(work.message))
    await sessions.append_event(session, asked)
    for data in work.events:
        await sessions.append_event(session, from_json(data, invocation_id=run))
    for data, delta in work.own:
        await sessions.append_event(session, from_json(data, invocation_id=run, delta=delta))
