"""Going on where a run paused, whoever ADK starts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent.backends.adk.steps.checkpoints import is_below
from adk_fluent.backends.adk.steps.leaves import Events, FluentAgent, waits
from adk_fluent.backends.adk.steps.tree import ancestors


def outermost(agent: BaseAgent, ctx: InvocationContext) -> tuple[BaseAgent, InvocationContext] | None:
    """The step that goes on when ADK starts `agent`, with its context; `None` if that is the agent itself.

    Where the root is a model agent, ADK 2.x starts the one whose request was answered and nobody else. The
    composites around it would never go on, and no other branch would hear its answer; so the outermost of
    those that wait goes on, and comes to the agent as in any other run.
    """
    started = ctx.agent is not None and ctx.agent.name == agent.name  # ADK may have started a copy
    if not started or agent.parent_agent is None or not ctx.is_resumable:
        return None
    run = [event for event in ctx.session.events if event.invocation_id == ctx.invocation_id]
    states, ended = _checkpoints(run)
    above = [step for step in ancestors(agent) if isinstance(step, FluentAgent) and step.name in states]
    if not above:
        return None
    found = above[-1]
    first = next(event for event in run if event.author == found.name)
    update: dict[str, Any] = {"branch": first.branch, "agent_states": states, "end_of_agents": ended}
    if "node_path" in type(ctx).model_fields:
        update["node_path"] = first.node_info.path
    return found, ctx.model_copy(update=update)


async def while_waiting(agent: BaseAgent, ctx: InvocationContext, events: Events) -> Events:
    """The events of a model agent, which neither goes on nor ends while it, or one below it, waits.

    An agent that waits does nothing while others are answered: ADK would ask its model again each time.
    Answered one of two calls, ADK 1.x asks the model again at once, with the other one open, and takes the
    agent for done; so it does where somebody below the agent waits again. What follows a new call is left to
    ADK: 2.x asks the model once more, so that it can say what it waits for.
    """
    made: set[str | None] = set()
    async with aclosing(events) as run:
        if _is_passed_over(ctx) and waits(agent, ctx):
            return
        async for event in run:
            own = event.author == agent.name
            if own and event.actions.end_of_agent and waits(agent, ctx):
                ctx.set_agent_state(agent.name)
                return
            yield event
            if not own:
                continue
            made.update(call.id for call in event.get_function_calls())
            answered = [each for each in event.get_function_responses() if each.id not in made]
            if answered and not event.actions.transfer_to_agent and waits(agent, ctx):
                return


def _is_passed_over(ctx: InvocationContext) -> bool:
    """Whether the run goes on with answers of which none is for this branch, or what is below it."""
    run = [event for event in ctx.session.events if event.invocation_id == ctx.invocation_id]
    messages = [event for event in run if event.author == "user" and event.get_function_responses()]
    if not messages:
        return False
    asked = {call.id for event in run if is_below(event, ctx.branch) for call in event.get_function_calls()}
    return asked.isdisjoint(answer.id for answer in messages[-1].get_function_responses())


def _checkpoints(events: Iterable[Event]) -> tuple[dict[str, dict[str, Any]], dict[str, bool]]:
    """Agent → where it was, and agent → whether it has ended; ADK 2.x keeps these under paths of its own."""
    states: dict[str, dict[str, Any]] = {}
    ended: dict[str, bool] = {}
    for event in events:
        if event.actions.end_of_agent:
            states.pop(event.author, None)
            ended[event.author] = True
        elif event.actions.agent_state is not None or (event.content and event.author not in states):
            states[event.author] = event.actions.agent_state or {}
            ended[event.author] = False
    states.pop("user", None)
    return states, ended
