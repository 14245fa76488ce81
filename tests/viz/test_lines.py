"""The dashed lines of a picture are what the analysis found about each read, and what really happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from adk_fluent import Agent, FanOut, Loop, Route, S, map_over, tap, transfer
from adk_fluent.analysis.facts import Facts
from adk_fluent.analysis.plan import Step
from adk_fluent.expr.base import Expr
from adk_fluent.state import declares
from adk_fluent.viz.edge_routing import data_edges
from tests.contracts.pipelines import said, sample
from tests.contracts.test_truth import run
from tests.sampling import every

APP, USER = "adk_fluent_app", "user"
PER_TEST = 100
SEEDS = every(8, (range(start, start + PER_TEST) for start in range(0, 800, PER_TEST)), before_changes=4)

Lines = set[tuple[str, str, str]]
"""Writer, reader and key."""


def lines(expression: Expr[Any], state: Mapping[str, Any] | None = None) -> Lines:
    """The dashed lines of a picture, one for each key."""
    facts = Facts(expression.node, state=state)
    return {(e.source, e.target, key) for e in data_edges(facts) for key in e.keys}


a, b, late = Agent("a").writes("x"), Agent("b").writes("x"), Agent("late").instruct("{x?} {y?}")
y = Agent("y").writes("y")


@declares(reads=["k.x"])
def look_at_leaf(state: object) -> None:
    """A step that reads what a flattened key has become."""


CASES: dict[str, tuple[Expr[Any], Lines]] = {
    "dropped": (a >> S.drop("x") >> late, set()),
    "picked away": (a >> y >> S.pick("y") >> late, {("y", "pick", "y"), ("y", "late", "y")}),
    "set to nothing": (a >> S.set(x=None) >> late, set()),
    "renamed": (a >> S.rename(x="y") >> late, {("a", "rename", "x"), ("rename", "late", "y")}),
    "behind a transfer": (
        a >> transfer("late") >> y >> Agent("skipped").instruct("{y?}") >> late,
        {("a", "late", "x")},
    ),
    "dropped in a branch": (
        a >> Route("x").eq("1", S.drop("x")).otherwise(S.log("x")) >> late,
        {("a", "route", "x"), ("a", "log", "x"), ("a", "late", "x")},
    ),
    "defaulted": (a >> S.default(x="1") >> late, {("a", "late", "x")}),
    "defaulted where it may be missing": (
        Route("z").eq("1", a) >> S.default(x="1") >> late,
        {("a", "late", "x"), ("default", "late", "x")},
    ),
    "beside each other": (FanOut(a >> b, late >> y), {("a", "late", "x"), ("b", "late", "x")}),
    "beside each other, again": (
        a >> FanOut(b, late),
        {("a", "late", "x"), ("b", "late", "x")},
    ),
    "later in its own branch": (FanOut(y, late >> Agent("z").writes("y")), {("y", "late", "y")}),
    "handed over to, beside": (
        FanOut(Agent("boss").delegate(a), late),
        {("a", "late", "x")},
    ),
    "a key that was flattened": (
        S.set(k={"x": 1}) >> S.flatten("k") >> tap(look_at_leaf),
        {("set", "flatten", "k"), ("flatten", "look_at_leaf", "k.x")},
    ),
    "failed on the way": ((a >> b >> Agent("end")) // late, {("a", "late", "x"), ("b", "late", "x")}),
    "in later rounds": (
        Loop(late, a, b, max_iterations=2),
        {("b", "late", "x")},
    ),
    "an item": (
        S.set(items=["1"]) >> map_over("items", Agent("each").instruct("{_item}")),
        {("set", "map", "items"), ("map", "each", "_item")},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_lines_lead_from_writers_to_readers(case: str) -> None:
    """A value has a line to each step that may read it, and none if it is removed or replaced before."""
    expression, expected = CASES[case]
    assert lines(expression) == expected


def test_many_writers_of_a_key_all_have_their_lines() -> None:
    """However many branches write a key, a line leads from each to who reads it."""
    fan = FanOut(*(Agent(f"w{number}").writes("x") for number in range(100)))
    assert lines(fan >> late) == {(f"w{number}", "late", "x") for number in range(100)}


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: str(seeds.start))
def test_lines_and_checks_agree(seeds: range) -> None:
    """A line is there exactly where the reader may get the writer's value, and none where it gets nothing."""
    tally = Counter[str]()
    for seed in seeds:
        facts = Facts(sample(seed).expression.node)
        drawn = {(e.source, e.target, key) for e in data_edges(facts) for key in e.keys}
        told = set[tuple[str, str, str]]()
        for read in facts.reads:
            writers = facts.flow.writers(read)
            tally[read.status] += 1
            if read.status == "never":
                assert not writers, f"seed {seed}: {read.step.name} reads {read.key}"
            if read.via != "removal":
                told |= {(w.name, read.step.name, read.key) for w in writers if w is not read.step}
        assert drawn == told, f"seed {seed}"
        tally["lines"] += len(drawn)
    assert min(tally[name] for name in ("must", "may", "never", "lines")) > PER_TEST // 5, tally


async def compare(seed: int, tally: Counter[str]) -> None:
    """Hold the lines of one pipeline against a run of it."""
    made = sample(seed)
    facts = Facts(made.expression.node, state=made.state)
    await run(made, 1)
    session = await made.sessions.get_session(app_name=APP, user_id=USER, session_id="talk")
    if session is None:  # the pipeline was refused
        return
    written = [(e.author, e.actions.state_delta) for e in session.events]
    by_name = facts.plan.by_name
    for probe, notes in made.seen.probes.items():
        sources = dict[str, set[Step]]()
        for read in facts.reads:
            if read.step.origin == probe:
                sources.setdefault(read.key, set()).update(facts.flow.writers(read))
        for key, value in (item for found in notes for item in found.items()):
            for author in {author for author, delta in written if key in delta and delta[key] == value}:
                step = by_name.get(author)
                if step is None or said(author) not in str(value) or key not in step.node.writes_keys:
                    continue  # its value is not like any other
                tally["found"] += 1
                where = f"seed {seed}: {probe} finds {key}={value!r} of {author}"
                # a step that writes the same value again writes nothing
                assert step in sources[key] or any(not other.is_model for other in sources[key]), where


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: str(seeds.start))
def test_lines_agree_with_the_writers_in_runs(seeds: range) -> None:
    """In a run, the answer that a step finds in state comes from an agent from which a line leads to it."""
    tally = Counter[str]()
    for seed in seeds:
        asyncio.run(compare(seed, tally))
    assert tally["found"] > PER_TEST // 2, tally
