"""What an agent sees of a conversation is chosen: the user alone, some agents, the last turns, no secrets.

python examples/context.py
"""

import asyncio
import os

from adk_fluent import Agent, C
from adk_fluent.backends import ADKBackend
from adk_fluent.testing import mock_backend

writer = Agent("writer", "gemini-2.5-flash").instruct("Draft an answer.").writes("draft")
critic = (
    Agent("critic", "gemini-2.5-flash").instruct("Criticise it in one line.").context(C.from_agents("writer"))
)
lawyer = (
    Agent("lawyer", "gemini-2.5-flash")
    .instruct("Is the draft lawful? {draft}")
    .context(C.user_only() | C.redact(r"\b\d{16}\b", replacement="[CARD]"))
)
editor = (
    Agent("editor", "gemini-2.5-flash")
    .instruct("Write the answer.")
    .context(C.window(2) + C.from_agents("critic", "lawyer"))
)
letters = (writer >> critic >> lawyer >> editor).named("letters")

SCRIPT = {
    "writer": "Dear Ann, we charge your card.",
    "critic": "Too short.",
    "lawyer": "It is.",
    "editor": "Dear Ann, your card was charged once, with 12 EUR.",
}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)
PROMPT = "You took 12 EUR from 4000123412341234. Why?"


async def main() -> None:
    for agent, anatomy in letters.llm_anatomy().items():
        print(f"{agent} may see {sorted(anatomy.sees)}")
    (request,) = (await letters.preview(PROMPT, responses=SCRIPT))["lawyer"]
    print("the lawyer is sent:", [part.text for content in request.contents for part in content.parts or ()])
    print("answer:", (await letters.run(PROMPT, backend=BACKEND)).text)


if __name__ == "__main__":
    asyncio.run(main())
