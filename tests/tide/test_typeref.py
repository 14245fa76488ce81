# ruff: noqa: UP006, UP007, UP045 - the old spellings are what is tested
"""Types are compared by meaning: spelling, order and ADK's unified classes make no difference."""

from __future__ import annotations

import collections.abc
import typing
from typing import Any, Literal, Optional, TypeVar, Union

import pytest

from adk_fluent.tide.typeref import parse, resolve
from codegen.store import stored_scans

Context = type("Context", (), {"__module__": "google.adk.agents.context"})
Image = type("Image", (), {"__module__": "PIL.Image"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Optional[int], int | None),
        (Union[int, str, None], Union[None, str, int]),
        (Union[int, Union[str, None]], int | str | None),
        (typing.List[int], list[int]),
        (typing.Annotated[int, "metadata"], int),
        (typing.ForwardRef("Optional[types.Content]"), "Content | None"),
        ("typing.Callable[[ToolContext], dict]", collections.abc.Callable[[Context], dict[str, Any]]),
        ("typing.Literal['a', 'b']", Literal["a", "b"]),
        (dict, dict[str, Any]),
    ],
)
def test_spellings_of_one_type_are_equal(one: object, other: object) -> None:
    """Two spellings of one type resolve to the same value."""
    assert resolve(one) == resolve(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (int, str),
        (int, Optional[int]),
        (list[int], list[str]),
        (Literal["a"], Literal["b"]),
        (typing.Callable[[int], str], typing.Callable[[str], str]),
        (typing.Callable[[int], str], typing.Callable[[int], int]),
    ],
)
def test_different_types_stay_different(one: object, other: object) -> None:
    """Normalising does not hide a real change."""
    assert resolve(one) != resolve(other)


def test_union_members_of_optional_packages_are_left_out() -> None:
    """A scan is the same whether or not Pillow is installed."""
    assert resolve(Union[str, Image, None]) == resolve(Optional[str])


def test_two_classes_of_one_name_are_refused() -> None:
    """Types go by bare name, so a scan that would mix up two classes fails and names both modules."""
    twin = type("Context", (), {"__module__": "elsewhere"})
    with pytest.raises(TypeError, match=r"google\.adk\.agents\.context and elsewhere"):
        resolve(dict[Context, twin], {})


def test_type_variables_go_by_name() -> None:
    """A type variable is neither a class to import nor an error."""
    seen: dict[str, type] = {}
    assert str(resolve(list[TypeVar("Item")], seen)) == "list[Item]"
    assert "Item" not in seen


def test_every_stored_type_reads_back() -> None:
    """What a scan stores as text is read back as the same type."""
    fields = [f for s in stored_scans() for n, of in s.classes.items() if n != "BasePlugin" for f in of]
    assert fields
    assert [str(parse(f.type)) for f in fields] == [f.type for f in fields]


def test_text_that_is_no_type_is_refused() -> None:
    """A type that codegen cannot read is an error, never a guess."""
    with pytest.raises(ValueError, match=r"f\(1\)"):
        parse("f(1)")
