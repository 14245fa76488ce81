"""Every consumer of the IR handles every node type, or refuses it by name."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Collection, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from google.adk.agents import LlmAgent

import adk_fluent
from adk_fluent import A as Artifacts
from adk_fluent.adopt.steps import WRITERS
from adk_fluent.analysis.visibility import infer_visibility
from adk_fluent.backends.adk.compile.compiler import REFUSED_TYPES, VISITORS
from adk_fluent.backends.adk.compile.workflow import build_workflow
from adk_fluent.contracts import check_all
from adk_fluent.errors import UnsupportedNodeError
from adk_fluent.ir import (
    NODE_TYPES,
    AgentNode,
    CaptureNode,
    FallbackNode,
    GateNode,
    KnownNativeNode,
    LoopNode,
    MapOverNode,
    ModelSelectorNode,
    NativeNode,
    Node,
    ParallelNode,
    RaceNode,
    RemoteAgentNode,
    RouteNode,
    SequenceNode,
    TapNode,
    TimeoutNode,
    TransferNode,
    TransformNode,
    edges,
    from_dict,
    ir_hash,
    nodes,
    predecessors,
    resolve_names,
    to_dict,
    topological_order,
    walk,
)
from adk_fluent.ir.adk_objects import Native
from adk_fluent.ir.execution import WAYS, HandOver, Leaf
from adk_fluent.viz.diagrams import to_mermaid
from tests.samples import count_words, is_done, look

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src/adk_fluent"
NATIVE = LlmAgent(name="plain", model="m")
A, B = AgentNode(name="a", model="m"), AgentNode(name="b", model="m")
EXAMPLES: dict[type[Node], Node] = {
    type(example): example
    for example in (
        A,
        SequenceNode(children=(A, B)),
        ParallelNode(children=(A, B)),
        LoopNode(children=(A, B)),
        FallbackNode(children=(A, B)),
        RaceNode(children=(A, B)),
        TransformNode(fn=count_words),
        RouteNode(key="k", rules=((is_done, A),), default=B),
        GateNode(predicate=is_done),
        TapNode(fn=look),
        MapOverNode(list_key="items", body=A),
        TimeoutNode(body=A, seconds=1),
        TransferNode(target="b", condition=is_done),
        CaptureNode(key="k"),
        ModelSelectorNode(),
        RemoteAgentNode(endpoint="http://127.0.0.1:1", fallback=A),
        Artifacts.save("a.md", "text").node,
        NativeNode(name="plain", native=Native(NATIVE)),
        KnownNativeNode(native=Native(NATIVE), body=AgentNode(name="plain", model="m")),
    )
}
TABLES: dict[str, Collection[type[Node]]] = {
    "compiler.VISITORS or REFUSED_TYPES": {*VISITORS, *REFUSED_TYPES},
    "adopt.steps.WRITERS": WRITERS,
}
"""The tables that hold a row for each node type."""
every_type = pytest.mark.parametrize("cls", NODE_TYPES, ids=lambda cls: cls.__name__)


def tree_with(cls: type[Node]) -> Node:
    """A tree with unique names that holds a node of this type between two agents."""
    return resolve_names(SequenceNode(name="root", children=(A, EXAMPLES[cls], B))).root


def test_the_list_of_node_types_is_complete() -> None:
    """Every node class that a module of the package defines is in the list, once, and has an example here."""
    modules = [import_module(found.name) for found in iter_modules(nodes.__path__, f"{nodes.__name__}.")]
    defined = {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Node) and value.__module__ == module.__name__
    }
    assert defined == set(NODE_TYPES) == set(EXAMPLES)
    assert len(NODE_TYPES) == len(set(NODE_TYPES))


def test_the_recipe_names_each_table_of_node_types() -> None:
    """The page about internals names every table that a new node type needs, with its place."""
    rows = re.findall(
        r"^\| `([\w/]+\.py)` \| (.+) \|$", (ROOT / "docs/contribute/internals.md").read_text(), re.M
    )
    assert [file for file, _ in rows if not (SOURCES / file).is_file()] == []
    named = {(file, table) for file, what in rows for table in re.findall(r"`([A-Z_]{3,})`", what)}
    assert named == {
        (path.relative_to(SOURCES).as_posix(), table)
        for path in SOURCES.rglob("*.py")
        for table in tables_in(path.read_text())
    }


def tables_in(source: str) -> Iterator[str]:
    """The mappings, tuples and sets of a module whose keys or members are node types."""
    known = {cls.__name__ for cls in NODE_TYPES}
    for statement in ast.parse(source).body if any(name in source for name in known) else ():
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            whole = (
                () if isinstance(statement.value, ast.Subscript | ast.BinOp) else ast.walk(statement.value)
            )
            if any(
                ast.unparse(part).rpartition(".")[2] in known for value in whole for part in members(value)
            ):
                yield ast.unparse(statement.target)


def members(value: ast.AST) -> Iterable[ast.expr]:
    """The keys of a mapping that is written out, or what is in a tuple or set."""
    if isinstance(value, ast.Dict):
        return [key for key in value.keys if key is not None]
    return value.elts if isinstance(value, ast.Tuple | ast.Set) else ()


@every_type
def test_it_says_how_it_runs_its_children(cls: type[Node]) -> None:
    """A node that holds others says how they run, and one that holds none says so."""
    holds = getattr(cls, "children", None) is not Node.children
    assert type(EXAMPLES[cls].runs) in WAYS
    assert isinstance(EXAMPLES[cls].runs, Leaf | HandOver) is not holds


@every_type
def test_the_analysis_knows_it(cls: type[Node]) -> None:
    """Every node type can be checked, and its visibility is known."""
    check_all(tree_with(cls))
    seen = infer_visibility(tree_with(cls))
    assert set(seen) == {node.name for node in walk(tree_with(cls))}


@every_type
def test_the_codec_knows_it(cls: type[Node]) -> None:
    """Every node type is written as JSON and read back."""
    tree = tree_with(cls)
    assert from_dict(json.loads(json.dumps(to_dict(tree)))) == tree
    assert ir_hash(tree) != ir_hash(tree.with_children(tree.children[:1]))


@every_type
def test_naming_knows_it(cls: type[Node]) -> None:
    """Every node gets a unique name that is an identifier, with or without a given name."""
    named = [node.name for node in walk(resolve_names(SequenceNode(children=(EXAMPLES[cls],) * 2)).root)]
    assert len(set(named)) == len(named)
    assert all(name.isidentifier() for name in named)


@every_type
def test_the_graph_knows_it(cls: type[Node]) -> None:
    """Control passes from the step before it, through it, to the step after it."""
    tree = tree_with(cls)
    known = {node.name for node in topological_order(tree)}
    assert {name for edge in edges(tree) for name in (edge.source, edge.target)} <= known
    before = {node.name: [found.name for found in predecessors(tree, node)] for node in walk(tree)}
    assert set(before) == known
    reached, pending = set[str](), [tree.children[2].name]
    while pending:
        reached.add(name := pending.pop())
        pending.extend(set(before[name]) - reached)
    assert "a" in reached
    assert reached & {node.name for node in walk(tree.children[1])}


@pytest.mark.parametrize("table", TABLES)
@every_type
def test_each_table_has_a_row_for_it(cls: type[Node], table: str) -> None:
    """A new node type is added to each of these tables, and this test names the tables that lack it."""
    assert cls in TABLES[table], f"{table} has no row for {cls.__name__}"


def test_the_tables_hold_nothing_but_node_types() -> None:
    """A row belongs to a node type, and no type is both compiled and refused."""
    assert {row for table in TABLES.values() for row in table} == set(NODE_TYPES)
    assert not set(VISITORS) & REFUSED_TYPES


@every_type
def test_the_compiler_builds_it_or_names_it(cls: type[Node]) -> None:
    """A node compiles to a native agent of its name, or raises an error with the node and its type."""
    from adk_fluent.backends.adk.running.backend import build

    tree = tree_with(cls)
    if cls not in REFUSED_TYPES:
        inner = tree.children[1]
        runs = inner.body if isinstance(inner, KnownNativeNode) else inner
        assert build(tree).sub_agents[1].name == runs.name
        return
    with pytest.raises(UnsupportedNodeError) as caught:
        build(tree)
    name = tree.children[1].name
    shown = f"a {cls.kind} node ({cls.__name__})"
    assert str(caught.value) == f"{name!r}: the ADK backend cannot run {shown} yet."


@every_type
@pytest.mark.newest
def test_other_consumers_draw_it_build_it_or_name_it(cls: type[Node]) -> None:
    """Pictures and the workflow target handle every type, or refuse it in one line that names it."""
    tree = tree_with(cls)
    name = tree.children[1].name
    for consume in (to_mermaid, build_workflow):
        refusal = ""
        try:
            assert consume(tree)
        except UnsupportedNodeError as error:
            refusal = str(error)
        assert not refusal or cls.kind in refusal or name in refusal


@pytest.mark.newest
def test_no_module_of_the_package_is_unimportable() -> None:
    """Every module is imported by name, so a consumer cannot hide from these tests by a broken import."""
    for found in pkgutil.walk_packages(adk_fluent.__path__, "adk_fluent."):
        if found.name.endswith("__main__"):
            continue
        assert importlib.import_module(found.name).__doc__
