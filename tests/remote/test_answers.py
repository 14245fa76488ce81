"""What a remote agent's answer is: the same by the rules of the protocol, whole and streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Any, cast

import pytest
from google.genai import types
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from adk_fluent import Agent, RemoteAgent, S, race
from adk_fluent.a2a import RetryConfig
from adk_fluent.a2a.protocol import connections
from adk_fluent.a2a.protocol.sdk import is_newer
from adk_fluent.backends.events import AgentEvent
from adk_fluent.debug import Recorder, ReplayerBackend
from adk_fluent.errors import RemoteError
from adk_fluent.expr.base import Expr
from adk_fluent.state import declares
from adk_fluent.testing import mock_backend
from tests.limits import LIMIT, in_thread, within_limit
from tests.remote.others import listening

Json = dict[str, Any]
IDS = {"taskId": "t", "contextId": "c"}


def text(words: str) -> Json:
    """A part."""
    return {"kind": "text", "text": words}


def data(value: Json) -> Json:
    """A part."""
    return {"kind": "data", "data": value}


FILE = {"kind": "file", "file": {"bytes": "UERG", "mimeType": "application/pdf", "name": "bill.pdf"}}


def message(*parts: Json) -> Json:
    """A message of the agent."""
    return {"kind": "message", "messageId": "m", "role": "agent", "parts": [*parts]}


def status(state: str, *parts: Json) -> Json:
    """A change of state."""
    told: Json = {"state": state, **({"message": message(*parts)} if parts else {})}
    return {"kind": "status-update", **IDS, "status": told, "final": state not in ("submitted", "working")}


def artifact(id: str, *parts: Json, **fields: bool) -> Json:
    """A piece of an artifact."""
    return {
        "kind": "artifact-update",
        **IDS,
        "artifact": {"artifactId": id, "parts": [*parts]},
        **fields,
    }


def snapshot(state: str, *artifacts: Json) -> Json:
    """A task as it stands, with artifacts that these updates hold."""
    made = [each["artifact"] for each in artifacts]
    return {
        "kind": "task",
        "id": "t",
        "contextId": "c",
        "status": {"state": state},
        "history": [],
        "artifacts": made,
    }


def whole(items: list[Json]) -> Json:
    """What a server that does not stream answers in place of these items."""
    if items[0]["kind"] == "message":
        return items[0]
    task = snapshot("unknown")
    for item in items:
        if item["kind"] == "task":
            task = json.loads(json.dumps(item))
            continue
        if item["kind"] == "status-update":
            task["status"] = item["status"]
            task["history"] += [item["status"]["message"]] if "message" in item["status"] else []
            continue
        held = [each for each in task["artifacts"] if each["artifactId"] == item["artifact"]["artifactId"]]
        made = json.loads(json.dumps(item["artifact"]))
        if held and item.get("append"):
            held[0]["parts"] += made["parts"]
        elif held:
            held[0]["parts"] = made["parts"]
        else:
            task["artifacts"].append(made)
    return task


def newer(told: Any) -> Any:
    """An item as version 1.0 of the protocol writes it."""
    if isinstance(told, list):
        return [newer(each) for each in cast("list[Any]", told)]
    if not isinstance(told, dict):
        return cast("object", told)
    item = cast(Json, told)
    if item.get("kind") == "file":
        held: Json = item["file"]
        at: Json = {"raw": held["bytes"]} if "bytes" in held else {"url": held["uri"]}
        return {**at, "mediaType": held["mimeType"], "filename": held["name"]}
    if item.get("kind") == "data":
        return {"data": item["data"]}
    made = {name: newer(each) for name, each in item.items() if name not in ("kind", "final")}
    if "state" in made:
        made["state"] = f"TASK_STATE_{made['state'].upper().replace('-', '_')}"
    return made | ({"role": f"ROLE_{made['role'].upper()}"} if "role" in made else {})


NAMES = {"status-update": "statusUpdate", "artifact-update": "artifactUpdate"}


class Gate:
    """Holds back what a server streams.

    Attributes:
        after: how many items are sent before.
        reached: set when a call is held back.
        open: lets the rest through.
        cancelled: set when the server is asked to cancel a task.
    """

    def __init__(self, after: int = 0) -> None:
        self.after = after
        self.reached, self.open, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(self, sent: int) -> None:
        """Wait, if that is where the gate stands."""
        if sent == self.after:
            self.reached.set()
            await self.open.wait()


def server(
    items: list[Json],
    *,
    streams: bool,
    version: str,
    calls: list[str],
    gate: Gate | None = None,
    path: str = "/",
) -> Any:
    """What makes a server that answers each call with these items."""

    def told(item: Json) -> Json:
        return item if version == "0.3" else {NAMES.get(item["kind"]) or str(item["kind"]): newer(item)}

    async def answer(request: Request) -> Response:
        body = await request.json()
        calls.append(body["method"])
        if gate is not None and "ancel" in body["method"]:
            gate.cancelled.set()
        if "tream" not in body["method"]:
            return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": told(whole(items))})

        async def chunks() -> AsyncGenerator[str, None]:
            for sent, item in enumerate(items):
                if gate is not None:
                    await gate.wait(sent)
                yield f"data: {json.dumps({'jsonrpc': '2.0', 'id': body['id'], 'result': told(item)})}\n\n"

        return StreamingResponse(chunks(), media_type="text/event-stream")

    def make(port: int) -> Starlette:
        url = f"http://127.0.0.1:{port}{path}"
        card: Json = {"name": "far", "description": "Far.", "version": "1", "skills": []}
        card |= {"defaultInputModes": ["text"], "defaultOutputModes": ["text"]}
        card["capabilities"] = {"streaming": streams}
        if version == "0.3":
            card |= {"url": url, "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}
        else:
            at = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            card["supportedInterfaces"] = [at]

        async def show(request: Request) -> Response:
            return JSONResponse(card)

        shown = Route(f"{path}.well-known/agent-card.json", show)
        return Starlette(routes=[shown, Route(path, answer, methods=["POST"])])

    return make


def parts_of(events: Iterable[AgentEvent]) -> list[types.Part]:
    """What ADK's own events hold."""
    contents = [event.raw.content for event in events if event.raw is not None]
    return [part for content in contents if content is not None for part in content.parts or []]


