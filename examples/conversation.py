"""A conversation in turns that remembers the user over sessions, and takes back what was said by mistake.

python examples/conversation.py
"""

import asyncio
import os

from adk_fluent import Agent, S
from adk_fluent.backends import ADKBackend
from adk_fluent.testing import mock_backend

waiter = Agent("waiter", "gemini-2.5-flash").instruct(
    "Take orders. This guest's message number: {user:messages}."
)
table = (S.counter("user:messages") >> waiter).named("table")

SCRIPT = {"waiter": ["A green tea, gladly.", "And cake for two.", "Only one cake, then.", "Welcome back!"]}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)


async def main() -> None:
    async with table.session(user_id="ann", session_id="noon", keep=True, backend=BACKEND) as chat:
        print((await chat.send("A green tea, please.")).text)
        mistake = await chat.send("And two cakes.")
        print(mistake.text)
    await table.rewind(
        session_id="noon", user_id="ann", before_invocation_id=mistake.invocation_id, backend=BACKEND
    )
    async with table.session(user_id="ann", session_id="noon", keep=True, backend=BACKEND) as chat:
        print((await chat.send("And one cake.")).text)
    result = await table.run("Hello again!", user_id="ann", backend=BACKEND)
    print(result.text, "messages:", result.state["user:messages"])


if __name__ == "__main__":
    asyncio.run(main())
