"""Live connections to a scripted model: each message is answered by the next response of the script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

Answering = Callable[[LlmRequest], AsyncGenerator[LlmResponse, None]]
"""What a model answers to a request, in pieces."""


class ScriptedLine(BaseLlmConnection):
    """A live connection on which a scripted model answers.

    A text, a blob and the results of functions are messages; audio is not cut into turns as a real model
    would. An answer is followed by the end of the turn, unless it calls a function.
    """

    def __init__(self, request: LlmRequest, answering: Answering) -> None:
        self._request = request
        self._answering = answering
        self._contents: list[types.Content] = []
        self._turns: asyncio.Queue[None] = asyncio.Queue()

    async def send_history(self, history: list[types.Content]) -> None:
        """What was said before; it is answered if the last of it comes from a user."""
        self._contents += history
        if history and history[-1].role == "user":
            self._turns.put_nowait(None)

    async def send_content(self, content: types.Content) -> None:
        """A message, or what functions returned."""
        self._contents.append(content)
        self._turns.put_nowait(None)

    async def send_realtime(self, blob: Any) -> None:
        """A blob, which is a message; what is none, such as the begin of speech, is not answered."""
        if isinstance(blob, types.Blob):
            await self.send_content(types.Content(role="user", parts=[types.Part(inline_data=blob)]))

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """The answers, for as long as the connection is open."""
        while True:
            await self._turns.get()
            request = self._request.model_copy(update={"contents": [*self._contents]})
            calls = False
            async with aclosing(self._answering(request)) as responses:
                async for response in responses:
                    content = response.content
                    if content is not None and not response.partial:
                        self._contents.append(content)
                        calls = any(part.function_call for part in content.parts or [])
                    yield response
            if not calls:
                yield LlmResponse(turn_complete=True)

    async def close(self) -> None:
        """Nothing is open."""
