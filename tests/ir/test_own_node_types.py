"""Whatever reads a tree understands a node type that it does not know, by how the node runs its children."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from adk_fluent.adopt import to_source
from adk_fluent.backends.adk.compile.workflow import build_workflow
from adk_fluent.contracts import check_all
from adk_fluent.cost import TrafficAssumptions, estimate_cost
from adk_fluent.errors import ADKFluentError, ArgumentError, CodecError, UnsupportedNodeError
from adk_fluent.inspection import data_flow, explain, llm_anatomy
from adk_fluent.ir import (
    AgentNode,
    Node,
    SequenceNode,
    edges,
    from_dict,
    ir_hash,
    predecessors,
    resolve_names,
    to_dict,
)
from adk_fluent.ir.base import ParentNode, node
from adk_fluent.ir.execution import (
    WAYS,
    ByModel,
    Execution,
    FirstMatch,
    FirstSuccess,
    HandOver,
    InOrder,
    InParallel,
    Leaf,
    OnFailure,
    PerItem,
    RaceToSuccess,
    Repeated,
    Wrapped,
)
from adk_fluent.testing import mock_backend
from adk_fluent.viz import to_html, to_mermaid, to_outline, to_svg
from tests.samples import is_done

X, Y = (AgentNode(name=name, model="gemini-2.5-flash", instruction=f"Do {name}.") for name in "xy")


def own(value: Execution, *children: Node) -> Node:
    """A composite of somebody else's that runs its children in this way."""

    @node
    class OwnNode(ParentNode):
        kind: ClassVar[str] = "own"
        runs: ClassVar[Execution] = value

    return OwnNode(name="own", children=children)


@node
class OwnAgentNode(AgentNode):
    """An agent of somebody else's: a node whose model chooses has what an agent has."""

    kind: ClassVar[str] = "own"


EXAMPLES: dict[type[Execution], Node] = {
    Leaf: own(Leaf()),
    HandOver: own(HandOver("last", is_done)),
    InOrder: own(InOrder(), X, Y),
    Repeated: own(Repeated(3, is_done), X, Y),
    InParallel: own(InParallel(), X, Y),
    FirstMatch: own(FirstMatch((is_done,), None, True), X, Y),
    FirstSuccess: own(FirstSuccess(), X, Y),
    RaceToSuccess: own(RaceToSuccess(), X, Y),
    OnFailure: own(OnFailure("answer"), X),
    PerItem: own(PerItem("items", "_item", "results"), X),
    Wrapped: own(Wrapped(), X),
    ByModel: OwnAgentNode(name="own", model="gemini-2.5-flash", instruction="Choose.", children=(X, Y)),
}
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def around(way: type[Execution]) -> Node:
    """A tree with unique names in which such a node stands between two steps."""
    first, last = (X.replace(name=name) for name in ("first", "last"))
    return resolve_names(SequenceNode(name="root", children=(first, EXAMPLES[way], last))).root


def refusal(consume: Callable[[], object], error: type[ADKFluentError]) -> str:
    """What is said of a tree that is refused."""
    with pytest.raises(error) as caught:
        consume()
    return str(caught.value)


def test_each_way_has_an_example() -> None:
    """A new way gets one here, and so its tests."""
    assert set(EXAMPLES) == set(WAYS)


@every_way
def test_it_is_analysed(way: type[Execution]) -> None:
    """The check, the data flow, the anatomy, the explanation and the graph know it, with all that it runs."""
    tree = around(way)
    check_all(tree)
    assert str(data_flow(tree))
    inside = {child.name for child in EXAMPLES[way].children}
    anatomy = llm_anatomy(tree)
    assert all(anatomy[name] for name in inside | {"last"})
    assert all(name in str(explain(tree)) for name in inside)
    assert inside <= {edge.target for edge in edges(tree)} | {edge.source for edge in edges(tree)}
    assert predecessors(tree, tree.children[2])


@every_way
def test_it_is_priced(way: type[Execution]) -> None:
    """Whatever it asks is in the estimate."""
    found = estimate_cost(around(way), TrafficAssumptions(invocations_per_day=1))
    assert {child.name for child in EXAMPLES[way].children} <= found.per_agent.keys()


@every_way
def test_it_is_drawn(way: type[Execution]) -> None:
    """It looks as nodes of ours that run their children alike."""
    tree = around(way)
    for draw in (to_mermaid, to_svg, to_html, to_outline):
        picture = draw(tree)
        assert all(child.name in picture for child in EXAMPLES[way].children)
    shown = {InOrder: "", HandOver: "hand over to last"}.get(way, "own")
    assert shown in to_outline(tree)


@every_way
def test_it_is_stored_and_refused_by_name_where_its_class_is_not_known(way: type[Execution]) -> None:
    """Its hash tells what is in it; a stored graph only names its class, which reading needs."""
    tree = around(way)
    assert ir_hash(tree) == ir_hash(around(way)) != ir_hash(tree.with_children(tree.children[:1]))
    text = json.dumps(to_dict(tree))
    name = type(EXAMPLES[way]).__name__
    assert name in refusal(lambda: from_dict(json.loads(text)), CodecError)


@every_way
@pytest.mark.newest
def test_what_cannot_write_or_run_it_says_so_by_name(way: type[Execution]) -> None:
    """No source, no native agent and no workflow is made that would do something else."""
    tree = around(way)
    backend: Any = mock_backend()
    runs: dict[Callable[[], object], type[ADKFluentError]] = {
        lambda: to_source(tree): ArgumentError,
        lambda: backend.compile(tree): UnsupportedNodeError,
        lambda: build_workflow(tree): UnsupportedNodeError,
    }
    for consume, error in runs.items():
        assert "'own'" in refusal(consume, error)
