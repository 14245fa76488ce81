"""Durable runs that are served over A2A: a task survives the death of its server and of its worker."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from adk_fluent import Agent
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError
from adk_fluent.serve import A2AServer
from adk_fluent.testing import mock_backend
from tests.backends.temporal.engine import Served, Workers
from tests.backends.temporal.processes import Crew
from tests.limits import LIMIT
from tests.remote.test_server import GATED
from tests.remote.wire import asking, call, message, state, task, task_in

pytestmark = pytest.mark.newest


@pytest.fixture
def port() -> Iterator[int]:
    """A port for the servers of a test, one after the other; a socket keeps it from everybody else.

    Who wants any free port does not get one that a socket is bound to, whether it listens or not; who wants
    this very port, as servers do that may share it, does.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(params=["local", "temporal"])
async def crew(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Crew]:
    """The processes of a test: a server that is its own worker, or one beside a worker."""
    address = ""
    if request.param == "temporal":
        server: DevServer = request.getfixturevalue("temporal")
        address = server.address
    crew = Crew(address, tmp_path, str(uuid.uuid4()))
    if address:
        crew.start()
    yield crew
    crew.end()


async def until_it_listens(url: str) -> None:
    """Wait until a server answers."""
    async with httpx.AsyncClient() as client, asyncio.timeout(LIMIT):
        while True:
            try:
                return (await client.get(url + "health")).raise_for_status() and None
            except httpx.HTTPError:
                await asyncio.sleep(0.05)


async def ended(url: str, id: str) -> dict[str, Any]:
    """A task, when it has ended."""
    async with asyncio.timeout(LIMIT):
        while True:
            told = (await call(url, asking(id))).json()["result"]
            if state(told) not in ("SUBMITTED", "WORKING"):
                return told
            await asyncio.sleep(0.05)


def words(told: dict[str, Any]) -> list[str]:
    """What a task was told, artifact by artifact."""
    return ["".join(part["text"] for part in artifact["parts"]) for artifact in told["artifacts"]]


async def begun(crew: Crew, url: str, line: str, words: str = "Go.", **more: Any) -> dict[str, Any]:
    """A task that is sent and not waited for, when something was written down."""
    body = message(words, **more)
    body["params"]["configuration"] = {"returnImmediately": True}
    told = task_in(await call(url, body))
    await crew.until(line)
    return told


async def closed(crew: Crew, told: dict[str, Any]) -> None:
    """Wait until the run of a task has ended in the engine."""
    session = told["contextId"]
    client = await Address(crew.address).client()
    await client.get_workflow_handle(f"adk_fluent_app/A2A_USER_{session}/{session}").result()


def check_begun(crew: Crew, interrupted: str, times: tuple[int, ...]) -> None:
    """Check how often the interrupted step was begun, and that all others were begun once."""
    counts = Counter(line for line in crew.log() if line.endswith("begins"))
    assert counts.pop(f"{interrupted} begins") in times
    assert set(counts.values()) == {1}


@pytest.mark.faults
async def test_a_task_goes_on_when_its_server_is_killed(crew: Crew, port: int) -> None:
    """Killed and started again on its store, a server answers the task, and repeats nothing that was done."""
    url = f"http://127.0.0.1:{port}/"
    crew.hold("look")
    server = crew.start_server(port)
    await until_it_listens(url)
    id = (await begun(crew, url, "look begins"))["id"]
    server.kill()
    server.join(LIMIT)
    crew.start_server(port)
    await until_it_listens(url)
    crew.release("look")
    told = await ended(url, id)
    assert (state(told), words(told)[-1]) == ("COMPLETED", "I am last.")
    assert len(told["artifacts"]) == len({each["artifactId"] for each in told["artifacts"]})
    check_begun(crew, "look", (1, 2))


