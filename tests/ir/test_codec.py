from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Optional, Union

import pytest
from google.adk.models import Gemini
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, Route, S, gate, tap
from adk_fluent.backends.adk.running.runner import Services
from adk_fluent.backends.events import Pending
from adk_fluent.errors import CodecError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import (
    AgentNode,
    Annotations,
    ContentSpec,
    LoopNode,
    Modality,
    Node,
    SequenceNode,
    from_dict,
    to_dict,
)
from adk_fluent.ir.codec import only_here
from adk_fluent.ir.frozen import Frozen, frozen
from tests.limits import LIMIT
from tests.samples import NODES, Invoice, Mood, add, is_done, typed

a = Agent("a")


def through_json(node: Node) -> Node:
    """The node after a trip through JSON text."""
    return from_dict(json.loads(json.dumps(to_dict(node), allow_nan=False, sort_keys=True)))


@pytest.mark.parametrize("node", NODES.values(), ids=NODES.keys())
def test_every_kind_of_node_survives_json(node: Node) -> None:
    """Every node type, written as strict JSON text and read back, is equal and of the same types inside."""
    loaded = through_json(node)
    assert loaded == node
    assert to_dict(loaded) == to_dict(node)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1,
        1.5,
        float("inf"),
        "text",
        "$node",
        b"\xff\x00",
        (1, (2,)),
        [1, [2]],
        {1, 2},
        frozenset({"x"}),
        {"k": (1,), 2: None, (1, 2): "x"},
        {"$node": "x"},
        Mood.CROSS,
        Modality.PDF,
        Invoice(number=1),
        Invoice,
        list[Invoice],
        dict[str, list[int]],
        Optional[Invoice],  # noqa: UP045  # as an agent holds `Invoice | None`
        list[Union[Invoice, Mood]],  # noqa: UP007  # likewise
        types.Content(role="user", parts=[types.Part.from_bytes(data=b"\xff\x00", mime_type="image/png")]),
        Gemini(model="gemini-2.5-flash"),
        len,
        add,
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_every_kind_of_value_survives_json(value: object) -> None:
    """Every value of a field comes back equal and of the same type, even text that looks like a tag."""
    node = S.set(value=value).node
    loaded = through_json(node)
    assert loaded == node
    found: Any = loaded
    back = dict(found.fn.values)["value"]
    assert type(back) is type(value)
    assert repr(back) == repr(value)


def test_not_a_number_survives_json() -> None:
    """NaN, which JSON has no word for, is written so that strict readers accept the text."""
    found: Any = through_json(S.set(x=float("nan")).node)
    assert str(found.fn.values[0][1]) == "nan"


def test_annotations_survive_json() -> None:
    """Annotations are stored with their node."""
    said = Annotations(
        visibility="internal", content=ContentSpec(frozenset({Modality.IMAGE}), max_input_tokens=5)
    )
    assert through_json(AgentNode(name="x", annotations=said)).annotations == said


def test_only_what_was_set_is_written() -> None:
    """The stored form is short: defaults and unset fields are left out."""
    assert to_dict(Agent("x").writes("k").node) == {
        "version": 1,
        "root": {"$node": "AgentNode", "name": "x", "output_key": "k"},
    }


def test_none_is_not_unset() -> None:
    """A field set to None stays different from one never set."""
    node = AgentNode(name="x", output_schema=None)
    assert through_json(node) == node != AgentNode(name="x")


# --- what cannot be stored ------------------------------------------------------------------------


def local_function(state: Mapping[str, Any]) -> None:
    """A function whose name another function has taken."""


