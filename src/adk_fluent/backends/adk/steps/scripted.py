"""A model that answers from a script, on ADK's real runner."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import isasyncgen
from types import MappingProxyType
from typing import Any, Final, Literal, Never, TypeAlias, TypeGuard, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent.backends.adk.steps.model_request import ModelRequest, copy_of, instruction_of
from adk_fluent.backends.adk.steps.scripted_live import ScriptedLine
from adk_fluent.errors import MockError
from adk_fluent.spelling import did_you_mean

_STATE: Final = "adk_fluent.mock_state"
"""Metadata of a scripted dict: what it writes into state."""

SAME_CALLS: Final = 10
"""How often in a row a script may repeat one tool call; ADK would go on to its limit of model calls."""

CALLS: Final = 100
"""How often in a row a function may answer with a tool call."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function call that a scripted model makes; the tool really runs."""

    name: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])


Parts: TypeAlias = Sequence[str | ToolCall]
"""Texts and function calls that a model gives at once, in one answer."""

Single: TypeAlias = (
    str
    | Mapping[str, Any]
    | BaseException
    | type[BaseException]
    | ToolCall
    | types.Content
    | LlmResponse
    | AsyncIterable[str | LlmResponse]
    | Callable[[LlmRequest], Any]
)
"""One response of a script."""

Response: TypeAlias = Single | Sequence[Single | Parts]
"""An agent's script: one response for every call, or one per call, which may have several parts."""


def check_script(agent: str, response: object) -> None:
    """Refuse what can never be a response of an agent.

    Raises:
        MockError: it, or a member of it, is none of the things that `Response` names.
    """
    for one in cast("Sequence[object]", response) if isinstance(response, list | tuple) else (response,):
        if not (isinstance(one, _SINGLE) or callable(one) or _is_parts(one)):
            _refuse(agent, one)


def _is_parts(response: object) -> TypeGuard[Parts]:
    if not isinstance(response, list | tuple):
        return False
    parts = cast("Sequence[object]", response)
    return bool(parts) and all(isinstance(part, str | ToolCall) for part in parts)


_SINGLE: Final = (str, Mapping, BaseException, ToolCall, types.Content, LlmResponse, AsyncIterable)


def _refuse(agent: str, response: object) -> Never:
    said = "None" if response is None else f"{response!r:.60}"
    raise MockError(
        f"The script of {agent!r} holds {said}, which is no response. "
        'Write text ("" for an empty answer), a dict, a list with one response per call, call_tool(...), an '
        "exception, a Content, a stream of text or a function of the request; in a list, a list of texts and "
        "call_tool(...) is one answer. An agent that is not asked needs no entry."
    )


@dataclass(frozen=True, slots=True)
class Script:
    """The responses of one agent.

    Attributes:
        agent: the agent, as the test names it.
        calls: the requests that its model got.
    """

    agent: str
    response: Response
    exhaust: Literal["repeat", "error"]
    calls: list[ModelRequest]

    def next(self, request: LlmRequest) -> tuple[Single | Parts, int | None]:
        """Note the request; the response to it, and how often in a row it may be a tool call."""
        self.calls.append(copy_of(request))
        number = len(self.calls)
        response: Any = self.response
        patience: int | None = SAME_CALLS
        if isinstance(response, list | tuple):
            responses = cast("Sequence[Single]", response)
            if number > len(responses) and (self.exhaust == "error" or not responses):
                raise MockError(
                    f"Agent {self.agent!r} called its model {number} times, but its script has "
                    f"{len(responses)} response(s)."
                )
            patience = SAME_CALLS if number > len(responses) else None
            response = responses[min(number, len(responses)) - 1]
        while callable(response) and not isinstance(response, type):
            patience, response = CALLS, response(request)
        if isinstance(response, BaseException) or (
            isinstance(response, type) and issubclass(response, BaseException)
        ):
            raise response
        return cast("Single | Parts", response), patience


