"""The transforms that add to the state: `set`, `default`, `merge`, `counter`, `history` and their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent import Agent, S
from adk_fluent.errors import ADKFluentError, ArgumentError, ExpressionError, MissingKeyError, TransformError
from adk_fluent.expr.transforms import Transform
from adk_fluent.ir import Access, from_dict, to_dict
from adk_fluent.testing import mock_backend
from tests.samples import count_words, typed
from tests.state.stateful import after, delta

untyped: Any = S
"""`S` as a caller without a type checker sees it."""


def pair(a: object, b: object) -> list[object]:
    """A function of two values."""
    return [a, b]


def fail(value: object) -> object:
    """A function of the user that raises."""
    raise ZeroDivisionError("as the user wrote it")


@pytest.mark.parametrize(
    ("step", "before", "expected"),
    [
        (S.set(a=1, b="x"), {"a": 0}, {"a": 1, "b": "x"}),
        (S.set(a=None), {"a": 0, "b": 1}, {"b": 1}),
        (S.set(**{"user:a": 1}), {}, {"user:a": 1}),
        (S.default(a=1, b=2), {"a": 0}, {"a": 0, "b": 2}),
        (S.default(a=1), {"a": None}, {"a": 1}),
        (S.default(a=1), {"a": ""}, {"a": ""}),
        (S.default(a=1), {"a": False}, {"a": False}),
        (S.merge("a", "b", into="c"), {"a": "x", "b": 2}, {"a": "x", "b": 2, "c": "x\n2"}),
        (S.merge("a", "b", into="c"), {"b": 2}, {"b": 2, "c": "2"}),
        (S.merge("a", "b", into="c"), {"a": None, "c": "old"}, {"c": ""}),
        (S.merge("a", into="a"), {"a": 1}, {"a": "1"}),
        (S.merge("b", "a", into="c", fn=max), {"a": 5, "b": 3}, {"a": 5, "b": 3, "c": 5}),
        (S.merge("a", "b", into="c", fn=pair), {"a": 1}, {"a": 1, "c": [1, None]}),
        (S.transform("a", str.upper), {"a": "x"}, {"a": "X"}),
        (S.transform("a", lambda value: None), {"a": "x"}, {}),
        (S.compute(b=lambda s: s["a"] + 1, c=lambda s: s.get("b")), {"a": 1}, {"a": 1, "b": 2}),
        (S.fn(count_words), {"draft": "two words"}, {"draft": "two words", "words": 2}),
        (S.fn(typed(lambda s: None)), {"a": 1}, {"a": 1}),
        (S.accumulate("a", into="all"), {"a": 1}, {"a": 1, "all": [1]}),
        (S.accumulate("a", into="all"), {"a": [2], "all": [1]}, {"a": [2], "all": [1, [2]]}),
        (S.accumulate("a", into="all"), {"all": [1]}, {"all": [1]}),
        (S.accumulate("a", into="all"), {"a": 1, "all": None}, {"a": 1, "all": [1]}),
        (S.counter("n"), {}, {"n": 1}),
        (S.counter("n"), {"n": 41}, {"n": 42}),
        (S.counter("n", step=-2), {"n": 1}, {"n": -1}),
        (S.counter("n", step=0.5), {"n": 1}, {"n": 1.5}),
        (S.counter("user:n"), {"user:n": 1}, {"user:n": 2}),
        (S.counter("n", step=0), {}, {"n": 0}),
        (S.history("a"), {"a": 1}, {"a": 1, "a_history": [1]}),
        (S.history("a", max_size=2), {"a": 3, "a_history": [1, 2]}, {"a": 3, "a_history": [2, 3]}),
        (S.history("a", max_size=1), {"a": 3, "a_history": [1, 2]}, {"a": 3, "a_history": [3]}),
        (S.history("a"), {"a_history": [1]}, {"a_history": [1]}),
        (S.history("user:a"), {"user:a": 1}, {"user:a": 1, "user:a_history": [1]}),
        (S.identity(), {"a": 1}, {"a": 1}),
    ],
)
def test_deltas(step: Transform, before: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each operation writes its delta for keys that are present, absent, `None` or falsy."""
    assert after(step, before) == expected


