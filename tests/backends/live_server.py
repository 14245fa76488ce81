"""A server on 127.0.0.1 that speaks Gemini's live protocol: a websocket per conversation, JSON both ways."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from websockets.asyncio.server import ServerConnection, serve

Message = dict[str, Any]


def content(**fields: Any) -> Message:
    """A message of the server about the conversation."""
    return {"serverContent": fields}


def spoken(data: bytes) -> Message:
    """A piece of sound that the model says."""
    blob = {"mimeType": "audio/pcm", "data": base64.b64encode(data).decode()}
    return content(modelTurn={"role": "model", "parts": [{"inlineData": blob}]})


@dataclass
class LiveGemini:
    """What the server says, and what it was told.

    Attributes:
        answer: what it says to a message of the client.
        setups: how each conversation was begun.
        heard: what came after that, in order.
        open: how many conversations are open.
    """

    answer: Callable[[Message], Iterable[Message]]
    setups: list[Message] = field(default_factory=list[Message])
    heard: list[Message] = field(default_factory=list[Message])
    open: int = 0

    async def converse(self, socket: ServerConnection) -> None:
        """One conversation."""
        self.open += 1
        try:
            async for raw in socket:
                told: Message = json.loads(raw)
                if "setup" in told:
                    self.setups.append(told["setup"])
                    replies: Iterable[Message] = [{"setupComplete": {}}]
                else:
                    self.heard.append(told)
                    replies = self.answer(told)
                for reply in replies:
                    await socket.send(json.dumps(reply))
        finally:
            self.open -= 1


@asynccontextmanager
async def serving(
    gemini: LiveGemini, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[LiveGemini, None]:
    """Serve until the block ends; Google's client finds the server, and trusts it, by its environment."""
    certificate, key = _certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with serve(gemini.converse, "127.0.0.1", 0, ssl=context) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        for name, value in (
            ("SSL_CERT_FILE", str(certificate)),
            ("GOOGLE_GEMINI_BASE_URL", f"https://127.0.0.1:{port}"),
            ("GOOGLE_API_KEY", "not-a-key"),
        ):
            monkeypatch.setenv(name, value)
        yield gemini


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key, made for this test alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return certificate, secret
