"""The class of a corpus case, and the models and functions that the cases share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

from google.adk.utils.instructions_utils import inject_session_state
from pydantic import BaseModel

from adk_fluent.config import ExecutionConfig
from adk_fluent.expr.base import Expr
from adk_fluent.ir import declares
from adk_fluent.state import StateSchema, Temp, UserScoped

REFUSED = frozenset(
    {
        "context-conflict",
        "duplicate-name",
        "empty-composite",
        "endless-transfer",
        "invalid-name",
        "invalid-option",
        "missing-resource",
        "nested-too-deep",
        "shared-cache",
        "streaming-source-missing",
        "unknown-agent",
        "unknown-price",
        "unknown-tool",
        "unsupported",
    }
)
"""The kinds of errors for which building refuses."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pipeline and what it is checked with."""

    name: str
    expression: Expr[Any]
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    schema: type | None = None
    config: ExecutionConfig | None = None


@dataclass(frozen=True, kw_only=True)
class Correct(Case):
    """A pipeline without a fault, and the codes of all that is noted about it."""

    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fault(Case):
    """A pipeline with one fault, and how the finding must name it."""

    code: str
    agent: str
    key: str | None = None
    severity: Literal["error", "warn", "info"] = "error"


class Intent(BaseModel):
    category: str
    confidence: float = 0.0


class Query(BaseModel):
    query: str


class Answer(BaseModel):
    answer: str
    score: float


class Score(BaseModel):
    score: int


class Ticket(BaseModel):
    team: str


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Refund(BaseModel):
    order_id: str
    amount: float


class Billing(StateSchema):
    intent: str
    confidence: float
    ticket_id: str | None = None
    tier: Annotated[str, UserScoped]
    scratch: Annotated[str, Temp]


class Shop(StateSchema):
    confidence: str
    items: list[str]


class Desk(StateSchema):
    intent: Literal["refund", "other"]
    mood: Mood
    urgent: bool
    tags: list[str] | None
    attempts: int = 0


State = Mapping[str, Any]


@declares(writes=["pieces"])
async def count_pieces(pieces: AsyncIterator[str]) -> dict[str, int]:
    """Counts the pieces of an answer."""
    return {"pieces": len([piece async for piece in pieces])}


@declares(reads=["approved"])
def approved(state: State) -> bool:
    return bool(state.get("approved"))


@declares(reads=["score"])
def good_enough(state: State) -> bool:
    return float(state.get("score", 0)) > 0.8


@declares(reads=["intent"])
def is_urgent(state: State) -> bool:
    return state.get("intent") == "urgent"


@declares(reads=["amount"])
def is_large(state: State) -> bool:
    return float(state.get("amount", 0)) > 100


@declares(reads=["draft"], writes=["words"])
def count_words(state: State) -> dict[str, Any]:
    return {"words": len(str(state["draft"]).split())}


@declares(writes=["tickets"])
def load_tickets(state: State) -> dict[str, Any]:
    return {"tickets": ["a", "b"]}


def note_topic(callback_context: Any) -> None:
    callback_context.state["topic"] = "tea"


def fill_in_topic(callback_context: Any) -> None:
    if "topic" not in callback_context.state:
        callback_context.state["topic"] = "tea"


def note_topic_at_times(callback_context: Any) -> None:
    if callback_context.user_id:
        callback_context.state["topic"] = "tea"


@declares(reads=["draft"])
def show_draft(state: State) -> None:
    print(state["draft"])


@declares(writes=["ticket_id"])
def create_ticket(title: str) -> str:
    """Create a ticket."""
    return f"T-{title}"


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"Sunny in {city}"


class Index:
    """Something no model can give."""


def look_up(word: str, index: Index) -> str:
    """Look up the meaning of a word."""
    return f"{word} {index}"


@declares()
def take_index(state: Mapping[str, Any], index: Index) -> None:
    """A function that takes more than the state."""


def get_news(topic: str) -> str:
    """The news about a topic."""
    return f"Nothing new about {topic}"


@declares(writes=["profile"])
def load_profile(callback_context: Any) -> None:
    callback_context.state["profile"] = "known"


@declares(reads=["_item"])
def read_item(tool_context: Any) -> str:
    """The item at hand."""
    return str(tool_context.state["_item"])


@declares(reads=["intent"])
def by_intent(context: Any) -> str:
    return f"Help with {context.state['intent']}"


def measure(callback_context: Any) -> None:
    callback_context.state["size"] = len(callback_context.state["draft"])


def load_or_none(callback_context: Any) -> None:
    try:
        callback_context.state["topic"] = int(callback_context.user_id)
    except ValueError:
        callback_context.state["topic"] = None


def load_or_leave(callback_context: Any) -> None:
    with suppress(ValueError):
        callback_context.state["topic"] = int(callback_context.user_id)


def note_all(callback_context: Any) -> None:
    found: dict[str, object] = {"topic": "tea"}
    if callback_context.user_id:
        found["user"] = callback_context.user_id
    callback_context.state.update(found)


def note_both(callback_context: Any) -> None:
    for key in ("topic", "tone"):
        keep(callback_context, key)


def keep(ctx: Any, key: str = "note") -> None:
    ctx.state[key] = "tea"


class Keeper:
    """A callback whose class names its key."""

    KEY = "topic"

    def __call__(self, callback_context: Any) -> None:
        self._save(callback_context)

    def _save(self, ctx: Any) -> None:
        ctx.state[self.KEY] = "tea"


def forget_draft(callback_context: Any) -> None:
    callback_context.session.state.pop("draft", None)


async def by_template(ctx: Any) -> str:
    return await inject_session_state("Improve {draft} for {user:tier?}.", ctx)
