"""What the tests of the command line run: small pipelines on models that need no network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from fastapi.openapi.models import APIKey, APIKeyIn
from google.adk.agents import LlmAgent
from google.adk.apps.app import App
from google.adk.auth.auth_tool import AuthConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, S, gate

KEY = AuthConfig(
    auth_scheme=APIKey(**{"in": APIKeyIn.header, "name": "X-Key"}),  # pyright: ignore[reportArgumentType]  # an alias
    credential_key="key",
)


def _text(text: str, *, partial: bool | None = None) -> LlmResponse:
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=3, candidates_token_count=4, total_token_count=7
    )
    return LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        partial=partial,
        usage_metadata=None if partial else usage,
        model_version="says-1",
    )


class Says(BaseLlm):
    """Says the same every time, word by word unless `at_once`; then ends as `ending` says."""

    model: str = "says"
    text: str
    at_once: bool = False
    ending: str = "well"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer."""
        if stream and not self.at_once:
            for word in self.text.split():
                yield _text(f"{word} ", partial=True)
        if self.ending == "never":
            await asyncio.Event().wait()
        if self.ending == "error":
            raise ValueError("the line\n  is dead")
        if self.ending == "blocked":
            yield LlmResponse(error_code="SAFETY", error_message="blocked")
            return
        yield _text(self.text)


class Letter(BaseModel):
    """What no model here writes."""

    text: str


class CallsTool(BaseLlm):
    """Calls its tool once, then says what it gave."""

    model: str = "calls-tool"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer."""
        parts = llm_request.contents[-1].parts or []
        if parts and parts[0].function_response:
            yield _text(f"It is {parts[0].function_response.response}.")
            return
        call = types.FunctionCall(name="weather", args={"city": "Rome"})
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))


def weather(city: str) -> str:
    """The weather in a city."""
    if city != "Rome":
        raise LookupError(city)
    return "sunny"


def asking_tool(city: str, tool_context: ToolContext) -> str:
    """A tool that asks in its own words."""
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint="Shall I look out?")
        tool_context.actions.skip_summarization = True
        return "asked"
    return "sunny" if tool_context.tool_confirmation.confirmed else "nobody looked"


asking_tool.__name__ = "weather"


def slow_tool(city: str) -> None:
    """A tool whose result comes from elsewhere."""


slow_tool.__name__ = "weather"


def keyed_tool(city: str, tool_context: ToolContext) -> str:
    """A tool that needs a key, and tells it."""
    if (credential := tool_context.get_auth_response(KEY)) is None:
        tool_context.request_credential(KEY)
        tool_context.actions.skip_summarization = True
        return "locked"
    return f"opened with {credential.api_key}"


keyed_tool.__name__ = "weather"


def broken_tool(city: str) -> str:
    """A tool that fails."""
    raise LookupError(f"no weather in {city}")


broken_tool.__name__ = "weather"

writer = Agent("writer", Says(text="Hello from the writer.")).instruct("Write.").writes("draft")
editor = Agent("editor", Says(text="Hello.")).instruct("Shorten: {draft}")

pipeline = writer >> editor
both = Agent("left", Says(text="one two three")).writes("l") | Agent("right", Says(text="four five")).writes(
    "r"
)
failing = writer >> Agent("broken", Says(text="", ending="error"))
half = Agent("half", Says(text="This is only the beg", ending="error")).writes("answer")
blocked = Agent("blocked", Says(text="", ending="blocked"))
rescued = Agent("blocked", Says(text="", ending="blocked")) // writer
saved = Agent("broken", Says(text="", ending="error")) // writer
half_saved = half // writer
skipped = writer >> editor.proceed_if(lambda state: False)
discreet = pipeline.filtered()
endless = Agent("endless", Says(text="Still here", ending="never")).writes("answer")
needy = Agent("needy", Says(text="Hm.")).instruct("Use {nothing_writes_this}.")
strict = needy.strict()
tools = Agent("clerk", CallsTool()).tool(weather)
asking = Agent("clerk", CallsTool()).tool(asking_tool)
broken_tools = Agent("clerk", CallsTool()).tool(broken_tool)
gated = writer >> gate(lambda state: True, message="Send it?") >> editor
counted = S.counter("n") >> editor.instruct("Turn {n} for {tier}.")
gates = (
    writer
    >> gate(lambda state: True, message="Send it?")
    >> gate(lambda state: True, message="Really?").named("second")
    >> editor
)
hostile = Agent("hostile", Says(text="red \x1b[31malert\x07 here"))
hostile_gate = hostile.writes("words") >> gate(lambda state: True, message="Send {words}?")
careful = Agent("clerk", CallsTool()).tool(weather, require_confirmation=True)
slow = Agent("clerk", CallsTool()).tool(LongRunningFunctionTool(slow_tool))
keyed = Agent("clerk", CallsTool()).tool(keyed_tool)
mixed = FanOut(gate(lambda state: True, message="Send it?") >> Agent("sender", Says(text="Sent.")), slow)

typed = LlmAgent(name="typed", model=Says(text="no letter"), output_schema=Letter, output_key="letter")
hasty = Says(text="{}", at_once=True)
hastily_typed = LlmAgent(name="typed", model=hasty, output_schema=Letter, output_key="letter")
native = LlmAgent(name="native", model=Says(text="I am ADK's own."), instruction="Answer.")
team = LlmAgent(
    name="lead", model=Says(text="Mine."), sub_agents=[LlmAgent(name="helper", model=Says(text="Yours."))]
)
built = pipeline.build()
native_app = App(name="native_app", root_agent=LlmAgent(name="inside", model=Says(text="From the app.")))
number = 5
