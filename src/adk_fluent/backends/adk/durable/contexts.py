"""ADK's contexts as JSON, so that a tool or callback finds elsewhere what it would find here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event_actions import EventActions
from google.adk.sessions import Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.durable.steps import Json, jsonable, state_json
from adk_fluent.backends.adk.running.runner import Services


def dumped(context: Any, agent: str) -> Json:
    """What a context says of the run, the session and the call it is for."""
    ctx = private.invocation(context)
    call = getattr(context, "function_call_id", None)
    confirmation = getattr(context, "tool_confirmation", None)
    events = [event.model_dump(mode="json", exclude_none=True) for event in ctx.session.events]
    return {
        **dumped_place(context, agent),
        "events": jsonable(events, "the conversation", agent),
        "said": ctx.user_content.model_dump(mode="json", exclude_none=True) if ctx.user_content else None,
        "call": call,
        "confirmation": confirmation.model_dump(mode="json") if confirmation else None,
    }


def dumped_place(context: Any, agent: str) -> dict[str, Json]:
    """Where in which run a context is, and the state, without the conversation."""
    ctx = private.invocation(context)
    assert ctx.agent is not None
    return {
        "app_name": ctx.session.app_name,
        "user_id": ctx.session.user_id,
        "session_id": ctx.session.id,
        "state": state_json(context.state.to_dict(), agent),
        "run": ctx.invocation_id,
        "branch": ctx.branch,
        "agent": ctx.agent.name,
    }


def place_of(
    data: Mapping[str, Json], agents: Mapping[str, BaseAgent], services: Services
) -> InvocationContext:
    """The place that `dumped_place` or `dumped` wrote, on the services of this process."""
    assert services.session_service is not None
    session = Session(
        id=data["session_id"],
        app_name=data["app_name"],
        user_id=data["user_id"],
        state=dict(data["state"]),
        events=data.get("events", []),
    )
    said = data.get("said")
    return InvocationContext(
        session=session,
        invocation_id=data["run"],
        branch=data["branch"],
        agent=agents[data["agent"]],
        user_content=None if said is None else types.Content.model_validate(said),
        session_service=services.session_service,
        artifact_service=services.artifact_service,
        memory_service=services.memory_service,
        credential_service=services.credential_service,
    )


def context_of(data: Mapping[str, Json], agents: Mapping[str, BaseAgent], services: Services) -> ToolContext:
    """The context that `dumped` wrote, on the services of this process."""
    confirmation = data["confirmation"]
    return ToolContext(
        place_of(data, agents, services),
        function_call_id=data["call"],
        event_actions=EventActions(),
        tool_confirmation=confirmation and ToolConfirmation.model_validate(confirmation),
    )


def actions_json(context: ToolContext, agent: str) -> Json:
    """What a call has done to state, artifacts and the run."""
    given, defaults = _named(context.actions), _named(EventActions())
    changed = {name: value for name, value in given.items() if value != defaults.get(name)}
    return {"state": state_json(context.actions.state_delta, agent), "others": changed}


def _named(actions: EventActions) -> dict[str, Any]:
    """Field → its value as JSON, with aliases in it: an auth scheme is read back right by these alone."""
    given = actions.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"state_delta"})
    fields = {field.serialization_alias: name for name, field in EventActions.model_fields.items()}
    return {fields.get(alias) or alias: value for alias, value in given.items()}


def act(context: ToolContext, done: Mapping[str, Json]) -> None:
    """Do to a context what a call elsewhere has done to its own."""
    for key, value in done["state"].items():
        context.state[key] = value
    actions = EventActions.model_validate(done["others"])
    for name in done["others"]:
        value, before = getattr(actions, name), getattr(context.actions, name)
        setattr(context.actions, name, {**before, **value} if isinstance(value, dict) and before else value)
