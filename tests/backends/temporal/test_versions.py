"""Code that differs has another version; equal code has the same one in every process."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent, Route
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal import following
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.backends.temporal.versions import version_of
from adk_fluent.backends.temporal.worker import working
from adk_fluent.errors import EngineError
from adk_fluent.testing import mock_backend
from tests.backends.temporal.engine import Address, Workers
from tests.limits import LIMIT
from tests.processes import run as run_program

pytestmark = pytest.mark.newest

MODULE = '''
from functools import cache
from adk_fluent import Agent, Route, gate
from pydantic import BaseModel
import helpers

FACTOR = 2
class Bill(BaseModel):
    amount: int
    def total(self):
        return self.amount + 1
class Base:
    def ask(self): return 1
class Asker(Base):
    def __call__(self, state): return self.ask()
@cache
def cached(x):
    return x + 1
def predicate(state):
    return state["n"] > 3
def until(state):
    return helpers.far(state) > cached(1)
def tool(number: int, unit: str = "kg") -> str:
    """Weigh."""
    return f"{number * FACTOR} {unit}"
def step(state):
    """Compute."""
    return {"n": [x for x in range(3) if x != 1]}
def before(callback_context):
    return None

expression = (
    step
    >> Agent("a").tool(tool).before_agent(before).returns(Bill)
    >> Route("n").when(predicate, Agent("b")).otherwise(Agent("c"))
    >> Agent("d").until(until)
    >> gate(Asker(), message="Go?")
    >> Agent("e").instruct("Do it.")
)
'''
HELPERS = """
def far(state):
    return near(state)
def near(state):
    return 5
"""
SHOW = """
import json, sys
from adk_fluent.backends.temporal.connecting import queue_of

for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    import mod
    print(queue_of(mod.expression.node, "q"))
    del sys.modules["mod"], sys.modules["helpers"], sys.path[0]
"""


def _queues(folder: Path, changes: Sequence[tuple[str, str]], *, seed: int = 0) -> list[str]:
    """The queues of the expression as a new process has them, each with a piece of its code replaced."""
    places = [folder / f"{seed}-{number}" for number in range(len(changes))]
    for place, (old, new) in zip(places, changes, strict=True):
        assert old in MODULE + HELPERS
        place.mkdir(parents=True)
        (place / "mod.py").write_text(MODULE.replace(old, new))
        (place / "helpers.py").write_text(HELPERS.replace(old, new))
    if seed:  # only a Python that is started hashes by a seed of its own
        env = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", SHOW, *places]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=LIMIT)
    else:
        done = run_program(SHOW, *places)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


CHANGES = {
    "a predicate": ('state["n"] > 3', 'state["n"] > 4'),
    "a step": ("x != 1", "x == 1"),
    "a tool": ("number * FACTOR", "number + FACTOR"),
    "a default of a tool": ('unit: str = "kg"', 'unit: str = "lb"'),
    "an annotation of a tool": ("number: int", "number: float"),
    "a callback": ("return None", "return 0"),
    "a cached helper": ("x + 1", "x + 2"),
    "a helper in another module": ("return near(state)", "return near(state) + 1"),
    "a helper of that one": ("return 5", "return 6"),
    "a method of an object": ("return self.ask()", "return not self.ask()"),
    "a base class": ("def ask(self): return 1", "def ask(self): return 2"),
    "a field of a schema": ("amount: int", "amount: str"),
    "an instruction": ("Do it.", "Do that."),
}


def test_changed_code_is_another_version(tmp_path: Path) -> None:
    """The body of a predicate, step, tool, callback, helper, method or schema counts, and the tree does."""
    before, *after = _queues(tmp_path, [("", ""), *CHANGES.values()])
    assert [what for what, queue in zip(CHANGES, after, strict=True) if queue == before] == []
    assert len({*after}) == len(CHANGES)


def test_equal_code_is_the_same_version(tmp_path: Path) -> None:
    """In every process and place; comments, line numbers and values of global variables do not count."""
    same = [("", ""), ("def predicate", "# why\n\n\ndef predicate"), ("FACTOR = 2", "FACTOR = 3")]
    assert len({*_queues(tmp_path, same), *_queues(tmp_path, same, seed=17)}) == 1


def test_closures_count() -> None:
    """Functions made of the same code that hold other values or functions are other versions."""

    def made(limit: Any) -> Any:
        def check(state: Mapping[str, Any]) -> bool:
            return state["n"] > limit

        return Route("n").when(check, Agent("a")).node

    versions = {
        version_of(made(limit)) for limit in (1, 2, abs, lambda: 1, lambda: 2, functools.partial(abs, 1))
    }
    assert len(versions) == 6
    assert version_of(made(1)) == version_of(made(1))


async def test_a_run_does_not_go_on_with_other_code(workers: Workers, temporal: DevServer) -> None:
    """A worker whose predicate has another body takes no run of the older one."""

    def expression(limit: int) -> Any:
        return Route("n").when(lambda state: state["n"] > limit, Agent("a")).otherwise(Agent("b"))

    models = mock_backend({"a": "by a", "b": "by b"})
    workers.work(expression(5).node, "limits", models=models)
    hasty = TemporalBackend(temporal.address, queue="limits", worker_timeout=0.5)
    with pytest.raises(EngineError, match="none that has this very expression"):
        await expression(1).run("hi", state={"n": 3}, backend=hasty)
    backend = TemporalBackend(temporal.address, queue="limits", worker_timeout=LIMIT)
    assert (await expression(5).run("hi", state={"n": 3}, backend=backend)).text == "by b"


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        (
            Agent("a"),
            Agent("b"),
            "recorded the model 'a@None' of 'a'.* asks for the model 'b@None' with other",
        ),
        (Agent("a"), Agent("a").instruct("Else."), r"'a': .* other values of request\.config"),
    ],
)
async def test_a_recorded_step_that_differs(
    temporal: DevServer, monkeypatch: pytest.MonkeyPatch, before: Any, after: Any, differs: str
) -> None:
    """A worker that asks for another step than was recorded fails loudly; the right one goes on."""
    monkeypatch.setattr(following, "LOOK", 0.2)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def waits(state: object) -> dict[str, str]:
        begun.set()
        await goes_on.wait()
        return {"waited": "yes"}

    old, new = before >> waits, after >> waits
    backend = TemporalBackend(temporal.address, queue=f"differs-{differs}", worker_timeout=LIMIT)
    queue = backend.compile(old.node).queue
    models = mock_backend({"a": "by a", "b": "by b"})

    def worker(expression: Any) -> Any:
        return working(expression.node, Address(temporal.address), on=queue, models=models, cached=0, grace=0)

    async with worker(old):
        run = asyncio.ensure_future(old.run("hi", session_id=differs, backend=backend))
        await begun.wait()
    goes_on.set()
    async with worker(new):
        with pytest.raises(EngineError, match=differs) as caught:
            await run
    assert "Start a worker that has those, or cancel the run" in str(caught.value)
    async with worker(old):
        result = await old.run("hi", session_id=differs, backend=backend)
    assert [event.author for event in result if event.content] == ["a"]
