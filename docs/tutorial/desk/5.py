"""A support desk."""

from typing import Literal

from adk_fluent import Agent, C, Route, gate
from adk_fluent.state import StateSchema


class Desk(StateSchema):
    """What the desk decides about a question."""

    team: Literal["booking", "billing", "refund"]
    amount: float


def find_bill(customer: str) -> dict:
    """The last bill of a customer."""
    return {"bill": 17, "amount": 340}


def is_much(state: dict) -> bool:
    """Whether a person has to be asked."""
    return state["amount"] > 100


triage = Agent("triage", "gemini-2.5-flash").writes(Desk.team, Desk.amount)
triage = triage.instruct("Which team, and how much money is it about?")
booker = Agent("booker", "gemini-2.5-flash").instruct("Rebook the flight.").context(C.user_only())
biller = Agent("biller", "gemini-2.5-flash").instruct("Explain the bill of {amount} EUR.")
biller = biller.tool(find_bill).context(C.user_only())
payer = Agent("payer", "gemini-2.5-flash").instruct("Say that {amount} EUR are paid back.")
refund = gate(is_much, message="Pay back {amount} EUR?") >> payer
route = Route(Desk.team).eq("billing", biller).eq("refund", refund).otherwise(booker)

support = (triage >> route).schema(Desk).named("support")
