"""`pick`, `drop`, `rename`, and what `+` makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from adk_fluent import S
from adk_fluent.errors import ArgumentError, ExpressionError, TransformError
from adk_fluent.expr.transforms import Transform
from tests.samples import typed
from tests.state.stateful import after, delta

SCOPES = {"app:x": 1, "user:y": 2, "temp:z": 3}


@pytest.mark.parametrize(
    ("step", "before", "expected"),
    [
        (S.pick("a"), {"a": 1, "b": 2}, {"a": 1}),
        (S.pick("a", "c"), {"a": 1, "b": 2}, {"a": 1}),
        (S.pick("missing"), {"a": 1}, {}),
        (S.pick("a"), {"a": None, "b": 2}, {}),
        (S.pick("user:y"), {"a": 1}, {}),
        (S.drop("a"), {"a": 1, "b": 2}, {"b": 2}),
        (S.drop("missing"), {"a": 1}, {"a": 1}),
        (S.drop("a", "b"), {"a": 1, "b": 2}, {}),
        (S.drop("app:x", "user:y", "temp:z"), {"a": 1}, {"a": 1}),
        (S.rename(a="b"), {"a": 1, "c": 3}, {"b": 1, "c": 3}),
        (S.rename(a="b"), {"a": 1, "b": 2}, {"b": 1}),
        (S.rename(missing="b"), {"b": 2}, {"b": 2}),
        (S.rename(a="b"), {"a": None, "b": 2}, {"b": 2}),
        (S.rename(a="a"), {"a": 1}, {"a": 1}),
        (S.rename(a="b", b="a"), {"a": 1, "b": 2}, {"a": 2, "b": 1}),
        (S.rename(a="b", b="a"), {"b": 2}, {"a": 2}),
        (S.rename(a="b", b="c"), {"a": 1, "b": 2}, {"b": 1, "c": 2}),
        (S.rename(a="b", b="c"), {"b": 2}, {"c": 2}),
        (S.rename(a="user:a"), {"a": 1}, {"user:a": 1}),
        (S.rename(**{"user:y": "y"}), {}, {"y": 2}),
    ],
)
def test_replacements(step: Transform, before: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each replacement keeps, removes and moves session keys; `app:`, `user:` and `temp:` keys stay."""
    assert after(step, {**before, **SCOPES}) == {**expected, **SCOPES}


def test_a_replacement_that_changes_nothing_writes_nothing() -> None:
    """No event is caused where the state stays."""
    assert delta(S.pick("a"), {"a": [1]}) == {}
    assert delta(S.drop("b"), {"a": 1}) == {}
    assert delta(S.rename(b="c"), {"a": 1}) == {}


