"""A prompt is put together from named sections, some only for some users, and each version has a fingerprint.

python examples/prompts.py
"""

import asyncio
import os
from typing import Any

from adk_fluent import Agent, P
from adk_fluent.backends import ADKBackend
from adk_fluent.testing import mock_backend

base = (
    P.role("You sell tea.")
    + P.task("Recommend one tea, in one sentence.")
    + P.constraint("Name its price.", "Never mention coffee.")
    + P.example(input="Something light?", output="A white tea, at 8 EUR.")
)
prompt = base + P.when("user:club", P.context("This customer is in the club: ten percent off."))
shop = Agent("shop", "gemini-2.5-flash").instruct(prompt)

SCRIPT = {"shop": "Take the Darjeeling, at 9 EUR."}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)


async def main() -> None:
    print(base | P.without("example"))
    other = base + P.constraint("Rhyme.")
    first, second = P.versioned(base, tag="v1"), P.versioned(other, tag="v2")
    print("versions differ:", first.fingerprint != second.fingerprint)
    for state in ({}, {"user:club": True}):
        (request,) = (await shop.preview("Something strong?", state=state, responses=SCRIPT))["shop"]
        config: Any = request.config
        print(f"{state}: the club is told:", "ten percent" in config.system_instruction)
    print(await shop.ask_async("Something strong?", backend=BACKEND))


if __name__ == "__main__":
    asyncio.run(main())
