"""Laws that hold for every expression."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent.errors import ADKFluentError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import (
    LoopNode,
    Node,
    TransferNode,
    edges,
    from_dict,
    ir_hash,
    predecessors,
    resolve_names,
    rewrite,
    to_dict,
    topological_order,
    walk,
)
from adk_fluent.ir.graph import check_name
from tests.limits import LIMIT
from tests.properties.strategies import EXPRESSIONS, AnyExpr
from tests.sampling import examples

few = settings(max_examples=examples(40))


def rebuilt(node: Node) -> Node:
    """An equal tree in which no node is the same object."""
    return copy.deepcopy(node)


@few
@given(EXPRESSIONS, EXPRESSIONS, EXPRESSIONS)
def test_operators_are_associative(a: AnyExpr, b: AnyExpr, c: AnyExpr) -> None:
    """`>>`, `|` and `//` give the same expression however it is bracketed, and the same hash."""
    for one, other in (
        ((a >> b) >> c, a >> (b >> c)),
        ((a | b) | c, a | (b | c)),
        ((a // b) // c, a // (b // c)),
    ):
        assert one == other
        assert hash(one) == hash(other)
        assert ir_hash(one.node) == ir_hash(other.node)


@few
@given(EXPRESSIONS)
def test_json_gives_back_the_same_tree(expression: AnyExpr) -> None:
    """Written as strict JSON text and read again, a tree is equal, hashes alike and is written alike."""
    node = expression.node
    text = json.dumps(to_dict(node), allow_nan=False, sort_keys=True)
    loaded = from_dict(json.loads(text))
    assert loaded == node
    assert hash(loaded) == hash(node)
    assert ir_hash(loaded) == ir_hash(node)
    assert json.dumps(to_dict(loaded), sort_keys=True) == text


@few
@given(EXPRESSIONS)
def test_rewriting_with_identity_is_the_same_object(expression: AnyExpr) -> None:
    """Nothing is rebuilt where nothing changes; what is rebuilt all the same is equal."""
    node = expression.node
    assert rewrite(node, lambda n: n) is node
    assert rewrite(node, lambda n: n.replace()) == node
    assert [*walk(rewrite(node, rebuilt))] == [*walk(node)]


@few
@given(EXPRESSIONS)
def test_copies_are_equal_and_hash_alike(expression: AnyExpr) -> None:
    """Equality is structural, and whatever is equal has one hash and one `ir_hash`."""
    node = expression.node
    for twin in (
        rebuilt(node),
        pickle.loads(pickle.dumps(node)),
        pickle.loads(pickle.dumps(expression)).node,
    ):
        assert twin == node
        assert hash(twin) == hash(node)
        assert ir_hash(twin) == ir_hash(node)
    assert Expr[Any].from_node(node) == expression


@few
@given(st.lists(EXPRESSIONS, min_size=2, max_size=4))
def test_equality_and_hashes_agree(expressions: list[AnyExpr]) -> None:
    """Trees with one stable hash are equal, and equal trees have one hash."""
    for one, other in combinations(expressions, 2):
        if ir_hash(one.node) == ir_hash(other.node):
            assert one == other
        assert one != other or hash(one) == hash(other)


SCRIPT = """
import json, sys
import tests.properties.strategies
from adk_fluent.ir import from_dict, ir_hash
print(json.dumps([ir_hash(from_dict(data)) for data in json.load(sys.stdin)]))
"""


@settings(max_examples=1)
@given(st.lists(EXPRESSIONS, min_size=25, max_size=40))
def test_the_stable_hash_is_the_same_in_every_process(expressions: list[AnyExpr]) -> None:
    """Other processes, with other seeds for Python's own hashes, give the same `ir_hash`."""
    stored = json.dumps([to_dict(expression.node) for expression in expressions])
    for seed in ("0", "12345"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=stored,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": "src:.", "PYTHONHASHSEED": seed},
            timeout=2 * LIMIT,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [ir_hash(expression.node) for expression in expressions]


@few
@given(EXPRESSIONS)
def test_names_are_unique_stable_and_final(expression: AnyExpr) -> None:
    """Every node gets a unique name that ADK accepts, the same each time; named trees do not change."""
    named = resolve_names(expression.node)
    names = [node.name for node in walk(named.root)]
    assert len(set(names)) == len(names)
    for name in names:
        check_name(name)
    again = resolve_names(rebuilt(expression.node))
    assert (again.root, dict(again.origins)) == (named.root, dict(named.origins))
    assert resolve_names(named.root).root is named.root


@few
@given(EXPRESSIONS)
def test_naming_changes_names_alone(expression: AnyExpr) -> None:
    """The tree keeps its shape and every field but the names, which lead back to those that were given."""
    named = resolve_names(expression.node)
    before, after = list(walk(expression.node)), list(walk(named.root))
    assert [type(node) for node in after] == [type(node) for node in before]
    for old, new in zip(before, after, strict=True):
        assert named.origins.get(new.name, "") == old.name
    unnamed = [rewrite(root, lambda n: n.replace(name="")) for root in (expression.node, named.root)]
    assert unnamed[0] == unnamed[1]
    assert {node.name for node in before if node.name} <= {node.name for node in after}


@few
@given(EXPRESSIONS)
def test_order_and_predecessors_agree(expression: AnyExpr) -> None:
    """Both know every node once; without loops and transfers, what runs before a node comes before it."""
    root = resolve_names(expression.node).root
    order = [node.name for node in topological_order(root)]
    before = {node.name: [found.name for found in predecessors(root, node)] for node in walk(root)}
    assert set(before) == set(order)
    assert len(order) == len(set(order))
    assert {(e.source, e.target) for e in edges(root)} == {
        (source, target) for target, sources in before.items() for source in sources
    }
    if not any(isinstance(node, LoopNode | TransferNode) for node in walk(root)):
        for target, sources in before.items():
            assert all(order.index(source) < order.index(target) for source in sources)


@few
@given(EXPRESSIONS)
def test_keys_are_the_same_after_renaming(expression: AnyExpr) -> None:
    """The keys of a tree do not depend on names, and are never empty."""
    root = resolve_names(expression.node).root
    keys = [(node.reads_keys, node.writes_keys) for node in walk(expression.node)]
    assert keys == [(node.reads_keys, node.writes_keys) for node in walk(root)]
    assert all(key.strip() for reads, writes in keys for key in reads | writes)


@settings(max_examples=examples(12))
@given(EXPRESSIONS)
def test_compiling_never_mutates(expression: AnyExpr) -> None:
    """Compiling, or failing to, leaves the expression as it was, and gives the same names each time."""

    def outcome() -> str:
        try:
            return repr([agent.name for agent in _agents(expression.build())])
        except ADKFluentError as error:
            return f"{type(error).__name__}: {error}"

    before, hashed = rebuilt(expression.node), ir_hash(expression.node)
    assert outcome() == outcome()
    assert expression.node == before
    assert ir_hash(expression.node) == hashed


def _agents(root: BaseAgent) -> list[BaseAgent]:
    return [root, *(below for child in root.sub_agents for below in _agents(child))]
