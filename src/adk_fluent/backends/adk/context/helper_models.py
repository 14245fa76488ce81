"""Questions that context specs put to helper models: asked once per content, paid for by the agent."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event_actions import EventActions
from google.adk.models import BaseLlm, LLMRegistry
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent._tracebacks import in_logs
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.middleware.calls import helper_call
from adk_fluent.backends.adk.middleware.context import HelperContext, HookContext
from adk_fluent.backends.adk.middleware.stack import hook_error
from adk_fluent.context.entries import Answer, Ask
from adk_fluent.cost import prices
from adk_fluent.errors import MockError, RunError
from adk_fluent.ir.nodes import AgentNode

logger: logging.Logger = logging.getLogger("adk_fluent.context")

HelperFor = Callable[[AgentNode, str, str, "str | BaseLlm | None"], "str | BaseLlm | None"]
"""Which model answers a helper's question: `(node, name the user gave, operation, model named in the spec)`.

`None` stands for the agent's own model.
"""

Choose = Callable[[str, "str | BaseLlm | None"], "str | BaseLlm"]
"""The model that answers: `(operation, model named in the spec)`."""

_OF_PROMPTS: Final = ("compress", "adapt")

CACHED: Final = 256
"""How many answers an agent keeps; the least recently used goes first."""


def named_model(
    node: AgentNode, origin: str, operation: str, model: str | BaseLlm | None
) -> str | BaseLlm | None:
    """The model that the spec itself names."""
    return model


@dataclass(frozen=True, slots=True)
class Used:
    """What a question to a helper model cost, and what middleware wrote meanwhile."""

    operation: str
    model: str | None = None
    usage: types.GenerateContentResponseUsageMetadata | None = None
    actions: EventActions = field(default_factory=EventActions)


class Helpers:
    """The helper models of one agent."""

    def __init__(self, agent: str, choose: Choose) -> None:
        self._agent = agent
        self._choose = choose
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._last = ""

    async def ask(self, ask: Ask, ctx: InvocationContext, used: list[Used]) -> Answer:
        """The answer to a question, `None` when the call fails; what it cost is added to `used`."""
        if _is_object(ask):
            return await self._guarded(ask, _asked(_Embedding.by(_own(ask.model), ask.model), ask, ctx, used))
        asked = embedding(ask.model) if ask.texts and isinstance(ask.model, str) else ask.model
        model = self._choose(ask.operation, asked)
        name = model if isinstance(model, str) else model.model
        self._last = key = _digest(name, ask)
        if (known := self._remembered(key, name, ask, ctx)) is not None:
            return known
        ctx.increment_llm_call_count()
        llm = LLMRegistry.new_llm(model) if isinstance(model, str) else model
        answer = await self._guarded(ask, _asked(llm, ask, ctx, used))
        if answer is not None:
            self._answers[key] = answer
            if len(self._answers) > CACHED:
                self._answers.popitem(last=False)
        return answer

    def _remembered(self, key: str, model: str, ask: Ask, ctx: InvocationContext) -> Answer:
        """The answer to a question that was answered before, if any; a replay says what was remembered."""
        known = self._answers.get(key)
        recalls, notes = runs.asked(ctx, "answer_recalled"), runs.asked(ctx, "answer_remembered")
        if known is not None:
            self._answers.move_to_end(key)
        if not recalls and (known is None or not notes):
            return known
        hook, request = HookContext(HelperContext(ctx, ask.operation)), _request(model, ask)
        for recall in recalls:
            if (found := recall(hook, request)) is not None:
                known = _answer(found, ask) if found else None
        if known is not None:
            for tell in notes:
                tell(hook, request, _response(known, ask))
        return known

    def reject(self, operation: str, reason: str) -> None:
        """Warn about the last answer and forget it."""
        self._answers.pop(self._last, None)
        self._warn(operation, reason)

    async def _guarded(self, ask: Ask, call: Any) -> Answer:
        try:
            return await call
        except MockError:  # the test's script is wrong, not the model
            raise
        except Exception as error:  # noqa: BLE001  # a provider may raise anything, and the context can do without
            if (raised := hook_error(error)) is not None:
                raise raised from raised.__cause__
            self._warn(ask.operation, str(error) if isinstance(error, _NoAnswer) else in_logs(error))
            return None

    def _warn(self, operation: str, reason: str) -> None:
        factory = f"P.{operation}" if operation in _OF_PROMPTS else f"C.{operation}"
        left = "prompt stays as it is" if operation in _OF_PROMPTS else "selection stays unprocessed"
        logger.warning(
            "Agent %r: the helper model of %s failed (%s); its %s.", self._agent, factory, reason, left
        )


class _NoAnswer(RunError):
    """A helper model gave no answer; the message says why without what it said."""


def _is_object(ask: Ask) -> bool:
    """Whether it asks an embedding model that is an object of the user's."""
    return hasattr(ask.model, "embed")


