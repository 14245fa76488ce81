"""Queues between segments, at every broker: work runs once, whatever is delivered how often."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import pytest
from google.adk.artifacts import FileArtifactService
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent import A, Agent, C, S, gate
from adk_fluent.backends.adk.running.sqlite import sqlite_sessions
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.backends.temporal.turns import Turnstile
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed import DistributedBackend, TransportConfig, inward, split, to_bytes
from adk_fluent.distributed.queues import calling, serving
from adk_fluent.distributed.queues.brokers import Message
from adk_fluent.distributed.queues.serving import Taker, work_in
from adk_fluent.errors import (
    ADKFluentError,
    ArgumentError,
    BackendError,
    EngineError,
    ModelError,
    RunError,
    SegmentError,
    SessionError,
    StepError,
)
from adk_fluent.expr.base import Expr
from adk_fluent.state import declares
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Hang
from tests.backends.test_waiting import GIVEN, B, all_kinds, calls_at_once, every_kind
from tests.clock import Clock
from tests.distributed.queues import a_queue, caller, consumer, heard, put, until, worker
from tests.limits import LIMIT, begins, comes_true, within_limit

pytestmark = pytest.mark.newest
RAN: list[str] = []


@declares(reads=["task"], writes=["first"])
def first(state: Mapping[str, Any]) -> dict[str, str]:
    """A step that leaves a mark."""
    RAN.append(state["task"])
    return {"first": f"{state['task']} began"}


clerk = Agent("clerk").writes("task")
heavy = Agent("heavy").instruct("{first}").writes("result")


def behind(queue: TransportConfig) -> Expr[Any]:
    """A pipeline with two steps behind a queue."""
    return clerk >> (S.fn(first) >> heavy).execution_boundary(transport=queue)


def work_for(pipeline: Expr[Any], task: str, run_id: str, session_id: str = "ann") -> Message:
    """A message as a caller writes it."""
    segment = split(pipeline)[-1]
    said = {"role": "user", "parts": [{"text": "Go"}]}
    crossing = inward(
        segment, state={"task": task}, message=said, run_id=run_id, session_id=session_id, user_id="user"
    )
    return Message(to_bytes(crossing, segment.boundary.serialization), {})


async def answer_of(pipeline: Expr[Any], address: str, message: Message) -> list[str]:
    """What came of the work of a message."""
    from adk_fluent.distributed import from_bytes

    segment = split(pipeline)[-1]
    work = work_in(segment.queue, from_bytes(message.body, segment.boundary.serialization))
    engine = Turnstile(Address(address))
    await until(lambda: engine.is_started(work))
    return (await engine.result(work, "", LIMIT))[0]


async def test_a_run_goes_through_a_queue(broker: str, temporal: DevServer) -> None:
    """What a worker does comes back through the engine: the answer, and the state."""
    pipeline = behind(a_queue(broker))
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    async with caller(temporal.address, script) as backend:
        early = asyncio.ensure_future(pipeline.run("Go", backend=backend))  # before there is a worker
        async with worker(pipeline, temporal.address, models=script):
            results = await asyncio.gather(early, *(pipeline.run("Go", backend=backend) for _ in range(5)))
    for result in results:
        assert (result.text, result.state["first"], result.state["result"]) == ("42", "sums began", "42")


async def test_a_duplicate_joins_the_workflow(
    broker: str, temporal: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that is put in again and again, while its work runs and when it is done, runs once."""
    taken: list[Message] = []

    async def take(taker: Taker, message: Message) -> None:
        await took(taker, message)
        taken.append(message)

    took = Taker.take
    monkeypatch.setattr(Taker, "take", take)
    queue = a_queue(broker)
    pipeline, hang = behind(queue), Hang()
    message = work_for(pipeline, f"once at {broker}", "r1")
    last = work_for(pipeline, f"last at {broker}", "r2")
    assert queue.endpoint is not None
    RAN.clear()
    await put(queue.endpoint, message, message)
    async with worker(pipeline, temporal.address, models=mock_backend({"heavy": hang})):
        await within_limit(hang.started.wait())
        await put(queue.endpoint, message, message)
        await comes_true(lambda: len(taken) >= 4, "four messages with one piece of work")
    script = mock_backend({"heavy": "42"})
    async with worker(pipeline, temporal.address, models=script):
        first_answer = await answer_of(pipeline, temporal.address, message)
        await put(queue.endpoint, message, message, last)
        await answer_of(pipeline, temporal.address, last)
        assert await answer_of(pipeline, temporal.address, message) == first_answer
    assert [f"once at {broker}", f"last at {broker}"] == RAN
    assert len(script.calls["heavy"]) == 2


