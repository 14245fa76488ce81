"""`AgentDirectory`: finding agents by what they can do, and being found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from adk_fluent._redaction import safe_url
from adk_fluent.a2a.protocol import cards, sdk
from adk_fluent.a2a.protocol.connections import headers_of
from adk_fluent.errors import ArgumentError, DirectoryError
from adk_fluent.expr.arguments import words
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.ir.endpoints import is_url
from adk_fluent.middleware.arguments import flag, of_type, positive

if TYPE_CHECKING:
    import httpx

    from adk_fluent.serve.server import A2AServer

LARGEST: Final = 4 * 1024 * 1024
"""Bytes that an answer of a directory may have."""
_TOKENS: Final = 10
"""Tokens that one registration may ask for."""
PAGES: Final = 100
"""Answers that a list of agents may be spread over."""


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """An agent that a directory knows; `RemoteAgent.from_card` makes an agent of it.

    Attributes:
        card: its card, as JSON; what somebody says of themselves.
        tags: what it was registered under.
        is_near: whether the directory is on this machine, so that the agent may be, too.
    """

    card: Mapping[str, Any]
    tags: tuple[str, ...] = ()
    is_near: bool = False

    @property
    def name(self) -> str:
        """What it calls itself."""
        return str(self.card.get("name") or "")

    @property
    def url(self) -> str:
        """Where it says that calls go."""
        return next(iter(sdk.urls_in(self.card)), "")

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The ids, names and tags of its skills."""
        return cards.abilities(self.card)


class _UnprovenError(DirectoryError):
    """The directory wants to see these tokens first."""

    def __init__(self, problem: DirectoryError, tokens: list[object]) -> None:
        super().__init__(str(problem))
        self.tokens: list[str] = [str(token) for token in tokens if str(token).isalnum()][:_TOKENS]


