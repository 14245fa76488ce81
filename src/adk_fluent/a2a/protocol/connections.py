"""HTTP connections to remote agents: kept as long as the event loop that made them runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx
from google.adk.agents.invocation_context import InvocationContext

from adk_fluent._tasks import PerLoop
from adk_fluent.a2a.protocol import cards, sdk
from adk_fluent.a2a.protocol.responses import UNFINISHED, Reply, told_in
from adk_fluent.errors import on_one_line
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.ir.nodes import RemoteAgentNode

if TYPE_CHECKING:
    from google.adk.agents.remote_a2a_agent import RemoteA2aAgent


CONNECTING = 30.0
"""Seconds that establishing one connection may take.

A program that begins hundreds of calls at once is busy for many seconds before it notices their connections.
"""
IDLE_SECONDS = 2.0
"""Seconds for which an idle connection is kept.

A request on a connection that its server closes at that moment fails, and the client cannot know whether the
server got it. Common servers close idle connections after 5 s (uvicorn, Node.js): the client must be first.
"""
FAREWELL = 2.0
"""Seconds that a server has, beside what goes on here, to name a task and take note that it is cancelled.

Where the event loop ends meanwhile, a quarter of them is left.
"""


class Connection:
    """One remote agent as one event loop reaches it.

    Attributes:
        client: carries the credentials, and goes to the origin of the endpoint only.
    """

    def __init__(self, node: RemoteAgentNode, client: httpx.AsyncClient) -> None:
        self._node = node
        self._card: Any = None
        self._agents: dict[str, RemoteA2aAgent] = {}
        self._farewells: set[asyncio.Task[None]] = set()
        self.client = client

    async def card(self) -> Any:
        """The card, fetched and checked once.

        Raises:
            CardError: it cannot be had, or is not to be believed.
        """
        if self._card is None:
            node = self._node
            cards.check_scheme(node.endpoint, allow_http=node.allow_http)
            if node.public_only:
                await cards.public_addresses(node.endpoint)  # where a proxy connects, nobody else checks it
            found = await cards.fetch(self.client, node.endpoint)
            cards.check_abilities(found, node.capabilities)
            try:
                self._card = sdk.card_of(found)
            except ValueError as error:
                problem = on_one_line(error)
                raise cards.CardError(f"its card cannot be read: {problem:.200}") from error
        return self._card

    @property
    def is_streaming(self) -> bool:
        """Whether the card that was fetched says that answers come piece by piece."""
        return self._card is not None and bool(self._card.capabilities.streaming)

    async def agent(self, name: str) -> RemoteA2aAgent:
        """ADK's agent under a name, made once.

        Raises:
            CardError: there is no card that can be used.
        """
        if name not in self._agents:
            self._agents[name] = _agent(name, await self.card(), self.client)
        return self._agents[name]

    def see_off(self, call: RemoteCall) -> None:
        """Have the server cancel a call that was left, while whoever left it goes on."""
        farewell = asyncio.ensure_future(_farewell(call))
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)

    def forget(self) -> None:
        """Fetch the card again next time; the server may be another one by then."""
        self._card = None
        self._agents.clear()


def _agent(name: str, card: Any, client: httpx.AsyncClient) -> RemoteA2aAgent:
    from a2a.client.client import ClientConfig
    from a2a.client.client_factory import ClientFactory
    from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

    class Factory(ClientFactory):
        def create(self, *arguments: Any, **options: Any) -> Any:
            return Watched(super().create(*arguments, **options))

    factory = Factory(config=ClientConfig(httpx_client=client, streaming=True))
    return RemoteA2aAgent(name=name, agent_card=card, a2a_client_factory=factory)


def headers_of(auth: AuthConfig | None) -> dict[str, str]:
    """How a request says who asks."""
    if auth is None:
        return {}
    if auth.type == "api_key":
        return {"X-API-Key": auth.token}
    return {"Authorization": f"Bearer {auth.token}"}


async def _open(node: RemoteAgentNode) -> AsyncGenerator[Connection, None]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=IDLE_SECONDS)
    timeout = httpx.Timeout(None, connect=CONNECTING)  # how long an answer may take is the step's to say
    headers = {**cards.PLAINLY, **headers_of(node.auth)}
    hooks = [cards.refuse_compressed, partial(cards.bound, node.max_bytes)]
    given: dict[str, Any] = {"event_hooks": {"response": hooks}}
    if node.public_only:
        given["transport"] = PublicOnly(httpx.AsyncHTTPTransport(limits=limits))
    async with httpx.AsyncClient(headers=headers, limits=limits, timeout=timeout, **given) as client:
        yield Connection(node, client)


_Held = tuple[AsyncGenerator[Connection, None], Connection]
_open_ones: Final = PerLoop(dict[tuple[object, ...], _Held])


async def connection(node: RemoteAgentNode) -> Connection:
    """The connection to a remote agent in this event loop.

    It is held by a generator that stands still inside `async with`: a loop closes those when it ends, and so
    every connection with it, whoever started the loop.
    """
    held = _open_ones.here()
    key = (node.endpoint, node.auth, node.capabilities, node.allow_http, node.public_only, node.max_bytes)
    if key not in held:
        opening = _open(node)
        held[key] = (opening, await anext(opening))
    return held[key][1]


# --- one call -------------------------------------------------------------------------------------


class RemoteCall:
    """One call of a remote agent.

    Until the server has said which task it became, what it says next is waited for by a task of its own. So a
    call that is cancelled before can be heard until then: else nobody could tell the server to stop.

    Attributes:
        task: the id that the server gave it, as soon as it is known.
        client: what it is made with.
        at: the connection over which it goes; none before it begins.
        names_tasks: whether the server says at once which task a call becomes, and not with the answer.
        reply: what the server has answered.
        news: of each item that was heard last, what it adds to the answer, and what it tells of progress.
        is_heard_out: whether the server has said all.
    """

    def __init__(self) -> None:
        self.task: str | None = None
        self.client: Any = None
        self.names_tasks = True
        self.reply: Reply = Reply()
        self.news: list[tuple[str, str]] = []
        self.is_heard_out: bool = False
        self.at: Connection | None = None
        self._stream: Any = None
        self._waiting: asyncio.Task[Any] | None = None
        self._ended = False

    def end(self) -> None:
        """Take note that there is nothing left to cancel."""
        self._ended = True

    async def hear(self, stream: Any) -> AsyncGenerator[Any, None]:
        """Pass on what the server answers."""
        self._stream = stream
        try:
            while (item := await self._next()) is not None:
                yield sdk.with_pieces(item)
            self.is_heard_out = True
        finally:
            if self._waiting is None:  # else it is closed when that has ended
                await stream.aclose()

    async def _next(self) -> Any:
        if self.task is not None or not self.names_tasks:
            return await self._heard()
        self._waiting = asyncio.ensure_future(self._heard())
        try:
            return await asyncio.shield(self._waiting)
        finally:
            if self._waiting.done():
                self._waiting = None

    async def _heard(self) -> Any:
        return self._noted(await anext(self._stream, None))

    def _noted(self, item: Any) -> Any:
        """Take in what the server says; where it says no more, `None`."""
        if item is not None:
            self.news.append(self.reply.hear(told_in(item)))
            self.task = self.reply.ids.get("a2a:task_id")
        state = self.reply.state
        if state not in UNFINISHED and (state or item is None):  # also one that waits is left as it is
            self.end()
        return item

    @property
    def has_task(self) -> bool:
        """Whether the server has a task of this call that goes on."""
        return self.task is not None and not self._ended

    def leave(self) -> None:
        """Let go of it at once; a task that goes on, or may have begun, is cancelled beside."""
        if self.at is not None and (self._waiting is not None or self.has_task):
            self.at.see_off(self)

    async def farewell(self, seconds: float) -> None:
        """Have the server cancel its task, if it names one in time; a server that cannot be told goes on."""
        try:
            with suppress(Exception):  # nobody waits to hear of a server that is gone
                async with asyncio.timeout(seconds):
                    if self._waiting is not None:
                        await self._waiting
                    if self.has_task:
                        await sdk.cancel(self.client, str(self.task))
            self.end()
        finally:
            if self._waiting is not None:
                self._waiting.cancel()
                await asyncio.gather(self._waiting, return_exceptions=True)
                await self._stream.aclose()
                self._waiting = None


async def _farewell(call: RemoteCall) -> None:
    try:
        await call.farewell(FAREWELL)
    except asyncio.CancelledError:  # the event loop ends; connections close after its tasks
        if call.has_task:
            await call.farewell(FAREWELL / 4)
        raise


_calling: ContextVar[RemoteCall] = ContextVar("_calling")


class Watched:
    """A client of a2a-sdk's; what the server answers is heard by the call that is being made."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def send_message(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """Pass on what the server answers."""
        call = _calling.get()
        call.client = self._client
        return call.hear(self._client.send_message(*arguments, **options))