async def test_a_message_comes_again_until_the_engine_has_its_work(
    broker: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker delivers a message again if the engine did not take its work; the log says so in two lines."""
    asked: list[str] = []
    taken = asyncio.Event()

    class Engine:
        async def start(self, work: Any, task_queue: str, given: Any) -> None:
            asked.append(work.key)
            if len(asked) == 1:
                raise EngineError("It is away.")
            taken.set()

    queue = a_queue(broker)
    pipeline = behind(queue)
    assert queue.endpoint is not None
    await put(queue.endpoint, work_for(pipeline, "sums", "r"))
    running = asyncio.ensure_future(Taker(split(pipeline)[-1], cast(Any, Engine()), 3600).run())
    await taken.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(asked) == 2
    assert len(set(asked)) == 1
    engine = f"The engine of queue {split(pipeline)[-1].queue!r}"
    lines = [record.getMessage() for record in caplog.records if record.name == "adk_fluent.queues"]
    assert lines == [
        f"{engine} is away, waiting for it: EngineError: It is away.",
        f"{engine} is back.",
    ]


async def test_a_consumer_ends_whatever_its_client_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that fails when it is cancelled, as with a lost connection, is not taken for an outage."""
    taking = asyncio.Event()

    class Client:
        async def open(self) -> None: ...

        async def close(self) -> None: ...

        async def take(self, queue: str, handler: Any) -> None:
            taking.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                raise ConnectionError("The reply was not read.") from error

    def client(endpoint: str) -> Client:
        return Client()

    monkeypatch.setattr(serving, "broker_of", client)
    segment = split(behind(a_queue("redis://127.0.0.1:1")))[-1]
    running = asyncio.ensure_future(Taker(segment, cast(Any, None), 3600).run())
    await within_limit(taking.wait())
    running.cancel()
    await asyncio.wait([running], timeout=LIMIT)
    assert running.cancelled()


async def test_a_consumer_ends_whenever_it_is_cancelled(redis: str) -> None:
    """Its client loses a cancellation that comes while it hands back a connection; the consumer does not."""
    endpoint = str(a_queue(redis).endpoint)
    handled: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(message: Message) -> None:
        await handled.put(message.body)

    for steps in range(40):
        await put(endpoint, Message(b"work", {}))
        async with consumer(endpoint, handle) as taking:
            await within_limit(handled.get())
            for _ in range(steps):
                await asyncio.sleep(0)
            taking.cancel()
            await asyncio.wait([taking], timeout=LIMIT)
            assert taking.cancelled(), f"cancelled after {steps} steps"


async def test_an_ended_consumer_keeps_no_messages(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next consumer gets unhandled and later messages, and not after a delay."""
    if broker.startswith("pubsub:"):
        from adk_fluent.distributed.queues import pubsub

        monkeypatch.setattr(pubsub, "REDELIVER_AFTER", 600)  # its emulator delivers to streams that were cut
    endpoint = str(a_queue(broker).endpoint)
    bodies = [b"first", b"held", *(b"later%d" % number for number in range(6))]
    holding, heard_all = asyncio.Event(), asyncio.Event()
    handled: set[bytes] = set()

    async def hold(message: Message) -> None:
        if message.body == b"held":
            holding.set()
            await asyncio.Event().wait()
        handled.add(message.body)

    async def hear(message: Message) -> None:
        handled.add(message.body)
        if handled >= set(bodies):
            heard_all.set()

    messages = [Message(body, {}) for body in bodies]
    await put(endpoint, *messages[:2])
    async with consumer(endpoint, hold):
        await within_limit(holding.wait())
        await put(endpoint, *messages[2:5])
    async with consumer(endpoint, hear):
        await put(endpoint, *messages[5:])
        await within_limit(heard_all.wait())
    assert handled == set(bodies)


async def test_junk_is_a_dead_letter(
    broker: str, temporal: DevServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue keeps what is no work for this segment with the reason; the worker goes on."""
    queue = a_queue(broker)
    pipeline = behind(queue)
    other = clerk >> Agent("another").execution_boundary(transport=queue)
    unnamed = work_for(pipeline, "x", run_id="")
    never = Message(work_for(pipeline, "x", "r").body, {"policy": '{"attempts": 0}'})
    assert queue.endpoint is not None
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    caplog.set_level(logging.ERROR, "adk_fluent.queues")
    async with worker(pipeline, temporal.address, models=script), caller(temporal.address, script) as backend:
        junk = (Message(b"\xff not JSON", {"from": "a stranger"}), work_for(other, "x", "r"), unnamed, never)
        await put(queue.endpoint, *junk)
        assert (await pipeline.run("Go", backend=backend)).text == "42"
        dead = await heard(queue.endpoint + serving.DEAD, 4)
    assert {message.body for message in dead} == {message.body for message in junk}
    reasons = sorted(message.headers["reason"] for message in dead)
    assert "is for segment 'another'" in reasons[0]
    assert "lacks the id of its run" in reasons[1]
    assert "header policy is no StepPolicy: StepPolicy(attempts=0)" in reasons[2]
    assert "not what crosses" in reasons[3]
    assert len([each for each in caplog.records if "is a dead letter" in each.getMessage()]) == 4


# --- what does not depend on the broker ---------------------------------------------------------------


async def test_runs_of_one_session_take_turns(redis: str, temporal: DevServer) -> None:
    """Work of a session runs in its order, never two pieces at a time; other sessions do not wait for it."""
    at_work: list[str] = []
    began: list[str] = []
    together: set[frozenset[str]] = set()
    both = asyncio.Barrier(2)

    async def answer(request: Any) -> AsyncGenerator[str]:
        name = str(request.config.system_instruction).partition(" ")[0]
        began.append(name)
        at_work.append(name)
        await both.wait()  # which ends only when two sessions are at work
        together.add(frozenset(at_work))
        at_work.remove(name)
        yield "done"

    queue = a_queue(redis)
    pipeline = behind(queue)
    assert queue.endpoint is not None
    messages = [work_for(pipeline, f"{s}{run}", f"{s}{run}", s) for run in range(3) for s in "ab"]
    async with worker(pipeline, temporal.address, models=mock_backend({"heavy": answer})):
        await put(queue.endpoint, *messages)
        for message in messages:
            await answer_of(pipeline, temporal.address, message)
    assert [name for name in began if name[0] == "a"] == ["a0", "a1", "a2"]
    assert [name for name in began if name[0] == "b"] == ["b0", "b1", "b2"]
    assert all(len({name[0] for name in names}) == len(names) for names in together)


async def test_a_failure_is_told_once_and_not_tried_again(redis: str, temporal: DevServer) -> None:
    """A step that raises fails the run with its own error; what ran before it is in the session."""
    queue = a_queue(redis)

    @declares(reads=["task"], writes=["x"])
    def broken(state: Mapping[str, Any]) -> dict[str, str]:
        RAN.append("broken")
        raise ValueError("no such task")

    made = clerk >> (S.fn(first) >> S.fn(broken)).execution_boundary(transport=queue)
    script = mock_backend({"clerk": "sums"})
    RAN.clear()
    async with worker(made, temporal.address, models=script), caller(temporal.address, script) as backend:
        with pytest.raises(StepError, match="ValueError: no such task") as caught:
            await made.run("Go", session_id="s", backend=backend)
        state = await backend.session(backend.compile(made.node), session_id="s")
    assert isinstance(caught.value.__cause__, ValueError)
    assert RAN == ["sums", "broken"]
    assert state.state["first"] == "sums began"


class Refused(Exception):
    """What a provider's client raises."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.response = object()


@pytest.mark.parametrize("serialization", ["json", "protobuf", "arrow"])
async def test_an_error_comes_back_as_it_was(redis: str, temporal: DevServer, serialization: Any) -> None:
    """Its class, its short attributes and what caused it; no secret, and nothing that is no data."""

    async def busy(request: Any) -> AsyncGenerator[str]:
        raise Refused("Busy; the key was sk-abcdefghijklmnop1234.", 503)
        yield ""

    made = clerk >> Agent("heavy").execution_boundary(transport=a_queue(redis), serialization=serialization)
    script = mock_backend({"clerk": "sums", "heavy": busy})
    async with worker(made, temporal.address, models=script), caller(temporal.address, script) as backend:
        with pytest.raises(ModelError, match="Agent 'heavy' got no answer") as caught:
            await made.run("Go", backend=backend)
    cause = caught.value.__cause__
    assert isinstance(cause, Refused)
    assert (str(cause), cause.status_code) == ("Busy; the key was [redacted].", 503)


async def test_a_caller_is_told_when_no_worker_comes(redis: str, temporal: DevServer) -> None:
    """Within the time it is given; and a worker that comes later leaves the work alone."""
    queue = a_queue(redis)
    pipeline = behind(queue)
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    RAN.clear()
    async with caller(temporal.address, script, patience=0.2) as backend:
        with pytest.raises(SegmentError, match=r"No worker took the work .* within 0.2 seconds; none will"):
            await pipeline.run("Go", backend=backend)
    async with worker(pipeline, temporal.address, models=script), caller(temporal.address, script) as backend:
        await pipeline.run("Go", backend=backend)  # which comes after it in the stream
    assert RAN == ["sums"]
    assert len(script.calls["heavy"]) == 1


async def test_a_worker_of_another_version_does_not_run_the_work(
    redis: str, temporal: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work goes to workers of its version alone; where there are none, the caller is told which."""
    queue = a_queue(redis)
    pipeline = behind(queue)
    other = clerk >> (S.fn(first) >> heavy.instruct("Another.")).execution_boundary(transport=queue)
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    RAN.clear()
    async with (
        worker(other, temporal.address, models=script),
        caller(temporal.address, script, patience=1) as hasty,
        caller(temporal.address, script) as backend,
    ):
        with monkeypatch.context() as patch:
            patch.setattr(calling, "time", Clock())  # the other worker has what time it needs to take it
            with pytest.raises(SegmentError, match="No worker has this version of the segment: none listens"):
                await pipeline.run("Go", backend=hasty)
        assert RAN == []
        async with worker(pipeline, temporal.address, models=script):
            assert (await pipeline.run("Go", backend=backend)).text == "42"


async def test_an_answered_pause_is_not_mistaken_for_finished_work(redis: str, temporal: DevServer) -> None:
    """A gate behind a queue pauses the run; the answer is work of its own, and the run goes on behind it."""
    after = S.fn(first) >> gate(lambda state: True, message="Go on?") >> heavy
    pipeline = clerk >> after.execution_boundary(transport=a_queue(redis))
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    RAN.clear()
    async with worker(pipeline, temporal.address, models=script), caller(temporal.address, script) as backend:
        asked = await pipeline.run("Go", backend=backend)
        assert [pending.message for pending in asked.pending] == ["Go on?"]
        approvals = {asked.pending[0].id: True}
        done = await pipeline.resume(session_id=asked.session_id, approvals=approvals, backend=backend)
    assert (done.text, done.pending, RAN) == ("42", [], ["sums"])


async def test_every_kind_waits_behind_a_queue(redis: str, temporal: DevServer) -> None:
    """Answers go through the queue one by one; one that is given twice is no work for a second time."""
    made = clerk >> all_kinds().named("part").execution_boundary(transport=a_queue(redis)) >> B
    models = mock_backend({}, default=every_kind)
    async with worker(made, temporal.address, models=models), caller(temporal.address, models) as backend:
        result = await made.run("Go", backend=backend)
        options: dict[str, Any] = {"session_id": result.session_id, "backend": backend}
        while waiting := result.pending:
            answers = {waiting[0].id: GIVEN[waiting[0].kind]}
            both = (made.resume(answers=answers, **options) for _ in range(2))
            given = await asyncio.gather(*both, return_exceptions=True)
            (result,) = (each for each in given if not isinstance(each, BaseException))
            assert any(isinstance(each, SessionError) for each in given)
            assert [each.id for each in result.pending] == [each.id for each in waiting[1:]]
    assert result.text == "ok"
    asked = {agent: len(calls) for agent, calls in models.calls.items()}
    assert asked == {"clerk": 1, **await calls_at_once(all_kinds() >> B)}


async def test_a_segment_that_may_not_see_the_user_gets_none_of_the_earlier_messages(
    redis: str, temporal: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the user said in earlier turns is not in the message; a segment that may see it gets it."""
    sent: list[bytes] = []

    def spy(crossing: Any, form: Any) -> bytes:
        sent.append(to_bytes(crossing, form))
        return sent[-1]

    monkeypatch.setattr(calling, "to_bytes", spy)
    there = {"clerk": ["one", "two"], "heavy": ["1", "2"]}
    for context, is_shown in ((C.none(), False), (C.from_agents("clerk"), True)):
        seen = heavy.instruct("Do {task}.").context(context)
        pipeline = clerk >> seen.execution_boundary(transport=a_queue(redis))
        script = mock_backend(there)
        async with (
            worker(pipeline, temporal.address, models=script),
            caller(temporal.address, script) as backend,
        ):
            await pipeline.run("my secret is tulip", session_id="s", backend=backend)
            await pipeline.run("and now this", session_id="s", backend=backend)
        assert (b"tulip" in sent[-1], b"and now this" in sent[-1]) == (is_shown, True)


async def test_a_caller_comes_back_by_its_run_id(redis: str, temporal: DevServer, tmp_path: Any) -> None:
    """It left while the work ran; another process gets the answer, and nothing that is done is done again."""
    pipeline, hang = behind(a_queue(redis)) >> Agent("mail").reads("result").writes("letter"), Hang()
    config = ExecutionConfig(resumable=True)
    options: dict[str, Any] = {"session_service": sqlite_sessions(tmp_path / "s.db")}
    first_script = mock_backend({"clerk": "sums"})
    RAN.clear()
    run_id = ""

    async def read(backend: DistributedBackend) -> None:
        nonlocal run_id
        async for event in pipeline.stream("Go", session_id="s", config=config, backend=backend):
            run_id = event.invocation_id

    async with (
        worker(pipeline, temporal.address, models=mock_backend({"heavy": hang})),
        caller(temporal.address, first_script, **options) as backend,
    ):
        reading = asyncio.ensure_future(read(backend))
        await hang.started.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    script = mock_backend({"mail": "Dear Ann", "heavy": "42"})
    options = {"session_service": sqlite_sessions(tmp_path / "s.db")}
    async with (
        worker(pipeline, temporal.address, models=script),
        caller(temporal.address, script, **options) as backend,
    ):
        result = await backend.come_back(pipeline, run_id, session_id="s")
        with pytest.raises(SessionError, match="has no run 'another'"):
            await backend.come_back(pipeline, "another", session_id="s")
    assert (result.text, result.state["result"], RAN) == ("Dear Ann", "42", ["sums"])
    assert len(first_script.calls["clerk"]) == 1
    assert "clerk" not in script.calls


async def test_a_caller_comes_back_to_its_answer(redis: str, temporal: DevServer, tmp_path: Any) -> None:
    """It left after its answer was sent: that is not done again, and the run goes on behind it."""
    after = gate(lambda state: True, message="Go on?") >> S.fn(first) >> heavy
    pipeline = clerk >> after.execution_boundary(transport=a_queue(redis)) >> Agent("mail")
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> AsyncGenerator[str, None]:
        begun.set()
        await goes_on.wait()
        yield "42"

    script = mock_backend({"clerk": "sums", "heavy": slow, "mail": "Dear Ann"})
    options: dict[str, Any] = {"session_service": sqlite_sessions(tmp_path / "s.db")}
    RAN.clear()
    async with (
        worker(pipeline, temporal.address, models=script),
        caller(temporal.address, script, **options) as backend,
    ):
        asked = await pipeline.run("Go", session_id="s", backend=backend)
        again = await backend.come_back(pipeline, asked[0].invocation_id, session_id="s")
        assert again.pending == asked.pending
        approvals = {asked.pending[0].id: True}
        leaving = asyncio.ensure_future(pipeline.resume(session_id="s", approvals=approvals, backend=backend))
        await begins(begun, leaving)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        coming = asyncio.ensure_future(backend.come_back(pipeline, asked[0].invocation_id, session_id="s"))
        goes_on.set()
        assert (await within_limit(coming)).text == "Dear Ann"
    assert RAN == ["sums"]
    assert [len(script.calls[name]) for name in ("clerk", "heavy", "mail")] == [1, 1, 1]


async def test_a_run_that_noted_nothing_cannot_be_come_back_to(redis: str, temporal: DevServer) -> None:
    """It is refused with what to do, before its steps would run again."""
    pipeline = behind(a_queue(redis))
    script = mock_backend({"clerk": "sums", "heavy": "42"})
    async with worker(pipeline, temporal.address, models=script), caller(temporal.address, script) as backend:
        result = await pipeline.run("Go", session_id="s", backend=backend)
        with pytest.raises(SessionError, match="noted nothing to go on from"):
            await backend.come_back(pipeline, result[0].invocation_id, session_id="s")


async def test_artifacts_in_memory_are_refused(redis: str, temporal: DevServer, tmp_path: Any) -> None:
    """What a caller or a worker keeps in memory nobody else finds: it says so before anything is lost."""
    made = A.save("draft.md", "Did it.") >> A.snapshot("draft.md", into_key="copy").execution_boundary(
        transport=a_queue(redis)
    )
    said = "Segment 'snapshot' uses 'draft.md', and artifacts in the memory of one process do not cross"
    kept = FileArtifactService(root_dir=tmp_path)
    script = mock_backend({})
    async with caller(temporal.address, script) as backend:
        with pytest.raises(BackendError, match=said):
            await made.run("Go", backend=backend)
    async with worker(made, temporal.address), caller(temporal.address, artifact_service=kept) as backend:
        with pytest.raises(ADKFluentError, match=said):
            await made.run("Go", backend=backend)
    services = {"artifact_service": kept}
    async with (
        worker(made, temporal.address, services=services),
        caller(temporal.address, artifact_service=kept) as backend,
    ):
        assert (await made.run("Go", backend=backend)).state["copy"] == "Did it."


async def test_an_artifact_that_only_code_names_is_refused(redis: str, temporal: DevServer) -> None:
    """A tool that saves one where its worker keeps them in memory is told so; it would be lost."""

    async def note(tool_context: ToolContext) -> str:
        """Save a note."""
        return str(await tool_context.save_artifact("note.md", types.Part(text="noted")))

    made = clerk >> Agent("heavy").tool(note).execution_boundary(transport=a_queue(redis))
    script = mock_backend({"clerk": "sums", "heavy": [call_tool("note"), "42"]})
    async with worker(made, temporal.address, models=script), caller(temporal.address, script) as backend:
        with pytest.raises(ADKFluentError, match="artifacts in the memory of one process do not cross"):
            await made.run("Go", backend=backend)


async def test_a_boundary_on_a_first_step_cuts(redis: str, temporal: DevServer) -> None:
    """The first step runs behind its queue, too, and the caller asks no model itself."""
    mail = Agent("mail").reads("task").execution_boundary()
    pipeline = clerk.execution_boundary(transport=a_queue(redis)) >> mail
    here, there = mock_backend({"mail": "Dear Ann"}), mock_backend({"clerk": "sums"})
    async with worker(pipeline, temporal.address, models=there), caller(temporal.address, here) as backend:
        result = await pipeline.run("Go", backend=backend)
        assert result.text == "Dear Ann"
    assert ("clerk" in here.calls, len(there.calls["clerk"])) == (False, 1)


async def test_more_than_the_engine_holds_is_refused(redis: str, temporal: DevServer) -> None:
    """In both directions, in one line, before it is lost."""

    @declares(reads=["task"], writes=["large"])
    def grow(state: Mapping[str, Any]) -> dict[str, str]:
        return {"large": "x" * 3_000_000}

    inwards = S.fn(grow) >> Agent("heavy").instruct("{large}").execution_boundary(transport=a_queue(redis))
    grown = clerk >> S.fn(grow).execution_boundary(transport=a_queue(redis))
    script = mock_backend({"clerk": "sums"})
    async with worker(grown, temporal.address, models=script), caller(temporal.address, script) as backend:
        with pytest.raises(RunError, match=r"What goes into segment 'heavy' is 4\.0 MB"):
            await inwards.run("Go", backend=backend)
        with pytest.raises(RunError, match=r"is 3.* MB, and a durable run holds at most 2 MB"):
            await grown.run("Go", backend=backend)


async def test_a_message_older_than_what_the_engine_remembers_is_refused(
    redis: str, temporal: DevServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have run before: it is a dead letter and runs no more."""
    queue = a_queue(redis)
    pipeline = behind(queue)
    assert queue.endpoint is not None
    old = work_for(pipeline, "old", "r")
    RAN.clear()
    async with worker(pipeline, temporal.address, models=mock_backend({})):
        await put(queue.endpoint, Message(old.body, {"sent": "1000"}))
        (dead,) = await heard(queue.endpoint + serving.DEAD, 1)
    assert "older than the 86400 s for which Temporal remembers runs" in dead.headers["reason"]
    assert RAN == []


async def test_a_message_is_kept_while_the_engine_is_away(redis: str, temporal: DevServer) -> None:
    """It is not acknowledged, and no failure is noted: it runs when the engine answers again."""
    queue = a_queue(redis)
    pipeline = behind(queue)
    taker = Taker(split(pipeline)[-1], Turnstile(Address("127.0.0.1:1")), 3600)
    with pytest.raises(EngineError, match="No Temporal server answers"):
        await taker.take(work_for(pipeline, "sums", "r"))
    script = mock_backend({"clerk": "sums"})
    async with caller("127.0.0.1:1", script) as backend:
        with pytest.raises(EngineError, match=r"No Temporal server answers at 127\.0\.0\.1:1"):
            await pipeline.run("Go", backend=backend)


async def test_a_broker_that_is_not_there_is_one_clear_line(temporal: DevServer) -> None:
    """The queue and what to do, without the password in its endpoint."""
    queue = TransportConfig(endpoint="redis://ann:tulip@127.0.0.1:1/heavy")
    pipeline = Agent("clerk") >> Agent("heavy").execution_boundary(transport=queue)
    async with caller(temporal.address, mock_backend(default="x"), patience=0.1) as backend:
        with pytest.raises(SegmentError, match="The queue of segment 'heavy' is not there: Conn") as caught:
            await pipeline.run("Go", backend=backend)
    assert "tulip" not in str(caught.value)


def test_an_endpoint_of_the_engine_has_no_broker() -> None:
    """It is for `TemporalBackend`; a caller of queues says so."""
    queue = TransportConfig(endpoint="temporal://host/heavy")
    pipeline = Agent("clerk") >> Agent("heavy").execution_boundary(transport=queue)
    with pytest.raises(ArgumentError, match="TemporalBackend"):
        DistributedBackend(mock_backend({})).compile(pipeline.node)
