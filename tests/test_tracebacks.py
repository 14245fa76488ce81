"""Tracebacks of our errors show the lines of the caller, and none of the library or of ADK."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from adk_fluent import Agent, Route, S
from adk_fluent._tracebacks import FULL, brief
from adk_fluent.cost import estimate_cost
from adk_fluent.errors import ADKFluentError, RunError, StepError, ToolError
from adk_fluent.serve import A2AServer
from adk_fluent.testing import call_tool, mock_backend

MOCK = mock_backend(default="ok")
CALLED = ("adk_fluent.expr.", "adk_fluent.cost.", "adk_fluent.serve.")
MISSPELT: Any = {"sesion_id": "x"}
A, B = Agent("a", "m").instruct("Say A."), Agent("b", "m").instruct("Say B.")


class Ticket(BaseModel):
    """A ticket about a problem."""

    team: str


def look_up(city: str) -> str:
    """Look up a city."""
    raise ValueError(f"no city {city}")


def broken(state: Mapping[str, Any]) -> dict[str, Any]:
    """Do what no state allows."""
    return {"total": 1 / len(state.get("prices", ()))}


async def streamed() -> None:
    """Read all of a stream."""
    async for _ in A.instruct("{topik}").stream("Hi", backend=MOCK):
        pass


async def conversed() -> None:
    """Say one thing in a conversation."""
    async with A.instruct("{topik}").session(backend=MOCK) as chat:
        await chat.send("Hi")


async def asked_inside() -> None:
    """Wait where waiting is impossible."""
    A.ask("Hi", backend=MOCK)


MISTAKES: dict[str, Callable[[], object]] = {
    "a key that is not set": lambda: A.instruct("About {topik}.").ask("Hi", backend=MOCK),
    "a tool that raises": lambda: A.tool(look_up).ask(
        "Hi", backend=mock_backend({"a": [call_tool("look_up", city="X")]})
    ),
    "a step that raises": lambda: (A >> broken >> B).ask("Hi", backend=MOCK),
    "a predicate that raises": lambda: (A >> Route().when(lambda s: s["x"] > 1, B)).ask("Hi", backend=MOCK),
    "an option that does not exist": lambda: A.ask("Hi", backend=MOCK, **MISSPELT),
    "an empty prompt": lambda: A.ask("", backend=MOCK),
    "an answer that does not fit": lambda: (A @ Ticket).ask("Hi", backend=mock_backend({"a": "No JSON."})),
    "an agent without a script": lambda: A.ask("Hi", backend=mock_backend({"b": "x"})),
    "two agents of one name": lambda: (A >> A.describe("Another.")).ask("Hi", backend=MOCK),
    "state that is not there": lambda: (A >> S.require("total")).ask("Hi", backend=MOCK),
    "one prompt of several": lambda: asyncio.run(A.instruct("{topik}").map(["1", "2"], backend=MOCK)),
    "a stream": lambda: asyncio.run(streamed()),
    "a conversation": lambda: asyncio.run(conversed()),
    "a run": lambda: asyncio.run(A.instruct("{topik}").run("Hi", backend=MOCK)),
    "no run to resume": lambda: asyncio.run(A.resume(session_id="gone", approvals={}, backend=MOCK)),
    "asked in an event loop": lambda: asyncio.run(asked_inside()),
    "a model without a price": lambda: estimate_cost(A >> Agent("c", "no-such-model").instruct("Say it.")),
    "a port that is none": lambda: asyncio.run(A2AServer(A, backend=MOCK).start(port=99_999)),
}


def error_of(mistake: Callable[[], object]) -> ADKFluentError:
    """The error that a mistake ends with."""
    with pytest.raises(ADKFluentError) as caught:
        mistake()
    return caught.value


def modules(error: BaseException) -> list[str]:
    """The modules of the frames of an error, without those that a program of asyncio always has."""
    names = [str(frame.f_globals["__name__"]) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [name for name in names if not name.startswith("asyncio.")]


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_traceback_is_the_callers(mistake: Callable[[], object]) -> None:
    """A traceback has at most the called function of the library; all other frames are the caller's."""
    error = error_of(mistake)
    ours = [name for name in modules(error) if name != __name__]
    assert len(ours) <= 2
    assert all(
        name.startswith(("adk_fluent.expr.", "adk_fluent.cost.", "adk_fluent.serve.")) for name in ours
    )
    shown = "".join(traceback.format_exception(error))
    assert shown.count("\n  File ") <= 12
    assert "no running event loop" not in shown
    assert "google/adk" not in shown
    assert shown.splitlines()[-1].startswith(f"{type(error).__module__}.{type(error).__qualname__}: ")


@pytest.mark.parametrize(
    ("name", "place"), [("a tool that raises", "look_up"), ("a step that raises", "broken")]
)
def test_the_lines_of_the_callers_function_stay(name: str, place: str) -> None:
    """The error of a caller's function is the cause, with only the frame of that function."""
    error = error_of(MISTAKES[name])
    assert isinstance(error, ToolError | StepError)
    assert error.__cause__ is not None
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__cause__.__traceback__)]
    assert frames[0] == place
    assert modules(error.__cause__) == [__name__]
    assert "direct cause of" in "".join(traceback.format_exception(error))


def test_what_the_caller_was_handling_stays() -> None:
    """An error that the caller handles while asking is still shown before ours."""

    def asks() -> None:
        try:
            int("seven")
        except ValueError:
            A.instruct("{topik}").ask("Hi", backend=MOCK)

    shown = "".join(traceback.format_exception(error_of(asks)))
    assert "During handling of the above exception" in shown
    assert 'int("seven")' in shown


def test_errors_of_a_group_are_shortened_too() -> None:
    """In a task group each error has the lines of its caller; so has one inside a group that is a cause."""

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(A.instruct("{topik}").ask_async("Hi", backend=MOCK))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(both())
    for error in caught.value.exceptions:
        assert [name for name in modules(error) if name != __name__] == ["adk_fluent.expr.terminals"]

    with pytest.raises(ValueError, match="no city") as raised:
        look_up("X")
    error = RunError("both")
    error.__cause__ = ExceptionGroup("two", [raised.value])
    with pytest.raises(RunError), brief():
        raise error
    (inner,) = error.__cause__.exceptions
    assert modules(inner)[-1] == __name__


def test_the_environment_keeps_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable of the environment set, nothing is cut; `0` is as unset."""
    mistake = MISTAKES["a key that is not set"]
    monkeypatch.setenv(FULL, "1")
    whole = "".join(traceback.format_exception(error_of(mistake)))
    assert "adk_fluent/backends" in whole
    monkeypatch.setenv(FULL, "0")
    assert "google/adk" not in "".join(traceback.format_exception(error_of(mistake)))
