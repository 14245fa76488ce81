"""Connections to MCP servers that are not left behind half open.

ADK opens a connection in a task of its own, and starts the server there. If the run that waits for the
connection is cancelled, or the server takes too long, ADK forgets that task: it goes on, with the process
that it started. A server that is reached by HTTP is told when a connection ends; if it does not answer, ADK
waits for it as long as for any request. Some releases also forget a call of a cancelled run, which waits
on. This module has underscore names of ADK, as `private` has, but for a part that needs an extra.
"""

from __future__ import annotations

import asyncio
import copyreg
from collections.abc import Coroutine, Iterable
from contextvars import ContextVar
from functools import cache
from types import CodeType
from typing import Any, Final, cast
from weakref import WeakKeyDictionary, WeakSet

from google.adk.tools.base_toolset import BaseToolset

from adk_fluent._tasks import run_to_end
from adk_fluent.backends.adk.compat import private

PATIENCE: Final = 10.0
"""Seconds that a connection which was given up may take to end."""

GOODBYE: Final = 0.5
"""Seconds in which a server that is reached by HTTP may answer that it knows of the end of a connection."""

_open: Final[WeakKeyDictionary[object, WeakSet[Any]]] = WeakKeyDictionary()
"""Session manager → the clients of the connections that it opened."""

_clients: ContextVar[list[object] | None] = ContextVar("adk_fluent_mcp_clients", default=None)
"""The clients with which the connection that is being opened here was tried."""


def end_with_the_run(toolset: BaseToolset) -> None:
    """Let connections of an MCP toolset that are given up while they open end at once, with their servers.

    Does nothing to other toolsets, and nothing twice.
    """
    manager: Any = getattr(toolset, "_mcp_session_manager", None)
    kind: type[Any] = manager.__class__
    if kind.__name__ == "MCPSessionManager" and kind.__module__.startswith("google.adk."):
        manager.__class__ = _ending(kind)


def probe(kind: type[Any]) -> type[Any]:
    """The class that opens connections for a class of session managers, with each private name used here.

    Raises:
        CompileError: a name is missing in the installed google-adk.
    """
    from google.adk.tools.mcp_tool.session_context import SessionContext

    for owner, name in ((kind, "_create_client"), (kind, "create_session"), (SessionContext, "_run")):
        private.require(owner, name)
    for owner, name in ((SessionContext, "_client"), (kind, "_connection_params")):
        if name not in owner.__init__.__code__.co_names:
            private.require(owner, name)
    if hasattr(kind, "_get_session_context"):  # since ADK watches the connection during a call
        private.require(SessionContext, "_run_guarded")
    return SessionContext


@cache
def _ending(kind: type[Any]) -> type[Any]:
    """The class of ADK's session managers, that ends what it began to open."""
    context_kind = probe(kind)
    opener, owning = cast(Any, context_kind)._run.__code__, _owning(context_kind)

    class Ending(kind):
        """Opens connections, and ends those that were given up before they were open."""

        def __reduce_ex__(self, protocol: Any) -> Any:
            """A copy is one of ADK's."""
            return copyreg.__newobj__, (kind,), self.__getstate__()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]  # not in typeshed

        def _create_client(self, *args: Any, **options: Any) -> Any:
            above: Any = super()
            client: object = above._create_client(*args, **options)
            if (clients := _clients.get()) is not None:
                clients.append(client)
            return client

        async def create_session(self, *args: Any, **options: Any) -> Any:
            """An open connection."""
            above: Any = super()
            clients: list[object] = []
            token = _clients.set(clients)
            try:
                made = await above.create_session(*args, **options)
                _open.setdefault(self, WeakSet()).update(clients)
                return made
            except BaseException:
                if opening := list(_opening(clients, opener)):
                    for task in opening:
                        task.cancel()
                    await run_to_end(asyncio.wait(opening, timeout=PATIENCE))
                raise
            finally:
                _clients.reset(token)

        def _get_session_context(self, *args: Any, **options: Any) -> Any:
            """The connection in which ADK makes a call; the call ends with its run."""
            above: Any = super()
            context = above._get_session_context(*args, **options)
            if type(context) is context_kind:
                context.__class__ = owning
            return context

        async def close(self) -> None:
            """Close the connections; by HTTP a server that does not answer is not waited for."""
            above: Any = super()
            if not hasattr(cast(Any, self)._connection_params, "url"):
                return await above.close()
            leaving = asyncio.ensure_future(above.close())
            try:
                await asyncio.wait({leaving}, timeout=GOODBYE)
            finally:
                for task in _opening(_open.pop(self, ()), opener):
                    task.cancel()
            await leaving

    return Ending


@cache
def _owning(kind: type[Any]) -> type[Any]:
    """The class of ADK's connections, whose calls end when the run that made them is cancelled."""

    class Owning(kind):
        """Makes calls, and ends those that were given up."""

        async def _run_guarded(self, coro: Coroutine[Any, Any, Any]) -> Any:
            """What a call gives, while ADK watches the connection."""
            above: Any = super()
            call = asyncio.ensure_future(coro)
            try:
                return await above._run_guarded(_result(call))
            finally:
                if call.cancel():
                    await run_to_end(asyncio.wait([call], timeout=PATIENCE))

    return Owning


async def _result(call: asyncio.Task[Any]) -> Any:
    return await call


def _opening(clients: Iterable[object], opener: CodeType) -> Iterable[asyncio.Task[Any]]:
    """The tasks in which ADK opens connections with these clients, and holds them open."""
    for task in asyncio.all_tasks():
        coroutine: Any = task.get_coro()
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None and frame.f_code is opener:
            client = getattr(frame.f_locals.get("self"), "_client", None)
            if any(client is each for each in clients):
                yield task
