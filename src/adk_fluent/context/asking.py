"""What a context spec asks of a helper model: it yields an `Ask` and is sent the answer.

So everything but the model call itself is a pure function. An answer of `None` means that the call failed;
the operation then leaves the selection as it is.
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
    """A question to a helper model.

    Attributes:
        operation: the `C` operation that asks.
        model: a model name or a `BaseLlm`; `None` is the agent's own.
        prompt: what is asked.
        schema: the pydantic model the answer is parsed as, if it is not text.
        texts: texts to embed instead, for an embedding model.
    """

    operation: str
    model: str | BaseLlm | None
    prompt: str = ""
    schema: type[BaseModel] | None = None
    texts: tuple[str, ...] = ()


Answer = Any
"""Text; a list of vectors for texts to embed; `None` when the call failed."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Yielded when an answer cannot be used; what follows is the same as for a failed call."""

    operation: str
    reason: str


Exchange = Ask | Rejected
Result = tuple[Entries, tuple[tuple[str, Any], ...]]
"""The entries that are left, and the state keys to write."""
Asking = Generator[Exchange, Answer, Result]
Shortening = Generator[Exchange, Answer, Entries]
Selecting = Generator[Exchange, Answer, Selection]


# --- what can be foreseen of it -------------------------------------------------------------------


class Volume(NamedTuple):
    """How much of the conversation an operation is given, on average.

    Attributes:
        tokens: of all of it.
        messages: how many.
        earlier: tokens of earlier turns, among these.
        turns: earlier turns.
        question: tokens of the message that the user has just sent, which is not among these.
    """

    tokens: float
    messages: float = 0.0
    earlier: float = 0.0
    turns: float = 0.0
    question: float = 0.0


class Question(NamedTuple):
    """A question to a helper model that is expected.

    Attributes:
        of: what asks, such as `C.summarize`.
        model: which model; `None` is the agent's own.
        tokens: of the request.
        answer: tokens of what it answers; `None` for an embedding model, which answers nothing.
    """

    of: str
    model: Any
    tokens: float
    answer: float | None


Expected = tuple[tuple[Question, ...], Volume]
"""What is asked, and what is left to be shown."""
