"""The request that a scripted model gets, as tests look at it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, cast

from google.adk.models.llm_request import LlmRequest
from google.genai import types

from adk_fluent.backends.requests import tool_names


class ModelRequest(LlmRequest):
    """ADK's `LlmRequest` as a scripted model got it, with what tests ask of it most.

    It equals an `LlmRequest` with the same fields.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> backend = mock_backend({"a": "Hello."})
        >>> text = Agent("a").instruct("Greet {name}.").ask("Hi", state={"name": "Ann"}, backend=backend)
        >>> request = backend.calls["a"][0]
        >>> request.system.splitlines()[0], request.texts, request.tools
        ('Greet Ann.', ['Hi'], [])
    """

    @property
    def system(self) -> str:
        """The system instruction as text; empty if there is none."""
        return _words(instruction_of(self.config))

    @property
    def texts(self) -> list[str]:
        """The texts of the messages, in order; calls and results of tools, images and files are not in it."""
        return _texts(self.contents)

    @property
    def tools(self) -> list[str]:
        """The names of the tools that the model may call, in order."""
        return [*tool_names(self)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LlmRequest):
            return NotImplemented
        hidden: list[object] = [each.__pydantic_private__ for each in (self, other)]
        return self.__dict__ == other.__dict__ and hidden[0] == hidden[1]


def _words(given: Any) -> str:
    """What ADK takes as an instruction, as text: text, a content, a part, or a list of these."""
    if isinstance(given, str):
        return given
    several = given.parts or () if isinstance(given, types.Content) else given
    if isinstance(several, Iterable) and not isinstance(several, types.Part):
        return "\n\n".join(filter(None, map(_words, cast("Iterable[Any]", several))))
    return getattr(given, "text", None) or ""


def _texts(contents: Sequence[types.Content]) -> list[str]:
    return [part.text for content in contents for part in content.parts or () if part.text is not None]


def copy_of(request: LlmRequest) -> ModelRequest:
    """The request as it is now; tools are live objects and stay shared."""
    made = request.model_copy(
        update={"contents": copy.deepcopy(request.contents), "config": _copy_config(request.config)}
    )
    object.__setattr__(made, "__class__", ModelRequest)  # it has no field of its own, and keeps private ones
    return cast(ModelRequest, made)


def _copy_config(config: types.GenerateContentConfig) -> types.GenerateContentConfig:
    return config.model_copy(update={"system_instruction": copy.deepcopy(instruction_of(config))})


def instruction_of(config: types.GenerateContentConfig) -> Any:
    """What the request has as its system instruction."""
    return getattr(config, "system_instruction")  # noqa: B009  # its type names the optional PIL
