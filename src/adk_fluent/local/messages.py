"""An ADK request as the plain chat messages a small text model can read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

from google.genai import types

from adk_fluent.errors import LocalModelError

Message: TypeAlias = dict[str, str]

# ADK hands on another agent's words as "For context: ..." and, in ADK 2, between fence lines with a
# warning about instructions inside. The preamble and the fences are left out: a model of this size
# repeats them instead of minding them. The words keep ADK's "[agent] said:".
_PREAMBLE = "For context:"
_FENCE = re.compile(r"<<<(?:BEGIN|END)_[A-Z_]+>>>\n?")

_SPOKEN = frozenset({"text", "function_call", "function_response"})
_SILENT = frozenset({"thought", "thought_signature", "video_metadata", "part_metadata", "media_resolution"})


def chat_messages(
    instruction: object, contents: Iterable[types.Content], note: str | None = None
) -> list[Message]:
    """System, user and assistant messages; neighbours of one role are joined, and a user speaks last.

    Args:
        instruction: ADK's system instruction: a string, or contents and parts of text.
        contents: The conversation. Tool calls and results are rendered as text.
        note: More to tell the model in the system message.

    Raises:
        LocalModelError: a part is neither text nor a tool call or result.
    """
    system = "\n\n".join(text for text in [*_texts(instruction), note] if text)
    spoken = [(_role(content), text) for content in contents for text in _texts(content)]
    messages = [{"role": "system", "content": system}] if system else []
    for role, lines in groupby(spoken, key=lambda line: line[0]):
        messages.append({"role": role, "content": "\n\n".join(text for _, text in lines)})
    if messages[-1:] == [] or messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": "Please answer."})
    return messages


def without_fences(text: str) -> str:
    """`text` without ADK's quoting fences."""
    return _FENCE.sub("", text).strip()


def _role(content: types.Content) -> str:
    return "assistant" if content.role == "model" else "user"


def _texts(source: object) -> Iterator[str]:
    match source:
        case str():
            yield source
        case types.Part():
            yield from _part_text(source)
        case types.Content():
            for part in source.parts or ():
                yield from _part_text(part)
        case list():
            for item in source:  # pyright: ignore[reportUnknownVariableType]  # genai's type names the optional PIL
                yield from _texts(item)  # pyright: ignore[reportUnknownArgumentType]  # genai's type names the optional PIL
        case None:
            return
        case _:
            raise _not_text(type(source).__name__)


def _part_text(part: types.Part) -> Iterator[str]:
    if part.thought:
        return
    for name in part.model_fields_set - _SPOKEN - _SILENT:
        if (value := getattr(part, name)) is not None:
            raise _not_text(getattr(value, "mime_type", None) or name)
    if part.text and not part.text.startswith(_PREAMBLE) and (text := without_fences(part.text)):
        yield text
    if call := part.function_call:
        yield call_text(call.name or "", call.args or {})
    if answer := part.function_response:
        yield f"The tool {answer.name} returned {json.dumps(answer.response, default=str)}"


def call_text(name: str, args: dict[str, object]) -> str:
    """A tool call as the model itself is asked to write it."""
    return json.dumps({"tool": name, "args": args}, default=str)


def _not_text(what: str) -> LocalModelError:
    return LocalModelError(
        f"LocalLlm: this model reads text only, and the request has a part of type {what}; "
        "leave it out of the agent's context or give the agent a multimodal model"
    )
