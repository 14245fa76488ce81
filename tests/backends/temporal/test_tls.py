"""A server that speaks TLS: reached with its certificate, and with a client's own, and not without."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from temporalio.client import TLSConfig

from adk_fluent import Agent
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.distributed import run_worker
from adk_fluent.errors import EngineError
from adk_fluent.testing import mock_backend

pytestmark = pytest.mark.newest


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this machine that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(private)
    return files


@asynccontextmanager
async def encrypted(port: int, certificate: tuple[Path, Path], *, mutual: bool) -> AsyncGenerator[str]:
    """What takes the encryption off in front of a server: its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.set_alpn_protocols(["h2"])
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate[0])
    writers: list[asyncio.StreamWriter] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except (ConnectionError, ssl.SSLError):
            return
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        writers.extend((writer, inner_writer))
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()


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
        backend = TemporalBackend(address, tls=tls, queue=queue)
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
