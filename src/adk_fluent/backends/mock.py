"""`MockBackend`: ADK's real runner with a scripted model per agent."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent.backends.adk.backend import ADKBackend
from adk_fluent.errors import MockError, did_you_mean
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.nodes import AgentNode

_STATE: Final = "adk_fluent.mock_state"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function call that a scripted model makes; the tool really runs."""

    name: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])


Single: TypeAlias = (
    "str | Mapping[str, Any] | BaseException | type[BaseException] | ToolCall | types.Content | LlmResponse"
    " | AsyncIterable[str] | Callable[[LlmRequest], Any]"
)
Response: TypeAlias = "Single | Sequence[Single]"


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
                raise MockError(f"Agent {self.agent!r} called its model {index + 1} times; its script has {len(responses)}.")
            response = responses[min(index, len(responses) - 1)]
        while callable(response) and not isinstance(response, type):
            response = response(request)
        if isinstance(response, BaseException) or (isinstance(response, type) and issubclass(response, BaseException)):
            raise response
        return cast(Single, response)


class ScriptedLlm(BaseLlm):
    """The model of one agent: each call takes the next response of its script."""

    _script: Script = PrivateAttr()
    _merge_state: bool = PrivateAttr(default=True)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer as the script says, in pieces when `stream` is asked for."""
        response = self._script.next(llm_request)
        usage = _usage(llm_request)
        if isinstance(response, AsyncIterable):
            pieces = list[str]()
            async for piece in cast("AsyncIterable[str]", response):
                pieces.append(piece)
                if stream:
                    yield _text(piece, partial=True)
            yield _text("".join(pieces))
            return
        if stream and isinstance(response, str):
            for piece in _pieces(response):
                yield _text(piece, partial=True)
        yield self._whole(response)

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


def _text(text: str, *, partial: bool | None = None) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=partial)


def _pieces(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]


def _copy(request: LlmRequest) -> LlmRequest:
    """The request as it is now; tools are live objects and stay shared."""
    return request.model_copy(
        update={"contents": copy.deepcopy(request.contents), "config": _copy_config(request.config)}
    )


def _copy_config(config: types.GenerateContentConfig) -> types.GenerateContentConfig:
    return config.model_copy(update={"system_instruction": copy.deepcopy(config.system_instruction)})


class _StatePlugin(BasePlugin):
    """Writes what a scripted dict says into state, as an agent with such an answer would."""

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        values = (llm_response.custom_metadata or {}).get(_STATE)
        for key, value in (values or {}).items():
            callback_context.state[key] = value
        return None


class MockBackend(ADKBackend):
    """ADK's real runner, with a scripted model in place of each agent's own.

    Args:
        responses: agent name → response. A response is text; a dict (JSON text, and merged into state when the
            agent has no `returns`); a list of responses, one per call; an exception to raise; `call_tool(...)`; a
            `Content` or `LlmResponse`; an async iterable of text, streamed; or a function of the `LlmRequest`
            that gives any of these.
        default: the response of agents without an entry; without it such an agent raises `MockError`.
        exhaust: what follows the last of a list: `repeat` it, or raise an `error`.
        services: session, artifact, memory and credential service, as for `ADKBackend`.

    Attributes:
        calls: agent name → the requests its model got, in order: exactly what a real model would have seen.
    """

    def __init__(
        self,
        responses: Mapping[str, Response] | None = None,
        *,
        default: Response | None = None,
        exhaust: Literal["repeat", "error"] = "repeat",
        **services: Any,
    ) -> None:
        super().__init__(**services)
        self._responses = dict(responses or {})
        self._default = default
        self._exhaust: Literal["repeat", "error"] = exhaust
        self.calls: dict[str, list[LlmRequest]] = {}

    def model_for(self, node: AgentNode, origin: str) -> BaseLlm:
        """A scripted model for the agent; uses of one agent in several places share its script."""
        key = node.name if node.name in self._responses else origin
        response = self._responses.get(key, self._default)
        if response is None:
            response = self._unknown(origin)
        model = ScriptedLlm(model=f"mock-{origin}")
        model._script = Script(origin, response, self._exhaust, self.calls.setdefault(key, []))
        model._merge_state = node.output_schema in (UNSET, None)
        return model

    def plugins(self) -> list[BasePlugin]:
        """The plugins of ADK's app: the one that writes scripted dicts into state."""
        return [*super().plugins(), _StatePlugin(name="adk_fluent_mock")]

    def _unknown(self, agent: str) -> Callable[[LlmRequest], Single]:
        def refuse(request: LlmRequest) -> Single:
            raise MockError(
                f"No scripted response for agent {agent!r}.{did_you_mean(agent, self._responses)} "
                f"Add {agent!r} to mock_backend({{...}}), or give default=."
            )

        return refuse


def mock_backend(
    responses: Mapping[str, Response] | None = None,
    *,
    default: Response | None = None,
    exhaust: Literal["repeat", "error"] = "repeat",
    **services: Any,
) -> MockBackend:
    """A `MockBackend`: run a pipeline with scripted models.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> pipeline = Agent("classifier").writes("intent") >> Agent("helper").instruct("Intent: {intent}")
        >>> backend = mock_backend({"classifier": "billing", "helper": "Let us look at your bill."})
        >>> asyncio.run(pipeline.run("My bill is wrong", backend=backend)).text
        'Let us look at your bill.'
    """
    return MockBackend(responses, default=default, exhaust=exhaust, **services)


def call_tool(name: str, **args: Any) -> ToolCall:
    """A scripted function call; see `mock_backend`."""
    return ToolCall(name, args)
