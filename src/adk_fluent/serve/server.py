"""`A2AServer`: an expression as a service that other agents call."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent._tracebacks import briefly, in_logs
from adk_fluent.a2a.protocol import sdk
from adk_fluent.a2a.protocol.card_json import card_json
from adk_fluent.backends.adk.api import ADKBackend, Compiled, Services
from adk_fluent.config import ExecutionConfig, execution_config
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.base import Expr
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.middleware.arguments import of_type
from adk_fluent.serve.admission import Admission, check_auth
from adk_fluent.serve.keeping import Kept
from adk_fluent.serve.limits import Authenticate, ServeLimits
from adk_fluent.serve.listening import Listener, Listening
from adk_fluent.serve.requests import log_in_one_line, mistake_in
from adk_fluent.serve.routes import routes
from adk_fluent.serve.stores import stores

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from adk_fluent.backends.temporal.backend import TemporalBackend
    from adk_fluent.serve.executor import FluentExecutor

logger: logging.Logger = logging.getLogger("adk_fluent.serve")

_TOKENS: Final = 100
"""Tokens of directories that one server shows at most."""


class A2AServer(Listener):
    """Serves an expression over A2A, to clients of any make; it is an ASGI app, too.

    Callers get what the user would see: agents behind the scenes stay there. Gates and tools that ask for
    approval make the task wait (`input-required`) until the caller answers. Values that a caller sends as
    data go into the state, under the keys that the expression reads and does not set itself. `GET /health`
    says whether the server takes tasks. It needs the extra `a2a`.

    Args:
        expression: what is served.
        card: what others are told of it, from `to_agent_card`; by default made of the expression.
        config: limits and the like of each run. With `durable="local"`, or a `TemporalBackend`, a task goes
            on when the server or a worker died: a server on the same store takes it up when it starts.
        auth: the token or API key that callers must have, or a function from the headers of a request (names
            in lower case) to the name of a user, `None` where it is not one. By default everybody may call.
            The card and `/health` are open to all.
        store: where sessions and tasks are kept, so that a restart loses none: an SQLite file, or the URL of
            a PostgreSQL database (`postgresql+asyncpg://...`). By default the memory of this process. Durable
            runs need it for their tasks; their sessions are where the engine's workers keep them.
        limits: what one server takes at most.
        backend: what runs the expression; a test's mock, or by default ADK with the agents' own models.
        endpoint: the URL that the card names; by default that where it listens.

    Raises:
        ArgumentError: something is none of these.
        MissingExtraError: a2a-sdk, or what the store needs, is not installed.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent, RemoteAgent
        >>> from adk_fluent.testing import mock_backend
        >>> async def main() -> str:
        ...     server = A2AServer(Agent("clerk"), backend=mock_backend({"clerk": "Paid."}))
        ...     await server.start()
        ...     try:
        ...         return (await RemoteAgent("pay", endpoint=server.url).run("Pay.")).text
        ...     finally:
        ...         await server.stop()
        >>> asyncio.run(main())
        'Paid.'
    """

    def __init__(
        self,
        expression: Expr[Any],
        *,
        card: object = None,
        config: ExecutionConfig | None = None,
        auth: AuthConfig | Authenticate | None = None,
        store: str | Path | None = None,
        limits: ServeLimits | None = None,
        backend: ADKBackend | TemporalBackend | None = None,
        endpoint: str | None = None,
    ) -> None:
        sdk.need("A2AServer")
        if not isinstance(expression, Expr):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"A2AServer() takes an expression, not {expression!r:.60}.")
        check_auth(auth, "A2AServer(auth=)")
        self._expression, self._auth = expression, auth
        self._config = None if config is None else execution_config(config)
        of_type(limits, ServeLimits | None, "A2AServer(limits=)", "a ServeLimits(...)")
        self._limits = limits or ServeLimits()
        self._endpoint: str | None = of_type(endpoint, str | None, "A2AServer(endpoint=)", "a URL as text")
        try:
            self._card = None if card is None else sdk.json_of(card)
        except ValueError as error:
            raise ArgumentError(f"A2AServer(card=): {error}. Use what .to_agent_card() gives.") from error
        self._stores = stores(store)
        self._executor = self._made(backend)
        self._app: ASGIApp | None = None
        self._handler: Any = None
        self._going_on: set[asyncio.Future[None]] = set()
        self._listening = Listening(self, self._limits.grace)
        self._lock = asyncio.Lock()
        self._tokens: deque[str] = deque(maxlen=_TOKENS)

    def _made(self, backend: ADKBackend | TemporalBackend | None) -> FluentExecutor:
        from adk_fluent.serve.executor import FluentExecutor

        if self._config is not None and self._config.durable is not None:
            from adk_fluent.backends.temporal.local import local_backend

            backend = local_backend(backend)
        chosen = ADKBackend() if backend is None else backend
        if not isinstance(chosen, ADKBackend):
            return self._made_durable(chosen)
        if self._stores.sessions is not None:
            chosen.keep_in(Services(self._stores.sessions))
        compiled = chosen.compile(self._expression.node, self._config, state=None)
        kept = None
        if self._stores.engine is None:
            kept = Kept(self._limits, partial(_forget, chosen, compiled), self._stores.tasks.delete)
        return FluentExecutor(chosen, compiled, compiled.named, self._limits, kept)

    def _made_durable(self, backend: TemporalBackend) -> FluentExecutor:
        from adk_fluent.serve.executor import FluentExecutor

        durable = sys.modules.get("adk_fluent.backends.temporal.backend")  # no backend is one before
        if durable is None or not isinstance(backend, durable.TemporalBackend):
            raise ArgumentError(
                "A2AServer(backend=) is an ADKBackend, such as mock_backend({...}), or a TemporalBackend, "
                f"not {backend!r:.40}."
            )
        if self._stores.engine is None:
            raise ArgumentError(
                "A2AServer(): runs that are durable need store=, the file or database in which their tasks "
                "outlive this process."
            )
        compiled = backend.compile(self._expression.node, self._config, state=None)
        return FluentExecutor(backend, compiled, compiled.native.named, self._limits, is_durable=True)

    # --- as an ASGI app ---------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's entry, for a server of your own: `uvicorn module:server`."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if self._app is None:
            await self._open()
        await cast("ASGIApp", self._app)(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Begin and end with the server that runs this app."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._open()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _open(self) -> None:
        from adk_fluent.serve.executor import HANDED_BACK

        async with self._lock:
            if self._app is None:
                goes_on = self._executor.is_durable and sdk.is_newer()
                left = await self._stores.left_running() if goes_on else []
                if not goes_on and (count := await self._stores.hand_back(HANDED_BACK, self._limits.seconds)):
                    logger.warning("%d tasks of a server that died are handed back to their callers.", count)
                self._app = Admission(self._routed(), self._auth, self._limits, self._executor, mistake_in)
                for task, owner in left:
                    self._executor.left.add(task.id)
                    again = asyncio.ensure_future(self._go_on(task, owner))
                    self._going_on.add(again)
                    again.add_done_callback(self._going_on.discard)

    async def _go_on(self, task: Any, owner: str) -> None:
        """Go on with the durable run of a task by sending this server the message that began it again."""
        logger.warning("Task %s of a server that died goes on.", task.id)
        try:
            await sdk.send_again(self._handler, task, owner)
        except Exception as error:  # noqa: BLE001  # one task must not keep the others, or the server
            logger.error("Task %s of a server that died cannot go on: %s", task.id, in_logs(error))

    async def _close(self) -> None:
        await self._executor.stop()
        await self._leave()

    async def _leave(self) -> None:
        """End what is left of tasks that wait, which stay in the store, and close that."""
        for task in (left := list(self._going_on)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if (end_waiting := getattr(self._handler, "aclose", None)) is not None:
            await end_waiting()
        await self._stores.close()

    def _routed(self) -> ASGIApp:
        from starlette.applications import Starlette

        calls, self._handler = sdk.rpc_routes(
            self._executor, self._stores.tasks, self.card("http://localhost/"), 0.0
        )
        log_in_one_line()
        return Starlette(routes=[*routes(lambda: self._executor.refusal, self.card, self._tokens), *calls])

    def card(self, url: str) -> dict[str, Any]:
        """The card as JSON; one that was not given names this URL, unless `endpoint` did."""
        if self._card is not None:
            return self._card
        auth = self._auth if isinstance(self._auth, AuthConfig) else None
        return card_json(self._expression.node, self._endpoint or url, auth=auth)

    def show(self, token: str) -> None:
        """Show a token of an agent directory, which proves to it that this server is yours.

        `AgentDirectory.register(card, server=...)` calls it. The newest hundred are shown.
        """
        if token not in self._tokens:
            self._tokens.append(token)

    # --- listening --------------------------------------------------------------------------------

    @briefly
    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen, and return when calls are taken.

        Args:
            host: the address to listen at; `0.0.0.0` is that of every network this machine is in.
            port: the port; 0 is a free one, which `url` tells.

        Raises:
            ServerError: it cannot listen there, or listens already.
        """
        if self._executor.is_stopping and not self._listening.is_on:  # it was stopped, and starts again
            self._executor.is_stopping, self._app = False, None
        await self._open()
        await self._listening.start(host, port)

    async def stop(self) -> None:
        """Take no more calls, let running tasks finish for a while, hand back the rest, and leave."""
        await self._executor.stop()
        if await self._listening.stop():
            await self._leave()


async def _forget(backend: ADKBackend, compiled: Compiled, user: str, session: str) -> None:
    """Forget a session that is in the memory of this process; others are for their own service to keep."""
    from google.adk.sessions import InMemorySessionService

    if isinstance(backend.services().session_service, InMemorySessionService):
        await backend.forget(compiled, session_id=session, user_id=user)
