"""What a transform does to what is known about the state: the one place where effects are interpreted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from adk_fluent.analysis.origins import ANYBODY
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import (
    ABSENT,
    PRESENT,
    REMOVED,
    STATUS,
    UNKNOWN,
    Fact,
    Why,
    leaves_of,
    some,
    written,
)
from adk_fluent.analysis.values.knowledge import Knowledge
from adk_fluent.ir.predicates import Match
from adk_fluent.ir.state_keys import is_session_scoped
from adk_fluent.state.effects import (
    AtOnce,
    Copies,
    Defaults,
    Effect,
    Holds,
    Keeps,
    MayWrite,
    Needs,
    OneOf,
    Packs,
    Removes,
    Sets,
    Transform,
    Unpacks,
    Writes,
    WritesAnything,
    effects_of,
)

Before = Mapping[str, Fact]
"""What was known, before the transform ran, about the keys of which it makes something."""


def apply_transform(state: Knowledge, step: Step, node: Transform) -> None:
    """Record what the transform `node`, run by `step`, does."""
    effects = effects_of(node)
    before = {key: state.get(key) for effect in effects for key in effect.sources}
    for effect in effects:
        EFFECTS[type(effect)](state, step, effect, before)


# --- single keys ----------------------------------------------------------------------------------


def _needs(state: Knowledge, step: Step, effect: Needs, before: Before) -> None:
    state.is_there(effect.key)


def _holds(state: Knowledge, step: Step, effect: Holds, before: Before) -> None:
    assume(state, effect.test)


def _sets(state: Knowledge, step: Step, effect: Sets, before: Before) -> None:
    if effect.value is None:
        state.set(effect.key, Fact(ABSENT | REMOVED, removed_by=step))
    else:
        state.set(effect.key, written(step, effect.type_of(effect.key), of=()))


def _defaults(state: Knowledge, step: Step, effect: Defaults, before: Before) -> None:
    was = state.get(effect.key)
    if was.mask & STATUS == PRESENT or effect.value is None:
        return
    fresh = was.mask & STATUS == ABSENT
    writers, kind = some(was.writers, (step,)), effect.type_of(effect.key) if fresh else None
    made_of = (was, written(step, of=()))
    state.set(effect.key, Fact(PRESENT, writers, was.text_of, kind, of=made_of))


def _writes(state: Knowledge, step: Step, effect: Writes, before: Before) -> None:
    sources = (ANYBODY,) if effect.of is None else tuple(before[key] for key in effect.of)
    state.set(effect.key, written(step, effect.type, of=sources))


def _may_write(state: Knowledge, step: Step, effect: MayWrite, before: Before) -> None:
    sources = (ANYBODY,) if effect.of is None else tuple(before[key] for key in effect.of)
    state.maybe(effect.key, written(step, effect.type, of=sources), Why("source", step, (step,)))


def _copies(state: Knowledge, step: Step, effect: Copies, before: Before) -> None:
    """Write a value that is there only if its source was."""
    value = before[effect.source]
    if effect.type is not None:
        made_of = tuple(before[key] for key in effect.sources)
        value = Fact(value.mask, (), (), effect.type, value.why, of=made_of)
    status = value.mask & STATUS
    writers = some(value.writers, (step,))
    copied = Fact(PRESENT, writers, value.text_of, value.type, of=value.of, by=step)
    if status == PRESENT:
        state.set(effect.key, copied)
    elif status & UNKNOWN:
        state.set(effect.key, _perhaps(copied, state.get(effect.key)))
    elif status & PRESENT:
        state.maybe(effect.key, copied, value.why or Why("branch", step))


def _perhaps(copied: Fact, was: Fact) -> Fact:
    """What a key holds where nobody knows whether a value was copied to it."""
    kept = was.mask & (PRESENT | UNKNOWN)
    kind = copied.type if not kept or was.type == copied.type else None
    writers, texts = some(was.writers, copied.writers), some(was.text_of, copied.text_of)
    return Fact(PRESENT | UNKNOWN, writers, texts, kind, of=(copied, was), lost=was.lost)


def _removes(state: Knowledge, step: Step, effect: Removes, before: Before) -> None:
    state.remove(effect.key, step)


# --- many keys ------------------------------------------------------------------------------------


def _keeps(state: Knowledge, step: Step, effect: Keeps, before: Before) -> None:
    state.clear(step, effect.keys)


def _writes_anything(state: Knowledge, step: Step, effect: WritesAnything, before: Before) -> None:
    state.forget(step)


def _unpacks(state: Knowledge, step: Step, effect: Unpacks, before: Before) -> None:
    was = state.get(effect.key)
    if was.mask & STATUS == ABSENT:
        return
    state.set(leaves_of(effect.key), written(step, of=(was,)))
    state.set(effect.key, Fact(was.mask | ABSENT | REMOVED, was.writers, removed_by=step, of=was.of))


def _packs(state: Knowledge, step: Step, effect: Packs, before: Before) -> None:
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
        state.set(root, Fact(mask, some(was.writers, (step,)), (), dict, of=(was, value)))


# --- other transforms -----------------------------------------------------------------------------


def _apply_all(state: Knowledge, step: Step, nodes: tuple[Transform, ...]) -> None:
    for node in nodes:
        apply_transform(state, step, node)


def _one_of(state: Knowledge, step: Step, effect: OneOf, before: Before) -> None:
    forks: list[Knowledge] = []
    for test, nodes in effect.ways:
        fork = state.fork()
        supposing(fork, test, partial(_apply_all, fork, step, nodes))
        forks.append(fork)
    state.join(forks, "branch", step, or_none=True)


def _at_once(state: Knowledge, step: Step, effect: AtOnce, before: Before) -> None:
    """All on the same input; what a replacement removes or writes wins over a delta."""
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
            was = state.get(key).mask & STATUS  # what was not there cannot be removed
            kept = fact if was == ABSENT else over if was == PRESENT else fact.with_mask(PRESENT | ABSENT)
            fact = kept.or_else(over)
        state.set(key, fact.with_mask(fact.mask) if over is None or over.mask & ABSENT else over)
    for key, fact in replaced.items():
        state.set(key, fact.with_mask(fact.mask))


# --- tests ----------------------------------------------------------------------------------------


def assume(state: Knowledge, test: object) -> str | None:
    """Record what follows from a comparison that held: its key, which is given back, is there."""
    if isinstance(test, Match) and test.op != "ne" and not (test.op == "truthy" and not test.value):
        state.is_there(test.key)
        return test.key
    return None


def supposing(state: Knowledge, test: object, work: Callable[[], None]) -> None:
    """Do `work` in a branch that runs only if a comparison holds; what follows it learns nothing of that."""
    key = assume(state, test)
    assumed = state.facts.get(key) if key else None
    work()
    if key and assumed is not None and state.facts.get(key) is assumed:
        del state.facts[key]


EFFECTS: Final[Mapping[type[Effect], Callable[[Knowledge, Step, Any, Before], None]]] = {
    Needs: _needs,
    Holds: _holds,
    Sets: _sets,
    Defaults: _defaults,
    Writes: _writes,
    MayWrite: _may_write,
    Copies: _copies,
    Removes: _removes,
    Keeps: _keeps,
    WritesAnything: _writes_anything,
    Unpacks: _unpacks,
    Packs: _packs,
    OneOf: _one_of,
    AtOnce: _at_once,
}
"""How each kind of effect changes what is known."""
