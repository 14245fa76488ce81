"""The pipeline of `adk-fluent demo`: an airline's support desk, meant to be read and copied.

The wording suits a model of 135 million parameters: examples instead of rules, and answers that a schema
holds on course. A larger model needs neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field

from adk_fluent import Agent, C, Pipeline, Route
from adk_fluent.state import declares

if TYPE_CHECKING:
    from google.adk.models import BaseLlm

    from adk_fluent.ir.predicates import StateView

T = TypeVar("T", bound=BaseModel)

TRIAGE = """\
Classify the message as booking, billing or technical.
Message: My flight is delayed, I need another one. {"team":"booking"}
Message: I was charged too much. {"team":"billing"}
Message: The app has an error. {"team":"technical"}
Message: The page does not load. {"team":"technical"}
Message: I want to change my flight. {"team":"booking"}
Message: I paid too much money. {"team":"billing"}"""

TONE = """\
Say if the customer is calm or upset.
Message: This is terrible, I lost my money! {"tone":"upset"}
Message: My trip is ruined! {"tone":"upset"}
Message: Thank you for your help. {"tone":"calm"}
Message: What time does it open? {"tone":"calm"}"""

WORDS = "[a-zA-Z ,']{10,70}"


class Ticket(BaseModel):
    """Which team a message is for; the model can answer nothing else."""

    team: Literal["booking", "billing", "technical"]


class Tone(BaseModel):
    """How the customer sounds."""

    tone: Literal["calm", "upset"]


class Sentiment(BaseModel):
    """What the customer feels."""

    sentiment: Literal["positive", "negative", "neutral"]


class Booking(BaseModel):
    """A sentence whose beginning is given; the model writes the rest."""

    reply: Annotated[str, Field(pattern=rf"^We can book you on the next flight{WORDS}\.$", max_length=120)]


class Billing(BaseModel):
    """The same, about money."""

    reply: Annotated[str, Field(pattern=rf"^I am sorry about the charge, we will{WORDS}\.$", max_length=120)]


class Technical(BaseModel):
    """The same, about the app."""

    reply: Annotated[str, Field(pattern=rf"^Please restart the app and{WORDS}\.$", max_length=120)]


class Opening(BaseModel):
    """How the letter begins."""

    reply: Annotated[str, Field(pattern=rf"^Dear customer, we{WORDS}\.$", max_length=120)]


def support(model: str | BaseLlm) -> Pipeline[Any]:
    """Classify → route → specialist → two checks at the same time → reply.

    Each agent sees what the customer wrote, not what the others said; the customer sees the reply alone.
    """

    def clerk(name: str, answer: type[T], instruction: str) -> Agent[T]:
        return Agent(name, model).instruct(instruction).context(C.user_only()).returns(answer)

    triage = clerk("triage", Ticket, TRIAGE).writes("ticket")
    desk = (
        Route("team")
        .eq(
            "booking",
            clerk("booking", Booking, "You help airline customers to book a flight.").writes("draft"),
        )
        .eq(
            "billing",
            clerk("billing", Billing, "You help customers with payments and refunds.").writes("draft"),
        )
        .otherwise(
            clerk("technical", Technical, "You help customers with the app and the website.").writes("draft")
        )
    )
    checks = clerk("tone", Tone, TONE).writes("tone") | clerk(
        "sentiment", Sentiment, "Classify the sentiment of the message."
    ).writes("sentiment")
    reply = clerk("reply", Opening, "You write the last answer to an airline customer.").writes("opening")
    return triage >> open_ticket >> desk >> checks >> reply >> write_letter


@declares(reads=["ticket"], writes=["team"])
def open_ticket(state: StateView) -> dict[str, str]:
    """A plain function is a step too: it reads state, and what it returns is written."""
    return {"team": state["ticket"]["team"]}


@declares(reads=["opening", "draft", "tone"], writes=["letter"])
def write_letter(state: StateView) -> dict[str, str]:
    """Put the answers together; a small model cannot copy text, and plain code can."""
    thanks = "Thank you for your patience." if state["tone"]["tone"] == "upset" else "Thank you for writing."
    return {"letter": f"{state['opening']['reply']} {state['draft']['reply']} {thanks}"}
