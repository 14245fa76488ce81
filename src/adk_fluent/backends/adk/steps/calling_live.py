"""The model of a live conversation, whose failures say whose it is: no callback of ADK's is told of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, cast

from google.adk.models import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse

from adk_fluent.backends.adk.steps.failures import ErrorSource, noting


class LiveLlm:
    """A model as an agent calls it in a live conversation; what can be asked of it is asked of the model."""

    def __init__(self, llm: BaseLlm, agent: str) -> None:
        self._llm, self._agent = llm, agent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)

    @property
    def __class__(self) -> type[BaseLlm]:  # pyright: ignore[reportIncompatibleMethodOverride]  # for `isinstance`
        return type(self._llm)

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        """As the model."""
        place = ErrorSource(self._agent, model=llm_request.model or self._llm.model)
        async with AsyncExitStack() as opened:
            with noting(place):
                line = await opened.enter_async_context(self._llm.connect(llm_request))
            yield cast(BaseLlmConnection, _Line(line, place))


class _Line:
    """A live connection; what is sent fails where it is listened to."""

    def __init__(self, line: BaseLlmConnection, place: ErrorSource) -> None:
        self._line, self._place = line, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._line, name)

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """What the model says."""
        with noting(self._place):
            async with aclosing(self._line.receive()) as responses:
                async for response in responses:
                    yield response
