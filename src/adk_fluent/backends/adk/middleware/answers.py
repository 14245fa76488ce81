"""What hooks may return, as ADK takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from google.adk.models.llm_response import LlmResponse
from google.genai import types

_OF_THE_CALL = ("partial", "turn_complete", "usage_metadata", "model_version", "custom_metadata")
"""What belongs to a model's answer, whatever it says."""


def content_of(answer: object, role: str, hook: str) -> types.Content:
    """Text or a `Content`, as a `Content`.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(answer, str):
        return types.Content(role=role, parts=[types.Part(text=answer)])
    if isinstance(answer, types.Content):
        return answer
    raise TypeError(f"it returned {answer!r:.60}, and {hook} returns text, a Content or None")


def response_of(hook: str, before: LlmResponse | None, answer: object) -> LlmResponse:
    """Text, an `LlmResponse`, or the fields of one as JSON holds them, as an `LlmResponse`.

    Args:
        before: what it takes the place of; what belongs to the call is taken over where it says nothing.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(answer, LlmResponse):
        if isinstance(answer, str):
            content = types.Content(role="model", parts=[types.Part(text=answer)])
            return (before or LlmResponse()).model_copy(update={"content": content})
        if isinstance(answer, Mapping):
            return LlmResponse.model_validate_json(json.dumps(answer))
        none = "" if hook == "around_model" else " or None"
        raise TypeError(f"it gave {answer!r:.60}, and {hook} gives an LlmResponse, text{none}")
    if before is None or answer is before:
        return answer
    missing: dict[str, Any] = {
        name: value
        for name in _OF_THE_CALL
        if getattr(answer, name, None) is None and (value := getattr(before, name, None)) is not None
    }
    return answer.model_copy(update=missing) if missing else answer
