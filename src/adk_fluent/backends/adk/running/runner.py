"""Native `App` and `Runner` for a compiled tree, and the services a run uses."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from google.adk.apps.app import App
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
from google.adk.events.event import Event
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService

from adk_fluent.analysis.visibility import Outlet
from adk_fluent.backends.adk.compat.temporary import give
from adk_fluent.backends.adk.events.asides import in_full
from adk_fluent.backends.adk.events.branch_sessions import StorableOnly
from adk_fluent.backends.adk.middleware.runs import watched
from adk_fluent.backends.adk.resources import close
from adk_fluent.backends.adk.running.convert import knowingly, run_config
from adk_fluent.backends.adk.running.rewinds import Beginnings, rewound
from adk_fluent.backends.adk.running.sqlite import one_writer
from adk_fluent.backends.adk.running.store_errors import telling_of
from adk_fluent.backends.adk.running.visibility import event_visibility, marked
from adk_fluent.backends.adk.steps.failures import FailureNotes, naming_failures, reported
from adk_fluent.backends.events import without_words
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.resources import Resource
from adk_fluent.state.fidelity import check_storable


@dataclass(frozen=True, slots=True, eq=False)
class Services:
    """The four services of a run; `None` means the one this process shares.

    Raises:
        ArgumentError: one is no service of ADK's.
    """

    session_service: BaseSessionService | None = None
    artifact_service: BaseArtifactService | None = None
    memory_service: BaseMemoryService | None = None
    credential_service: BaseCredentialService | None = None

    def __post_init__(self) -> None:
        for name, base in _BASES.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, base):
                raise ArgumentError(f"{name}= takes one of ADK's ({base.__name__}), not {value!r:.60}.")
        if self.session_service is not None:
            object.__setattr__(self, "session_service", one_writer(self.session_service))

    def over(self, base: Services) -> Services:
        """These services, with those of `base` where nothing is set."""
        if base.is_empty or self.is_empty:
            return self if base.is_empty else base
        return Services(*(getattr(self, name) or getattr(base, name) for name in _BASES))

    @property
    def is_empty(self) -> bool:
        """Whether none is set."""
        return all(getattr(self, name) is None for name in _BASES)

    @property
    def key(self) -> tuple[int, ...]:
        """Tells apart different sets of services."""
        return tuple(id(getattr(self, name)) for name in _BASES)


_BASES: Final[Mapping[str, type]] = {
    "session_service": BaseSessionService,
    "artifact_service": BaseArtifactService,
    "memory_service": BaseMemoryService,
    "credential_service": BaseCredentialService,
}


def fresh_services() -> Services:
    """In-memory services that nobody else knows."""
    with knowingly():
        credentials = InMemoryCredentialService()
    return Services(InMemorySessionService(), InMemoryArtifactService(), InMemoryMemoryService(), credentials)


@cache
def shared_services() -> Services:
    """The in-memory services of this process, so that a session is found again by its id."""
    return fresh_services()


class FluentRunner(Runner):
    """ADK's `Runner` that knows the expression's limits and creates missing sessions.

    Its events are marked with who should see them, and blanked where a policy says so. This happens to copies
    on their way out, after ADK has stored and used the events: a plugin cannot do it, since ADK from 1.31 on
    stores what a plugin gives back.
    """

    def __init__(self, app: App, config: ExecutionConfig, services: Services, outlet: Outlet) -> None:
        sessions = services.session_service
        assert sessions is not None
        super().__init__(
            app=app.model_copy(update={"plugins": [Beginnings(), FailureNotes(), *app.plugins]}),
            session_service=sessions if hasattr(app.root_agent, "ir") else StorableOnly(sessions),
            artifact_service=services.artifact_service,
            memory_service=services.memory_service,
            credential_service=services.credential_service,
            auto_create_session=True,
        )
        self._config = config
        self._outlet = outlet
        self._root = str(getattr(app.root_agent, "name", app.name))
        self._blanks = any(
            seen.blanked for seen in (outlet.others, outlet.inside, *outlet.by_author.values())
        )

    def keeping(self, sessions: BaseSessionService) -> FluentRunner:
        """This runner with other sessions; made without what ADK looks up for a new one."""
        other = copy.copy(self)
        other.session_service = sessions
        return other

    async def close(self) -> None:
        """ADK's `close`; it closes what the app has injected, too."""
        await super().close()
        root = getattr(self.agent, "ir", None)
        if isinstance(root, Node):
            given = (value for node in walk(root) for _, value in node.annotations.resources)
            if found := [value for value in given if isinstance(value, Resource)]:
                await close(*found)

    async def run_async(self, **options: Any) -> AsyncGenerator[Event, None]:
        """ADK's `run_async`, with the expression's `RunConfig` unless another is given."""
        async with aclosing(self.annotated(**options)) as events:
            async for event in events:
                yield self._seen(event)

    async def run_live(self, **options: Any) -> AsyncGenerator[Event, None]:
        """ADK's `run_live`."""
        telling = telling_of(self.session_service, options.get("session_id"))
        with telling, naming_failures(self._root), watched():
            async with aclosing(super().run_live(**options)) as events:
                async for event in events:
                    yield self._seen(marked(in_full(event), event_visibility(event, self._outlet)))

    async def rewind_async(self, **options: Any) -> None:
        """ADK's `rewind_async`, after which state and files are exactly what they were."""
        whose = {"user_id": options["user_id"], "session_id": options["session_id"]}
        session = await self.session_service.get_session(app_name=self.app_name, **whose)
        before = options["rewind_before_invocation_id"]
        if session is None or all(event.invocation_id != before for event in session.events):
            await super().rewind_async(**options)  # it raises
        else:
            await rewound(session, before, self.session_service, self.artifact_service)

    async def annotated(self, *, marks: bool = True, **options: Any) -> AsyncGenerator[Event, None]:
        """What `run_async` gives, before a policy blanks anything.

        Args:
            marks: whether events are marked; whoever passes them on to another run leaves it to that.
        """
        if options.get("run_config") is None:
            options["run_config"] = run_config(self._config)
        if (delta := options.get("state_delta")) is not None:
            check_storable(delta, "state_delta= has")
        give(delta)
        telling = telling_of(self.session_service, options.get("session_id"))
        with telling, naming_failures(self._root) as raised, watched():
            async with aclosing(super().run_async(**options)) as events:
                async for event in events:
                    told = in_full(event)
                    if event.error_code:
                        told = reported(told, raised)
                    yield marked(told, event_visibility(event, self._outlet)) if marks else told

    def _seen(self, event: Event) -> Event:
        return (
            without_words(event) if self._blanks and event_visibility(event, self._outlet).blanked else event
        )