async def agent_for(node: RemoteAgentNode, call: RemoteCall, at: Connection) -> RemoteA2aAgent:
    """ADK's agent, which makes this call next.

    Raises:
        CardError: there is no card that can be used.
    """
    agent = await at.agent(node.name)
    call.at = at
    call.names_tasks = at.is_streaming
    _calling.set(call)
    return agent


def hears(ctx: InvocationContext) -> bool:
    """Whether whoever runs this wants answers piece by piece."""
    mode = getattr(ctx.run_config, "streaming_mode", None)
    return mode is not None and mode.value == "sse"


# --- public addresses -------------------------------------------------------------------------------


class PublicOnly(httpx.AsyncBaseTransport):
    """A transport that connects to public addresses alone, namely to those that it has checked.

    A name may lead to a public address when it is looked up to be checked, and to a private one a moment
    later, when the connection is made. So each request is sent to the address that was checked, under the
    name.

    Args:
        inner: what sends them.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to an address of its host; to the next one where nobody listens.

        Raises:
            CardError: an address is not public, or there is none.
        """
        addresses = await cards.public_addresses(str(request.url))
        for address in addresses[:-1]:
            try:
                return await self._inner.handle_async_request(_sent_to(address, request))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._inner.handle_async_request(_sent_to(addresses[-1], request))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def _sent_to(address: str, request: httpx.Request) -> httpx.Request:
    """The request for an address; `Host`, and the name that a certificate must have, stay."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
