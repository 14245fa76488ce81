"""What the agents of a garden shop can do."""

from __future__ import annotations

from google.adk.tools import ToolContext

CART = "cart"


def look_up_customer(customer_id: str, tool_context: ToolContext) -> dict[str, str]:
    """Look up a customer."""
    tool_context.state["customer"] = {"id": customer_id, "name": "Ada"}
    return {"id": customer_id, "name": "Ada"}


def look_up_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return {"id": order_id, "status": "on its way"}


def add_to_cart(item: str, tool_context: ToolContext) -> str:
    """Put something into the cart."""
    cart = [*tool_context.state.get(CART, []), item]
    tool_context.state[CART] = cart
    return f"{len(cart)} items"


def empty_cart(tool_context: ToolContext) -> str:
    """Empty the cart."""
    tool_context.state[CART] = []
    return "empty"


def check_stock(item: str) -> int:
    """How many there are of an item."""
    return len(item)


def recommend(plant: str) -> list[str]:
    """What goes well with a plant."""
    return [f"soil for {plant}", "a pot"]


def refund(order_id: str, amount: float, tool_context: ToolContext) -> str:
    """Pay back."""
    tool_context.state["refund"] = {"order": order_id, "amount": amount}
    return "paid"


def book_visit(day: str) -> str:
    """Book a visit of a gardener."""
    return f"booked for {day}"
