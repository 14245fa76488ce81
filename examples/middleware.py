"""Middleware of your own: count what agents spend, ask again what failed, keep a name from the model.

python examples/middleware.py
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend
from adk_fluent.middleware import CallModel, Context, Middleware
from adk_fluent.testing import mock_backend

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse


class Spent(Middleware):
    """Counts the calls of each run, and tells at its end."""

    def __init__(self) -> None:
        self.calls = self.per_run(Counter[str])

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        self.calls(ctx)[ctx.agent_name] += 1

    async def after_run(self, ctx: Context) -> None:
        print("spent:", dict(self.calls(ctx)))


class Again(Middleware):
    """Asks a model that cannot be reached once more."""

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        try:
            async for response in call(request):
                yield response
        except ConnectionError as error:
            print(f"{ctx.agent_name}: {error}, asking again")
            async for response in call(request):
                yield response


class NoNames(Middleware):
    """Keeps a name from the model."""

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        for content in request.contents:
            for part in content.parts or []:
                part.text = part.text and part.text.replace("Ann", "the customer")


writer = Agent("writer", "gemini-2.5-flash").middleware(NoNames())
editor = Agent("editor", "gemini-2.5-flash").middleware(Again())
pipeline = (writer >> editor).middleware(Spent())


async def main() -> None:
    """Run it with scripted models, the editor's out of order, or with Gemini."""
    scripted = mock_backend(
        {
            "writer": lambda request: f"Asked: {(request.contents[0].parts or [])[0].text}",
            "editor": [ConnectionError("no connection"), "A letter."],
        }
    )
    backend = ADKBackend() if "GOOGLE_API_KEY" in os.environ else scripted
    print(await pipeline.ask_async("Write to Ann.", backend=backend))
    if backend is scripted:
        print((scripted.calls["writer"][0].contents[0].parts or [])[0].text)


if __name__ == "__main__":
    asyncio.run(main())
