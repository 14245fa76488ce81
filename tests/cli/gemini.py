"""A server on 127.0.0.1 that speaks Gemini's wire protocol: answers, streams, embeddings, failures."""

from __future__ import annotations

import gc
import json
import re
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, cast

import pytest

from tests.limits import LIMIT

Behaviour = Literal["answer", "bad_key", "404", "429", "500", "break", "hang_up"]

CACHED: Mapping[str, Any] = {"usageMetadata": {"totalTokenCount": 5000}}
_METHOD = re.compile(r"/v1(?:beta1?)?/(?:publishers/google/)?models/(?P<model>[\w.-]+):(?P<method>\w+)")
_AGENT = re.compile(r'internal name is "(\w+)"')


@dataclass
class Gemini:
    """What the server says, and what it was asked.

    Attributes:
        answers: agent name → its answer: a text, or a function of the request that gives the parts of one.
            That of "" is for every other agent.
        failing: agent name → how its calls go wrong; `break` tears the connection in the middle of a stream,
            `hang_up` ends the stream in good order but half-way.
        vectors: text → its embedding.
        requests: path and body of each call, in order.
        bodies: the body of each call as it came.
        prompt_tokens: how long it says each request was.
        cached: the agent whose instruction it is asked to keep, and which is not in requests then.
    """

    answers: Mapping[str, str | Callable[[dict[str, Any]], list[dict[str, Any]]]]
    failing: Mapping[str, Behaviour] = field(default_factory=dict[str, Behaviour])
    vectors: Mapping[str, list[float]] = field(default_factory=dict[str, list[float]])
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    bodies: list[bytes] = field(default_factory=list[bytes])
    prompt_tokens: int = 20
    cached: str = ""
    url: str = ""


SOON = 0.01
"""Seconds after which the server sees that it shall end; it looks every half second otherwise."""


@contextmanager
def serve(gemini: Gemini) -> Generator[Gemini]:
    """Serve until the block ends; `gemini.url` says where."""

    class Handler(_Handler):
        script = gemini

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[SOON], daemon=True)
    thread.start()
    gemini.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield gemini
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LIMIT)
        # ADK makes a client per call and closes none; what is left of them must not warn in a later test.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()


@contextmanager
def serve_models(gemini: Gemini, monkeypatch: pytest.MonkeyPatch) -> Generator[Gemini]:
    """Serve until the block ends, and have the models of this process ask here, with a key."""
    with serve(gemini):
        monkeypatch.setenv("GOOGLE_API_KEY", "none")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
        yield gemini


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is no error of the server."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(cast(Any, request), client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    script: Gemini

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_POST(self) -> None:
        self.script.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.loads(self.script.bodies[-1])
        self.script.requests.append((self.path, body))
        if self.path.endswith("/cachedContents"):
            until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
            return self._json(200, {"name": "cachedContents/kept", "expireTime": until, **CACHED})
        found = _METHOD.search(self.path)
        if found is None:
            return self._error(404, "NOT_FOUND", f"no such path: {self.path}")
        if found["method"] == "batchEmbedContents":
            texts = [asked["content"]["parts"][0]["text"] for asked in body["requests"]]
            if not self.script.vectors:
                return self._error(404, "NOT_FOUND", "there is no such model")
            return self._json(200, {"embeddings": [{"values": self.script.vectors[text]} for text in texts]})
        agent = self._agent(body)
        behaviour = self.script.failing.get(agent, "answer")
        if behaviour == "bad_key":
            return self._error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")
        if behaviour == "404":
            return self._error(404, "NOT_FOUND", f"models/{found['model']} is not found")
        if behaviour == "429":
            return self._error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.")
        if behaviour == "500":
            return self._error(500, "INTERNAL", "An internal error has occurred.")
        answers = self.script.answers
        try:
            text = answers[agent] if agent in answers else answers[""]
        except KeyError:  # a connection that breaks would be tried again for a minute
            return self._error(404, "NOT_FOUND", f"the test has no answer for agent {agent!r}")
        if not isinstance(text, str):
            return self._json(200, self._response(text(body), found["model"], last=True))
        if found["method"] == "generateContent":
            return self._json(200, self._response(text, found["model"], last=True))
        return self._stream(text, found["model"], behaviour)

    def _agent(self, body: dict[str, Any]) -> str:
        if body.get("cachedContent"):
            return self.script.cached
        found = _AGENT.search(json.dumps(body.get("systemInstruction", {})).replace('\\"', '"'))
        return found[1] if found else ""

    def _stream(self, text: str, model: str, behaviour: Behaviour) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pieces = [text[start : start + 8] for start in range(0, len(text), 8)]
        if behaviour != "answer":
            pieces = pieces[: len(pieces) // 2]
        for index, piece in enumerate(pieces):
            last = behaviour == "answer" and index == len(pieces) - 1
            self._chunk(f"data: {json.dumps(self._response(piece, model, last=last))}\r\n\r\n".encode())
        if behaviour == "break":
            self.wfile.write(b"ffff\r\ndata: {")  # promises more than it gives
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _error(self, code: int, status: str, message: str) -> None:
        self._json(code, {"error": {"code": code, "message": message, "status": status}})

    def _json(self, code: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _response(self, said: str | list[dict[str, Any]], model: str, *, last: bool) -> dict[str, Any]:
        parts = [{"text": said}] if isinstance(said, str) else said
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        found: dict[str, Any] = {"candidates": [candidate], "modelVersion": model}
        if last:
            candidate["finishReason"] = "STOP"
            asked = self.script.prompt_tokens
            found["usageMetadata"] = {
                "promptTokenCount": asked,
                "candidatesTokenCount": 5,
                "totalTokenCount": asked + 5,
            }
        return found
