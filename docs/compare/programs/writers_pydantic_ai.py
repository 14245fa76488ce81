"""Two branches write one key, in pydantic-ai."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

web = Agent(TestModel(custom_output_text="old"), instructions="Search the web.")
docs = Agent(TestModel(custom_output_text="hot"), instructions="Search the docs.")
state: dict[str, str] = {}


async def search(agent: Agent[None, str]) -> None:
    """Keep what an agent found."""
    state["found"] = (await agent.run("Tea")).output


async def both() -> None:
    """Both at the same time."""
    await asyncio.gather(search(web), search(docs))


asyncio.run(both())
print("run:", state)