class ScriptedLlm(BaseLlm):
    """The model of one agent: each call takes the next response of its script."""

    _script: Script = PrivateAttr()
    _keys: Mapping[str, str] | None = PrivateAttr(default=None)

    @classmethod
    def of(
        cls,
        script: Script,
        *,
        merge_state: bool,
        name: str = "",
        keys: Mapping[str, str] = MappingProxyType({}),
    ) -> ScriptedLlm:
        """The model that plays `script`; a dict of it is merged into state too if `merge_state`.

        Args:
            name: the name of the model that it stands for: ADK and its tools build requests by that.
            keys: the state keys that names in a dict stand for, where they are not keys themselves.
        """
        model = cls(model=name or f"mock-{script.agent}")
        model._script, model._keys = script, keys if merge_state else None
        return model

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer as the script says, in pieces when `stream` is asked for."""
        response, patience = self._script.next(llm_request)
        if isasyncgen(response) and response.ag_frame is None:
            raise MockError(
                f"The stream of agent {self._script.agent!r} was read already; give a function instead."
            )
        if isinstance(response, AsyncIterable):
            async with _closing(cast("AsyncIterable[str | LlmResponse]", response)) as source:
                async for answer in _streamed(source, llm_request):
                    if stream or not answer.partial:
                        yield answer
            return
        parts: Parts = response if _is_parts(response) else ()
        if isinstance(response, str | ToolCall):
            parts = (response,)
        for said in parts if stream else ():
            for piece in _pieces(said) if isinstance(said, str) else ():
                yield _text(piece, partial=True)
        answer = self._whole(response)
        for call in parts:
            if isinstance(call, ToolCall):
                self._require_tool(call.name, llm_request)
        if patience is not None:
            self._require_end(answer, llm_request, patience)
        yield _counted(answer, llm_request)

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        """A live connection, on which each message is answered as the script says."""
        yield ScriptedLine(llm_request, partial(self.generate_content_async, stream=True))

    def _require_tool(self, name: str, request: LlmRequest) -> None:
        """Refuse to call a tool that the agent does not have, which a real model could not."""
        if name not in request.tools_dict:
            near = did_you_mean(name, request.tools_dict)
            has = ", ".join(map(repr, request.tools_dict)) or "none"
            raise MockError(
                f"The script of agent {self._script.agent!r} calls tool {name!r}, which the agent does not "
                f"have.{near or f' Its tools: {has}.'}"
            )

    def _require_end(self, answer: LlmResponse, request: LlmRequest, patience: int) -> None:
        """Refuse to call tools for ever, which a real model would not.

        Args:
            patience: how many calls in a row may go before this one: the same ones where the script repeats
                itself, any where a function decides.
        """
        calls = _calls(answer.content)
        if not calls:
            return
        before = _calls_before(request, calls[-1] if patience == SAME_CALLS else None)
        if before >= patience:
            name = calls[-1][0]
            raise MockError(
                f"The script of agent {self._script.agent!r} never answers: it called {name!r} {before} "
                f"times in a row. End it with an answer, as in [call_tool({name!r}), 'done']."
            )

    def _whole(self, response: object) -> LlmResponse:
        if isinstance(response, LlmResponse):
            return response
        if isinstance(response, types.Content):
            return LlmResponse(content=response)
        if isinstance(response, ToolCall):
            return _said([response])
        if _is_parts(response):
            return _said(response)
        if isinstance(response, Mapping):
            values = dict(cast("Mapping[str, Any]", response))
            answer = _text(json.dumps(values, ensure_ascii=False))
            if (keys := self._keys) is not None:
                written = {keys.get(name, name): value for name, value in values.items()}
                answer.custom_metadata = {_STATE: written}
            return answer
        if isinstance(response, str):
            return _text(response)
        _refuse(self._script.agent, response)


async def _streamed(
    source: AsyncIterable[str | LlmResponse], request: LlmRequest
) -> AsyncGenerator[LlmResponse, None]:
    """The pieces of a stream, and the whole of its texts; responses in it are given as they are."""
    pieces: list[str] = []
    given = False
    async for piece in source:
        if isinstance(piece, LlmResponse):
            given = True
            yield piece
        else:
            pieces.append(piece)
            yield _text(piece, partial=True)
    if pieces or not given:
        yield _counted(_text("".join(pieces)), request)


@asynccontextmanager
async def _closing(
    source: AsyncIterable[str | LlmResponse],
) -> AsyncGenerator[AsyncIterable[str | LlmResponse]]:
    """`source`, closed afterwards if it is a generator, so that what it waits for is given up at once."""
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await cast("AsyncGenerator[str | LlmResponse, None]", source).aclose()


def _said(parts: Parts) -> LlmResponse:
    """One answer of texts and function calls."""
    made = [
        types.Part(text=part)
        if isinstance(part, str)
        else types.Part(function_call=types.FunctionCall(name=part.name, args=part.args))
        for part in parts
    ]
    return LlmResponse(content=types.Content(role="model", parts=made))


def _text(text: str, *, partial: bool | None = None) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=partial)


def _counted(response: LlmResponse, request: LlmRequest) -> LlmResponse:
    """The response with a usage, estimated at four characters a token, unless it brings one."""
    if response.usage_metadata is None:
        asked = sum(len(part.text or "") for content in request.contents for part in content.parts or [])
        asked += len(str(instruction_of(request.config) or ""))
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


def _calls(content: types.Content | None) -> list[tuple[str, dict[str, Any]]]:
    """The function calls in a message: names and arguments."""
    found = [part.function_call for part in (content and content.parts) or []]
    return [(call.name or "", call.args or {}) for call in found if call]


def _calls_before(request: LlmRequest, same: tuple[str, dict[str, Any]] | None) -> int:
    """How many function calls stand at the end of the conversation, their results aside.

    Args:
        same: only calls like this one count, and another one ends the row.
    """
    count = 0
    for content in reversed(request.contents):
        calls = _calls(content)
        if not calls and not any(part.function_response for part in content.parts or []):
            return count
        for call in reversed(calls):
            if same is not None and call != same:
                return count
            count += 1
    return count


async def storing(run: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The events of an agent, with what scripted dicts write, also where ADK stores the answer as text."""
    async with aclosing(run) as events:
        async for event in events:
            if written := take_state(event):
                event.actions.state_delta.update(written)
            yield event


def take_state(said: Event | LlmResponse) -> dict[str, Any]:
    """What a scripted dict writes into state, taken out of the answer's metadata."""
    metadata = said.custom_metadata
    if not metadata or _STATE not in metadata:
        return {}
    values = cast("dict[str, Any]", metadata.pop(_STATE))
    said.custom_metadata = metadata or None
    return values


def merge_state(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
    """Write what a scripted dict says into state, for agents of ADK's own; ours do it themselves."""
    for key, value in take_state(llm_response).items():
        callback_context.state[key] = value
