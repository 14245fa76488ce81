"""What each `S` operation, and each function as a step, does to what is known about the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from adk_fluent.analysis.origins import ANYBODY, Sources
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
from adk_fluent.analysis.values.knowledge import State
from adk_fluent.ir.functions import Access, access
from adk_fluent.ir.matching import Match
from adk_fluent.ir.nodes import TransformNode
from adk_fluent.state.delta import is_session_scoped
from adk_fluent.state.operations import Operation

Params = dict[str, Any]


def apply_transform(state: State, step: Step, node: TransformNode) -> None:
    """Record what the transform `node`, run by `step`, does."""
    fn = node.fn
    if isinstance(fn, Operation):
        effect = _EFFECTS.get(fn.name)
        if effect is not None:
            effect(state, step, dict(fn.params))
            return
    touched = node.access
    if node.semantics == "replace_session":
        state.clear(step, touched.writes)
    for key in node.affected_keys or ():
        state.remove(key, step)
    if not touched.writes_known:
        state.blur(step)
    sources = read_by(state, touched)
    for key in touched.writes:
        state.set(key, written(step, of=sources))


def read_by(state: State, touched: Access) -> Sources:
    """What a function makes its values of: what it reads."""
    if not touched.reads_known:
        return (ANYBODY,)
    return tuple(state.get(key) for key in sorted(touched.reads))


def _nothing(state: State, step: Step, params: Params) -> None:
    pass


def _pick(state: State, step: Step, params: Params) -> None:
    state.clear(step, params["keys"])


def _rename(state: State, step: Step, params: Params) -> None:
    pairs: tuple[tuple[str, str], ...] = params["pairs"]
    values = [(new, state.get(old)) for old, new in pairs]
    for old, _ in pairs:
        state.remove(old, step)
    for new, value in values:
        _copy(state, step, new, value)


def _copy(state: State, step: Step, key: str, value: Fact) -> None:
    """Write a value that is there only if its source was."""
    status = value.mask & STATUS
    writers = some(value.writers, (step,))
    copied = Fact(PRESENT, writers, value.text_of, value.type, of=value.of, by=step)
    if status == PRESENT:
        state.set(key, copied)
    elif status & UNKNOWN:
        state.set(key, copied.with_mask(PRESENT | UNKNOWN))
    elif status & PRESENT:
        state.maybe(key, copied, value.why or Why("branch", step))


def _values(params: Params) -> tuple[tuple[str, object], ...]:
    return params["values"]


def _set(state: State, step: Step, params: Params) -> None:
    for key, value in _values(params):
        if value is None:
            state.set(key, Fact(ABSENT | REMOVED, removed_by=step))
        else:
            state.set(key, written(step, type(value), of=()))


def _default(state: State, step: Step, params: Params) -> None:
    for key, value in _values(params):
        before = state.get(key)
        if before.mask & STATUS == PRESENT:
            continue
        fresh = before.mask & STATUS == ABSENT
        writers, kind = some(before.writers, (step,)), type(value) if fresh else None
        of = (before, written(step, of=()))
        state.set(key, Fact(PRESENT, writers, before.text_of, kind, of=of))


def _merge(state: State, step: Step, params: Params) -> None:
    sources = tuple(state.get(key) for key in params["keys"])
    state.set(params["into"], written(step, str if params["fn"] is None else None, of=sources))


def _transform(state: State, step: Step, params: Params) -> None:
    state.set(params["key"], written(step, of=(state.get(params["key"]),)))


def _compute(state: State, step: Step, params: Params) -> None:
    made = [(key, written(step, of=read_by(state, access(fn)))) for key, fn in params["values"]]
    for key, fact in made:
        state.set(key, fact)


def _counter(state: State, step: Step, params: Params) -> None:
    state.set(params["key"], written(step, int | float, of=()))


def _zip(state: State, step: Step, params: Params) -> None:
    state.set(params["into"], written(step, list, of=tuple(state.get(key) for key in params["keys"])))


def _group_by(state: State, step: Step, params: Params) -> None:
    state.set(params["into"], written(step, dict, of=(state.get(params["key"]),)))


def _accumulate(state: State, step: Step, params: Params) -> None:
    _grow(state, step, params["into"], state.get(params["key"]))


def _history(state: State, step: Step, params: Params) -> None:
    _grow(state, step, f"{params['key']}_history", state.get(params["key"]))


def _grow(state: State, step: Step, into: str, value: Fact) -> None:
    """A list that gets one more item if there is a value."""
    _copy(state, step, into, Fact(value.mask, (), (), list, value.why, of=(value, state.get(into))))


def _flatten(state: State, step: Step, params: Params) -> None:
    key = params["key"]
    before = state.get(key)
    if before.mask & STATUS == ABSENT:
        return
    state.set(leaves_of(key), written(step, of=(before,)))
    mask = before.mask | ABSENT | REMOVED
    state.set(key, Fact(mask, before.writers, removed_by=step, of=before.of, by=before.by))


def _unflatten(state: State, step: Step, params: Params) -> None:
    for key in state.session_keys():
        root, dot, _ = key.partition(".")
        if not dot:
            continue
        value = state.get(key)
        state.remove(key, step)
        if not value.mask & (PRESENT | UNKNOWN):
            continue
        before = state.get(root)
        certain = value.mask & STATUS == PRESENT and not key.endswith(".*")
        mask = PRESENT if certain else before.mask | UNKNOWN
        made = written(step, of=(before, value))
        of = (made,) if certain else (before, made)
        state.set(root, Fact(mask, some(before.writers, (step,)), (), dict, of=of))


def _require(state: State, step: Step, params: Params) -> None:
    for key in params["keys"]:
        state.is_there(key)


def _guard(state: State, step: Step, params: Params) -> None:
    assume(state, params["test"])


def assume(state: State, test: object) -> str | None:
    """Record what follows from a comparison that held: its key, which is given back, is there."""
    if isinstance(test, Match) and test.op != "ne" and not (test.op == "truthy" and not test.value):
        state.is_there(test.key)
        return test.key
    return None


def supposing(state: State, test: object, work: Callable[[], None]) -> None:
    """Do `work` in a branch that runs only if a comparison holds; what follows it learns nothing of that."""
    key = assume(state, test)
    assumed = state.facts.get(key) if key else None
    work()
    if key and assumed is not None and state.facts.get(key) is assumed:
        del state.facts[key]


def _apply_all(state: State, step: Step, nodes: tuple[TransformNode, ...]) -> None:
    for node in nodes:
        apply_transform(state, step, node)


def _validate(state: State, step: Step, params: Params) -> None:
    for name, field in params["model"].model_fields.items():
        if field.is_required():
            state.is_there(name)


def _when(state: State, step: Step, params: Params) -> None:
    fork = state.fork()
    supposing(fork, params["test"], lambda: _apply_all(fork, step, params["steps"]))
    state.join([fork], "branch", step, or_none=True)


def _branch(state: State, step: Step, params: Params) -> None:
    forks: list[State] = []
    for case, nodes in params["cases"]:
        fork = state.fork()
        supposing(fork, Match(params["key"], "eq", case), partial(_apply_all, fork, step, nodes))
        forks.append(fork)
    state.join(forks, "branch", step, or_none=True)


def _together(state: State, step: Step, params: Params) -> None:
    """All on the same input; what a replacement removes or writes wins over a delta."""
    nodes: tuple[TransformNode, ...] = params["steps"]
    deltas: dict[str, Fact] = {}
    forks: list[State] = []
    for node in nodes:
        fork = state.fork()
        apply_transform(fork, step, node)
        if fork.blurred_by is not None:
            state.blur(step)
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


_EFFECTS: Final[Mapping[str, Callable[[State, Step, Params], None]]] = {
    "pick": _pick,
    "rename": _rename,
    "default": _default,
    "set": _set,
    "merge": _merge,
    "transform": _transform,
    "compute": _compute,
    "guard": _guard,
    "require": _require,
    "validate": _validate,
    "log": _nothing,
    "identity": _nothing,
    "accumulate": _accumulate,
    "counter": _counter,
    "history": _history,
    "flatten": _flatten,
    "unflatten": _unflatten,
    "zip": _zip,
    "group_by": _group_by,
    "when": _when,
    "branch": _branch,
    "together": _together,
}
"""Operations whose effect is more than "writes these keys and removes those"."""