class Unwritable(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    client: object


def cannot_store() -> list[tuple[Expr[Any], str, str]]:
    """Expressions that cannot be stored, where the reason is, and what it is called."""

    def local(state: object) -> None: ...

    class Local(BaseModel):
        x: int = 0

    class Colour(Enum):
        RED = 1

    return [
        (a >> typed(lambda state: None), "An unnamed transform, field fn", "cannot_store.<locals>.<lambda>"),
        (a >> local, "An unnamed transform, field fn", "cannot_store.<locals>.local"),
        (a >> tap(lambda state: None).named("t"), "tap 't', field fn", "cannot_store.<locals>.<lambda>"),
        (gate(local), "An unnamed gate, field predicate", "cannot_store.<locals>.local"),
        (Route("k").when(local, a), "An unnamed route, field rules", "cannot_store.<locals>.local"),
        (a.tool(local), "agent 'a', field tools", "cannot_store.<locals>.local"),
        (
            a.tool(local, require_confirmation=True),
            "agent 'a', field tools.params",
            "cannot_store.<locals>.local",
        ),
        (a.tool(partial(add, 1)), "agent 'a', field tools", "a partial"),
        (S.transform("x", "a,b".split), "An unnamed transform, field fn.params", "str.split"),
        (a.returns(Local), "agent 'a', field output_schema", "cannot_store.<locals>.Local"),
        (a.returns(list[Local]), "agent 'a', field output_schema", "cannot_store.<locals>.Local"),
        (S.set(x=Local()), "An unnamed transform, field fn.params", "cannot_store.<locals>.Local"),
        (S.set(x=Colour.RED), "An unnamed transform, field fn.params", "cannot_store.<locals>.Colour"),
        (S.set(x=object()), "An unnamed transform, field fn.params", "a object"),
        (S.set(x=Unwritable(client=object())), "An unnamed transform, field fn.params", "a Unwritable"),
    ]


@pytest.mark.parametrize(("expression", "where", "what"), cannot_store())
def test_what_has_no_import_path_is_refused(expression: Expr[Any], where: str, what: str) -> None:
    """The message names the node, the field and the thing, and says what to do."""
    with pytest.raises(CodecError) as caught:
        to_dict(expression.node)
    assert str(caught.value) == (
        f"{where}: {what} cannot be stored, since it has no import path. "
        "Define it as a named function or class at the top level of a module."
    )


# --- what cannot be read --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [None, 5, "x", [], {}, {"version": 1}, {"root": {}}, {"version": 2, "root": {}}]
)
def test_what_is_no_stored_graph_is_refused(data: Any) -> None:
    """Anything but a mapping of the right version with a root is refused with one message."""
    with pytest.raises(CodecError) as caught:
        from_dict(data)
    assert str(caught.value) == "This is not a stored graph of version 1: expected keys 'version' and 'root'."


def ref(path: object) -> dict[str, object]:
    """A stored reference to what is at an import path."""
    return {"$ref": path}


GOOD = {"$node": "AgentNode", "name": "a"}


