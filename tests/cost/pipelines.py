"""Pipelines whose cost is estimated and then measured, each with how it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from adk_fluent import Agent, C, FanOut, Loop, P, Route, S, map_over, race
from adk_fluent.expr.base import Expr

LONG = 16
"""Tokens that an agent may answer with; the small model always wants more."""


class Case(NamedTuple):
    """A pipeline with what is known of its use.

    Attributes:
        expression: it.
        traffic: more that is assumed.
        state: what is in the session.
        turns: how many turns are measured.
    """

    expression: Expr[Any]
    traffic: Mapping[str, Any] = {}
    state: Mapping[str, Any] = {}
    turns: int = 1


def agent(name: str, instruction: str, model: Any) -> Agent[str]:
    """An agent that answers at some length."""
    return Agent(name, model).instruct(instruction).generate(max_output_tokens=LONG, temperature=0)


QUESTION = (
    "Our bakery sold 120 loaves of rye bread and 80 rolls on Monday, and was closed on Tuesday. What should "
    "we tell the owner about the week?"
)


def cases(model: Any) -> dict[str, Case]:
    """The pipelines, on a model."""
    plan = agent("plan", "You are the manager of a bakery. Answer the question in detail.", model)
    check = agent("check", "Check the figures in the answer and explain each of them at length.", model)
    letter = agent("letter", "Write a long letter to the owner of the bakery about the week.", model)
    short = agent("short", "Write a long story about bread, and do not stop before it ends.", model)
    return {
        "one agent": Case(plan),
        "two in a row": Case(plan >> check),
        "three in a row": Case(plan >> check >> short),
        "a key instead of history": Case(plan.writes("plan") >> letter.reads("plan")),
        "a key in the instruction": Case(
            plan.writes("plan") >> letter.instruct("Write a long letter about this: {plan}").context(C.none())
        ),
        "a window": Case(plan >> check >> letter.context(C.from_agents("plan"))),
        "a state value": Case(
            S.set(menu="rye bread, rolls, wheat bread, plum cake, apple pie and three kinds of biscuits")
            >> plan.instruct("You bake {menu}. Answer the question in detail.")
        ),
        "in parallel": Case((plan | check) >> letter),
        "a loop": Case(Loop(plan, check, max_iterations=2)),
        "a map": Case(
            map_over("days", agent("day", "Write a long report about {_item} in the bakery.", model))
            >> letter,
            traffic={"map_items": 3},
            state={"days": ["Monday", "Tuesday", "Wednesday"]},
        ),
        "a route": Case(
            S.set(kind="b") >> Route("kind").eq("a", plan >> check).eq("b", check >> letter),
            traffic={"branch_probabilities": {"b": 1.0}},
        ),
        "a race": Case(race(plan, check)),
        "a conversation": Case(plan >> check, traffic={"turns_per_session": 2}, turns=2),
        "a fan-out of three": Case(FanOut(plan, check, short)),
    }


def helped(model: Any) -> dict[str, Case]:
    """Pipelines whose contexts and prompts ask a model, too."""
    plan, check, letter = (agent(name, "Write about the week at length.", model) for name in "abc")
    told = plan >> check
    return {
        "a summary": Case(told >> letter.context(C.summarize())),
        "facts": Case(told >> letter.context(C.distill(into="facts"))),
        "a summary of earlier turns": Case(
            told >> letter.context(C.rolling(1, summarize=True)), traffic={"turns_per_session": 3}, turns=3
        ),
        "what fits": Case(told >> letter.context(C.budget(20, "summarize"))),
        "what matters": Case(told >> letter.context(C.relevant(top_k=1))),
        "an adapted prompt": Case(
            plan.writes("plan")
            >> letter.context(C.none()).instruct(P.task("Write about {plan}") | P.adapt(audience="a baker"))
        ),
    }
