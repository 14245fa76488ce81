"""A remote agent's answer beside what reference clients make of the same one, over a matrix of servers.

The reference is a2a-sdk's own client, with its own aggregation of what is streamed: the client's task manager
of version 0.3, and from 1.x on, whose client has none, that of its servers. `DIFFERENT` lists where a remote
agent's answer is another one on purpose. For whole answers ADK's own agent is a second reference.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest
from google.adk.runners import InMemoryRunner
from google.genai import types
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from adk_fluent import RemoteAgent
from adk_fluent.a2a.protocol.sdk import is_newer
from adk_fluent.errors import RemoteError
from tests.limits import LIMIT, within_limit
from tests.remote.others import listening
from tests.remote.test_answers import (
    ANSWERS,
    DONE,
    FAILURES,
    FILE,
    KINDS,
    NOTE,
    REAL,
    VERSIONS,
    Json,
    artifact,
    data,
    message,
    parts_of,
    server,
    snapshot,
    status,
    text,
)
from tests.sampling import examples

# --- servers --------------------------------------------------------------------------------------


class Servers:
    """Scripted servers on one port, each at a path of its own."""

    def __init__(self) -> None:
        self.port = 0
        self._apps: dict[str, Any] = {}
        self._numbers = itertools.count()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._apps[scope["path"].split("/")[1]](scope, receive, send)

    def add(self, items: list[Json], *, version: str, streams: bool) -> str:
        """The URL of one more server, which answers with these items."""
        name = f"s{next(self._numbers)}"
        make = server(items, streams=streams, version=version, calls=[], path=f"/{name}/")
        self._apps[name] = make(self.port)
        return f"http://127.0.0.1:{self.port}/{name}/"


@asynccontextmanager
async def serving() -> AsyncGenerator[Servers, None]:
    """Scripted servers, which are added one by one."""
    servers = Servers()

    def make(port: int) -> Servers:
        servers.port = port
        return servers

    async with listening(make):
        yield servers


# --- the reference --------------------------------------------------------------------------------

Parts = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Reference:
    """What a reference client makes of an answer.

    Attributes:
        state: the state of the task; "completed" for a message.
        made: the parts of all artifacts, or of the message.
        said: the parts of the status message.
    """

    state: str
    made: Parts
    said: Parts

    @property
    def outcome(self) -> tuple[Any, ...]:
        """What it comes to for whoever runs the agent."""
        answer = self.made or self.said
        if self.state == "completed" and answer:
            return ("answer", words(answer), [part for part in answer if part[0] == "file"])
        if self.state == "completed":
            return ("failure", "it gave no answer", "")
        if self.state == "input-required":
            return ("question", words(self.said).strip() or "It needs an answer.")
        if self.state in ("submitted", "working"):
            return ("failure", "it failed", f"it stopped answering while its task was {self.state}")
        return ("failure", ENDED[self.state], " ".join(words(self.said).split()).removesuffix("."))


ENDED = {
    "failed": "it failed",
    "canceled": "it cancelled the task",
    "rejected": "it rejected the task",
    "auth-required": "it wants credentials that it was not given",
}


def words(parts: Parts) -> str:
    """Text as it stands and data as JSON, which has lines of its own."""
    told, parts = "", [part for part in parts if part[0] != "file"]
    for kind, group in itertools.groupby(parts, lambda part: part[0]):
        for said in ["".join(part[1] for part in group)] if kind == "text" else [each[1] for each in group]:
            shown = said if kind == "text" else json.dumps(said, ensure_ascii=False)
            told += "\n" * bool(told and shown and not told.endswith("\n")) + shown
    return told


def parts_in(held: Any) -> Parts:
    """The parts of the JSON of a message or an artifact, in either version."""
    found: Parts = []
    for part in cast("list[Json]", held.get("parts", [])):
        file: Json = part.get("file", part)
        if "data" in part:
            found.append(("data", json.loads(json.dumps(part["data"]), parse_float=_number)))
        elif name := {"bytes", "raw", "uri", "url"} & file.keys():
            found.append(("file", file.get("mimeType") or file.get("mediaType"), file[name.pop()]))
        else:
            found.append(("text", part.get("text", "")))
    return found


def _number(digits: str) -> float:
    """A number of JSON; protobuf makes all of them floats."""
    return int(float(digits)) if float(digits).is_integer() else float(digits)


async def reference(url: str) -> Reference:
    """What a2a-sdk's client makes of a server's answer."""
    from a2a.client import A2ACardResolver
    from a2a.client.client import ClientConfig
    from a2a.client.client_factory import ClientFactory

    async with httpx.AsyncClient(timeout=LIMIT) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)
        held = await (_newest(client) if is_newer() else _oldest(client))
    if "status" not in held:
        return Reference("completed", parts_in(held), [])
    state = held["status"].get("state", "").lower().removeprefix("task_state_").replace("_", "-")
    made = [part for each in held.get("artifacts", []) for part in parts_in(each)]
    return Reference(state, made, parts_in(held["status"].get("message", {})))


async def _newest(client: Any) -> Json:
    from a2a.server.context import ServerCallContext
    from a2a.server.tasks import InMemoryTaskStore, TaskManager
    from a2a.types import Message, Part, Role, SendMessageRequest
    from google.protobuf.json_format import MessageToDict

    asked: Any = Message(message_id="u", role=cast(Any, Role).ROLE_USER, parts=[Part(text="hi")])
    manager = TaskManager(InMemoryTaskStore(), ServerCallContext(), None, None, None)
    async for item in client.send_message(SendMessageRequest(message=asked)):
        kind = str(item.WhichOneof("payload"))
        if kind == "message":
            return MessageToDict(item.message)
        await manager.process(getattr(item, kind))
    return MessageToDict(cast(Any, await manager.get_task()))


async def _oldest(client: Any) -> Json:
    import a2a.types

    types_: Any = a2a.types
    said = [types_.Part(root=types_.TextPart(text="hi"))]
    last: Any = None
    async for event in client.send_message(types_.Message(message_id="u", role="user", parts=said)):
        last = cast("tuple[Any, Any]", event)[0] if isinstance(event, tuple) else event
    return last.model_dump(mode="json", by_alias=True, exclude_none=True)


# --- ours -----------------------------------------------------------------------------------------


def files_in(parts: list[types.Part]) -> Parts:
    """The files among parts of ADK's."""
    found: Parts = []
    for part in parts:
        if blob := part.inline_data:
            found.append(("file", blob.mime_type, base64.b64encode(blob.data or b"").decode()))
        elif at := part.file_data:
            found.append(("file", at.mime_type, at.file_uri))
    return found


