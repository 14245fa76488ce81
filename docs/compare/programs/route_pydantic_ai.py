"""Route by what a model said, in pydantic-ai."""

import asyncio
from typing import Literal

from pydantic_ai import Agent, UnexpectedModelBehavior
from pydantic_ai.models.test import TestModel

biller = Agent(TestModel(custom_output_text="For two bags."), instructions="Explain.")
booker = Agent(TestModel(custom_output_text="Rebooked."), instructions="Rebook.")
triage = Agent(output_type=Literal["billing", "booking"], instructions="Which team?")


async def support(question: str, label: str) -> str:
    """Ask triage, which answers with this label, then the team that it names."""
    team = (await triage.run(question, model=TestModel(custom_output_args=label))).output
    match team:
        case "billing":
            return (await biller.run(question)).output
        case "booking":
            return (await booker.run(question)).output


print("run:", asyncio.run(support("Why 340?", "billing")))
try:
    asyncio.run(support("Why 340?", "Billing."))
except UnexpectedModelBehavior as error:
    print("run: UnexpectedModelBehavior:", error)
