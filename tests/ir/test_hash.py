from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from adk_fluent import Agent, Route, S, gate, until
from adk_fluent.ir import Node, ir_hash
from adk_fluent.ir.codec import value_hash
from adk_fluent.ir.nodes import TransformFn
from adk_fluent.ir.predicates import Predicate, StateView
from tests.limits import LIMIT
from tests.samples import EXPRESSIONS, NODES, add, is_done, typed

a = Agent("a")

SCRIPT = """
import json
from tests.samples import NODES
from tests.ir.test_hash import UNNAMED
from adk_fluent.ir import ir_hash
print(json.dumps({name: ir_hash(node) for name, node in [*NODES.items(), *UNNAMED.items()]}, indent=1))
"""


def closing_over(limit: object) -> Predicate:
    """A function that has no import path and holds a value."""
    return lambda state: state["x"] > limit


UNNAMED: dict[str, Node] = {
    "lambda": (a >> typed(lambda state: {"x": 1})).node,
    "lambda with a nested function": (a >> typed(lambda state: {"x": (lambda: [1])()})).node,
    "lambda with a set": (a >> typed(lambda state: {"x": state["k"] in {"one", "two", "three"}})).node,
    "closure": Route("k").when(closing_over({"low", "high"}), a).node,
    "partial": a.tool(partial(add, 1)).node,
}


def test_the_hash_is_the_same_in_every_process() -> None:
    """Whatever the hash seed of the process, each tree has one hash, functions without a path included."""
    outputs: set[str] = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": "src:.", "PYTHONHASHSEED": seed},
            timeout=LIMIT,
        )
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
    here = [ir_hash(node) for node in (*NODES.values(), *UNNAMED.values())]
    assert here == [line.split('"')[3] for line in outputs.pop().splitlines() if ":" in line]


def test_different_trees_have_different_hashes() -> None:
    """No two of the samples share a hash, and each is 64 hexadecimal digits."""
    hashes = [ir_hash(node) for node in (*NODES.values(), *UNNAMED.values())]
    assert len(set(hashes)) == len(hashes)
    assert all(len(found) == 64 and int(found, 16) for found in hashes)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (S.set(x=1), S.set(x=2)),
        (S.set(x=1), S.set(x=True)),
        (S.set(x=1), S.set(x=1.0)),
        (S.set(x=(1,)), S.set(x=[1])),
        (S.set(x={1}), S.set(x=frozenset({1}))),
        (S.set(x=b"x"), S.set(x="x")),
        (a >> typed(lambda s: {"x": 1}), a >> typed(lambda s: {"x": 2})),
        (a >> typed(lambda s: {"x": s["a"]}), a >> typed(lambda s: {"x": s["b"]})),
        (Route("k").when(closing_over(1), a), Route("k").when(closing_over(2), a)),
        (a.tool(partial(add, 1)), a.tool(partial(add, 2))),
        (a.tool(partial(add, b=1)), a.tool(partial(add, a=1))),
        (a >> Agent("b"), a | Agent("b")),
        (gate(is_done), gate(is_done, into="ok")),
        (gate(is_done, into="no"), gate(is_done, into="ok")),
        (gate(is_done, message="{a}?"), gate(is_done, message="{b}?")),
    ],
)
def test_small_differences_count(one: Any, other: Any) -> None:
    """A changed constant, key, type, captured value or bound argument changes the hash."""
    assert ir_hash(one.node) != ir_hash(other.node)


def test_defaults_of_functions_count() -> None:
    """Two functions with the same code and different defaults are different."""

    def holding(n: int) -> TransformFn:
        def write(state: StateView, value: int = n) -> dict[str, int]:
            return {"x": value}

        return write

    assert ir_hash((a >> holding(1)).node) == ir_hash((a >> holding(1)).node)
    assert ir_hash((a >> holding(1)).node) != ir_hash((a >> holding(2)).node)


def test_the_order_of_a_dict_does_not_count() -> None:
    """Equal trees have equal hashes, and dicts in another order are equal."""
    one, other = S.set(x={"p": {"q": 1, "r": 2}, "s": 3}), S.set(x={"s": 3, "p": {"r": 2, "q": 1}})
    assert one == other
    assert ir_hash(one.node) == ir_hash(other.node)


def test_what_cannot_be_stored_is_still_hashed() -> None:
    """Local classes and live objects count by their type; a function that holds itself ends."""

    class Local(BaseModel):
        x: int = 0

    def again(state: Any) -> Any:
        return again

    assert ir_hash(a.returns(Local).node) == ir_hash(a.returns(Local).node) != ir_hash(a.node)
    assert ir_hash(S.set(x=Local(x=1)).node) != ir_hash(S.set(x=Local(x=2)).node)
    assert ir_hash((a >> again).node)
    assert ir_hash(a.tool("a,b".split).node) != ir_hash(a.tool("a,b".strip).node)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_hash_follows_the_tree(name: str) -> None:
    """Renaming the root changes the hash; a copy of the tree keeps it."""
    node = EXPRESSIONS[name].node
    assert ir_hash(node.replace()) == ir_hash(node)
    assert ir_hash(node.replace(name="other")) != ir_hash(node)


def test_what_changes_in_a_run_does_not_count() -> None:
    """A counter, a list and a client that functions hold leave a tree the hash it has; a constant counts."""

    class Client:
        calls = 0

    def build(step: int) -> Any:
        seen: list[str] = []
        client, count = Client(), 0

        def bump(state: StateView, kept: list[str] = seen) -> dict[str, int]:
            nonlocal count
            count += step
            seen.append("x")
            client.calls += 1
            return {"x": count}

        rounds = (a >> bump) * until(lambda state: count > 3 and len(seen) > step)
        return rounds >> a.tool(partial(add, seen)), bump  # pyright: ignore[reportArgumentType]  # a partial has no name

    tree, bump = build(1)
    before = ir_hash(tree.node)
    assert bump({}) == {"x": 1}
    assert ir_hash(tree.node) == before == ir_hash(build(1)[0].node)
    assert ir_hash(build(2)[0].node) != before


def test_a_tree_is_encoded_once() -> None:
    """A tree is encoded again only if a function rebinds a variable, and then without that variable."""

    class Dumped:
        times = 0

        def model_dump(self, **options: object) -> dict[str, int]:
            self.times += 1
            return {}

    def counting() -> TransformFn:
        count = 0

        def bump(state: StateView) -> dict[str, int]:
            nonlocal count
            count += 1
            return {"x": count}

        return bump

    for held, times in ((closing_over(3), 1), (counting(), 2)):
        seen = Dumped()
        value_hash((seen, held))
        assert seen.times == times
