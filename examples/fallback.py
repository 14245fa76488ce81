"""The next agent answers when one fails or is slow, and of two that are asked at once the quicker one wins.

python examples/fallback.py
"""

import asyncio
import os
from collections.abc import AsyncIterator

from google.adk.models.llm_request import LlmRequest

from adk_fluent import Agent, race
from adk_fluent.backends import ADKBackend
from adk_fluent.testing import mock_backend

careful = Agent("careful", "gemini-2.5-pro").instruct("Translate to German; the translation alone.")
quick = Agent("quick", "gemini-2.5-flash").instruct("Translate to German; the translation alone.")
small = Agent("small", "gemini-2.5-flash-lite").instruct("Translate to German; the translation alone.")

translator = careful.timeout(20) // race(quick, small)


async def never(request: LlmRequest) -> AsyncIterator[str]:
    await asyncio.Event().wait()
    yield ""


SCRIPT = {
    "careful": [ConnectionError("no line"), "Der Tee ist heiß."],
    "quick": never,
    "small": "Der Tee ist warm.",
}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)


async def main() -> None:
    for _ in range(2):
        result = await translator.run("The tea is hot.", backend=BACKEND)
        print(f"{result.text} (from {result.visible[-1].author})")


if __name__ == "__main__":
    asyncio.run(main())
