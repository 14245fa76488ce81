"""What plain ADK needs to run without a key: a scripted model, and one run."""

from collections.abc import AsyncGenerator

from google.adk.apps import App
from google.adk.events import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.workflow import BaseNode
from google.genai import types


class Scripted(BaseLlm):
    """Gives its answers in order, and prints what it is sent unless it is silent."""

    model: str = "scripted"
    answers: list[str]
    silent: bool = False

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer."""
        answer = self.answers.pop(0)
        contents = llm_request.contents
        sent = [part.text for content in contents for part in content.parts or ()]
        if not self.silent:
            print(f"[answers {answer!r} to {sent}]")
        yield LlmResponse(content=types.ModelContent(answer))


async def run(root: BaseNode, text: str) -> tuple[object, dict[str, object]]:
    """What the last event of a run in a new session says, and the state after the run."""
    runner = InMemoryRunner(app=App(name="app", root_agent=root))
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    events: list[Event] = []
    async for event in runner.run_async(
        user_id="u",
        session_id=session.id,
        new_message=types.UserContent(text),
    ):
        events.append(event)
    after = await runner.session_service.get_session(
        app_name="app",
        user_id="u",
        session_id=session.id,
    )
    last = events[-1]
    parts = last.content.parts if last.content else None
    said = parts[0].text if parts else last.output
    return said, after.state if after else {}