def from_adk(parts: list[types.Part]) -> Parts:
    """Parts of ADK's, in which JSON between marks stands for data."""
    found: Parts = []
    for part in parts:
        held = (part.inline_data.data if part.inline_data else None) or b""
        if held.startswith(b"<a2a_datapart_json>"):
            value = json.loads(held[19:-20], parse_float=_number)
            found.append(("data", value if is_newer() else value["data"]))
        else:
            found += files_in([part]) or [("text", part.text)]
    return found


async def ours(url: str) -> tuple[Any, ...]:
    """What a remote agent makes of a server's answer."""
    try:
        result = await RemoteAgent("far", endpoint=url, timeout=LIMIT).writes("out").run("hi", backend=REAL)
    except RemoteError as error:
        told = str(error).partition(f"{url.rstrip('/')}")[2].lstrip("/: ").removesuffix(".")
        what, _, why = told.partition(": ")
        return ("failure", what, why)
    if result.pending:
        return ("question", *(each.message for each in result.pending))
    assert result.state["out"] == result.text
    return ("answer", result.text, files_in(parts_of(result)))


async def compare(servers: Servers, items: list[Json], version: str, streams: bool) -> None:
    """Both make the same of it."""
    url = servers.add(items, version=version, streams=streams)
    expected, made = (await within_limit(reference(url))).outcome, await within_limit(ours(url))
    assert made == expected, (version, "streamed" if streams else "whole", items)


