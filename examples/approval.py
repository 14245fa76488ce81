"""A run waits for a person, the process ends, and another one continues where it stopped, the next day.

python examples/approval.py
"""

import asyncio
import os
import tempfile
from pathlib import Path

from google.adk.sessions.sqlite_session_service import SqliteSessionService

from adk_fluent import Agent, S, gate
from adk_fluent.backends import ADKBackend
from adk_fluent.testing import mock_backend

draft = Agent("draft", "gemini-2.5-flash").instruct("Write a press release of two sentences.").writes("text")
release = (
    draft
    >> gate(lambda state: True, message="Publish this? {text}", into="decision")
    >> S.default(decision={})
    >> Agent("publisher", "gemini-2.5-flash").instruct(
        "Announce it. A person asked: {decision}. Text: {text}"
    )
)
SCRIPT = {"draft": "We sell tea by drone now.", "publisher": "Published, with a picture."}
BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(SCRIPT)


async def today(file: Path) -> tuple[str, str]:
    """What the first process does: it ends with the question still open."""
    sessions = SqliteSessionService(str(file))
    result = await release.run(
        "We have drones.", session_id="pr-1", session_service=sessions, backend=BACKEND
    )
    (asked,) = result.pending
    print(f"today: {asked.message}")
    return result.session_id, asked.id


async def tomorrow(file: Path, session: str, asked: str) -> None:
    """What another process does with the person's answer; the draft is not written again."""
    sessions = SqliteSessionService(str(file))
    answer = {asked: {"with": "a picture"}}
    result = await release.resume(
        session_id=session, approvals=answer, session_service=sessions, backend=BACKEND
    )
    print(f"tomorrow: {result.text}")
    print(f"asked again: {sorted({event.author for event in result if event.usage})}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "runs.db"
        asyncio.run(tomorrow(database, *asyncio.run(today(database))))
