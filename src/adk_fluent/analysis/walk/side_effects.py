"""What happens to the state beside what a step is for: callbacks, tools, failures, boundaries, transfers."""

from __future__ import annotations

from collections.abc import Iterable

from adk_fluent.analysis.keys.effects import StepKeys
from adk_fluent.analysis.origins import ANYBODY, WrittenIn
from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.analysis.values.fact import ABSENT, PRESENT, Fact, Why, written
from adk_fluent.analysis.values.knowledge import Knowledge
from adk_fluent.ir import execution
from adk_fluent.ir.functions import access, said, shown_by
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.state_keys import NO_SIGHTINGS, Sightings


def call_functions(state: Knowledge, step: Step, callbacks: tuple[object, ...]) -> None:
    """Functions that always run."""
    goes_on = True
    for callback in callbacks:
        touched = said(callback)
        seen = NO_SIGHTINGS if touched is not None else shown_by(callback)
        if touched is None and not seen.whole:
            if step.node.annotations.adopted is not None:
                maybe_write(state, step, seen)
            state.forget(step)
        for key in () if touched is None else touched.writes:
            state.set(key, written(step, of=(ANYBODY,)))
        if seen.whole:
            maybe_write(state, step, seen, always=goes_on)
            goes_on = goes_on and seen.returns_known and not seen.returns  # ADK calls the next after nothing


def use_tools(state: Knowledge, step: Step, node: AgentNode) -> None:
    """Functions that run if the model likes."""
    if node.undeclared()[1]:
        state.forget(step)
    given = node.given
    touched = [node.touched(tool) for tool in node.tools]
    for name in ("before_tool_callback", "after_tool_callback", "on_tool_error_callback"):
        touched += [access(callback) for callback in given.get(name, ())]
    for facts in touched:
        read = tuple(state.get(key) for key in sorted(facts.reads))
        sources = (step, *read) if facts.reads_known else (ANYBODY,)
        for key in sorted(facts.writes):
            state.maybe(key, written(step, of=sources), Why("tool", step, (step,)))
    for what, _, seen in node.sighted():
        if what == "tool" and not seen.whole:
            maybe_write(state, step, seen)


def maybe_write(state: Knowledge, step: Step, seen: Sightings, *, always: bool = False) -> None:
    """What source shows may be written.

    Args:
        always: whether the function is called each time, so that what each of its paths writes is there.
    """
    for one in seen.writes:
        if one.always and always:
            state.set(one.key, written(step, of=(ANYBODY,)))
        else:
            state.maybe(one.key, written(step, of=(ANYBODY,)), Why("source", step, (step,)))


def fail(keys: StepKeys, state: Knowledge, child: Step, step: Step) -> None:
    """Record that a child may have done any part of what it does, and then failed or been stopped."""
    effects = keys.effects(child)
    if effects.pauses is not None:
        pause(effects.pauses, state)
    for key, writer in effects.writes.items():
        made = Fact(PRESENT, (writer,), of=(WrittenIn(child, key),))
        state.maybe(key, made, Why("fallback", step, (writer,)))
    gone = dict(effects.removes)
    if effects.clears is not None:
        gone = {**dict.fromkeys(state.session_keys(), effects.clears), **gone}
    for key, writer in gone.items():
        fact = state.get(key)
        if not fact.mask & ABSENT:
            made = fact.with_mask(fact.mask | ABSENT, Why("fallback", step, fact.writers))
            made.removed_by = writer
            state.set(key, made)
    if effects.unknown is not None:
        state.forget(effects.unknown)


def cross(step: Step, state: Knowledge) -> None:
    """`temp:` keys do not cross an execution boundary."""
    for key in state.temp_keys():
        fact = state.get(key)
        if fact.mask & PRESENT:
            state.set(key, fact.with_mask(fact.mask | ABSENT, Why("boundary", step, fact.writers)))


def pause(step: Step, state: Knowledge, keys: Iterable[str] | None = None) -> None:
    """The run may stop at a step until a person answers, and lose these `temp:` keys, or all there are."""
    for key in sorted(state.temp_keys()) if keys is None else keys:
        fact = state.get(key)
        if fact.mask & PRESENT:
            state.set(key, fact.lost_at(step))


def left_early(steps: Plan) -> tuple[set[Step], set[Step]]:
    """The composites of which a transfer may skip the rest, and those which it may start again."""
    skipping: set[Step] = set()
    restarting: set[Step] = set()
    for step in steps.steps:
        if isinstance(step.node.runs, execution.HandOver):
            target, owner = step.target, owner_of(step)
            if target is not None and target.index <= step.index < target.end:
                restarting.add(target)
            elif owner is not None:
                skipping.add(owner)
    return skipping, restarting


def owner_of(step: Step) -> Step | None:
    """The sequence, or the loop's round, of which a transfer skips the rest."""
    return next(
        (outer for outer in step.above() if isinstance(outer.node.runs, execution.STEP_BY_STEP)), None
    )


def meanwhile(step: Step, owner: Step, moved: Knowledge, steps: Plan) -> None:
    """Branches beside a transfer run to their end; they may have spoken by then."""
    inner = step
    for outer in step.above():
        if outer is owner:
            return
        if isinstance(outer.node.runs, execution.InParallel):
            for other in steps.steps[outer.index : outer.end]:
                if other.is_model and not inner.index <= other.index < inner.end:
                    moved.talk = moved.talk.spoke(other, other.branch, certain=False)
        inner = outer


def coordinator_of(step: Step) -> Step | None:
    """The outermost agent among whose sub-agents a step stands, as far as models can hand over."""
    found: Step | None = None
    for outer in step.above():
        if not isinstance(outer.node.runs, execution.ByModel):
            break
        found = outer
    return found


def may_hand_over(step: Step) -> bool:
    """Whether a sub-agent may hand over to its parent or its peers instead of answering."""
    if step.parent is None or not isinstance(step.parent.node.runs, execution.ByModel):
        return False
    node: AgentNode = step.node
    return node.disallow_transfer_to_parent is not True or node.disallow_transfer_to_peers is not True


def may_return(child: Step) -> bool:
    """Whether a sub-agent may hand back to the agent above it."""
    agent = child.node.agent
    return agent is not None and agent.disallow_transfer_to_parent is not True
