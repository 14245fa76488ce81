"""Changes of the knowledge about the keys: the effects of operations, callbacks, tools, failures and pauses.

Idea: an abstract interpreter for one step. `state.effects` describes each operation as a tuple of effects,
and `EFFECTS` has one function for each class of effect; no other module interprets them. Such a function
changes `Knowledge`, the facts about all keys, as the effect would change the state.

Invariant: the facts after a step include every possible state after it. So an effect that may not happen adds
its possibility to the old one (`Knowledge.maybe`), and only one that always happens replaces it
(`Knowledge.set`). Code that the analysis cannot read makes every key uncertain (`Knowledge.forget`).

Why not run the operations on a sample state? One sample cannot show that a key is present in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from adk_fluent.analysis.plan import Plan, Step
from adk_fluent.analysis.values.fact import (
    ABSENT,
    ANYBODY,
    PRESENT,
    REMOVED,
    STATUS,
    UNKNOWN,
    Fact,
    Why,
    WrittenIn,
    leaves_of,
    merged_steps,
    written_fact,
)
from adk_fluent.analysis.values.key_effects import StepKeys
from adk_fluent.analysis.values.knowledge import Knowledge
from adk_fluent.ir import execution
from adk_fluent.ir.functions import access, said, shown_around, shown_by
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.ir.predicates import Match
from adk_fluent.ir.state_keys import NO_SIGHTINGS, Sightings, is_session_scoped
from adk_fluent.state import effects

# --- callbacks, tools, failures and pauses --------------------------------------------------------


def apply_callbacks(state: Knowledge, step: Step, callbacks: tuple[object, ...]) -> None:
    """Apply the writes of callbacks, which run each time."""
    is_reached = True
    for callback in callbacks:
        declared = said(callback)
        seen = NO_SIGHTINGS if declared is not None else shown_by(callback)
        if declared is None and not seen.whole:
            if step.node.annotations.adopted is not None:
                apply_sightings(state, step, seen)
            state.forget(step)
        for key in () if declared is None else declared.writes:
            state.set(key, written_fact(step, of=(ANYBODY,)))
        if seen.whole:
            apply_sightings(state, step, seen, always=is_reached)
            # ADK calls the next callback only if this one returns `None`.
            is_reached = is_reached and seen.returns_known and not seen.returns


def apply_tools(state: Knowledge, step: Step, node: AgentNode) -> None:
    """Apply the writes of tools, which run only if the model calls them."""
    if node.undeclared()[1]:
        state.forget(step)
    given = node.given
    accesses = [node.touched(tool) for tool in node.tools]
    for name in ("before_tool_callback", "after_tool_callback", "on_tool_error_callback"):
        accesses += [access(callback) for callback in given.get(name, ())]
    for one in accesses:
        read = tuple(state.get(key) for key in sorted(one.reads))
        sources = (step, *read) if one.reads_known else (ANYBODY,)
        for key in sorted(one.writes):
            state.maybe(key, written_fact(step, of=sources), Why("tool", step, (step,)))
    for kind, _, seen in node.sighted():
        if kind == "tool" and not seen.whole:
            apply_sightings(state, step, seen)


def apply_middleware(state: Knowledge, step: Step) -> None:
    """Apply the writes of the middleware, or of the plugins of an app, around a step."""
    for middleware in step.node.annotations.middleware:
        seen = shown_around(middleware)
        if not seen.whole:
            state.forget(step)
        apply_sightings(state, step, seen, always=True)


def apply_sightings(state: Knowledge, step: Step, seen: Sightings, *, always: bool = False) -> None:
    """Apply the writes and removals that the source of a function shows.

    Args:
        always: true if the function runs each time, so the keys that all its paths write are present.
    """
    for sighting in seen.removes:
        if sighting.always and always:
            state.remove(sighting.key, step)
        elif not (fact := state.get(sighting.key)).mask & ABSENT:
            changed = fact.with_mask(fact.mask | ABSENT)
            changed.removed_by = step
            state.set(sighting.key, changed)
    for sighting in seen.writes:
        if sighting.always and always:
            state.set(sighting.key, written_fact(step, of=(ANYBODY,)))
        else:
            state.maybe(sighting.key, written_fact(step, of=(ANYBODY,)), Why("source", step, (step,)))


def record_failure(keys: StepKeys, state: Knowledge, child: Step, step: Step) -> None:
    """Record that a child may have done any part of its effects before it failed or was stopped."""
    inside = keys.effects(child)
    if inside.pauses is not None:
        record_pause(inside.pauses, state)
    for key, writer in inside.writes.items():
        changed = Fact(PRESENT, (writer,), of=(WrittenIn(child, key),))
        state.maybe(key, changed, Why("fallback", step, (writer,)))
    removed = dict(inside.removes)
    if inside.clears is not None:
        removed = {**dict.fromkeys(state.session_keys(), inside.clears), **removed}
    for key, writer in removed.items():
        fact = state.get(key)
        if not fact.mask & ABSENT:
            changed = fact.with_mask(fact.mask | ABSENT, Why("fallback", step, fact.writers))
            changed.removed_by = writer
            state.set(key, changed)
    if inside.unknown is not None:
        state.forget(inside.unknown)


def record_boundary(step: Step, state: Knowledge) -> None:
    """Record an execution boundary: `temp:` keys do not cross it."""
    for key in state.temp_keys():
        fact = state.get(key)
        if fact.mask & PRESENT:
            state.set(key, fact.with_mask(fact.mask | ABSENT, Why("boundary", step, fact.writers)))


def record_pause(step: Step, state: Knowledge, keys: Iterable[str] | None = None) -> None:
    """Record that the run may pause at a step: it then loses its `temp:` keys.

    Args:
        keys: the `temp:` keys that may be lost. Default: all.
    """
    for key in sorted(state.temp_keys()) if keys is None else keys:
        fact = state.get(key)
        if fact.mask & PRESENT:
            state.set(key, fact.lost_at(step))


def add_parallel_messages(step: Step, owner: Step, state: Knowledge, plan: Plan) -> None:
    """Add the messages of branches beside a transfer: these run to their end and may speak before it."""
    inner = step
    for outer in step.above():
        if outer is owner:
            return
        if isinstance(outer.node.runs, execution.InParallel):
            for other in plan.steps[outer.index : outer.end]:
                if other.is_model and not inner.index <= other.index < inner.end:
                    state.conversation = state.conversation.with_message(other, other.branch, certain=False)
        inner = outer


# --- state operations -----------------------------------------------------------------------------


Before = Mapping[str, Fact]
"""The facts before the operation, for the keys that it reads to make new values."""


def apply_transform(state: Knowledge, step: Step, node: effects.Transform) -> None:
    """Record the effects of the operation `node`, which `step` runs."""
    found = effects.effects_of(node)
    before = {key: state.get(key) for effect in found for key in effect.sources}
    for effect in found:
        EFFECTS[type(effect)](state, step, effect, before)


# --- single keys ----------------------------------------------------------------------------------


def _needs(state: Knowledge, step: Step, effect: effects.Needs, before: Before) -> None:
    state.mark_present(effect.key)


def _holds(state: Knowledge, step: Step, effect: effects.Holds, before: Before) -> None:
    assume(state, effect.test)


def _sets(state: Knowledge, step: Step, effect: effects.Sets, before: Before) -> None:
    if effect.value is None:
        state.set(effect.key, Fact(ABSENT | REMOVED, removed_by=step))
    else:
        state.set(effect.key, written_fact(step, effect.type_of(effect.key), of=()))


def _defaults(state: Knowledge, step: Step, effect: effects.Defaults, before: Before) -> None:
    old = state.get(effect.key)
    if old.mask & STATUS == PRESENT or effect.value is None:
        return
    writers = merged_steps(old.writers, (step,))
    value_type = effect.type_of(effect.key) if old.mask & STATUS == ABSENT else None
    made_of = (old, written_fact(step, of=()))
    state.set(effect.key, Fact(PRESENT, writers, old.text_of, value_type, of=made_of))


def _writes(state: Knowledge, step: Step, effect: effects.Writes, before: Before) -> None:
    sources = (ANYBODY,) if effect.of is None else tuple(before[key] for key in effect.of)
    state.set(effect.key, written_fact(step, effect.type, of=sources))


def _may_write(state: Knowledge, step: Step, effect: effects.MayWrite, before: Before) -> None:
    sources = (ANYBODY,) if effect.of is None else tuple(before[key] for key in effect.of)
    state.maybe(effect.key, written_fact(step, effect.type, of=sources), Why("source", step, (step,)))


def _copies(state: Knowledge, step: Step, effect: effects.Copies, before: Before) -> None:
    """Write a copy, which is present only if its source was."""
    value = before[effect.source]
    if effect.type is not None:
        made_of = tuple(before[key] for key in effect.sources)
        value = Fact(value.mask, (), (), effect.type, value.why, of=made_of)
    status = value.mask & STATUS
    writers = merged_steps(value.writers, (step,))
    copied = Fact(PRESENT, writers, value.text_of, value.type, of=value.of, by=step)
    if status == PRESENT:
        state.set(effect.key, copied)
    elif status & UNKNOWN:
        state.set(effect.key, _possible_copy(copied, state.get(effect.key)))
    elif status & PRESENT:
        state.maybe(effect.key, copied, value.why or Why("branch", step))


def _possible_copy(copied: Fact, old: Fact) -> Fact:
    """The fact about a key to which a value may or may not have been copied."""
    may_stay = old.mask & (PRESENT | UNKNOWN)
    value_type = copied.type if not may_stay or old.type == copied.type else None
    writers, texts = merged_steps(old.writers, copied.writers), merged_steps(old.text_of, copied.text_of)
    return Fact(PRESENT | UNKNOWN, writers, texts, value_type, of=(copied, old), lost=old.lost)


def _removes(state: Knowledge, step: Step, effect: effects.Removes, before: Before) -> None:
    state.remove(effect.key, step)


# --- many keys ------------------------------------------------------------------------------------


def _keeps(state: Knowledge, step: Step, effect: effects.Keeps, before: Before) -> None:
    state.clear(step, effect.keys)


def _writes_anything(state: Knowledge, step: Step, effect: effects.WritesAnything, before: Before) -> None:
    state.forget(step)


def _unpacks(state: Knowledge, step: Step, effect: effects.Unpacks, before: Before) -> None:
    old = state.get(effect.key)
    if old.mask & STATUS == ABSENT:
        return
    state.set(leaves_of(effect.key), written_fact(step, of=(old,)))
    state.set(effect.key, Fact(old.mask | ABSENT | REMOVED, old.writers, removed_by=step, of=old.of))


def _packs(state: Knowledge, step: Step, effect: effects.Packs, before: Before) -> None:
    for key in state.session_keys():
        root, separator, _ = key.partition(".")
        if not separator:
            continue
        value = state.get(key)
        state.remove(key, step)
        if not value.mask & (PRESENT | UNKNOWN):
            continue
        old = state.get(root)
        certain = value.mask & STATUS == PRESENT and not key.endswith(".*")
        mask = PRESENT if certain else old.mask | UNKNOWN
        state.set(root, Fact(mask, merged_steps(old.writers, (step,)), (), dict, of=(old, value)))


# --- operations that run other operations ---------------------------------------------------------


def _apply_all(state: Knowledge, step: Step, nodes: tuple[effects.Transform, ...]) -> None:
    for node in nodes:
        apply_transform(state, step, node)


def _one_of(state: Knowledge, step: Step, effect: effects.OneOf, before: Before) -> None:
    forks: list[Knowledge] = []
    for test, nodes in effect.ways:
        fork = state.fork()
        with_assumption(fork, test, partial(_apply_all, fork, step, nodes))
        forks.append(fork)
    state.join(forks, "branch", step, or_none=True)


def _at_once(state: Knowledge, step: Step, effect: effects.AtOnce, before: Before) -> None:
    """Run all operations on the same input; the writes and removals of a replacement win over a delta.

    Each operation runs in a fork of the same state, because none sees the changes of the others. `merged`
    collects the facts of the operations that return a delta: a later one wins. `replaced` collects those of
    the operations that replace the state, with the keys that they drop. At the end, each key gets the fact
    of its replacement, if it has one. If that drops a key that a delta writes, the fact before the step
    decides: an operation drops only keys that it received.
    """
    merged: dict[str, Fact] = {}
    forks: list[Knowledge] = []
    for node in effect.steps:
        fork = state.fork()
        apply_transform(fork, step, node)
        if fork.unknown_since is not None:
            state.forget(step)
        if node.semantics == "merge":
            merged |= fork.facts
        else:
            forks.append(fork)
    replaced: dict[str, Fact] = {}
    for fork in forks:
        if fork.cleared_by is not None:
            for key in {*state.session_keys(), *filter(is_session_scoped, merged)} - fork.facts.keys():
                replaced[key] = fork.get(key)
        replaced |= fork.facts
    for key, fact in merged.items():
        replacement = replaced.pop(key, None)
        if replacement is not None and not replacement.mask & ABSENT:
            state.set(key, replacement)
            continue
        if replacement is not None:
            fact = _written_and_removed(state.get(key), fact, replacement)
        state.set(key, fact.with_mask(fact.mask))
    for key, fact in replaced.items():
        state.set(key, fact.with_mask(fact.mask))


def _written_and_removed(old: Fact, written: Fact, removed: Fact) -> Fact:
    """The fact about a key that one operation writes and another removes, if the key was there before."""
    status = old.mask & STATUS
    if status == ABSENT:  # an absent key cannot be removed
        left = written
    else:
        left = removed if status == PRESENT else written.with_mask(PRESENT | ABSENT)
    return left.or_else(removed)


# --- tests ----------------------------------------------------------------------------------------


def assume(state: Knowledge, test: object) -> str | None:
    """Record that a comparison held, so its key is present. Return that key; `None` if nothing follows."""
    if isinstance(test, Match) and test.op != "ne" and not (test.op == "truthy" and not test.value):
        state.mark_present(test.key)
        return test.key
    return None


def with_assumption(state: Knowledge, test: object, visit: Callable[[], None]) -> None:
    """Run `work` for a branch that is taken only if a comparison holds.

    The branch knows that the compared key is present. That knowledge is taken back afterwards, because the
    branch did not write the key.
    """
    key = assume(state, test)
    assumed = state.facts.get(key) if key else None
    visit()
    if key and assumed is not None and state.facts.get(key) is assumed:
        del state.facts[key]


EFFECTS: Final[Mapping[type[effects.Effect], Callable[[Knowledge, Step, Any, Before], None]]] = {
    effects.Needs: _needs,
    effects.Holds: _holds,
    effects.Sets: _sets,
    effects.Defaults: _defaults,
    effects.Writes: _writes,
    effects.MayWrite: _may_write,
    effects.Copies: _copies,
    effects.Removes: _removes,
    effects.Keeps: _keeps,
    effects.WritesAnything: _writes_anything,
    effects.Unpacks: _unpacks,
    effects.Packs: _packs,
    effects.OneOf: _one_of,
    effects.AtOnce: _at_once,
}
"""The function that applies each class of effect."""
