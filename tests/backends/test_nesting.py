"""Composites in composites: what is done stays done when a run goes on after a pause."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Container, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, race
from adk_fluent.backends.events import RunResult
from adk_fluent.config import ExecutionConfig
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import called, close, failing, session_service
from tests.sampling import every

Wrap = Callable[["Work", Expr[Any], str], Expr[Any]]
"""Puts a composite around an expression: `(work, body, suffix of the names it makes up) -> expression`."""


class Work:
    """A piece of work that can stop for a person at two places, and notes each step that is done.

    Attributes:
        done: step → how often it ran.
        asks: whether it stops; without, it runs through, which says how often each step should run.
    """

    def __init__(self, *, asks: bool) -> None:
        self.done = Counter[str]()
        self.asks = asks
        self.responses: dict[str, Any] = {}

    def agent(self, name: str) -> Agent[str]:
        """An agent that notes each answer it gives."""

        def answer(request: LlmRequest) -> str:
            self.done[name] += 1
            return f"{name} said"

        self.responses[name] = answer
        return Agent(name).writes(f"said_{name}")

    def broken(self, name: str) -> Agent[str]:
        """An agent whose model reports a failure."""

        def answer(request: LlmRequest) -> Any:
            self.done[name] += 1
            return failing()

        self.responses[name] = answer
        return Agent(name)

    def step(self, name: str) -> Pipeline[object]:
        """A function that notes each call and counts in state."""

        def count(state: Mapping[str, Any]) -> dict[str, Any]:
            self.done[name] += 1
            return {f"count_{name}": state.get(f"count_{name}", 0) + 1}

        return Pipeline(f"{name}_steps", S.fn(count, writes=[f"count_{name}"]).named(name))

    def charging(self, name: str) -> Agent[str]:
        """An agent whose tool has to be confirmed."""

        def charge(amount: int) -> str:
            """Charge a customer."""
            self.done[f"{name} charges"] += 1
            return "charged"

        def answer(request: LlmRequest) -> Any:
            return "done" if called(request) else call_tool("charge", amount=1)

        self.responses[name] = answer
        return Agent(name).tool(charge, require_confirmation=self.asks)

    def body(self) -> Expr[Any]:
        """Before, a gate, a charge that has to be confirmed, after."""
        approval = gate(lambda state: self.asks, message="Go on?").named("approval")
        before, after = self.agent("before"), self.agent("after")
        return Pipeline("body", before, self.step("one"), approval, self.charging("charger"), after)


WRAPPERS: dict[str, Wrap] = {
    "sequence": lambda w, x, n: Pipeline(f"seq{n}", w.agent(f"first{n}"), x, w.agent(f"last{n}")),
    "fan-out": lambda w, x, n: FanOut(f"fan{n}", w.agent(f"left{n}"), x, w.step(f"right{n}")),
    "loop": lambda w, x, n: Loop(w.agent(f"again{n}"), x, max_iterations=2, name=f"loop{n}"),
    "route": lambda w, x, n: Route("go").eq("here", x).otherwise(w.agent(f"else{n}")).named(f"route{n}"),
    "fallback": lambda w, x, n: w.broken(f"broken{n}") // x // w.agent(f"unused{n}"),
    "race": lambda w, x, n: race(x, w.broken(f"loser{n}")).named(f"race{n}"),
    "map": lambda w, x, n: map_over("items", x, item_key=f"item{n}", output_key=f"out{n}").named(f"map{n}"),
    "timeout": lambda w, x, n: x.timeout(600).named(f"limit{n}"),
    "skip": lambda w, x, n: Pipeline(f"when{n}", w.step(f"led{n}"), x.proceed_if(lambda s: True)),
}
STATE = {"go": "here", "items": ["a", "b"]}


def wrapped(work: Work, kinds: tuple[str, ...]) -> Expr[Any]:
    """The body within these composites, the outermost first."""
    expression = work.body()
    for depth, kind in reversed(list(enumerate(kinds))):
        expression = WRAPPERS[kind](work, expression, str(depth))
    return expression


async def run_through(kinds: tuple[str, ...]) -> tuple[Counter[str], RunResult[Any]]:
    """What is done, and what comes out, when nobody has to approve anything."""
    work = Work(asks=False)
    result = await wrapped(work, kinds).run("hi", backend=mock_backend(work.responses), state=STATE)
    return work.done, result


async def run_with_pauses(kinds: tuple[str, ...], folder: Path) -> tuple[Counter[str], RunResult[Any]]:
    """The same with approvals, each in a process of its own as far as memory goes."""
    work = Work(asks=True)
    options: dict[str, Any] = {"session_id": "s"}
    service = session_service("sqlite", folder)
    try:
        expression = wrapped(work, kinds)
        backend = mock_backend(work.responses, session_service=service)
        result = await expression.run("hi", backend=backend, state=STATE, **options)
        pauses = 0
        while result.pending:
            pauses += 1
            assert pauses < 40, f"it asks again and again for {result.pending}"
            approvals = {pending.id: True for pending in result.pending}
            expression = wrapped(work, kinds)
            backend = mock_backend(work.responses, session_service=service)
            result = await expression.resume(approvals=approvals, backend=backend, **options)
    finally:
        await close(service)
    return work.done, result


async def same_with_pauses(kinds: tuple[str, ...], folder: Path) -> None:
    """Check that stopping for approvals changes neither what is done nor the state at the end."""
    expected, through = await run_through(kinds)
    done, result = await run_with_pauses(kinds, folder)
    assert done == expected
    assert result.state == through.state


@pytest.mark.parametrize("outer", WRAPPERS)
async def test_nothing_is_done_twice_in_a_composite(outer: str, tmp_path: Path) -> None:
    """In each composite, a run that stops for approvals does what one without does, once."""
    await same_with_pauses((outer,), tmp_path)


PAIRS = sorted(product(WRAPPERS, repeat=2))


@pytest.mark.parametrize("kinds", every(10, PAIRS, before_changes=5), ids="-in-".join)
async def test_nothing_is_done_twice_in_two_composites(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """The same for every composite in every other."""
    await same_with_pauses(kinds[::-1], tmp_path)


TRIPLES = sorted(product(WRAPPERS, repeat=3))[::23]


@pytest.mark.parametrize("kinds", every(16, TRIPLES, before_changes=16), ids="-in-".join)
async def test_nothing_is_done_twice_in_three_composites(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """The same for a sample of three composites within each other."""
    await same_with_pauses(kinds[::-1], tmp_path)


# --- a process that stops -------------------------------------------------------------------------


@dataclass
class Killed:
    """A run on a database that is copied after its events: what a process that is killed there leaves.

    Attributes:
        folder: where the database and its copies are.
        kinds: the composites of the pipeline, the outermost first.
        stops: the numbers of the events after which it is copied.
    """

    folder: Path
    kinds: tuple[str, ...]
    stops: Container[int]
    invocation: str = ""
    count: int = 0

    async def whole(self) -> Counter[str]:
        """How often each agent's answer is stored, by branch, when nothing stops the run."""
        start = {"new_message": types.UserContent("hi"), "state_delta": STATE}
        return await self._answers(self.folder, copies=True, **start)

    async def continued(self, stop: int) -> Counter[str]:
        """How often when a process that knows nothing of the first goes on behind that event."""
        return await self._answers(self.folder / str(stop), copies=False, invocation_id=self.invocation)

    async def _answers(self, folder: Path, *, copies: bool, **options: Any) -> Counter[str]:
        service = session_service("sqlite", folder)
        work = Work(asks=False)
        node = wrapped(work, self.kinds).node
        backend = mock_backend(work.responses, session_service=service)
        compiled = backend.compile(node, ExecutionConfig(resumable=True), state=None)
        runner = compiled.runner(backend.services())
        session: dict[str, Any] = {"user_id": "user", "session_id": "s"}
        try:
            async with aclosing(runner.run_async(**session, **options)) as events:
                async for event in events:
                    if copies:
                        self.invocation, self.count = event.invocation_id, self.count + 1
                        if self.count in self.stops:
                            self._copy()
            found = await service.get_session(app_name=runner.app_name, **session)
            assert found is not None
            answers = (f"{e.author} on {e.branch}" for e in found.events if e.content and e.author != "user")
            return Counter(answers)
        finally:
            await close(service)

    def _copy(self) -> None:
        (file,) = self.folder.glob("*.db")
        copy = self.folder / str(self.count) / file.name
        copy.parent.mkdir()
        # What is committed, even while a branch that runs at the same time writes.
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)


@pytest.mark.parametrize("kind", every(4, WRAPPERS, before_changes=2))
async def test_a_process_may_stop_after_any_event(kind: str, tmp_path: Path) -> None:
    """Whichever event was stored last, the run goes on behind it, and no agent answers twice."""
    killed = Killed(tmp_path, (kind,), range(1, 1000))
    expected = await killed.whole()
    for stop in range(1, killed.count):
        assert await killed.continued(stop) == expected, stop


@pytest.mark.parametrize("kinds", every(5, PAIRS[::9], before_changes=4), ids="-in-".join)
async def test_a_process_may_stop_inside_two_composites(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """The same within two composites, for a sample of both."""
    killed = Killed(tmp_path, kinds[::-1], range(3, 1000, 11))
    expected = await killed.whole()
    for stop in range(3, killed.count, 11):
        assert await killed.continued(stop) == expected, stop
