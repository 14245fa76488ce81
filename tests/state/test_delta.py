from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest

from adk_fluent import StateSchema
from adk_fluent.errors import TransformError
from adk_fluent.ir import TransformNode
from adk_fluent.ir.state_keys import is_session_scoped
from adk_fluent.state import UserScoped
from adk_fluent.state.delta import ReadOnlyState, changes
from tests.samples import typed

Semantics = Literal["merge", "replace_session", "delete_keys"]


def node(semantics: Semantics = "merge", **fields: Any) -> TransformNode:
    """A transform whose function does not matter."""
    return TransformNode(fn=typed(lambda state: None), semantics=semantics, **fields)


# --- the view that functions get ------------------------------------------------------------------


def test_none_is_absent_in_the_view() -> None:
    """A key that holds None is not found, not listed, not counted; reading it gives the None."""
    view = ReadOnlyState({"a": 1, "gone": None, "zero": 0, "empty": "", "no": False})
    assert list(view) == ["a", "zero", "empty", "no"]
    assert len(view) == 4
    assert "gone" not in view
    assert "zero" in view
    assert view.get("gone", "default") == "default"
    assert (view["zero"], view["empty"], view["no"]) == (0, "", False)
    assert view["gone"] is None
    with pytest.raises(KeyError, match="never"):
        _ = view["never"]
    assert "gone" not in repr(view)
    assert view == {"a": 1, "zero": 0, "empty": "", "no": False}


@pytest.mark.parametrize("value", [1, 0, "", False, [], None], ids=repr)
def test_the_view_is_a_mapping_of_the_keys_that_have_a_value(value: Any) -> None:
    """All ways of asking what is in a mapping agree; a key that holds None is in none of them."""
    view, there = ReadOnlyState({"k": value, "a": 1}), value is not None
    same = {"a": 1, "k": value} if there else {"a": 1}
    assert ("k" in view) is ("k" in [*view]) is (len(view) == 2) is there
    assert (("k", value) in view.items()) is (("k", value) in [*view.items()]) is there
    assert ("a", 1) in view.items()
    assert ("a", 2) not in view.items()
    assert (value in [*view.values()]) is there or value == 1
    assert dict(view) == {**view} == dict(view.items()) == same == view
    assert view.get("k", "default") == (value if there else "default")
    match view:
        case {"k": found}:
            assert (found, there) == (value, True)
        case _:
            assert not there


@pytest.mark.parametrize(
    "write", ["view['a'] = 1", "del view['a']", "view.pop('a')", "view.update(a=2)", "view.a = 1"]
)
def test_the_view_cannot_be_written(write: str) -> None:
    """No way of writing to a mapping works on the view."""
    values = {"a": 0}
    with pytest.raises((TypeError, AttributeError)):
        exec(write, {"view": ReadOnlyState(values)})
    assert values == {"a": 0}


def test_containers_are_deep_copies() -> None:
    """Lists, dicts and sets are handed out as deep copies."""
    values: dict[str, Any] = {"l": [[1]], "d": {"k": [1]}, "s": {1}}
    view = ReadOnlyState(values)
    view["l"][0].append(2)
    view["d"]["k"].append(2)
    view.get("s", set()).add(2)
    for value in view.values():
        value.clear()
    assert values == {"l": [[1]], "d": {"k": [1]}, "s": {1}}


def test_asking_for_a_key_copies_nothing() -> None:
    """`in` looks and does not copy, so it is cheap for large values."""

    class Uncopyable(list[int]):
        def __deepcopy__(self, memo: object) -> list[int]:
            raise AssertionError("copied")

    view = ReadOnlyState({"big": Uncopyable([1])})
    assert "big" in view
    assert len(view) == 1


# --- scopes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "scoped"),
    [
        ("x", True),
        ("app:x", False),
        ("user:x", False),
        ("temp:x", False),
        ("apps:x", True),
        ("users", True),
        ("x:app:", True),
    ],
)
def test_session_scope(key: str, scoped: bool) -> None:
    """Exactly the prefixes `app:`, `user:` and `temp:` leave the session's scope."""
    assert is_session_scoped(key) is scoped


