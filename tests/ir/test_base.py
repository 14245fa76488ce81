from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from google.genai import types

from adk_fluent.ir import (
    NODE_TYPES,
    UNSET,
    AgentNode,
    CaptureNode,
    FallbackNode,
    LoopNode,
    MapOverNode,
    Node,
    ParallelNode,
    RaceNode,
    RemoteAgentNode,
    RouteNode,
    SequenceNode,
    TimeoutNode,
    rewrite,
    walk,
)
from tests.samples import NODES, is_done

A, B, C = (AgentNode(name=name) for name in "abc")
PARENTS: dict[str, Node] = {
    "agent": AgentNode(name="p", children=(A, B)),
    "sequence": SequenceNode(children=(A, B)),
    "parallel": ParallelNode(children=(A, B)),
    "loop": LoopNode(children=(A, B)),
    "fallback": FallbackNode(children=(A, B)),
    "race": RaceNode(children=(A, B)),
    "route": RouteNode(rules=((is_done, A), (is_done, B))),
    "route with default": RouteNode(rules=((is_done, A),), default=B),
    "map": MapOverNode(list_key="k", body=A),
    "timeout": TimeoutNode(body=A, seconds=1),
    "remote": RemoteAgentNode(endpoint="http://127.0.0.1:1", fallback=A),
}


def test_unset_is_a_single_value_that_is_not_none() -> None:
    """UNSET says "not set", which is different from None, and survives copying and pickling."""
    assert UNSET is not None
    assert repr(UNSET) == "UNSET"
    assert copy.deepcopy(UNSET) is UNSET
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET
    assert AgentNode(name="x", output_schema=None) != AgentNode(name="x")


def test_fields_of_a_node_cannot_be_set_or_deleted() -> None:
    """A node is frozen: neither its fields nor new attributes can be set."""
    node = AgentNode(name="x")
    with pytest.raises(FrozenInstanceError):
        node.name = "y"  # pyright: ignore[reportAttributeAccessIssue]  # what is tested
    with pytest.raises(FrozenInstanceError):
        del node.name  # pyright: ignore[reportAttributeAccessIssue]  # what is tested
    with pytest.raises((AttributeError, TypeError)):
        node.colour = "red"  # pyright: ignore[reportAttributeAccessIssue]  # what is tested
    assert node == AgentNode(name="x")


def test_nodes_take_keywords_only() -> None:
    """A node is never built by position, so a new field cannot shift the others."""
    with pytest.raises(TypeError):
        AgentNode("x")  # pyright: ignore[reportCallIssue]  # what is tested


@pytest.mark.parametrize("node", NODES.values(), ids=NODES.keys())
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_copy_equals_the_node(node: Node, duplicate: Callable[[Node], Node]) -> None:
    """Copies, shallow or deep, equal the original and hash alike, whether or not its hash was cached."""
    fresh = duplicate(node)
    assert fresh == node
    assert hash(fresh) == hash(node)
    assert duplicate(node) == fresh


@pytest.mark.parametrize("node", NODES.values(), ids=NODES.keys())
def test_a_pickled_node_equals_the_node(node: Node) -> None:
    """Pickling a node and reading it back gives an equal node; the cached hash does not travel."""
    hash(node)
    loaded = pickle.loads(pickle.dumps(node))
    assert loaded == node
    assert hash(loaded) == hash(node)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (AgentNode(name="a"), AgentNode(name="b")),
        (AgentNode(name="a"), AgentNode(name="a", description="x")),
        (SequenceNode(), ParallelNode()),
        (FallbackNode(children=(A, B)), RaceNode(children=(A, B))),
        (SequenceNode(children=(A, B)), SequenceNode(children=(B, A))),
        (SequenceNode(children=(A,)), SequenceNode(children=(SequenceNode(children=(A,)),))),
        (LoopNode(children=(A,)), LoopNode(children=(A,), max_iterations=3)),
        (LoopNode(children=(A,)), LoopNode(children=(A,), until=is_done)),
        (RouteNode(rules=((is_done, A),), default=B), RouteNode(rules=((is_done, A), (is_done, B)))),
        (CaptureNode(key="x"), CaptureNode(key="x", turns=1)),
    ],
)
def test_nodes_that_differ_are_unequal(one: Node, other: Node) -> None:
    """Equality looks at type, every field and the order of children."""
    assert one != other


@pytest.mark.parametrize(
    ("value", "same", "different"),
    [
        (["x"], ["x"], ["y"]),
        ({"k": [1]}, {"k": [1]}, {"k": [2]}),
        (types.Content(role="user"), types.Content(role="user"), types.Content(role="model")),
    ],
    ids=["list", "dict", "pydantic"],
)
def test_unhashable_values_are_hashed_and_compared_fully(value: Any, same: Any, different: Any) -> None:
    """A node that holds a list, dict or pydantic value hashes, and equality still sees a difference."""
    node = AgentNode(name="x", static_instruction=value)
    assert hash(node) == hash(AgentNode(name="x", static_instruction=same))
    assert node == AgentNode(name="x", static_instruction=same)
    assert node != AgentNode(name="x", static_instruction=different)
    assert len({node, AgentNode(name="x", static_instruction=same)}) == 1


