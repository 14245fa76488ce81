"""A draft is written again until its reviewer is content; the cheap model is asked before the dear one."""

import asyncio
import os

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend
from adk_fluent.patterns import cascade, review_loop
from adk_fluent.testing import mock_backend

facts = cascade(
    Agent("small", "gemini-2.5-flash-lite").instruct("Say what you know, or: not sure.").writes("facts"),
    Agent("large", "gemini-2.5-pro").instruct("Say what you know.").writes("facts"),
    accept=lambda text: "not sure" not in text.lower(),
)
draft = review_loop(
    worker=Agent("writer", "gemini-2.5-flash").instruct("Write a paragraph from {facts}.").writes("draft"),
    reviewer=Agent("reviewer", "gemini-2.5-flash").instruct("Score the draft from 0 to 1: the number alone."),
    quality_key="score",
    target=0.8,
)
pipeline = facts >> draft


SCRIPT = {
    "small": "Not sure.",
    "large": "The tower is 330 m high.",
    "writer": ["It is high.", "The Eiffel Tower is 330 m high."],
    "reviewer": ["0.4", "0.9"],
}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)


async def main() -> None:
    print(pipeline.check())
    result = await pipeline.run("How high is the Eiffel Tower?", backend=BACKEND)
    print(result.state)
    print({agent: used.calls for (agent, _), used in result.usage.items()})


if __name__ == "__main__":
    asyncio.run(main())
