"""An agent with tools that are tried again, given up and remembered, one of them a whole pipeline."""

from __future__ import annotations

import asyncio
import os

from adk_fluent import Agent, T
from adk_fluent.backends import ADKBackend
from adk_fluent.testing import call_tool, mock_backend


def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


research = (Agent("digger").writes("found") >> Agent("teller").instruct("Tell {found}.")).named("research")
guide = Agent("guide").tools(T.cache(T.retry(T.timeout(weather, 5))) | T.agent(research))

SCRIPT = {
    "guide": [
        call_tool("weather", city="Ulm"),
        call_tool("research", request="Museums?"),
        "Go to a museum.",
    ],
    "digger": "three museums",
    "teller": "There are three museums.",
}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)

if __name__ == "__main__":
    result = asyncio.run(guide.run("What can I do in Ulm?", backend=BACKEND))
    print(result.text, sorted(result.state))
