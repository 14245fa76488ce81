"""`build` accepts exactly the pipelines for which `check` reports no refusal."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
from google.genai.types import GenerateContentConfig
from hypothesis import given, settings

from adk_fluent import Agent, C, FanOut, Loop, Pipeline, Route, race, transfer
from adk_fluent.backends.adk.compile import compiler, scope
from adk_fluent.contracts import (
    Severity,
    check_all,
    check_names,
    check_nesting,
    check_resources,
    check_structure,
)
from adk_fluent.errors import ADKFluentError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AgentNode, FallbackNode, Node, RaceNode, rewrite, walk
from tests.contracts.corpus.cases import REFUSED, is_urgent
from tests.contracts.corpus.correct import CORRECT
from tests.contracts.corpus.faulty import FAULTY
from tests.contracts.pipelines import sample
from tests.properties.strategies import EXPRESSIONS
from tests.sampling import examples


def reported(expression: Expr[Any]) -> list[str]:
    """The findings that the check marks as refusals."""
    checks = (check_nesting, check_names, check_structure, check_resources)
    found = {
        id(issue): issue for check in checks for issue in check(expression) if issue.code in REFUSED
    }.values()
    assert all(issue.severity is Severity.ERROR for issue in found)
    errors = {issue.code for issue in check_all(expression).errors}
    assert errors & REFUSED == {issue.code for issue in found}
    return sorted(issue.agent for issue in found)


def refusal(expression: Expr[Any]) -> ADKFluentError | None:
    """The error that building raises."""
    try:
        expression.build()
    except ADKFluentError as error:
        return error
    return None


def agrees(expression: Expr[Any]) -> bool:
    """Hold the one against the other; whether it was refused."""
    error, names = refusal(expression), reported(expression)
    assert bool(names) == (error is not None), f"{error!r}, {check_all(expression)}"
    assert error is None or any(name in str(error) or "transfer(" in str(error) for name in names)
    return error is not None


@pytest.mark.parametrize("case", [*CORRECT, *FAULTY], ids=lambda case: case.name)
def test_a_pipeline_of_the_corpora_is_built_if_the_check_lets_it(case: Any) -> None:
    """Building refuses exactly those pipelines of the corpora for which the check reports a refusal."""
    agrees(case.expression)


@settings(max_examples=examples(150))
@given(EXPRESSIONS)
def test_any_expression_is_built_if_the_check_lets_it(expression: Expr[Any]) -> None:
    """Whatever can be written, building and the check agree about it."""
    agrees(expression)


Spoil = Callable[[Node, Random], Node]
_EMPTY: Any = (Pipeline("e1"), FanOut("e2"), Loop("e3"), Route("k").named("e4"))


def _empty(node: Node, random: Random) -> Node:
    empty: Any = random.choice(_EMPTY)
    return random.choice([empty.node, FallbackNode(name="e5"), RaceNode(name="e6")])


def _back(node: Node, random: Random) -> Node:
    there = Pipeline("there", Agent("on_the_way"), transfer("there"))
    return random.choice([there, there.timeout(3), Agent("first") >> there]).node


def _nowhere(node: Node, random: Random) -> Node:
    return (Pipeline[Any].from_node(node) >> transfer("nobody", condition=is_urgent)).node


def _clash(node: Node, random: Random) -> Node:
    return (Agent("twin") | Agent("twin").instruct("Another.")).node


def _misnamed(node: Node, random: Random) -> Node:
    return node.replace(name=random.choice(["two words", "user", "1st", "a-b"]))


def _contradictory(node: Node, random: Random) -> Node:
    agent = Agent("torn").include_contents("default")
    return random.choice([agent.context(C.none()), agent.context(C.window(2)), agent.reads("k0")]).node


def _misplaced(node: Node, random: Random) -> Node:
    agents = [
        Agent("odd").generate_content_config(GenerateContentConfig(tools=[print])),
        Agent("odd").generate_content_config(GenerateContentConfig(system_instruction="x")),
        Agent("odd").generate_content_config(GenerateContentConfig(response_schema=dict)),
        Agent("odd").include_contents(cast("Any", "all")),
    ]
    return random.choice(agents).node


SPOILERS: tuple[Spoil, ...] = (
    _empty, _back, _nowhere, _clash, _misnamed, _contradictory, _misplaced,
)  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__)
def test_refusals_are_reported_at_every_place(spoil: Spoil) -> None:
    """A fault put at any place of a random pipeline is refused and reported; without it, neither."""
    refused = 0
    for seed in range(40):
        random, root = Random(seed), sample(seed).expression.node
        whole = [node for node in walk(root) if not isinstance(node, AgentNode) or not node.children]
        place = random.choice(whole)
        bad = spoil(place, random)
        spoilt = rewrite(root, lambda node, place=place, bad=bad: bad if node is place else node)
        agrees(Pipeline[Any].from_node(root))
        refused += agrees(Pipeline[Any].from_node(spoilt))
    assert refused == 40


def test_a_race_and_a_fallback_of_nothing_are_refused() -> None:
    """No operator makes one; as nodes they are refused, too, before a run could stumble over them."""
    for node in (FallbackNode(), RaceNode()):
        assert agrees(Pipeline[Any].from_node(node))
    assert not agrees(race(Agent("a"), Agent("b")))


def test_every_fault_is_reported_at_once() -> None:
    """The check names all that building would refuse one after another."""
    odd = Agent("a").generate_content_config(GenerateContentConfig(tools=[print]))
    pipeline = Pipeline("p") >> Route("k").eq("a", Loop("l")) >> odd
    assert reported(pipeline) == ["a", "l", "p"]


def test_the_compiler_itself_refuses_only_what_adk_knows() -> None:
    """All other refusals stand where the check finds them; these need ADK, or the table, to tell."""
    raising = {
        function.name
        for module in (compiler, scope)
        for function in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(function, ast.FunctionDef)
        if any(isinstance(inner, ast.Raise) for inner in ast.walk(function))
    }
    assert raising == {"adk_fields", "compile_node", "construct", "_generate_config"}
