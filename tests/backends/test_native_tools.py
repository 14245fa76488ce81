from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.adk.cli.agent_graph import get_agent_graph

from adk_fluent import Agent, Route
from tests.limits import LIMIT, line_with

SRC = Path(__file__).resolve().parent.parent.parent / "src"

# What a user has in an agent folder; its model says one thing only, so that nothing is asked over a network.
AGENT = '''
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent import Agent, Route, S
from adk_fluent.config import ExecutionConfig


class Says(BaseLlm):
    """A model that always gives one answer, in two pieces when it streams."""

    answer: str

    async def generate_content_async(self, llm_request, stream=False):
        if stream:
            for piece in self.answer.partition(" "):
                if piece:
                    yield self.text(piece, partial=True)
        yield self.text(self.answer)

    def text(self, text, partial=None):
        content = types.Content(role="model", parts=[types.Part(text=text)])
        return LlmResponse(content=content, partial=partial)


def says(name, answer):
    return Agent(name, Says(model="says", answer=answer))


desk = says("billing_desk", "We refund you.").writes("answer")
pipeline = (
    S.capture("request")
    >> says("classifier", "billing").writes("kind")
    >> Route("kind").eq("billing", desk).otherwise(says("desk", "Hm?"))
    >> (says("friendly", "Kind regards") | says("formal", "Yours faithfully"))
    >> says("counter", "one").writes("count") * 2
)
'''
FOLDERS = {
    "as_agent": "root_agent = pipeline.build()",
    "as_app": 'app = pipeline.to_app(ExecutionConfig(app_name="as_app"))',
    "as_workflow": 'root_agent = pipeline.build(target="workflow")',
}
ANSWERS = [
    ("classifier", "billing"),
    ("billing_desk", "We refund you."),
    ("friendly", "Kind regards"),
    ("formal", "Yours faithfully"),
    ("counter", "one"),
    ("counter", "one"),
]
STATE = {"request": "My bill is wrong.", "kind": "billing", "answer": "We refund you.", "count": "one"}

every_folder = pytest.mark.parametrize(
    "folder", ["as_agent", "as_app", pytest.param("as_workflow", marks=pytest.mark.newest)]
)


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of agent folders, as ADK's tools take it."""
    root = tmp_path_factory.mktemp("agents")
    for name, last in FOLDERS.items():
        (root / name).mkdir()
        (root / name / "__init__.py").write_text("from . import agent\n")
        (root / name / "agent.py").write_text(f"{AGENT}\n{last}\n")
    return root


