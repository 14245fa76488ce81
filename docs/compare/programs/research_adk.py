"""Research in two places at once, then merge, in plain ADK."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.workflow import START, JoinNode, Workflow
from scripted import Scripted, run

web = LlmAgent(
    name="web",
    model=Scripted(answers=["Tea is old."], silent=True),
    instruction="Search the web.",
)
docs = LlmAgent(
    name="docs",
    model=Scripted(answers=["Tea is hot."], silent=True),
    instruction="Search the docs.",
)
writer = LlmAgent(
    name="writer",
    model=Scripted(answers=["Old and hot."], silent=True),
    instruction="Merge.",
)

pipeline = Workflow(
    name="pipeline",
    edges=[(START, (web, docs), JoinNode(name="both"), writer)],
)
print("run:", asyncio.run(run(pipeline, "Tea"))[0])
