from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

import pytest
from google.adk.tools.tool_context import ToolContext

from adk_fluent import C
from adk_fluent.errors import ArgumentError
from adk_fluent.ir import Access, AgentNode, LoopNode, RouteNode, TapNode, TransformNode, declares
from adk_fluent.ir.annotations import Annotations
from adk_fluent.ir.functions import (
    NO_ACCESS,
    UNKNOWN_ACCESS,
    access,
    declared_idempotent,
    find,
    function_name,
    import_path,
)
from adk_fluent.ir.predicates import Match
from adk_fluent.ir.tools import is_idempotent
from adk_fluent.tools.sources import FunctionTool
from tests import samples
from tests.samples import typed


@declares(reads=["r"], writes=["w"])
def declared(state: Any) -> dict[str, int]:
    """A function that says what it touches."""
    return {"w": state["r"]}


def test_a_declared_function_is_the_function_itself() -> None:
    """`declares` marks a function without wrapping it."""
    assert declared.__name__ == "declared"
    assert declared({"r": 1}) == {"w": 1}
    assert access(declared) == Access(frozenset({"r"}), frozenset({"w"}))


def test_declares_takes_any_collections() -> None:
    """Keys may come in tuples, sets or generators, and either side may be left out."""

    @declares(reads=(key for key in ("a", "b")))
    def reads_only(state: Any) -> None: ...

    @declares(writes={"c"})
    def writes_only(state: Any) -> None: ...

    assert access(reads_only) == Access(reads=frozenset({"a", "b"}))
    assert access(writes_only) == Access(writes=frozenset({"c"}))


@pytest.mark.parametrize("keys", [{"reads": "abc"}, {"writes": "abc"}])
def test_declares_refuses_a_single_text(keys: Any) -> None:
    """A text would be taken letter by letter, so it is refused with the right spelling."""
    with pytest.raises(ArgumentError) as caught:
        declares(**keys)
    assert str(caught.value) == "declares() takes collections of keys: write reads=['key'], not reads='key'."


def test_declares_works_for_what_takes_no_attributes() -> None:
    """Built-ins and bound methods are wrapped, and behave and are named as before."""
    counted = declares(reads=["x"])(len)
    assert counted([1, 2]) == 2
    assert counted.__name__ == "len"
    assert access(counted).reads == {"x"}
    bound = declares(writes=["y"])("a,b".split)
    assert bound(",") == ["a", "b"]
    assert access(bound).writes == {"y"}


def test_what_says_nothing_is_unknown() -> None:
    """A function that declares nothing and hands the state on may touch anything; no function nothing."""
    assert access(typed(lambda state: dict(state))) == UNKNOWN_ACCESS
    assert access(None) == NO_ACCESS
    assert access() == NO_ACCESS
    assert access(declared, None, print) == Access(frozenset({"r"}), frozenset({"w"}), False, False)


def test_a_callable_value_may_declare_itself() -> None:
    """A callable object with an `access` attribute says what it touches; another attribute does not count."""

    class Callable:
        access = Access(reads=frozenset({"k"}))

        def __call__(self, state: Any) -> bool:
            return True

    class Unrelated:
        access = "granted"

    assert access(Callable()).reads == {"k"}
    assert access(Unrelated()) == UNKNOWN_ACCESS


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (NO_ACCESS, UNKNOWN_ACCESS, UNKNOWN_ACCESS),
        (
            Access(frozenset({"a"}), writes_known=False),
            Access(frozenset({"b"}), frozenset({"c"})),
            Access(frozenset({"a", "b"}), frozenset({"c"}), True, False),
        ),
    ],
)
def test_access_adds_up(one: Access, other: Access, both: Access) -> None:
    """Together, functions touch what any touches, and one unknown makes the whole unknown."""
    assert one | other == both == other | one


def test_what_nodes_read_and_write() -> None:
    """Each node reports the keys of its functions; a function that only reads writes nothing."""
    assert TransformNode(fn=declared).access == Access(frozenset({"r"}), frozenset({"w"}))
    assert TapNode(fn=declared).access == Access(frozenset({"r"}))
    assert TapNode(fn=print).access == Access(reads_known=False)
    assert LoopNode(until=declared).access == Access(frozenset({"r"}))
    route = RouteNode(
        key="kind", rules=((Match("tier", "eq", 1), AgentNode(name="a")), (declared, AgentNode(name="b")))
    )
    assert route.access == Access(frozenset({"kind", "tier", "r"}))
    assert route.writes_keys == frozenset()