def environment() -> dict[str, str]:
    """The environment of ADK's tools, without keys."""
    found = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    path = os.pathsep.join(filter(None, [str(SRC), found.get("PYTHONPATH")]))
    return {**found, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


@contextmanager
def serving(*arguments: str) -> Generator[httpx.Client]:
    """One of ADK's servers on a free port of this machine, and a client for it."""
    tool = [sys.executable, "-W", "ignore", "-m", "google.adk.cli"]
    with subprocess.Popen(
        [*tool, *arguments, "--host", "127.0.0.1", "--port", "0"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        try:
            said = line_with("Uvicorn running on", server)
            drain = threading.Thread(target=deque, args=(server.stdout, 0), daemon=True)
            drain.start()
            address = next(word for word in said.split() if word.startswith("http://"))
            with httpx.Client(base_url=address, timeout=LIMIT, trust_env=False) as client:
                yield client
        finally:
            server.terminate()
            try:
                server.wait(LIMIT)
            finally:
                server.kill()
    drain.join(LIMIT)


@pytest.fixture(scope="module")
def api(agents: Path) -> Iterator[httpx.Client]:
    """ADK's API server."""
    with serving("api_server", str(agents)) as client:
        yield client


@pytest.fixture(scope="module")
def web(agents: Path) -> Iterator[httpx.Client]:
    """ADK's development server with its page."""
    with serving("web", str(agents)) as client:
        yield client


def message(client: httpx.Client, folder: str) -> dict[str, Any]:
    """The body that asks the agent of a folder in a new session."""
    session = client.post(f"/apps/{folder}/users/u/sessions", json={}).raise_for_status().json()
    return {
        "appName": folder,
        "userId": "u",
        "sessionId": session["id"],
        "newMessage": {"role": "user", "parts": [{"text": "My bill is wrong."}]},
    }


def answers(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Who said what in full, in order; the two parallel answers by name."""
    said = [
        (event["author"], "".join(part.get("text", "") for part in event["content"]["parts"]))
        for event in events
        if event.get("content") and not event.get("partial")
    ]
    return said[:2] + sorted(said[2:4], reverse=True) + said[4:]


def stored(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    """The state of the session afterwards."""
    session = client.get(f"/apps/{body['appName']}/users/u/sessions/{body['sessionId']}").raise_for_status()
    return session.json()["state"]


# Most of a call is importing ADK, so one process calls the tool for several folders.
RUN_EACH = """
import sys
from google.adk.cli import cli_tools_click
for folder in sys.argv[2:]:
    cli_tools_click.main(["run", "--replay", sys.argv[1], folder], standalone_mode=False)
    print(end=chr(12))
"""


@pytest.mark.parametrize(
    "folders", [["as_agent", "as_app"], pytest.param(["as_workflow"], marks=pytest.mark.newest)]
)
def test_adk_run(agents: Path, folders: list[str], tmp_path: Path) -> None:
    """`adk run` finds the compiled pipeline in a folder and plays a conversation with it."""
    replay = tmp_path / "replay.json"
    replay.write_text(json.dumps({"state": {}, "queries": ["My bill is wrong."]}))
    command = [sys.executable, "-W", "ignore", "-c", RUN_EACH, str(replay)]
    done = subprocess.run(
        [*command, *(str(agents / folder) for folder in folders)],
        env=environment(),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("\f")[:-1]
    assert len(printed) == len(folders)
    for text in printed:
        for author, said in ANSWERS:
            assert f"[{author}]: {said}" in text


@every_folder
def test_adk_api_server_runs_it(api: httpx.Client, folder: str) -> None:
    """`adk api_server` runs a pipeline on /run: every answer in its events, every key in the session."""
    assert folder in api.get("/list-apps").raise_for_status().json()
    body = message(api, folder)
    events = api.post("/run", json=body).raise_for_status().json()
    assert answers(events) == ANSWERS
    assert stored(api, body) == STATE


@every_folder
def test_adk_api_server_streams_it(api: httpx.Client, folder: str) -> None:
    """`adk api_server` streams a pipeline on /run_sse, pieces of answers included."""
    body = message(api, folder)
    with api.stream("POST", "/run_sse", json={**body, "streaming": True}) as response:
        lines = [line for line in response.iter_lines() if line.startswith("data: ")]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert answers(events) == ANSWERS
    assert "We" in [event["content"]["parts"][0]["text"] for event in events if event.get("partial")]
    assert stored(api, body) == STATE


@every_folder
def test_adk_web_serves_it(web: httpx.Client, folder: str) -> None:
    """`adk web` shows its page, lists the pipeline and runs it."""
    page = web.get("/dev-ui/").raise_for_status()
    assert "<html" in page.text.lower()
    assert folder in web.get("/list-apps").raise_for_status().json()
    assert answers(web.post("/run", json=message(web, folder)).raise_for_status().json()) == ANSWERS


@pytest.mark.newest
@pytest.mark.parametrize("folder", FOLDERS)
def test_adk_web_draws_it(web: httpx.Client, folder: str) -> None:
    """`adk web` gets the graph of a pipeline, every agent of it included."""
    graph = web.get(f"/dev/apps/{folder}/build_graph").raise_for_status().text
    for author, _ in ANSWERS:
        assert author in graph


async def test_adk_draws_the_agents() -> None:
    """ADK's own drawing of an agent tree shows every agent of a pipeline."""
    expr = Agent("first") >> (Agent("left") | Agent("right") * 2) >> Route("k").eq(1, Agent("last"))
    graph: Any = await get_agent_graph(expr.build(), [])
    for name in ("first", "left", "right", "last"):
        assert name in graph.source
