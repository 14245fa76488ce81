"""A prompt changes; a suite of cases says what got worse."""

import asyncio
import os
from typing import TYPE_CHECKING, Any

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend, MockBackend
from adk_fluent.eval import FluentCase, FluentEvalSuite, FluentJudge, PrebuiltMetrics
from adk_fluent.testing import call_tool, mock_backend

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest


def open_ticket(title: str) -> str:
    """Open a ticket."""
    return f"T-9: {title}"


def polite(response: str, reference: str | None, tools: list[str]) -> float:
    return 1.0 if "please" in response.lower() else 0.5


classifier = Agent("classifier", "gemini-2.5-flash").instruct("Say billing or other.").writes("intent")
resolver = Agent("resolver", "gemini-2.5-flash").instruct("Intent: {intent}.").tool(open_ticket)

pipeline = classifier >> resolver

suite = FluentEvalSuite(
    name="desk",
    pipeline=pipeline,
    cases=[
        FluentCase(
            "My bill is $200 too high",
            expected_trajectory=[call_tool("open_ticket", title="bill")],
            expected_response_contains="T-1",
            mock_tool_outputs={"open_ticket": "T-1"},
            state_assertions={"intent": "billing"},
            tags=["billing"],
        ),
        FluentCase("Thanks!", reference_response="You are welcome.", tags=["small talk"]),
    ],
    metrics=[PrebuiltMetrics.TOOL_TRAJECTORY_AVG_SCORE, PrebuiltMetrics.RESPONSE_MATCH_SCORE],
    custom_judges=[FluentJudge("politeness", polite, threshold=0.5)],
    num_runs=2,
)


def models(*, wordy: bool) -> ADKBackend | MockBackend:
    """The models before and after somebody shortened the classifier's prompt."""

    def answer(request: "LlmRequest") -> Any:
        parts = [part for content in request.contents for part in content.parts or ()]
        if any(part.function_response for part in parts):
            return "Please note your ticket: T-1."
        asked = "".join(part.text or "" for part in parts)
        return call_tool("open_ticket", title="bill") if "$200" in asked else "You are most welcome."

    if "GOOGLE_API_KEY" in os.environ:
        return ADKBackend()
    return mock_backend({"classifier": "It is billing." if wordy else "billing", "resolver": answer})


async def main() -> None:
    # engine="light" needs no more than ADK itself; with adk-fluent[eval] ADK's own service judges
    before = await suite.run(backend=models(wordy=False), engine="light")
    after = await suite.run(backend=models(wordy=True), engine="light")
    print(f"{before.pass_rate:.0%} of the runs passed before, {after.pass_rate:.0%} pass now")
    print(after.compare(before))


if __name__ == "__main__":
    asyncio.run(main())
