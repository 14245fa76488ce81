"""`Pipeline`, `FanOut`, `Loop`, `Fallback`, `Race`, `MapOver`: what their constructors and methods make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, loop_until, map_over, race, until
from adk_fluent.errors import ArgumentError, ExpressionError, InvalidNameError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import (
    FallbackNode,
    LoopNode,
    MapOverNode,
    Node,
    ParallelNode,
    RaceNode,
    RouteNode,
    SequenceNode,
    TransformNode,
)
from adk_fluent.ir.predicates import Match
from tests.samples import count_words, is_done, look

a, b, c = Agent("a"), Agent("b"), Agent("c")
A, B, C = a.node, b.node, c.node
untyped_pipeline: Any = Pipeline
untyped_fan_out: Any = FanOut
untyped_loop: Any = Loop
untyped_race: Any = race
untyped_map: Any = map_over


BUILT: list[tuple[Expr[Any], Node]] = [
    (Pipeline(a, b), SequenceNode(children=(A, B))),
    (Pipeline("p", a, b), SequenceNode(name="p", children=(A, B))),
    (Pipeline(a, b, name="p"), SequenceNode(name="p", children=(A, B))),
    (Pipeline("p"), SequenceNode(name="p")),
    (untyped_pipeline(name="p"), SequenceNode(name="p")),
    (Pipeline("p").step(a).step(b), SequenceNode(name="p", children=(A, B))),
    (Pipeline(a).step(b >> c), SequenceNode(children=(A, B, C))),
    (Pipeline(a >> b, c), SequenceNode(children=(A, B, C))),
    (Pipeline("p", a >> b), SequenceNode(name="p", children=(A, B))),
    (Pipeline(Pipeline("p", a), b), SequenceNode(children=(SequenceNode(name="p", children=(A,)), B))),
    (Pipeline((a >> b).describe("x"), c), SequenceNode(children=((a >> b).describe("x").node, C))),
    (Pipeline(a, count_words), SequenceNode(children=(A, TransformNode(fn=count_words)))),
    (Pipeline("p").step(count_words), SequenceNode(name="p", children=(TransformNode(fn=count_words),))),
    (FanOut(a, b), ParallelNode(children=(A, B))),
    (FanOut("f", a), ParallelNode(name="f", children=(A,))),
    (FanOut(a, name="f"), ParallelNode(name="f", children=(A,))),
    (FanOut("f").branch(a).branch(b), ParallelNode(name="f", children=(A, B))),
    (FanOut(a | b, c), ParallelNode(children=(A, B, C))),
    (FanOut(a >> b, c), ParallelNode(children=(SequenceNode(children=(A, B)), C))),
    (Loop(a), LoopNode(children=(A,))),
    (Loop("l", a, b), LoopNode(name="l", children=(A, B))),
    (Loop(a, name="l", max_iterations=3), LoopNode(name="l", children=(A,), max_iterations=3)),
    (Loop(a >> b), LoopNode(children=(A, B))),
    (Loop(Pipeline("p", a)), LoopNode(children=(SequenceNode(name="p", children=(A,)),))),
    (Loop(Loop(a)), LoopNode(children=(LoopNode(children=(A,)),))),
    (Loop("l").step(a).step(b >> c), LoopNode(name="l", children=(A, B, C))),
    (Loop(a).max_iterations(3).until(is_done), LoopNode(children=(A,), max_iterations=3, until=is_done)),
    (Loop(a).until(look).until(is_done), LoopNode(children=(A,), until=is_done)),
    (loop_until(is_done, a), LoopNode(children=(A,), until=is_done)),
    (
        loop_until(is_done, a >> b, max_iterations=2),
        LoopNode(children=(A, B), until=is_done, max_iterations=2),
    ),
    (a.until(is_done), LoopNode(children=(A,), until=is_done)),
    (race(a, b, c), RaceNode(children=(A, B, C))),
    (race(a | b, c), RaceNode(children=(ParallelNode(children=(A, B)), C))),
    (map_over("k", a), MapOverNode(list_key="k", body=A)),
    (
        map_over("k", a, item_key="i", output_key="o", concurrency=1),
        MapOverNode(list_key="k", body=A, item_key="i", output_key="o", concurrency=1),
    ),
    (map_over("k", a, output_key="k"), MapOverNode(list_key="k", body=A, output_key="k")),
]


@pytest.mark.parametrize(("expression", "node"), BUILT)
def test_what_is_built(expression: Expr[Any], node: Node) -> None:
    """Names come first or by keyword, plain members are flattened, named ones stay whole."""
    assert expression.node == node
    assert type(expression.node) is type(node)


def test_the_default_of_rounds_is_ten() -> None:
    """Every way to write a loop ends after ten rounds unless told otherwise."""
    for loop in (Loop(a), a.until(is_done), loop_until(is_done, a), a * until(is_done), Loop("l").step(a)):
        assert loop.node.replace(until=None, name="") == LoopNode(children=(A,), max_iterations=10)


@pytest.mark.parametrize(
    "expression",
    [
        a.writes("k") >> {"x": b, 5: c},
        untyped_pipeline(a.writes("k"), {"x": b, 5: c}),
        Pipeline(a.writes("k")).step({"x": b, 5: c}),
    ],
    ids=[">>", "Pipeline", "step"],
)
def test_a_dict_routes_on_what_was_written_before(expression: Expr[Any]) -> None:
    """After an agent that writes a key, a dict chooses by that key, in every way of adding a step."""
    route = RouteNode(key="k", rules=((Match("k", "eq", "x"), B), (Match("k", "eq", 5), C)))
    assert expression.node.children[1] == route
    assert expression == a.writes("k") >> Route("k").eq("x", b).eq(5, c)


@pytest.mark.parametrize(
    "before",
    [
        a.writes("k"),
        b >> a.writes("k"),
        Pipeline("p", b, a.writes("k")),
        a.writes("k").timeout(3),
        a.writes("k") * 3,
    ],
)
def test_the_key_may_be_written_deep_inside(before: Expr[Any]) -> None:
    """The last agent of a pipeline, loop or time limit is the one whose key counts."""
    assert (before >> {"x": c}).node.children[-1] == Route("k").eq("x", c).node


def test_a_dict_in_a_loop() -> None:
    """A dict as a later step of a loop routes as well."""
    loop = untyped_loop(a.writes("k"), {"x": b})
    assert loop.node.children[1] == Route("k").eq("x", b).node
    assert Loop(a.writes("k")).step({"x": b}) == loop


NO_KEY = (
    "A dict after >> routes on the key that the agent before it writes, but that agent writes none. "
    "Add .writes('key') to it, or use Route('key')."
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a >> {"x": b}, NO_KEY),
        (lambda: a.writes("k") >> S.set(x=1) >> {"x": b}, NO_KEY),
        (lambda: (a.writes("k") | b.writes("k")) >> {"x": c}, NO_KEY),
        (lambda: untyped_pipeline({"x": b}), NO_KEY),
        (lambda: Pipeline("p").step({"x": b}), NO_KEY),
        (lambda: {"x": b} >> untyped(a), NO_KEY),
        (
            lambda: untyped(a.writes("k")) >> {},
            "A route needs at least one branch; the dict after >> is empty.",
        ),
        (lambda: untyped_pipeline(), "Pipeline() is empty: give it at least one step."),
        (lambda: FanOut(), "FanOut() is empty: give it at least one branch."),
        (lambda: Loop(), "Loop() is empty: give it at least one step."),
        (lambda: untyped_race(), "race() needs at least two expressions to choose from."),
        (lambda: race(a), "race() needs at least two expressions to choose from."),
    ],
)
def test_empty_and_keyless(make: Callable[[], object], message: str) -> None:
    """Nothing to run, or nothing to choose by, is refused when it is written."""
    with pytest.raises(ExpressionError) as caught:
        make()
    assert str(caught.value) == message


def untyped(value: Any) -> Any:
    """`value` as a caller without a type checker sees it."""
    return value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (Pipeline("p"), "'p' is empty: give this sequence at least one step."),
        (FanOut("f"), "'f' is empty: give this parallel at least one step."),
        (Loop("l"), "'l' is empty: give this loop at least one step."),
        (Route("k"), "'route' is empty: give this route at least one branch."),
        (a >> Pipeline("p"), "'p' is empty: give this sequence at least one step."),
        (a >> Route("k").named("r") >> b, "'r' is empty: give this route at least one branch."),
    ],
)
def test_what_stayed_empty_is_refused_when_compiled(expression: Expr[Any], message: str) -> None:
    """A named composite may start empty, but not run empty."""
    with pytest.raises(ExpressionError) as caught:
        expression.build()
    assert str(caught.value) == message


COUNTED: list[Callable[[Any], object]] = [
    lambda n: untyped_loop(a, max_iterations=n),
    lambda n: Loop(a).max_iterations(n),
    lambda n: untyped(a) * n,
    lambda n: a * until(is_done, max=n),
    lambda n: loop_until(is_done, a, max_iterations=n),
]


@pytest.mark.parametrize("make", COUNTED, ids=["Loop", "max_iterations", "*", "until", "loop_until"])
@pytest.mark.parametrize("count", [0, -1, None, True, False, 2.5, 3.0, "3", [3]])
def test_bad_loop_counts(make: Callable[[Any], object], count: object) -> None:
    """Only a positive whole number is a number of rounds, wherever it is written."""
    with pytest.raises(ArgumentError) as caught:
        make(count)
    assert (
        str(caught.value)
        == f"A loop runs a positive whole number of times, not {count!r}; the default is 10."
    )


BAD_MEMBERS = [
    (5, "int 5"),
    (None, "NoneType None"),
    (int, "the class int"),
    (b"x", "bytes b'x'"),
]


TAKES_MEMBERS: list[tuple[Callable[[Any], object], str]] = [
    (lambda v: untyped_pipeline(a, v), "Pipeline()"),
    (lambda v: untyped_pipeline("p", v), "Pipeline()"),
    (lambda v: Pipeline("p").step(v), ".step()"),
    (lambda v: untyped_fan_out(a, v), "FanOut()"),
    (lambda v: FanOut("f").branch(v), ".branch()"),
    (lambda v: untyped_loop(a, v), "Loop()"),
    (lambda v: Loop("l").step(v), ".step()"),
    (lambda v: untyped_race(a, v), "race()"),
    (lambda v: untyped_map("k", v), "map_over()"),
    (lambda v: loop_until(is_done, v), "Loop()"),
    (lambda v: a.writes("k") >> {"x": v}, "a route"),
]


@pytest.mark.parametrize(("value", "shown"), BAD_MEMBERS, ids=[shown for _, shown in BAD_MEMBERS])
@pytest.mark.parametrize(("make", "where"), TAKES_MEMBERS)
def test_wrong_members(make: Callable[[Any], object], where: str, value: object, shown: str) -> None:
    """A member that is neither expression nor function is refused at once; the error names it."""
    with pytest.raises(ArgumentError) as caught:
        make(value)
    assert str(caught.value) == f"{where} takes an expression or a function of the state, not {shown}."


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Pipeline("p", "a", b),
            ArgumentError,
            "Pipeline() takes an expression or a function of the state, not str 'a'. Did you mean "
            "Agent('a')?",
        ),
        (lambda: Pipeline("p", a, name="q"), ArgumentError, "Pipeline got two names, 'p' and 'q'; give one."),
        (lambda: FanOut("p", a, name="q"), ArgumentError, "FanOut got two names, 'p' and 'q'; give one."),
        (lambda: Loop("p", a, name="q"), ArgumentError, "Loop got two names, 'p' and 'q'; give one."),
        (
            lambda: Pipeline("my pipe", a),
            InvalidNameError,
            "'my pipe' cannot name this pipeline: ADK wants letters, digits and underscores, not starting "
            "with a digit. Try 'my_pipe'.",
        ),
        (
            lambda: FanOut("user"),
            InvalidNameError,
            "'user' cannot name this fan_out: ADK keeps it for the person. Try 'user_fan_out'.",
        ),
        (
            lambda: Loop("2x"),
            InvalidNameError,
            "'2x' cannot name this loop: ADK wants letters, digits and underscores, not starting with a "
            "digit. Try 'loop_2x'.",
        ),
        (
            lambda: untyped_pipeline(a, name=5),
            InvalidNameError,
            "The name of this pipeline must be text, not int: 5.",
        ),
        (lambda: untyped_map(5, a), ArgumentError, "map_over(key=) takes a state key as text, not int 5."),
        (lambda: untyped_map("", a), ArgumentError, "map_over(key=) takes a state key as text, not str ''."),
        (
            lambda: untyped_map("k", a, item_key=None),
            ArgumentError,
            "map_over(item_key=) takes a state key as text, not NoneType None.",
        ),
        (
            lambda: untyped_map("k", a, output_key=" "),
            ArgumentError,
            "map_over(output_key=) takes a state key as text, not str ' '.",
        ),
        (
            lambda: map_over("k", a, item_key="k"),
            ArgumentError,
            "map_over(item_key='k'): give the item another key; it is removed afterwards.",
        ),
        (
            lambda: map_over("k", a, item_key="x", output_key="x"),
            ArgumentError,
            "map_over(item_key='x'): give the item another key; it is removed afterwards.",
        ),
        *(
            (
                lambda count=count: untyped_map("k", a, concurrency=count),
                ArgumentError,
                f"map_over(concurrency=) takes a positive whole number, not {count!r}.",
            )
            for count in (0, -1, True, None, 1.5)
        ),
    ],
)
def test_wrong_arguments(make: Callable[[], object], error: type[Exception], message: str) -> None:
    """Names, keys and counts that cannot work are refused with one line."""
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message


def test_fallback_keeps_its_order() -> None:
    """`//` lists the alternatives in the order in which they are tried."""
    assert (a // b // c).node == FallbackNode(children=(A, B, C))
