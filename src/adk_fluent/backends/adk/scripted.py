"""A model that answers from a script, on ADK's real runner."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import isasyncgen
from typing import Any, Final, Literal, TypeAlias, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent.errors import MockError

_STATE: Final = "adk_fluent.mock_state"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function call that a scripted model makes; the tool really runs."""

    name: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])


Single: TypeAlias = (
    str
    | Mapping[str, Any]
    | BaseException
    | type[BaseException]
    | ToolCall
    | types.Content
    | LlmResponse
    | AsyncIterable[str]
    | Callable[[LlmRequest], Any]
)
"""One response of a script."""

Response: TypeAlias = Single | Sequence[Single]
"""What an agent's script may be: one response for every call, or one per call."""


@dataclass
class Script:
    """The responses of one agent, and the requests its model got."""

    agent: str
    response: Response
    exhaust: Literal["repeat", "error"]
    calls: list[LlmRequest]

    def next(self, request: LlmRequest) -> Single:
        """Note the request and give the response to it."""
        self.calls.append(_copy(request))
        response: Any = self.response
        if isinstance(response, list | tuple):
            responses = cast("Sequence[Single]", response)
            index = len(self.calls) - 1
            if index >= len(responses) and (self.exhaust == "error" or not responses):
                raise MockError(
                    f"Agent {self.agent!r} called its model {index + 1} times, but its script has "
                    f"{len(responses)} response(s)."
                )
            response = responses[min(index, len(responses) - 1)]
        while callable(response) and not isinstance(response, type):
            response = response(request)
        if isinstance(response, BaseException) or (
            isinstance(response, type) and issubclass(response, BaseException)
        ):
            raise response
        return cast(Single, response)


class ScriptedLlm(BaseLlm):
    """The model of one agent: each call takes the next response of its script."""

    _script: Script = PrivateAttr()
    _merge_state: bool = PrivateAttr(default=True)

    @classmethod
    def of(cls, script: Script, *, merge_state: bool) -> ScriptedLlm:
        """The model that plays `script`; a dict of it is merged into state too if `merge_state`."""
        model = cls(model=f"mock-{script.agent}")
        model._script, model._merge_state = script, merge_state
        return model

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer as the script says, in pieces when `stream` is asked for."""
        response = self._script.next(llm_request)
        if isasyncgen(response) and response.ag_frame is None:
            raise MockError(
                f"The stream of agent {self._script.agent!r} was read already; give a function instead."
            )
        if isinstance(response, AsyncIterable):
            pieces = list[str]()
            async with _closing(cast("AsyncIterable[str]", response)) as source:
                async for piece in source:
                    pieces.append(piece)
                    if stream:
                        yield _text(piece, partial=True)
            yield _counted(_text("".join(pieces)), llm_request)
            return
        if stream and isinstance(response, str):
            for piece in _pieces(response):
                yield _text(piece, partial=True)
        yield _counted(self._whole(response), llm_request)

    def _whole(self, response: object) -> LlmResponse:
        if isinstance(response, LlmResponse):
            return response
        if isinstance(response, types.Content):
            return LlmResponse(content=response)
        if isinstance(response, ToolCall):
            call = types.FunctionCall(name=response.name, args=response.args)
            return LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))
        if isinstance(response, Mapping):
            values = dict(cast("Mapping[str, Any]", response))
            answer = _text(json.dumps(values))
            answer.custom_metadata = {_STATE: values} if self._merge_state else None
            return answer
        if isinstance(response, str):
            return _text(response)
        raise MockError(f"The script of {self._script.agent!r} holds {response!r:.60}, which is no response.")


@asynccontextmanager
async def _closing(source: AsyncIterable[str]) -> AsyncGenerator[AsyncIterable[str]]:
    """`source`, closed afterwards if it is a generator, so that what it waits for is given up at once."""
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await cast("AsyncGenerator[str, None]", source).aclose()


def _text(text: str, *, partial: bool | None = None) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=partial)


def _counted(response: LlmResponse, request: LlmRequest) -> LlmResponse:
    """The response with a usage, estimated at four characters a token, unless it brings one."""
    if response.usage_metadata is None:
        asked = sum(len(part.text or "") for content in request.contents for part in content.parts or [])
        asked += len(str(_instruction(request.config) or ""))
        said = sum(len(part.text or "") for part in (response.content and response.content.parts) or [])
        response.usage_metadata = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=asked // 4,
            candidates_token_count=said // 4,
            total_token_count=asked // 4 + said // 4,
        )
    return response


def _pieces(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]


def _copy(request: LlmRequest) -> LlmRequest:
    """The request as it is now; tools are live objects and stay shared."""
    return request.model_copy(
        update={"contents": copy.deepcopy(request.contents), "config": _copy_config(request.config)}
    )


def _copy_config(config: types.GenerateContentConfig) -> types.GenerateContentConfig:
    return config.model_copy(update={"system_instruction": copy.deepcopy(_instruction(config))})


def _instruction(config: types.GenerateContentConfig) -> object:
    return getattr(config, "system_instruction")  # noqa: B009  # its type names the optional PIL


def merge_state(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
    """Write what a scripted dict says into state, as an agent with such an answer would.

    A callback of the agent, since older ADKs lose what a plugin's `after_model_callback` writes.
    """
    metadata = llm_response.custom_metadata or {}
    values: dict[str, Any] = metadata.pop(_STATE, {})
    for key, value in values.items():
        callback_context.state[key] = value
    llm_response.custom_metadata = metadata or None
