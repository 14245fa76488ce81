"""What plain ADK needs to run without a key: a model that answers from a script, and one run of an agent."""

from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types


class Scripted(BaseLlm):
    """A model that gives one answer."""

    model: str = "scripted"
    answer: str

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer."""
        print(f"[asked for {self.answer!r}]")
        yield LlmResponse(content=types.ModelContent(self.answer))


async def run(agent: BaseAgent, text: str) -> tuple[str | None, dict[str, object]]:
    """The last text of a run in a new session, and the state behind it."""
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    events: list[Event] = []
    async for event in runner.run_async(
        user_id="u", session_id=session.id, new_message=types.UserContent(text)
    ):
        events.append(event)
    after = await runner.session_service.get_session(app_name="app", user_id="u", session_id=session.id)
    content = events[-1].content
    return content.parts[0].text if content and content.parts else None, after.state if after else {}
