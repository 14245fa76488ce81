"""`flatten`, `unflatten`, `zip` and `group_by`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_fluent import S
from adk_fluent.errors import ADKFluentError, MissingKeyError, TransformError
from adk_fluent.expr.transforms import Transform
from tests.state.stateful import after, delta


@pytest.mark.parametrize(
    ("step", "before", "expected"),
    [
        (S.flatten("k"), {"k": {"a": 1, "b": {"c": 2}}}, {"k.a": 1, "k.b.c": 2}),
        (
            S.flatten("k"),
            {"k": {"a": {}, "b": [], "c": [{"d": 1}]}},
            {"k.a": {}, "k.b": [], "k.c": [{"d": 1}]},
        ),
        (S.flatten("k"), {"k": {"a": None, "b": 1}}, {"k.b": 1}),
        (S.flatten("k"), {"k": {}}, {"k": {}}),
        (S.flatten("k"), {"k": "text"}, {"k": "text"}),
        (S.flatten("k"), {}, {}),
        (S.flatten("user:k"), {"user:k": {"a": 1}}, {"user:k": {"a": 1}, "user:k.a": 1}),
        (S.unflatten(), {"k.a": 1, "k.b.c": 2, "x": 3}, {"k": {"a": 1, "b": {"c": 2}}, "x": 3}),
        (S.unflatten(), {"k": {"z": 0}, "k.a": 1}, {"k": {"z": 0, "a": 1}}),
        (S.unflatten(), {"k": {"b": {"z": 0}}, "k.b.a": 1}, {"k": {"b": {"z": 0, "a": 1}}}),
        (S.unflatten(), {"user:k.a": 1, "temp:k.a": 1}, {"user:k.a": 1, "temp:k.a": 1}),
        (S.unflatten(), {"v1.": 1, ".x": 2, "a..b": 3}, {"v1.": 1, ".x": 2, "a..b": 3}),
        (S.unflatten(), {"x": 1}, {"x": 1}),
        (
            S.zip("a", "b", into="c"),
            {"a": [1, 2], "b": [3, 4]},
            {"a": [1, 2], "b": [3, 4], "c": [[1, 3], [2, 4]]},
        ),
        (S.zip("a", into="c"), {"a": [1]}, {"a": [1], "c": [[1]]}),
        (S.zip("a", "b", into="c"), {"a": [], "b": []}, {"a": [], "b": [], "c": []}),
        (S.zip("a", "b", into="c"), {"a": (1,), "b": [2]}, {"a": (1,), "b": [2], "c": [[1, 2]]}),
        (
            S.group_by("words", len, into="by"),
            {"words": ["a", "bb", "c"]},
            {"words": ["a", "bb", "c"], "by": {"1": ["a", "c"], "2": ["bb"]}},
        ),
        (S.group_by("words", len, into="words"), {"words": ["a"]}, {"words": {"1": ["a"]}}),
        (S.group_by("words", len, into="by"), {"words": []}, {"words": [], "by": {}}),
        (S.group_by("n", lambda item: None, into="by"), {"n": [1]}, {"n": [1], "by": {"None": [1]}}),
    ],
)
def test_structures(step: Transform, before: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each operation handles nested, empty, absent and scoped values."""
    assert after(step, before) == expected


@pytest.mark.parametrize(
    ("step", "state", "error", "message"),
    [
        (
            S.flatten("k"),
            {"k": {"a.b": 1}},
            TransformError,
            "S.flatten cannot name the entry 'a.b' of 'k': keys must be text without dots.",
        ),
        (
            S.flatten("k"),
            {"k": {"a": {5: 1}}},
            TransformError,
            "S.flatten cannot name the entry 5 of 'k.a': keys must be text without dots.",
        ),
        (
            S.flatten("k"),
            {"k": {"": 1}},
            TransformError,
            "S.flatten cannot name the entry '' of 'k': keys must be text without dots.",
        ),
        *(
            (
                S.unflatten(),
                state,
                TransformError,
                f"S.unflatten cannot put {key!r} back: another key holds a value on its way.",
            )
            for state, key in [
                ({"k": 5, "k.a": 1}, "k.a"),
                ({"k.a": 1, "k.a.b": 2}, "k.a.b"),
                ({"k.a.b": 2, "k.a": 1}, "k.a"),
                ({"k": {"a": 0}, "k.a": 1}, "k.a"),
                ({"k": "text", "k.a.b": 1}, "k.a.b"),
            ]
        ),
        (
            S.zip("a", "b", into="c"),
            {"a": [1], "b": [1, 2]},
            TransformError,
            "S.zip needs lists of one length: 'a' has 1, 'b' has 2.",
        ),
        (
            S.zip("a", into="c"),
            {"a": "text"},
            TransformError,
            "S.zip needs a list at 'a', which holds 'text'.",
        ),
        (S.zip("a", into="c"), {"a": 5}, TransformError, "S.zip needs a list at 'a', which holds 5."),
        (
            S.zip("a", "b", into="c"),
            {"a": [1]},
            MissingKeyError,
            "S.zip needs state key 'b', which is not set. Write it before, or put S.default in front.",
        ),
        (
            S.group_by("a", len, into="b"),
            {"a": {"x": 1}},
            TransformError,
            "S.group_by needs a list at 'a', which holds {'x': 1}.",
        ),
        (
            S.group_by("a", len, into="b"),
            {},
            MissingKeyError,
            "S.group_by needs state key 'a', which is not set. Write it before, or put S.default in front.",
        ),
    ],
)
def test_wrong_state(
    step: Transform, state: dict[str, Any], error: type[ADKFluentError], message: str
) -> None:
    """State that cannot be reshaped is refused with the key, never half done."""
    with pytest.raises(error) as caught:
        delta(step, state)
    assert str(caught.value) == message


LEAVES = st.booleans() | st.integers() | st.text() | st.lists(st.integers())
PARTS = st.text(min_size=1).filter(lambda part: "." not in part)
TREES = st.recursive(
    st.dictionaries(PARTS, LEAVES, min_size=1, max_size=3),
    lambda trees: st.dictionaries(PARTS, LEAVES | trees, min_size=1, max_size=3),
    max_leaves=8,
)


@given(TREES, st.dictionaries(PARTS.filter(lambda key: key != "k"), LEAVES, max_size=2))
def test_unflatten_undoes_flatten(tree: dict[str, Any], others: dict[str, Any]) -> None:
    """Flattening a dict and putting it together again gives the state there was."""
    others = {key: value for key, value in others.items() if not key.startswith(("app:", "user:", "temp:"))}
    state = {**others, "k": tree}
    flat = after(S.flatten("k"), state)
    assert "k" not in flat
    assert all(key in others or key.startswith("k.") for key in flat)
    assert after(S.unflatten(), flat) == state
