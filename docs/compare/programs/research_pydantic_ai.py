"""Research in two places at once, then merge, in pydantic-ai."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

web = Agent(TestModel(custom_output_text="Tea is old."), instructions="Search the web.")
docs = Agent(TestModel(custom_output_text="Tea is hot."), instructions="Search the docs.")
writer = Agent(TestModel(custom_output_text="Old and hot."), instructions="Merge.")


async def pipeline(topic: str) -> str:
    """Search both at the same time, then write."""
    old, hot = await asyncio.gather(web.run(topic), docs.run(topic))
    return (await writer.run(f"{old.output} {hot.output}")).output


print("run:", asyncio.run(pipeline("Tea")))