def remember(note: str, tool_context: ToolContext) -> None:
    """A tool that is given the state, and declares nothing."""
    tool_context.state[note] = note


def test_what_an_agent_reads_and_writes() -> None:
    """Templates, declared keys, the output key, tools and callbacks all count."""
    node = AgentNode(
        name="x",
        instruction="{a}",
        annotations=Annotations(context=C.from_state("b")),
        declared_writes=("c",),
        output_key="d",
    )
    node = node.replace(tools=(FunctionTool(declared),))
    assert (node.reads_keys, node.writes_keys) == ({"a", "b", "r"}, {"c", "d", "w"})
    assert node.access.reads_known
    assert node.replace(tools=(samples.add,)).access.writes_known  # it is not given the state
    assert not node.replace(tools=(remember,)).access.writes_known
    assert node.replace(before_model_callback=(samples.log_call,)).access.writes_known
    assert not node.replace(before_model_callback=(print,)).access.writes_known
    assert not node.replace(instruction=samples.to_text).access.reads_known


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (samples.is_done, "is_done"),
        (len, "len"),
        (typed(lambda state: None), "step"),
        (functools.partial(samples.is_done), "step"),
        (5, "step"),
    ],
)
def test_function_name(fn: object, name: str) -> None:
    """A step is named after its function if that has a usable name, else as the caller says."""
    assert function_name(fn, "step") == name


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (samples.is_done, "tests.samples:is_done"),
        (samples.Invoice, "tests.samples:Invoice"),
        (samples.Judge.accept, "tests.samples:Judge.accept"),
        (len, "builtins:len"),
        (typed(lambda state: None), None),
        (functools.partial(samples.is_done), None),
        ("a,b".split, None),
        (5, None),
        (samples.Judge(), None),
    ],
)
def test_import_path(target: object, path: str | None) -> None:
    """A function has an import path exactly if the path leads back to it."""
    assert import_path(target) == path
    if path is not None:
        assert find(path) is target


def test_a_shadowed_function_has_no_path() -> None:
    """A function whose name now means another one has no path, so the wrong one is never stored."""
    original = samples.is_done

    def is_done(state: Any) -> bool:
        return True

    is_done.__module__, is_done.__qualname__ = original.__module__, original.__qualname__
    assert import_path(is_done) is None


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tests.samples",
        "tests.samples:",
        "no_such_module:x",
        "tests.samples:nothing",
        ":",
        "sys:path.append",
    ],
)
def test_find_gives_none_for_what_is_not_there(path: str) -> None:
    """A path that leads nowhere gives None, however odd it is."""
    assert find(path) is None


def test_find_computes_no_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's `__getattr__`, which may import or do anything, is not called."""
    lazy = ModuleType("lazy_module")

    def load(name: str) -> object:
        raise AssertionError(f"loaded {name}")

    setattr(lazy, "__getattr__", load)  # noqa: B010  # a plain assignment is a type error
    monkeypatch.setitem(sys.modules, "lazy_module", lazy)
    assert find("lazy_module:anything") is None


def test_find_does_not_walk_through_modules() -> None:
    """A path names what its module defines, not what the modules that it imported hold."""
    assert find("tests.samples:annotations") is not None
    assert find("tests.ir.test_functions:sys.exit") is None


def test_idempotency_is_declared_beside_keys_or_alone() -> None:
    """Said alone, it leaves open which keys a function touches; said with keys, both hold."""

    @declares(idempotent=False)
    def pay(state: object) -> object:
        return [state]

    @declares(reads=["bill"], idempotent=True)
    def read(state: object) -> None: ...

    assert (declared_idempotent(pay), access(pay)) == (False, UNKNOWN_ACCESS)
    assert (declared_idempotent(read), access(read).reads) == (True, frozenset({"bill"}))
    assert declared_idempotent(print) is None
    assert declared_idempotent(declares(idempotent=False)(len)) is False
    with pytest.raises(ArgumentError, match=r"declares\(idempotent=\) is True or False, not 'no'"):
        declares(idempotent="no")  # pyright: ignore[reportArgumentType]  # what a hurried user types


def test_tools_that_may_be_called_again() -> None:
    """A tool may, unless its function, or the server it is from, says that it must not."""

    @declares(idempotent=False)
    def pay() -> None: ...

    class Hints:
        idempotentHint = False

    class Raw:
        annotations = Hints()

    class FromServer:
        raw_mcp_tool = Raw()

    tools = [pay, FunctionTool(function=pay), FromServer(), print, object()]
    assert [is_idempotent(tool) for tool in tools] == [False, False, False, True, True]
