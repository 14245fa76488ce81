from __future__ import annotations

import asyncio
import importlib
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.genai import types
from hypothesis import settings

from tests.conftest import guard_network
from tests.limits import LIMIT

pytestmark = pytest.mark.newest  # the same on every release


def test_a_foreign_host_is_refused_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking up or dialling another machine raises at once and is remembered for the end of the test."""
    with monkeypatch.context() as patch:
        attempts = guard_network(patch)
        with pytest.raises(AssertionError, match="only use this machine"):
            socket.getaddrinfo("model.example", 443)
        with socket.socket() as sock, pytest.raises(AssertionError, match="only use this machine"):
            sock.connect(("192.0.2.1", 443))
    assert attempts == ["model.example", "192.0.2.1"]


def test_this_machine_stays_reachable() -> None:
    """A server on the loopback address can be dialled from a test."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert client.getpeername() == server.getsockname()


def test_a_connection_ends_with_its_loop() -> None:
    """Connections that are open when a loop ends are closed then, and not at garbage collection."""
    left: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        async def leave() -> None:
            left.append(await asyncio.open_connection(*server.getsockname()))

        asyncio.run(leave())
        other, _ = server.accept()
        with other:
            other.settimeout(60)
            with suppress(ConnectionResetError):
                assert other.recv(1) == b""
    assert left


def test_the_log_handler_of_absl_holds_no_stream_of_pytest() -> None:
    """The log handler of absl must not close the stream that captures a test's output."""
    absl: Any = importlib.import_module("absl.logging")
    assert absl.get_absl_handler().python_handler.stream is sys.__stderr__


def test_no_key_of_a_model_is_set() -> None:
    """A test sees no key or endpoint of a model, whatever the developer's shell exports."""
    assert not [name for name in os.environ if name.endswith("_API_KEY")]


async def test_a_real_model_cannot_answer() -> None:
    """An agent whose test forgot the scripted model fails with an error, it never calls out."""
    runner = InMemoryRunner(agent=LlmAgent(name="real", model="gemini-2.5-flash"), app_name="tests")
    session = await runner.session_service.create_session(app_name="tests", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="hello")])
    with pytest.raises(ValueError, match=r"(?i)api.key"):
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            pass


def test_random_examples_are_the_same_each_time() -> None:
    """Property tests draw the same examples on every run and have no time limit."""
    assert settings().derandomize
    assert settings().deadline is None


HANGING = """
import asyncio, threading

import pytest
from adk_fluent import Agent
from adk_fluent.testing import mock_backend

Agent("a").ask("Hi", backend=mock_backend({"a": "now all that takes time to import is imported"}))


@pytest.fixture
async def never():
    await asyncio.Event().wait()


def test_waits():
    threading.Event().wait()


async def test_awaits():
    await asyncio.Event().wait()


async def test_needs(never):
    assert never


def test_asks():
    async def pieces(request):
        await asyncio.Event().wait()
        yield "never"

    Agent("a").ask("Hi", backend=mock_backend({"a": pieces}))


def test_goes_on():
    assert True
"""


def test_a_test_that_hangs_fails_by_name(tmp_path: Path) -> None:
    """A test or fixture that waits forever fails at the limit, and the other tests still run."""
    (tmp_path / "test_hanging.py").write_text(HANGING)
    config = Path(__file__).resolve().parent.parent / "pyproject.toml"
    options = ["-p", "no:cacheprovider", "--timeout=1", "--junit-xml=report.xml"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", config, *options, tmp_path],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=2 * LIMIT,
    )
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout + ran.stderr
    cases = ElementTree.parse(tmp_path / "report.xml").iter("testcase")
    outcomes = {case.get("name"): [found.get("message", "") for found in case] for case in cases}
    assert outcomes.pop("test_goes_on") == []
    assert list(outcomes) == ["test_waits", "test_awaits", "test_needs", "test_asks"]
    assert [name for name, found in outcomes.items() if "Timeout (>1.0s)" not in "".join(found)] == []


def test_every_test_has_a_limit(pytestconfig: pytest.Config) -> None:
    """The limit is part of the configuration, so that no run of these tests can wait for ever."""
    assert 30 <= float(pytestconfig.getini("timeout")) <= 300
