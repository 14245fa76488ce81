"""`isolation="process"`: a segment runs in a process of its own."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import Process
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from google.adk.artifacts import FileArtifactService

from adk_fluent.backends.adk.artifacts.places import artifacts_at
from adk_fluent.distributed import DistributedBackend
from adk_fluent.distributed.__main__ import segment_of
from adk_fluent.errors import ArgumentError, BackendError, SegmentError, StepError
from tests.distributed.placed import filing, placed
from tests.limits import comes_true
from tests.processes import run

pytestmark = pytest.mark.newest
TARGET = "tests.distributed.placed:placed"


async def test_a_segment_runs_in_a_process_of_its_own() -> None:
    """It answers as here; the process serves one run after another, and a failure is the step's own."""
    backend = DistributedBackend(target=TARGET)
    try:
        both = await asyncio.gather(*(placed.run("sums", backend=backend) for _ in range(2)))
        pids = {result.state["pid"] for result in both}
        assert len(pids) == 2
        first = both[0]
        assert first.text == "Did sums."
        assert first.state["result"] == "Did sums."
        assert first.state["pid"] != os.getpid()
        with pytest.raises(StepError, match="Step 'fn' raised ValueError: no such task"):
            await placed.run("fail", backend=backend)
        second = await placed.run("sums", backend=backend)
        assert second.state["pid"] in pids
        with pytest.raises(SegmentError, match="segment 'fn' ended with code 3 while it worked"):
            await placed.run("die", backend=backend)
        third = await placed.run("sums", backend=backend)
        assert third.state["pid"] in pids
    finally:
        await backend.close()


async def test_a_process_that_ended_while_it_had_nothing_to_do_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No run fails for it: the next has another."""
    backend, started = DistributedBackend(target=TARGET), list[Process]()
    start = asyncio.create_subprocess_exec

    async def starts(*command: Any, **options: Any) -> Process:
        started.append(await start(*command, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", starts)
    try:
        first = (await placed.run("sums", backend=backend)).state["pid"]
        os.kill(first, SIGKILL)
        (process,) = started
        assert process.pid == first
        await comes_true(lambda: process.returncode is not None, "the end of the process")
        second = await placed.run("sums", backend=backend)
        assert second.text == "Did sums."
        assert second.state["pid"] != first
    finally:
        await backend.close()


async def test_artifacts_are_found_in_a_place_that_both_sides_name(tmp_path: Path) -> None:
    """A segment in another process reads what one before it saved, and saves what one behind it reads."""
    kept = FileArtifactService(root_dir=tmp_path)
    backend = DistributedBackend(target="tests.distributed.placed:filing", artifact_service=kept)
    try:
        result = await filing.run("Go", backend=backend)
    finally:
        await backend.close()
    assert (result.state["draft"], result.state["copy"]) == ("Did it.", "Did it.")


async def test_artifacts_in_memory_do_not_cross_and_that_is_said() -> None:
    """A segment that uses any is refused by name, before its process is started."""
    backend = DistributedBackend(target="tests.distributed.placed:filing")
    said = r"^Segment '\w+' uses 'draft.md', 'copy.md', and artifacts in the memory of one process do not"
    with pytest.raises(BackendError, match=said):
        await filing.run("Go", backend=backend)
    for wrong in ("s3://bucket", ""):
        with pytest.raises(ArgumentError, match="kept in a folder or in gs://bucket"):
            artifacts_at(wrong)


async def test_a_process_needs_to_know_what_to_load() -> None:
    """Without a target, or with one that is not there, one line says what is missing."""
    with pytest.raises(BackendError, match=r"DistributedBackend\(target='module:attribute'\)"):
        await placed.run("sums", backend=DistributedBackend())
    for target, said in (
        ("placed", "named as module:attribute"),
        ("tests.distributed.placed:other", "There is no pipeline"),
    ):
        with pytest.raises(ArgumentError, match=said):
            segment_of(target, "fn")
    with pytest.raises(ArgumentError, match="has no segment 'mail'; it has capture, fn"):
        segment_of(TARGET, "mail")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ([TARGET, "--segment", "mail"], "has no segment 'mail'; it has capture, fn"),
        (
            ["tests.distributed.placed:queued", "--segment", "heavy"],
            "Where it has a queue, start a worker of that",
        ),
    ],
)
def test_a_start_command_that_is_wrong_says_so_in_one_line(said: list[str], told: str) -> None:
    """A pipeline or a segment that is not there, or one that has a queue: no traceback."""
    command = "import runpy; runpy.run_module('adk_fluent.distributed', run_name='__main__', alter_sys=True)"
    done = run(command, *said)
    last = done.stderr.strip().splitlines()[-1]
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert last.startswith("python -m adk_fluent.distributed: ")
    assert told in last
