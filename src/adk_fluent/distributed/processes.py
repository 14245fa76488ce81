"""`isolation="process"`: segments run in processes of their own, which take work from a pipe."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from adk_fluent.distributed.formats import from_bytes, to_bytes
from adk_fluent.distributed.working import check_failed, crossing_of, events_of
from adk_fluent.errors import SegmentError

if TYPE_CHECKING:
    from adk_fluent.backends.adk.steps.segment import Came, Work
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
        self._pools = WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool]()

    async def run(self, work: Work) -> AsyncGenerator[Came, None]:
        """What happens in the segment.

        Raises:
            SegmentError: its process cannot be started, or died.
        """
        segment, form = self._segment, self._segment.boundary.serialization
        data = to_bytes(crossing_of(segment, work), form)
        pool = await self._pool()
        async with pool.slots:
            process = pool.idle.pop() if pool.idle else await self._start()
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
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        for process in pool.idle if pool is not None else ():
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()

    async def _pool(self) -> _Pool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            pool = self._pools[loop] = _Pool(self._most)
            pool.idle += [await self._start() for _ in range(min(self._least, self._most))]
        return pool

    async def _start(self) -> Process:
        command = [sys.executable, "-m", "adk_fluent.distributed", self._target]
        return await asyncio.create_subprocess_exec(
            *command, "--segment", self._segment.name, stdin=PIPE, stdout=PIPE, limit=2**20
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
    """The processes of one event loop.

    Attributes:
        slots: how many may work at once.
        idle: those that have nothing to do.
    """

    def __init__(self, most: int) -> None:
        self.slots = asyncio.Semaphore(most)
        self.idle: list[Process] = []
