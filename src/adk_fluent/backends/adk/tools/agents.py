"""An expression as a tool: it runs inside the run of its caller, in a conversation of its own."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from adk_fluent.analysis.visibility import Outlet, outlet_of
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.temporary import with_temporary
from adk_fluent.backends.adk.events.asides import Telling, go_inside, tell
from adk_fluent.backends.adk.events.branch_sessions import BranchSessions
from adk_fluent.backends.adk.events.signals import failure, pauses, told_text
from adk_fluent.backends.adk.steps.branches import Overlay, branch_below
from adk_fluent.backends.answering import Answers, handed_over
from adk_fluent.backends.events import DISCARDS
from adk_fluent.errors import RunError, ToolError, no_answer, sentence
from adk_fluent.ir.graph import Named
from adk_fluent.state.field_types import fault


class ExpressionTool(AgentTool, Telling):
    """ADK's `AgentTool`, whose agent runs inside the caller's run instead of one of its own.

    So its events and tokens are part of that run, what it writes to state reaches it once, the limit of model
    calls holds for both, and plugins hear of everything once. It sees the state, and of the conversation
    only the request.

    Args:
        agent: the agent, compiled as a tree by itself.
        named: that tree.
    """

    def __init__(self, agent: BaseAgent, named: Named) -> None:
        super().__init__(agent)
        self._outlet: Outlet = outlet_of(named.root)
        self._answers = Answers.of(named)
        self._root = named.root

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """The answer of the agent to a request, or what is wrong with the arguments of the call.

        Raises:
            RunError: it gave an error in place of an answer.
            AnswerError: it returns a type, and handed over to an agent that answers in another, or in text.
            ToolError: it stopped for a person, which nobody could answer.
        """
        outer = private.invocation(tool_context)
        try:
            request = self._request(args)
        except ValidationError as error:
            return {"error": f"{self.name!r} was not called: {sentence(fault(error, args))} Call it again."}
        talk = _Talk(outer, tool_context, request, self.name)
        said: list[Event] = []
        async with aclosing(self.agent.run_async(talk.ctx)) as events:
            async for event in events:
                await talk.hear(event)
                said.append(event)
                if pauses(talk.ctx, event):
                    raise ToolError(
                        f"Agent {event.author!r} stops for a person, and inside the tool {self.name!r} "
                        "nobody can answer. Let the caller hand over to it (.delegate), or ask before the "
                        "tool is called: T.confirm(T.agent(...))."
                    )
        return self._answer(said)

    def _request(self, args: dict[str, Any]) -> str:
        schema = _input_schema(self.agent)
        if schema is not None:
            return schema.model_validate(args).model_dump_json(exclude_none=True)
        request = args.get("request")
        return request if isinstance(request, str) else json.dumps(args, ensure_ascii=False, default=repr)

    def _answer(self, events: list[Event]) -> Any:
        withdrawn = {key for event in events for key in (event.custom_metadata or {}).get(DISCARDS, ())}
        standing = [event for event in events if event.id not in withdrawn and not event.partial]
        for event in standing:
            if (problem := failure(event)) is not None:
                raise RunError(no_answer(event.author, problem))
        spoken = [event for event in standing if event.is_final_response() and told_text(event).strip()]
        seen = [event for event in spoken if self._outlet.visibility_of(event.author).visibility == "user"]
        if not (seen or spoken):
            return ""
        last = (seen or spoken)[-1]
        if (absent := handed_over(self._root, self._answers, last.author)) is not None:
            absent.value()
        return to_jsonable_python(self._answers.parse(last.author, told_text(last)), fallback=repr)


def _input_schema(agent: BaseAgent) -> type[BaseModel] | None:
    """What ADK tells the model that it takes: the input of the agent, or of the first one in it."""
    while not isinstance(agent, LlmAgent):
        if not agent.sub_agents:
            return None
        agent = agent.sub_agents[0]
    return agent.input_schema


class _Talk:
    """The conversation inside a call: a session of its own, whose state begins as that of the caller.

    Attributes:
        ctx: the context of what runs in it.
    """

    def __init__(self, outer: InvocationContext, call: ToolContext, request: str, tool: str) -> None:
        self._outer, self._tool = outer, tool
        self._branch = branch_below(outer, f"{tool}@{call.function_call_id}")
        message = types.Content(role="user", parts=[types.Part(text=request)])
        asked = Event(invocation_id=outer.invocation_id, author="user", content=message)
        state = Overlay(call.state.to_dict())
        session = outer.session.model_copy(update={"events": [asked], "state": state})
        self.ctx: InvocationContext = outer.model_copy(
            update={
                "branch": self._branch,
                "session": session,
                "session_service": BranchSessions(outer.session_service, self._append),
                "user_content": message,
                "resumability_config": None,
                "agent_states": {},
                "end_of_agents": {},
                "live_request_queue": None,
            }
        )
        go_inside(self.ctx)

    async def hear(self, event: Event) -> None:
        """Take over an event of the conversation, and tell the run around it."""
        with_temporary(self.ctx, event)
        await self._append(event)
        if not event.partial:
            self._outer.session.state.update(event.actions.state_delta)  # stored with the event that tells
        tell(self._outer, event, self._tool, self._branch)

    async def _append(self, event: Event) -> Event:
        if not event.partial:
            self.ctx.session.state.update(event.actions.state_delta)
            self.ctx.session.events.append(event)
        return event