@pytest.mark.parametrize(
    "root",
    [
        None,
        5,
        "x",
        [],
        {},
        {"x": 1},
        {"$nope": 1},
        {"$node": "NoSuchNode"},
        {"$node": 5},
        {"$node": ["x"]},
        {"$node": None},
        {"$node": "AgentNode", "name": 5},
        {"$node": "AgentNode", "name": None},
        {"$node": "AgentNode", "name": "not a name"},
        {"$node": "AgentNode", "name": "user"},
        {"$node": "AgentNode", "no_such_field": 1},
        {"$node": "AgentNode", "annotations": 5},
        {"$node": "AgentNode", "annotations": None},
        {"$node": "TransformNode"},
        {"$node": "TransformNode", "fn": 5},
        {"$node": "GateNode", "predicate": "x"},
        {"$node": "SequenceNode", "children": 5},
        {"$node": "SequenceNode", "children": [GOOD]},
        {"$node": "SequenceNode", "children": {"$tuple": [1]}},
        {"$node": "SequenceNode", "children": {"$tuple": 5}},
        {"$node": "SequenceNode", "children": {"$tuple": None}},
        {"$node": "TimeoutNode", "body": 5, "seconds": 1},
        {"$node": "RouteNode", "rules": 5},
        {"$node": "RouteNode", "rules": {"$tuple": [1]}},
        {"$node": "RouteNode", "rules": {"$tuple": [{"$tuple": [1]}]}},
        {"$tuple": [GOOD]},
        {"$ref": 5},
        {"$ref": None},
        {"$ref": []},
        {"$ref": ""},
        {"$ref": "nothing"},
        {"$ref": "no_such_module:x"},
        {"$ref": "sys:modules"},
        {"$ref": "tests.samples:nothing"},
        {"$set": [[1]]},
        {"$frozenset": {"x": 1}},
        {"$dict": [[1]]},
        {"$dict": [1]},
        {"$dict": {"k": "v"}},
        {"$dict": [[[1], 2]]},
        {"$bytes": 5},
        {"$bytes": "!"},
        {"$float": "many"},
        {"$float": None},
        {"$enum": ref("tests.samples:Mood")},
        {"$enum": ref("tests.samples:Mood"), "value": "no such mood"},
        {"$enum": ref("tests.samples:Invoice"), "value": 1},
        {"$enum": ref("tests.samples:add"), "value": 1},
        {"$enum": "tests.samples:Mood", "value": "calm"},
        {"$model": ref("tests.samples:Invoice")},
        {"$model": ref("tests.samples:Invoice"), "data": {"number": "many"}},
        {"$model": ref("tests.samples:Invoice"), "data": 5},
        {"$model": ref("tests.samples:Mood"), "data": {}},
        {"$value": ref("tests.samples:Invoice"), "number": 1},
        {"$value": ref("adk_fluent.ir.matching:Match")},
        {"$value": ref("adk_fluent.ir.matching:Match"), "colour": 1},
        {"$value": ref("adk_fluent.ir.codec:Node")},
        {"$generic": ref("builtins:list")},
        {"$generic": ref("builtins:len"), "of": []},
        {"$value": ref("adk_fluent.errors:ADKFluentError")},
    ],
    ids=lambda root: json.dumps(root)[:60],
)
def test_malformed_data_is_refused(root: Any) -> None:
    """Whatever a damaged or hostile file holds, reading it gives a CodecError of one line, nothing else."""
    for data in (root, {"$node": "TimeoutNode", "seconds": 1, "body": root}):
        with pytest.raises(CodecError) as caught:
            from_dict(json.loads(json.dumps({"version": 1, "root": data})))
        assert str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ({"$oops": 1}, "Unknown tag '$oops' in a stored graph."),
        ({"$node": "NoSuchNode"}, "Unknown node type 'NoSuchNode' in a stored graph."),
        ([], "The stored graph has no node at its root."),
        ({"$enum": ref("tests.samples:Mood")}, "A stored enum is malformed: it lacks 'value'."),
        ({"$ref": "sys:modules"}, "The stored graph names sys:modules, which is not where that is defined."),
        (
            {"$ref": "not_imported.module:function"},
            "The stored graph names not_imported.module:function, which is not loaded. Import "
            "not_imported.module first: reading a graph never imports code.",
        ),
        ({"$value": ref("tests.samples:Invoice")}, "tests.samples:Invoice is not a value of adk-fluent."),
        ({"$model": ref("tests.samples:Mood"), "data": {}}, "tests.samples:Mood is not a pydantic model."),
        ({"$enum": ref("tests.samples:Invoice"), "value": 1}, "tests.samples:Invoice is not an enumeration."),
        ({"$generic": ref("builtins:len"), "of": []}, "builtins:len is not a class."),
        (
            {"$node": "SequenceNode", "children": [GOOD]},
            "A stored node is malformed: the children of SequenceNode are [AgentNode(name='a'",
        ),
    ],
)
def test_messages_for_malformed_data(root: Any, message: str) -> None:
    """Each message says what was found and, where one can do something, what."""
    with pytest.raises(CodecError) as caught:
        from_dict({"version": 1, "root": root})
    assert str(caught.value).startswith(message)
    if message.endswith("."):
        assert str(caught.value) == message


def test_nesting_without_end_is_refused() -> None:
    """A file nested thousands of levels deep gives an error, not a crash of the interpreter."""
    root: Any = GOOD
    for _ in range(20000):
        root = {"$tuple": [root]}
    with pytest.raises(CodecError) as caught:
        from_dict({"version": 1, "root": root})
    assert str(caught.value) == "The stored graph is nested too deeply to be one."


# --- reading runs nothing -------------------------------------------------------------------------


