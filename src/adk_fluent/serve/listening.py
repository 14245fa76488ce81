"""Listening at a port for an ASGI app, on uvicorn."""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from adk_fluent.errors import ServerError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

IDLE_SECONDS: Final = 75
"""Seconds after which an idle connection is closed.

A client must be the first to close it: a request on a connection that the server closes at that moment fails.
Clients keep one for 5 s (httpx) or 60 s (usual load balancers).
"""


class Listening:
    """An app that listens, or does not.

    Args:
        grace: seconds that open connections have when it stops.
    """

    def __init__(self, app: ASGIApp, grace: float = 1.0) -> None:
        self._app, self._grace = app, grace
        self._held: tuple[str, Any, asyncio.Task[None]] | None = None

    @property
    def url(self) -> str:
        """Where it listens.

        Raises:
            ServerError: it does not.
        """
        if self._held is None:
            raise ServerError("The server does not listen. Call `await server.start(port=...)` first.")
        return self._held[0]

    @property
    def is_on(self) -> bool:
        """Whether it listens."""
        return self._held is not None

    async def start(self, host: str, port: int) -> None:
        """Listen, and return when requests are taken.

        Raises:
            ServerError: it cannot listen there, or listens already.
        """
        import uvicorn

        if self._held is not None:
            raise ServerError(f"The server listens already, at {self.url}.")
        bound = _bound(host, port)
        everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
        url = f"http://{in_url(everywhere.get(host, host))}:{bound.getsockname()[1]}/"
        ending = int(self._grace) + 1
        # uvicorn's own settings of logging would close every log handler that this process has.
        config = uvicorn.Config(
            self._app,
            log_config=None,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=ending,
            timeout_keep_alive=IDLE_SECONDS,
        )
        server = _quiet(config)
        serving = asyncio.ensure_future(server.serve(sockets=[bound]))
        self._held = (url, server, serving)
        while not server.started:
            if serving.done():
                await serving
                raise ServerError(f"The server did not start at {url}.")
            await asyncio.sleep(0.001)

    async def stop(self) -> bool:
        """Stop listening; whether it did listen."""
        if self._held is None:
            return False
        (_, server, serving), self._held = self._held, None
        server.should_exit = True
        await serving
        return True


class Listener(ABC):
    """Base of the servers that listen at a port; `async with` starts one, and stops it in the end."""

    _listening: Listening

    @property
    def url(self) -> str:
        """Where it listens.

        Raises:
            ServerError: it does not.
        """
        return self._listening.url

    @abstractmethod
    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen, and return when requests are taken."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop listening."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()


def in_url(host: str) -> str:
    """A host as a URL writes it.

    >>> in_url("::1"), in_url("localhost")
    ('[::1]', 'localhost')
    """
    return f"[{host}]" if ":" in host else host


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small packets at once only where the protocol is named; else each answer waits 40 ms.
    held = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((host, port))
    except (OSError, OverflowError, TypeError) as error:
        held.close()
        why = error.strerror if isinstance(error, OSError) else "a port is a number from 0 to 65535"
        raise ServerError(f"The server cannot listen at {host}:{port}: {why}.") from error
    return held


def _quiet(config: Any) -> Any:
    """uvicorn's server, which leaves the signals of the process alone."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            yield

        def install_signal_handlers(self) -> None:
            """What older versions call."""

    return Server(config)
