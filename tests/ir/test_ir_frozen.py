"""The values that expressions are made of: dataclasses in every respect but how their methods come about."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from adk_fluent.ir import NODE_TYPES, AgentNode, EdgeSemantics, Match, TransformNode
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.frozen import Frozen, frozen


@frozen
class Point(Frozen):
    x: int
    y: int = 0
    tags: tuple[str, ...] = ()


@frozen
class Point3(Point):
    z: float = 0.5


@dataclasses.dataclass(frozen=True)
class Plain:
    x: int
    y: int = 0
    tags: tuple[str, ...] = ()


def test_fields_are_read_as_they_were_given() -> None:
    """A field holds what was given, by position or by name, else its default."""
    point = Point(1, tags=("a",))
    assert (point.x, point.y, point.tags) == (1, 0, ("a",))
    assert Point3(1, 2, (), 3.5).z == 3.5


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        ((), {}, "Point needs x"),
        ((1,), {"q": 2}, "Point has no field 'q'"),
        ((1,), {"x": 2}, "one field twice"),
        ((1, 2, (), 4), {}, "too many positional"),
    ],
)
def test_wrong_arguments_are_type_errors(
    arguments: tuple[Any, ...], named: dict[str, Any], said: str
) -> None:
    """A missing, unknown, repeated or surplus argument raises a `TypeError` that says which."""
    with pytest.raises(TypeError, match=said):
        Point(*arguments, **named)


def test_node_fields_go_by_name_only() -> None:
    """Nodes have too many fields to be given by position."""
    make: Any = AgentNode
    with pytest.raises(TypeError, match="positional"):
        make("writer")


def test_it_does_not_change() -> None:
    """Fields can be neither set nor deleted, and no others added."""
    point: Any = Point(1)
    for name in ("x", "y", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(point, name, 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert point == Point(1)


def test_a_field_given_its_default_was_not_given() -> None:
    """Saying a default and saying nothing are equal and print alike, also after a change and back."""
    same = [Point(1), Point(1, 0), Point(1, 0, ()), Point(1, 7).replace(y=0), Point3(1, z=0.25 * 2)]
    assert all(point == same[0] and hash(point) == hash(same[0]) for point in same[:-1])
    assert repr(same[3]) == "Point(x=1)"
    assert same[-1] == Point3(1)
    assert dict(same[3].given) == {"x": 1}
    assert AgentNode(name="a", output_key=None) != AgentNode(name="a")
    assert AgentNode(name="a", output_key=UNSET) == AgentNode(name="a")


def test_the_order_in_which_fields_are_given_does_not_count() -> None:
    """Equality, hash and print depend on what was said, not on when."""
    one = AgentNode(name="a").replace(instruction="i").replace(output_key="k")
    other = AgentNode(output_key="k", name="a").replace(instruction="i")
    assert (one, hash(one), repr(one)) == (other, hash(other), repr(other))


def test_only_the_same_class_is_equal() -> None:
    """Values of different classes differ, even with the same fields."""
    assert Point(1) != Point3(1)
    assert Point(1) != Plain(1)


def test_fields_without_a_hash_make_it_coarser_not_impossible() -> None:
    """A value that holds a dict still hashes, and still compares by the dict."""
    one, same, other = Match("k", "eq", {"a": 1}), Match("k", "eq", {"a": 1}), Match("k", "eq", {"a": 2})
    assert hash(one) == hash(same)
    assert one == same != other


def test_copies_and_pickles_are_equal() -> None:
    """Copying and pickling keep the fields; the cached hash is not among what is stored."""
    point = Point(1, 2)
    assert hash(point) == hash(Point(1, 2))
    assert copy.copy(point) == copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
    assert b"_hash" not in pickle.dumps(point)


def test_the_dataclasses_module_knows_them() -> None:
    """`fields`, `replace` and `is_dataclass` treat them as the dataclasses they are."""
    assert [field.name for field in dataclasses.fields(Point3)] == ["x", "y", "tags", "z"]
    assert dataclasses.replace(Point(1), y=2) == Point(1, 2)
    assert all(dataclasses.is_dataclass(cls) for cls in (*NODE_TYPES, EdgeSemantics))


def test_replace_refuses_what_is_no_field() -> None:
    """A misspelt field is an error, not an attribute that nothing reads."""
    with pytest.raises(TypeError, match="TransformNode has no field 'function'"):
        TransformNode(fn=lambda state: None).replace(function=print)
