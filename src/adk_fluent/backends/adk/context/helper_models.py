"""Questions that context specs put to helper models: asked once per content, paid for by the agent."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from google.adk.agents.invocation_context import InvocationContext
from google.adk.models import BaseLlm, LLMRegistry
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent.context.asking import Answer, Ask
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
    """What a question to a helper model cost."""

    operation: str
    model: str
    usage: types.GenerateContentResponseUsageMetadata


class Helpers:
    """The helper models of one agent."""

    def __init__(self, agent: str, choose: Choose) -> None:
        self._agent = agent
        self._choose = choose
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._last = ""

    async def ask(self, ask: Ask, ctx: InvocationContext, used: list[Used]) -> Answer:
        """The answer to a question, `None` when the call fails; what it cost is added to `used`."""
        if hasattr(ask.model, "embed"):
            return await self._guarded(ask, _embedded(ask))
        model = self._choose(ask.operation, ask.model)
        name = model if isinstance(model, str) else model.model
        self._last = key = _digest(name, ask)
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key]
        ctx.increment_llm_call_count()
        if ask.texts and isinstance(model, str):
            answer = await self._guarded(ask, _vectors(model, ask.texts))
        else:
            llm = LLMRegistry.new_llm(model) if isinstance(model, str) else model
            answer = await self._guarded(ask, _asked(llm, ask, used))
        if answer is not None:
            self._answers[key] = answer
            if len(self._answers) > CACHED:
                self._answers.popitem(last=False)
        return answer

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
            told = str(error) if isinstance(error, RunError) else f"{type(error).__name__}: {error}"
            self._warn(ask.operation, told)
            return None

    def _warn(self, operation: str, reason: str) -> None:
        factory = f"P.{operation}" if operation in _OF_PROMPTS else f"C.{operation}"
        left = "prompt stays as it is" if operation in _OF_PROMPTS else "selection stays unprocessed"
        logger.warning(
            "Agent %r: the helper model of %s failed (%s); its %s.", self._agent, factory, reason, left
        )


def _digest(model: str, ask: Ask) -> str:
    asked = json.dumps([model, ask.operation, ask.prompt, ask.texts])
    return hashlib.sha256(asked.encode()).hexdigest()


async def _asked(llm: BaseLlm, ask: Ask, used: list[Used]) -> Answer:
    prompt = json.dumps(ask.texts, ensure_ascii=False) if ask.texts else ask.prompt
    content = types.Content(role="user", parts=[types.Part(text=prompt)])
    request = LlmRequest(model=llm.model, contents=[content], config=types.GenerateContentConfig())
    if ask.schema is not None:
        request.set_output_schema(ask.schema)
    said = ""
    last: LlmResponse | None = None
    async for response in llm.generate_content_async(request, stream=False):
        if response.error_code or response.error_message:
            raise RunError(f"{response.error_code}: {response.error_message}")
        parts = (response.content and response.content.parts) or []
        said += "".join(part.text for part in parts if part.text and not part.thought)
        last = response
    if last is not None and last.usage_metadata is not None:
        name = getattr(last, "model_version", None) or llm.model
        used.append(Used(ask.operation, name, last.usage_metadata))
    if not said.strip():
        raise RunError("the answer is empty")
    return json.loads(said) if ask.texts else said


async def _embedded(ask: Ask) -> Answer:
    model: Any = ask.model
    vectors = model.embed(list(ask.texts))
    return await vectors if inspect.isawaitable(vectors) else vectors


async def _vectors(model: str, texts: tuple[str, ...]) -> Answer:
    from google.genai import Client

    client: Any
    async with Client().aio as client:
        answer = await client.models.embed_content(model=model, contents=list(texts))
    return [embedding.values for embedding in answer.embeddings]
