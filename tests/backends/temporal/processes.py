"""Worker processes that can be killed; they start from one process that has imported everything."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Final

from adk_fluent.backends import StepPolicy, TemporalBackend
from tests.limits import LIMIT, comes_true
from tests.processes import PROCESSES, start

HEARTBEAT: Final = 2.0
"""Seconds without a sign of life after which a worker of these tests counts as dead."""


class Crew:
    """The worker processes of a test, and what they write down."""

    def __init__(self, address: str, folder: Path, queue: str) -> None:
        self.address, self.folder, self.queue = address, folder, queue
        self._processes: list[Any] = []

    def start(self, expression: str = "pipeline", segment: str | None = None) -> Any:
        """Start a worker for an expression of `steps`."""
        from tests.backends.temporal.served import serve

        arguments = (self.address, expression, self.queue, str(self.folder), segment)
        process = PROCESSES.Process(target=serve, args=arguments)
        start(process)
        self._processes.append(process)
        return process

    def start_alone(self, prompt: str, session_id: str) -> None:
        """Start a program that runs the pipeline by itself, durable on this machine."""
        from tests.backends.temporal.served import run_alone

        process = PROCESSES.Process(target=run_alone, args=(prompt, session_id, str(self.folder)))
        start(process)
        self._processes.append(process)

    def start_server(self, port: int, expression: str = "pipeline") -> Any:
        """Start a process that serves an expression of `steps` over A2A."""
        from tests.backends.temporal.served import serve_tasks

        arguments = (self.address, expression, self.queue, str(self.folder), port)
        process = PROCESSES.Process(target=serve_tasks, args=arguments)
        start(process)
        self._processes.append(process)
        return process

    def end(self) -> None:
        """Kill all that still work."""
        for process in self._processes:
            process.kill()
            process.join(LIMIT)

    def ended(self) -> list[int | None]:
        """Wait until all have ended by themselves; what they ended with."""
        for process in self._processes:
            process.join(LIMIT)
        return [process.exitcode for process in self._processes]

    def hold(self, name: str) -> None:
        """Let a step wait from now on."""
        (self.folder / f"hold-{name}").touch()

    def release(self, name: str) -> None:
        """Let it go on."""
        (self.folder / f"hold-{name}").unlink()

    def log(self) -> list[str]:
        """What was written down."""
        return [line.rpartition(" in ")[0] for line in self._lines()]

    def _lines(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    async def until(self, line: str, times: int = 1) -> None:
        """Wait until something was written down so often."""
        await comes_true(lambda: self.log().count(line) >= times, f"{line!r}, {times} times, in the log")

    def author(self, line: str) -> int:
        """The process that wrote a line last."""
        return int(next(one for one in reversed(self._lines()) if one.startswith(line)).rpartition(" ")[2])

    def kill(self, line: str, expression: str = "pipeline") -> None:
        """Kill who wrote a line last, and start another one in its place."""
        os.kill(self.author(line), signal.SIGKILL)
        self.start(expression)

    def clear(self) -> None:
        """Forget what was written down."""
        (self.folder / "log").unlink(missing_ok=True)


def backend_of(crew: Crew, **policy: int) -> TemporalBackend:
    """What starts runs for the workers of a test, and soon notices that one is dead."""
    return TemporalBackend(
        crew.address, queue=crew.queue, policy=StepPolicy(heartbeat=HEARTBEAT, **policy), worker_timeout=LIMIT
    )
