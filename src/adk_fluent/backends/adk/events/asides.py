"""What agents inside a tool do: told to the run around it, though ADK lets a tool give back only a result.

An agent that has such tools passes their events on before the tool's result (`passing_on`). The session
stores of each who it was, its tokens and what it wrote, but not what was said: ADK would show that to the
agents around. Whoever reads the run's events gets it back (`in_full`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Final, TypeAlias, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event

from adk_fluent.backends.events import without_words

INSIDE: Final = "adk_fluent.inside_tool"
"""Metadata of an event: the name of the tool inside which it happened."""
_WHOLE: Final = "__adk_fluent_whole__"
_TOLD: Final = "__adk_fluent_told__"
_UNSAID: Final = ("error_code", "error_message", "long_running_tool_ids", "output", "partial")
"""What is not told: a failure is raised by the tool, and an answer is what it gives."""


def inside_tool(ctx: InvocationContext) -> bool:
    """Whether a context is of what runs inside a tool: plugins hear of it when the run around is told."""
    return _TOLD in ctx.__dict__


def go_inside(ctx: InvocationContext) -> None:
    """Note that what runs in this context, and in copies of it, runs inside a tool."""
    object.__setattr__(ctx, _TOLD, True)


class Telling:
    """Base of the tools that tell of the agents inside them."""


_Run: TypeAlias = tuple[str, str | None, str]
_heard: dict[_Run, list[Event]] = {}


def _run_of(ctx: InvocationContext) -> _Run:
    return ctx.invocation_id, ctx.branch, cast(BaseAgent, ctx.agent).name


def tell(ctx: InvocationContext, event: Event, tool: str, branch: str) -> None:
    """Have an event of an agent inside a tool passed on.

    Args:
        ctx: where the tool runs.
        branch: the branch of the conversation inside the tool.
    """
    if event.partial or (told := _heard.get(_run_of(ctx))) is None:
        return
    unsaid = {name: None for name in _UNSAID if name in type(event).model_fields}
    metadata = {**(event.custom_metadata or {}), INSIDE: tool}
    actions = event.actions.model_copy(
        update={"agent_state": None, "end_of_agent": None, "escalate": None, "transfer_to_agent": None}
    )
    update: dict[str, Any] = {"custom_metadata": metadata, "branch": branch, "actions": actions, **unsaid}
    # Stored on the branch of the caller: ADK 2 puts what follows without a branch on that of the last event.
    told.append(_to_store(event.model_copy(update=update), ctx.branch))


def _to_store(whole: Event, branch: str | None) -> Event:
    made = without_words(whole).model_copy(update={"branch": branch})
    # In a list: ADK makes copies of an event, and each is to tell what a plugin made of the words.
    object.__setattr__(made, _WHOLE, [whole])
    return made


async def passing_on(ctx: InvocationContext, run: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The events of an agent, each with those before it that happened inside its tools."""
    heard = _heard.setdefault(_run_of(ctx), [])
    try:
        async with aclosing(run) as events:
            async for event in events:
                for aside in _taken(heard):
                    yield aside
                yield event
    except Exception:
        for aside in _taken(heard):  # the tokens are spent, also when the tool then fails
            yield aside
        raise
    finally:
        _heard.pop(_run_of(ctx), None)


def _taken(events: list[Event]) -> Iterator[Event]:
    while events:
        yield events.pop(0)


def runs_agents(tool: object) -> bool:
    """Whether a tool tells of agents inside it."""
    return isinstance(tool, Telling)


def is_inside(event: Event) -> bool:
    """Whether it happened inside a tool."""
    return bool(event.custom_metadata) and INSIDE in event.custom_metadata


def in_full(event: Event) -> Event:
    """The event with what was said, if it happened inside a tool of this run."""
    whole: list[Event] | None = getattr(event, _WHOLE, None)
    if whole is None:
        return event
    return whole[0].model_copy(
        update={"custom_metadata": event.custom_metadata, "timestamp": event.timestamp}
    )


def in_place_of(event: Event, whole: Event) -> Event:
    """What takes the place of `event`, where `whole` was made of it `in_full`."""
    told: list[Event] | None = getattr(event, _WHOLE, None)
    if told is None:
        return whole
    told[0] = whole
    return _to_store(whole, event.branch)