# --- the matrix -----------------------------------------------------------------------------------

LINK = {"kind": "file", "file": {"uri": "https://x.example/b", "mimeType": "text/csv", "name": "b.csv"}}
PARTS: dict[str, list[Json]] = {
    "text": [text("One "), text("two.")],
    "data": [data({"total": 5.5})],
    "file": [text("Bill"), FILE],
    "link": [LINK],
    "all": [text("a"), data({"b": None}), data({"c": [1, {}]}), LINK, text("d"), FILE],
}
BODIES: dict[str, Callable[[list[Json]], list[Json]]] = {
    "none": lambda parts: [],
    "one": lambda parts: [artifact("a", *parts, append=False, lastChunk=True)],
    "two": lambda parts: [artifact("a", *parts), NOTE, artifact("b", *parts, lastChunk=True)],
    "appended": lambda parts: [
        artifact("a", *parts, lastChunk=False),
        artifact("b", text("between")),
        artifact("a", *parts, append=True),
    ],
    "replaced": lambda parts: [
        artifact("a", text("old")),
        artifact("b", text("b")),
        artifact("a", *parts, lastChunk=True),
    ],
    "snapshot": lambda parts: [artifact("a", text("old")), snapshot("working", artifact("b", *parts))],
    "nameless": lambda parts: [snapshot("working", artifact("", text("first ")), artifact("", *parts))],
}
HALF = artifact("a", text("Half."))
NEWER = ("snapshot", "nameless", "bare_task_at_the_end", "a_message_beside_a_task")
"""Where the client of version 0.3 raises: it takes a task or a message as the first item only."""
ENDS = ["completed", "failed", "rejected", "canceled", "input-required", "auth-required", "working"]


def cases() -> Iterator[list[Json]]:
    """Each way in which artifacts come, each kind of part, and each end."""
    for body in BODIES:
        if is_newer() or body not in NEWER:
            yield [NOTE, *BODIES[body](PARTS["all"]), status("completed")]
            yield [NOTE, *BODIES[body](PARTS["text"]), DONE]
    for parts in PARTS.values():
        yield [message(*parts)]
        yield [status("submitted"), artifact("a", *parts), status("completed", *parts)]
        yield [NOTE, status("completed", *parts)]
    for end in ENDS:
        yield [status("working", data({"step": 1})), HALF, status(end, text("So it ends."))]
        yield [NOTE, status(end)]
    for items, _ in [*ANSWERS.values(), *FAILURES.values()]:
        yield items


@pytest.mark.parametrize(("version", "streams"), KINDS)
async def test_the_matrix(version: str, streams: bool) -> None:
    """Artifacts, status messages, states and kinds of parts, and all that is written down elsewhere."""
    async with serving() as servers:
        for items in cases():
            await compare(servers, items, version, streams)


# --- random answers -------------------------------------------------------------------------------

LETTERS = st.text("aé .\n", max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.just(0.5) | LETTERS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(LETTERS, inner, max_size=2),
    max_leaves=3,
)
SAID = st.lists(
    st.builds(text, LETTERS)
    | st.builds(data, st.dictionaries(LETTERS, VALUES, max_size=2))
    | st.sampled_from([FILE, LINK]),
    min_size=1,
    max_size=2,
)


