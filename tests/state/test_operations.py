"""Every `S` operation does what its effects declare, for all states."""

from __future__ import annotations

import copy
import inspect
import pickle
from contextlib import suppress
from random import Random
from types import UnionType
from typing import Any, get_args

import pytest

from adk_fluent import S
from adk_fluent.analysis.plan import plan
from adk_fluent.analysis.values.fact import ABSENT, PRESENT, UNKNOWN, Fact
from adk_fluent.analysis.values.knowledge import Knowledge
from adk_fluent.analysis.values.updates import EFFECTS, apply_transform
from adk_fluent.errors import ADKFluentError, ArgumentError, MissingKeyError, TransformError
from adk_fluent.ir import Access, TransformNode, declares, from_dict, ir_hash, to_dict
from adk_fluent.ir.frozen import Frozen
from adk_fluent.ir.state_keys import is_session_scoped
from adk_fluent.state import effects
from adk_fluent.state.delta import ReadOnlyState, changes
from adk_fluent.state.effects import (
    Copies,
    Defaults,
    Effect,
    Keeps,
    Needs,
    Removes,
    Sets,
    Writes,
    all_effects,
    effects_of,
)
from adk_fluent.state.operations import OPERATIONS, StateOperation, changes_of
from tests.samples import typed
from tests.state.operations import Sampler, food, kinds, states
from tests.state.stored import STORED

KEYS = ("k0", "k1", "k2", "k0.x", "user:u", "temp:t")
ROUNDS = 60
KINDS = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)


def rounds(kind: type[StateOperation]) -> list[tuple[StateOperation, dict[str, Any]]]:
    """Examples of an operation, each with a state in which it mostly works."""
    made: list[tuple[StateOperation, dict[str, Any]]] = []
    for seed in range(ROUNDS):
        random = Random(f"{kind.name}{seed}")
        operation = Sampler(random, KEYS).of(kind)
        state = states(random, KEYS)
        if random.random() < 0.8:
            state |= food(operation, random)
        made.append((operation, state))
    return made


def ran(operation: StateOperation, state: dict[str, Any]) -> dict[str, Any] | None:
    """The state after an operation, without what is absent; `None` if it raised."""
    try:
        changed = changes_of(TransformNode(fn=operation), state)
    except ADKFluentError:
        return None
    return {key: value for key, value in {**state, **changed}.items() if value is not None}


def test_every_operation_is_a_factory_of_s() -> None:
    """The classes are those that `S` makes, and each is known by its name; only `+` has no factory."""
    names = {kind.name for kind in kinds()}
    assert names == OPERATIONS.keys()
    assert {name for name in names if not hasattr(S, name)} == {"together"}
    assert {type(expr.node.fn) for expr in STORED.values() if isinstance(expr.node, TransformNode)} == set(
        kinds()
    )


def test_every_kind_of_effect_is_interpreted() -> None:
    """The analysis knows what each kind means."""
    public = [value for name, value in vars(effects).items() if not name.startswith("_")]
    kinds = {kind for kind in public if inspect.isclass(kind) and issubclass(kind, Effect)}
    assert set(EFFECTS) == kinds - {Effect}


@KINDS
def test_an_operation_keeps_to_its_effects(kind: type[StateOperation]) -> None:
    """An operation needs, writes and removes exactly the keys that its effects name; all others stay."""
    worked = 0
    for operation, state in rounds(kind):
        after = ran(operation, state)
        effects = operation.effects
        needed = [effect.key for effect in effects if isinstance(effect, Needs)]
        if after is None:
            continue
        worked += 1
        assert all(key in state for key in needed), operation
        written = {key for effect in effects for key in effect.writes}
        for effect in effects:
            for key in effect.always_writes:
                assert key in after, operation
            match effect:
                case Sets(key=key, value=value):
                    assert after.get(key) == value, operation
                case Defaults(key=key, value=value):
                    assert after.get(key) == state.get(key, value), operation
                case Copies(source=source, key=key, type=None):
                    assert source not in state or after[key] == state[source], operation
                case Copies(source=source, key=key):
                    assert (source in state) <= (key in after), operation
                case Removes(key=key) if is_session_scoped(key) and key not in written:
                    assert key not in after, operation
                case Keeps(keys=keys):
                    assert {key for key in after if is_session_scoped(key)} <= {*keys}, operation
                case _:
                    pass
        assert changed_keys(state, after) <= may_change(operation, state) or not knows(operation), operation
    assert worked > ROUNDS // 10


