"""A claims desk of a hundred agents: checked, estimated, tested, traced, recorded and replayed.

Without a key all of it is scripted; with one the recorded run asks Gemini.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from adk_fluent import Agent, C, FanOut, Pipeline, Route
from adk_fluent.backends import ADKBackend, TraceBackend
from adk_fluent.cost import TrafficAssumptions, estimate_cost
from adk_fluent.debug import Recorder, Recording, ReplayerBackend, diff_events
from adk_fluent.testing import MockBackend, mock_backend

LINES = ("motor", "home", "travel", "health", "cargo", "farm", "legal", "marine")
TOPICS = ("damage", "fraud", "history", "liability", "urgency")
CLAIM = "My car was hit while it was parked."


def clerk(name: str, job: str) -> Agent[str]:
    """An agent whose instruction says all; of the conversation it sees the customer alone."""
    return Agent(name, "gemini-2.5-flash-lite").instruct(job).context(C.user_only())


def line_of_business(line: str) -> Pipeline[str]:
    """Twelve agents: facts, five opinions at once, an offer, and a letter that is corrected three times."""
    facts = clerk(f"{line}_facts", "List the facts of: {claim}").writes("facts")
    coverage = clerk(f"{line}_coverage", "Are they covered? {facts}").writes("coverage")
    opinions = [
        clerk(f"{line}_{topic}", f"Judge the {topic}: {{facts}}, {{coverage}}").writes(topic)
        for topic in TOPICS
    ]
    offer = clerk(f"{line}_offer", "Make an offer. " + " ".join(f"{{{topic}}}" for topic in TOPICS))
    letter = clerk(f"{line}_letter", "Write to the customer: {offer}").writes("letter")
    corrections = [
        clerk(f"{line}_{kind}", f"Correct the {kind}: {{letter}}").writes("letter")
        for kind in ("tone", "language", "law")
    ]
    return Pipeline(facts, coverage, FanOut(*opinions), offer.writes("offer"), letter, *corrections)


desk = Route("line")
for line in LINES[:-1]:
    desk = desk.eq(line, line_of_business(line))
pipeline = (
    clerk("intake", "Write down the claim.").writes("claim")
    >> clerk("triage", "Which line of business is it? {claim}").writes("line")
    >> desk.otherwise(line_of_business(LINES[-1]))
    >> clerk("archive", "Give the letter a number: {letter}").writes("number")
    >> clerk("survey", "Ask whether the letter helped: {letter}, {number}").writes("question")
)


def script() -> MockBackend:
    """What the models say in a test: triage names the line, everybody else says one thing."""
    return mock_backend({"triage": "motor", "survey": "Did we help you?"}, default="Noted.")


async def test_a_motor_claim() -> None:
    """A test of the whole, without a model: twelve agents of one line work, and no other's."""
    models = script()
    result = await pipeline.run(CLAIM, backend=models)
    assert result.text == "Did we help you?"
    assert sum(map(len, models.calls.values())) == 16
    assert not any(name.startswith(LINES[1:]) for name, calls in models.calls.items() if calls)


async def main() -> None:
    report = pipeline.check()
    print(f"checked: {len(report.oks)} reads are fine, {len(report.warnings)} warnings")
    estimate = estimate_cost(pipeline, TrafficAssumptions(invocations_per_day=10_000))
    print(f"estimated: {len(estimate.per_agent)} agents, ${estimate.per_invocation:.4f} a claim")
    await test_a_motor_claim()
    print("tested: a motor claim")
    trace = TraceBackend(script())
    await pipeline.run(CLAIM, backend=trace)
    print(f"traced: {len(trace.steps)} steps")
    with tempfile.TemporaryDirectory() as folder:
        file, recorder = Path(folder) / "claim.json", Recorder()
        backend = ADKBackend() if "GOOGLE_API_KEY" in os.environ else script()
        first = await pipeline.run(CLAIM, backend=backend, middleware=[recorder])
        recorder.save(file)
        recording = Recording.load(file)
        print(f"recorded: {len(recording.llm_interactions)} model calls, {len(recording.events)} events")
        again = await pipeline.run(CLAIM, backend=ReplayerBackend(recording))
        print(f"replayed: {'the same' if not diff_events(first, again) else 'different'}")


if __name__ == "__main__":
    asyncio.run(main())
