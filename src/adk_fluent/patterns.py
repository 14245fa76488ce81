"""Ready-made expressions for common shapes of pipelines: a cascade, a review loop, a debate and others.

Each function joins the given expressions with the operators and steps of `adk_fluent.expr`, as a user could.
Read `chain` first, then `review_loop`. The helpers at the end check the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from typing import Any, Final, TypeVar, cast

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, ir, map_over, until
from adk_fluent._lazy import listing
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import check_key, describe, observer
from adk_fluent.expr.base import Expr
from adk_fluent.ir.execution import InOrder
from adk_fluent.ir.predicates import Predicate, StateView, plain

__all__ = [
    "cascade",
    "chain",
    "conditional",
    "debate",
    "fan_out_merge",
    "map_reduce",
    "review_loop",
    "supervised",
]

T = TypeVar("T")
U = TypeVar("U")

CASCADE_ANSWER = "cascade_answer"
"""The state key for the answer of a cascade's agent that has no `.writes`."""

MAP_ANSWERS: Final = "results"
"""The state key for the answers of a map, in the order of its items."""


def chain(*agents: Expr[T]) -> Pipeline[T]:
    """Run agents one after the other, like `a >> b >> c`; for agents in a list.

    Raises:
        ArgumentError: there are no agents, or one is not an expression.

    Example:
        >>> from adk_fluent import Agent
        >>> chain(*[Agent(name) for name in ("draft", "edit", "proof")])
        Pipeline(draft, edit, proof)
    """
    return Pipeline(*_several(agents, 1, "chain()"))


def cascade(*agents: Expr[T], accept: Callable[[str], bool]) -> Expr[T]:
    """Ask the cheapest agent first, and the next one only if `accept` rejects the answer.

    An agent that fails counts as rejected. The answer of the last agent is always accepted. A rejected
    answer is withdrawn: it is not the text of the run.

    Args:
        agents: two or more, the cheapest first. An agent without `.writes` stores its answer under the state
            key `cascade_answer`.
        accept: `text -> bool`, called with each answer; a structured answer is passed as JSON.

    Raises:
        ArgumentError: there are fewer than two agents, or one is not an `Agent`.

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
        raise ArgumentError(f"cascade(accept=) takes a function text -> bool, not {describe(accept)}.")
    plain(accept, "cascade(accept=)")
    *earlier, last = _several(agents, 2, "cascade()")
    tried: list[Expr[T]] = []
    for asked in earlier:
        if not isinstance(asked, Agent):
            raise ArgumentError(
                f"cascade() takes agents, because each has one answer, not {describe(asked)}."
            )
        key = _answer_key(asked, CASCADE_ANSWER)
        guard = S.guard(_accepted(accept, key), f"the answer of {asked.name} was not accepted")
        tried.append(_writes(asked, key, "cascade()") >> guard)
    return reduce(lambda one, other: one // other, [*tried, last])


def _accepted(accept: Callable[[str], bool], key: str) -> Predicate:
    """A predicate of state that calls `accept` with the answer under `key`."""

    @ir.declares(reads=[key])
    def accepted(state: StateView) -> bool:
        answer = state[key]
        return accept(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))

    return accepted


def conditional(pred: Predicate, then: Expr[T], otherwise: Expr[U]) -> Route[T | U]:
    """Run one of two expressions, depending on the state.

    Args:
        pred: `state -> bool`.
        then: runs if `pred` returns a true value.
        otherwise: runs if it does not.

    Example:
        >>> from adk_fluent import Agent
        >>> conditional(lambda state: state.get("vip"), Agent("butler"), Agent("clerk"))
        Route(butler, clerk)
    """
    where = "conditional()"
    test = observer(pred, where)
    return Route().when(test, _expression(then, where)).otherwise(_expression(otherwise, where))


def fan_out_merge(*agents: Expr[T], into: str, merge: Callable[..., Any] | None = None) -> Pipeline[str]:
    """Run all agents at the same time, and merge their answers into one.

    The merged value is stored under `into`, and it is the answer of the pipeline, as text or JSON.

    Args:
        agents: two or more. An agent without `.writes` stores its answer under its own name.
        into: the state key for the merged answers.
        merge: function of the answers, in order; by default they are joined as text, one per line.

    Raises:
        ArgumentError: there are fewer than two agents, or one writes nothing that could be merged.

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
    for branch in _several(agents, 2, where):
        key = _answer_key(branch, "") or next(iter(_last_keys(branch)), branch.name or "")
        if not key:
            raise ArgumentError(f"{where}: {branch!r} writes nothing to merge. Give it .writes(...).")
        branches.append(_writes(branch, key, where))
        keys.append(key)
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ArgumentError(f"{where}: two branches write {twice[0]!r}. Give each its own key.")
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
    """Run the mapper once per item, several at the same time; then reduce the answers to one result.

    Args:
        mapper: an expression that reads its item as `{_item}`.
        reducer: an agent, or a function of the list of answers. An agent receives the answers under the
            state key `results`. The result is stored under `into`.
        items_key: the state key of the list.
        into: the state key for the result.

    Raises:
        ArgumentError: the reducer is neither an expression nor a function, or it writes only other keys.

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
    mapped = map_over(items_key, _expression(mapper, where), output_key=MAP_ANSWERS)
    if isinstance(reducer, Expr):
        reading = cast("Expr[U]", reducer)
        if isinstance(reading, Agent) and all(read.key != MAP_ANSWERS for read in reading.node.key_reads()):
            reading = reading.reads(MAP_ANSWERS)
        return mapped >> _writes(reading, key, "map_reduce(reducer=)")
    if not callable(reducer):
        raise ArgumentError(f"{where} takes an agent or a function as its reducer, not {describe(reducer)}.")
    plain(reducer, "map_reduce(reducer=)")

    @ir.declares(reads=[MAP_ANSWERS])
    def reduced(state: StateView) -> Any:
        return reducer(state[MAP_ANSWERS])

    return mapped >> S.compute(**{key: reduced})


def review_loop(
    worker: Expr[T], reviewer: Expr[U], quality_key: str, target: float, max_rounds: int = 3
) -> Loop[T]:
    """Let a worker write and a reviewer score the result, until the score reaches the target.

    The answer is the worker's last text. The user does not see the score, unless the reviewer has `.show()`.

    The reviewer's answer is compared as a number, so instruct it to answer with a number only. The worker
    sees the reviewer's text in the conversation.

    Args:
        worker: an agent or another expression.
        reviewer: an agent; it stores its answer under `quality_key` unless it already writes that key, as
            with `.writes(Review.score, Review.remarks)`.
        quality_key: the state key of the score.
        target: the least score that ends the loop.
        max_rounds: most rounds of the two; 3 by default.

    Raises:
        ArgumentError: the reviewer writes only other keys, or an argument is of the wrong type.

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
    scored = _writes(_expression(reviewer, where), key, "review_loop(reviewer=)")
    rounds = _expression(worker, where) >> _aside(scored)
    return cast("Loop[T]", rounds * until(ir.Match(key, "gte", target), max=max_rounds))


