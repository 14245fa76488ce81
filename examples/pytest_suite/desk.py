"""The pipeline that the tests beside it hold: it classifies a message, looks an order up, and answers."""

from adk_fluent import Agent, Route

ORDERS = {"A7": "on its way"}


def order_state(order: str) -> str:
    """Where an order is."""
    return ORDERS[order]


triage = Agent("triage", "gemini-2.5-flash").instruct("Say 'order' or 'other', nothing else.").writes("topic")
clerk = Agent("clerk", "gemini-2.5-flash").instruct("Look the order up, then answer.").tool(order_state)
talker = Agent("talker", "gemini-2.5-flash").instruct("Answer kindly, in one sentence.")

desk = triage >> Route("topic").eq("order", clerk).otherwise(talker)
