"""Types of `StateSchema`; pyright checks this file in strict mode, and it runs once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, assert_type

from adk_fluent import Agent, StateSchema
from adk_fluent.state import StateFieldRef, UserScoped

if TYPE_CHECKING:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.tools.tool_context import ToolContext


class BillingState(StateSchema):
    intent: str
    confidence: float
    ticket_id: str | None = None
    tier: Annotated[str, UserScoped]


class PipelineState(BillingState):
    resolution: str = ""


class Ticket(StateSchema):
    tags: list[str]


def test_a_field_that_holds_a_list_is_a_key() -> None:
    """A type checker tells it from a list of keys, which is a mistake."""
    assert_type(Agent("a").reads(Ticket.tags, "x"), Agent[str])
    assert_type(Agent("a").writes(Ticket.tags), Agent[str])
    assert Agent("a").reads(Ticket.tags, "x").node.reads_keys == {"tags", "x"}


def test_a_bound_schema_is_an_instance_with_typed_fields() -> None:
    """`bind` gives the schema itself, so each field has its declared type."""
    state = PipelineState.bind({"intent": "refund", "confidence": 0.5, "user:tier": "gold"})
    assert_type(state, PipelineState)
    assert assert_type(state.intent, str) == "refund"
    assert assert_type(state.confidence, float) == 0.5
    assert assert_type(state.ticket_id, str | None) is None
    assert assert_type(state.tier, str) == "gold"
    assert assert_type(PipelineState.fields()["intent"], StateFieldRef).key == "intent"


def test_fields_are_accepted_where_keys_are_written() -> None:
    """Fields of any type go into `.writes`, which keeps what `ask` returns."""
    agent = Agent("a").writes(BillingState.intent, BillingState.confidence)
    assert_type(agent, Agent[str])
    assert_type(agent.schema(BillingState), Agent[str])
    assert_type(agent.reads(BillingState.tier, BillingState.confidence), Agent[str])
    assert agent.node.writes_keys == {"intent", "confidence"}


def contexts(
    tool: ToolContext, callback: CallbackContext, reading: ReadonlyContext, view: dict[str, Any]
) -> tuple[str, str, str, str]:
    """ADK's contexts and plain dicts are what `bind` takes; only its types matter here."""
    return (
        BillingState.bind(tool).intent,
        BillingState.bind(callback).intent,
        BillingState.bind(reading).intent,
        BillingState.bind(view).intent,
    )
