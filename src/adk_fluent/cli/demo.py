"""The pipeline of `adk-fluent demo`: customer support in forty lines, meant to be read and copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from adk_fluent import Agent, Pipeline, Route
from adk_fluent.state import declares

if TYPE_CHECKING:
    from google.adk.models import BaseLlm

    from adk_fluent.ir.matching import StateView


class Ticket(BaseModel):
    """What the first agent makes of a message: it can answer nothing else."""

    intent: Literal["billing", "technical", "general"]
    urgency: Literal["low", "high"]


class Polite(BaseModel):
    """The answer of the first check."""

    polite: Literal["yes", "no"]


class OnTopic(BaseModel):
    """The answer of the second check."""

    on_topic: Literal["yes", "no"]


@declares(reads=["ticket"], writes=["intent", "urgency"])
def open_ticket(state: StateView) -> dict[str, str]:
    """Plain Python is a step too: it reads state, and what it returns is written."""
    return state["ticket"]


def support(model: str | BaseLlm) -> Pipeline[str]:
    """Classify → route → specialist → two checks at the same time → reply."""
    classify = (
        Agent("classify", model)
        .instruct("Sort the customer's message. Billing is about money, technical about errors.")
        .returns(Ticket)
        .writes("ticket")
    )

    def specialist(name: str, duty: str) -> Agent[str]:
        return Agent(name, model).instruct(f"{duty} Write one short sentence.").writes("draft")

    desk = (
        Route("intent")
        .eq("billing", specialist("billing", "You work in billing. Say that you will check the payment."))
        .eq("technical", specialist("technical", "You work in IT. Say what to try first."))
        .otherwise(specialist("general", "You greet customers. Thank them for their message."))
    )
    checks = Agent("tone", model).instruct("Is this polite? {draft}").returns(Polite).writes("tone") | Agent(
        "topic", model
    ).instruct("Does this answer the customer? {draft}").returns(OnTopic).writes("topic")
    reply = Agent("reply", model).instruct("Write to the customer, in two sentences: {draft}")
    return classify >> open_ticket >> desk >> checks >> reply
