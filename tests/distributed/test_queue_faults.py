"""Queues while workers are killed, paused or blocked, and with many runs at once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflow.v1 import PendingActivityInfo

from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.errors import RunError
from tests.backends.temporal.engine import happened
from tests.distributed import served
from tests.distributed.queues import crew, segment_run, step_on_its_way
from tests.limits import LIMIT

pytestmark = pytest.mark.newest


async def test_a_step_that_blocks_the_event_loop_runs_once(
    redis: str, temporal: DevServer, tmp_path: Path
) -> None:
    """It computes for three times as long as a worker may be silent: it is not taken for dead, and its caller
    gets the answer. With the default of 5 s, that is a step of 15 s."""
    async with crew(temporal.address, redis, tmp_path, "computing") as (workers, run):
        workers.hold("compute")
        workers.start()
        running = run("sums")
        await workers.until("compute begins sums")
        step = await segment_run(temporal.address, workers.endpoint)
        await step_on_its_way(step, lambda now: _silence(now) >= 3 * served.HEARTBEAT)
        workers.release("compute")
        assert (await running).state["computed"] == "sums"
        assert workers.count("compute begins sums") == 1


def _silence(step: PendingActivityInfo) -> float:
    """Seconds for which a step has been at work when its worker was heard of last."""
    beat, since = step.last_heartbeat_time.ToDatetime(), step.last_started_time.ToDatetime()
    return (beat - since).total_seconds()


async def test_a_paused_worker_runs_nothing_twice(redis: str, temporal: DevServer, tmp_path: Path) -> None:
    """Stopped in a step until it counts as dead, it joins the step that still runs when it goes on."""
    async with crew(temporal.address, redis, tmp_path) as (workers, run):
        workers.hold("two")
        process = workers.start()
        running = run("sums")
        await workers.until("two begins sums")
        assert process.pid is not None
        step = await segment_run(temporal.address, workers.endpoint)
        os.kill(process.pid, signal.SIGSTOP)
        await happened(step, EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT)
        os.kill(process.pid, signal.SIGCONT)
        await step_on_its_way(step)  # in the next attempt
        workers.release("two")
        assert (await running).state["two"] == "sums"
        assert workers.count("two begins sums") == 1


@pytest.mark.faults
@pytest.mark.timeout(400)
async def test_a_poison_run_runs_alone_after_its_first_failure(
    redis: str, temporal: DevServer, tmp_path: Path
) -> None:
    """It kills its worker each time; innocent runs end well, hit once at most, and its caller is told."""
    async with crew(temporal.address, redis, tmp_path) as (workers, run):
        workers.hold("two")
        workers.start()
        names = [f"innocent{number}" for number in range(4)]
        innocent = [run(name) for name in names]
        poison = run("poison")
        for name in (*names, "poison"):
            await workers.until(f"two begins {name}")
        workers.release("two")

        async def replace() -> None:
            while True:
                await workers.last_dies()
                workers.start()

        replacing = asyncio.ensure_future(replace())
        try:
            results = await asyncio.gather(*innocent)
            with pytest.raises(RunError, match=r"'fn_2' was begun 5 times and never ended"):
                await poison
            assert (await run("after")).state["two"] == "after"
        finally:
            replacing.cancel()
            workers.end()
            await asyncio.gather(replacing, return_exceptions=True)
        assert [result.state["two"] for result in results] == names
        assert workers.count("two begins poison") == 5
        assert all(workers.count(f"two begins {name}") <= 2 for name in names)
        assert all(workers.count(f"one begins {name}") == 1 for name in names)


async def test_a_caller_says_how_often_a_step_is_begun(
    redis: str, temporal: DevServer, tmp_path: Path
) -> None:
    """The error names what to give, and where: `DistributedBackend(policy=StepPolicy(attempts=))`."""
    async with crew(temporal.address, redis, tmp_path, attempts=1) as (workers, run):
        workers.start()  # which dies in the step
        workers.start()  # which says so
        told = r"was begun once and never ended.* give the backend policy=StepPolicy\(timeout=, attempts=\)"
        with pytest.raises(RunError, match=told):
            await run("poison")
        assert workers.count("two begins poison") == 1


async def test_a_worker_with_a_blocked_loop_can_be_ended(
    redis: str, temporal: DevServer, tmp_path: Path
) -> None:
    """A step that never gives the event loop back does not keep a process alive that is told twice to end."""
    async with crew(temporal.address, redis, tmp_path, "computing") as (workers, run):
        command = [Path(sys.executable).parent / "adk-fluent", "worker", "tests.distributed.served:chosen"]
        process = subprocess.Popen(
            [*map(str, command), "--address", temporal.address],
            env={**os.environ, **workers.said, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stderr=subprocess.DEVNULL,
        )
        try:
            running = run("forever")
            await workers.until("compute begins forever")
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(LIMIT):
                while process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    await asyncio.sleep(0.1)
        finally:
            process.kill()
            process.wait(LIMIT)
        assert process.returncode == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.faults
@pytest.mark.timeout(900)
async def test_500_runs_at_once_lose_nothing(redis: str, temporal: DevServer, tmp_path: Path) -> None:
    """One caller starts 500 runs at once: each ends well, and each step runs once."""
    async with crew(temporal.address, redis, tmp_path) as (workers, run):
        workers.start()
        names = [f"task{number}" for number in range(500)]
        results = await asyncio.gather(*map(run, names))
        assert [result.state["two"] for result in results] == names
        assert all(workers.count(f"{step} begins {name}") == 1 for name in names for step in ("one", "two"))


@pytest.mark.faults
@pytest.mark.timeout(900)
async def test_no_finished_call_is_repeated_when_workers_are_killed(
    redis: str, temporal: DevServer, tmp_path: Path
) -> None:
    """Workers are killed at random, 20 times: all runs end well, and no step that had ended runs again."""
    await asyncio.gather(*(_killed(5, each, temporal.address, redis, tmp_path) for each in range(4)))


async def _killed(rounds: int, seed: int, address: str, server: str, folder: Path) -> None:
    """Kill the worker of a queue at random, so many times."""
    chance, folder = random.Random(seed), folder / str(seed)
    folder.mkdir()
    async with crew(address, server, folder) as (workers, run):
        workers.start()
        for number in range(rounds):
            names = [f"round{number}.{each}" for each in range(3)]
            workers.hold("two")
            runs = [run(name) for name in names]
            await workers.until(f"one begins {names[0]}")
            for name in names[: chance.randrange(4)]:
                await workers.until(f"two begins {name}")
            workers.workers[-1].kill()
            await workers.last_dies()
            kept = [name for name in names if workers.count(f"two begins {name}")]
            workers.release("two")
            workers.start()
            results = await asyncio.gather(*runs)
            assert [result.state["two"] for result in results] == names
            # The second step began, so the end of the first one was kept.
            assert all(workers.count(f"one begins {name}") == 1 for name in kept)
            assert all(workers.count(f"two ends {name}") == 1 for name in names)
