"""A server that speaks TLS: reached with its certificate, and with a client's own, and not without."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import TLSConfig

from adk_fluent import Agent
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.distributed import run_worker
from adk_fluent.errors import EngineError
from adk_fluent.testing import mock_backend
from tests.backends.temporal.encryption import certificate_in, encrypted
from tests.backends.temporal.gateway import gateway
from tests.dev_server import new_namespace
from tests.limits import LIMIT

pytestmark = pytest.mark.newest


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this machine, and its key."""
    return certificate_in(tmp_path)


@pytest.mark.parametrize("mutual", [False, True], ids=["server", "mutual"])
async def test_worker_and_caller_speak_tls(
    temporal: DevServer, certificate: tuple[Path, Path], *, mutual: bool
) -> None:
    """With the certificate of the server, and where it asks for one, with their own."""
    cert, key = (file.read_bytes() for file in certificate)
    tls = TLSConfig(
        server_root_ca_cert=cert,
        domain="localhost",
        client_cert=cert if mutual else None,
        client_private_key=key if mutual else None,
    )
    expression, queue = Agent("a"), f"tls-{mutual}"
    async with encrypted(temporal.port, certificate, mutual=mutual) as address:
        models = mock_backend({"a": "safe"})
        worker = asyncio.ensure_future(
            run_worker(expression, address=address, tls=tls, queue=queue, models=models)
        )
        backend = TemporalBackend(address, tls=tls, queue=queue, worker_timeout=LIMIT)
        assert (await expression.run("hi", backend=backend)).text == "safe"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "unknown certificate"])
async def test_a_server_that_cannot_be_trusted(
    temporal: DevServer, certificate: tuple[Path, Path], *, tls: bool
) -> None:
    """Without its certificate nothing is sent; the address is named, in one line."""
    async with encrypted(temporal.port, certificate, mutual=False) as address:
        with pytest.raises(EngineError, match=f"No Temporal server answers at {address}") as found:
            await Agent("a").run("hi", backend=TemporalBackend(address, tls=tls))
    assert "\n" not in str(found.value)


async def test_a_server_that_asks_for_a_key(temporal: DevServer, certificate: tuple[Path, Path]) -> None:
    """Every call of worker and caller brings the key, and names the namespace; without it none is let in."""
    expression, key, mine = Agent("a"), "k3y", await new_namespace(temporal.address)
    tls = TLSConfig(server_root_ca_cert=certificate[0].read_bytes(), domain="localhost")
    async with gateway(temporal.port, certificate, key) as (address, passed):
        worker = asyncio.ensure_future(
            run_worker(
                expression,
                address=address,
                tls=tls,
                namespace=mine,
                api_key=key,
                models=mock_backend({"a": "safe"}),
            )
        )
        backend = TemporalBackend(address, tls=tls, namespace=mine, api_key=key, worker_timeout=LIMIT)
        assert (await expression.run("hi", backend=backend)).text == "safe"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        for wrong, said in (
            (TemporalBackend(address, tls=tls, namespace=mine, api_key="other"), "Give another api_key"),
            (TemporalBackend(address, tls=tls, namespace=mine), "Give api_key="),
            (TemporalBackend(address, tls=tls, namespace="none", api_key=key), "has no namespace 'none'"),
        ):
            with pytest.raises(EngineError, match=said) as found:
                await expression.run("hi", backend=wrong)
            assert str(found.value).startswith(f"The Temporal server at {address}")
            assert key not in repr(wrong.address)
    assert {where for what, where in passed if what not in ("GetSystemInfo", "DescribeNamespace")} == {mine}
    assert {what for what, _ in passed} >= {"PollActivityTaskQueue", "ExecuteMultiOperation"}
