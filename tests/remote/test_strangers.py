"""Requests of strangers: each is answered as the protocol says, and leaves a line in the log at most."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from adk_fluent import Agent
from adk_fluent.a2a.protocol.sdk import is_newer
from adk_fluent.serve.requests import mistake_in, read_json
from tests.limits import LIMIT
from tests.remote.test_server import served
from tests.remote.wire import asking, message

VERSION = {"a2a-version": "1.0"} if is_newer() else {}


async def answered(url: str, body: bytes) -> httpx.Response:
    """The answer to a body."""
    headers = {"content-type": "application/json", **VERSION}
    async with httpx.AsyncClient(timeout=LIMIT) as client:
        return await client.post(url, content=body, headers=headers)


def written(told: Any) -> bytes:
    """JSON as Python writes it, NaN and all."""
    return json.dumps(told).encode()


def with_data(value: Any) -> bytes:
    """A message with a value as data."""
    return written(message("Pay.", parts=[{"data": {"amount": value}}]))


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "store"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (with_data(float("nan")), "NaN is no number of JSON"),
        (with_data(float("-inf")), "-Infinity is no number of JSON"),
        (with_data(1).replace(b'"amount": 1', b'"amount": 1e999'), "a number that is too large"),
        (with_data(10**400), "a number that is too large"),
        (with_data("\ud800"), "half a character"),
        (written({**message("x"), "id": "\ud800"}), "half a character"),
        (with_data("a\u0000b"), "U+0000"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "not valid JSON"),
    ],
    ids=["nan", "infinity", "1e999", "10**400", "half in data", "half in id", "nul", "deep", "bytes"],
)
async def test_what_is_no_json_is_a_parse_error(
    kept: bool, body: bytes, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets -32700 and leaves no traceback, with a store and without; the server goes on."""
    store = tmp_path / "served.db" if kept else None
    async with served(Agent("clerk"), {"clerk": "Paid."}, store=store) as server:
        told = await answered(server.url, body)
        assert (told.status_code, told.json()["id"], told.json()["error"]["code"]) == (200, None, -32700)
        assert said in told.json()["error"]["message"]
        assert "result" in (await answered(server.url, written(message("Pay.")))).json()
    assert not [record for record in caplog.records if record.exc_info]


def test_escapes_that_are_whole_characters_are_read() -> None:
    """A pair of surrogates is one character, and an escaped backslash before u0000 is text."""
    assert read_json(rb'{"a": "\ud83d\ude00"}') == {"a": "\U0001f600"}
    assert read_json(rb'{"a": "\\u0000 \\ud800"}') == {"a": "\\u0000 \\ud800"}


@pytest.mark.parametrize(
    ("told", "id", "code"),
    [
        ([message("x")], None, -32600),
        (5, None, -32600),
        ({"id": 1, "method": "GetTask", "params": {}}, 1, -32600),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "GetTask", "params": {}}, None, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "GetTask", "params": {}}, None, -32600),
        ({"jsonrpc": "2.0", "id": "a", "method": 5, "params": {}}, "a", -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": [1]}, 1, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": None}, 1, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": "x"}, 1, -32600),
    ],
)
def test_an_envelope_that_is_no_request_says_what_is_wrong(told: Any, id: object, code: int) -> None:
    """The code is that of JSON-RPC, and the id is that of the request where it may be one."""
    answer = json.loads(mistake_in(written(told)) or b"{}")
    assert (answer["id"], answer["error"]["code"]) == (id, code)
    assert mistake_in(written(message("x"))) is None


def bad_bodies() -> Iterator[bytes]:
    """Two hundred requests that are wrong each in another way."""
    known = ["message/send", "message/stream", "tasks/get", "tasks/cancel", "tasks/resubscribe"]
    if is_newer():
        known += ["SendMessage", "SendStreamingMessage", "GetTask", "CancelTask"]
    wrong: list[Any] = [None, [], "x", 5, {"id": None}, {"id": 5}, {"id": {}}, {"message": None}]
    wrong += [{"message": {"parts": "x"}}, {"message": {"messageId": "m", "role": "BAD", "parts": [{}]}}]
    wrong += [{"message": {"messageId": 5}}, {"pageSize": "x", "id": []}]
    for method in [*known, "nope", 5, None]:
        for params in wrong:
            yield written({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    whole = written(message("x"))
    yield from (whole[:length] for length in range(len(whole)))


@pytest.mark.parametrize("version", [None, "1.0"])
async def test_bad_bodies_leave_no_traceback(version: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """Each of hundreds of wrong requests is answered as one, and leaves one line at most."""
    caplog.set_level(logging.INFO)
    headers = {} if version is None else {"a2a-version": version}
    async with (
        served(Agent("clerk"), {"clerk": "ok"}) as server,
        httpx.AsyncClient(timeout=LIMIT) as client,
    ):
        for body in bad_bodies():
            answer = await client.post(server.url, content=body, headers=headers)
            assert answer.status_code == 200, body
            assert b"error" in answer.content, body
    told = [record for record in caplog.records if record.name.startswith(("a2a", "uvicorn", "adk_fluent"))]
    assert not [record.getMessage() for record in told if record.exc_info]
    assert not [record.getMessage() for record in told if "\n" in record.getMessage()]


async def test_an_id_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A line break in what a stranger sends is none in the log."""
    forged = {**asking("none"), "id": "1\n2026-01-01 ERROR root: broken", "method": "nope"}
    async with served(Agent("clerk"), {"clerk": "ok"}) as server:
        assert (await answered(server.url, written(forged))).json()["error"]["code"] == -32601
    assert not [record for record in caplog.records if "\n" in record.getMessage()]