def test_the_default_history_keeps_ten() -> None:
    """Without a size, the last ten values stay, in order."""
    state: dict[str, Any] = {}
    for turn in range(13):
        state = after(S.history("a"), {**state, "a": turn})
    assert state["a_history"] == list(range(3, 13))


def test_lists_are_replaced_not_appended_to() -> None:
    """The list in the state is never changed in place, so an earlier event keeps what it said."""
    old = [1]
    assert delta(S.accumulate("a", into="all"), {"a": 2, "all": old}) == {"all": [1, 2]}
    assert old == [1]


def test_a_chain_sees_what_came_before_and_a_sum_does_not() -> None:
    """`>>` hands on results; two adjacent transforms lose nothing."""
    assert after(S.counter("n") >> S.counter("n") >> S.merge("n", into="text"), {}) == {"n": 2, "text": "2"}
    assert after(S.set(a=1) >> S.drop("a") >> S.default(a=2), {}) == {"a": 2}


@pytest.mark.parametrize(
    ("step", "reads", "writes", "known"),
    [
        (S.set(a=1), (), ("a",), True),
        (S.default(a=1), (), ("a",), True),
        (S.merge("a", "b", into="c"), ("a", "b"), ("c",), True),
        (S.transform("a", str.upper), ("a",), ("a",), True),
        (S.compute(a=count_words), ("draft",), ("a",), True),
        (S.compute(a=typed(lambda s: dict(s))), (), ("a",), False),
        (S.accumulate("a", into="b"), ("a", "b"), ("b",), True),
        (S.counter("a"), ("a",), ("a",), True),
        (S.history("a"), ("a", "a_history"), ("a_history",), True),
        (S.identity(), (), (), True),
        (S.fn(count_words), ("draft",), ("words",), True),
        (S.fn(typed(lambda s: None), reads=["x"], writes=("y",)), ("x",), ("y",), True),
        (S.fn(count_words, reads=["other"]), ("other",), (), True),
        (S.zip("a", "b", into="c"), ("a", "b"), ("c",), True),
        (S.group_by("a", len, into="b"), ("a",), ("b",), True),
        (S.require("a"), ("a",), (), True),
        (S.log("a"), ("a",), (), True),
        (S.log(), (), (), False),
        (S.when("flag", S.set(a=1)), ("flag",), ("a",), True),
        (S.branch("k", x=S.set(a=1), y=S.merge("b", into="c")), ("k", "b"), ("a", "c"), True),
    ],
)
def test_declared_keys(step: Transform, reads: tuple[str, ...], writes: tuple[str, ...], known: bool) -> None:
    """The checker sees through each; a function that declares nothing makes the reads unknown."""
    access = step.node.access
    assert (access.reads, access.writes, access.reads_known) == (set(reads), set(writes), known)


def test_an_undeclared_function_may_touch_anything() -> None:
    """`S.fn` without declarations claims nothing; only a run shows which keys `flatten` writes."""
    assert S.fn(typed(lambda s: dict(s))).node.access == Access(reads_known=False, writes_known=False)
    assert not S.flatten("a").node.access.writes_known
    assert not S.unflatten().node.access.writes_known
    assert S.capture("said").node.writes_keys == {"said"}


# --- wrong state ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "state", "error", "message"),
    [
        (
            S.transform("a", str.upper),
            {"a": None},
            MissingKeyError,
            "S.transform needs state key 'a', which is not set. Write it before, or put S.default in front.",
        ),
        (S.counter("n"), {"n": "3"}, TransformError, "S.counter('n') found '3', which is not a number."),
        (S.counter("n"), {"n": True}, TransformError, "S.counter('n') found True, which is not a number."),
        (
            S.accumulate("a", into="all"),
            {"a": 1, "all": "x"},
            TransformError,
            "State key 'all' holds 'x', not the list that is kept there.",
        ),
        (
            S.history("a"),
            {"a": 1, "a_history": {"x": 1}},
            TransformError,
            "State key 'a_history' holds {'x': 1}, not the list that is kept there.",
        ),
    ],
)
def test_wrong_state(
    step: Transform, state: dict[str, Any], error: type[ADKFluentError], message: str
) -> None:
    """State that a transform cannot work with is named, with the key and the value."""
    with pytest.raises(error) as caught:
        after(step, state)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "step",
    [S.transform("a", fail), S.compute(b=fail), S.merge("a", into="b", fn=fail), S.fn(fail)],  # pyright: ignore[reportArgumentType]  # it returns nothing
)
def test_an_error_of_a_function_passes_unchanged(step: Transform) -> None:
    """An error of the user's function passes unchanged."""
    with pytest.raises(ZeroDivisionError, match="as the user wrote it"):
        after(step, {"a": 1})


