"""Requests of a context spec to a helper model: the spec yields an `Ask` and receives the answer.

So everything except the call of the model is a pure function. The answer `None` means that the call failed;
then the operation leaves the selection as it is.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from adk_fluent.context.entries import Entries, Selection

if TYPE_CHECKING:
    from google.adk.models import BaseLlm
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a helper model.

    Attributes:
        operation: the name of the `C` operation that asks.
        model: a model name or a `BaseLlm`; `None` is the agent's own model.
        prompt: the text of the request.
        schema: the pydantic model for the answer; `None` for an answer in text.
        texts: for an embedding model, the texts to embed; there is no prompt then.
    """

    operation: str
    model: str | BaseLlm | None
    prompt: str = ""
    schema: type[BaseModel] | None = None
    texts: tuple[str, ...] = ()


Answer = Any
"""A text; for an embedding model a list of vectors; `None` if the call failed."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The spec yields this if it cannot use an answer; then it continues as after a failed call."""

    operation: str
    reason: str


Exchange = Ask | Rejected
Result = tuple[Entries, tuple[tuple[str, Any], ...]]
"""The remaining entries, and the state keys to write with their values."""
Asking = Generator[Exchange, Answer, Result]
Shortening = Generator[Exchange, Answer, Entries]
Selecting = Generator[Exchange, Answer, Selection]


# --- estimates before a run -----------------------------------------------------------------------


class Volume(NamedTuple):
    """The average size of the conversation that an operation receives.

    Attributes:
        tokens: all its tokens.
        messages: the number of its messages.
        earlier: its tokens of earlier turns; a part of `tokens`.
        turns: the number of earlier turns.
        question: tokens of the user's current message, which `tokens` does not include.
    """

    tokens: float
    messages: float = 0.0
    earlier: float = 0.0
    turns: float = 0.0
    question: float = 0.0


class ExpectedRequest(NamedTuple):
    """A request to a helper model that a run will probably send.

    Attributes:
        of: the operation that asks, such as `C.summarize`.
        model: the model; `None` is the agent's own model.
        tokens: tokens of the request.
        answer: tokens of the answer; `None` for an embedding model, whose answer has none.
    """

    of: str
    model: Any
    tokens: float
    answer: float | None


Expected = tuple[tuple[ExpectedRequest, ...], Volume]
"""The expected requests, and the size of the remaining conversation."""
