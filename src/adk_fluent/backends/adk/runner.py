"""Native `App` and `Runner` for a compiled tree, and the services a run uses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from google.adk.apps.app import App
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
from google.adk.events.event import Event
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService

from adk_fluent.backends.adk.convert import knowingly, run_config
from adk_fluent.backends.adk.temporary import give
from adk_fluent.config import ExecutionConfig


@dataclass(frozen=True, slots=True, eq=False)
class Services:
    """The four services of a run; `None` means the one this process shares."""

    session_service: BaseSessionService | None = None
    artifact_service: BaseArtifactService | None = None
    memory_service: BaseMemoryService | None = None
    credential_service: BaseCredentialService | None = None

    def over(self, base: Services) -> Services:
        """These services, with those of `base` where nothing is set."""
        return Services(*(getattr(self, f.name) or getattr(base, f.name) for f in fields(self)))

    @property
    def key(self) -> tuple[int, ...]:
        """Tells apart different sets of services."""
        return tuple(id(getattr(self, f.name)) for f in fields(self))


@cache
def shared_services() -> Services:
    """The in-memory services of this process, so that a session is found again by its id."""
    with knowingly():
        credentials = InMemoryCredentialService()
    return Services(InMemorySessionService(), InMemoryArtifactService(), InMemoryMemoryService(), credentials)


class FluentRunner(Runner):
    """ADK's `Runner` that knows the expression's limits and creates missing sessions."""

    def __init__(self, app: App, config: ExecutionConfig, services: Services) -> None:
        assert services.session_service is not None
        super().__init__(
            app=app,
            session_service=services.session_service,
            artifact_service=services.artifact_service,
            memory_service=services.memory_service,
            credential_service=services.credential_service,
            auto_create_session=True,
        )
        self._config = config

    async def run_async(self, **options: Any) -> AsyncGenerator[Event, None]:
        """ADK's `run_async`, with the expression's `RunConfig` unless another is given."""
        if options.get("run_config") is None:
            options["run_config"] = run_config(self._config)
        give(options.get("state_delta"))
        events = super().run_async(**options)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()
