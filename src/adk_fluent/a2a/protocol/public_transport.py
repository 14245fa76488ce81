"""A transport that connects to public addresses alone, namely to those that it has checked.

A name may lead to a public address when it is looked up to be checked, and to a private one a moment later,
when the connection is made. So each request is sent to the address that was checked, under the name.
"""

from __future__ import annotations

import httpx

from adk_fluent.a2a.protocol.cards import public_addresses


class PublicOnly(httpx.AsyncBaseTransport):
    """Sends requests to public addresses alone.

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
        addresses = await public_addresses(str(request.url))
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
