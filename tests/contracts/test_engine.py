"""The data-flow engine: every node type, and facts that no report shows."""

from __future__ import annotations

from typing import Literal

import pytest

from adk_fluent import Agent, C, FanOut, Loop, Pipeline, Route, S, loop_until, race, transfer
from adk_fluent.analysis.dead_writes import VISITORS
from adk_fluent.analysis.state_walk import COMPOSITES, LEAVES, flow_of
from adk_fluent.expr.base import Expr
from adk_fluent.inspection import llm_anatomy
from adk_fluent.ir import NODE_TYPES, resolve_names, walk
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import WAYS, Leaf
from adk_fluent.state import StateSchema
from tests.contracts.corpus.cases import Desk
from tests.contracts.pipelines import sample


class Verdict(StateSchema):
    """The verdicts of a judge."""

    verdict: Literal["good", "bad"]


def heard(expression: Expr[object], listener: str) -> dict[str, bool]:
    """The speakers that an agent may receive, each true if certain."""
    flow = flow_of(expression.node)
    return {step.name: certain for step, certain in flow.speakers(flow.plan.by_name[listener]).items()}


def test_every_way_to_run_children_is_known() -> None:
    """The walks pass every node by how it runs its children; what runs none is passed by its type."""
    assert {*COMPOSITES, Leaf} == set(VISITORS) == set(WAYS)
    assert all(leaf in NODE_TYPES and leaf.runs is Node.runs for leaf in LEAVES)


def test_steps_have_the_names_that_compiling_gives() -> None:
    """Findings name steps as events do."""
    for seed in range(60):
        root = sample(seed).expression.node
        names = [node.name for node in walk(resolve_names(root).root)]
        assert [step.name for step in flow_of(root).plan.steps] == names


def test_branches_do_not_see_each_other() -> None:
    """A branch hears what was said before, the step after all of them each branch, a later branch none."""
    first = Agent("a") | Agent("b")
    pipeline = Agent("start") >> first >> (Agent("c") | Agent("d")) >> Agent("end")
    assert heard(pipeline, "b") == {"start": True}
    assert heard(pipeline, "c") == {"start": True}
    assert heard(pipeline, "end") == dict.fromkeys(("start", "a", "b", "c", "d"), True)


def test_a_loop_sees_later_agents_of_the_round_before() -> None:
    """In a loop an agent may hear what a later one said the round before."""
    pipeline = Loop(Agent("a"), Agent("b"), max_iterations=2)
    assert heard(pipeline, "a") == {"a": False, "b": False}
    assert heard(pipeline, "b") == {"a": True, "b": False}


def test_one_of_several_alternatives_is_received() -> None:
    """A later agent receives one of several alternatives, so none is certain."""
    routed = Route("k").eq("x", Agent("a")).otherwise(Agent("b")) >> Agent("end")
    assert heard(routed, "end") == {"a": False, "b": False}
    assert heard(race(Agent("a"), Agent("b")) >> Agent("end"), "end") == {"a": False, "b": False}
    assert heard((Agent("a") // Agent("b")) >> Agent("end"), "end") == {"a": False, "b": False}


@pytest.mark.newest
def test_speakers_of_long_conversations_are_found() -> None:
    """Speakers are found in a conversation with more turns than Python can nest calls."""
    choice = Route("k").eq("x", Agent("a")).otherwise(Agent("b"))
    flow = flow_of(Pipeline(*[choice] * 1100, Agent("end")).node)
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
        flow = flow_of(Pipeline(*[block] * count).node)
        return sum(flow.visits.values())

    assert visits(40) == 2 * visits(20) - 1  # the pipeline itself is visited once


def test_nesting_costs_a_visit_per_level() -> None:
    """A loop inside loops is visited once more per level, not twice as often."""
    nested: Expr[object] = Agent("core").writes("x")
    for level in range(12):
        nested = Loop(nested, Agent(f"a{level}").instruct("{x}"))
    flow = flow_of(nested.node)
    assert flow.visits[flow.plan.by_name["core"]] <= 14


def test_a_later_run_finds_what_an_earlier_one_left() -> None:
    """Keys of an earlier run may be present, in every scope but `temp:`."""
    reads = Agent("r").instruct("{x?} {user:x?} {temp:x?}")
    writers = [Agent(f"w{n}").writes(key) for n, key in enumerate(("x", "user:x", "temp:x"))]
    root = Pipeline(reads, *writers).node
    for later, statuses in ((False, ["never", "unknown", "never"]), (True, ["may", "may", "never"])):
        flow = flow_of(root, later_run=later)
        assert [read.status for read in flow.reads_of(flow.plan.by_name["r"])] == statuses


def test_text_of_an_earlier_run_arrives_by_stored_state() -> None:
    """Words of the run before reach an agent through a session key, and never through a `temp:` key."""
    for key, words in (("x", {"w"}), ("temp:x", set[str]())):
        reads = Agent("r").context(C.none()).instruct(f"{{{key}?}}")
        anatomy = llm_anatomy(reads >> Agent("w").writes(key))["r"]
        assert {author for author in anatomy.earlier if author != "user"} == words


def test_a_field_that_may_be_null_may_take_a_value_away() -> None:
    """An answer that leaves a field out removes what was there, also beside branches that use the key."""
    fields = Agent("f").writes(Desk.intent, Desk.tags)
    tags = S.set(tags=["x"])
    reader = Agent("r").instruct("{tags}")
    for pipeline in (
        tags >> fields >> reader,
        FanOut(tags >> Agent("o"), fields) >> reader,
        tags >> FanOut(fields, reader),
        tags >> (fields // Agent("o")) >> reader,
    ):
        flow = flow_of(pipeline.node)
        (read,) = flow.reads_of(flow.plan.by_name["r"])
        assert read.status == "may"


def test_nothing_follows_an_unconditional_transfer() -> None:
    """After an unconditional transfer, the rest of its sequence never runs or writes; the next step does."""
    inner = Pipeline("inner", Agent("a"), transfer("z"), Agent("never").writes("x"))
    flow = flow_of((inner >> Agent("then").instruct("{x?}") >> Agent("z")).node)
    assert flow.plan.by_name["never"] not in flow.visits
    assert heard(inner >> Agent("then") >> Agent("z"), "then") == {"a": True, "z": True}
    (read,) = flow.reads_of(flow.plan.by_name["then"])
    assert read.status == "never"


def test_a_branch_may_meet_a_value_that_another_writes_instead() -> None:
    """A key that a parallel branch also writes may hold other values than those of the typed answer."""
    two = Route("verdict").eq("good", S.set(x=1)).eq("bad", S.set(x=2)) >> Agent("end").instruct("{x}")
    judge = Agent("judge").writes(Verdict.verdict)
    assert not (judge >> two).check().warnings
    (warning,) = (judge >> FanOut(S.set(verdict="neither"), two)).check().warnings
    assert (warning.agent, warning.key) == ("end", "x")
