"""`adk-fluent serve`: TARGET as a service that other agents call over A2A."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from adk_fluent.cli.errors import UsageError
from adk_fluent.cli.look import inside
from adk_fluent.config import ExecutionConfig
from adk_fluent.ir.annotations import AuthConfig

if TYPE_CHECKING:
    from adk_fluent.serve.server import A2AServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What the command was told.

    Attributes:
        target: what is served.
        host: the address to listen at.
        port: the port; 0 is a free one.
        store: where sessions and tasks are kept; a file, or the URL of a database.
        durable: whether runs go on after a crash of this process.
        token: the environment variable that holds the token which callers must have.
        endpoint: the URL that the card names.
    """

    target: str
    host: str = "127.0.0.1"
    port: int = 8000
    store: str | None = None
    durable: bool = False
    token: str | None = None
    endpoint: str | None = None


def serve(told: Serving) -> int:
    """Serve TARGET until Ctrl-C or SIGTERM, and let running tasks finish.

    Raises:
        UsageError: TARGET cannot be loaded, there is no such token, or `durable` has no store.
        ServerError: it cannot listen there.
        MissingExtraError: a2a-sdk is not installed.
    """
    from adk_fluent.serve.server import A2AServer

    if told.durable and told.store is None:
        raise UsageError("--durable needs --store, where the tasks outlive this process.")
    server = A2AServer(
        inside(told.target),
        config=ExecutionConfig(durable="local") if told.durable else None,
        auth=_auth(told.token),
        store=told.store if told.store is None or "://" in told.store else Path(told.store),
        endpoint=told.endpoint,
    )
    asyncio.run(_serve(server, told))
    return 0


def _auth(variable: str | None) -> AuthConfig | None:
    if variable is None:
        return None
    if not (token := os.environ.get(variable)):
        raise UsageError(f"--token-env: the environment variable {variable} is not set.")
    return AuthConfig(token=token)


async def _serve(server: A2AServer, told: Serving) -> None:
    from adk_fluent.a2a.protocol.cards import is_loopback
    from adk_fluent.serve.listening import in_url

    end, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    await server.start(told.host, told.port)
    print(f"{told.target} is served at {server.url}", flush=True)
    if told.token is None and not is_loopback(f"http://{in_url(told.host)}"):
        print(
            "Everybody who reaches this machine may call it; --token-env asks for a token.", file=sys.stderr
        )
    await end.wait()
    print("Stopping: running tasks may finish.", file=sys.stderr, flush=True)
    await server.stop()
