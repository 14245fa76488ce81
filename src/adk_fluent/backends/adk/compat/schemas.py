"""What ADK's versions differ in when an agent must answer with a type, and what none of them does."""

from __future__ import annotations

from functools import cache, lru_cache
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from pydantic import BaseModel, RootModel, create_model


def answerable(schema: Any, *, tools: bool) -> Any:
    """The type of an answer as the installed ADK takes it.

    The oldest takes models only, so another type becomes a model that is nothing but a value of it. Where an
    agent with tools gives its answer by a tool, too, older ones cannot describe that tool for `Model | None`;
    there its model is asked for a `Model`, and may still say `null`.

    Args:
        tools: whether the agent has tools.
    """
    if is_model(schema) or not (isinstance(schema, type) or get_origin(schema)):
        return schema
    if not tools:
        return _model_of(schema) if _takes_models_only() else schema
    present = [member for member in get_args(schema) if member is not type(None)]
    is_optional = get_origin(schema) in (Union, UnionType) and len(present) == 1
    return present[0] if is_optional and not _is_callable(schema) else schema


@cache
def _takes_models_only() -> bool:
    return LlmAgent.model_fields["output_schema"].annotation == type[BaseModel] | None


def is_model(schema: object) -> bool:
    """Whether a type is a pydantic model."""
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
