"""A run that failed was recorded; the recording becomes a test, which fails until the pipeline is mended.

python examples/failure_to_test.py
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend
from adk_fluent.debug import Recorder, Recording, ReplayerBackend
from adk_fluent.errors import ADKFluentError
from adk_fluent.state import declares
from adk_fluent.testing import mock_backend

PROMPT = "What is the total of this bill? Tea 8,50, cup 4,00, total 12,50 EUR."
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend({"reader": "12,50"})


@declares(reads=("read",), writes=("total",))
def as_it_was(state: Mapping[str, Any]) -> dict[str, float]:
    return {"total": float(state["read"])}


@declares(reads=("read",), writes=("total",))
def mended(state: Mapping[str, Any]) -> dict[str, float]:
    return {"total": float(state["read"].replace(",", "."))}


reader = (
    Agent("reader", "gemini-2.5-flash").instruct("The total, the number alone, as it stands.").writes("read")
)
before, after = (reader >> as_it_was).named("bills"), (reader >> mended).named("bills")

TEST = """\
def test_a_total_with_a_comma():
    recording = Recording.load({file!r})
    result = asyncio.run(pipeline.run({prompt!r}, backend=ReplayerBackend(recording)))
    assert result.state["total"] == 12.5
"""


async def in_production(file: Path) -> str:
    """Run with a recorder, and keep the recording of a run that failed; what went wrong, or nothing."""
    recorder = Recorder()
    try:
        await before.run(PROMPT, backend=BACKEND, middleware=[recorder])
    except ADKFluentError as error:
        recorder.save(file)
        return str(error)
    return ""


def outcome(test: str, pipeline: object) -> str:
    """What the test says of this pipeline; no model is asked. In a project it is a file that pytest runs."""
    names: dict[str, Any] = {"asyncio": asyncio, "Recording": Recording, "ReplayerBackend": ReplayerBackend}
    names["pipeline"] = pipeline
    exec(test, names)
    try:
        names["test_a_total_with_a_comma"]()
    except ADKFluentError as error:
        return f"fails: {error}"
    return "passes"


def main(folder: Path) -> None:
    file = folder / "a_comma.json"
    fault = asyncio.run(in_production(file))
    if not fault:
        print("The model wrote a point; nothing failed this time.")
        return
    print(f"failed: {fault}")
    print(f"kept: {len(Recording.load(file).llm_interactions)} model call")
    test = TEST.format(file=str(file), prompt=PROMPT)
    for name, pipeline in (("before", before), ("after", after)):
        print(f"the test {name}: {outcome(test, pipeline)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
