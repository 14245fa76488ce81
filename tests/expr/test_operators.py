from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent import Agent, FanOut, Loop, Pipeline, S, gate, race, tap, until
from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import FallbackNode, LoopNode, ParallelNode, SequenceNode, TapNode, TransformNode
from tests.samples import Invoice, count_words, is_done, look, typed

a, b, c, d = (Agent(name) for name in "abcd")
A, B, C, D = (x.node for x in (a, b, c, d))
Joined = Callable[[Any, Any], Any]
JOIN: dict[str, tuple[Joined, type]] = {
    ">>": (lambda x, y: x >> y, SequenceNode),
    "|": (lambda x, y: x | y, ParallelNode),
    "//": (lambda x, y: x // y, FallbackNode),
}
operators = pytest.mark.parametrize(("join", "node"), JOIN.values(), ids=JOIN.keys())


@operators
def test_an_operator_joins_in_order(join: Joined, node: type) -> None:
    """Both sides become the children, left first; neither side changes."""
    assert join(a, b).node == node(children=(A, B))
    assert join(a, b) != join(b, a)
    assert (a.node, b.node) == (A, B)


@operators
def test_operators_are_associative(join: Joined, node: type) -> None:
    """However an expression is bracketed, it is the same flat one."""
    flat = node(children=(A, B, C, D))
    assert join(join(join(a, b), c), d).node == flat
    assert join(a, join(b, join(c, d))).node == flat
    assert join(join(a, b), join(c, d)).node == flat


@operators
def test_repeated_use_is_kept(join: Joined, node: type) -> None:
    """The same agent may stand in an expression as often as wanted."""
    pair = join(a, b)
    assert join(pair, pair).node == node(children=(A, B, A, B))
    assert pair.node == node(children=(A, B))


@operators
def test_named_parts_are_not_flattened(join: Joined, node: type) -> None:
    """A part with a name or description is not flattened."""
    named = join(a, b).named("pair")
    assert join(named, c).node == node(children=(node(name="pair", children=(A, B)), C))
    assert join(c, named).node == node(children=(C, node(name="pair", children=(A, B))))


@operators
@pytest.mark.parametrize("first", ["left", "right"])
def test_asking_for_a_node_early_changes_nothing(join: Joined, node: type, first: str) -> None:
    """Reading the node of a part before joining it does not change the result."""
    part = join(a, b)
    assert part.node.children == (A, B)
    whole = join(part, c) if first == "left" else join(c, part)
    assert whole.node == node(children=(A, B, C) if first == "left" else (C, A, B))


def test_other_composites_are_not_flattened() -> None:
    """Only a node of the same kind dissolves in another."""
    assert ((a >> b) | c).node == ParallelNode(children=(SequenceNode(children=(A, B)), C))
    assert ((a | b) >> c).node == SequenceNode(children=(ParallelNode(children=(A, B)), C))
    assert ((a // b) >> (c // d)).node.children == ((a // b).node, (c // d).node)
    assert (a >> b | c >> d).node == ((a >> b) | (c >> d)).node
    assert (a >> b // c).node == (a >> (b // c)).node


def test_classes_and_operators_make_the_same() -> None:
    """`a >> b` is `Pipeline(a, b)`, and so on."""
    assert a >> b == Pipeline(a, b)
    assert a | b == FanOut(a, b)
    assert a * 3 == Loop(a, max_iterations=3)
    assert (a >> b) * until(is_done, max=4) == Loop(a, b, max_iterations=4).until(is_done)
    assert a @ Invoice == a.returns(Invoice)


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        (a * 3, LoopNode(children=(A,), max_iterations=3)),
        (a * 3 * 2, LoopNode(children=(LoopNode(children=(A,), max_iterations=3),), max_iterations=2)),
        (a * until(is_done), LoopNode(children=(A,), until=is_done)),
        (a * 3 >> b, SequenceNode(children=(LoopNode(children=(A,), max_iterations=3), B))),
        (a >> count_words, SequenceNode(children=(A, TransformNode(fn=count_words)))),
        (count_words >> a, SequenceNode(children=(TransformNode(fn=count_words), A))),
        (count_words >> (a >> b), SequenceNode(children=(TransformNode(fn=count_words), A, B))),
        (a.tap(look), SequenceNode(children=(A, TapNode(fn=look)))),
        (a >> tap(look) >> b, SequenceNode(children=(A, TapNode(fn=look), B))),
        ((a >> b).tap(look), SequenceNode(children=(A, B, TapNode(fn=look)))),
    ],
)
def test_results_of_operators(expression: Expr[Any], node: object) -> None:
    """Loops nest, functions become transforms on either side, taps follow."""
    assert expression.node == node


# --- bad input ------------------------------------------------------------------------------------

BAD: list[tuple[Any, str]] = [
    (5, "int 5"),
    (2.5, "float 2.5"),
    (None, "NoneType None"),
    (True, "bool True"),
    ([], "list []"),
    (("a", "b"), "tuple ('a', 'b')"),
    (Invoice, "the class Invoice"),
    (Agent, "the class Agent"),
]
EXPRESSIONS: dict[str, Expr[Any]] = {
    "agent": a,
    "pipeline": a >> b,
    "fan_out": a | b,
    "fallback": a // b,
    "loop": a * 2,
    "race": race(a, b),
    "transform": S.set(x=1),
    "gate": gate(is_done),
    "timeout": a.timeout(1),
    "conditional": a.proceed_if(is_done),
}


@operators
@pytest.mark.parametrize(("value", "shown"), BAD, ids=[shown for _, shown in BAD])
def test_wrong_operands(join: Joined, node: type, value: object, shown: str) -> None:
    """A right operand that is not an expression is refused for every left operand."""
    sign = {SequenceNode: ">>", ParallelNode: "|", FallbackNode: "//"}[node]
    for left in EXPRESSIONS.values():
        with pytest.raises(ArgumentError) as caught:
            join(left, value)
        assert str(caught.value) == f"{sign} takes an expression or a function of the state, not {shown}."


@operators
def test_a_text_operand_suggests_an_agent(join: Joined, node: type) -> None:
    """A name where an agent belongs gets the agent suggested."""
    with pytest.raises(ArgumentError, match=r"not str 'b'\. Did you mean Agent\('b'\)\?$"):
        join(a, "b")


@pytest.mark.parametrize(
    ("value", "shown"), [case for case in BAD if case[0] is not Agent], ids=lambda v: str(v)[:20]
)
def test_wrong_operands_on_the_left(value: Any, shown: str) -> None:
    """On the left of `>>` a wrong operand is refused with the same words."""
    with pytest.raises(ArgumentError) as caught:
        _ = value >> a
    assert str(caught.value) == f">> takes an expression or a function of the state, not {shown}."


@pytest.mark.parametrize(
    "value", [5, None, "x", [1], typed(look)], ids=["int", "None", "str", "list", "function"]
)
def test_operators_without_a_meaning_are_type_errors(value: Any) -> None:
    """Operators without a meaning raise a `TypeError`."""
    for wrong in (
        lambda: value | a,
        lambda: value // a,
        lambda: a + value,
        lambda: a - value,
        lambda: a & value,
    ):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("value", [2.5, "3", None, a, [3]], ids=["float", "str", "None", "agent", "list"])
def test_only_counts_and_until_multiply(value: Any) -> None:
    """`*` takes a number of rounds or `until(...)`."""
    with pytest.raises(ArgumentError, match=r"^A loop runs a positive whole number of times, not "):
        _ = a * value


def test_at_shapes_agents_only() -> None:
    """Only an agent has an answer to shape."""
    pipeline: Any = a >> b
    with pytest.raises(TypeError):
        _ = pipeline @ Invoice


def test_a_failed_operation_changes_nothing() -> None:
    """After a refused operand both sides are as they were."""
    left: Any = a.writes("k") >> b.writes("k")
    for wrong in (5, {"x": 5}, {}):
        with pytest.raises((ArgumentError, ExpressionError)):
            _ = left >> wrong
    assert left.node.children == (a.writes("k").node, b.writes("k").node)


def test_a_chain_of_five_thousand_is_flat_and_fast_enough_to_write() -> None:
    """A long chain neither recurses nor copies at every step."""
    chain: Expr[Any] = a
    for _ in range(5000):
        chain = chain >> b
    assert len(chain.node.children) == 5001
    assert chain.node.children[:2] == (A, B)
    other: Expr[Any] = a
    for _ in range(5000):
        other = b >> other
    assert other.node.children[-2:] == (B, A)
