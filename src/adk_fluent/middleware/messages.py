"""Requests and responses of models, without importing ADK: their texts, and what they used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.context.entries import estimate_tokens

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.genai.types import Part

FILE_TOKENS: Final = 258
"""Tokens that an image counts as: what Gemini counts for a small one; others take more."""


# --- how much -------------------------------------------------------------------------------------


def tokens_in(request: LlmRequest) -> int:
    """Tokens of a request, estimated: a quarter of the characters of all that is sent, 258 for each file."""
    texts = list(_texts(request))
    files = sum(not _text_of(part) for content in request.contents for part in content.parts or ())
    return sum(map(estimate_tokens, texts)) + files * FILE_TOKENS


def tokens_used(response: object) -> int | None:
    """Tokens that a response, or an event, says its call has used so far; `None` if it does not say."""
    usage = getattr(response, "usage_metadata", None)
    if usage is None:
        return None
    total = getattr(usage, "total_token_count", None)
    if total is not None:
        return int(total)
    counts = (
        "prompt_token_count",
        "candidates_token_count",
        "thoughts_token_count",
        "tool_use_prompt_token_count",
    )
    return sum(getattr(usage, name, None) or 0 for name in counts)


def _texts(request: LlmRequest) -> Iterator[str]:
    for content in request.contents:
        for part in content.parts or ():
            yield _text_of(part)
    config: Any = request.config
    yield from _instructions(config.system_instruction)
    for tool in config.tools or ():
        yield tool.model_dump_json(exclude_none=True) if hasattr(tool, "model_dump_json") else str(tool)
    schema: Any = config.response_schema
    if schema is not None:
        made = getattr(schema, "model_json_schema", None) or getattr(schema, "model_dump", None)
        yield json.dumps(made(), default=str) if made else str(schema)


def _text_of(part: Part) -> str:
    """What a part says in text; nothing for an image or file."""
    if part.text is not None:
        return part.text or " "
    if part.function_call is not None:
        return f"{part.function_call.name}{json.dumps(part.function_call.args, default=str)}"
    if part.function_response is not None:
        return f"{part.function_response.name}{json.dumps(part.function_response.response, default=str)}"
    return ""


def _instructions(instruction: Any) -> Iterator[str]:
    """The texts of a system instruction: text, a part, a `Content`, or a list of them."""
    if isinstance(instruction, str):
        yield instruction
    elif isinstance(instruction, list | tuple):
        for each in instruction:  # pyright: ignore[reportUnknownVariableType]  # of many classes
            yield from _instructions(each)
    elif instruction is not None:
        for part in getattr(instruction, "parts", None) or [instruction]:
            yield getattr(part, "text", None) or ""


# --- what was said --------------------------------------------------------------------------------


def text_in(response: LlmResponse) -> str:
    """All text of a response."""
    parts = (response.content and response.content.parts) or ()
    return "".join(part.text or "" for part in parts)


def says_something(response: LlmResponse) -> bool:
    """Whether a response, or a piece of one, has given a user or a tool anything."""
    return bool(response.content and response.content.parts)


def problem_in(response: LlmResponse) -> str | None:
    """The code of an error that a model reports in a response instead of an answer."""
    if says_something(response):
        return None
    code = response.error_code or ("error" if response.error_message else None)
    return None if code is None else str(getattr(code, "value", code))


# --- changing -------------------------------------------------------------------------------------


def with_note(response: LlmResponse, **notes: Any) -> LlmResponse:
    """A response with notes for whoever reads its event: `adk_fluent.…` in `custom_metadata`."""
    named = {f"adk_fluent.{name}": value for name, value in notes.items()}
    return response.model_copy(update={"custom_metadata": {**(response.custom_metadata or {}), **named}})
