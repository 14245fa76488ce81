"""Route by what a model said, in plain ADK."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.workflow import START, Workflow
from scripted import Scripted, run


def route(node_input: str) -> Event:
    """Take the edge that the label names."""
    return Event(route=node_input, output=node_input)


def desk(label: str) -> Workflow:
    """Build the workflow; triage answers with this label."""
    triage = LlmAgent(
        name="triage",
        model=Scripted(answers=[label]),
        instruction="Which team?",
    )
    biller = LlmAgent(
        name="biller",
        model=Scripted(answers=["For two bags."]),
        instruction="Explain.",
    )
    booker = LlmAgent(
        name="booker",
        model=Scripted(answers=["Rebooked."]),
        instruction="Rebook.",
    )
    return Workflow(
        name="desk",
        edges=[(START, triage, route, {"billing": biller, "booking": booker})],
    )


print("run:", asyncio.run(run(desk("billing"), "Why 340?"))[0])
print("run:", asyncio.run(run(desk("Billing."), "Why 340?"))[0])
