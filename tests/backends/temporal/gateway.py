"""What stands in front of a server and lets nobody through without a key, as Temporal Cloud does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

_handler: Any = grpc.unary_unary_rpc_method_handler


@asynccontextmanager
async def gateway(
    port: int, certificate: tuple[Path, Path], key: str
) -> AsyncGenerator[tuple[str, set[tuple[str, str]]]]:
    """A server that speaks TLS and asks for a key: its address, and who was let through to what.

    That is pairs of a method and the namespace that the call names.
    """
    passed = set[tuple[str, str]]()
    inner: Any = grpc.aio.insecure_channel(f"127.0.0.1:{port}")

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> Any:
            method: str = handler_call_details.method
            told = dict(handler_call_details.invocation_metadata)
            if told.get("authorization") != f"Bearer {key}":
                return _handler(refuse)
            passed.add((method.rpartition("/")[2], told.get("temporal-namespace", "")))

            async def pass_on(request: bytes, context: Any) -> bytes:
                try:
                    return await inner.unary_unary(method)(request, timeout=context.time_remaining())
                except grpc.aio.AioRpcError as error:
                    trailing: Any = error.trailing_metadata()
                    context.set_trailing_metadata(tuple(trailing))
                    await context.abort(error.code(), error.details())
                    raise

            return _handler(pass_on)

    async def refuse(request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "Request unauthorized.")
        raise AssertionError

    server: Any = grpc.aio.server()
    server.add_generic_rpc_handlers((Handler(),))
    cert, private = (file.read_bytes() for file in certificate)
    credentials = grpc.ssl_server_credentials([(private, cert)])
    found = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{found}", passed
    finally:
        await server.stop(None)
        await inner.close()
