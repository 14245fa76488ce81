"""Whatever reads a tree understands a node type that it does not know, by how the node runs its children."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from adk_fluent import backends
from adk_fluent.adopt import to_source
from adk_fluent.analysis.facts import analyse
from adk_fluent.backends import DryRunBackend, ReplayerBackend, TraceBackend
from adk_fluent.backends.adk.compile import compiler
from adk_fluent.backends.adk.compile.workflow import build_workflow
from adk_fluent.backends.preview import PreviewBackend
from adk_fluent.contracts import check_all
from adk_fluent.cost import TrafficAssumptions, estimate_cost
from adk_fluent.debug import Recording
from adk_fluent.distributed import DistributedBackend
from adk_fluent.errors import ADKFluentError, ArgumentError, CodecError, UnsupportedNodeError
from adk_fluent.expr.base import Expr
from adk_fluent.inspection import data_flow, explain, llm_anatomy
from adk_fluent.ir import (
    AgentNode,
    FallbackNode,
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
from adk_fluent.ir.keys import KeyRead, KeyReads
from adk_fluent.testing import mock_backend
from adk_fluent.viz import to_html, to_mermaid, to_outline, to_png, to_svg
from adk_fluent.viz.edge_routing import data_edges
from tests.samples import is_done

FIRST, X, Y, LAST = (
    AgentNode(name=name, model="gemini-2.5-flash", instruction=instruction, output_key=key)
    for name, instruction, key in (
        ("first", "Begin.", "topic"),
        ("x", "Do {topic}.", "draft"),
        ("y", "Do {topic}.", "other"),
        ("last", "Use {draft?}.", "text"),
    )
)


def own(value: Execution, *children: Node) -> Node:
    """A user's composite that runs its children in this way."""

    @node
    class OwnNode(ParentNode):
        kind: ClassVar[str] = "own"
        runs: ClassVar[Execution] = value

    return OwnNode(name="own", children=children)


@node
class OwnAgentNode(AgentNode):
    """A user's agent class: a node whose model chooses the next agent has the fields of an agent."""

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
ARRIVES: dict[type[Execution], str] = {
    **dict.fromkeys((Leaf, HandOver), "never"),
    **dict.fromkeys((InOrder, Repeated, InParallel, Wrapped), "must"),
    **dict.fromkeys((FirstMatch, FirstSuccess, RaceToSuccess, OnFailure, PerItem, ByModel), "may"),
}
"""Whether the draft of the first child is there afterwards."""
OUTPUTS = {"x": "draft", "y": "other"}
SAID = {name: f"{name} says." for name in ("first", "own", "x", "y", "last")}
BACKENDS: dict[str, Callable[[Node], Any]] = {
    "mock": lambda tree: mock_backend(SAID),
    "replay": lambda tree: ReplayerBackend(Recording(), "live", live=mock_backend(SAID)),
    "trace": lambda tree: TraceBackend(mock_backend(SAID)),
    "dry_run": lambda tree: DryRunBackend(),
    "preview": lambda tree: PreviewBackend(tree, {}),
    "distributed": lambda tree: DistributedBackend(mock_backend(SAID)),
    "temporal": lambda tree: backends.TemporalBackend(),
}
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def around(way: type[Execution]) -> Node:
    """A tree with unique names in which such a node stands between two steps."""
    return resolve_names(SequenceNode(name="root", children=(FIRST, EXAMPLES[way], LAST))).root


def refusal(consume: Callable[[], object], error: type[ADKFluentError]) -> str:
    """The message of the refusal of a tree."""
    with pytest.raises(error) as caught:
        consume()
    return str(caught.value)


def test_each_way_has_an_example() -> None:
    """A new way gets one here, and so its tests."""
    assert set(EXAMPLES) == set(WAYS)


@every_way
def test_it_is_analysed(way: type[Execution]) -> None:
    """The check, the anatomy, the explanation and the graph know it, with all that it runs."""
    tree = around(way)
    check_all(tree)
    inside = {child.name for child in EXAMPLES[way].children}
    anatomy = llm_anatomy(tree)
    assert all(anatomy[name] for name in inside | {"last"})
    assert all(name in str(explain(tree)) for name in inside)
    assert inside <= {edge.target for edge in edges(tree)} | {edge.source for edge in edges(tree)}
    assert predecessors(tree, tree.children[2])


