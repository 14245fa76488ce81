"""What ADK's versions differ in when an agent must answer with a type, and what none of them does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import cache, lru_cache
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.tool_context import ToolContext
from pydantic import BaseModel, RootModel, ValidationError, create_model
from pydantic_core import to_jsonable_python

from adk_fluent.errors import AnswerError
from adk_fluent.state.faults import fault, shown


def answerable(schema: Any, *, tools: bool) -> Any:
    """The type of an answer as the installed ADK takes it.

    The oldest takes models only, so another type becomes a model that is nothing but a value of it. Where an
    agent with tools gives its answer by a tool, too, older ones cannot describe that tool for `Model | None`;
    there its model is asked for a `Model`, and may still say `null`.

    Args:
        tools: whether the agent has tools.
    """
    if _is_model(schema) or not (isinstance(schema, type) or get_origin(schema)):
        return schema
    if not tools:
        return _model_of(schema) if _takes_models_only() else schema
    present = [member for member in get_args(schema) if member is not type(None)]
    is_optional = get_origin(schema) in (Union, UnionType) and len(present) == 1
    return present[0] if is_optional and not _is_callable(schema) else schema


@cache
def _takes_models_only() -> bool:
    return LlmAgent.model_fields["output_schema"].annotation == type[BaseModel] | None


def _is_model(schema: object) -> bool:
    return isinstance(schema, type) and issubclass(schema, BaseModel)


@lru_cache(maxsize=1024)
def _is_callable(schema: Any) -> bool:
    """Whether ADK can describe the tool that takes such an answer."""
    try:
        LlmRequest().append_tools([SetModelResponseTool(schema)])
    except (ValueError, TypeError, AttributeError):  # it raises whatever comes of a type it does not know
        return False
    return True


@lru_cache(maxsize=1024)
def _model_of(schema: Any) -> type[BaseModel]:
    """A model that is nothing but a value of another type."""
    return create_model("Answer", __base__=cast("type[BaseModel]", RootModel[schema]))


class JsonAnswers:
    """Makes the tool by which an agent with tools gives its answer speak JSON.

    ADK lets a model call it that cannot be asked for a schema and offered tools at once, and then writes what
    it was called with as JSON, which it cannot do with the dates and numbers that it made of it.
    """

    name = "adk_fluent_json_answers"

    async def run_async(
        self, invocation_context: InvocationContext, llm_request: LlmRequest
    ) -> AsyncGenerator[Event, None]:
        """Change the tool, if the request has it."""
        tool = llm_request.tools_dict.get("set_model_response")
        if isinstance(tool, SetModelResponseTool):
            cast(Any, tool).run_async = _in_json(tool, cast(Any, invocation_context.agent).name)
        return
        yield  # an async generator needs one


def _in_json(tool: SetModelResponseTool, agent: str) -> Any:
    given = tool.run_async

    async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
        try:
            answer = to_jsonable_python(await given(args=args, tool_context=tool_context))
        except ValidationError as error:  # newer ADKs tell the model, and ask again
            expected = shown(cast(object, tool.output_schema))
            raise AnswerError(
                f"{agent!r} answered {args!r:.80}, which is not a {expected}: {fault(error, args)}."
            ) from error
        if getattr(tool_context.actions, "set_model_response", None) is not None:
            cast(Any, tool_context.actions).set_model_response = answer
        return answer

    return run_async