@st.composite
def answers(draw: st.DrawFn) -> list[Json]:
    """What a server may answer: a message, or a task with its notes, its artifacts, and its end."""
    if draw(st.integers(0, 9)) == 0:
        return [message(*draw(SAID))]
    items, begun = [status("submitted")], set[str]()
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.integers(0, 3)) == 0:
            items.append(status("working", *draw(SAID)))
            continue
        id, parts = draw(st.sampled_from("ab")), draw(SAID)
        last = draw(st.sampled_from([{}, {"lastChunk": True}, {"lastChunk": False}]))
        items.append(artifact(id, *parts, append=id in begun and draw(st.booleans()), **last))
        begun.add(id)
    return [*items, status(draw(st.sampled_from(ENDS)), *draw(st.just([]) | SAID))]


@settings(max_examples=examples(12), deadline=None, phases=[Phase.explicit, Phase.generate])
@given(several=st.lists(answers(), min_size=1, max_size=3), version=st.sampled_from(VERSIONS))
def test_random_answers(several: list[list[Json]], version: str) -> None:
    """Whatever a server sends within the protocol, streamed and whole are what the reference makes of it."""

    async def all_of_them() -> None:
        async with serving() as servers:
            for items, streams in itertools.product(several, (True, False)):
                await compare(servers, items, version, streams)

    asyncio.run(all_of_them())


# --- where it is another one on purpose -----------------------------------------------------------

ECHO = message(text("hi")) | {"role": "user"}
DIFFERENT: dict[str, tuple[list[Json], tuple[Any, ...], str]] = {
    "append_without_a_first": (
        [artifact("a", text("One "), append=True), artifact("a", text("two."), append=True), DONE],
        ("answer", "One two.", []),
        "no piece is lost on its way, so the artifact begins there; the client of 0.3 leaves the pieces out, "
        "and the one of 1.x fails",
    ),
    "bare_task_at_the_end": (
        [HALF, artifact("b", text(" Done.")), snapshot("completed")],
        ("answer", "Half. Done.", []),
        "a task that lists no artifacts takes none back: servers send it so to end a stream, and ADK's agent "
        "keeps them, too",
    ),
    "after_a_question": (
        [NOTE, status("input-required", text("Which?")), status("working"), HALF, DONE],
        ("question", "Which?"),
        "a task that waits is answered before it goes on; its stream may stay open as long as it waits",
    ),
    "a_message_beside_a_task": (
        [NOTE, message(text("Paid."))],
        ("answer", "Paid.", []),
        "a message is an answer wherever it stands",
    ),
    "words_of_the_caller": (
        [status("completed") | {"status": {"state": "completed", "message": ECHO}}],
        ("failure", "it gave no answer", ""),
        "some servers repeat as a status message what they were sent",
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_differences(version: str) -> None:
    """Each of them is meant, and says why."""
    async with serving() as servers:
        for name, (items, expected, why) in DIFFERENT.items():
            if is_newer() or name not in NEWER:
                url = servers.add(items, version=version, streams=True)
                assert await within_limit(ours(url)) == expected, (name, why)


async def adks(url: str) -> tuple[Any, ...]:
    """What ADK's own agent makes of a server's answer."""
    from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

    async with httpx.AsyncClient() as client:  # one that ADK makes stays open until the collector finds it
        agent = RemoteA2aAgent(
            name="far", agent_card=f"{url}.well-known/agent-card.json", httpx_client=client
        )
        runner = InMemoryRunner(agent)
        session = await runner.session_service.create_session(app_name=runner.app_name, user_id="u")
        said = types.Content(role="user", parts=[types.Part(text="hi")])
        run = runner.run_async(user_id="u", session_id=session.id, new_message=said)
        content = [event async for event in run][-1].content
    told = from_adk((content.parts if content else None) or [])
    return ("answer", words(told), [part for part in told if part[0] == "file"])


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_whole_artifact_is_what_adk_makes_of_it(version: str) -> None:
    """Of several artifacts ADK's own agent gives the last one only, so it is asked for one, or a message."""
    async with serving() as servers:
        for parts in PARTS.values():
            for items in [message(*parts)], [artifact("a", *parts), status("completed")]:
                url = servers.add(items, version=version, streams=False)
                assert await within_limit(ours(url)) == await within_limit(adks(url)), items
