"""Cards of remote agents: fetched within limits, and believed only as far as where they came from."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import AsyncGenerator, Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urljoin, urlsplit

from adk_fluent._redaction import safe_url
from adk_fluent.a2a.protocol import sdk
from adk_fluent.ir.endpoints import is_url
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    import httpx
    from httpx import AsyncClient

LARGEST: Final = 256 * 1024
"""Bytes that a card may have."""
REDIRECTS: Final = 3
"""How often a server may send us elsewhere for its card; always within its own origin."""
DEPTH: Final = 50
"""How deep the values of a card may lie in one another."""
_PLACES: Final = (".well-known/agent-card.json", ".well-known/agent.json")
_PORTS: Final = {"http": 80, "https": 443}


class CardError(Exception):
    """There is no card, or one that is not to be believed.

    Attributes:
        passing: whether trying again may help.
    """

    def __init__(self, problem: str, *, passing: bool = False) -> None:
        super().__init__(problem)
        self.passing = passing


# --- addresses ------------------------------------------------------------------------------------


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine.

    >>> is_loopback("http://localhost:8000"), is_loopback("http://[::1]/"), is_loopback("http://example.org")
    (True, True, False)
    """
    host = (urlsplit(url).hostname or "").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL; all names of this machine are one.

    >>> origin("https://Example.org/a2a") == origin("https://example.org:443")
    True
    """
    parts = urlsplit(url)
    host = "localhost" if is_loopback(url) else (parts.hostname or "").lower()
    return parts.scheme, host, parts.port or _PORTS.get(parts.scheme)


def check_scheme(url: str, *, allow_http: bool = False) -> None:
    """Refuse to speak to another machine unencrypted.

    Raises:
        CardError: the URL is neither https, nor http on this machine, nor is http allowed.
    """
    scheme = urlsplit(url).scheme
    if scheme == "https" or (scheme == "http" and (allow_http or is_loopback(url))):
        return
    raise CardError(
        f"{safe_url(url)} is not https. Use https, or allow_http=True where the network is your own."
    )


_UNROUTED: Final = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "fec0::/10", "64:ff9b:1::/48")))
"""Networks that are not public, whatever the version of Python says."""
_CARRYING: Final = tuple(
    (ipaddress.IPv6Network(network), bits)
    for network, bits in (("::/96", 0), ("::ffff:0:0/96", 0), ("64:ff9b::/96", 0), ("2002::/16", 80))
)
"""IPv6 networks whose addresses carry an IPv4 address, and how many bits come after that."""


def is_private(host: str) -> bool:
    """Whether an IP address is one of a private network, of this machine, or otherwise not public.

    An IPv6 address that stands for an IPv4 address is as public as that.

    >>> is_private("10.0.0.7"), is_private("169.254.169.254"), is_private("8.8.8.8")
    (True, True, False)
    >>> is_private("64:ff9b::a00:7"), is_private("64:ff9b::808:808")
    (True, False)
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    for network, bits in _CARRYING:
        if address in network:
            return is_private(str(ipaddress.IPv4Address(int(address) >> bits & 0xFFFFFFFF)))
    unrouted = any(address in network for network in _UNROUTED)
    return unrouted or address.is_multicast or not address.is_global


def check_url(url: object) -> str:
    """A URL to which calls can go.

    Raises:
        CardError: it is none.
    """
    if not is_url(url):
        raise CardError(f"{safe_url(url)!r:.200} is no http or https URL")
    return str(url)


