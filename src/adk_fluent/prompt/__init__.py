"""Prompts: the instruction of an agent, composed of named sections.

`P` (in `factories`) makes a `PromptSpec` (in `spec`), a frozen value. The functions in `text` turn it into
text when the agent runs. This package imports `ir` and nothing of ADK. Read `PromptSpec` first, then
`text.resolve`.
"""

from adk_fluent._lazy import listing
from adk_fluent.prompt.factories import P
from adk_fluent.prompt.spec import Arrangement, PromptSpec

__all__ = ["Arrangement", "P", "PromptSpec"]


def __dir__() -> list[str]:
    return listing(__name__)
