"""A conversation kept in a SQLite file continues after a restart, and two runs at once do not spoil it.

With a key the conversation asks Gemini; that two runs meet is staged with a script.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.models.llm_request import LlmRequest
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend
from adk_fluent.errors import SessionConflictError
from adk_fluent.testing import mock_backend

desk = Agent("desk", "gemini-2.5-flash").instruct("Answer from what was said.")


async def main(file: Path) -> None:
    script = {"desk": ["Noted: the red one.", "You chose the red one."]}
    models = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend(script)
    before = SqliteSessionService(str(file))
    await desk.run("I take the red one.", session_id="ann", session_service=before, backend=models)

    after = SqliteSessionService(str(file))  # as another process would
    answer = await desk.run("Which did I take?", session_id="ann", session_service=after, backend=models)
    print(answer.text)

    async def while_another_run_writes(request: LlmRequest) -> AsyncGenerator[str, None]:
        other = mock_backend({"desk": "A phone call came in between."})
        await desk.run("Call", session_id="ann", session_service=before, backend=other)
        yield "Too late."

    models = mock_backend({"desk": [while_another_run_writes, "It is on its way."]})
    for attempt in (1, 2):
        try:
            answer = await desk.run("Where is it?", session_id="ann", session_service=after, backend=models)
            print(f"attempt {attempt}: {answer.text}")
        except SessionConflictError as error:
            print(f"attempt {attempt}: {error}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "sessions.db"))
