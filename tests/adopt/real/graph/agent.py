"""A graph of ADK 2: two drafts at once, a join, a loop that a function ends."""

from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.workflow import START, JoinNode, Workflow

MODEL = "gemini-2.5-flash"


def prepare(node_input: Any) -> Any:
    """Take the request as it is."""
    return node_input


def enough(ctx: Any, verdict: str) -> None:
    """Go on, or back to the editor."""
    ctx.route = "again" if "again" in verdict else "done"


serious = LlmAgent(name="serious", model=MODEL, instruction="A serious draft.", output_key="one")
funny = LlmAgent(name="funny", model=MODEL, instruction="A funny draft.", output_key="two")
editor = LlmAgent(name="editor", model=MODEL, instruction="Join {one} and {two}.", output_key="text")
judge = LlmAgent(name="judge", model=MODEL, instruction="Judge {text}.", output_key="verdict")
publisher = LlmAgent(name="publisher", model=MODEL, instruction="Publish {text}.")
root_agent = Workflow(
    name="magazine",
    edges=[
        (START, prepare, (serious, funny), JoinNode(name="both"), editor, judge, enough),
        (enough, {"again": editor, "done": publisher}),
    ],
)
