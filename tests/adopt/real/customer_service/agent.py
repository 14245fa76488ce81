"""A garden shop's desk: eight tools, three specialists, callbacks."""

from __future__ import annotations

import time

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.tools import FunctionTool
from google.genai import types

from . import tools

MODEL = "gemini-2.5-flash"
INSTRUCTION = """You are the desk of a garden shop.

The customer: {customer?}. The cart: {cart?}.
Be kind, and hand over what is not yours.
"""


def start_clock(callback_context: CallbackContext) -> None:
    """Remember when the talk began."""
    callback_context.state["began"] = time.time()


def limit_rate(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    """Count the calls."""
    callback_context.state["calls"] = callback_context.state.get("calls", 0) + 1


orders = LlmAgent(
    name="orders",
    model=MODEL,
    description="Knows where an order is, and pays back.",
    instruction="Answer about orders of {customer?}. Refund so far: {refund?}.",
    tools=[tools.look_up_order, FunctionTool(tools.refund, require_confirmation=True)],
    disallow_transfer_to_peers=True,
)
sales = LlmAgent(
    name="sales",
    model=MODEL,
    description="Sells plants.",
    instruction="Sell. The cart: {cart?}.",
    tools=[tools.add_to_cart, tools.empty_cart, tools.check_stock, tools.recommend],
    generate_content_config=types.GenerateContentConfig(temperature=0.7),
)
visits = LlmAgent(
    name="visits",
    model=MODEL,
    description="Sends a gardener.",
    instruction="Book a visit.",
    tools=[tools.book_visit],
    disallow_transfer_to_parent=True,
    disallow_transfer_to_peers=True,
    include_contents="none",
)
root_agent = LlmAgent(
    name="desk",
    model=MODEL,
    global_instruction="The shop is open till six.",
    instruction=INSTRUCTION,
    tools=[tools.look_up_customer],
    sub_agents=[orders, sales, visits],
    before_agent_callback=start_clock,
    before_model_callback=[limit_rate],
    output_key="last_answer",
)
