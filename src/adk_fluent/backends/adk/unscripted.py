"""What keeps a preview from ever asking a real model."""

from __future__ import annotations

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.genai import types

from adk_fluent.backends.adk import private
from adk_fluent.backends.adk.scripted import ScriptedLlm

DEFAULT_MODEL: str = LlmAgent.DEFAULT_MODEL
"""The model of an agent that names none, as ADK has it."""


def fresh_sessions() -> BaseSessionService:
    """Sessions that nobody else knows."""
    return InMemorySessionService()


class Unscripted(BasePlugin):
    """Answers for every model that no script plays, such as that of an agent used as a tool."""

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Answer in place of a real model."""
        agent = private.invocation(callback_context).agent
        if isinstance(agent, LlmAgent) and isinstance(agent.model, ScriptedLlm):
            return None
        name = callback_context.agent_name
        content = types.Content(role="model", parts=[types.Part(text=f"(what {name} answers)")])
        return LlmResponse(content=content)