NOTE, DONE = status("working", text("Looking.")), status("completed", text("Done."))
ANSWERS: dict[str, tuple[list[Json], str]] = {
    "message": ([message(text("Hi."))], "Hi."),
    "message_of_parts": ([message(text("Hello "), text("world."))], "Hello world."),
    "pieces": (
        [
            status("working"),
            artifact("a", text("Hello "), append=False, lastChunk=False),
            artifact("a", text("world."), append=True, lastChunk=True),
            status("completed"),
        ],
        "Hello world.",
    ),
    "pieces_without_a_last": (
        [status("working"), artifact("a", text("1")), artifact("a", text("2"), append=True), DONE],
        "12",
    ),
    "replaced": (
        [
            status("working"),
            artifact("a", text("Draft.")),
            artifact("a", text("Final."), lastChunk=True),
            DONE,
        ],
        "Final.",
    ),
    "two_artifacts": (
        [NOTE, artifact("a", text("One. ")), artifact("b", text("Two."), lastChunk=True), DONE],
        "One. Two.",
    ),
    "interleaved": (
        [
            status("working"),
            artifact("a", text("a1 ")),
            artifact("b", text("b1 ")),
            artifact("a", text("a2 "), append=True, lastChunk=True),
            artifact("b", text("b2"), append=True, lastChunk=True),
            status("completed"),
        ],
        "a1 a2 b1 b2",
    ),
    "notes_and_artifact": ([status("submitted"), NOTE, artifact("a", text("Paid.")), DONE], "Paid."),
    "status_alone": ([NOTE, status("completed", text("Paid."))], "Paid."),
    "data": ([NOTE, artifact("a", data({"total": 5})), DONE], '{"total": 5}'),
    "text_and_data": (
        [NOTE, artifact("a", text("Here:"), data({"total": 5}), text("Bye.")), DONE],
        'Here:\n{"total": 5}\nBye.',
    ),
    "data_in_a_message": ([message(data({"total": 5}))], '{"total": 5}'),
    "data_in_a_status": ([NOTE, status("completed", data({"total": 5}))], '{"total": 5}'),
    "file": ([NOTE, artifact("a", text("The bill."), FILE), DONE], "The bill."),
    "letters_in_data": ([artifact("a", data({"größe": "é🙂"})), DONE], '{"größe": "é🙂"}'),
    "empty_at_last": ([artifact("a", text("Paid.")), artifact("a", text(""), append=True), DONE], "Paid."),
}
FAILURES: dict[str, tuple[list[Json], str]] = {
    "notes_alone": ([NOTE, status("completed")], "it gave no answer"),
    "nothing": ([status("working"), status("completed")], "it gave no answer"),
    "failed": ([NOTE, artifact("a", text("Half.")), status("failed", text("No money."))], "No money."),
    "rejected": ([status("rejected", text("Not here."))], "it rejected the task: Not here."),
    "cancelled": ([NOTE, status("canceled")], "it cancelled the task"),
    "unfinished": ([status("submitted"), NOTE], "stopped answering while its task was working"),
    "half": ([NOTE, artifact("a", text("Half."), lastChunk=True)], "while its task was working"),
    "credentials": ([NOTE, status("auth-required", text("Log in."))], "wants credentials .*: Log in."),
}
VERSIONS = ["0.3", "1.0"] if is_newer() else ["0.3"]
KINDS = [(version, streams) for version in VERSIONS for streams in (False, True)]
each_kind = pytest.mark.parametrize(("version", "streams"), KINDS)
REAL = mock_backend({"near": "By hand."}, remotes="real")


