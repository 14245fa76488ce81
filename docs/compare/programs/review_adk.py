"""Draft until a reviewer is satisfied, in plain ADK."""

import asyncio

from google.adk.agents import Context, LlmAgent
from google.adk.events import Event
from google.adk.workflow import START, Workflow
from scripted import Scripted, run

writer = LlmAgent(
    name="writer",
    model=Scripted(answers=["Tea.", "Tea is old."]),
    instruction="Write.",
    output_key="draft",
)
reviewer = LlmAgent(
    name="reviewer",
    model=Scripted(answers=["too short", "good"]),
    instruction="Answer good, or what to mend.",
)


def decide(node_input: str) -> Event:
    """Go back to the writer until the verdict is good."""
    return Event(route="done" if node_input == "good" else "again", output=node_input)


def give(ctx: Context) -> str:
    """Give the user the draft, not the verdict."""
    return str(ctx.state["draft"])


pipeline = Workflow(
    name="pipeline",
    edges=[(START, writer, reviewer, decide, {"again": writer, "done": give})],
)
print("run:", asyncio.run(run(pipeline, "Tea"))[0])