def test_the_hash_is_computed_once() -> None:
    """The second hash of a node does not look at its fields again."""
    calls: list[int] = []

    class Counted:
        def __hash__(self) -> int:
            calls.append(1)
            return 7

    node = AgentNode(name="x", model=Counted())  # pyright: ignore[reportArgumentType]  # any value will do
    assert hash(node) == hash(node)
    assert len(calls) == 1


def test_replace_changes_only_what_is_named_and_forgets_the_hash() -> None:
    """`replace` gives a new node with the change; the old node and its cached hash stay."""
    node = AgentNode(name="x", description="old")
    before = hash(node)
    changed = node.replace(description="new")
    assert (changed.name, changed.description) == ("x", "new")
    assert (node.description, hash(node)) == ("old", before)
    assert hash(changed) == hash(AgentNode(name="x", description="new")) != before


def test_replace_refuses_a_field_that_does_not_exist() -> None:
    """A misspelt field is an error, not a silent new attribute."""
    with pytest.raises(TypeError):
        AgentNode(name="x").replace(descripton="new")


@pytest.mark.parametrize("node", PARENTS.values(), ids=PARENTS.keys())
def test_with_children_replaces_exactly_the_children(node: Node) -> None:
    """`with_children` puts other nodes in place, in order, and nothing else changes."""
    renamed = tuple(child.replace(name=f"{child.name}_new") for child in node.children)
    changed = node.with_children(renamed)
    assert changed.children == renamed
    assert type(changed) is type(node)
    assert changed.with_children(node.children) == node


def test_with_children_of_a_leaf_takes_none() -> None:
    """A node that runs nothing refuses children, naming itself."""
    leaf = CaptureNode(key="x")
    assert leaf.with_children(()) is leaf
    with pytest.raises(ValueError, match=r"^capture has no children$"):
        leaf.with_children((A,))


def test_walk_gives_parents_first_and_keeps_order() -> None:
    """`walk` visits every node once per use, parents before children, in running order."""
    tree = SequenceNode(name="s", children=(A, ParallelNode(name="p", children=(B, A)), C))
    assert [node.name for node in walk(tree)] == ["s", "a", "p", "b", "a", "c"]


def test_walk_and_rewrite_reach_every_kind_of_child() -> None:
    """Route branches, map bodies, time-limited bodies, sub-agents and remote fallbacks are all reached."""
    for node in PARENTS.values():
        assert {A} <= set(walk(node))
        renamed = rewrite(node, lambda n: n.replace(name="z") if n == A else n)
        assert A not in set(walk(renamed))


def test_rewrite_with_identity_returns_the_same_object() -> None:
    """Nothing is rebuilt where nothing changes."""
    for node in (*PARENTS.values(), *NODES.values()):
        assert rewrite(node, lambda n: n) is node


def test_rewrite_works_children_first_and_shares_what_did_not_change() -> None:
    """`fn` sees rewritten children, and siblings of a changed node stay the same objects."""
    kept = ParallelNode(name="p", children=(B, C))
    tree = SequenceNode(name="s", children=(A, kept))
    order: list[str] = []

    def note(node: Node) -> Node:
        order.append(node.name)
        return node.replace(name="z") if node is A else node

    changed = rewrite(tree, note)
    assert order == ["a", "b", "c", "p", "s"]
    assert changed.children[1] is kept
    assert tree.children[0] is A


def test_a_wide_tree_is_walked_without_recursion() -> None:
    """Five thousand steps are walked, hashed, compared and rewritten."""
    wide = SequenceNode(children=tuple(AgentNode(name=f"a{i}") for i in range(5000)))
    again = SequenceNode(children=tuple(AgentNode(name=f"a{i}") for i in range(5000)))
    assert sum(1 for _ in walk(wide)) == 5001
    assert (wide, hash(wide)) == (again, hash(again))
    assert rewrite(wide, lambda n: n) is wide


@pytest.mark.parametrize("cls", NODE_TYPES, ids=lambda cls: cls.__name__)
def test_every_node_type_is_declared_whole(cls: type[Node]) -> None:
    """Every node type has its own kind, a docstring, and no attributes besides its fields."""
    assert cls.kind != Node.kind
    assert [other.kind for other in NODE_TYPES].count(cls.kind) == 1
    assert cls.__doc__
    made = object.__new__(cls)
    with pytest.raises(FrozenInstanceError):
        setattr(made, "colour", "red")  # noqa: B010  # a plain assignment is a type error
    assert not hasattr(made, "colour")
