"""A pipeline with a queue, and worker processes of it that tests kill, stop and go on with."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent import Agent, S
from adk_fluent.distributed import TransportConfig, run_worker
from adk_fluent.expr.base import Expr
from adk_fluent.state import declares
from tests.limits import LIMIT, comes_true
from tests.processes import PROCESSES, start

HEARTBEAT: Final = 2.0
"""Seconds without a sign of life after which a worker of these tests counts as dead."""


def note(what: str) -> None:
    """Add a line to the log of the test, which is written at once."""
    with Path(os.environ["QUEUE_LOG"]).open("a") as log:
        log.write(f"{what}\n")


def held(name: str) -> bool:
    """Whether the test holds a step."""
    return (Path(os.environ["QUEUE_LOG"]).parent / f"hold {name}").exists()


@declares(reads=["task"], writes=["one"])
def one(state: Mapping[str, Any]) -> dict[str, str]:
    """A step that takes a moment."""
    note(f"one begins {state['task']}")
    time.sleep(0.02)
    note(f"one ends {state['task']}")
    return {"one": state["task"]}


@declares(reads=["task", "one"], writes=["two"])
def two(state: Mapping[str, Any]) -> dict[str, str]:
    """A step that waits while the test holds it, and that some tasks do not live through."""
    task = state["task"]
    note(f"two begins {task}")
    while held("two"):
        time.sleep(0.02)
    if task == "poison":
        os._exit(9)
    note(f"two ends {task}")
    return {"two": task}


class Computes(BaseLlm):
    """A model that computes on the event loop while the test holds it; some tasks never end."""

    model: str = "computes"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The task."""
        config: Any = llm_request.config
        task = str(config.system_instruction).partition("\n")[0]
        note(f"compute begins {task}")
        while task == "forever" or held("compute"):
            for _ in range(1_000_000):
                pass
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=task)]))


def pipeline(endpoint: str) -> Expr[Any]:
    """Two steps behind a queue; the prompt is the task."""
    queue = TransportConfig(endpoint=endpoint)
    return S.capture("task") >> (S.fn(one) >> S.fn(two)).execution_boundary(transport=queue)


def computing(endpoint: str) -> Expr[Any]:
    """A step behind a queue that computes on the event loop."""
    queue = TransportConfig(endpoint=endpoint)
    compute = Agent("compute", Computes()).instruct("{task}").writes("computed")
    return S.capture("task") >> compute.execution_boundary(transport=queue)


PIPELINES: Final = {"pipeline": pipeline, "computing": computing}

chosen: Expr[Any] = (
    PIPELINES[os.environ["QUEUE_KIND"]](os.environ["QUEUE"]) if "QUEUE" in os.environ else S.capture("task")
)


class Crew:
    """Worker processes of a queue.

    Args:
        address: the Temporal server.
        endpoint: the queue.
        folder: where they write their log.
        kind: which pipeline.

    Attributes:
        endpoint: the queue.
    """

    def __init__(self, address: str, endpoint: str, folder: Path, kind: str = "pipeline") -> None:
        self._address, self._folder, self.endpoint = address, folder, endpoint
        self._file = folder / "log"
        self._file.touch()
        self.workers: list[ForkServerProcess] = []
        self.said = {"QUEUE": endpoint, "QUEUE_KIND": kind, "QUEUE_LOG": str(self._file)}
        """What a worker finds in its environment."""

    def start(self) -> ForkServerProcess:
        """Start another one, which ends with this process."""
        made = PROCESSES.Process(target=work, args=(self._address, {**os.environ, **self.said}), daemon=True)
        start(made)
        self.workers.append(made)
        return made

    def hold(self, name: str) -> None:
        """Hold a step."""
        (self._folder / f"hold {name}").touch()

    def release(self, name: str) -> None:
        """Let it go."""
        (self._folder / f"hold {name}").unlink()

    def count(self, what: str) -> int:
        """How often something was noted."""
        return Counter(self._file.read_text().splitlines())[what]

    async def until(self, what: str, times: int = 1) -> None:
        """Wait until something was noted so often."""
        await comes_true(lambda: self.count(what) >= times, f"{what!r}, {times} times, in the log")

    async def last_dies(self) -> None:
        """Wait, for as long as it takes, until the worker that was started last has ended."""
        dead, loop, last = asyncio.Event(), asyncio.get_running_loop(), self.workers[-1].sentinel
        loop.add_reader(last, dead.set)
        try:
            await dead.wait()
        finally:
            loop.remove_reader(last)

    def end(self) -> None:
        """Kill all."""
        for each in self.workers:
            each.kill()
            each.join(LIMIT)


def work(address: str, environment: Mapping[str, str]) -> None:
    """Be a worker of the pipeline that the environment names."""
    os.environ.update(environment)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    pipeline = PIPELINES[environment["QUEUE_KIND"]](environment["QUEUE"])
    asyncio.run(run_worker(pipeline, address=address))
