"""Shapes that repeat: a review, a supervisor, a debate."""

from __future__ import annotations

from typing import TypeVar, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import check_key
from adk_fluent.expr.base import Expr
from adk_fluent.expr.steps import until
from adk_fluent.expr.workflow import Loop, Pipeline
from adk_fluent.ir.predicates import Match, Predicate
from adk_fluent.patterns.parts import aside, expression, several, writes

T = TypeVar("T")
U = TypeVar("U")


def review_loop(
    worker: Expr[T], reviewer: Expr[U], quality_key: str, target: float, max_rounds: int = 3
) -> Loop[T]:
    """The worker writes, the reviewer gives a score, again and again until the score is reached.

    The answer is what the worker wrote last. The user does not see the score, unless the reviewer has
    `.show()`.

    The reviewer's answer is compared as a number, so tell it to answer with one alone. The worker sees in the
    conversation what the reviewer said.

    Args:
        reviewer: an agent; it stores its answer under `quality_key` unless it already writes that key, as
            with `.writes(Review.score, Review.remarks)`.
        quality_key: the state key of the score.
        target: the score that is good enough.
        max_rounds: how often the two run at most.

    Raises:
        ArgumentError: the reviewer writes other keys alone, or an argument is of another kind.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> pipeline = review_loop(
        ...     worker=Agent("writer").instruct("Write a draft.").writes("draft"),
        ...     reviewer=Agent("reviewer").instruct("Score the draft from 0 to 1. Answer with the number."),
        ...     quality_key="score",
        ...     target=0.8,
        ... )
        >>> backend = mock_backend({"writer": ["a", "b", "c"], "reviewer": ["0.5", "0.9", "1"]})
        >>> asyncio.run(pipeline.run("Go", backend=backend)).state
        {'draft': 'b', 'score': '0.9'}
        >>> backend = mock_backend({"writer": "Tea is hot.", "reviewer": "0.9"})
        >>> asyncio.run(pipeline.ask_async("Go", backend=backend))
        'Tea is hot.'
    """
    where, key = "review_loop()", check_key(quality_key, "review_loop(quality_key=)")
    if isinstance(target, bool) or not isinstance(target, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ArgumentError(f"review_loop(target=) takes a number, not {target!r:.40}.")
    scored = writes(expression(reviewer, where), key, "review_loop(reviewer=)")
    rounds = expression(worker, where) >> aside(scored)
    return cast("Loop[T]", rounds * until(Match(key, "gte", target), max=max_rounds))


def supervised(worker: Expr[T], supervisor: Expr[U], approve: Predicate, max_rounds: int = 3) -> Loop[T]:
    """The worker and then the supervisor, again and again until the supervisor's verdict approves.

    The answer is the last one of the worker. The user does not see the verdict, unless the supervisor has
    `.show()`.

    Args:
        approve: `state -> bool`; true ends it. The supervisor's answer is in the state if it has `.writes`.
        max_rounds: how often the two run at most.

    Example:
        >>> from adk_fluent import Agent
        >>> boss = Agent("boss").instruct("Answer yes or no.").writes("verdict")
        >>> supervised(Agent("clerk"), boss, lambda state: state["verdict"] == "yes").node.max_iterations
        3
    """
    where = "supervised()"
    rounds = expression(worker, where) >> aside(expression(supervisor, where))
    return cast("Loop[T]", rounds * until(approve, max=max_rounds))


def debate(*agents: Expr[T], judge: Expr[U], rounds: int = 2) -> Pipeline[T | U]:
    """Agents speak in turn, each hearing all that was said; after some rounds the judge decides.

    Args:
        agents: two or more.
        judge: hears everything, and gives the answer.
        rounds: how often each agent speaks.

    Raises:
        ArgumentError: there are fewer than two agents.

    Example:
        >>> from adk_fluent import Agent
        >>> debate(Agent("for"), Agent("against"), judge=Agent("judge"), rounds=3)
        Pipeline(loop(for, against), judge)
    """
    talk = Pipeline(*several(agents, 2, "debate()"))
    return Loop(talk, max_iterations=rounds) >> expression(judge, "debate(judge=)")
