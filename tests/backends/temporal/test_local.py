"""`ExecutionConfig(durable="local")`: the same guarantees on one machine, with nothing to start."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from adk_fluent import Agent, S, gate
from adk_fluent.backends import TraceBackend
from adk_fluent.backends.temporal.sharing import leave_servers
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError, EngineError, SessionConflictError
from adk_fluent.testing import mock_backend
from tests.backends.temporal.processes import Crew
from tests.backends.temporal.steps import FOLDER, pipeline

pytestmark = pytest.mark.newest

LOCAL = ExecutionConfig(durable="local")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which a program is started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    yield tmp_path
    leave_servers()


async def test_a_run_goes_on_where_its_program_was_killed(place: Path) -> None:
    """Run again with the same session and prompt, it does what was not done; another prompt is refused."""
    crew = Crew("", place, "")
    crew.hold("look")
    crew.start_alone("hi", "one")
    try:
        await crew.until("look begins")
    finally:
        crew.end()
    with pytest.raises(SessionConflictError, match="'one' has a run that has not ended"):
        await pipeline.run("another", session_id="one", config=LOCAL)
    crew.release("look")
    result = await pipeline.run("hi", session_id="one", config=LOCAL)
    assert (result.text, result.state["computed"]) == ("I am last.", "yes")
    begun = Counter(line for line in crew.log() if line.endswith("begins"))
    assert begun.pop("look begins") in (2, 3)  # the refused one has begun it as well
    assert set(begun.values()) == {1}


async def test_programs_share_a_folder(place: Path) -> None:
    """Two that start at once have one server, which lasts as long as anybody uses it."""
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def waits(state: object) -> dict[str, str]:
        begun.set()
        await goes_on.wait()
        return {"waited": "yes"}

    crew = Crew("", place, "")
    crew.hold("look")
    try:
        for name in ("one", "two"):
            crew.start_alone("hi", name)
        await crew.until("look begins", 2)
        mine = (waits >> Agent("a")).run("hi", config=LOCAL, backend=mock_backend({"a": "still here"}))
        run = asyncio.ensure_future(mine)
        await begun.wait()
        crew.release("look")
        assert await asyncio.to_thread(crew.ended) == [0, 0]
        goes_on.set()
        assert (await run).text == "still here"
    finally:
        crew.end()
    ends = Counter(line for line in crew.log() if line.endswith("ends"))
    assert set(ends.values()) == {2}


async def test_a_folder_that_cannot_be_written(place: Path) -> None:
    """It is named, in one line."""
    (place / ".adk-fluent").write_text("a file")
    with pytest.raises(EngineError, match=r"keeps runs in .*\.adk-fluent, which cannot be written") as found:
        await Agent("a").run("hi", config=LOCAL, backend=mock_backend({"a": "x"}))
    assert "\n" not in str(found.value)


async def test_runs_streams_approvals_and_sessions(place: Path) -> None:
    """It is a backend like any other: turns follow one another, a gate waits, a stream streams."""
    steps = S.counter("n") >> Agent("a").writes("said") >> gate(lambda state: state["n"] == 2, message="Go?")
    script = mock_backend({"a": "one two"})
    first = await steps.run("hi", session_id="s", config=LOCAL, backend=script)
    assert (first.text, first.state) == ("one two", {"n": 1, "said": "one two"})
    second = await steps.run("hi", session_id="s", config=LOCAL, backend=script)
    assert [pending.message for pending in second.pending] == ["Go?"]
    approvals = {second.pending[0].id: True}
    done = await steps.resume(session_id="s", approvals=approvals, config=LOCAL, backend=script)
    assert done.state["n"] == 2
    stream = Agent("a").stream("hi", config=LOCAL, backend=script)
    assert [event.content async for event in stream if event.is_partial] == ["one ", "two"]


async def test_only_adk_is_durable(place: Path) -> None:
    """Another backend cannot be made so."""
    with pytest.raises(ArgumentError, match="TraceBackend; leave backend or durable out"):
        await Agent("a").run("hi", config=LOCAL, backend=TraceBackend(mock_backend({"a": "x"})))
    with pytest.raises(ArgumentError, match="durable='far'"):
        ExecutionConfig(durable="far")  # pyright: ignore[reportArgumentType]  # what a caller may give