@pytest.mark.parametrize(
    ("step", "reads", "writes"),
    [
        (S.pick("a", "b"), {"a", "b"}, set[str]()),
        (S.drop("a"), set[str](), set[str]()),
        (S.rename(a="b", c="d"), {"a", "c"}, {"b", "d"}),
    ],
)
def test_replacements_declare_their_keys(step: Transform, reads: set[str], writes: set[str]) -> None:
    """The checker sees what each reads and writes."""
    access = step.node.access
    assert (access.reads, access.writes) == (reads, writes)
    assert access.reads_known
    assert access.writes_known


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: S.pick(), "S.pick() needs at least one state key."),
        (lambda: S.drop(), "S.drop() needs at least one state key."),
        (lambda: S.rename(), "S.rename() needs at least one state key."),
        (
            lambda: S.rename(a="c", b="c"),
            "S.rename() gives two keys the same new name: {'a': 'c', 'b': 'c'}.",
        ),
    ],
)
def test_empty_and_clashing_replacements_are_refused(make: Any, message: str) -> None:
    """Nothing to do, or two values for one key, is refused when it is written."""
    with pytest.raises(ExpressionError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("key", [5, None, "", "  ", ["a"], b"a"])
@pytest.mark.parametrize("method", ["pick", "drop", "require", "log"])
def test_keys_must_be_text(method: str, key: object) -> None:
    """Whatever is no text cannot be a key; the message names the method and shows the value."""
    with pytest.raises(ArgumentError) as caught:
        getattr(S, method)("ok", key)
    assert str(caught.value) == f"S.{method}() takes a state key as text, not {type(key).__name__} {key!r}."


# --- together -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "before", "expected"),
    [
        (S.set(a=1) + S.set(b=2), {}, {"a": 1, "b": 2}),
        (S.set(a=1) + S.drop("a"), {"a": 0}, {}),
        (S.set(a=5) + S.rename(b="a"), {"a": 0, "b": 2}, {"a": 2}),
        (S.set(x=1) + S.pick("a"), {"a": 1, "b": 2}, {"a": 1, "x": 1}),
        (S.rename(a="b") + S.rename(c="d"), {"a": 1, "c": 3}, {"b": 1, "d": 3}),
        (S.rename(a="b") + S.pick("c"), {"a": 1, "b": 0, "c": 3}, {"b": 1, "c": 3}),
        (S.drop("a") + S.drop("b"), {"a": 1, "b": 2, "c": 3}, {"c": 3}),
        # all see the same input
        (S.set(a=1) + S.merge("a", into="copy"), {"a": 0}, {"a": 1, "copy": "0"}),
        (S.drop("a") + S.compute(seen=typed(lambda s: s.get("a"))), {"a": 7}, {"seen": 7}),
        (S.counter("n") + S.counter("m"), {"n": 1}, {"n": 2, "m": 1}),
        (S.set(a=1) + S.identity() + S.set(b=2) + S.drop("c"), {"c": 3}, {"a": 1, "b": 2}),
    ],
)
def test_plus(step: Transform, before: dict[str, Any], expected: dict[str, Any]) -> None:
    """All parts see the input, a replacement wins over a delta, a moved value over a removal."""
    assert after(step, before) == expected


@pytest.mark.parametrize(
    "parts", [(S.drop("a"), S.set(a=1)), (S.rename(a="b"), S.pick("c")), (S.drop("x"), S.set(y=1))]
)
def test_the_order_of_plus_does_not_matter(parts: tuple[Transform, Transform]) -> None:
    """Both sides of `+` receive the same input, so both orders give the same state."""
    one, other = parts
    for state in ({"a": 0, "b": 0, "c": 0, "x": 0}, {"a": 0}, {}):
        assert after(one + other, state) == after(other + one, state)


def test_plus_is_flat() -> None:
    """However it is bracketed, a sum is one step with the same parts."""
    a, b, c = S.set(a=1), S.drop("b"), S.set(c=1)
    assert (a + b) + c == a + (b + c)
    assert (a + b + c).node.writes_keys == {"a", "c"}


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: S.set(a=1) + S.set(a=2), "a"),
        (lambda: S.set(a=1) + S.drop("x") + S.default(a=2), "a"),
        (lambda: (S.set(z=1, b=1) + S.set(c=1)) + (S.set(z=1) + S.set(b=1)), "z"),
        (lambda: S.rename(a="x") + S.rename(b="x"), "x"),
        (lambda: S.counter("n") + S.counter("n"), "n"),
    ],
)
def test_two_writers_of_one_key_are_refused(make: Any, key: str) -> None:
    """Two deltas, or two renames, that would overwrite each other are refused when they are joined."""
    with pytest.raises(ExpressionError) as caught:
        make()
    assert str(caught.value) == f"Two transforms joined by + both write {key!r}; chain them with >> instead."


def test_two_writers_that_only_the_run_shows_are_refused_then() -> None:
    """Functions that turn out to write the same key raise when they run, naming the key."""
    both = S.fn(typed(lambda s: {**s, "a": 1})) + S.fn(typed(lambda s: {**s, "a": 2}))
    with pytest.raises(TransformError) as caught:
        after(both, {})
    assert str(caught.value) == "Two transforms joined by + both write 'a'; chain them with >>."


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (5, "int 5"),
        (None, "NoneType None"),
        ("x", "str 'x'"),
        (S.set(a=1) >> S.set(b=1), "the expression Pipeline(set, set)"),
        (S.capture("x"), "the expression Step(capture)"),
    ],
)
def test_plus_takes_transforms_only(other: Any, shown: str) -> None:
    """Anything else on the right of + is refused by name."""
    with pytest.raises(ArgumentError) as caught:
        _ = S.set(x=1) + other
    assert str(caught.value) == f"+ joins two S transforms, not {shown}."
