"""Models that are asked as steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from enum import Enum
from typing import Any, cast

from google.adk.models import BaseLlm, LLMRegistry
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from pydantic import BaseModel, PrivateAttr, TypeAdapter

from adk_fluent.backends.adk.durable.around import Surroundings, calls_of, count
from adk_fluent.backends.adk.durable.steps import Json, Step, Table, Tell, current
from adk_fluent.backends.adk.middleware.parting import around_of
from adk_fluent.backends.adk.steps.selecting import is_scripted
from adk_fluent.backends.adk.steps.tree import default_model


class DurableLlm(BaseLlm):
    """The model of an agent; each call is a step, for which the worker has the real one and its settings."""

    _step: tuple[str, str] = PrivateAttr()
    _asker: Asker = PrivateAttr()
    _scripted: bool = PrivateAttr(default=False)
    _beside: Json = PrivateAttr(default=None)

    @classmethod
    def of(
        cls,
        table: Table,
        key: str,
        agent: str,
        model: str | BaseLlm | None,
        around: Surroundings,
        beside: Json = None,
    ) -> DurableLlm:
        """The model in place of `model`, which the table gets.

        Args:
            around: knows what stands around it there.
            beside: of a model that is not known when the tree is compiled, what a worker finds it by.
        """
        asker = Asker(model or default_model(), around)
        made = cls(model=asker.name)
        made._step, made._asker, made._scripted = (key, agent), asker, is_scripted(model)
        made._beside = beside
        table.add("model", key, asker)
        return made

    @property
    def is_scripted(self) -> bool:
        """Whether the real model is a script."""
        return self._scripted

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """What the real model answers."""
        engine, around = current(), around_of(llm_request)
        if engine is None:  # this is where models are asked
            async for response in self._asker.ask(llm_request, stream=stream):
                yield response
            return
        key, agent = self._step
        data = {"request": dumped_request(llm_request), "tools": [*llm_request.tools_dict], "stream": stream}
        if around is not None:
            data["around"] = self._asker.around.dumped(around)
        if self._beside is not None:
            data["beside"] = self._beside
        step, done = Step("model", key, agent, data), dict[str, Json]()
        try:
            if stream:
                async for piece in engine.stream(step):
                    if "responses" in piece:
                        done = piece
                    else:
                        yield LlmResponse.model_validate(piece)
            else:
                done = await engine.do(step)
        except Exception as error:
            if around is not None:
                count(around, calls_of(error))
            raise
        if around is not None:
            count(around, done["more"])
        for response in done["responses"]:
            yield LlmResponse.model_validate(response)


class Asker:
    """Asks a real model, which is made when it is first asked.

    Args:
        model: the model, or its name.
        around: what knows what stands around it.
    """

    def __init__(self, model: str | BaseLlm, around: Surroundings) -> None:
        self._model = model
        self.around: Surroundings = around
        self.name: str = model if isinstance(model, str) else model.model

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """The whole responses, and how many calls were made beyond one; partial ones are told before."""
        request, stream = LlmRequest.model_validate(data["request"]), bool(data["stream"])
        request.tools_dict = {name: NamedTool(name=name, description="") for name in data["tools"]}
        whole, more = list[Json](), 0
        responses = (
            self.around.ask(data["around"], self.llm, request, stream=stream)
            if "around" in data
            else self.ask(request, stream=stream)
        )
        async with aclosing(responses):
            async for response in responses:
                if isinstance(response, int):
                    more = response
                    continue
                said = response.model_dump(mode="json", exclude_none=True)
                if response.partial:
                    await tell(said)
                else:
                    whole.append(said)
        return {"responses": whole, "more": more}

    def ask(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """What the model answers."""
        return self.llm.generate_content_async(request, stream=stream)

    @property
    def llm(self) -> BaseLlm:
        """The real model."""
        if isinstance(self._model, str):
            self._model = LLMRegistry.new_llm(self._model)
        return self._model


class NamedTool(BaseTool):
    """A tool of which a model knows no more than its name: what it takes stands in the request."""


def dumped_request(request: LlmRequest) -> Json:
    """A request as JSON; a type that the answer is to have, as its JSON schema."""
    schema: object = request.config.response_schema
    if schema is not None and not isinstance(schema, dict | types.Schema):
        config = request.config.model_copy(update={"response_schema": _schema(schema)})
        request = request.model_copy(update={"config": config})
    return request.model_dump(mode="json", exclude_none=True, exclude={"live_connect_config"})


def _schema(kind: Any) -> Json:
    """The JSON schema of a type, as google-genai makes it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_json_schema()
    schema = TypeAdapter[Any](cast(Any, kind)).json_schema()
    if isinstance(kind, type) and issubclass(kind, Enum):
        schema |= {"type": "string", "enum": [str(member.value) for member in kind]}
    return schema


def models_in(value: object) -> Iterator[BaseLlm]:
    """The models that are held by values of ours: contexts, prompts, middleware; in a steady order."""
    seen, pending = set[int](), [value]
    while pending:
        part = pending.pop()
        if isinstance(part, BaseLlm):
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            pending += reversed(_held(part))


def _held(part: object) -> list[object]:
    if isinstance(part, tuple | list):
        return list(cast("list[object]", part))
    cls = type(part)
    if isinstance(part, Mapping) or cls.__module__.startswith("builtins"):
        return []
    slots = [
        name for base in cls.__mro__ for name in base.__dict__.get("__slots__", ()) if isinstance(name, str)
    ]
    names = dict.fromkeys((*slots, *getattr(part, "__dict__", {})))
    return [getattr(part, name, None) for name in names if not name.startswith("__")]
