"""A support desk."""

from typing import Literal

from adk_fluent import Agent, C, Route
from adk_fluent.state import StateSchema


class Desk(StateSchema):
    """What the desk decides about a question."""

    team: Literal["booking", "billing"]
    amount: float


def find_bill(customer: str) -> dict[str, int]:
    """Return the last bill of a customer."""
    return {"bill": 17, "amount": 340}


triage = Agent("triage", "gemini-2.5-flash").writes(Desk.team, Desk.amount)
triage = triage.instruct("Which team, and how much money is it about?")
booker = Agent("booker", "gemini-2.5-flash").instruct("Rebook the flight.")
booker = booker.context(C.user_only())
biller = Agent("biller", "gemini-2.5-flash").instruct("Explain the bill of {amount} EUR.")
biller = biller.tool(find_bill).context(C.user_only())
route = Route(Desk.team).eq("billing", biller).otherwise(booker)

support = (triage >> route).schema(Desk).named("support")
