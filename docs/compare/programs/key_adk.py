"""A misspelt key, in plain ADK."""

import asyncio
import warnings

from google.adk.agents import LlmAgent, SequentialAgent
from scripted import Scripted, run

warnings.simplefilter("ignore", DeprecationWarning)  # ADK 2.x says so of its own SequentialAgent

research = LlmAgent(
    name="research",
    model=Scripted(answer="Tea is old."),
    instruction="Find facts.",
    output_key="facts",
)
writer = LlmAgent(name="writer", model=Scripted(answer="..."), instruction="Write with {fact}.")
pipeline = SequentialAgent(name="pipeline", sub_agents=[research, writer])
try:
    asyncio.run(run(pipeline, "Tea"))
except KeyError as error:
    print("run: KeyError:", error)
