"""What was recorded on several releases of ADK, in `recorded-RELEASE.json`."""

from __future__ import annotations

from adk_fluent import Agent, FanOut, Route, S
from adk_fluent.testing import call_tool
from tests.debug.pipelines import look_up

MODEL = "gemini-2.5-flash"
"""Named, since ADK's own default is another one in each release."""

SEND = Agent("send", MODEL).instruct("Send {text}, marked {mark}.")
PIPELINE = (
    Agent("draft", MODEL).instruct("Write about {topic}.").tool(look_up).writes("text")
    >> FanOut(Agent("check", MODEL).writes("kind"), Agent("rate", MODEL).writes("mark"))
    >> S.counter("round")
    >> Route("kind").eq("fine", SEND).otherwise(Agent("mend", MODEL))
)
SCRIPT = {
    "draft": [call_tool("look_up", order="7"), "Tea is hot.", "Tea is cold."],
    "check": ["fine", "poor"],
    "rate": ["9", "3"],
    "send": "Sent.",
    "mend": "Mended.",
}
"""What its models answered, in two turns."""
