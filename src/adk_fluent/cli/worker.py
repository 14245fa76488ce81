"""`adk-fluent worker`: a process that works on durable runs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.cli.errors import UsageError
from adk_fluent.cli.look import inside
from adk_fluent.config import TelemetryConfig
from adk_fluent.ir.base import Node

if TYPE_CHECKING:
    from temporalio.client import TLSConfig

    from adk_fluent.backends.temporal.connecting import Address
    from adk_fluent.backends.temporal.server import DevServer


ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
API_KEY: Final = "TEMPORAL_API_KEY"
PATIENCE: Final = 25.0
"""Seconds after which a worker that is told to end leaves what has not ended; platforms kill it after 30."""


@dataclass(frozen=True, slots=True)
class Security:
    """How the connection to a server is encrypted, as Temporal's own command line has it.

    Attributes:
        on: whether it is, also without any of the others.
        ca: the file that says whom to trust.
        cert: the file of the certificate to show.
        key: the file of its key.
        server_name: the name in the server's certificate, where it is not that of its address.
    """

    on: bool = False
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None

    def __bool__(self) -> bool:
        return self != Security()

    def config(self) -> bool | TLSConfig:
        """The same for Temporal's client.

        Raises:
            UsageError: a file cannot be read, or one is missing.
        """
        from adk_fluent.backends.temporal.connecting import TLSConfig

        if (self.cert is None) != (self.key is None):
            raise UsageError("--tls-cert-path and --tls-key-path go together: give both, or none.")
        if self in (Security(), Security(on=True)):
            return self.on
        return TLSConfig(
            server_root_ca_cert=_read("--tls-ca-path", self.ca),
            domain=self.server_name,
            client_cert=_read("--tls-cert-path", self.cert),
            client_private_key=_read("--tls-key-path", self.key),
        )


def worker(
    target: str,
    *,
    segment: str | None,
    address: str | None,
    queue: str | None,
    sessions: Path | None,
    artifacts: str | None,
    dev: Path | None,
    namespace: str,
    security: Security,
    telemetry: bool,
) -> int:
    """Work on the runs of TARGET until interrupted.

    Args:
        segment: of a pipeline that is cut, the one to work on; by default all.
        address: of the Temporal server; by default that of one on this machine.
        artifacts: the folder, or `gs://` bucket, where artifacts are kept; by default in memory.
        dev: the folder for a server of its own, started on this machine, and for the sessions.
        namespace: the namespace on the server.
        telemetry: whether to send spans and metrics to where the environment says.

    Raises:
        UsageError: TARGET cannot be loaded, or options do not go together.
        CompileError: something in it has no place on the engine.
        EngineError: no server answers.
    """
    from adk_fluent.backends.temporal.connecting import LOCAL, Address

    if dev is not None and (security or namespace != "default"):
        raise UsageError("--dev starts a server without TLS and with one namespace; leave these options out.")
    if telemetry and not os.environ.get(ENDPOINT):
        raise UsageError(f"--telemetry sends to where {ENDPOINT} says; set it, as to http://127.0.0.1:4318.")
    node = inside(target).node
    if dev is not None:
        try:
            dev.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--dir {dev}: {error.strerror}.") from error
        sessions = sessions or dev / "sessions.db"
    if sessions is not None and not sessions.parent.is_dir():
        raise UsageError(f"--session-db {sessions}: there is no folder {sessions.parent}.")
    api_key = None if dev is not None else os.environ.get(API_KEY) or None
    place = Address(address or LOCAL, namespace, security.config(), api_key)
    more = {"queue": queue, "telemetry": TelemetryConfig() if telemetry else None}
    with asyncio.Runner() as loop:
        loop.run(_work(node, segment, place, sessions, artifacts, dev, more))
    return 0


def _read(option: str, file: Path | None) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{option} {file}: {error.strerror}.") from error


def versions(target: str | None, *, address: str | None, namespace: str, security: Security) -> int:
    """List the task queues that have runs in flight or waiting, one a line.

    Args:
        target: the pipeline whose own queue is marked; none unless given.
        address: of the Temporal server; by default that of one on this machine.
        namespace: the namespace on the server.

    Raises:
        UsageError: TARGET cannot be loaded, or options do not go together.
        EngineError: no server answers.
    """
    from adk_fluent.backends.temporal.connecting import LOCAL, Address, queue_of
    from adk_fluent.backends.temporal.listing import queues

    own = None if target is None else queue_of(inside(target).node).rpartition("@")[2]
    place = Address(address or LOCAL, namespace, security.config(), os.environ.get(API_KEY) or None)
    found = asyncio.run(queues(place))
    if not found:
        print(f"No runs are in flight or waiting at {place.host}.")
    for queue in found:
        runs = f"{queue.in_flight} in flight, {queue.waiting} waiting"
        workers = "NO WORKER" if not queue.workers else f"workers: {queue.workers}"
        mark = ", this version" if own is not None and f"@{own}" in queue.name else ""
        print(f"{queue.name}  {runs}, since {queue.since:%Y-%m-%d %H:%M} UTC, {workers}{mark}")
    return 0


async def _work(
    node: Node,
    segment: str | None,
    place: Address,
    sessions: Path | None,
    artifacts: str | None,
    dev: Path | None,
    more: Mapping[str, Any],
) -> None:
    from adk_fluent.backends.temporal.connecting import queue_of
    from adk_fluent.backends.temporal.worker import working
    from adk_fluent.distributed.durable import hosting, queued, shared_services
    from adk_fluent.distributed.queues.serving import consuming

    services: dict[str, Any] = {}
    if sessions is not None:
        from adk_fluent.backends.adk.api import sqlite

        services["session_service"] = sqlite.sqlite_sessions(sessions)
    if artifacts is not None:
        from adk_fluent.backends.adk.api import places

        services["artifact_service"] = places.artifacts_at(artifacts)
    services = shared_services(node, segment, services)
    ending = _Ending(asyncio.get_running_loop())
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, ending.told)
    async with (
        _server(place, dev, ending) as server,
        working(node, server, services=services, host=hosting(segment), **more),
        consuming(queued(node, segment), server),
    ):
        queue = queue_of(node, more["queue"])
        print(f"Working on {queue} at {server.host}. Ctrl-C ends it.", flush=True)
        await ending.begun.wait()
        print("Finishing what is begun.", file=sys.stderr, flush=True)


class _Ending:
    """How a worker ends: when it is told, by finishing what is begun; told again, or after a while, at once.

    A thread that blocks, in a predicate or a tool, cannot be ended, and Python would wait for it. A step that
    blocks the event loop keeps it from being told: so signals and the limit do without it.

    Args:
        loop: the event loop of the worker.

    Attributes:
        begun: set once it is told.
        server: the server that ends with it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.begun: asyncio.Event = asyncio.Event()
        self.server: DevServer | None = None
        self._loop = loop
        self._limit = threading.Timer(PATIENCE, self._leave)
        self._limit.daemon = True

    def told(self, sign: int, frame: object) -> None:
        """End."""
        if self._limit.ident is not None:
            self._leave()
        self._limit.start()
        self._loop.call_soon_threadsafe(self.begun.set)

    def _leave(self) -> None:
        print("Left what did not come to its end: others do it again.", file=sys.stderr, flush=True)
        if self.server is not None:
            self.server.stop()
        os._exit(1)


@asynccontextmanager
async def _server(place: Address, dev: Path | None, ending: _Ending) -> AsyncGenerator[Address]:
    """Where the server is; with `dev`, one is started there."""
    if dev is None:
        yield place
        return
    from adk_fluent.backends.temporal.server import DevServer

    # Not the file of `durable="local"`, whose programs have a server of their own.
    ending.server = server = DevServer(dev / "dev-server.db", place.port)
    server.start()
    try:
        yield place.at(server.address)
    finally:
        server.stop()
