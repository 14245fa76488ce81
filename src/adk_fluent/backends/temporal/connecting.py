"""Connections to a Temporal server."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, TLSConfig
from temporalio.service import RPCError, RPCStatusCode

from adk_fluent._tasks import PerLoop
from adk_fluent.backends.temporal.versions import version_of
from adk_fluent.errors import ArgumentError, EngineError, sentence, what_happened
from adk_fluent.ir.base import Node
from adk_fluent.ir.graph import resolve_names
from adk_fluent.middleware.arguments import of_type

LOCAL = "127.0.0.1:7233"
"""Where a server listens that was started without further ado."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Temporal server is, and how to reach it.

    Attributes:
        host: host and port.
        namespace: the namespace on it.
        tls: whether and how to encrypt; a `TLSConfig` names certificates.
        api_key: what Temporal Cloud is told; then the connection is encrypted in any case.
    """

    host: str = LOCAL
    namespace: str = "default"
    tls: bool | TLSConfig = field(default=False, hash=False)  # it has no hash of its own
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        host = cast(object, self.host)
        name, _, port = host.rpartition(":") if isinstance(host, str) else ("", "", "")
        if not name or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ArgumentError(f"address={host!r:.60}: it is HOST:PORT, such as {LOCAL!r}.")
        of_type(self.namespace, str, "namespace=", "text")
        of_type(self.tls, bool | TLSConfig, "tls=", "True, False or a temporalio.client.TLSConfig")
        of_type(self.api_key, str | None, "api_key=", "text", secret=True)

    def at(self, host: str) -> Address:
        """The same on another host."""
        return replace(self, host=host)

    @property
    def port(self) -> int:
        """The port."""
        return int(self.host.rpartition(":")[2])

    async def client(self) -> Client:
        """A connection; one per event loop.

        Raises:
            EngineError: no server answers there, it does not let this key in, or has no such namespace; or
                this process was forked from one that had a connection.
        """
        _claim_process()
        clients = _clients.here()
        if self not in clients:
            clients[self] = await self.connect()
        return clients[self]

    async def connect(self) -> Client:
        """A new connection. Each worker needs its own: a connection holds one worker of a queue at most.

        Raises:
            EngineError: as for `client`.
        """
        _claim_process()
        # Temporal's own client would try for longer before it says that nobody listens.
        try:
            _, writer = await asyncio.open_connection(self.host.rpartition(":")[0], self.port)
        except OSError as error:
            raise self._silent(error) from error
        writer.close()
        more: dict[str, Any] = {} if self.api_key is None else {"api_key": self.api_key}
        for attempt in range(_STARTING + 1):
            try:
                client = await Client.connect(
                    self.host, namespace=self.namespace, tls=self.tls or None, **more
                )
                await self._has_namespace(client)
                return client
            except (RPCError, RuntimeError, OSError) as error:
                if "not healthy yet" not in str(error) or attempt == _STARTING:
                    raise self._silent(error) from error
            await asyncio.sleep(0.1)
        raise AssertionError

    async def _has_namespace(self, client: Client) -> None:
        try:
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self.namespace)
            )
        except RPCError as error:
            if (
                error.status == RPCStatusCode.NOT_FOUND
            ):  # a key may be good for runs, and not for this question
                raise EngineError(
                    f"The Temporal server at {self.host} has no namespace {self.namespace!r}. Create it "
                    f"(temporal operator namespace create -n {self.namespace}), or give another one."
                ) from error

    def _silent(self, error: Exception) -> EngineError:
        why = sentence(_reason(error))
        if _REFUSED.search(str(error)):
            given = "another api_key" if self.api_key else "api_key="
            return EngineError(
                f"The Temporal server at {self.host} refused: {why} Give {given} (for adk-fluent worker the "
                "variable TEMPORAL_API_KEY)."
            )
        return EngineError(
            f"No Temporal server answers at {self.host}: {why} Start one (adk-fluent worker TARGET --dev "
            "does), or give another address."
        )


# A thread of Temporal's client is still at its last answer when that has been read: if it wants Python once
# that ends, the process aborts (temporalio/sdk-python#300). It needs far less than this.
atexit.register(time.sleep, 0.1)

_clients: Final = PerLoop(dict[Address, Client])

_connected: list[int] = []
"""The process whose threads hold the connections, once there was one."""


def _in_child() -> None:
    """Keep what the parent's connections left as garbage: to free it here would crash the process."""
    if _connected:
        gc.freeze()


os.register_at_fork(after_in_child=_in_child)


def _claim_process() -> None:
    """Note that connections belong to this process; refuse one that was forked from their process.

    In one of twenty such children Temporal's client hangs or crashes the process.

    Raises:
        EngineError: this process was forked from one that had a connection.
    """
    if _connected and _connected[0] != os.getpid():
        raise EngineError(
            "This process was forked from one that had used a Temporal server, and Temporal's client does "
            "not survive that. Fork before the first durable run, or start processes anew "
            '(multiprocessing.get_context("spawn")).'
        )
    _connected[:] = [os.getpid()]


_REFUSED: Final = re.compile("code: (PermissionDenied|Unauthenticated)")
"""What Temporal's client says when a server answers that does not let it in."""

_STARTING: Final = 100
"""How often, a tenth of a second apart, a server is asked that listens and does not answer yet."""


def _reason(error: Exception) -> str:
    """What a failed connection says, without what its parts say once more."""
    if "refused" in str(error) or "Connect call failed" in str(error):
        return "nobody listens there"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    found = re.search(r"(?:message: |os error |ConnectError\()\"?([^\",)]+)", str(error))
    return found.group(1) if found else what_happened(error)


def queue_of(node: Node, name: str | None = None) -> str:
    """The task queue on which the runs of an expression are: its name, or another, and its version.

    So a worker with newer code never gets the runs of the older one.
    """
    root = resolve_names(node).root  # as that of the agents which are built of it
    return f"{name or root.name}@{version_of(root)[:12]}"