# --- what a result changes ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "state", "expected"),
    [
        (None, {"a": 1}, {}),
        ({}, {"a": 1}, {}),
        ({"b": 2}, {"a": 1}, {"b": 2}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1.0}, {"a": 1}, {"a": 1.0}),
        ({"a": True}, {"a": 1}, {"a": True}),
        ({"a": [1]}, {"a": [1]}, {}),
        ({"a": (1,)}, {"a": [1]}, {"a": (1,)}),
        ({"a": None}, {"a": 1}, {"a": None}),
        ({"a": None}, {}, {}),
        ({"a": None}, {"a": None}, {}),
        ({"a": ""}, {}, {"a": ""}),
        ({"user:a": 1, "app:b": 2, "temp:c": 3}, {}, {"user:a": 1, "app:b": 2, "temp:c": 3}),
        (MappingProxyType({"b": 2}), {}, {"b": 2}),
    ],
)
def test_a_delta_holds_only_what_changes(
    result: Mapping[str, Any] | None, state: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Values that stay are left out, removal of the absent is nothing, and None removes."""
    assert changes(node(), result, ReadOnlyState(state)) == expected


def test_giving_the_whole_state_back_changes_nothing() -> None:
    """A function may return the view it got."""
    view = ReadOnlyState({"a": [1], "b": None, "user:c": 3})
    assert changes(node(), view, view) == {}


@pytest.mark.parametrize(
    ("made", "result", "expected"),
    [
        (node("replace_session"), None, {"a": None, "b": None}),
        (node("replace_session"), {"a": 1}, {"b": None}),
        (node("replace_session"), {"a": 5, "c": 6}, {"a": 5, "b": None, "c": 6}),
        (
            node("replace_session", scope="all"),
            {"a": 1},
            {"b": None, "app:x": None, "user:y": None, "temp:z": None},
        ),
        (node("delete_keys", affected_keys=frozenset({"a", "absent"})), None, {"a": None}),
        (node("delete_keys", affected_keys=frozenset({"a", "user:y", "app:x", "temp:z"})), {}, {"a": None}),
        (node("delete_keys", affected_keys=frozenset({"a"})), {"a": 9}, {"a": 9}),
        (node("delete_keys", affected_keys=frozenset({"a"})), {"a": 1}, {}),
        (node("delete_keys"), {"c": 1}, {"c": 1}),
        (node("merge", affected_keys=frozenset({"a"})), {}, {}),
    ],
)
def test_replacements(made: TransformNode, result: Any, expected: dict[str, Any]) -> None:
    """Replacements remove session keys that are not in the result; other scopes stay unless asked for."""
    state = {"a": 1, "b": 2, "app:x": 1, "user:y": 1, "temp:z": 1}
    assert changes(made, result, ReadOnlyState(state)) == expected


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (5, "int: 5"),
        ("text", "str: 'text'"),
        (["a"], "list: ['a']"),
        (True, "bool: True"),
        ({1: 2}, "dict: {1: 2}"),
        ([("a", 1)], "list: [('a', 1)]"),
        ("x" * 100, "str: '" + "x" * 59),
    ],
)
def test_results_without_keys_are_refused(result: object, shown: str) -> None:
    """The error names the step and shows, in one line, what it returned."""
    with pytest.raises(TransformError) as caught:
        changes(node(name="tidy"), result, ReadOnlyState({}))
    assert str(caught.value) == (
        f"Transform 'tidy' returned {shown}. It must return a dict of state keys to values, or None to "
        "change nothing."
    )


def test_an_unnamed_transform_is_called_after_its_function() -> None:
    """Without a name the error gives the function's."""

    def tidy_up(state: object) -> None: ...

    with pytest.raises(TransformError, match=r"^Transform 'tidy_up' returned int: 5"):
        changes(TransformNode(fn=tidy_up), 5, ReadOnlyState({}))


class Bill(StateSchema):
    amount: int
    tier: Annotated[str, UserScoped]


def test_state_is_read_by_field() -> None:
    """Functions and predicates may use a schema's field wherever they may use its key."""
    view: Any = ReadOnlyState({"amount": 3, "user:tier": "gold"})
    assert (view[Bill.amount], view.get(Bill.tier), Bill.tier in view) == (3, "gold", True)
    empty: Any = ReadOnlyState({})
    assert (empty.get(Bill.amount), Bill.amount in empty) == (None, False)
    with pytest.raises(KeyError, match="amount"):
        empty[Bill.amount]
