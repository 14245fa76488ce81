"""A misspelt key, in pydantic-ai."""

import asyncio
from dataclasses import dataclass

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel


@dataclass
class Deps:
    """What the agents share."""

    facts: str = ""


research = Agent(TestModel(custom_output_text="Tea is old."), instructions="Find facts.")
writer = Agent(TestModel(custom_output_text="..."), deps_type=Deps)


@writer.instructions
def instructions(ctx: RunContext[Deps]) -> str:
    """The instructions of the writer."""
    return f"Write with {ctx.deps.fact}."


async def pipeline(topic: str) -> str:
    """Find facts, then write."""
    deps = Deps()
    deps.facts = (await research.run(topic)).output
    print("[asked for 'Tea is old.']")
    return (await writer.run(topic, deps=deps)).output


try:
    asyncio.run(pipeline("Tea"))
except AttributeError as error:
    print("run: AttributeError:", error)
