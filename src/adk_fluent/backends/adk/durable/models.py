"""Models that are asked as steps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from enum import Enum
from typing import Any, cast

from google.adk.models import BaseLlm, LLMRegistry
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from pydantic import BaseModel, PrivateAttr, TypeAdapter

from adk_fluent.backends.adk.durable.steps import Json, Step, Table, Tell, current, do
from adk_fluent.backends.adk.steps.selecting import is_scripted
from adk_fluent.backends.adk.steps.tree import DEFAULT_MODEL


class DurableLlm(BaseLlm):
    """The model of an agent; each call is a step, for which the worker has the real one and its settings."""

    _step: tuple[str, str] = PrivateAttr()
    _table: Table = PrivateAttr()
    _scripted: bool = PrivateAttr(default=False)

    @classmethod
    def of(cls, table: Table, key: str, agent: str, model: str | BaseLlm | None) -> DurableLlm:
        """The model in place of `model`, which the table gets."""
        asker = _Asker(model or DEFAULT_MODEL)
        made = cls(model=asker.name)
        made._step, made._table, made._scripted = (key, agent), table, is_scripted(model)
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
        key, agent = self._step
        data = {"request": dumped_request(llm_request), "tools": [*llm_request.tools_dict], "stream": stream}
        step, engine = Step("model", key, agent, data), current()
        if stream and engine is not None:
            whole: list[Json] = []
            async for piece in engine.stream(step):
                if isinstance(piece, list):
                    whole = cast("list[Json]", piece)
                else:
                    yield LlmResponse.model_validate(piece)
        else:
            whole = await do(self._table, step)
        for response in whole:
            yield LlmResponse.model_validate(response)


class _Asker:
    """Asks a real model, which is made when it is first asked."""

    def __init__(self, model: str | BaseLlm) -> None:
        self._model = model
        self.name: str = model if isinstance(model, str) else model.model

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """The whole responses; partial ones are told before."""
        if isinstance(self._model, str):
            self._model = LLMRegistry.new_llm(self._model)
        request = LlmRequest.model_validate(data["request"])
        request.tools_dict = {name: Named(name=name, description="") for name in data["tools"]}
        whole: list[Json] = []
        async for response in self._model.generate_content_async(request, stream=bool(data["stream"])):
            said = response.model_dump(mode="json", exclude_none=True)
            if response.partial:
                await tell(said)
            else:
                whole.append(said)
        return whole


class Named(BaseTool):
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
