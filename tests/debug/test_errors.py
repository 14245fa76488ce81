"""Errors of other libraries, which a replay raises again as what they were."""

from __future__ import annotations

import sys
from typing import Any

import httpx
import pytest
from google.genai.errors import ServerError

from adk_fluent import Agent
from adk_fluent.debug import Failure, Recorder, Recording, diff_recordings
from adk_fluent.debug.errors import bases_of, raised
from adk_fluent.errors import ModelError, ReplayError
from adk_fluent.middleware import Middleware, retry
from adk_fluent.testing import call_tool, mock_backend


class SdkError(Exception):
    """An error that takes more than a message, and says something else."""

    def __init__(self, message: str, request: object) -> None:
        super().__init__(message)
        self.request = request

    def __str__(self) -> str:
        return f"sdk: {self.args[0]} ({type(self.request).__name__})"


class LostError(SdkError, ConnectionError):
    """One of two bases."""


class Catching(Middleware):
    """Catches errors of tools by their class."""

    async def on_tool_error(self, ctx: Any, tool_name: str, args: Any, error: Exception) -> Any:
        """A result for those of the SDK."""
        try:
            raise error
        except SdkError as caught:
            return {"caught": str(caught)}


def pay(order: str) -> str:
    """Pay an order."""
    raise LostError(order, 1)


async def recorded(expression: Any, script: Any) -> Recording:
    """A recording of one run, as it is read from its file."""
    tape = Recorder()
    await tape.install(expression).run("Hi", backend=mock_backend(script))
    return Recording.from_json(tape.get_recording().to_json())


def trying(on: Any = None) -> Any:
    """An agent that tries again."""
    return Agent("a").middleware(retry(on=on, backoff_base=0))


def is_busy(error: Exception) -> bool:
    """Whether a server is busy."""
    return getattr(error, "code", 0) == 503


BUSY = ServerError(503, {"error": {"message": "busy"}})


@pytest.mark.parametrize(
    ("expression", "script"),
    [
        (trying(SdkError), [SdkError("no", 1), "yes"]),
        (trying((KeyError, SdkError)), [LostError("no", 1), "yes"]),
        (trying(), [LostError("no", 1), "yes"]),
        (trying(), [httpx.ConnectError("no"), "yes"]),
        (trying(ServerError), [BUSY, "yes"]),
        (trying(is_busy), [BUSY, BUSY, "yes"]),
        (Agent("a").tool(pay).middleware(Catching()), [call_tool("pay", order="7"), "done"]),
        (Agent("a") // Agent("b"), [SdkError("no", 1)]),
    ],
)
async def test_what_catches_an_error_by_its_class_catches_it_again(expression: Any, script: Any) -> None:
    """A retry, a hook and a fallback act on a recorded error as on the error itself."""
    recording = await recorded(expression, {"a": script, "b": "instead"})
    again = await recording.replay(expression)
    assert not diff_recordings(recording, again)
    assert not diff_recordings(recording, await again.replay(expression))


async def test_a_class_that_is_not_there_is_named() -> None:
    """A class that no imported module has is caught by nothing; a replay that fails for that names it."""

    class Inner(Exception):
        pass

    recording = await recorded(trying(Inner), {"a": [Inner("no"), "yes"]})
    with pytest.raises(
        ReplayError, match=r"error of class .*<locals>\.Inner, which is in no imported module"
    ):
        await recording.replay(trying(Inner))
    recording = await recorded(trying(KeyError) // Agent("b"), {"a": Inner("no"), "b": "instead"})
    assert not diff_recordings(recording, await recording.replay(trying(KeyError) // Agent("b")))


def test_an_error_runs_no_code_of_its_class() -> None:
    """No module is imported and no constructor called; what a file says of a class is not believed."""
    error = raised(Failure("LostError", "lost", 503, bases_of(LostError)))
    assert isinstance(error, LostError)
    assert (str(error), error.__dict__) == ("lost", {"code": 503, "status_code": 503})
    assert "antigravity" not in sys.modules
    for path in (
        "antigravity:X",
        "os:system",
        "builtins:exit",
        "builtins:",
        ":",
        "",
        "sys:modules.os",
        __name__,
    ):
        error = raised(Failure("X", "no", None, (path, "builtins:KeyError")))
        assert isinstance(error, KeyError)
        assert str(error) == "no"
        assert not isinstance(raised(Failure("X", "no", None, (path,))), ModelError)
    assert "antigravity" not in sys.modules
    assert isinstance(raised(Failure("X", "as a recording of an older format has it")), ModelError)