def supervised(worker: Expr[T], supervisor: Expr[U], approve: Predicate, max_rounds: int = 3) -> Loop[T]:
    """Run a worker and then its supervisor, until `approve` accepts the state.

    The answer is the worker's last one. The user does not see the verdict, unless the supervisor has
    `.show()`.

    Args:
        worker: an agent or another expression.
        supervisor: an agent that judges the worker's answer; give it `.writes`, so that `approve` finds its
            verdict in the state.
        approve: `state -> bool`; a true value ends the loop.
        max_rounds: most rounds of the two; 3 by default.

    Example:
        >>> from adk_fluent import Agent
        >>> boss = Agent("boss").instruct("Answer yes or no.").writes("verdict")
        >>> supervised(Agent("clerk"), boss, lambda state: state["verdict"] == "yes").node.max_iterations
        3
    """
    where = "supervised()"
    rounds = _expression(worker, where) >> _aside(_expression(supervisor, where))
    return cast("Loop[T]", rounds * until(approve, max=max_rounds))


def debate(*agents: Expr[T], judge: Expr[U], rounds: int = 2) -> Pipeline[T | U]:
    """Let agents speak in turn, each seeing all earlier texts; after some rounds a judge decides.

    Args:
        agents: two or more.
        judge: sees all texts, and gives the answer of the pipeline.
        rounds: number of times that each agent speaks; 2 by default.

    Raises:
        ArgumentError: there are fewer than two agents.

    Example:
        >>> from adk_fluent import Agent
        >>> debate(Agent("for"), Agent("against"), judge=Agent("judge"), rounds=3)
        Pipeline(loop(for, against), judge)
    """
    talk = Pipeline(*_several(agents, 2, "debate()"))
    return Loop(talk, max_iterations=rounds) >> _expression(judge, "debate(judge=)")


# --- arguments ------------------------------------------------------------------------------------


def _expression(value: Expr[T], where: str) -> Expr[T]:
    """Return `value` if it is an expression.

    Raises:
        ArgumentError: `value` is something else.
    """
    if not isinstance(value, Expr):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ArgumentError(f"{where} takes an agent or another expression, not {describe(value)}.")
    return value


def _several(values: tuple[Expr[T], ...], least: int, where: str) -> tuple[Expr[T], ...]:
    """Return `values` if they are expressions, and at least `least` of them.

    Raises:
        ArgumentError: there are fewer, or one is not an expression.
    """
    if len(values) < least:
        raise ArgumentError(f"{where} takes {least} or more agents, not {len(values)}.")
    return tuple(_expression(value, where) for value in values)


def _aside(value: Expr[T]) -> Expr[T]:
    """Hide a judging expression, so that its text is not the answer, unless the user gave it `.show()`."""
    return value if value.node.annotations.visibility == "user" else value.hide(aside=True)


def _writes(value: Expr[T], key: str, where: str) -> Expr[T]:
    """Return the expression if it writes `key`; let an agent that writes nothing store its answer there.

    Raises:
        ArgumentError: the expression writes only other keys, or it is not an agent.
    """
    written = _keys_of(value)
    if key in written:
        return value
    if isinstance(value, Agent) and not written:
        return value.writes(key)
    what = f"writes {', '.join(map(repr, written))}" if written else "writes nothing"
    raise ArgumentError(f'{where}: {value!r} {what}, not {key!r}. Add .writes("{key}") to an agent in it.')


def _answer_key(value: Expr[Any], otherwise: str) -> str:
    """The state key under which an agent stores its answer, or `otherwise` if it does not store it."""
    key = value.node.given.get("output_key")
    return key if isinstance(key, str) else otherwise


def _keys_of(value: Expr[Any]) -> tuple[str, ...]:
    """All state keys that the nodes of an expression are known to write."""
    return tuple(dict.fromkeys(key for node in ir.walk(value.node) for key in node.key_writes))


def __dir__() -> list[str]:
    return listing(__name__)
