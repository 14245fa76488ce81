"""A prompt is changed: what happened before is recorded, replayed, and compared with what happens now.

python examples/recording.py
"""

import asyncio
import os
import tempfile
from pathlib import Path

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend
from adk_fluent.debug import Recorder, Recording, ReplayerBackend, diff_recordings
from adk_fluent.testing import call_tool, mock_backend


def look_up(order: str) -> dict[str, object]:
    """Look an order up."""
    print(f"(the shop is asked for {order})")
    return {"order": order, "state": "on its way"}


clerk = Agent("clerk").instruct("Look the order up and answer.").tool(look_up).writes("answer")
editor = Agent("editor").instruct("Make this friendly: {answer}")
pipeline = (clerk >> editor).named("desk")

SCRIPT = {
    "clerk": [call_tool("look_up", order="A7"), "A7 is on its way."],
    "editor": "Good news: A7 is on its way!",
}
KEY = "GOOGLE_API_KEY" in os.environ
BACKEND = ADKBackend() if KEY else mock_backend(SCRIPT)


async def main() -> None:
    """Record, replay unchanged, replay changed, go on from a step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "desk.json"
        recorder = Recorder()
        await pipeline.run("Where is order A7?", backend=BACKEND, middleware=[recorder])
        recorder.save(path)
        recording = Recording.load(path)
    print(recording)

    print("unchanged:", diff_recordings(recording, await recording.replay(pipeline)).summary)

    kinder = (clerk >> editor.instruct("Make this short: {answer}")).named("desk")
    backend = ReplayerBackend(recording, on_mismatch="skip")
    await kinder.run("Where is order A7?", backend=backend)
    print("changed:", backend.mismatches[0])

    live = BACKEND if KEY else mock_backend({"editor": "A7: on its way."})
    result = await recording.resume(kinder, at="clerk", backend=live)
    print("from there on:", result.text)


if __name__ == "__main__":
    asyncio.run(main())
