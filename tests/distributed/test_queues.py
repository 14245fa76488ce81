"""Queues between segments: each piece of work once, whatever is delivered how often, and whoever dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.adk.artifacts import FileArtifactService
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent import A, Agent, S
from adk_fluent.backends.adk.running.backend import ADKBackend
from adk_fluent.distributed import DistributedBackend, QueueWorker, TransportConfig, inward, split, to_bytes
from adk_fluent.distributed.queues import calling, serving
from adk_fluent.distributed.queues.brokers import Handler, Message, broker_of
from adk_fluent.errors import (
    ADKFluentError,
    ArgumentError,
    BackendError,
    MissingExtraError,
    ModelError,
    SegmentError,
    StepError,
)
from adk_fluent.expr.base import Expr
from adk_fluent.state import declares
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Hang, system

pytestmark = pytest.mark.newest


class Board:
    """A broker in this process, which delivers each message as soon as somebody takes its topic.

    Attributes:
        sent: topic → what was put into it.
    """

    def __init__(self) -> None:
        self.sent: dict[str, list[Message]] = {}
        self._handlers: dict[str, Handler] = {}
        self._tasks: set[asyncio.Future[None]] = set()

    def handle(self, topic: str, handler: Handler, *, at_once: int, redeliver_after: float) -> None:
        """Take the messages of a topic."""
        self._handlers[topic] = handler

    async def start(self) -> None:
        """Nothing is to be connected."""

    async def close(self) -> None:
        """Stop what is at work, as a process does that is killed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def publish(self, topic: str, message: Message) -> None:
        """Deliver a message."""
        self.sent.setdefault(topic, []).append(message)
        if (handler := self._handlers.get(topic)) is not None:
            task = asyncio.ensure_future(handler(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def again(self, topic: str, number: int = -1) -> None:
        """Deliver a message once more, and wait until it is done."""
        await self._handlers[topic](self.sent[topic][number])


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    """What workers and callers of the test are connected to."""
    made = Board()

    def the_board(endpoint: str) -> Board:
        return made

    for module in (calling, serving):
        monkeypatch.setattr(module, "broker_of", the_board)
    return made


QUEUE = TransportConfig(type="queue", endpoint="redis://127.0.0.1:1/heavy")
RAN: list[str] = []


@declares(reads=["task"], writes=["first"])
def first(state: Mapping[str, Any]) -> dict[str, str]:
    """A step that leaves a mark."""
    RAN.append("first")
    return {"first": f"{state['task']} began"}


clerk = Agent("clerk").writes("task")
behind = S.fn(first).execution_boundary(transport=QUEUE) >> Agent("heavy").instruct("{first}").writes(
    "result"
)
pipeline: Expr[Any] = clerk >> behind


def worker(backend: Any, folder: Path, **options: Any) -> QueueWorker:
    """A worker of the pipeline's queue."""
    return QueueWorker(pipeline, backend=backend, journal=folder / "journal.db", **options)


async def test_a_run_goes_through_a_queue(board: Board, tmp_path: Path) -> None:
    """What a worker does comes back: answer, state, and errors as they were."""
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    served = worker(script, tmp_path)
    result = await pipeline.run("Go", backend=DistributedBackend(script))
    assert (result.text, result.state["first"], result.state["result"]) == ("42", "sums began", "42")
    (message,) = board.sent["heavy"]
    assert message.headers["content-type"].endswith("crossing+json")
    await served.stop()


async def test_a_finished_piece_of_work_is_not_done_again(board: Board, tmp_path: Path) -> None:
    """A message that is delivered again is answered from the journal, also by another worker."""
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    served = worker(script, tmp_path)
    await pipeline.run("Go", backend=DistributedBackend(script))
    answers = len(board.sent[board.sent["heavy"][0].headers["reply"]])
    await served.stop()
    RAN.clear()
    other = worker(script, tmp_path)
    await board.again("heavy")
    await other.stop()
    assert RAN == []
    assert len(script.calls["heavy"]) == 1
    assert len(board.sent[board.sent["heavy"][0].headers["reply"]]) == 2 * answers - 1


async def test_work_goes_on_behind_the_last_finished_step(board: Board, tmp_path: Path) -> None:
    """When a worker dies between two steps, the next delivery runs only the second."""
    hang = Hang()
    script = mock_backend({"clerk": "sums"})
    served = worker(mock_backend({"heavy": hang}), tmp_path)
    RAN.clear()
    run = asyncio.ensure_future(pipeline.run("Go", backend=DistributedBackend(script)))
    await hang.started.wait()
    await served.stop()
    assert RAN == ["first"]
    healthy = mock_backend({"heavy": "42"})
    other = worker(healthy, tmp_path)
    await board.again("heavy")
    result = await run
    await other.stop()
    assert RAN == ["first"]
    assert (result.text, result.state["first"]) == ("42", "sums began")
    assert "sums began" in system(healthy.calls["heavy"][0])


async def test_work_that_nobody_lives_through_is_given_up(board: Board, tmp_path: Path) -> None:
    """After so many deliveries it is a dead letter, with the reason, and the caller is told."""
    served = None
    run = None
    script = mock_backend({"clerk": "sums"})
    for attempt in range(3):
        hang = Hang()
        served = worker(mock_backend({"heavy": hang}), tmp_path, max_attempts=2)
        if run is None:
            run = asyncio.ensure_future(pipeline.run("Go", backend=DistributedBackend(script)))
            await hang.started.wait()
        elif attempt == 1:
            delivery = asyncio.ensure_future(board.again("heavy"))
            await hang.started.wait()
            delivery.cancel()
            await asyncio.gather(delivery, return_exceptions=True)
        else:
            await board.again("heavy")
        await served.stop()
    assert run is not None
    with pytest.raises(SegmentError, match="given up after 2 deliveries that no worker lived through"):
        await run
    (dead,) = board.sent["heavy.dead"]
    assert "given up" in dead.headers["reason"]
    assert dead.body == board.sent["heavy"][0].body


async def test_what_is_no_message_is_a_dead_letter(board: Board, tmp_path: Path) -> None:
    """A poisoned message does not stop the worker, and is kept with the reason."""
    served = worker(mock_backend({}), tmp_path)
    await board.publish("heavy", Message(b"\xff not JSON", {}))
    await board.again("heavy")
    await served.stop()
    assert {message.body for message in board.sent["heavy.dead"]} == {b"\xff not JSON"}
    assert "not what crosses" in board.sent["heavy.dead"][0].headers["reason"]


async def test_a_failure_is_told_once_and_not_tried_again(board: Board, tmp_path: Path) -> None:
    """A step that raises fails the run, with its own error; a further delivery does not run it again."""

    @declares(reads=["task"], writes=["x"])
    def broken(state: Mapping[str, Any]) -> dict[str, str]:
        RAN.append("broken")
        raise ValueError("no such task")

    made = clerk >> S.fn(broken).execution_boundary(transport=QUEUE)
    script = mock_backend({"clerk": "sums"})
    served = QueueWorker(made, backend=script, journal=tmp_path / "journal.db")
    RAN.clear()
    with pytest.raises(StepError, match="ValueError: no such task") as caught:
        await made.run("Go", backend=DistributedBackend(script))
    assert isinstance(caught.value.__cause__, ValueError)
    await board.again("heavy")
    await served.stop()
    assert RAN == ["broken"]


class Refused(Exception):
    """What a provider's client raises."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.response = object()


@pytest.mark.parametrize("serialization", ["json", "protobuf", "arrow"])
async def test_an_error_comes_back_as_it_was(board: Board, tmp_path: Path, serialization: Any) -> None:
    """Its class, its short attributes and what caused it; no secret, and nothing that is no data."""

    async def busy(request: Any) -> AsyncGenerator[str]:
        raise Refused("Busy; the key was sk-abcdefghijklmnop1234.", 503)
        yield ""

    made = clerk >> Agent("heavy").execution_boundary(transport=QUEUE, serialization=serialization)
    script = mock_backend({"clerk": "sums", "heavy": busy})
    served = QueueWorker(made, backend=script, journal=tmp_path / "journal.db")
    with pytest.raises(ModelError, match="Agent 'heavy' got no answer") as caught:
        await made.run("Go", backend=DistributedBackend(script))
    await served.stop()
    cause = caught.value.__cause__
    assert isinstance(cause, Refused)
    assert (str(cause), cause.status_code) == ("Busy; the key was [redacted].", 503)
    assert vars(cause) == {"status_code": 503}
    assert "sk-abc" not in "".join(str(message) for topic in board.sent.values() for message in topic)


async def test_runs_of_one_session_take_turns(board: Board, tmp_path: Path) -> None:
    """Two pieces of work of a session never run at the same time; those of two sessions do."""
    at_work: list[str] = []
    most = {"a": 0, "b": 0}
    both = asyncio.Barrier(2)

    async def answer(request: Any) -> AsyncGenerator[str]:
        session = str(request.config.system_instruction).partition(" ")[0]
        at_work.append(session)
        most[session] = max(most[session], at_work.count(session))
        await both.wait()  # which ends only when both sessions are at work
        at_work.remove(session)
        yield "done"

    served = worker(mock_backend({"heavy": answer}), tmp_path)
    (_, second) = split(pipeline)

    def message(session: str, run: int) -> Message:
        said = {"role": "user", "parts": [{"text": "Go"}]}
        crossing = inward(
            second, state={"task": session}, message=said, run_id=f"{session}{run}", session_id=session
        )
        return Message(to_bytes(crossing), {})

    for session in ("a", "b"):
        for run in range(2):
            await board.publish("heavy", message(session, run))
    for number in range(4):
        await board.again("heavy", number)
    await served.stop()
    assert most == {"a": 1, "b": 1}


async def test_a_caller_is_told_when_no_worker_comes(board: Board, tmp_path: Path) -> None:
    """Within the time it is given; and a worker that comes later leaves the work alone."""
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    with pytest.raises(SegmentError, match=r"No worker took the work of segment 'fn' .* 'heavy' within 0 s"):
        await pipeline.run("Go", backend=DistributedBackend(script, patience=0))
    RAN.clear()
    served = worker(script, tmp_path)
    await board.again("heavy")
    await served.stop()
    assert RAN == []


async def test_artifacts_in_memory_are_refused(board: Board, tmp_path: Path) -> None:
    """What a caller keeps in memory no worker finds, and what a worker keeps so nobody: both say it."""
    made = A.save("draft.md", "Did it.") >> A.snapshot("draft.md", into_key="copy").execution_boundary(
        transport=QUEUE
    )
    said = "^Segment 'snapshot' uses 'draft.md', and artifacts in the memory of one process do not cross"
    with pytest.raises(BackendError, match=said):
        await made.run("Go", backend=DistributedBackend(mock_backend({})))
    assert not board.sent
    kept = FileArtifactService(root_dir=tmp_path)
    caller = DistributedBackend(mock_backend({}), artifact_service=kept)
    served = QueueWorker(made, backend=mock_backend({}), journal=tmp_path / "journal.db")
    with pytest.raises(BackendError, match=said):
        await made.run("Go", backend=caller)
    await served.stop()
    shared = ADKBackend(artifact_service=kept)
    served = QueueWorker(made, backend=shared, journal=tmp_path / "journal.db")
    assert (await made.run("Go", backend=caller)).state["copy"] == "Did it."
    await served.stop()


async def test_an_artifact_that_only_code_names_is_refused(board: Board, tmp_path: Path) -> None:
    """A tool that saves one where its worker keeps them in memory is told so; it would be lost."""

    async def note(tool_context: ToolContext) -> str:
        """Save a note."""
        part = types.Part(text="noted")
        return str(await tool_context.save_artifact("note.md", part))

    made = clerk >> Agent("heavy").tool(note).execution_boundary(transport=QUEUE)
    script = mock_backend({"clerk": "sums", "heavy": [call_tool("note"), "42"]})
    served = QueueWorker(made, backend=script, journal=tmp_path / "journal.db")
    with pytest.raises(ADKFluentError, match="artifacts in the memory of one process do not cross"):
        await made.run("Go", backend=DistributedBackend(script))
    await served.stop()


async def test_a_worker_of_another_version_says_so(board: Board, tmp_path: Path) -> None:
    """Work for another graph is refused by name instead of being run on this one."""
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    other = clerk >> S.fn(first).execution_boundary(transport=QUEUE) >> Agent("heavy").instruct("Another.")
    served = QueueWorker(other, backend=script, journal=tmp_path / "journal.db")
    with pytest.raises(SegmentError, match="'fn' is another version here"):
        await pipeline.run("Go", backend=DistributedBackend(script))
    await served.stop()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: broker_of("kafka://host/heavy"), "queues are at redis://"),
        (lambda: QueueWorker(clerk), "name one of the segments that have a queue; there is none"),
        (lambda: QueueWorker(pipeline, segment="clerk"), "'clerk' has no queue: give its boundary"),
        (
            lambda: QueueWorker(clerk.execution_boundary(transport=TransportConfig())),
            "has no queue: give its boundary",
        ),
    ],
)
def test_what_cannot_be_served_is_one_clear_line(make: Any, said: str) -> None:
    """An unknown scheme, a missing queue: what is wrong and what to write."""
    with pytest.raises((ArgumentError, MissingExtraError), match=said) as caught:
        make()
    assert "\n" not in str(caught.value)
