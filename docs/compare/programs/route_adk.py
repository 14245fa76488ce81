"""Route by what a model said, in plain ADK."""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent, InvocationContext, LlmAgent
from google.adk.events import Event
from scripted import Scripted, run


class Desk(BaseAgent):
    """Runs the agent whose name the state holds."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        triage, biller, booker = self.sub_agents
        async for event in triage.run_async(ctx):
            yield event
        chosen = biller if ctx.session.state.get("team") == "billing" else booker
        async for event in chosen.run_async(ctx):
            yield event


triage = LlmAgent(
    name="triage", model=Scripted(answer="billing"), instruction="Which team?", output_key="team"
)
biller = LlmAgent(name="biller", model=Scripted(answer="For two bags."), instruction="Explain.")
booker = LlmAgent(name="booker", model=Scripted(answer="Rebooked."), instruction="Rebook.")
desk = Desk(name="desk", sub_agents=[triage, biller, booker])
print("run:", asyncio.run(run(desk, "Why 340?"))[0])
