"""The only place where underscore names of ADK are used; each with its reason and a probe.

`probe()` runs when the backend is first imported and fails loudly, naming what moved, instead of letting a
later run go wrong quietly.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from functools import cache
from typing import Any, TypeVar, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService
from pydantic import BaseModel

from adk_fluent.errors import CompileError

State = TypeVar("State", bound=BaseModel)
"""A checkpoint. ADK only dumps and validates it, so it need not derive from ADK's experimental base class."""


def load_state(agent: BaseAgent, ctx: InvocationContext, state_type: type[State]) -> State | None:
    """Where `agent` was when its run paused; ADK offers no public reader for checkpoints."""
    return cast("State | None", cast(Any, agent)._load_agent_state(ctx, state_type))


def checkpoint(agent: BaseAgent, ctx: InvocationContext, state: BaseModel) -> Event:
    """The event that stores where `agent` is; ADK offers no public constructor for it."""
    ctx.set_agent_state(agent.name, agent_state=cast(Any, state))
    return cast(Event, cast(Any, agent)._create_agent_state_event(ctx))


def finished(agent: BaseAgent, ctx: InvocationContext) -> Event:
    """The event that stores that `agent` has ended."""
    ctx.set_agent_state(agent.name, end_of_agent=True)
    return cast(Event, cast(Any, agent)._create_agent_state_event(ctx))


def run_llm(agent: LlmAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
    """`LlmAgent`'s own loop of model and tool calls, which our subclass runs after its checks."""
    return LlmAgent._run_async_impl(agent, ctx)  # pyright: ignore[reportPrivateUsage]  # see the docstring


def keeps_temporary() -> bool:
    """Whether ADK itself puts the `temp:` keys of an event into the state of the running session."""
    return hasattr(BaseSessionService, "_apply_temp_state")


@cache
def merges_dicts(service: type[BaseSessionService]) -> bool:
    """Whether a kind of session service merges a stored dict with a new one, as ADK's for SQLite once did.

    Its class is not imported here: it needs a package that a user of other services may not have.
    """
    return service.__name__ == "SqliteSessionService" and "json_patch" in inspect.getsource(service)


def asks_for_confirmation(tool: object) -> bool:
    """Whether an ADK tool may stop for a person; ADK keeps the flag private."""
    return bool(getattr(tool, "is_long_running", False) or getattr(tool, "_require_confirmation", False))


def probe() -> None:
    """Check that every private name used above is there.

    Raises:
        CompileError: one is missing in the installed google-adk.
    """
    names = [
        (BaseAgent, "_load_agent_state"),
        (BaseAgent, "_create_agent_state_event"),
        (LlmAgent, "_run_async_impl"),
    ]
    for owner, name in names:
        if not callable(getattr(owner, name, None)):
            raise CompileError(
                f"The installed google-adk has no {owner.__name__}.{name}, which adk-fluent needs. "
                "Use a google-adk release that adk-fluent supports (>=1.25,<3)."
            )


probe()
