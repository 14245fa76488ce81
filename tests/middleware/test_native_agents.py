"""Middleware acts on agents of ADK's own, wherever they stand and whatever runs them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner

from adk_fluent import Agent, Pipeline, S, map_over, race
from adk_fluent.adopt import adopt
from adk_fluent.errors import BudgetError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import pii_filter, token_budget
from tests.backends.support import seen
from tests.middleware.test_everywhere import Counts, Says, natively, says


def look(request: str) -> str:
    """Looks."""
    return request


def native(name: str, **fields: Any) -> LlmAgent:
    """An agent written by hand, which uses a tool once."""
    return LlmAgent(name=name, model=Says(model=name, tool="look"), tools=[look], **fields)


class Holder(BaseAgent):
    """Runs an agent that it does not have below itself, as agents written by hand often do."""

    inner: LlmAgent

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.inner.run_async(ctx):
            yield event


def holder(name: str = "holder", **fields: Any) -> Holder:
    """Such an agent."""
    return Holder(name=name, inner=native("inner"), **fields)


a = says("a")

Step = Expr[Any]

STEPS: dict[str, Callable[[Step], Step]] = {
    "sequence": lambda step: a >> step,
    "parallel": lambda step: a | step,
    "loop": lambda step: step * 1 >> a,
    "fallback": lambda step: (Agent("broken", "no such model") // step) >> a,
    "map_over": lambda step: S.set(k=["1"]) >> map_over("k", step) >> a,
    "timeout": lambda step: step.timeout(30) >> a,
    "race": lambda step: race(step, Agent("broken", "no such model")) >> a,
}


@pytest.mark.parametrize("composite", STEPS)
@pytest.mark.parametrize("kind", ["below", "held"])
async def test_it_acts_on_native_steps(composite: str, kind: str) -> None:
    """In every composite, on each call of a model and of a tool, also of an agent that another one holds."""
    counts = Counts()
    step = adopt(native("inner") if kind == "below" else holder())
    await STEPS[composite](step).middleware(counts).run("hi")
    assert sorted(counts.after) == ["a", "inner", "inner"]
    assert sorted(who for who in counts.before if who != "broken") == ["a", "inner", "inner"]
    assert counts.tools == ["look"]


@pytest.mark.parametrize("around", [False, True])
async def test_it_acts_on_a_native_step_alone(around: bool) -> None:
    """Attached to one native step, or around it, it acts on that and not on those beside it."""
    counts, step = Counts(), adopt(holder())
    part = Pipeline(step).middleware(counts) if around else step.middleware(counts)
    await (a >> part >> says("b")).run("hi")
    assert counts.seen() == ["inner", "inner"]
    assert counts.tools == ["look"]


async def test_it_acts_on_a_native_root() -> None:
    """An adopted agent is all of the expression, and the run is noticed, too."""
    counts = Counts()
    root = adopt(holder()).middleware(counts)
    result = await root.run("hi")
    assert result.text == "inner says"
    assert counts.seen() == ["inner", "inner"]
    assert len(counts.runs) == len(counts.ended) == 1
    assert await natively(InMemoryRunner(app=root.to_app())) == "inner says"
    assert counts.seen() == ["inner"] * 4


async def test_the_callbacks_of_a_native_agent_are_called_too() -> None:
    """Its own `before_agent_callback` stays, whether it has one or several, and is called once a run."""
    called: list[str] = []

    def one(callback_context: CallbackContext) -> None:
        called.append("one")

    def two(callback_context: CallbackContext) -> None:
        called.append("two")

    cases: list[tuple[Any, list[str]]] = [(one, ["one"]), ([one, two], ["one", "two"]), (None, [])]
    for callbacks, names in cases:
        called.clear()
        step = holder(before_agent_callback=callbacks)
        await (a >> step).middleware(Counts()).run("hi")
        assert called == names
        assert step.before_agent_callback == callbacks  # the user's own is as it was


async def test_a_budget_and_a_filter_hold_for_what_a_native_agent_runs() -> None:
    """Built-ins hold there: the budget refuses the call, and the model is not shown what is personal."""
    shown: list[str] = []

    def note(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse | None:
        shown.extend(seen(llm_request))
        return None

    step = Holder(name="holder", inner=native("inner", before_model_callback=note))
    with pytest.raises(BudgetError, match="'inner' would exceed its token_budget"):
        await (step >> a).middleware(token_budget(10)).run("hi")
    shown.clear()
    await (step >> a).middleware(pii_filter()).run("I am ann@example.org")
    assert shown
    assert "ann@example.org" not in "".join(shown)


async def test_it_acts_on_what_an_expression_runs_inside_a_native_agent() -> None:
    """An expression that a native agent makes as it runs brings its own, inside that of the agent."""
    inner, outer = Counts(), Counts()

    class Runs(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            held = (says("first") >> says("second")).middleware(inner).build()
            async for event in held.run_async(ctx):
                yield event

    await (a >> Runs(name="runs")).middleware(outer).run("hi")
    assert outer.seen() == ["a", "first", "second"]
    assert inner.seen() == ["first", "second"]


@pytest.mark.newest
async def test_it_acts_in_a_workflow() -> None:
    """A graph of ADK 2 as root: on its agents, its tools and the run, on every runner."""
    from google.adk.workflow import Workflow

    counts = Counts()
    graph = Workflow(name="graph", edges=[cast(Any, ("START", native("n1"), native("n2")))])
    plain = adopt(graph)
    expression = plain.middleware(counts)
    assert (await expression.run("hi")).text == "n2 says"
    assert counts.seen() == ["n1", "n1", "n2", "n2"]
    assert counts.tools == ["look", "look"]
    assert len(counts.runs) == len(counts.ended) == 1
    assert await natively(InMemoryRunner(app=expression.to_app())) == "n2 says"
    assert len(counts.seen()) == 8
    option = Counts()
    await plain.run("hi", middleware=option)
    assert option.seen() == ["n1", "n1", "n2", "n2"]
    await plain.run("hi")
    assert len(counts.seen()) == 8  # the workflow itself is as it was