class AgentDirectory:
    """A directory of agents, as `DirectoryServer` hosts one.

    Args:
        url: where it is; https, or http on this machine.
        auth: how to authenticate.
        timeout: seconds one request may take.
        allow_http: whether it may be asked unencrypted on another machine.

    Raises:
        ArgumentError: the URL is none, or not https; or another argument is not of its type.

    Example:
        >>> import asyncio
        >>> from adk_fluent.a2a import DirectoryServer
        >>> async def main() -> list[str]:
        ...     async with DirectoryServer(verify=False) as server:
        ...         directory = AgentDirectory(server.url)
        ...         card = {"name": "pay", "url": "https://pay.example/", "skills": [{"id": "refund"}]}
        ...         await directory.register(card, tags=["money"])
        ...         return [agent.name for agent in await directory.discover(capabilities=["refund"])]
        >>> asyncio.run(main())
        ['pay']
    """

    def __init__(
        self, url: str, *, auth: AuthConfig | None = None, timeout: float = 10.0, allow_http: bool = False
    ) -> None:
        if not is_url(url):
            shown = safe_url(url) if isinstance(url, str) else url  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ArgumentError(f"AgentDirectory(url=) takes an http or https URL, not {shown!r:.80}.")
        of_type(auth, AuthConfig | None, "AgentDirectory(auth=)", "an AuthConfig(...)", secret=True)
        flag(allow_http, "AgentDirectory(allow_http=)")
        try:
            cards.check_scheme(url, allow_http=allow_http)
        except cards.CardError as error:
            raise ArgumentError(f"AgentDirectory(): {error}") from error
        self._url, self._auth = url.rstrip("/"), auth
        self._timeout = positive(timeout, "AgentDirectory(timeout=)")

    async def discover(self, capabilities: Sequence[str] = (), tags: Sequence[str] = ()) -> list[FoundAgent]:
        """The agents that can do all of this, and have all of these tags, by name.

        Raises:
            DirectoryError: the directory cannot be asked, or gives something else.
        """
        able, under = words(capabilities, "discover(capabilities=)"), words(tags, "discover(tags=)")
        asked = [*(("capability", each) for each in able), *(("tag", each) for each in under)]
        near, agents = cards.is_loopback(self._url), list[FoundAgent]()
        after: object = ""
        for _ in range(PAGES):
            told = await self._ask("GET", "/agents", params=[*asked, *([("after", after)] if after else [])])
            found: object = told.get("agents")
            if not isinstance(found, list):
                raise self._problem("what it gives is no list of agents")
            agents += filter(None, (_agent(each, near) for each in cast("list[object]", found)))
            after = told.get("next")
            if not isinstance(after, str):
                return sorted(agents, key=lambda agent: (agent.name, agent.url))
        raise self._problem(f"it gives more than {PAGES} pages of agents; ask for capabilities or tags")

    async def register(
        self,
        card: object,
        *,
        capabilities: Sequence[str] = (),
        tags: Sequence[str] = (),
        seconds: float | None = None,
        server: A2AServer | None = None,
    ) -> str:
        """Make an agent known until it expires; `heartbeat` before then keeps it. Registering again replaces.

        A directory that verifies lists an agent when a token of its is found below every URL on the card.

        Args:
            card: the `AgentCard` of a2a-sdk, or its JSON.
            server: what serves the agent, which then shows the tokens. For any other server the error says
                which text to serve where, once: the same user always gets the same token for a URL.
            capabilities: what it can do beside the skills on its card.
            seconds: how long it stays known without a heartbeat; by default what the directory says.

        Returns:
            Its id in the directory.

        Raises:
            ArgumentError: it is no card.
            DirectoryError: the directory cannot be asked, or does not take it, since another user has
                registered it, or its URLs are not shown to be yours.
        """
        try:
            held = cards.well_formed(sdk.json_of(card))
        except (ValueError, cards.CardError) as error:
            raise ArgumentError(f"register(): {error}. It takes what .to_agent_card() gives.") from error
        able, under = words(capabilities, "register(capabilities=)"), words(tags, "register(tags=)")
        body = {"card": held, "capabilities": able, "tags": under, "seconds": seconds}
        try:
            return str((await self._ask("POST", "/agents", json=body)).get("id", ""))
        except _UnprovenError as error:
            if server is None:
                raise
            for token in error.tokens:
                server.show(token)
        return str((await self._ask("POST", "/agents", json=body)).get("id", ""))

    async def heartbeat(self, id: str) -> None:
        """Say that an agent is still there.

        Raises:
            DirectoryError: the directory cannot be asked, or does not know it any more; register it again.
        """
        await self._ask("POST", f"/agents/{quote(id, safe='')}/heartbeat")

    async def remove(self, id: str) -> None:
        """Make an agent unknown; one that is not known is none the worse.

        Raises:
            DirectoryError: the directory cannot be asked.
        """
        await self._ask("DELETE", f"/agents/{quote(id, safe='')}")

    async def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        import httpx

        headers = {**cards.PLAINLY, **headers_of(self._auth)}
        hooks: Any = {"response": [cards.refuse_compressed]}
        try:
            async with (
                httpx.AsyncClient(headers=headers, timeout=self._timeout, event_hooks=hooks) as client,
                client.stream(method, self._url + path, **options) as response,
            ):
                body = await self._body(response)
        except httpx.DecodingError as error:
            raise self._problem(str(error)) from error
        except httpx.HTTPError as error:
            raise self._problem(f"cannot be reached: {type(error).__name__}: {error}") from error
        try:
            told: object = json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            if response.is_success:
                raise self._problem("what it gives is not JSON; is it a directory?") from error
            told = {}
        held = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
        if not response.is_success:
            said = str(held.get("error") or "no reason given")
            problem = self._problem(f"HTTP {response.status_code}: {said:.600}")
            if isinstance(tokens := held.get("tokens"), list):
                raise _UnprovenError(problem, cast("list[object]", tokens))
            raise problem
        return held

    async def _body(self, response: httpx.Response) -> bytes:
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > LARGEST:
                raise self._problem(f"its answer is larger than {LARGEST // 1024 // 1024} MiB")
        return bytes(body)

    def _problem(self, what: str) -> DirectoryError:
        return DirectoryError(f"The directory at {safe_url(self._url)}: {what}.")


def _agent(told: object, near: bool) -> FoundAgent | None:
    """An agent of what a directory says; `None` for what is no card."""
    held: Mapping[str, Any] = cast("Mapping[str, Any]", told) if isinstance(told, Mapping) else {}
    try:
        card = cards.well_formed(held.get("card"))
    except cards.CardError:
        return None
    tags: object = held.get("tags")
    under = tuple(map(str, cast("list[object]", tags))) if isinstance(tags, list) else ()
    return FoundAgent(card, under, near)
