"""What the stored events of a run tell about where its agents are."""

from __future__ import annotations

from collections.abc import Iterable

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from pydantic import BaseModel

from adk_fluent.backends.adk.steps.tree import below


def since_checkpoint(ctx: InvocationContext, agent: BaseAgent, state: BaseModel | None = None) -> list[Event]:
    """The events of this run on this branch, and below it, since the last checkpoint of `agent`.

    Args:
        state: the checkpoint to look for; any by default.
    """
    wanted = state.model_dump(mode="json") if state else None
    run = [
        event
        for event in ctx.session.events
        if event.invocation_id == ctx.invocation_id and is_below(event, ctx.branch)
    ]
    for index in range(len(run) - 1, -1, -1):
        event = run[index]
        is_own = event.author == agent.name and event.branch == ctx.branch
        if is_own and event.actions.agent_state and wanted in (None, event.actions.agent_state):
            return run[index + 1 :]
    return []


def is_below(event: Event, branch: str | None) -> bool:
    """Whether an event happened on a branch, or below it; all do on none."""
    return not branch or f"{event.branch or ''}.".startswith(f"{branch}.")


def has_ended(agent: BaseAgent, events: Iterable[Event]) -> bool:
    """Whether these events say that `agent` has finished: by a checkpoint, or as its model has answered.

    What its model says while a call of it is open is no answer yet: ADK 2.x has it tell what it waits for.
    """
    is_model, waiting = isinstance(agent, LlmAgent), set[str | None]()
    for event in events:
        if event.author == "user":
            waiting.difference_update(answer.id for answer in event.get_function_responses())
        elif event.author == agent.name:
            waiting.update(event.long_running_tool_ids or ())
            if event.actions.end_of_agent or (is_model and not waiting and _answers(event)):
                return True
    return False


def _answers(event: Event) -> bool:
    parts = (event.content and event.content.parts) or []
    return any(part.text for part in parts) and event.is_final_response()


def start_afresh(ctx: InvocationContext, agent: BaseAgent) -> None:
    """Forget where `agent` and those below it were, so that they run from their beginning."""
    for each in below(agent):
        ctx.set_agent_state(each.name)


def states_from(ctx: InvocationContext, events: list[Event]) -> InvocationContext:
    """The context with the agents where these events say that they are."""
    past = ctx.session.model_copy(update={"events": events})
    told = ctx.model_copy(update={"session": past, "agent_states": {}, "end_of_agents": {}})
    told.populate_invocation_agent_states()
    return ctx.model_copy(update={"agent_states": told.agent_states, "end_of_agents": told.end_of_agents})
