"""Steps deep inside each other: a run gets through what is accepted, and the rest is refused beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, race, transfer
from adk_fluent.config import ExecutionConfig
from adk_fluent.contracts import built_in_checks, check_all
from adk_fluent.errors import ExpressionError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import SequenceNode
from adk_fluent.ir.graph import MAX_DEPTH, depth
from adk_fluent.state import StateSchema
from tests.backends.support import play, script, speakers
from tests.samples import TERSE

LEAF, STEP = Agent("leaf"), S.set(city="Bonn")
Wrap = Callable[[Any, int], Expr[Any]]


class Shop(StateSchema):
    city: str | None = None
    answers: list[Any] | None = None


WRAPS: dict[str, Wrap] = {
    "loop": lambda body, n: Loop(body, max_iterations=1),
    "sequence": lambda body, n: Pipeline(f"s{n}", STEP, body),
    "fan-out": lambda body, n: FanOut(f"f{n}", body, STEP),
    "route": lambda body, n: Route("kind").eq("no", STEP).otherwise(body),
    "fallback": lambda body, n: (body // STEP) if n % 2 else Pipeline(f"s{n}", body),
    "race": lambda body, n: race(body, S.guard(lambda state: False, "loses")),
    "timeout": lambda body, n: body.timeout(600),
    "map": lambda body, n: map_over("items", body, item_key=f"item{n}", output_key="answers"),
    "schema": lambda body, n: body.timeout(600).schema(Shop),
}
every_kind = pytest.mark.parametrize("kind", [*WRAPS, "all kinds in turn"])


def nested(kind: str, levels: int, leaf: Expr[Any] = LEAF) -> Expr[Any]:
    """An expression of that kind, so many levels deep."""
    wraps = [WRAPS[kind]] if kind in WRAPS else [*WRAPS.values()]
    expression = leaf
    for number in range(levels - depth(leaf.node)):
        expression = wraps[number % len(wraps)](expression, number)
    assert depth(expression.node) == levels
    return expression


def deeper(frames: int, call: Callable[[], Any]) -> Any:
    """What `call` gives, called from so much deeper in the stack."""
    return call() if frames == 0 else deeper(frames - 1, call)


def findings(expression: Expr[Any]) -> list[str]:
    """Which depth the check finds too deep."""
    report = check_all(expression, state={"items": [1], "kind": "a"})
    return [str(issue) for issue in report.issues if issue.code == "nested-too-deep"]


@every_kind
@pytest.mark.parametrize("resumable", [False, True])
def test_what_the_check_passes_runs(kind: str, resumable: bool) -> None:
    """At the limit, an expression passes the check, is built and runs, with much of the stack to spare."""
    expression = nested(kind, MAX_DEPTH)
    assert findings(expression) == []
    config = ExecutionConfig(resumable=resumable, timeout_seconds=600)
    run = play(expression, state={"items": [1], "kind": "a"}, config=config)
    assert speakers(deeper(150, lambda: asyncio.run(run))) == ["leaf"]
    deeper(150, expression.build)


@every_kind
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 200, 2000])
def test_what_the_check_refuses_is_not_built(kind: str, levels: int) -> None:
    """Beyond the limit, the check names the depth and what to do, and nothing is built or run."""
    expression = nested(kind, levels)
    (finding,) = findings(expression)
    assert f"steps {levels} levels deep, and a run can take at most {MAX_DEPTH}: ERROR" in finding
    assert "one sequence" in finding
    uses: list[Callable[[], Any]] = [
        expression.build,
        expression.to_app,
        lambda: expression.ask("hi", backend=script()),
        expression.explain,
        expression.data_flow,
        expression.llm_anatomy,
    ]
    for use in uses:
        with pytest.raises(ExpressionError, match=f"steps {levels} levels deep"):
            use()


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 2000])
def test_every_check_copes_with_any_depth(levels: int) -> None:
    """A check that is run alone has nothing to say of what is too deep, unless it is the one about that."""
    found = [issue for check in built_in_checks() for issue in check(nested("all kinds in turn", levels))]
    assert [issue.code for issue in found if issue.code not in TERSE] == ["nested-too-deep"]


async def test_a_deep_run_pauses_and_goes_on() -> None:
    """At the limit, a run waits for a person and goes on from there."""
    expression = nested("loop", MAX_DEPTH, Pipeline("asks", gate(lambda state: True), LEAF))
    first = await play(expression)
    (pending,) = first.pending
    rest = await expression.resume(
        session_id=first.session_id, approvals={pending.id: True}, backend=script()
    )
    assert speakers(rest) == ["leaf"]


@pytest.mark.newest
async def test_a_deep_workflow_runs() -> None:
    """The same limit holds for ADK's own `Workflow`."""
    nested("loop", MAX_DEPTH).build(target="workflow")
    with pytest.raises(ExpressionError, match="levels deep"):
        nested("loop", MAX_DEPTH + 1).build(target="workflow")


# --- what counts ----------------------------------------------------------------------------------


def test_steps_beside_each_other_are_not_deep() -> None:
    """Long sequences, wide branches and chains of operators are as deep as their deepest step."""
    a, b = Agent("a"), Agent("b")
    chain: Expr[Any] = a
    for number in range(300):
        chain = chain >> Agent(f"a{number}")
    assert depth(chain.node) == 2
    assert depth((a // b // LEAF).node) == depth((a | b | LEAF).node) == 2
    assert depth((chain | (a >> b) * 3).node) == 3


def test_what_a_transfer_hands_over_to_counts() -> None:
    """The target of a transfer runs inside it, and counts as deep as it is."""
    target = nested("loop", 40).named("target")
    beside = Route("k").eq(1, target)
    away = nested("loop", 30, transfer("target"))
    assert depth(Pipeline("p", beside).node) == 42
    assert depth(Pipeline("p", beside, away).node) == 1 + 30 + 40
    assert findings(Pipeline("p", beside, away))


def test_a_transfer_to_what_is_around_it_starts_again() -> None:
    """A transfer back, alone or in turns with another, is no deeper than the steps are."""
    again = Pipeline("again", LEAF, transfer("again", condition=lambda state: False))
    assert depth(again.node) == 2
    ping = Pipeline("ping", transfer("pong", condition=lambda state: False))
    pong = Pipeline("pong", transfer("ping", condition=lambda state: False))
    assert depth(Pipeline("p", ping, pong).node) <= MAX_DEPTH


def test_a_step_in_many_places_counts_once() -> None:
    """Steps that are shared a thousandfold are measured at once."""
    shared: Any = LEAF.node
    for _ in range(50):
        shared = SequenceNode(children=(shared, shared))
    assert depth(shared) == 51
