"""`run_worker`: this process does what the runs of an expression ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adk_fluent.config import TelemetryConfig
from adk_fluent.expr.base import Expr
from adk_fluent.middleware.arguments import of_type, whole

if TYPE_CHECKING:
    from google.adk.artifacts import BaseArtifactService
    from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
    from google.adk.memory import BaseMemoryService
    from google.adk.models import BaseLlm
    from google.adk.sessions import BaseSessionService
    from temporalio.client import TLSConfig

    from adk_fluent.backends.mock import MockBackend


async def run_worker(
    expression: Expr[Any],
    *,
    address: str = "127.0.0.1:7233",
    segment: str | None = None,
    models: Mapping[str, str | BaseLlm] | MockBackend | None = None,
    session_service: BaseSessionService | None = None,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
    credential_service: BaseCredentialService | None = None,
    namespace: str = "default",
    tls: bool | TLSConfig = False,
    api_key: str | None = None,
    queue: str | None = None,
    concurrency: int = 100,
    telemetry: TelemetryConfig | None = None,
) -> None:
    """Work on the runs that `TemporalBackend` starts, until cancelled; then finish what is begun.

    Of a pipeline with segments behind queues, it also takes the messages of these queues, and starts a
    workflow for each.

    Start as many of these as you like, on as many machines; each takes what is there to do. They need the
    same code as whoever starts the runs: a run goes only to workers whose expression has the same hash, so
    that newer code never continues the runs of older code.

    Args:
        address: host and port of the Temporal server.
        segment: of a pipeline that is cut at execution boundaries, the one to work on, by name; by default
            all. Each is a child workflow on a task queue of its own.
        models: agent → the model that it gets in place of its own; `agent:operation` → the model that its
            context asks. Or a `mock_backend(...)`, whose scripts answer.
        session_service: where sessions are kept between runs; by default in the memory of this process, which
            no other worker sees. Give one on a database to have several workers, or to keep conversations.
        artifact_service: where artifacts are kept; likewise.
        memory_service: long-term memory; likewise.
        credential_service: credentials of tools; likewise.
        namespace: the namespace on the server.
        tls: whether to encrypt; a `temporalio.client.TLSConfig` names certificates.
        api_key: what Temporal Cloud is told.
        queue: the name of the task queue, as for `TemporalBackend`; by default that of the expression.
        concurrency: how many steps this process does at the same time.
        telemetry: where ADK's spans and metrics of the runs go. Each is told once, though a run is decided
            again whenever a worker reads its history.

    Raises:
        EngineError: no server answers.
        ArgumentError: there is no such segment, or an argument is of another type.
        BoundaryError: a boundary stands where a pipeline cannot be cut.
        MissingExtraError: the extra `temporal` is not installed.
        BackendError: the installed google-adk is too old.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> pipeline = Agent("writer", "gemini-2.5-flash") >> Agent("editor", "gemini-2.5-flash")
        >>> asyncio.run(run_worker(pipeline, address="127.0.0.1:7233"))  # doctest: +SKIP
    """
    from adk_fluent.backends.temporal.connecting import Address
    from adk_fluent.backends.temporal.worker import working
    from adk_fluent.distributed.durable import hosting, queued, shared_services
    from adk_fluent.distributed.queues.serving import consuming

    of_type(expression, Expr, "run_worker(expression=)", "an expression")
    for name, value in (("segment", segment), ("queue", queue)):
        of_type(value, str | None, f"run_worker({name}=)", "text")
    of_type(telemetry, TelemetryConfig | None, "run_worker(telemetry=)", "a TelemetryConfig(...)")
    whole(concurrency, "run_worker(concurrency=)")
    services = {
        "session_service": session_service,
        "artifact_service": artifact_service,
        "memory_service": memory_service,
        "credential_service": credential_service,
    }
    place = Address(address, namespace, tls, api_key)
    node = expression.node
    async with (
        working(
            node,
            place,
            queue=queue,
            models=models or {},
            services=shared_services(node, segment, services),
            concurrency=concurrency,
            telemetry=telemetry,
            host=hosting(segment),
        ),
        consuming(queued(node, segment), place),
    ):
        await asyncio.Event().wait()
