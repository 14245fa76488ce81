"""Proof that whoever registers an agent controls its URLs: a token of the directory's is found there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.a2a.book import Refused
from adk_fluent.a2a.protocol import cards
from adk_fluent.errors import on_one_line
from adk_fluent.serve.routes import challenge_url

if TYPE_CHECKING:
    from httpx import AsyncClient

SECONDS: Final = 10.0
"""Seconds that the URLs of one card may take to show their tokens."""
_LONGEST: Final = 1024


async def verify(tokens: Mapping[str, str], *, allow_private: bool) -> None:
    """Look for the token of each URL of a card.

    Args:
        tokens: URL of the card -> the token that must be found below it.
        allow_private: whether private addresses are asked, and unencrypted ones.

    Raises:
        Refused: a token is not there; the answer names what is to be served where.
    """
    import httpx

    from adk_fluent.a2a.protocol.connections import PublicOnly

    given: dict[str, Any] = {"headers": dict(cards.PLAINLY), "timeout": SECONDS}
    if not allow_private:  # else anybody could have this machine ask its neighbours
        given["transport"] = PublicOnly(httpx.AsyncHTTPTransport())
    missing: dict[str, str] = {}
    try:
        async with asyncio.timeout(SECONDS), httpx.AsyncClient(**given) as client:
            for url, token in tokens.items():
                cards.check_scheme(url, allow_http=allow_private)
                place = challenge_url(url, token)
                if await _shown(client, place) != token:
                    missing[place] = token
    except (TimeoutError, httpx.HTTPError, cards.CardError) as error:
        reason = on_one_line(error).partition(". ")[0] or type(error).__name__
        missing = {challenge_url(url, token): token for url, token in tokens.items()}
        raise _unproven(missing, f": {reason:.200}") from error
    if missing:
        raise _unproven(missing, "")


def _unproven(missing: Mapping[str, str], why: str) -> Refused:
    place, token = next(iter(missing.items()))
    told = f"it is not proven that you control its URL{why}. Serve the text {token} at {place}"
    return Refused(f"{told}, and register again", 403, tokens=sorted(missing.values()))


async def _shown(client: AsyncClient, url: str) -> str:
    async with client.stream("GET", url, follow_redirects=False) as response:
        body = bytearray()
        if response.status_code == 200:
            await cards.refuse_compressed(response)
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _LONGEST:
                    return ""
    return body.decode("ascii", "replace").strip()