async def public_addresses(url: str) -> list[str]:
    """The addresses of the host of a URL, which are public.

    Raises:
        CardError: one is not, or there is none.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, parts.port or _PORTS.get(parts.scheme), type=socket.SOCK_STREAM
        )
    except OSError as error:
        raise CardError(f"its host {host!r} cannot be found", passing=True) from error
    for *_, address in found:
        if is_private(str(address[0])):
            raise CardError(
                f"its card sends calls to {safe_url(url)}, an address that is not public. If it is meant, "
                "RemoteAgent.from_card(..., allow_private=True)."
            )
    if not found:
        raise CardError(f"its host {host!r} cannot be found", passing=True)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


# --- fetching -------------------------------------------------------------------------------------


async def fetch(client: AsyncClient, endpoint: str) -> dict[str, Any]:
    """The JSON of the card of an endpoint, which is the URL of the card or that of the service.

    Raises:
        CardError: it cannot be had, is too large, is no card, or sends calls to another origin.
    """
    last: CardError | None = None
    for url in _candidates(endpoint):
        try:
            card = _read(await _get(client, url))
        except _NotThere as error:
            last = error
            continue
        _check_targets(card, endpoint)
        return card
    raise CardError(str(last))


def _candidates(endpoint: str) -> tuple[str, ...]:
    if urlsplit(endpoint).path.endswith(".json"):
        return (endpoint,)
    base = endpoint.partition("?")[0].rstrip("/") + "/"
    return tuple(urljoin(base, place) for place in _PLACES)


class _NotThere(CardError):
    pass


async def _get(client: AsyncClient, url: str) -> bytes:
    import httpx

    start = origin(url)
    for _ in range(REDIRECTS + 1):
        try:
            async with client.stream("GET", url, follow_redirects=False) as response:
                if response.has_redirect_location:
                    url = check_url(urljoin(url, response.headers["location"]))
                    if origin(url) != start:
                        raise CardError(f"its card is said to be at {safe_url(url)}, another origin")
                    continue
                return await _body(response, url)
        except httpx.DecodingError as error:
            raise CardError(f"its card cannot be read: {error}") from error
        except httpx.HTTPError as error:
            raise CardError(f"it cannot be reached: {type(error).__name__}: {error}", passing=True) from error
    raise CardError(f"its card at {safe_url(url)} is redirected more than {REDIRECTS} times")


PLAINLY: Final[Mapping[str, str]] = {"Accept-Encoding": "identity"}
"""The header that asks for answers as they are: a few compressed bytes may become gigabytes."""


async def refuse_compressed(response: httpx.Response) -> None:
    """Refuse an answer that is compressed all the same, before it is read.

    Raises:
        httpx.DecodingError: it is.
    """
    import httpx

    encoding = response.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):
        raise httpx.DecodingError(
            f"it answers as {encoding:.40}, and was asked for no compression", request=response.request
        )


TOO_LONG: Final = "its answer has more than"
"""Begins the error of an answer that is longer than it may be."""


async def bound(most: int, response: httpx.Response) -> None:
    """Have an answer fail when more than that many bytes of it were read.

    >>> import asyncio, httpx
    >>> async def read() -> bytes:
    ...     response = httpx.Response(200, stream=httpx.ByteStream(b"12345"))
    ...     await bound(4, response)
    ...     return await response.aread()
    >>> asyncio.run(read())
    Traceback (most recent call last):
    httpx.ReadError: its answer has more than 4 bytes (max_bytes=)
    """
    import httpx

    inner = cast("httpx.AsyncByteStream", response.stream)

    class Bounded(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            left = most
            async for piece in inner:
                left -= len(piece)
                if left < 0:
                    raise httpx.ReadError(f"{TOO_LONG} {most} bytes (max_bytes=)")
                yield piece

        async def aclose(self) -> None:
            await inner.aclose()

    response.stream = Bounded()


async def _body(response: Any, url: str) -> bytes:
    if response.status_code in (404, 405):
        raise _NotThere(f"there is no agent card at {safe_url(url)} (HTTP {response.status_code})")
    if response.status_code != 200:
        passing = response.status_code >= 500 or response.status_code in (408, 425, 429)
        raise CardError(f"it did not give its card: {_status(response.status_code)}", passing=passing)
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > LARGEST:
            raise CardError(f"its card at {safe_url(url)} is larger than {LARGEST // 1024} KiB")
    return bytes(body)


def _status(code: int) -> str:
    meant = {401: " (not authenticated; see auth=)", 403: " (not allowed)"}.get(code, "")
    return f"HTTP {code}{meant}"


def _read(body: bytes) -> dict[str, Any]:
    try:
        held: object = json.loads(body)
    except (ValueError, RecursionError):
        held = None
    try:
        return well_formed(held)
    except CardError as error:
        raise CardError(f"what it gives as its card is none: {error}") from error


def well_formed(card: object) -> dict[str, Any]:
    """A card of which everybody can read what is read here: where calls go, and what its skills are called.

    Raises:
        CardError: it is none; the message says what is wrong with it.
    """
    if not isinstance(card, dict):
        raise CardError("it is no JSON object")
    held = cast("dict[str, Any]", card)
    if not _is_plain(held, DEPTH):
        raise CardError(f"it has values that JSON has not, or that lie more than {DEPTH} deep")
    for name in ("supportedInterfaces", "additionalInterfaces", "skills"):
        _objects(held.get(name), name)
    for skill in held.get("skills") or ():
        if not isinstance(skill.get("tags") or [], list):
            raise CardError("its tags of a skill are no list")
    urls = sdk.urls_in(held)
    if not urls:
        raise CardError("it names no URL for calls")
    for url in urls:
        check_url(url)
    return held


def _objects(given: object, name: str) -> None:
    listed: list[object] = cast("list[object]", given) if isinstance(given, list) else []
    if (given and not listed) or not all(isinstance(each, dict) for each in listed):
        raise CardError(f"its {name} is no list of objects")


def _is_plain(value: object, depth: int) -> bool:
    """Whether a value is JSON that every reader takes: finite numbers, whole characters, and not deep."""
    if depth == 0:
        return False
    match value:
        case dict():
            held = cast("dict[object, object]", value)
            return all(isinstance(key, str) and _is_plain(key, 1) for key in held) and all(
                _is_plain(each, depth - 1) for each in held.values()
            )
        case list():
            return all(_is_plain(each, depth - 1) for each in cast("list[object]", value))
        case float():
            return isfinite(value)
        case str():
            return not any("\ud800" <= character <= "\udfff" for character in value)
        case int() | None:
            return True
        case _:
            return False


def _check_targets(card: Mapping[str, Any], endpoint: str) -> None:
    for url in sdk.urls_in(card):
        if origin(url) != origin(endpoint):
            raise CardError(
                f"its card sends calls to {safe_url(url)}, another origin than {safe_url(endpoint)}. "
                "Use that as endpoint=, if you trust it."
            )


# --- what they say --------------------------------------------------------------------------------


def abilities(card: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids, names and tags of the skills on a card."""
    found: list[str] = []
    for skill in card.get("skills") or ():
        if isinstance(skill, Mapping):
            held = cast("Mapping[str, Any]", skill)
            found += [str(held.get("id", "")), str(held.get("name", "")), *map(str, held.get("tags") or ())]
    return tuple(dict.fromkeys(filter(None, found)))


def check_abilities(card: Mapping[str, Any], wanted: Iterable[str]) -> None:
    """Refuse a remote agent whose card does not name what is asked of it.

    Raises:
        CardError: a capability is no id, name or tag of a skill of its card.
    """
    known = abilities(card)
    folded = {each.casefold() for each in known}
    for capability in wanted:
        if capability.casefold() not in folded:
            listed = ", ".join(map(repr, known)) or "none"
            hint = did_you_mean(capability, known)
            raise CardError(f"its card has no skill {capability!r}; it names {listed}.{hint}")