@pytest.mark.faults
async def test_a_task_ends_while_its_server_is_away(temporal: DevServer, tmp_path: Path, port: int) -> None:
    """Started again, the server hands over the answer of the run that has ended, and begins no other one."""
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    url = f"http://127.0.0.1:{port}/"
    crew.hold("last")
    try:
        crew.start()
        server = crew.start_server(port)
        await until_it_listens(url)
        sent = await begun(crew, url, "last begins")
        server.kill()
        server.join(LIMIT)
        crew.release("last")
        await closed(crew, sent)
        crew.start_server(port)
        await until_it_listens(url)
        told = await ended(url, sent["id"])
    finally:
        crew.end()
    assert (state(told), words(told)[-1]) == ("COMPLETED", "I am last.")
    check_begun(crew, "last", (1,))


@pytest.mark.faults
async def test_an_answered_task_goes_on_when_its_server_is_killed(
    temporal: DevServer, tmp_path: Path, port: int
) -> None:
    """What a person has answered is not asked again."""
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    url = f"http://127.0.0.1:{port}/"
    crew.hold("last")
    try:
        crew.start("gated")
        server = crew.start_server(port, "gated")
        await until_it_listens(url)
        asked = await task(url, "Go.")
        assert state(asked) == "INPUT_REQUIRED"
        whose = {"taskId": asked["id"], "contextId": asked["contextId"]}
        await begun(crew, url, "last begins", "yes", **whose)
        server.kill()
        server.join(LIMIT)
        crew.start_server(port, "gated")
        await until_it_listens(url)
        crew.release("last")
        told = await ended(url, asked["id"])
    finally:
        crew.end()
    assert (state(told), words(told)[-1]) == ("COMPLETED", "I am last.")
    check_begun(crew, "last", (1,))


@pytest.mark.faults
async def test_a_task_goes_on_when_its_worker_is_killed(
    temporal: DevServer, tmp_path: Path, port: int
) -> None:
    """The server waits for another worker, which does what was not done."""
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    url = f"http://127.0.0.1:{port}/"
    crew.hold("look")
    try:
        crew.start()
        crew.start_server(port)
        await until_it_listens(url)
        id = (await begun(crew, url, "look begins"))["id"]
        crew.kill("look begins")
        crew.release("look")
        told = await ended(url, id)
    finally:
        crew.end()
    assert (state(told), words(told)[-1]) == ("COMPLETED", "I am last.")
    check_begun(crew, "look", (2,))


async def test_a_durable_task_that_waits_goes_on_in_another_server(workers: Workers, tmp_path: Path) -> None:
    """The answer of a person reaches the run that the engine has kept."""
    models = mock_backend({"clerk": "draft", "teller": "Told."})
    backend = Served(workers, {"models": models})
    store = tmp_path / "tasks.db"
    async with A2AServer(GATED, backend=backend, store=store) as server:
        asked = await task(server.url, "Go.", parts=[{"text": "Go."}, {"data": {"amount": 5}}])
        assert state(asked) == "INPUT_REQUIRED"
    async with A2AServer(GATED, backend=backend, store=store) as server:
        told = await task(server.url, "yes", taskId=asked["id"], contextId=asked["contextId"])
    assert state(told) == "COMPLETED"
    assert words(told)[-1] == "Told."
    assert len(models.calls["clerk"]) == 1


async def test_durable_conversations_run_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one machine, several tasks at once are all answered, and a conversation goes on."""
    monkeypatch.chdir(tmp_path)
    models = mock_backend({"clerk": lambda request: f"{len(request.contents)}"})
    local = ExecutionConfig(durable="local")
    async with A2AServer(Agent("clerk"), config=local, backend=models, store="tasks.db") as server:
        told = await asyncio.gather(*[task(server.url, f"m{n}", contextId=f"c{n}") for n in range(5)])
        again = await task(server.url, "again", contextId="c1")
    assert [words(each) for each in told] == [["1"]] * 5
    assert words(again) == ["3"]


def test_durable_runs_need_a_store() -> None:
    """Else their tasks would be lost with the server: it is told before anything listens."""
    given: list[dict[str, Any]] = [
        {"config": ExecutionConfig(durable="local")},
        {"backend": TemporalBackend()},
    ]
    for options in given:
        with pytest.raises(ArgumentError, match="runs that are durable need store="):
            A2AServer(Agent("clerk"), **options)