def _digest(model: str, ask: Ask) -> str:
    asked = json.dumps([model, ask.operation, ask.prompt, ask.texts])
    return hashlib.sha256(asked.encode()).hexdigest()


async def _asked(llm: BaseLlm, ask: Ask, ctx: InvocationContext, used: list[Used]) -> Answer:
    native = HelperContext(ctx, ask.operation, is_object=_is_object(ask))
    try:
        return await _answered(llm, ask, native, used)
    finally:
        if native.written.state_delta:
            used.append(Used(ask.operation, actions=native.written))


def _request(model: str, ask: Ask) -> LlmRequest:
    prompt = json.dumps(ask.texts, ensure_ascii=False) if ask.texts else ask.prompt
    content = types.Content(role="user", parts=[types.Part(text=prompt)])
    request = LlmRequest(model=model, contents=[content], config=types.GenerateContentConfig())
    if ask.schema is not None:
        request.set_output_schema(ask.schema)
    return request


def _response(answer: Answer, ask: Ask) -> LlmResponse:
    """What a model would say to give an answer, of which nothing is used."""
    part = _vectors(answer) if ask.texts else types.Part(text=answer)
    return LlmResponse(
        content=types.Content(role="model", parts=[part]), custom_metadata={prices.CACHED: True}
    )


def _answer(response: LlmResponse, ask: Ask) -> Answer:
    said = "".join(map(_told, (response.content and response.content.parts) or []))
    return json.loads(said) if ask.texts else said


async def _answered(llm: BaseLlm, ask: Ask, native: HelperContext, used: list[Used]) -> Answer:
    request = _request(llm.model, ask)
    said = ""
    last: LlmResponse | None = None
    async with aclosing(helper_call(llm, request, native)) as responses:
        async for response in responses:
            if response.error_code or response.error_message:
                raise _NoAnswer(f"it gave the error {response.error_code}")
            parts = (response.content and response.content.parts) or []
            said += "".join(map(_told, parts))
            last = response
    is_cached = last is not None and (last.custom_metadata or {}).get(prices.CACHED)
    if last is not None and last.usage_metadata is not None and not is_cached:
        name = getattr(last, "model_version", None) or llm.model
        used.append(Used(ask.operation, name, last.usage_metadata))
    if not said.strip():
        raise _NoAnswer("the answer is empty")
    return json.loads(said) if ask.texts else said


def _told(part: types.Part) -> str:
    """What a part of an answer says: text, or the vectors of an embedding model."""
    if part.inline_data is not None and part.inline_data.data is not None:
        return part.inline_data.data.decode(errors="replace")
    return "" if part.thought else part.text or ""


# --- embeddings -----------------------------------------------------------------------------------


def embedding(name: str) -> BaseLlm:
    """The embedding model of Google's service that has a name, as one that answers."""
    return _Embedding.by(_served, name)


def is_embedding(model: object) -> bool:
    """Whether a model is one of these."""
    return isinstance(model, _Embedding)


Embed = Callable[[str, list[str]], Awaitable[Sequence[Sequence[float]]]]
"""The vectors that a model of this name gives for some texts."""


class _Embedding(BaseLlm):
    """An embedding model as one that answers: a list of texts as JSON, with a file of vectors as JSON.

    So middleware and plugins see what it is sent, as they see all other questions. The vectors are no text,
    of which somebody would count the tokens, or in which they would look for telephone numbers.
    """

    _embed: Embed = PrivateAttr()

    @classmethod
    def by(cls, embed: Embed, model: object) -> _Embedding:
        """An embedding model: its name, or an object of the user's."""
        made = cls(model=model if isinstance(model, str) else type(model).__name__)
        made._embed = embed
        return made

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The vectors for the texts of a request."""
        ((asked,),) = ((content.parts or []) for content in llm_request.contents)
        vectors = await self._embed(self.model, json.loads(asked.text or "[]"))
        yield LlmResponse(content=types.Content(role="model", parts=[_vectors(vectors)]))


def _vectors(vectors: Sequence[Sequence[float]]) -> types.Part:
    found = json.dumps([[float(number) for number in vector] for vector in vectors])
    return types.Part(inline_data=types.Blob(mime_type="application/json", data=found.encode()))


def _own(model: Any) -> Embed:
    """The vectors that an object of the user's gives."""

    async def embed(name: str, texts: list[str]) -> Sequence[Sequence[float]]:
        vectors = model.embed(texts)
        return await vectors if inspect.isawaitable(vectors) else vectors

    return embed


async def _served(model: str, texts: list[str]) -> Sequence[Sequence[float]]:
    """The vectors that Google's service gives."""
    from google.genai import Client

    client: Any
    async with Client().aio as client:
        answer = await client.models.embed_content(model=model, contents=texts)
    return [embedding.values for embedding in answer.embeddings]
