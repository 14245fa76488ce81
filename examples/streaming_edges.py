"""A translator that works while the writer still writes; a fan-out that continues with its quickest branch.

python examples/streaming_edges.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from google.adk.models.llm_request import LlmRequest

from adk_fluent import Agent, FanOut
from adk_fluent.testing import mock_backend

writer = (
    Agent("writer").instruct("Write.").writes("text").stream_to("chunked", chunk_size=4, backpressure=True)
)
translator = Agent("translator").instruct("Translate: {text}").writes("translation")
either = FanOut(Agent("careful"), Agent("quick"), name="either", merge="first_complete")
pipeline = either >> writer >> translator


async def main() -> None:
    """Run it on scripted models: each waits for the other, so that neither could come first alone."""
    if "GOOGLE_API_KEY" in os.environ:
        print((await pipeline.run("The weather in spring, in five sentences.")).text)
        return
    translating = asyncio.Event()

    async def write(request: LlmRequest) -> AsyncIterator[str]:
        for word in ("It ", "rained. ", "Then ", "it ", "stopped. "):
            yield word
        await translating.wait()  # until the translator has been asked
        print("writer goes on")
        yield "The sun came out."

    def translate(request: LlmRequest) -> str:
        translating.set()
        config: Any = request.config
        piece = str(config.system_instruction).splitlines()[0].removeprefix("Translate: ").strip()
        print(f"translator gets {piece!r}")
        return piece.upper()

    async def never(request: LlmRequest) -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield ""

    backend = mock_backend({"careful": never, "quick": "Rain.", "writer": write, "translator": translate})
    result = await pipeline.run("The weather, please.", backend=backend)
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
