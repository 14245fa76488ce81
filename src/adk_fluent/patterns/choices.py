"""Shapes that choose: the first answer that is accepted, or one of two."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from typing import TypeVar

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.agent import Agent
from adk_fluent.expr.arguments import describe, observer
from adk_fluent.expr.base import Expr
from adk_fluent.expr.route import Route
from adk_fluent.expr.transforms import S
from adk_fluent.ir.functions import declares
from adk_fluent.ir.predicates import Predicate, StateView, plain
from adk_fluent.patterns.parts import answer_key, expression, several, writes

T = TypeVar("T")
U = TypeVar("U")

ANSWER = "cascade_answer"
"""Where an agent of a cascade stores its answer if it does not say where."""


def cascade(*agents: Expr[T], accept: Callable[[str], bool]) -> Expr[T]:
    """The cheapest first: each agent is asked only if the answer of the one before was not accepted.

    An agent that fails counts as one whose answer is not accepted. The last one's answer is taken as it is.
    An answer that was not accepted is withdrawn: it is not the text of the run.

    Args:
        agents: two or more, the cheapest first. One without `.writes` stores its answer as `cascade_answer`.
        accept: `text -> bool`, asked with each answer; of a structured one, with its JSON.

    Raises:
        ArgumentError: there are fewer than two, or one is no agent.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> answer = cascade(Agent("small"), Agent("large"), accept=lambda text: "not sure" not in text)
        >>> backend = mock_backend({"small": "I am not sure.", "large": "It is 42."})
        >>> asyncio.run(answer.run("What is it?", backend=backend)).text
        'It is 42.'
    """
    if not callable(accept):
        raise ArgumentError(f"cascade(accept=) takes a function of a text, not {describe(accept)}.")
    plain(accept, "cascade(accept=)")
    *earlier, last = several(agents, 2, "cascade()")
    tried: list[Expr[T]] = []
    for asked in earlier:
        if not isinstance(asked, Agent):
            raise ArgumentError(f"cascade() takes agents, which have one answer each, not {describe(asked)}.")
        key = answer_key(asked, ANSWER)
        guard = S.guard(_accepted(accept, key), f"the answer of {asked.name} was not accepted")
        tried.append(writes(asked, key, "cascade()") >> guard)
    return reduce(lambda one, other: one // other, [*tried, last])


def _accepted(accept: Callable[[str], bool], key: str) -> Predicate:
    @declares(reads=[key])
    def accepted(state: StateView) -> bool:
        answer = state[key]
        return accept(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))

    return accepted


def conditional(pred: Predicate, then: Expr[T], otherwise: Expr[U]) -> Route[T | U]:
    """One of two, by what is in state.

    Args:
        pred: `state -> bool`.
        then: runs if it is true.
        otherwise: runs if it is not.

    Example:
        >>> from adk_fluent import Agent
        >>> conditional(lambda state: state.get("vip"), Agent("butler"), Agent("clerk"))
        Route(butler, clerk)
    """
    where = "conditional()"
    test = observer(pred, where)
    return Route().when(test, expression(then, where)).otherwise(expression(otherwise, where))
