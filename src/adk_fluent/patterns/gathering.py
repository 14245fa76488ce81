"""Shapes that bring together: steps in a row, many views in one text, many items in one result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.agent import Agent
from adk_fluent.expr.arguments import check_key, describe
from adk_fluent.expr.base import Expr
from adk_fluent.expr.steps import map_over
from adk_fluent.expr.transforms import S
from adk_fluent.expr.workflow import FanOut, Pipeline
from adk_fluent.ir.execution import InOrder
from adk_fluent.ir.functions import declares
from adk_fluent.ir.predicates import StateView, plain
from adk_fluent.patterns.parts import answer_key, expression, several, writes

T = TypeVar("T")
U = TypeVar("U")

ANSWERS: Final = "results"
"""Where the answers of a map are, in the order of its items."""


def chain(*agents: Expr[T]) -> Pipeline[T]:
    """One after the other, as `a >> b >> c`; for steps that stand in a list.

    Raises:
        ArgumentError: there are none, or one is no expression.

    Example:
        >>> from adk_fluent import Agent
        >>> chain(*[Agent(name) for name in ("draft", "edit", "proof")])
        Pipeline(draft, edit, proof)
    """
    return Pipeline(*several(agents, 1, "chain()"))


def fan_out_merge(*agents: Expr[T], into: str, merge: Callable[..., Any] | None = None) -> Pipeline[str]:
    """All at the same time; then their answers under one key, which are the answer, too: text, or JSON.

    Args:
        agents: two or more. One without `.writes` stores its answer under its own name.
        into: where the merged answers go.
        merge: gets the answers in order; without it they are joined as text, one per line.

    Raises:
        ArgumentError: there are fewer than two, or one writes nothing that could be merged.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> views = fan_out_merge(Agent("web"), Agent("docs").writes("found"), into="facts")
        >>> backend = mock_backend({"web": "Sunny.", "docs": "Rain."})
        >>> asyncio.run(views.run("Weather?", backend=backend)).state
        {'web': 'Sunny.', 'found': 'Rain.', 'facts': 'Sunny.\\nRain.'}
    """
    where = "fan_out_merge()"
    keys: list[str] = []
    branches: list[Expr[T]] = []
    for branch in several(agents, 2, where):
        key = answer_key(branch, "") or next(iter(_last_keys(branch)), branch.name or "")
        if not key:
            raise ArgumentError(f"{where}: {branch!r} writes nothing to merge. Give it .writes(...).")
        branches.append(writes(branch, key, where))
        keys.append(key)
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ArgumentError(f"{where}: two branches write {twice[0]!r}. Give each a key of its own.")
    merged = S.merge(*keys, into=check_key(into, f"{where[:-1]}into=)"), fn=merge).show()
    return cast("Pipeline[str]", FanOut(*branches) >> merged)


def _last_keys(branch: Expr[Any]) -> tuple[str, ...]:
    """The keys that the last step of a branch writes."""
    node = branch.node
    while node.children and isinstance(node.runs, InOrder):
        node = node.children[-1]
    return node.key_writes


def map_reduce(
    mapper: Expr[T], reducer: Expr[U] | Callable[[list[Any]], Any], items_key: str, into: str
) -> Pipeline[T | U]:
    """The mapper once per item, several at the same time; then the reducer makes one result of their answers.

    Args:
        mapper: finds its item as `{_item}`.
        reducer: an agent, which is shown the answers as `results` and stores its own under `into`; or a
            function of the list of answers, whose value is stored there.
        items_key: the state key of the list.
        into: where the result goes.

    Raises:
        ArgumentError: the reducer is neither, or an agent that writes other keys alone.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> count = map_reduce(Agent("grade").instruct("Grade {_item}."), len, "papers", into="graded")
        >>> run = count.run("Go", state={"papers": ["a", "b"]}, backend=mock_backend({"grade": "A"}))
        >>> asyncio.run(run).state["graded"]
        2
    """
    where, key = "map_reduce()", check_key(into, "map_reduce(into=)")
    mapped = map_over(items_key, expression(mapper, where), output_key=ANSWERS)
    if isinstance(reducer, Expr):
        told = cast("Expr[U]", reducer)
        if isinstance(told, Agent) and all(read.key != ANSWERS for read in told.node.key_reads()):
            told = told.reads(ANSWERS)
        return mapped >> writes(told, key, "map_reduce(reducer=)")
    if not callable(reducer):
        raise ArgumentError(f"{where} takes an agent or a function as its reducer, not {describe(reducer)}.")
    plain(reducer, "map_reduce(reducer=)")

    @declares(reads=[ANSWERS])
    def reduced(state: StateView) -> Any:
        return reducer(state[ANSWERS])

    return mapped >> S.compute(**{key: reduced})
