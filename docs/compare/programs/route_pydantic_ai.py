"""Route by what a model said, in pydantic-ai."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

triage = Agent(TestModel(custom_output_text="billing"), instructions="Which team?")
biller = Agent(TestModel(custom_output_text="For two bags."), instructions="Explain.")
booker = Agent(TestModel(custom_output_text="Rebooked."), instructions="Rebook.")


async def support(question: str) -> str:
    """Ask triage, then the team that it names."""
    team = (await triage.run(question)).output
    return (await {"billing": biller, "booking": booker}[team].run(question)).output


print("run:", asyncio.run(support("Why 340?")))
