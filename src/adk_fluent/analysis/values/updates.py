"""Changes of the knowledge about the keys: the effects of operations, callbacks, tools, failures and pauses.

`state.effects` describes each operation as a tuple of effects. This is the only module that interprets them:
`EFFECTS` has one function for each class of effect.
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


def call_functions(state: Knowledge, step: Step, callbacks: tuple[object, ...]) -> None:
    """Apply the writes of callbacks, which run each time."""
    goes_on = True
    for callback in callbacks:
        touched = said(callback)
        seen = NO_SIGHTINGS if touched is not None else shown_by(callback)
        if touched is None and not seen.whole:
            if step.node.annotations.adopted is not None:
                maybe_write(state, step, seen)
            state.forget(step)
        for key in () if touched is None else touched.writes:
            state.set(key, written_fact(step, of=(ANYBODY,)))
        if seen.whole:
            maybe_write(state, step, seen, always=goes_on)
            goes_on = goes_on and seen.returns_known and not seen.returns  # after `None`, ADK calls the next


def use_tools(state: Knowledge, step: Step, node: AgentNode) -> None:
    """Apply the writes of tools, which run only if the model calls them."""
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
            state.maybe(key, written_fact(step, of=sources), Why("tool", step, (step,)))
    for what, _, seen in node.sighted():
        if what == "tool" and not seen.whole:
            maybe_write(state, step, seen)


def call_hooks(state: Knowledge, step: Step) -> None:
    """Apply the writes of the middleware, or of the plugins of an app, around a step."""
    for middleware in step.node.annotations.middleware:
        seen = shown_around(middleware)
        if not seen.whole:
            state.forget(step)
        maybe_write(state, step, seen, always=True)


def maybe_write(state: Knowledge, step: Step, seen: Sightings, *, always: bool = False) -> None:
    """Apply the writes and removals that the source of a function shows.

    Args:
        always: true if the function runs each time, so the keys that all its paths write are present.
    """
    for one in seen.removes:
        if one.always and always:
            state.remove(one.key, step)
        elif not (fact := state.get(one.key)).mask & ABSENT:
            made = fact.with_mask(fact.mask | ABSENT)
            made.removed_by = step
            state.set(one.key, made)
    for one in seen.writes:
        if one.always and always:
            state.set(one.key, written_fact(step, of=(ANYBODY,)))
        else:
            state.maybe(one.key, written_fact(step, of=(ANYBODY,)), Why("source", step, (step,)))


def record_failure(keys: StepKeys, state: Knowledge, child: Step, step: Step) -> None:
    """Record that a child may have done any part of its effects before it failed or was stopped."""
    done = keys.effects(child)
    if done.pauses is not None:
        record_pause(done.pauses, state)
    for key, writer in done.writes.items():
        made = Fact(PRESENT, (writer,), of=(WrittenIn(child, key),))
        state.maybe(key, made, Why("fallback", step, (writer,)))
    removed = dict(done.removes)
    if done.clears is not None:
        removed = {**dict.fromkeys(state.session_keys(), done.clears), **removed}
    for key, writer in removed.items():
        fact = state.get(key)
        if not fact.mask & ABSENT:
            made = fact.with_mask(fact.mask | ABSENT, Why("fallback", step, fact.writers))
            made.removed_by = writer
            state.set(key, made)
    if done.unknown is not None:
        state.forget(done.unknown)


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


def add_parallel_messages(step: Step, owner: Step, moved: Knowledge, steps: Plan) -> None:
    """Add the messages of branches beside a transfer: these run to their end and may speak before it."""
    inner = step
    for outer in step.above():
        if outer is owner:
            return
        if isinstance(outer.node.runs, execution.InParallel):
            for other in steps.steps[outer.index : outer.end]:
                if other.is_model and not inner.index <= other.index < inner.end:
                    moved.conversation = moved.conversation.with_message(other, other.branch, certain=False)
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
    was = state.get(effect.key)
    if was.mask & STATUS == PRESENT or effect.value is None:
        return
    fresh = was.mask & STATUS == ABSENT
    writers, kind = merged_steps(was.writers, (step,)), effect.type_of(effect.key) if fresh else None
    made_of = (was, written_fact(step, of=()))
    state.set(effect.key, Fact(PRESENT, writers, was.text_of, kind, of=made_of))


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
        state.set(effect.key, _perhaps(copied, state.get(effect.key)))
    elif status & PRESENT:
        state.maybe(effect.key, copied, value.why or Why("branch", step))


def _perhaps(copied: Fact, was: Fact) -> Fact:
    """The fact about a key to which a value may or may not have been copied."""
    kept = was.mask & (PRESENT | UNKNOWN)
    kind = copied.type if not kept or was.type == copied.type else None
    writers, texts = merged_steps(was.writers, copied.writers), merged_steps(was.text_of, copied.text_of)
    return Fact(PRESENT | UNKNOWN, writers, texts, kind, of=(copied, was), lost=was.lost)


def _removes(state: Knowledge, step: Step, effect: effects.Removes, before: Before) -> None:
    state.remove(effect.key, step)


# --- many keys ------------------------------------------------------------------------------------


def _keeps(state: Knowledge, step: Step, effect: effects.Keeps, before: Before) -> None:
    state.clear(step, effect.keys)


def _writes_anything(state: Knowledge, step: Step, effect: effects.WritesAnything, before: Before) -> None:
    state.forget(step)


def _unpacks(state: Knowledge, step: Step, effect: effects.Unpacks, before: Before) -> None:
    was = state.get(effect.key)
    if was.mask & STATUS == ABSENT:
        return
    state.set(leaves_of(effect.key), written_fact(step, of=(was,)))
    state.set(effect.key, Fact(was.mask | ABSENT | REMOVED, was.writers, removed_by=step, of=was.of))


def _packs(state: Knowledge, step: Step, effect: effects.Packs, before: Before) -> None:
    for key in state.session_keys():
        root, dot, _ = key.partition(".")
        if not dot:
            continue
        value = state.get(key)
        state.remove(key, step)
        if not value.mask & (PRESENT | UNKNOWN):
            continue
        was = state.get(root)
        certain = value.mask & STATUS == PRESENT and not key.endswith(".*")
        mask = PRESENT if certain else was.mask | UNKNOWN
        state.set(root, Fact(mask, merged_steps(was.writers, (step,)), (), dict, of=(was, value)))


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
    """Run all operations on the same input; the writes and removals of a replacement win over a delta."""
    deltas: dict[str, Fact] = {}
    forks: list[Knowledge] = []
    for node in effect.steps:
        fork = state.fork()
        apply_transform(fork, step, node)
        if fork.unknown_since is not None:
            state.forget(step)
        if node.semantics == "merge":
            deltas |= fork.facts
        else:
            forks.append(fork)
    replaced: dict[str, Fact] = {}
    for fork in forks:
        if fork.cleared_by is not None:
            for key in {*state.session_keys(), *filter(is_session_scoped, deltas)} - fork.facts.keys():
                replaced[key] = fork.get(key)
        replaced |= fork.facts
    for key, fact in deltas.items():
        over = replaced.pop(key, None)
        if over is not None and over.mask & ABSENT:
            was = state.get(key).mask & STATUS  # an absent key cannot be removed
            kept = fact if was == ABSENT else over if was == PRESENT else fact.with_mask(PRESENT | ABSENT)
            fact = kept.or_else(over)
        state.set(key, fact.with_mask(fact.mask) if over is None or over.mask & ABSENT else over)
    for key, fact in replaced.items():
        state.set(key, fact.with_mask(fact.mask))


# --- tests ----------------------------------------------------------------------------------------


def assume(state: Knowledge, test: object) -> str | None:
    """Record that a comparison held, so its key is present. Return that key; `None` if nothing follows."""
    if isinstance(test, Match) and test.op != "ne" and not (test.op == "truthy" and not test.value):
        state.mark_present(test.key)
        return test.key
    return None


def with_assumption(state: Knowledge, test: object, work: Callable[[], None]) -> None:
    """Run `work` for a branch that is taken only if a comparison holds.

    The branch knows that the compared key is present. That knowledge is taken back afterwards, because the
    branch did not write the key.
    """
    key = assume(state, test)
    assumed = state.facts.get(key) if key else None
    work()
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
