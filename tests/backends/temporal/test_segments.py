"""Segments of a pipeline that is cut are child workflows, each on a task queue of its own."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent, S, gate
from adk_fluent.backends import RunResult
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.distributed import run_worker
from adk_fluent.distributed.durable import hosting
from adk_fluent.errors import ArgumentError, EngineError, ModelError, RateLimitError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import rate_limiter
from adk_fluent.testing import mock_backend
from tests.backends.temporal.engine import Served, Workers
from tests.backends.temporal.processes import Crew, backend_of
from tests.backends.temporal.steps import cut
from tests.backends.test_waiting import GIVEN, B, all_kinds, calls_at_once, every_kind

pytestmark = pytest.mark.newest


def said(result: RunResult[Any]) -> list[Any]:
    """What was said and written."""
    return [(event.author, event.content, event.visibility) for event in result if event.content]


a, b, c = (Agent(name).writes(f"said_{name}") for name in "abc")
CASES: dict[str, tuple[Expr[Any], dict[str, Any]]] = {
    "sequence": (a >> b.execution_boundary() >> c.execution_boundary(), {}),
    "what is written": (S.set(x=1) >> a >> (S.compute(y=lambda s: s["x"] + 1) >> b).execution_boundary(), {}),
    "protobuf": (a >> b.instruct("After {said_a}.").execution_boundary(serialization="protobuf"), {}),
}


@pytest.mark.parametrize("case", CASES)
async def test_the_same_as_without_boundaries(workers: Workers, case: str) -> None:
    """The same answers and state as in one process, from `run` and from `stream`."""
    expression, script = CASES[case]
    here = await expression.run("go", backend=mock_backend(script, default="ok"))
    working = {"models": mock_backend(script, default="ok"), "cached": 0, "host": hosting()}
    backend = Served(workers, working)
    there = await expression.run("go", backend=backend)
    assert said(there) == said(here)
    assert (there.state, there.text) == (here.state, here.text)
    streamed = [event async for event in expression.stream("go", backend=backend)]
    whole = [event.content for event in streamed if event.content and not event.is_partial]
    assert whole == [event.content for event in here if event.content]


async def test_a_segment_fails_with_its_own_error(workers: Workers) -> None:
    """What it was caused by and when to come back are said with it, as without boundaries."""
    strict = rate_limiter(1, per=3600, on_limit="refuse")
    limited = a.middleware(strict) >> b.middleware(strict).execution_boundary()
    broken = a >> b.execution_boundary()
    working = {"models": mock_backend({"b": ConnectionError("cut")}, default="ok"), "host": hosting()}
    backend, before = Served(workers, working), time.monotonic()
    with pytest.raises(RateLimitError) as refused:
        await limited.run("go", backend=backend)
    assert 3600 - (time.monotonic() - before) <= refused.value.retry_after <= 3600
    with pytest.raises(ModelError) as failed:
        await broken.run("go", backend=backend)
    assert isinstance(failed.value.__cause__, ConnectionError)


async def test_a_gate_behind_a_boundary_waits(workers: Workers) -> None:
    """The run waits in its session, and goes on in the segment when a person has answered."""
    expression = a >> (b >> gate(lambda state: True, message="Go on?") >> c).execution_boundary()
    working = {"models": mock_backend({}, default="ok"), "host": hosting()}
    backend = Served(workers, working)
    asked = await expression.run("go", backend=backend)
    assert [pending.message for pending in asked.pending] == ["Go on?"]
    approvals = {asked.pending[0].id: True}
    done = await expression.resume(session_id=asked.session_id, approvals=approvals, backend=backend)
    assert [event.author for event in done if event.content] == ["c"]


async def test_every_kind_waits_behind_a_boundary(workers: Workers) -> None:
    """The answers go to the segment one by one, whichever worker has the run or the segment by then."""
    expression = Agent("clerk") >> all_kinds().named("part").execution_boundary() >> B
    models = mock_backend({}, default=every_kind)
    backend = Served(workers, {"models": models, "host": hosting()})
    result = await expression.run("go", backend=backend)
    assert {pending.kind for pending in result.pending} == set(GIVEN)
    while waiting := result.pending:
        backend.replace_workers()
        answers = {waiting[0].id: GIVEN[waiting[0].kind]}
        result = await expression.resume(session_id=result.session_id, answers=answers, backend=backend)
        assert [pending.id for pending in result.pending] == [pending.id for pending in waiting[1:]]
    assert result.text == "ok"
    asked = {agent: len(calls) for agent, calls in models.calls.items()}
    assert asked == {"clerk": 1, **await calls_at_once(all_kinds() >> B)}


async def test_workers_of_segments_die_apart(temporal: DevServer, tmp_path: Path) -> None:
    """Each segment has a worker process of its own; that of one is killed, and only its step is repeated."""
    crew = Crew(temporal.address, tmp_path, str(uuid.uuid4()))
    backend = backend_of(crew)
    crew.hold("second")
    try:
        workers = {name: crew.start("cut", name) for name in ("first", "second", "last")}
        run = asyncio.ensure_future(cut.run("hi", backend=backend))
        await crew.until("second begins")
        workers["second"].kill()
        crew.release("second")
        crew.start("cut", "second")
        assert (await run).text == "I am last."
    finally:
        crew.end()
    begun = Counter(line for line in crew.log() if line.endswith("begins"))
    assert begun == {"first begins": 1, "second begins": 2, "last begins": 1}


@pytest.mark.usefixtures("patience")
async def test_a_segment_without_workers(workers: Workers) -> None:
    """The caller is told in time, which segment and which queue."""
    expression = a >> b.execution_boundary()
    working = {"models": mock_backend({}, default="ok"), "host": hosting("a")}
    backend = Served(workers, working, worker_timeout=2)  # which do not pass for the whole
    with pytest.raises(EngineError, match=r"No worker took up the segment 'b' within 2 s: .*/b'.*--segment"):
        await expression.run("go", backend=backend)


async def test_a_segment_that_is_not_there(temporal: DevServer) -> None:
    """The nearest name is given."""
    with pytest.raises(ArgumentError, match=r"There is no segment 'secnd'. Did you mean 'second'"):
        await run_worker(cut, address=temporal.address, segment="secnd")
