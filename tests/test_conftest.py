from __future__ import annotations

import os
import socket

import pytest
from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.genai import types
from hypothesis import settings

from tests.conftest import guard_network


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
