"""Expressions as values: frozen, compared, hashed, copied, pickled, printed."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from adk_fluent import (
    Agent,
    C,
    FanOut,
    Loop,
    P,
    Pipeline,
    Preset,
    Route,
    S,
    gate,
    map_over,
    race,
    tap,
    transfer,
    until,
)
from adk_fluent.errors import ArgumentError, ExpressionError
from adk_fluent.expr.base import Conditional, Expr, Step, Timeout
from adk_fluent.expr.transforms import Transform
from adk_fluent.expr.workflow import Fallback, MapOver, Race
from adk_fluent.state import declares
from tests.limits import LIMIT
from tests.samples import EXPRESSIONS, is_done, log_call, look

a, b = Agent("a"), Agent("b")
every_expression = pytest.mark.parametrize("name", EXPRESSIONS)


def again(name: str) -> Expr[Any]:
    """An equal expression around another, equal node."""
    return type(EXPRESSIONS[name]).from_node(copy.deepcopy(EXPRESSIONS[name].node))


@every_expression
def test_attributes_cannot_be_set_or_deleted(name: str) -> None:
    """An expression never changes, not by its own attributes and not by new ones."""
    expression = EXPRESSIONS[name]
    for attribute in ("node", "name", "_node", "colour"):
        with pytest.raises(AttributeError) as caught:
            setattr(expression, attribute, 5)
        assert str(caught.value) == (
            f"Expressions do not change; .{attribute} cannot be set. Each method returns a new one."
        )
    with pytest.raises(AttributeError, match=r"^Expressions do not change; \._node cannot be deleted\.$"):
        delattr(expression, "_node")
    assert expression == again(name)


@every_expression
def test_equality_and_hash_agree(name: str) -> None:
    """Equal expressions hash alike and are one key of a dict; a renamed one is another."""
    expression, twin = EXPRESSIONS[name], again(name)
    assert expression == twin
    assert expression.node is not twin.node
    assert hash(expression) == hash(twin)
    assert {expression: 1}[twin] == 1
    assert expression.named("other") != expression
    assert expression != expression.node
    assert expression != name


def pickled(expression: Expr[Any]) -> Expr[Any]:
    """The value after a round trip through pickle."""
    return pickle.loads(pickle.dumps(expression))


@every_expression
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_copies_are_equal(name: str, duplicate: Callable[[Expr[Any]], Expr[Any]]) -> None:
    """Copying and pickling give an equal expression of the same class that still composes."""
    expression = EXPRESSIONS[name]
    twin = duplicate(expression)
    assert twin == expression
    assert type(twin) is type(expression)
    assert (twin >> a) == (expression >> a)
    with pytest.raises(AttributeError):
        setattr(twin, "colour", "red")  # noqa: B010  # a plain assignment is a type error


def test_copies_of_what_was_never_looked_at() -> None:
    """A chain whose node was not asked for yet can be copied and pickled too."""
    assert copy.copy(a >> b) == a >> b
    assert pickle.loads(pickle.dumps(a | b)) == a | b


def test_expressions_of_different_make_and_same_meaning_are_equal() -> None:
    """Equality is about what runs, not about how it was written."""
    assert a.writes("k") >> {"x": b} == a.writes("k") >> Route("k").eq("x", b)
    assert a.until(is_done) == Loop(a).until(is_done)
    assert Pipeline(a) != a


@every_expression
def test_every_method_leaves_the_receiver(name: str) -> None:
    """Naming, wrapping and composing give new expressions."""
    expression, before = EXPRESSIONS[name], copy.deepcopy(EXPRESSIONS[name].node)
    made: list[Expr[Any]] = [
        expression.named("other"),
        expression.timeout(1),
        expression.tap(look),
        expression.until(look),
        expression.proceed_if(is_done),
        expression >> a,
        expression | a,
        expression // a,
        expression * 2,
    ]
    assert expression.node == before
    assert all(new != expression for new in made)


@every_expression
def test_named_renames_and_nothing_else(name: str) -> None:
    """`named` keeps the class and every field but the name."""
    renamed = EXPRESSIONS[name].named("other")
    assert type(renamed) is type(EXPRESSIONS[name])
    assert renamed.name == renamed.node.name == "other"
    assert renamed.node.replace(name=EXPRESSIONS[name].name) == EXPRESSIONS[name].node


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        (a, "Agent('a')"),
        (a.delegate(b), "Agent('a', b)"),
        (a >> b, "Pipeline(a, b)"),
        ((a >> b).named("p"), "Pipeline('p', a, b)"),
        (Pipeline("p"), "Pipeline('p')"),
        (a >> (a | b), "Pipeline(a, a | b)"),
        ((a >> b) | b, "FanOut(a >> b, b)"),
        ((a >> b) // (a | b | (b >> a)), "Fallback(a >> b, a | b | (b >> a))"),
        ((a >> b).named("q") | b, "FanOut(q, b)"),
        (race(a >> b, b), "Race(a >> b, b)"),
        ((a >> b).timeout(1) >> b, "Pipeline(timeout(a >> b), b)"),
        ((a // b) * 2, "Loop(a // b)"),
        (FanOut("f", a), "FanOut('f', a)"),
        (a // b, "Fallback(a, b)"),
        (a * 3, "Loop(a)"),
        (race(a, b), "Race(a, b)"),
        (Route("k").eq("x", a).otherwise(b), "Route(a, b)"),
        (Route("k"), "Route()"),
        (a.proceed_if(is_done), "Conditional(a)"),
        (a.timeout(1), "Timeout(a)"),
        (map_over("k", a), "MapOver(a)"),
        (tap(look), "Step(look)"),
        (tap(look).named("t"), "Step('t')"),
        (gate(is_done), "Step(gate)"),
        (transfer("a"), "Step(to_a)"),
        (S.capture("x"), "Step(capture)"),
        (S.set(x=1), "Transform(set)"),
        (S.set(x=1) + S.drop("y"), "Transform(together)"),
        (a >> S.rename(x="y") >> b, "Pipeline(a, rename, b)"),
    ],
)
def test_repr(expression: Expr[Any], shown: str) -> None:
    """An expression prints as its class, its name and what it holds, written with operators, in one line."""
    assert repr(expression) == shown


@pytest.mark.parametrize("cls", [Expr, Step, Transform, Timeout, Conditional, Fallback, Race, MapOver])
def test_some_classes_are_not_built_directly(cls: Any) -> None:
    """Classes that only operators and functions make say so."""
    with pytest.raises(ExpressionError) as caught:
        cls()
    assert str(caught.value) == f"{cls.__name__} is not built directly; compose expressions instead."


@pytest.mark.parametrize(
    ("expression", "wrong", "message"),
    [
        (a >> b, "stepp", "Pipeline has no method 'stepp'. Did you mean 'step'?"),
        (
            a >> b,
            "instruct",
            "Pipeline has no method 'instruct': its agents have prompts. Call .instruct() on an Agent, "
            "before it is joined with others.",
        ),
        (a | b, "branches", "FanOut has no method 'branches'. Did you mean 'branch'?"),
        (a * 2, "max_iteration", "Loop has no method 'max_iteration'. Did you mean 'max_iterations'?"),
        (Route("k"), "equals", "Route has no method 'equals'."),
        (Route("k"), "otherwize", "Route has no method 'otherwize'. Did you mean 'otherwise'?"),
        (S.set(x=1), "timeoutt", "Transform has no method 'timeoutt'. Did you mean 'timeout'?"),
        (race(a, b), "name_", "Race has no method 'name_'. Did you mean 'name'?"),
    ],
)
def test_misspelt_methods(expression: Expr[Any], wrong: str, message: str) -> None:
    """The error for a misspelt method names the nearest method of the class."""
    with pytest.raises(AttributeError) as caught:
        getattr(expression, wrong)
    assert str(caught.value) == message


@pytest.mark.parametrize("wrong", ["for _ in a: pass", "len(a)", "a[0]", "a()", "a < b", "-a", "'x' in a"])
def test_expressions_are_no_containers_numbers_or_functions(wrong: str) -> None:
    """An expression is no container, no number and no function, so a slip is not silently accepted."""
    with pytest.raises(TypeError):
        exec(wrong, {"a": a, "b": b})


def test_an_expression_may_be_looked_at_from_several_threads() -> None:
    """A chain that two threads flatten at the same time is whole for both."""
    for _ in range(20):
        chain: Expr[Any] = a
        for _ in range(200):
            chain = chain >> b
        start, seen = threading.Barrier(4), list[int]()

        def look_at(
            expression: Expr[Any] = chain, start: threading.Barrier = start, seen: list[int] = seen
        ) -> None:
            start.wait(LIMIT)
            seen.append(len(expression.node.children))

        threads = [threading.Thread(target=look_at) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        assert seen == [201] * 4


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (C.none(), "the C spec C.none(). A C spec belongs to an agent: Agent(...).context(...)."),
        (P.role("x"), "the P prompt P.role('x'). A P prompt belongs to an agent: Agent(...).instruct(...)."),
    ],
    ids=["context", "prompt"],
)
def test_a_spec_is_no_step(spec: Any, message: str) -> None:
    """A context or a prompt where a step belongs is refused, saying which method of an agent takes it."""
    with pytest.raises(ArgumentError) as caught:
        _ = Agent("a") >> spec
    assert str(caught.value) == f">> takes an expression or a function of the state, not {message}"


@declares(reads=["tries"], writes=["seen"])
def _notes(state: Any) -> bool:
    return bool(state)


OBSERVED: dict[str, Callable[[], object]] = {
    "until()": lambda: Agent("a") * until(_notes),
    "proceed_if()": lambda: Agent("a").proceed_if(_notes),
    "when()": lambda: Route().when(_notes, Agent("a")),
    "gate()": lambda: gate(_notes),
    "tap()": lambda: Agent("a").tap(_notes),
    "transfer(condition=)": lambda: transfer("a", condition=_notes),
    "S.when()": lambda: S.when(_notes, S.set(x=1)),
    "S.guard()": lambda: S.guard(_notes, "no"),
    "C.when()": lambda: C.when(_notes, C.none()),
    "P.when()": lambda: P.when(_notes, P.role("r")),
}


@pytest.mark.parametrize("where", OBSERVED)
def test_predicates_and_taps_cannot_declare_writes(where: str) -> None:
    """A predicate or tap that declares writes is refused at once, naming it, the key and the way out."""
    with pytest.raises(ArgumentError) as caught:
        OBSERVED[where]()
    assert str(caught.value) == (
        f"{where}: '_notes' declares that it writes 'seen', and here it can only read. "
        "Write in a separate step: a function of the state that returns a dict, or S.set(...)."
    )


untyped: Any = Agent("a")
KEEPS: dict[str, Callable[[list[str]], Any]] = {
    "S.set": lambda given: S.set(k={"in": given}),
    "S.default": lambda given: S.default(k=given),
    "generate": lambda given: Agent("a").generate(stop_sequences=given),
    "static": lambda given: untyped.static(given),
    "Preset": lambda given: Agent("a").use(Preset(generate={"stop_sequences": given})),
}


@pytest.mark.parametrize("make", KEEPS.values(), ids=KEEPS)
def test_a_list_that_was_given_can_change(make: Callable[[list[str]], Any]) -> None:
    """A later change of a list or dict that the caller passed does not change the expression."""
    given = ["x"]
    made, same = make(given), make(["x"])
    given.append("changed")
    assert made == same
    assert make(["x", "changed"]) != made


def test_agents_of_one_preset_share_nothing() -> None:
    """Two agents have lists and dicts of their own from a preset, which keeps what it was written with."""
    options: dict[str, Any] = {"stop_sequences": ["x"], "labels": {"a": "b"}}
    written = copy.deepcopy(options)
    static = ["x"]
    preset = Preset(model="m", generate=options, static=static)
    made: list[Any] = [Agent(name).use(preset) for name in "ab"]
    built: list[Any] = [agent.build() for agent in made]
    options["stop_sequences"].append("changed")
    options["temperature"] = 1
    static.append("changed")
    built[0].generate_content_config.stop_sequences.append("changed")
    built[0].generate_content_config.labels["changed"] = "c"
    built += [agent.build() for agent in (*made, Agent("c").use(preset))]
    for agent in built[1:]:
        assert agent.generate_content_config.model_dump(exclude_none=True) == written
        assert agent.static_instruction == ["x"]


def test_a_list_in_a_preset_is_one_argument() -> None:
    """A tuple gives several arguments, a list is one; where several are wanted, the message says how."""
    several: Any = ["x", "y"]
    assert Agent("a").use(Preset(static=several)) == Agent("a").static(several)
    with pytest.raises(ArgumentError, match=r"Unpack the list: \.tools\("):
        Agent("a").use(Preset(tools=[print, repr]))
    twice = Agent("a").use(Preset(before_agent=log_call)).use(Preset(before_agent=log_call))
    assert twice == Agent("a").before_agent(log_call, log_call)
