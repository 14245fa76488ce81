"""Plain ADK, as somebody would write it who does not use adk-fluent."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent import Agent, Pipeline
from adk_fluent.expr.base import Expr

USER = "user"


class InstantLlm(BaseLlm):
    """A model that answers at once, so that what is left is the framework."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Say `ok`."""
        content = types.Content(role="model", parts=[types.Part(text="ok")])
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1)
        yield LlmResponse(content=content, usage_metadata=usage)


class InOrder(BaseAgent):
    """Runs its children in order."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for child in self.sub_agents:
            async for event in child.run_async(ctx):
                yield event


class Count(BaseAgent):
    """Writes one state key: about the cheapest agent that yields an event."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        count = ctx.session.state.get("n", 0) + 1
        yield Event(
            invocation_id=ctx.invocation_id,
            author=self.name,
            branch=ctx.branch,
            actions=EventActions(state_delta={"n": count}),
        )


MODEL = InstantLlm(model="instant")


def agents(count: int) -> InOrder:
    """`count` agents in order, each reading what the one before wrote."""
    steps: list[BaseAgent] = [
        LlmAgent(name=f"a{i}", model=MODEL, instruction=f"Go on from {{k{i}?}}.", output_key=f"k{i + 1}")
        for i in range(count)
    ]
    return InOrder(name="pipeline", sub_agents=steps)


def steps(count: int) -> list[Expr[str]]:
    """The steps of the same pipeline in adk-fluent."""
    return [
        Agent(f"a{i}", MODEL).instruct(f"Go on from {{k{i}?}}.").writes(f"k{i + 1}") for i in range(count)
    ]


def expression(count: int) -> Pipeline[str]:
    """The same pipeline in adk-fluent."""
    return Pipeline(*steps(count))


def runner(root: BaseAgent) -> Runner:
    """ADK's own runner for an agent, on sessions of its own."""
    app = App(name="bench", root_agent=root)
    return Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)


async def run(native: Runner) -> list[Event]:
    """Run once in a new session."""
    message = types.Content(role="user", parts=[types.Part(text="go")])
    events = native.run_async(user_id=USER, session_id=str(uuid.uuid4()), new_message=message)
    return [event async for event in events]
