"""Calls as they go over the wire, in the version of the protocol that the a2a-sdk at hand speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from adk_fluent.a2a.protocol.sdk import is_newer
from tests.limits import LIMIT


def message(text: str, *, streaming: bool = False, **fields: Any) -> dict[str, Any]:
    """A call, with parts as version 1.0 of the protocol writes them."""
    said: dict[str, Any] = {
        "messageId": f"m-{text}",
        "role": "ROLE_USER",
        "parts": [{"text": text}],
        **fields,
    }
    method = "SendStreamingMessage" if streaming else "SendMessage"
    if not is_newer():
        given: list[dict[str, Any]] = said["parts"]
        parts = [{"kind": next(iter(part)), **part} for part in given]
        said = {**said, "kind": "message", "role": "user", "parts": parts}
        method = "message/stream" if streaming else "message/send"
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": said}}


def asking(id: str) -> dict[str, Any]:
    """A call that asks how a task stands."""
    method = "GetTask" if is_newer() else "tasks/get"
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": id}}


def cancelling(id: str) -> dict[str, Any]:
    """A call that ends a task."""
    return {**asking(id), "method": "CancelTask" if is_newer() else "tasks/cancel"}


async def call(url: str, body: Any, **headers: str) -> httpx.Response:
    """What a server answers."""
    version = {"a2a-version": "1.0"} if is_newer() else {}
    async with httpx.AsyncClient(timeout=LIMIT) as client:
        return await client.post(url, json=body, headers={**version, **headers})


def task_in(answer: httpx.Response) -> dict[str, Any]:
    """The task that a call became."""
    result = answer.json()["result"]
    return result["task"] if is_newer() else result


async def task(url: str, text: str, **fields: Any) -> dict[str, Any]:
    """The task that a message becomes."""
    return task_in(await call(url, message(text, **fields)))


def state(told: Mapping[str, Any]) -> str:
    """How a task stands, in capitals."""
    return str(told["status"]["state"]).removeprefix("TASK_STATE_").replace("-", "_").upper()


def text_of(told: Mapping[str, Any]) -> str:
    """The words of a task's status."""
    return " ".join(part.get("text", "") for part in told["status"]["message"]["parts"]).strip()
