"""Model requests as text for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from adk_fluent.inspection.presentation import fields_of, hanging, type_name

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.genai.types import FunctionDeclaration, Part


def request_text(request: LlmRequest) -> str:
    """A request as it would be sent: instruction, messages by role, tools, and the form of the answer."""
    config: Any = request.config
    lines = [hanging("  system: ", str(config.system_instruction or "(none)").strip())]
    for content in request.contents:
        words = "\n".join(map(_part, content.parts or ()))
        lines.append(hanging(f"  {content.role}: ", words))
    lines.append(f"  tools: {', '.join(_tools(request)) or 'none'}")
    lines.append(f"  answer: {answer_form(request)}")
    return "\n".join(lines)


def answer_form(request: LlmRequest) -> str:
    """What form the answer must have."""
    config: Any = request.config
    schema = config.response_schema or getattr(config, "response_json_schema", None)
    return f"JSON, {type_name(schema)}{fields_of(schema)}" if schema else "text"


def _part(part: Part) -> str:
    if part.text is not None:
        return part.text
    if call := part.function_call:
        arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in (call.args or {}).items())
        return f"<calls {call.name}({arguments})>"
    if response := part.function_response:
        return f"<result of {response.name}: {json.dumps(response.response, default=repr)}>"
    if blob := part.inline_data:
        return f"<{blob.mime_type}, {len(blob.data or b'')} bytes>"
    if file := part.file_data:
        return f"<{file.mime_type}, {file.file_uri}>"
    return f"<{', '.join(part.model_dump(exclude_none=True))}>"


def tool_names(request: LlmRequest) -> Iterator[str]:
    """The names of the tools that a request offers."""
    return (each if isinstance(each, str) else each.name or "" for each in _offered(request))


def _tools(request: LlmRequest) -> Iterator[str]:
    return (each if isinstance(each, str) else _signature(each) for each in _offered(request))


def _offered(request: LlmRequest) -> Iterator[FunctionDeclaration | str]:
    tools = cast("list[Any]", getattr(request.config, "tools", None) or [])
    for tool in tools:
        declarations = cast("list[FunctionDeclaration]", getattr(tool, "function_declarations", None) or [])
        yield from declarations
        if not declarations:  # one that the model's provider runs, such as a search
            yield from tool.model_dump(exclude_none=True) if hasattr(tool, "model_dump") else [str(tool)]


def _signature(declaration: FunctionDeclaration) -> str:
    given = cast("Mapping[str, Any] | None", getattr(declaration, "parameters_json_schema", None))
    if given is None and declaration.parameters is not None:
        given = declaration.parameters.model_dump(mode="json", exclude_none=True)
    properties = cast("Mapping[str, Mapping[str, Any]]", (given or {}).get("properties") or {})
    arguments = (f"{name}: {str(of.get('type', 'any')).lower()}" for name, of in properties.items())
    return f"{declaration.name}({', '.join(arguments)})"