def changed_keys(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """The keys that differ."""
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def may_change(operation: StateOperation, state: dict[str, Any]) -> set[str]:
    """The keys that its effects say it may change."""
    found: set[str] = set()
    for effect in all_effects(TransformNode(fn=operation)):
        found |= {*effect.writes, *effect.may_remove}
        if isinstance(effect, Keeps):
            found |= {key for key in state if is_session_scoped(key)} - {*effect.keys}
    return found


def knows(operation: StateOperation) -> bool:
    """True if its effects name all keys that it writes."""
    return operation.access.writes_known


@KINDS
def test_an_operation_raises_without_its_needs(kind: type[StateOperation]) -> None:
    """With a key taken away that it needs, or of another type than it asks for, it raises."""
    for operation, state in rounds(kind):
        if ran(operation, state) is None:
            continue
        for effect in operation.effects:
            if isinstance(effect, Needs):
                without = {key: value for key, value in state.items() if key != effect.key}
                assert ran(operation, without) is None, operation
        looks = all(read.key in state for read in operation.reads if read.via == "operation")
        for read in operation.reads:
            if read.type is not None and looks:
                assert ran(operation, {**state, read.key: "text"}) is None, operation


@KINDS
def test_an_operation_reads_only_declared_keys(kind: type[StateOperation]) -> None:
    """A key that it does not read is never asked for, where it says all that it reads."""
    for operation, state in rounds(kind):
        access = operation.access
        effects = all_effects(TransformNode(fn=operation))
        removed = {key for effect in effects for key in effect.may_remove}
        if any(isinstance(effect, Keeps) for effect in effects):
            removed |= {key for key in KEYS if is_session_scoped(key)}
        if not access.reads_known:
            continue
        seen = Watched(state)
        with suppress(ADKFluentError):
            operation(seen)
        assert seen.asked <= access.reads | access.writes | removed, operation


class Watched(ReadOnlyState):
    """A state that notes which values are asked for."""

    __slots__ = ("asked",)

    def __init__(self, values: Any) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


@KINDS
def test_the_analysis_is_right_about_it(kind: type[StateOperation]) -> None:
    """After an operation on a known state, the keys and types are those that the analysis claims."""
    for operation, state in rounds(kind):
        after = ran(operation, state)
        if after is None:
            continue
        node = TransformNode(fn=operation)
        step = plan(node).root
        known = Knowledge()
        for key in {*KEYS, *state}:
            known.set(key, Fact(PRESENT if key in state else ABSENT))
        apply_transform(known, step, node)
        for key in {*KEYS, *after}:
            fact = known.look(key)
            there = key in after
            assert fact.mask & ((PRESENT if there else ABSENT) | UNKNOWN), (operation, state, key)
            if there and fact.type is not None and key not in state:
                assert isinstance(after[key], types(fact.type)), (operation, state, key)


def types(kind: Any) -> Any:
    """The second argument of `isinstance`."""
    return get_args(kind) if isinstance(kind, UnionType) else kind


@KINDS
def test_its_node_says_the_same(kind: type[StateOperation]) -> None:
    """A node's reads and writes are those of its operation's effects, for all arguments."""
    for operation, state in rounds(kind):
        node = TransformNode(fn=operation, semantics="replace_session", affected_keys=frozenset({"lie"}))
        effects = effects_of(node)
        removed = frozenset(effect.key for effect in effects if isinstance(effect, Removes))
        keeps = any(isinstance(effect, Keeps) for effect in effects)
        assert node.semantics == ("replace_session" if keeps else "delete_keys" if removed else "merge")
        assert node.affected_keys == (removed or None)
        assert node == TransformNode(fn=operation)
        if (after := ran(operation, state)) is not None:
            plain = typed(lambda view, fn=operation: fn(view))
            found = changes(TransformNode(fn=plain), plain(ReadOnlyState(state)), state)
            assert {k: v for k, v in {**state, **found}.items() if v is not None} == after


@pytest.mark.parametrize("called", STORED)
def test_an_operation_is_a_frozen_value(called: str) -> None:
    """An operation compares, hashes, prints, copies and pickles by its fields, and cannot be changed."""
    node = STORED[called].node
    again = from_dict(to_dict(node))
    assert again == node
    assert hash(again) == hash(node)
    assert sorted(repr(again)) == sorted(repr(node))  # the members of a set have no order
    assert ir_hash(again) == ir_hash(node)
    assert pickle.loads(pickle.dumps(node)) == copy.deepcopy(node) == node
    for effect in all_effects(node) if isinstance(node, TransformNode) else ():
        assert effect in (all_effects(again) if isinstance(again, TransformNode) else ())
        with pytest.raises(AttributeError, match="cannot assign"):
            setattr(effect, "key", "other")  # noqa: B010  # a type checker refuses the plain form


@KINDS
def test_an_operation_declares_the_keys_of_its_values(kind: type[StateOperation]) -> None:
    """Each key whose value is in what it writes is among its reads, and each that it removes by name."""
    for operation, _ in rounds(kind):
        named = {read.key for read in operation.reads}
        for effect in operation.effects:
            assert named >= {*effect.sources} | ({*effect.may_remove} - {*effect.writes})


@KINDS
def test_every_operation_is_documented(kind: type[StateOperation]) -> None:
    """Each operation has its own summary in the documentation."""
    assert kind.__doc__
    assert issubclass(kind, Frozen)


# --- functions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (TransformNode(fn=declares(reads=["b", "a"], writes=["c"])(print)), [Writes("c", None, ("a", "b"))]),
        (
            TransformNode(fn=declares(writes=["c"])(print), semantics="replace_session"),
            [Keeps(("c",)), Writes("c")],
        ),
        (
            TransformNode(
                fn=declares(reads=[])(print), semantics="delete_keys", affected_keys=frozenset({"b", "a"})
            ),
            [Removes("a"), Removes("b")],
        ),
    ],
)
def test_functions_have_effects_too(node: TransformNode, expected: list[Effect]) -> None:
    """The effects of a plain function follow from its declaration and the meaning of its result."""
    assert list(effects_of(node)) == expected


