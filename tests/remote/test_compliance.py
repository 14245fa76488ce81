"""Requests of every kind: `A2AServer` answers each as ADK's own `to_a2a` does, or better."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import pytest

from adk_fluent import Agent
from adk_fluent.serve import A2AServer
from adk_fluent.testing import mock_backend
from tests.limits import LIMIT
from tests.remote.others import listening, plain, says

pytestmark = pytest.mark.newest

CURRENT = {"a2a-version": "1.0"}


@asynccontextmanager
async def both() -> AsyncGenerator[tuple[str, str]]:
    """The URLs of ADK's server and of ours, whose agents say the same."""
    backend = mock_backend({"clerk": lambda request: "Hello"})
    async with (
        listening(plain(says("Hello"))) as theirs,
        A2AServer(Agent("clerk").describe("Answers."), backend=backend) as ours,
    ):
        yield theirs + "/", ours.url


def said(id: str, **fields: Any) -> dict[str, Any]:
    """A message."""
    return {"messageId": id, "role": "ROLE_USER", "parts": [{"text": "Hello"}], **fields}


def called(method: str, params: Any, **fields: Any) -> dict[str, Any]:
    """A call."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **fields}


async def ended(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """A task that is completed."""
    answer = await client.post(url, json=called("SendMessage", {"message": said("first")}), headers=CURRENT)
    return answer.json()["result"]["task"]


def calls(task: dict[str, Any]) -> dict[str, tuple[Any, dict[str, str]]]:
    """Name → a request about a server that has this task, and its headers."""
    id, context, older = task["id"], task["contextId"], {"a2a-version": "0.3"}
    push = {"taskId": id, "id": "p", "url": "https://example.com/hook"}
    part = {"kind": "text", "text": "Hello"}
    message = {"messageId": "m", "role": "user", "kind": "message", "parts": [part]}
    return {
        "send": (called("SendMessage", {"message": said("a")}), CURRENT),
        "send, string id": (called("SendMessage", {"message": said("a2")}, id="x"), CURRENT),
        "send, at once": (
            called("SendMessage", {"message": said("b"), "configuration": {"returnImmediately": True}}),
            CURRENT,
        ),
        "send, same context": (called("SendMessage", {"message": said("c", contextId=context)}), CURRENT),
        "send, ended task": (called("SendMessage", {"message": said("d", taskId=id)}), CURRENT),
        "send, unknown task": (called("SendMessage", {"message": said("e", taskId="none")}), CURRENT),
        "send, other context": (
            called("SendMessage", {"message": said("f", taskId=id, contextId="x")}),
            CURRENT,
        ),
        "send, no parts": (called("SendMessage", {"message": said("g", parts=[])}), CURRENT),
        "send, no id": (called("SendMessage", {"message": {"role": "ROLE_USER", "parts": []}}), CURRENT),
        "send, unknown field": (called("SendMessage", {"message": said("h"), "unknown": 1}), CURRENT),
        "send, data": (called("SendMessage", {"message": said("i", parts=[{"data": {"a": 1}}])}), CURRENT),
        "send, no history": (
            called("SendMessage", {"message": said("j"), "configuration": {"historyLength": 0}}),
            CURRENT,
        ),
        "send, extension": (called("SendMessage", {"message": said("k", extensions=["x:y"])}), CURRENT),
        "stream": (called("SendStreamingMessage", {"message": said("l")}), CURRENT),
        "stream, ended task": (called("SendStreamingMessage", {"message": said("m", taskId=id)}), CURRENT),
        "get": (called("GetTask", {"id": id}), CURRENT),
        "get, history": (called("GetTask", {"id": id, "historyLength": 1}), CURRENT),
        "get, negative history": (called("GetTask", {"id": id, "historyLength": -1}), CURRENT),
        "get, unknown": (called("GetTask", {"id": "none"}), CURRENT),
        "get, no id": (called("GetTask", {}), CURRENT),
        "list": (called("ListTasks", {"contextId": context}), CURRENT),
        "list, page": (called("ListTasks", {"pageSize": 1, "includeArtifacts": True}), CURRENT),
        "list, bad page": (called("ListTasks", {"pageSize": 1000}), CURRENT),
        "list, bad token": (called("ListTasks", {"pageToken": "!"}), CURRENT),
        "list, status": (called("ListTasks", {"status": "TASK_STATE_COMPLETED"}), CURRENT),
        "cancel, ended": (called("CancelTask", {"id": id}), CURRENT),
        "cancel, unknown": (called("CancelTask", {"id": "none"}), CURRENT),
        "subscribe, ended": (called("SubscribeToTask", {"id": id}), CURRENT),
        "subscribe, unknown": (called("SubscribeToTask", {"id": "none"}), CURRENT),
        "push": (called("CreateTaskPushNotificationConfig", push), CURRENT),
        "push, list": (called("ListTaskPushNotificationConfigs", {"taskId": id}), CURRENT),
        "push, get": (called("GetTaskPushNotificationConfig", {"taskId": id, "id": "p"}), CURRENT),
        "push, delete": (called("DeleteTaskPushNotificationConfig", {"taskId": id, "id": "p"}), CURRENT),
        "extended card": (called("GetExtendedAgentCard", {}), CURRENT),
        "version, none": (called("SendMessage", {"message": said("n")}), {}),
        "version, 99": (called("SendMessage", {"message": said("o")}), {"a2a-version": "99.0"}),
        "version, patch": (called("SendMessage", {"message": said("p")}), {"a2a-version": "1.0.1"}),
        "method, unknown": (called("Nope", {}), CURRENT),
        "method, empty": (called("", {}), CURRENT),
        "method, number": ({**called("x", {}), "method": 5}, CURRENT),
        "envelope, batch": ([called("GetTask", {"id": id})], CURRENT),
        "envelope, version": (called("GetTask", {"id": id}, jsonrpc="1.0"), CURRENT),
        "envelope, id": (called("GetTask", {"id": id}, id={"a": 1}), CURRENT),
        "envelope, params": (called("GetTask", "x"), CURRENT),
        "envelope, list of params": (called("GetTask", ["x"]), CURRENT),
        "envelope, nothing": ({}, CURRENT),
        "0.3, send": (called("message/send", {"message": message}), {}),
        "0.3, send, named": (called("message/send", {"message": message}), older),
        "0.3, stream": (called("message/stream", {"message": message}), {}),
        "0.3, get": (called("tasks/get", {"id": id}), {}),
        "0.3, get, unknown": (called("tasks/get", {"id": "none"}), {}),
        "0.3, cancel, ended": (called("tasks/cancel", {"id": id}), {}),
        "0.3, bad": (called("message/send", {"message": {}}), {}),
        "0.3, resubscribe": (called("tasks/resubscribe", {"id": "none"}), {}),
        "0.3, push": (called("tasks/pushNotificationConfig/list", {"id": id}), {}),
    }


def shape(answer: httpx.Response) -> Any:
    """What matters of an answer: its status, its kind, its error's code, its fields and its state."""
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind == "text/event-stream":
        data = [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]
        first, last = (_outline(each) for each in (data[0], data[-1]))
        return answer.status_code, kind, first, last
    return answer.status_code, kind, _outline(answer.json() if answer.content else None)


