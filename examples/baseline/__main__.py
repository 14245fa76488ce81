"""An evaluation is held against a baseline in the repository: CI fails when a prompt makes a case worse.

python examples/baseline             compares with baseline.json; exit code 1 if something got worse
python examples/baseline --write     writes baseline.json anew, after somebody looked at it
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from google.adk.models.llm_request import LlmRequest

from adk_fluent import Agent, Pipeline
from adk_fluent.backends import ADKBackend
from adk_fluent.eval import FluentCase, FluentEvalReport, FluentEvalSuite
from adk_fluent.testing import mock_backend

BASELINE = Path(__file__).parent / "baseline.json"
TEXTS = {"refund": "Please pay me back.", "invoice": "Send me the bill again.", "other": "Thank you!"}


def desk(prompt: str) -> Pipeline[str]:
    """The pipeline under test; what is tried out is the classifier's prompt."""
    triage = Agent("triage", "gemini-2.5-flash").instruct(prompt).writes("topic")
    return triage >> Agent("clerk", "gemini-2.5-flash").instruct("It is about {topic}. Answer in a sentence.")


def suite(pipeline: Pipeline[str]) -> FluentEvalSuite:
    cases = [
        FluentCase(text, state_assertions={"topic": topic}, tags=[topic], metadata={"id": topic})
        for topic, text in TEXTS.items()
    ]
    return FluentEvalSuite(name="desk", pipeline=pipeline, cases=cases, metrics=[], num_runs=3)


careful = desk("Say refund, invoice or other, one word in small letters.")
shorter = desk("What is it about: refund, invoice, other?")


def scripted(request: LlmRequest) -> str:
    """In the place of a model, which is wordy unless it is told not to be."""
    text = (request.contents[0].parts or [])[0].text
    topic = next(topic for topic, asked in TEXTS.items() if asked == text)
    config: Any = request.config
    return topic if "one word" in config.system_instruction else f"It is about a {topic}."


KEY = "GOOGLE_API_KEY" in os.environ
BACKEND = ADKBackend() if KEY else mock_backend({"triage": scripted, "clerk": "We look after it."})


async def main() -> int:
    now = await suite(careful).run(backend=BACKEND, engine="light")
    if "--write" in sys.argv:
        now.save(BASELINE)
        print(f"wrote {BASELINE.name}: {now.pass_rate:.0%} pass")
        return 0
    baseline = FluentEvalReport.load(BASELINE)
    changes = now.compare(baseline)
    print(f"as it is: {now.pass_rate:.0%} pass. {changes.summary}")
    tried = await suite(shorter).run(backend=BACKEND, engine="light")
    print(
        f"a shorter prompt: {tried.pass_rate:.0%} pass. It would have failed CI:",
        not tried.compare(baseline).ok,
    )
    print(tried.compare(baseline).summary)
    return 0 if changes.ok or KEY else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
