"""The data-flow engine: every node type, and facts that no report shows."""

from __future__ import annotations

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, loop_until, race
from adk_fluent.contracts.dataflow import VISITORS, analyse
from adk_fluent.contracts.reads import _READERS  # pyright: ignore[reportPrivateUsage]  # held against the list of types
from adk_fluent.expr.base import Expr
from adk_fluent.ir import NODE_TYPES, resolve_names, walk
from tests.contracts.pipelines import sample


def heard(expression: Expr[object], listener: str) -> dict[str, bool]:
    """Whom an agent may hear, and whether it certainly does."""
    flow = analyse(expression.node)
    return {step.name: certain for step, certain in flow.speakers(flow.plan.by_name[listener]).items()}


def test_every_node_type_is_known() -> None:
    """The walk passes every node type and knows what each reads."""
    assert set(VISITORS) == set(_READERS) == set(NODE_TYPES)


def test_steps_have_the_names_that_compiling_gives() -> None:
    """Findings name steps as events do."""
    for seed in range(60):
        root = sample(seed).expression.node
        names = [node.name for node in walk(resolve_names(root).root)]
        assert [step.name for step in analyse(root).plan.steps] == names


def test_branches_do_not_hear_each_other() -> None:
    """A branch hears what was said before, the step after all of them each branch, a later branch none."""
    first = Agent("a") | Agent("b")
    pipeline = Agent("start") >> first >> (Agent("c") | Agent("d")) >> Agent("end")
    assert heard(pipeline, "b") == {"start": True}
    assert heard(pipeline, "c") == {"start": True}
    assert heard(pipeline, "end") == dict.fromkeys(("start", "a", "b", "c", "d"), True)


def test_a_loop_hears_itself_only_later() -> None:
    """In a loop an agent may hear what a later one said the round before."""
    pipeline = Loop(Agent("a"), Agent("b"), max_iterations=2)
    assert heard(pipeline, "a") == {"a": False, "b": False}
    assert heard(pipeline, "b") == {"a": True, "b": False}


def test_one_of_several_is_heard() -> None:
    """Of alternatives one is heard, so none certainly is."""
    routed = Route("k").eq("x", Agent("a")).otherwise(Agent("b")) >> Agent("end")
    assert heard(routed, "end") == {"a": False, "b": False}
    assert heard(race(Agent("a"), Agent("b")) >> Agent("end"), "end") == {"a": False, "b": False}
    assert heard((Agent("a") // Agent("b")) >> Agent("end"), "end") == {"a": False, "b": False}


def test_long_conversations_can_be_heard() -> None:
    """Who spoke is found in a conversation of more turns than Python can nest calls, each one of two ways."""
    choice = Route("k").eq("x", Agent("a")).otherwise(Agent("b"))
    flow = analyse(Pipeline(*[choice] * 1100, Agent("end")).node)
    assert len(flow.speakers(flow.plan.by_name["end"])) == 2200


def test_the_walk_is_linear() -> None:
    """Twice the steps are twice the visits, in sequences, routes, branches and nested loops."""

    def visits(count: int) -> int:
        block = loop_until(
            lambda state: False,
            Pipeline(
                S.set(k=1), Route("k").eq(1, Agent("a")).otherwise(FanOut(Agent("b"), Loop(Agent("c"))))
            ),
        )
        flow = analyse(Pipeline(*[block] * count).node)
        return sum(step.visits for step in flow.plan.steps)

    assert visits(40) == 2 * visits(20) - 1  # the pipeline itself is visited once


def test_nesting_costs_a_visit_per_level() -> None:
    """A loop inside loops is visited once more per level, not twice as often."""
    nested: Expr[object] = Agent("core").writes("x")
    for level in range(12):
        nested = Loop(nested, Agent(f"a{level}").instruct("{x}"))
    flow = analyse(nested.node)
    assert flow.plan.by_name["core"].visits <= 14
