"""`DirectoryServer`: a small directory to host, in one SQLite file."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.a2a.book import LONGEST, MEMORY, Book, Refused
from adk_fluent.a2a.protocol import cards
from adk_fluent.a2a.proving import verify
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.middleware.arguments import flag, of_type
from adk_fluent.serve.admission import Admission, check_auth
from adk_fluent.serve.limits import Authenticate, ServeLimits
from adk_fluent.serve.listening import Listener, Listening, in_url
from adk_fluent.serve.requests import read_json

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Receive, Scope, Send


class DirectoryServer(Listener):
    """A directory of agents: they register, say that they are still there, and expire when they do not.

    It is an ASGI app, too. `AgentDirectory` asks it. It needs the extra `a2a`.

    Args:
        store: the SQLite file that keeps it over a restart; by default the memory of this process.
        seconds: how long an agent stays known without a heartbeat, if it does not say.
        auth: the token or API key to have, or a function from the headers of a request to a user's name. An
            agent belongs to the user who registered it: others cannot replace or remove it. All who share one
            token are one user, and so is everybody where `auth` is left out.
        verify: whether an agent is listed only when the user who registers it controls every URL on its
            card: a token of the directory's must be found below each, as `A2AServer` serves it. `False` lists
            what anybody says, for networks where all are trusted.
        allow_private: whether it looks for tokens at private addresses and without https, too. By default
            while it listens on this machine only.

    Raises:
        ArgumentError: the time is not positive, or longer than a day; or an argument is of another type.
    """

    def __init__(
        self,
        store: str | Path | None = None,
        *,
        seconds: float = 300.0,
        auth: AuthConfig | Authenticate | None = None,
        verify: bool = True,
        allow_private: bool | None = None,
    ) -> None:
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        if not number or not 0 < seconds <= LONGEST:
            told = f"DirectoryServer(seconds=) is a number from 0 to {LONGEST:g}, not {seconds!r:.40}."
            raise ArgumentError(told)
        of_type(store, str | Path | None, "DirectoryServer(store=)", "the path of an SQLite file")
        if "://" in str(store):
            raise ArgumentError("DirectoryServer(store=) takes an SQLite file, not the URL of a database.")
        check_auth(auth, "DirectoryServer(auth=)")
        self._book = Book(MEMORY if store is None else str(store), seconds)
        self._verify = flag(verify, "DirectoryServer(verify=)")
        self._allow_private: bool | None = of_type(
            allow_private, bool | None, "DirectoryServer(allow_private=)", "True, False or None"
        )
        self._app: ASGIApp = Admission(self._routed(), auth, ServeLimits(body=cards.LARGEST * 2), _Open())
        self._listening = Listening(self)
        self._bound = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's entry."""
        await self._app(scope, receive, send)

    def _routed(self) -> ASGIApp:
        from starlette.applications import Starlette
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        async def agents(request: Request) -> JSONResponse:
            if request.method == "GET":
                asked = request.query_params
                of = asked.getlist("capability"), asked.getlist("tag")
                found, after = self._book.find(*of, asked.get("after", ""))
                return JSONResponse({"agents": found, **({"next": after} if after else {})})
            return JSONResponse({"id": await self._register(await request.body(), _user(request))})

        async def heartbeat(request: Request) -> JSONResponse:
            if self._book.heartbeat(request.path_params["id"], _user(request)):
                return JSONResponse({})
            raise Refused("it is not known; register it again", 404)

        async def remove(request: Request) -> JSONResponse:
            self._book.remove(request.path_params["id"], _user(request))
            return JSONResponse({})

        async def refused(request: Request, error: Exception) -> JSONResponse:
            held = cast("Refused", error)
            return JSONResponse({"error": str(held), **held.more}, status_code=held.status)

        return Starlette(
            routes=[
                Route("/agents", agents, methods=["GET", "POST"]),
                Route("/agents/{id}/heartbeat", heartbeat, methods=["POST"]),
                Route("/agents/{id}", remove, methods=["DELETE"]),
                Route("/health", _health),
            ],
            exception_handlers={Refused: refused},
        )

    async def _register(self, body: bytes, user: str) -> str:
        try:
            told: object = read_json(body)
        except ValueError as error:
            raise Refused(f"the body is no JSON: {error}") from error
        if not isinstance(told, dict):
            raise Refused("the body is no JSON object")
        entry = self._book.entry(cast("dict[str, Any]", told), user)
        if self._verify:
            tokens = {url: self._book.token(user, url) for url in entry.urls}
            await verify(tokens, allow_private=self._may_be_private)
        return self._book.register(entry, user)

    @property
    def _may_be_private(self) -> bool:
        if self._allow_private is not None:
            return self._allow_private
        return self._listening.is_on and cards.is_loopback(self._bound)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen, and return when requests are taken.

        Raises:
            ServerError: it cannot listen there, or listens already.
        """
        await self._listening.start(host, port)
        self._bound = f"http://{in_url(host)}"

    async def stop(self) -> None:
        """Stop listening, and close the file."""
        if await self._listening.stop():
            self._book.close()


def _user(request: Request) -> str:
    user = request.scope.get("user")
    return "" if user is None else str(user.display_name)


async def _health(request: Request) -> JSONResponse:
    from starlette.responses import JSONResponse

    return JSONResponse({"status": "ok"})


class _Open:
    """There is always room."""

    def place(self, body: bytes) -> AbstractContextManager[str | None]:
        return nullcontext()