@every_way
def test_data_flows_through_it(way: type[Execution]) -> None:
    """All inside gets what was written before; what follows gets the draft surely, perhaps or never."""
    tree, inside = around(way), [child.name for child in EXAMPLES[way].children]
    facts, flow = analyse(tree), data_flow(tree)
    found = {(read.step.name, read.key): read.status for read in facts.reads}
    assert found == {**{(name, "topic"): "must" for name in inside}, ("last", "draft"): ARRIVES[way]}
    lines = {(edge.source, edge.target, edge.carries) for edge in data_edges(facts)}
    drawn = {("x", "last", ("draft",))} if "x" in inside else set[object]()
    assert lines == {*(("first", name, ("topic",)) for name in inside), *drawn}
    for name in inside:
        assert "{topic}" in str(flow[name])
        assert f"state[{OUTPUTS[name]!r}]" in str(flow[name])
    assert "{draft}" in str(flow["last"])


def test_keys_of_its_own_are_there_after_it() -> None:
    """A frame that reads a key before its children run, and writes one afterwards, is heard."""

    @node
    class VotingNode(ParentNode):
        kind: ClassVar[str] = "voting"
        runs: ClassVar[Execution] = InParallel()

        def key_reads(self) -> KeyReads:
            yield KeyRead("topic", "function")

        @property
        def key_writes(self) -> tuple[str, ...]:
            return ("vote",)

    voting = VotingNode(name="voting", children=(X, Y))
    last = LAST.replace(instruction="Use {vote}.")
    tree = resolve_names(SequenceNode(name="root", children=(FIRST, voting, last))).root
    facts = analyse(tree)
    found = {(read.step.name, read.key): read.status for read in facts.reads}
    assert found[("voting", "topic")] == found[("last", "vote")] == "must"
    assert ("voting", "last", ("vote",)) in {
        (edge.source, edge.target, edge.carries) for edge in data_edges(facts)
    }
    alone = resolve_names(SequenceNode(name="root", children=(voting, last))).root
    missed = {(read.step.name, read.key): read.status for read in analyse(alone).reads}
    assert missed[("voting", "topic")] == "never"


@every_way
def test_it_is_priced(way: type[Execution]) -> None:
    """Whatever it asks is in the estimate."""
    found = estimate_cost(around(way), TrafficAssumptions(invocations_per_day=1))
    assert {child.name for child in EXAMPLES[way].children} <= found.per_agent.keys()


@every_way
def test_it_is_drawn(way: type[Execution]) -> None:
    """A user's node is drawn like the built-in nodes that run their children in the same way."""
    tree = around(way)
    for draw in (to_mermaid, to_svg, to_html, to_outline):
        picture = draw(tree)
        assert all(child.name in picture for child in EXAMPLES[way].children)
    drawn: dict[type[Execution], str] = {InOrder: "", HandOver: "hand over to last"}
    shown = drawn.get(way, "own")
    assert shown in to_outline(tree)


@every_way
@pytest.mark.newest  # drawing needs an extra, and is the same on every release
def test_it_is_drawn_as_an_image(way: type[Execution]) -> None:
    """A PNG is its SVG, drawn."""
    assert to_png(around(way)).startswith(b"\x89PNG")


@every_way
def test_it_is_stored_and_refused_by_name_where_its_class_is_not_known(way: type[Execution]) -> None:
    """The hash covers the node's fields; a stored graph names the class, which reading needs."""
    tree = around(way)
    assert ir_hash(tree) == ir_hash(around(way)) != ir_hash(tree.with_children(tree.children[:1]))
    text = json.dumps(to_dict(tree))
    name = type(EXAMPLES[way]).__name__
    assert name in refusal(lambda: from_dict(json.loads(text)), CodecError)


@every_way
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.newest if kind == "temporal" else ()) for kind in BACKENDS]
)
def test_each_backend_refuses_it_by_name_where_nothing_says_how_it_runs(
    kind: str, way: type[Execution]
) -> None:
    """None runs another thing instead, and none begins."""
    tree = around(way)
    backend = BACKENDS[kind](tree)
    assert "'own'" in refusal(lambda: backend.compile(tree), UnsupportedNodeError)


@pytest.mark.parametrize("kind", [kind for kind in BACKENDS if kind != "temporal"])
async def test_each_backend_runs_it_once_the_compiler_has_a_row(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row is all that running takes."""
    tree = around(FirstSuccess)
    rows = {**compiler.VISITORS, type(EXAMPLES[FirstSuccess]): compiler.VISITORS[FallbackNode]}
    monkeypatch.setattr(compiler, "VISITORS", rows)
    result = await Expr[Any].from_node(tree).run("go", backend=BACKENDS[kind](tree))
    assert [event.author for event in result if event.content] == ["first", "x", "last"]


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
