"""`isolation="process"`: segments run in processes of their own, which take work from a pipe."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from adk_fluent._tasks import PerLoop
from adk_fluent.backends.adk.api import places
from adk_fluent.distributed.formats import from_bytes, to_bytes
from adk_fluent.distributed.working import check_failed, check_files, crossing_of, events_of
from adk_fluent.errors import SegmentError

if TYPE_CHECKING:
    from adk_fluent.backends.adk.api import segments
    from adk_fluent.distributed.segments import Segment

HEAD: Final = 8
"""Bytes before each message that say how long it is; nothing follows one that says zero: the work is done."""


class Processes:
    """Runs a segment in up to `max_instances` processes; each does one piece of work at a time.

    A process starts when it is needed, or `min_instances` at the first run, and ends with this one. One that
    dies fails its piece of work alone; the next has another.

    Args:
        segment: the segment.
        target: the pipeline, as `module:attribute`, which the processes load.
    """

    def __init__(self, segment: Segment, target: str) -> None:
        self._segment, self._target = segment, target
        scaling = segment.boundary.scaling
        self._least = 0 if scaling is None else scaling.min_instances
        self._most = 1 if scaling is None else max(scaling.max_instances, 1)
        self._pools = PerLoop(dict[str | None, _Pool])

    async def run(self, work: segments.Work) -> AsyncGenerator[segments.Came, None]:
        """What happens in the segment.

        Raises:
            SegmentError: its process cannot be started, or died.
            BackendError: it uses artifacts, and the caller keeps those in memory.
        """
        segment, form = self._segment, self._segment.boundary.serialization
        data = to_bytes(crossing_of(segment, work), form)
        artifacts = work.services.get("artifact_service")
        check_files(segment, artifacts)
        pool = await self._pool(places.place_of(artifacts))
        async with pool.slots:
            process = pool.waiting() or await self._start(pool.artifacts)
            done = False
            try:
                await self._send(process, data)
                while answer := await self._receive(process):
                    back = from_bytes(answer, form)
                    done = back.error is not None
                    check_failed(segment, back)
                    for came in events_of(segment, back):
                        yield came
                done = True
            finally:
                if done and process.returncode is None:
                    pool.idle.append(process)
                elif process.returncode is None:  # it is in the middle of what nobody waits for any more
                    process.kill()
                    await process.wait()

    async def close(self) -> None:
        """End the processes that this event loop has started."""
        pools = self._pools.take() or {}
        for process in [process for pool in pools.values() for process in pool.idle]:
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()

    async def _pool(self, artifacts: str | None) -> _Pool:
        pools = self._pools.here()
        pool = pools.get(artifacts)
        if pool is None:
            pool = pools[artifacts] = _Pool(self._most, artifacts)
            pool.idle += [await self._start(artifacts) for _ in range(min(self._least, self._most))]
        return pool

    async def _start(self, artifacts: str | None) -> Process:
        command = [sys.executable, "-m", "adk_fluent.distributed", self._target]
        kept = [] if artifacts is None else ["--artifacts", artifacts]
        return await asyncio.create_subprocess_exec(
            *command, "--segment", self._segment.name, *kept, stdin=PIPE, stdout=PIPE, limit=2**20
        )

    async def _send(self, process: Process, data: bytes) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(len(data).to_bytes(HEAD, "big") + data)
            await process.stdin.drain()
        except ConnectionError:
            raise await self._dead(process) from None

    async def _receive(self, process: Process) -> bytes:
        assert process.stdout is not None
        try:
            size = int.from_bytes(await process.stdout.readexactly(HEAD), "big")
            return await process.stdout.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._dead(process) from None

    async def _dead(self, process: Process) -> SegmentError:
        code = await process.wait()
        return SegmentError(
            f"The process of segment {self._segment.name!r} ended with code {code} while it worked; its "
            f"error output says why. It was started with target {self._target!r}. Run the pipeline again."
        )


class _Pool:
    """The processes of one event loop that keep artifacts in one place.

    Attributes:
        artifacts: that place.
        slots: how many may work at once.
        idle: those that have nothing to do.
    """

    def __init__(self, most: int, artifacts: str | None) -> None:
        self.artifacts = artifacts
        self.slots = asyncio.Semaphore(most)
        self.idle: list[Process] = []

    def waiting(self) -> Process | None:
        """One that has nothing to do; those that have ended meanwhile are forgotten."""
        while self.idle:
            process = self.idle.pop()
            if process.returncode is None and not (process.stdout and process.stdout.at_eof()):
                return process
        return None
