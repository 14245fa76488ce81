"""What an answer must look like: free text, JSON under a schema, or a choice of tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from google.genai import types

from adk_fluent.errors import LocalModelError
from adk_fluent.local.messages import without_fences
from adk_fluent.local.schema import JsonSchema, json_schema

# How ADK asks an agent with tools for its structured answer; it cannot use any other answer.
_ANSWER_TOOL = "set_model_response"


@dataclass(frozen=True, slots=True)
class ReplyFormat:
    """The form of one answer.

    Attributes:
        schema: The JSON schema to generate under, `None` for free text.
        tools: The tools the answer may call; with any, `schema` is a choice between them.
        answer: The schema of the answer itself where tools are offered too, `None` for text.
    """

    schema: JsonSchema | None = None
    tools: tuple[types.FunctionDeclaration, ...] = ()
    answer: JsonSchema | None = None

    @property
    def note(self) -> str | None:
        """What the model is told about its tools."""
        if not self.tools:
            return None
        lines = [f"- {_summary(tool)}" for tool in self.tools]
        shapes = '{"tool": name, "args": {...}} to use a tool, or {"answer": text} to answer'
        return "\n".join(["You can use these tools:", *lines, f"Write {shapes}."])

    def part(self, text: str) -> types.Part:
        """The generated text as a text part or a function call.

        Raises:
            LocalModelError: it is not the JSON it must be.
        """
        if self.schema is None:
            return types.Part(text=text)
        value = _parse(text)
        if not self.tools:
            return types.Part(text=text)
        if "tool" in value:
            return types.Part(function_call=types.FunctionCall(name=value["tool"], args=value["args"]))
        answer = value["answer"]
        return types.Part(text=answer if self.answer is None else json.dumps(answer))


def reply_for(config: types.GenerateContentConfig, contents: Sequence[types.Content]) -> ReplyFormat:
    """The form the request asks for.

    Raises:
        LocalModelError: a tool that is not a function, such as a search built into a hosted model.
    """
    answer = _answer_schema(config)
    tools = _offered(config, contents)
    if not tools:
        return ReplyFormat(schema=answer)
    branches = [_call_schema(tool) for tool in tools]
    only_calls = _mode(config) is types.FunctionCallingConfigMode.ANY
    if not only_calls and all(tool.name != _ANSWER_TOOL for tool in tools):
        branches.append(_record(answer=answer or json_schema(str)))
    return ReplyFormat(schema={"anyOf": branches}, tools=tools, answer=answer)


def _answer_schema(config: types.GenerateContentConfig) -> JsonSchema | None:
    if config.response_schema is not None:
        return json_schema(config.response_schema)
    if config.response_json_schema is not None:
        return json_schema(cast(object, config.response_json_schema))
    if config.response_mime_type == "application/json":
        return json_schema(dict)
    return None


def _mode(config: types.GenerateContentConfig) -> types.FunctionCallingConfigMode | None:
    calling = config.tool_config and config.tool_config.function_calling_config
    return calling.mode if calling else None


def _offered(
    config: types.GenerateContentConfig, contents: Sequence[types.Content]
) -> tuple[types.FunctionDeclaration, ...]:
    """The tools that may be called now.

    Each is offered once between two messages of the user: a model of this size would call it for ever.
    """
    if _mode(config) is types.FunctionCallingConfigMode.NONE:
        return ()
    calling = config.tool_config and config.tool_config.function_calling_config
    allowed = calling.allowed_function_names if calling else None
    used = _used_since_last_text(contents)
    return tuple(
        tool
        for tool in _declarations(config)
        if tool.name not in used and (not allowed or tool.name in allowed)
    )


def _declarations(config: types.GenerateContentConfig) -> Iterable[types.FunctionDeclaration]:
    for tool in cast(list[object], config.tools or []):
        declared = tool.function_declarations if isinstance(tool, types.Tool) else None
        if not declared:
            raise LocalModelError(
                "LocalLlm: this model can only call function tools, and the request has a built-in one; "
                "remove it or give the agent a hosted model"
            )
        yield from declared


def _used_since_last_text(contents: Sequence[types.Content]) -> set[str | None]:
    used: set[str | None] = set()
    for content in reversed(contents):
        parts = content.parts or []
        if content.role != "model" and any(part.text for part in parts):
            break
        used |= {part.function_response.name for part in parts if part.function_response}
    return used


def _arguments(tool: types.FunctionDeclaration) -> JsonSchema:
    declared = cast(object, tool.parameters_json_schema) or tool.parameters
    return json_schema(declared) if declared else _record()


def _call_schema(tool: types.FunctionDeclaration) -> JsonSchema:
    return _record(tool={"const": tool.name}, args=_arguments(tool))


def _record(**properties: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _summary(tool: types.FunctionDeclaration) -> str:
    arguments = ", ".join(_arguments(tool).get("properties", ()))
    first_line = without_fences(tool.description or "").partition("\n")[0]
    return f"{tool.name}({arguments}): {first_line}"


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise LocalModelError(
            "LocalLlm: the engine could not enforce the answer's schema, most likely a pattern with "
            "look-around or bounds that contradict each other; simplify the schema"
        ) from error
