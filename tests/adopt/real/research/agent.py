"""A research pipeline: a plan, three searchers at once, a report that a critic sends back."""

# pyright: reportDeprecated=false

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.adk.tools import exit_loop
from google.adk.tools.agent_tool import AgentTool
from pydantic import BaseModel

MODEL = "gemini-2.5-flash"


class Plan(BaseModel):
    """What to look for."""

    questions: list[str]


class Archive(BaseAgent):
    """Keeps the report."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        report = ctx.session.state.get("report", "")
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            branch=ctx.branch,
            actions=EventActions(state_delta={"archived": len(report)}),
        )


def searcher(place: str) -> LlmAgent:
    """One who looks in one place."""
    return LlmAgent(
        name=f"search_{place}",
        model=MODEL,
        instruction=f"Look in the {place} for: {{plan}}.",
        output_key=f"found_{place}",
    )


fact_checker = LlmAgent(name="fact_checker", model=MODEL, instruction="Is this so?")
planner = LlmAgent(
    name="planner", model=MODEL, instruction="Plan the research.", output_schema=Plan, output_key="plan"
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    search = ParallelAgent(name="search", sub_agents=[searcher(place) for place in ("web", "papers", "news")])
    writer = LlmAgent(
        name="writer",
        model=MODEL,
        instruction="Write from {found_web}, {found_papers} and {found_news}. The critic: {criticism?}",
        tools=[AgentTool(fact_checker)],
        output_key="report",
    )
    critic = LlmAgent(
        name="critic",
        model=MODEL,
        instruction="Say what is wrong with {report}, or leave.",
        tools=[exit_loop],
        output_key="criticism",
    )
    root_agent = SequentialAgent(
        name="research",
        sub_agents=[
            planner,
            search,
            LoopAgent(name="refine", sub_agents=[writer, critic], max_iterations=3),
            Archive(name="archive"),
        ],
    )
