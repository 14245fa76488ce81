"""The routes of a server beside its calls: its health and its cards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.a2a.protocol import sdk

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

CARD: Final = "/.well-known/agent-card.json"
OLDER_CARD: Final = "/.well-known/agent.json"
CHALLENGES: Final = "/.well-known/agent-directory/"
"""Where a directory looks for the tokens that prove who controls a URL."""
FRESH: Final = 300
"""Seconds for which a client may keep a card without asking again."""


def challenge_url(url: str, token: str) -> str:
    """Where a directory looks for a token before it lists an agent with this URL.

    >>> challenge_url("https://desk.example/a2a?x=1", "t")
    'https://desk.example/a2a/.well-known/agent-directory/t'
    """
    return url.partition("?")[0].partition("#")[0].rstrip("/") + CHALLENGES + token


def routes(
    refusal: Callable[[], str | None],
    card: Callable[[str], Mapping[str, Any]],
    tokens: Container[str],
) -> list[Route]:
    """The routes for the health of a server, its cards, and the tokens of directories.

    The card of protocol 1.0 has no fields of 0.3, so there is a second card for clients of 0.3: at the path
    that was theirs before 0.3, and at the common path for those that send `A2A-Version: 0.3`.

    Args:
        refusal: why no further task is taken; `None` if one is.
        card: the card for the URL of a request.
        tokens: the tokens of directories in which the agent may be listed.
    """
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Route

    async def health(request: Request) -> Response:
        why = refusal()
        told = {"status": "ok"} if why is None else {"status": "busy", "why": why}
        return JSONResponse(told, status_code=200 if why is None else 503)

    async def newest(request: Request) -> Response:
        current, older = sdk.card_forms(card(str(request.base_url)))
        wants_older = request.headers.get("a2a-version", "").startswith("0.3")
        return _answer(request, older if wants_older and older is not None else current)

    async def oldest(request: Request) -> Response:
        _, older = sdk.card_forms(card(str(request.base_url)))
        if older is None:
            return JSONResponse({"error": f"this agent has no card of 0.3; see {CARD}"}, status_code=404)
        return _answer(request, older)

    async def challenge(request: Request) -> Response:
        token = str(request.path_params["token"])
        return PlainTextResponse(
            token if token in tokens else "", status_code=200 if token in tokens else 404
        )

    return [
        Route("/health", health),
        Route(CARD, newest),
        Route(OLDER_CARD, oldest),
        Route(CHALLENGES + "{token}", challenge),
    ]


def _answer(request: Request, card: Mapping[str, Any]) -> Response:
    """A card with what caches need; without a body for who has it already."""
    from starlette.responses import Response

    body = json.dumps(card, ensure_ascii=False).encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": f"max-age={FRESH}", "vary": "A2A-Version"}
    had = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if etag in had or "*" in had:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