def _outline(answer: object) -> Any:
    if not isinstance(answer, dict):
        return type(answer).__name__
    told = cast("dict[str, Any]", answer)
    if "error" in told:
        return "error", told.get("id"), told["error"]["code"]
    if not isinstance(told.get("result"), dict):
        return type(told.get("result")).__name__
    held: dict[str, Any] = told["result"]
    held = held.get("task") or held.get("statusUpdate") or held
    status: dict[str, Any] = held.get("status") or {}
    return sorted(set(held) - {"metadata"}), status.get("state"), told["id"]


async def test_every_request_is_answered_as_adk_answers_it() -> None:
    """Over JSON-RPC, in both versions of the protocol: the same fields, states, and codes of errors.

    ADK repeats the answer in the history of a task; here it is the artifact alone.
    """
    differ: dict[str, Any] = {}
    async with both() as urls, httpx.AsyncClient(timeout=LIMIT) as client:
        tasks = [await ended(client, url) for url in urls]
        for name in calls(tasks[0]):
            found: list[Any] = []
            for url, task in zip(urls, tasks, strict=True):
                body, headers = calls(task)[name]
                found.append(shape(await client.post(url, json=body, headers=headers)))
            if found[0] != found[1]:
                differ[name] = found
    assert differ == {}


async def test_a_card_is_served_as_adk_serves_it() -> None:
    """It has every field and header that ADK's has, and says beside that how long it is fresh."""
    async with both() as urls, httpx.AsyncClient(timeout=LIMIT) as client:
        theirs, ours = [await client.get(url + ".well-known/agent-card.json") for url in urls]
        for url, answer in zip(urls, (theirs, ours), strict=True):
            had = {"if-none-match": answer.headers["etag"]}
            assert (await client.get(url + ".well-known/agent-card.json", headers=had)).status_code == 304
    assert set(theirs.headers) <= set(ours.headers)
    assert "max-age" in ours.headers["cache-control"]
    fields = {"name", "description", "version", "supportedInterfaces", "capabilities", "skills"}
    assert fields <= set(ours.json())
    assert {"defaultInputModes", "defaultOutputModes"} <= set(ours.json())
    assert ours.headers["content-type"] == theirs.headers["content-type"]
