"""Two branches write one key, in plain ADK."""

import asyncio
import warnings

from google.adk.agents import LlmAgent, ParallelAgent
from scripted import Scripted, run

warnings.simplefilter(
    "ignore",
    DeprecationWarning,
)  # ADK 2.x says so of its own ParallelAgent

web = LlmAgent(
    name="web",
    model=Scripted(answers=["old"]),
    instruction="Search the web.",
    output_key="found",
)
docs = LlmAgent(
    name="docs",
    model=Scripted(answers=["hot"]),
    instruction="Search the docs.",
    output_key="found",
)
both = ParallelAgent(name="both", sub_agents=[web, docs])
print("run:", asyncio.run(run(both, "Tea"))[1])