# --- wrong arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: untyped.set(), ExpressionError, "S.set() needs at least one state key."),
        (lambda: untyped.default(), ExpressionError, "S.default() needs at least one state key."),
        (lambda: untyped.merge(into="x"), ExpressionError, "S.merge() needs at least one state key."),
        (lambda: untyped.compute(), ExpressionError, "S.compute() needs at least one state key."),
        (lambda: untyped.zip(into="x"), ExpressionError, "S.zip() needs at least one state key."),
        (lambda: untyped.require(), ExpressionError, "S.require() needs at least one state key."),
        (lambda: untyped.set(**{"": 1}), ArgumentError, "S.set() takes a state key as text, not str ''."),
        (
            lambda: untyped.merge("a", into=5),
            ArgumentError,
            "S.merge(into=) takes a state key as text, not int 5.",
        ),
        (
            lambda: untyped.merge("a", into="b", fn=5),
            ArgumentError,
            "S.merge(fn=) takes a function of the state, not int 5.",
        ),
        (
            lambda: untyped.transform(5, len),
            ArgumentError,
            "S.transform() takes a state key as text, not int 5.",
        ),
        (
            lambda: untyped.transform("a", 5),
            ArgumentError,
            "S.transform() takes a function of the state, not int 5.",
        ),
        (
            lambda: untyped.compute(a=5),
            ArgumentError,
            "S.compute(a=) takes a function of the state, not int 5.",
        ),
        (lambda: untyped.fn(None), ArgumentError, "S.fn() takes a function of the state, not NoneType None."),
        (
            lambda: untyped.fn(print, reads="a"),
            ArgumentError,
            "S.fn() takes collections of keys: write reads=['a'].",
        ),
        (
            lambda: untyped.fn(print, writes="a"),
            ArgumentError,
            "S.fn() takes collections of keys: write writes=['a'].",
        ),
        (
            lambda: untyped.accumulate("a", into=[]),
            ArgumentError,
            "S.accumulate(into=) takes a state key as text, not list [].",
        ),
        (
            lambda: untyped.accumulate([], into="a"),
            ArgumentError,
            "S.accumulate() takes a state key as text, not list [].",
        ),
        (lambda: untyped.counter(""), ArgumentError, "S.counter() takes a state key as text, not str ''."),
        (
            lambda: untyped.counter("n", step="1"),
            ArgumentError,
            "S.counter(step=) takes a number, not str '1'.",
        ),
        (
            lambda: untyped.counter("n", step=True),
            ArgumentError,
            "S.counter(step=) takes a number, not bool True.",
        ),
        (
            lambda: untyped.flatten(None),
            ArgumentError,
            "S.flatten() takes a state key as text, not NoneType None.",
        ),
        (
            lambda: untyped.group_by("a", 5, into="b"),
            ArgumentError,
            "S.group_by() takes a function of the state, not int 5.",
        ),
        (lambda: untyped.capture(""), ArgumentError, "S.capture() takes a state key as text, not str ''."),
        *(
            (
                lambda size=size: untyped.history("a", max_size=size),
                ArgumentError,
                f"S.history(max_size=) takes a positive whole number, not {size!r}.",
            )
            for size in (0, -1, None, True, 2.5, "3")
        ),
    ],
)
def test_wrong_arguments(make: Callable[[], object], error: type[Exception], message: str) -> None:
    """Each argument that cannot work is refused when it is written, by name."""
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("kind", "before", "after"), [(float, "1.5", 1.5), (str, 3, "3"), (list, "ab", ["a", "b"])]
)
async def test_a_type_converts_a_value(kind: type, before: object, after: object) -> None:
    """`S.transform("k", float)` works as it reads; it can be stored, checked and written as source."""
    convert = S.transform("k", kind)
    assert convert({"k": before}) == {"k": after}
    step = S.set(k=before) >> convert >> Agent("a")
    assert from_dict(to_dict(step.node)) == step.node
    assert step.check().ok
    assert (await step.run("hi", backend=mock_backend({"a": "ok"}))).state["k"] == after
