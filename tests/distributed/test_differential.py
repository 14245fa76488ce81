"""With and without boundaries a pipeline does the same: answer, state, events, what models are asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from random import Random
from typing import Any, Literal

from adk_fluent.backends.adk.running.backend import ADKBackend
from adk_fluent.backends.events import AgentEvent
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed import DistributedBackend, ExecutionBoundary, split
from adk_fluent.errors import ADKFluentError, BoundaryError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import Node, ParallelNode, RaceNode, SequenceNode, TransformNode, declares, rewrite, walk
from adk_fluent.ir._generated import ADK_VERSION
from adk_fluent.ir.state_keys import is_temporary
from adk_fluent.testing import mock_backend
from tests.backends.support import system
from tests.contracts.pipelines import Failure, Sample, sample

Way = Literal["whole", "crossing", "segments"]
"""Without boundaries, with them in one app, and each segment as an app of its own."""
SEEDS = range(60) if version("google-adk") == ADK_VERSION else range(24)
CONFIG = ExecutionConfig(contracts="off")


@dataclass
class Ran:
    """What two runs of a session gave, and what was asked in them."""

    events: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    texts: list[str] = field(default_factory=list[str])
    states: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    errors: list[str] = field(default_factory=list[str])


def with_boundaries(expression: Expr[Any], seed: int) -> Expr[Any]:
    """The pipeline with a boundary before some of its steps."""
    random, root = Random(seed), expression.node
    children = tuple(
        child.replace(annotations=child.annotations.replace(boundary=ExecutionBoundary()))
        if place and random.random() < 0.6
        else child
        for place, child in enumerate(root.children)
    )
    return Expr[Any].from_node(root.with_children(children))


def meet(branches: Iterable[Node]) -> bool:
    """Whether a branch may write a key that another reads or writes."""
    used = [[step.access for step in walk(branch)] for branch in branches]
    return any(
        not access.writes_known or any(access.writes & (other.reads | other.writes) for other in others)
        for one in used
        for others in used
        if others is not one
        for access in one
    )


async def last(state: Mapping[str, Any]) -> None:
    """Let all that is under way go on as far as it comes."""
    for _ in range(3000):
        await asyncio.sleep(0)


def with_head_starts(expression: Expr[Any]) -> Expr[Any]:
    """The pipeline with races that the first branch wins unless it fails, however many turns it takes.

    Who is first among branches that never wait is told by the turns of the event loop, and a step that finds
    its value already there takes one less than a step which cannot know that. The same holds of branches side
    by side that write what another reads or writes.
    """
    wait = TransformNode(name="wait", fn=declares(reads=(), writes=())(last))

    def put(node: Node) -> Node:
        if not isinstance(node, RaceNode) and not (isinstance(node, ParallelNode) and meet(node.children)):
            return node
        behind = [SequenceNode(children=(*[wait] * n, child)) for n, child in enumerate(node.children)]
        return node.with_children((node.children[0], *behind[1:]))

    return Expr[Any].from_node(rewrite(expression.node, put))


def told(events: Iterable[AgentEvent], state: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The events that say something or change the state: what a step writes once more is no change."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        delta = {key: value for key, value in event.state_delta.items() if state.get(key) != value}
        state |= delta
        if event.content or delta:
            found.append((event.author, event.content, delta, event.visibility, event.is_final))
    return found


async def run(made: Sample, expression: Expr[Any], way: Way) -> Ran:
    """Two runs of a session."""
    script = mock_backend(made.responses)
    backend: ADKBackend = DistributedBackend(script) if way == "segments" else script
    ran, known = Ran(), dict(made.state)
    for number in (1, 2):
        made.runs[0] = number
        try:
            result = await expression.run(
                f"prompt {number}",
                backend=backend,
                state=made.state if number == 1 else {},
                config=CONFIG,
                session_id="talk",
                session_service=made.sessions,
                artifact_service=made.seen.service,
            )
        except (ADKFluentError, Failure) as error:
            ran.errors.append(f"{type(error).__name__}: {str(error).partition('. ')[0]}")
            stored = await made.sessions.get_session(
                app_name=CONFIG.app_name, user_id="user", session_id="talk"
            )
            known = dict(stored.state) if stored else known
            continue
        ran.texts.append(result.text)
        ran.states.append(dict(result.state))
        ran.events += told(result, known)
    for name, requests in script.calls.items():
        ran.asked[name] = [f"{system(request)}\n{request.contents}" for request in requests]
    return ran


async def compare(seeds: range) -> Counter[str]:
    """Run the pipelines of some seeds in every way; how often what was compared."""
    tally = Counter[str]()
    for seed in seeds:
        made = replace(sample(seed), expression=with_head_starts(sample(seed).expression))
        expression = with_boundaries(made.expression, seed)
        crossing = await run(sample(seed), expression, "crossing")
        if any("DuplicateNameError" in error for error in crossing.errors):
            continue  # a step that is used twice, now with a boundary at one place
        written = {key for node in walk(expression.node) for key in node.writes_keys} | made.state.keys()
        known = all(node.access.writes_known for node in walk(expression.node))
        if known and not any(map(is_temporary, written)):
            assert await run(sample(seed), made.expression, "whole") == crossing, seed
            tally["whole"] += 1
        try:
            parts = split(expression)
        except BoundaryError:
            tally["uncuttable"] += 1
            continue
        except ADKFluentError:
            continue
        segments = await run(sample(seed), expression, "segments")
        for what in ("errors", "asked", "states", "texts", "events"):
            assert getattr(segments, what) == getattr(crossing, what), (seed, what)
        tally["segments"] += len(parts)
        tally["errors"] += bool(crossing.errors)
    return tally


async def test_random_pipelines_do_the_same_wherever_they_are_cut() -> None:
    """Whatever a pipeline is made of, its segments do what it does in one piece, run after run."""
    tally = await compare(SEEDS)
    assert tally["whole"] > len(SEEDS) / 8, tally
    assert tally["segments"] > len(SEEDS), tally
