"""Going on where a run paused, whoever ADK starts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent.backends.adk.events.signals import unanswered
from adk_fluent.backends.adk.steps.checkpoints import is_below
from adk_fluent.backends.adk.steps.leaves import Events, FluentAgent, waits
from adk_fluent.backends.adk.steps.tree import ancestors
from adk_fluent.ir.tools import ASKED_BY_ADK


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
    With one of two calls answered, ADK asks the model again at once, with the other one open: 1.x always, 2.x
    where a long-running tool gave something. ADK 1.x then takes the agent for done; so it does where an agent
    below this one waits again. What follows a new call is left to
    ADK: 2.x asks the model once more, so that it can say what it waits for.
    """
    made: set[str | None] = set()
    async with aclosing(events) as run:
        if waits(agent, ctx) and (_is_passed_over(ctx) or _hears_results_only(agent, ctx)):
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
    run, answered = _answered(ctx)
    asked = {call.id for event in run if is_below(event, ctx.branch) for call in event.get_function_calls()}
    return bool(answered) and asked.isdisjoint(answered)


def _hears_results_only(agent: BaseAgent, ctx: InvocationContext) -> bool:
    """Whether the answers for this agent's own calls leave nothing to run but its model, and some are open.

    An approval or a credential lets a tool run. A result only goes to the model, which has to wait.
    """
    run, answered = _answered(ctx)
    own = [event for event in run if event.author == agent.name and is_below(event, ctx.branch)]
    heard = {call.name for event in own for call in event.get_function_calls() if call.id in answered}
    open_calls = unanswered(run).keys()
    waiting = any(call.id in open_calls for event in own for call in event.get_function_calls())
    return bool(heard) and heard.isdisjoint(ASKED_BY_ADK) and waiting


def _answered(ctx: InvocationContext) -> tuple[list[Event], set[str | None]]:
    """The events of this run, and the ids of the calls that the user's last message answers."""
    run = [event for event in ctx.session.events if event.invocation_id == ctx.invocation_id]
    messages = [event for event in run if event.author == "user" and event.get_function_responses()]
    return run, {answer.id for event in messages[-1:] for answer in event.get_function_responses()}


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
