"""The door of a server: who may come in, how much they may bring, and whether there is room."""

from __future__ import annotations

import asyncio
import hmac
import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.serve.limits import Authenticate, ServeLimits
from adk_fluent.serve.routes import CARD, CHALLENGES, OLDER_CARD

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = frozenset({"/health", CARD, OLDER_CARD})
"""What everybody may ask for, beside the tokens of directories: the health and the cards."""
CLOSE = {"connection": "close"}


class Room(Protocol):
    """Whether there is room for another task."""

    def place(self, body: bytes) -> AbstractContextManager[str | None]:
        """A place for a request, for as long as it is answered; or why there is none."""
        ...


class Admission:
    """An ASGI app around another: it answers 401, 408, 413 and 503 itself.

    Args:
        auth: a token or key that requests must have, or a function that says who asks; `None` lets all in.
        mistake_in: the answer to the body of a POST that is no request; `None` if it is one.
    """

    def __init__(
        self,
        app: ASGIApp,
        auth: AuthConfig | Authenticate | None,
        limits: ServeLimits,
        room: Room,
        mistake_in: Callable[[bytes], bytes | None] = lambda body: None,
    ) -> None:
        self._app, self._auth, self._limits, self._room = app, auth, limits, room
        self._mistake_in = mistake_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's entry."""
        if scope["type"] != "http" or scope["path"] in OPEN or scope["path"].startswith(CHALLENGES):
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        user = await who(self._auth, headers)
        if user is None:
            await refuse(send, 401, "not authenticated", {"www-authenticate": "Bearer"})
            return
        try:
            async with asyncio.timeout(self._limits.arrival):
                body = await self._body(headers, receive)
        except TimeoutError:
            await refuse(send, 408, f"a request may take {self._limits.arrival:g} seconds to arrive", CLOSE)
            return
        if body is None:
            await refuse(send, 413, f"a request may have {self._limits.body} bytes")
            return
        if scope["method"] == "POST" and (answer := self._mistake_in(body)) is not None:
            await reply(send, 200, answer)
            return
        if user:
            from starlette.authentication import SimpleUser

            scope = {**scope, "user": SimpleUser(user)}
        with self._room.place(body) as refusal:
            if refusal is None:
                await self._app(scope, _again(body, receive), send)
            else:
                await refuse(send, 503, refusal, {"retry-after": "1"})

    async def _body(self, headers: Mapping[str, str], receive: Receive) -> bytes | None:
        """The whole body; `None` as soon as it is too large."""
        announced = headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._limits.body:
            return None
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._limits.body:
                return None
            if message["type"] != "http.request" or not message.get("more_body"):
                return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """What gives a body that was read already, and then what comes after it."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def check_auth(auth: object, where: str) -> None:
    """Refuse what does not say who may come in.

    Raises:
        ArgumentError: it is neither a token or key, nor a function; or the token is empty.
    """
    if isinstance(auth, AuthConfig) and not auth.token:
        raise ArgumentError(f"{where}: its token is empty, so nobody could get in.")
    if not (auth is None or isinstance(auth, AuthConfig) or callable(auth)):
        raise ArgumentError(f"{where} takes an AuthConfig or a function, not {type(auth).__name__}.")


async def who(auth: AuthConfig | Authenticate | None, headers: Mapping[str, str]) -> str | None:
    """The user who asks, by name; empty where nobody is asked for it, `None` if they may not."""
    if auth is None:
        return ""
    if not isinstance(auth, AuthConfig):
        told: Any = auth(headers)
        return cast("str | None", await told if inspect.isawaitable(told) else told) or None
    given = headers.get("x-api-key", "")
    if auth.type == "bearer":
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given if scheme.lower() == "bearer" else ""
    # Compared in the same time however much of it is right, so that it cannot be found out bit by bit.
    return "caller" if hmac.compare_digest(given.encode(), auth.token.encode()) and auth.token else None


async def refuse(send: Send, status: int, why: str, headers: Mapping[str, str] | None = None) -> None:
    """Answer that a request is not taken, and why."""
    await reply(send, status, json.dumps({"error": why}).encode(), headers)


async def reply(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    """Answer with JSON."""
    listed = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    raw = [(name.encode(), value.encode()) for name, value in listed.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