def test_a_function_that_says_nothing_may_write_anything() -> None:
    """After a function without a declaration, the analysis claims nothing about any key."""
    (effect,) = effects_of(TransformNode(fn=typed(lambda state: dict(state))))
    assert not effect.writes_known
    assert effect != Needs("a")


# --- calling ------------------------------------------------------------------------------------------


def later() -> Any:
    """An async function of the state."""

    async def wait(state: Any) -> dict[str, int]:
        return {"a": 1}

    return wait


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (S.rename(a="b")({"a": 1}), {"a": None, "b": 1}),
        (S.rename(a="b")({}), {}),
        (S.drop("a", "user:a", "gone")({"a": 1, "user:a": 2}), {"a": None}),
        (S.pick("a")({"a": 1, "b": 2, "app:c": 3}), {"b": None}),
        (S.set(a=1, b=2)({"a": 1}), {"b": 2}),
        ((S.set(a=1) + S.drop("b"))({"b": 2}), {"a": 1, "b": None}),
        ((S.set(a=1) >> S.rename(a="b"))({}), {"b": 1}),
        ((S.set(a=1) >> S.drop("a"))({"a": 2}), {"a": None}),
        ((S.set(a=1) >> typed(lambda state: {"b": state["a"] + 1}))({}), {"a": 1, "b": 2}),
        (S.when("a", S.counter("n"))({"a": True}), {"n": 1}),
        (S.when("a", S.counter("n"))({}), {}),
        (S.branch("k", x=S.drop("k") >> S.set(z=1), y=S.set(z=2))({"k": " x "}), {"k": None, "z": 1}),
        (S.transform("a", lambda value: None)({"a": 1}), {"a": None}),
        (S.identity()({"a": 1}), {}),
    ],
)
def test_a_transform_is_a_function_of_the_state(changed: dict[str, Any], expected: dict[str, Any]) -> None:
    """A transform returns its changes: `None` for a removed key, and no entry for an unchanged one."""
    assert changed == expected


def test_calling_leaves_the_state_as_it_is() -> None:
    """A function that changes its arguments or its result does not change the state."""
    state: dict[str, Any] = {"a": [1]}
    found = S.transform("a", lambda value: [*value, value.append(2)])(state)
    assert state == {"a": [1]}
    assert found == {"a": [1, None]}
    kept = [1]
    made = S.set(a=kept)({})
    made["a"].append(2)
    assert kept == [1]
    assert S.set(a=kept)({}) == {"a": [1]}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: S.fn(later())({}),
            TransformError,
            "Transform 'fn' is async, and nothing awaits it here. Call the function by itself, "
            "await wait(state), or run the step.",
        ),
        (
            lambda: (S.set(a=1) >> later())({}),
            TransformError,
            "Transform 'wait' is async, and nothing awaits it here. Call the function by itself, "
            "await wait(state), or run the step.",
        ),
        (
            lambda: (S.set(a=1) >> S.capture("said"))({}),
            ArgumentError,
            "Only S transforms and functions of the state can be called with a state, and 'capture' is "
            "neither. To run it, use .run() or .ask().",
        ),
        (
            lambda: (S.set(a=1) >> S.zip("b", into="c"))({}),
            MissingKeyError,
            "S.zip needs state key 'b', which is not set. Write it before, or put S.default in front.",
        ),
    ],
)
def test_uncallable_values_are_refused_with_advice(call: Any, error: type[Exception], message: str) -> None:
    """An async function, a step that is no transform, and what would stop a run as well."""
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


async def test_an_async_step_can_be_run_by_itself() -> None:
    """As its message says; no agent and no model is needed for that."""
    done = await S.fn(later()).run("go", state={"b": 2})
    assert done.state == {"a": 1, "b": 2}


def test_keys_of_a_loaded_operation_come_from_its_class() -> None:
    """A stored graph cannot say of an operation that it touches other keys than it does."""
    data = to_dict(S.merge("a", into="b").node)
    data["root"]["fn"]["access"] = {"$value": {"$ref": "adk_fluent.ir.functions:Access"}}
    assert from_dict(data).access == Access(frozenset({"a"}), frozenset({"b"}))
