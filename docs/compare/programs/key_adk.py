"""A misspelt key, in plain ADK."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.workflow import START, Workflow
from scripted import Scripted, run

research = LlmAgent(
    name="research",
    model=Scripted(answers=["Tea is old."]),
    instruction="Find facts.",
    output_key="facts",
)
writer = LlmAgent(
    name="writer",
    model=Scripted(answers=["..."]),
    instruction="Write with {fact}.",
)
pipeline = Workflow(name="pipeline", edges=[(START, research, writer)])
try:
    asyncio.run(run(pipeline, "Tea"))
except KeyError as error:
    print("run: KeyError:", error)