@each_kind
@pytest.mark.parametrize("name", ANSWERS)
async def test_the_answer_is_the_same_whole_and_streamed(name: str, version: str, streams: bool) -> None:
    """`run`, `ask`, `stream` and a session give it, the state has it, and a recording has it."""
    items, said = ANSWERS[name]
    calls: list[str] = []
    async with listening(server(items, streams=streams, version=version, calls=calls)) as url:
        far, recorder = RemoteAgent("far", endpoint=url).writes("out"), Recorder()
        result = await far.run("hi", backend=REAL, middleware=[recorder])
        assert (result.text, result.state["out"]) == (said, said)
        assert await far.ask_async("hi", backend=REAL) == said
        events = [event async for event in far.stream("hi", backend=REAL) if event.author == "far"]
        assert [event.content for event in events if not event.is_partial] == [said]
        async with far.session(backend=REAL) as chat:
            assert (await chat.send("hi")).text == said
    replayed = await far.run("hi", backend=ReplayerBackend(recorder.get_recording()))
    assert (replayed.text, replayed.state["out"]) == (said, said)
    assert len(calls) == 4  # a task that has ended is not cancelled
    assert len([part for part in parts_of(result) if part.inline_data]) == (name == "file")


@each_kind
@pytest.mark.parametrize("name", FAILURES)
async def test_a_failure_is_the_same_whole_and_streamed(name: str, version: str, streams: bool) -> None:
    """Progress is no answer: the error says what happened, and the fallback runs."""
    items, said = FAILURES[name]
    async with listening(server(items, streams=streams, version=version, calls=[])) as url:
        far = RemoteAgent("far", endpoint=url)
        with pytest.raises(RemoteError, match=said):
            await far.run("hi", backend=REAL)
        with pytest.raises(RemoteError, match=said):
            [event async for event in far.stream("hi", backend=REAL)]
        assert (await (far // Agent("near")).run("hi", backend=REAL)).text == "By hand."


class Bill(BaseModel):
    total: int


@each_kind
async def test_data_is_the_typed_answer(version: str, streams: bool) -> None:
    """Of a data part and the words around it the data fits the type; so does JSON in text."""
    for name in ("data", "text_and_data", "data_in_a_message", "data_in_a_status"):
        async with listening(server(ANSWERS[name][0], streams=streams, version=version, calls=[])) as url:
            far, recorder = RemoteAgent("far", endpoint=url).writes("out") @ Bill, Recorder()
            result = await far.run("hi", backend=REAL, middleware=[recorder])
            assert result.state["out"] == {"total": 5}
        replayed = await far.run("hi", backend=ReplayerBackend(recorder.get_recording()))
        assert replayed.state["out"] == {"total": 5}


@each_kind
async def test_a_question_is_the_same_whole_and_streamed(version: str, streams: bool) -> None:
    """A task that needs an answer pauses the run with its status message, whatever it has made so far."""
    items = [NOTE, artifact("a", text("Half.")), status("input-required", text("Which one?"))]
    calls: list[str] = []
    async with listening(server(items, streams=streams, version=version, calls=calls)) as url:
        result = await RemoteAgent("far", endpoint=url).run("hi", backend=REAL)
    assert [each.message for each in result.pending] == ["Which one?"]
    assert len(calls) == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_stream_gives_pieces_of_the_answer_and_progress_as_thoughts(version: str) -> None:
    """Pieces add up to the answer; what a task says while it works is a thought among them."""
    items = [NOTE, *ANSWERS["pieces"][0], DONE]
    async with listening(server(items, streams=True, version=version, calls=[])) as url:
        far = RemoteAgent("far", endpoint=url)
        pieces = [e async for e in far.stream("hi", backend=REAL) if e.is_partial]
    told = [(part.text, bool(part.thought)) for part in parts_of(pieces)]
    assert told == [
        ("Looking.", True),
        ("Hello ", False),
        ("world.", False),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_was_heard_and_not_given_out_is_tried_again(version: str) -> None:
    """A run that does not stream repeats a call that broke off, also where pieces came."""
    items, calls = [NOTE, artifact("a", text("Half."))], list[str]()
    async with listening(server(items, streams=True, version=version, calls=calls)) as url:
        far = RemoteAgent("far", endpoint=url, retry=RetryConfig(2, 0.0))
        with pytest.raises(RemoteError, match="tried 2 times"):
            await far.run("hi", backend=REAL)
    assert len([call for call in calls if "tream" in call]) == 2


# --- silence --------------------------------------------------------------------------------------

LEAVING: dict[str, Callable[[str, Expr[Any]], Expr[Any]]] = {
    "limit_of_the_agent": lambda url, other: RemoteAgent("far", endpoint=url, timeout=0.01) // Agent("near"),
    "limit_around": lambda url, other: RemoteAgent("far", endpoint=url).timeout(0.01) // Agent("near"),
    "race": lambda url, other: race(RemoteAgent("far", endpoint=url), other),
    "first_complete": lambda url, other: (RemoteAgent("far", endpoint=url) | other).merge("first_complete"),
    "fallback": lambda url, other: race(RemoteAgent("far", endpoint=url) // Agent("near"), other),
}


@pytest.mark.parametrize("names_task", [False, True])
@pytest.mark.parametrize("name", LEAVING)
async def test_a_silent_server_holds_nobody_up(
    name: str, names_task: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends while the server is silent; when it names a task later, that is cancelled."""
    monkeypatch.setattr(connections, "FAREWELL", 10 * LIMIT)
    gate, calls = Gate(after=int(names_task)), list[str]()

    @declares(reads=[], writes=["won"])
    async def other(state: Any) -> dict[str, bool]:
        await gate.reached.wait()
        return {"won": True}

    make = server([NOTE, NOTE, DONE], streams=True, version="0.3", calls=calls, gate=gate)
    async with listening(make) as url:
        made = LEAVING[name](url, S.fn(other))
        result = await within_limit(made.run("hi", backend=REAL))
        assert not gate.open.is_set()
        assert result.state.get("won") or result.text == "By hand."
        if calls:  # a short limit may end before the call is sent
            if not names_task:
                gate.open.set()
            await within_limit(gate.cancelled.wait())
        gate.open.set()


async def test_a_cancelled_run_ends_at_once_and_a_task_that_has_ended_is_left_alone() -> None:
    """Beside the run that was left, the server says that the task is done: there is nothing to cancel."""
    gate, calls = Gate(), list[str]()
    items = [status("failed", text("No."))]
    async with listening(server(items, streams=True, version="0.3", calls=calls, gate=gate)) as url:
        run = asyncio.ensure_future(RemoteAgent("far", endpoint=url).run("hi", backend=REAL))
        await within_limit(gate.reached.wait())
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await within_limit(run)
        gate.open.set()
        with pytest.raises(RemoteError, match=r"No\."):
            await RemoteAgent("far", endpoint=url).run("hi", backend=REAL)
    assert len(calls) == 2


def test_the_end_of_the_loop_cancels_what_was_left() -> None:
    """`asyncio.run` ends right after a stream that was left; its task is cancelled all the same."""
    calls: list[str] = []

    async def main(url: str) -> None:
        async with aclosing(RemoteAgent("far", endpoint=url).stream("hi", backend=REAL)) as events:
            async for event in events:
                if event.is_partial:  # so the server has named its task
                    break

    async def serve() -> None:
        gate = Gate(after=1)
        make = server([NOTE, DONE], streams=True, version="0.3", calls=calls, gate=gate)
        async with listening(make) as url:
            await in_thread(asyncio.run, main(url))
            assert calls[1:] == ["tasks/cancel"]
            gate.open.set()

    asyncio.run(serve())
