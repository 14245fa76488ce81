"""A support desk written in plain ADK: checked, mixed with adk-fluent, run alike, and moved.

Without a key the answers are scripted; with one the mixed pipeline asks Gemini.
"""

import asyncio
import os

from google.adk.agents import LlmAgent
from google.adk.tools import ToolContext

from adk_fluent import Agent, Route
from adk_fluent.adopt import adopt, to_source
from adk_fluent.backends import ADKBackend
from adk_fluent.testing import call_tool, mock_backend

MODEL = "gemini-2.5-flash"


def open_ticket(title: str, tool_context: ToolContext) -> str:
    """Open a ticket."""
    tool_context.state["ticket"] = title
    return "opened"


# What the project had before: agents of ADK's own classes, and a misspelt key.
triage = LlmAgent(name="triage", model=MODEL, instruction="billing or technical?", output_key="team")
billing = LlmAgent(name="billing", model=MODEL, instruction="Explain the bill. The team: {taem}.")
technical = LlmAgent(name="technical", model=MODEL, instruction="Help.", tools=[open_ticket])
desk = LlmAgent(name="desk", model=MODEL, instruction="Hand over.", sub_agents=[billing, technical])


async def main() -> None:
    """Check it as it is; mix it; run it; write it as source."""
    for finding in adopt(desk).check().errors:
        print("found:", finding.message)

    billing.instruction = "Explain the bill. The team: {team}."
    mixed = (
        triage
        >> Route("team").eq("billing", billing).otherwise(technical)
        >> Agent("mail", MODEL).instruct("Write to the customer. Ticket: {ticket?}")
    )
    print("errors in the mixed pipeline:", len(mixed.check().errors))
    script = mock_backend(
        {
            "triage": "technical",
            "technical": [call_tool("open_ticket", title="No sound"), "Try another cable."],
            "mail": "We are on it.",
        }
    )
    backend = ADKBackend() if os.environ.get("GOOGLE_API_KEY") else script
    result = await mixed.run("I hear nothing.", backend=backend)
    print("said:", result.text, "| ticket:", result.state.get("ticket"))

    print(next(line for line in to_source(technical).splitlines() if "Agent(" in line))


if __name__ == "__main__":
    asyncio.run(main())