def test_reading_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that names a module which is not imported is refused, and that module is not executed."""
    (tmp_path / "trap_module.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    stored = to_dict(LoopNode(until=is_done))
    text = json.dumps(stored).replace("tests.samples:is_done", "trap_module:go")
    assert "trap_module" in text
    with pytest.raises(CodecError, match="Import trap_module first"):
        from_dict(json.loads(text))
    assert "trap_module" not in sys.modules
    assert not (tmp_path / "ran").exists()


def test_reading_runs_no_lazy_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that its module would import on demand is not imported."""
    lazy = ModuleType("lazy_module")

    def load(name: str) -> object:
        raise AssertionError(f"loaded {name}")

    setattr(lazy, "__getattr__", load)  # noqa: B010  # a plain assignment is a type error
    monkeypatch.setitem(sys.modules, "lazy_module", lazy)
    with pytest.raises(CodecError, match="lazy_module:go, which is not loaded"):
        from_dict({"version": 1, "root": {"$node": "LoopNode", "until": ref("lazy_module:go")}})


@pytest.mark.parametrize("tag", ["$value", "$model", "$enum"])
@pytest.mark.parametrize(
    "path",
    ["subprocess:Popen", "adk_fluent.ir.functions:sys.exit", "adk_fluent.ir.codec:partial", "builtins:exit"],
)
def test_reading_constructs_no_foreign_class(tag: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file cannot have a class of its choice instantiated, also not by way of a module of this package."""

    def constructed(*args: object, **kwargs: object) -> None:
        raise AssertionError("a class was instantiated")

    monkeypatch.setattr(subprocess.Popen, "__init__", constructed)
    data = {tag: ref(path), "args": ["true"], "func": 1, "data": {}, "value": ["true"]}
    with pytest.raises(CodecError):
        from_dict({"version": 1, "root": data})


@dataclass(frozen=True)
class Trap:
    """A foreign dataclass with a side effect in its constructor."""

    seconds: float = 1

    def __post_init__(self) -> None:
        raise AssertionError("a dataclass was made")


@frozen
class Foreign(Frozen):
    """A foreign value class on the base class of the library's values."""

    def __init__(self, **values: object) -> None:
        raise AssertionError("a value was made")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (Trap, {}),
        (Foreign, {}),
        (Pending, {"id": "i", "agent": "a", "message": "m"}),
        (Services, {}),
        (CodecError, {}),
        (Agent, {"name": "a"}),
        (Frozen, {}),
        (AgentNode, {"name": "not a name"}),
    ],
)
def test_a_stored_value_is_one_that_nodes_hold(cls: type, values: dict[str, Any], inside: bool) -> None:
    """A file has nothing made but the library's own plain values: no foreign class, no machinery, no node."""
    path = f"{cls.__module__}:{cls.__qualname__}"
    stored = {"$value": ref(path), **values}
    root = {**GOOD, "tools": {"$tuple": [stored]}} if inside else stored
    with pytest.raises(CodecError) as caught:
        from_dict({"version": 1, "root": root})
    assert str(caught.value) == f"{path} is not a value of adk-fluent."


def test_reading_into_another_process() -> None:
    """A stored tree is read in a fresh process that imported its functions, and is the same there."""
    node = SequenceNode(children=tuple(node for name, node in NODES.items() if name != "agent"))
    script = (
        "import json, sys; import tests.samples; from adk_fluent.ir import from_dict, to_dict\n"
        "data = json.load(sys.stdin); assert to_dict(from_dict(data)) == data; print(repr(from_dict(data)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(to_dict(node)),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": "src:."},
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr


def top_level(state: object) -> dict[str, str]:
    """A function with an import path."""
    return {}


def test_what_another_process_has_as_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function without an import path, and one of the script that is run; no other."""

    def inner(state: object) -> dict[str, str]:
        return {}

    assert only_here(Agent("a") >> top_level) == []
    assert only_here(Agent("a") >> inner >> top_level >> tap(inner)) == [inner.__qualname__]
    script = ModuleType("__main__")
    script.__dict__["top_level"] = top_level
    monkeypatch.setitem(sys.modules, "__main__", script)
    monkeypatch.setattr(top_level, "__module__", "__main__")
    assert only_here(Agent("a") >> top_level) == ["top_level"]
