"""Each chapter of a text is summed up at the same time, and the parts become one page, in their order.

python examples/map_over.py
"""

import asyncio
import os
from typing import Any

from google.adk.models.llm_request import LlmRequest

from adk_fluent import Agent, S, map_over
from adk_fluent.backends import ADKBackend
from adk_fluent.contracts import check_all
from adk_fluent.testing import mock_backend

BOOK = "Ann sails to Java.\n\nShe learns how tea is dried.\n\nShe comes home and opens a shop."

summary = Agent("summary", "gemini-2.5-flash-lite").instruct("Sum up in three words: {chapter}")
page = Agent("page", "gemini-2.5-flash").instruct("Write a blurb of one sentence from: {parts}")
pipeline = (
    S.transform("book", lambda text: text.split("\n\n"))
    >> map_over("book", summary, item_key="chapter", output_key="parts")
    >> page
)


def scripted(request: LlmRequest) -> str:
    config: Any = request.config
    said = config.system_instruction.partition("three words: ")[2].splitlines()[0]
    return " ".join(said.split()[:3])


SCRIPT = {"summary": scripted, "page": "A woman crosses the sea for tea, and brings it home."}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)


async def main() -> None:
    print("problems:", len(check_all(pipeline, state={"book": BOOK}).errors))
    result = await pipeline.run("A blurb, please.", state={"book": BOOK}, backend=BACKEND)
    for part in result.state["parts"]:
        print("-", part)
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
