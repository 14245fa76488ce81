"""The only place where underscore names of ADK are used; each with its reason and a probe.

`probe()` runs when the backend is first imported and fails loudly, naming what moved, instead of letting a
later run go wrong quietly.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable
from functools import cache
from typing import Any, Protocol, TypeVar, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.sessions import BaseSessionService
from google.adk.tools.base_toolset import BaseToolset
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


def invocation(ctx: ReadonlyContext) -> InvocationContext:
    """The invocation behind a read-only context, which alone knows the branch and the artifact service."""
    return ctx._invocation_context  # pyright: ignore[reportPrivateUsage]  # no public name


class Processor(Protocol):
    """A step of ADK's request assembly."""

    def run_async(
        self, invocation_context: InvocationContext, llm_request: LlmRequest
    ) -> AsyncGenerator[Event, None]:
        """Do its part of a request."""
        ...


class AssemblingAgent(LlmAgent):
    """ADK's `LlmAgent`, whose contents can be assembled in another way.

    ADK offers no public hook between its own assembly of the conversation and what is built on it: plugins,
    planners, code executors and tools that add to the request.
    """

    def assembler(self) -> Callable[[Processor], Processor] | None:
        """What makes, of ADK's step, the one that assembles the conversation; `None` leaves it to ADK."""
        return None

    @property
    def _llm_flow(self) -> Any:
        flow: Any = cast(Any, LlmAgent)._llm_flow.fget(self)
        if (assembler := self.assembler()) is not None:
            position = _contents_position(flow.request_processors)
            flow.request_processors[position] = assembler(flow.request_processors[position])
            # Where ADK looks for a server-side conversation only after the contents, it must not find one.
            flow.request_processors.append(Stateless())
        return flow


class Stateless:
    """Makes a request say everything itself, instead of leaning on what a server remembers."""

    name = "adk_fluent_stateless"

    async def run_async(
        self, invocation_context: InvocationContext, llm_request: LlmRequest
    ) -> AsyncGenerator[Event, None]:
        """Forget the server-side conversation."""
        forget_interaction(llm_request)
        return
        yield  # an async generator needs one


def forget_interaction(request: LlmRequest) -> None:
    """Make a request independent of what a server remembers; older ADKs have no such memory."""
    if getattr(request, "previous_interaction_id", None) is not None:
        cast(Any, request).previous_interaction_id = None


def _contents_position(processors: list[Any]) -> int:
    names = [type(processor).__name__ for processor in processors]
    return names.index("_ContentLlmRequestProcessor")


@cache
def keeps_temporary() -> bool:
    """Whether ADK itself puts the `temp:` keys of an event into the state of the running session."""
    return hasattr(BaseSessionService, "_apply_temp_state")


@cache
def merges_dicts(service: type[BaseSessionService]) -> bool:
    """Whether a kind of session service merges a stored dict with a new one, as ADK's for SQLite once did.

    Its class is not imported here: it needs a package that a user of other services may not have.
    """
    return service.__name__ == "SqliteSessionService" and "json_patch" in inspect.getsource(service)


def forget_tools(toolset: BaseToolset) -> None:
    """Let a toolset that was closed be asked for its tools again.

    Newer ADKs keep the tools for the run that asked for them, and a run that waited for a person is the same
    one when it goes on: it would get tools of a connection that is closed.
    """
    for name in ("_cached_invocation_id", "_cached_prefixed_tools"):
        if hasattr(toolset, name):
            setattr(toolset, name, None)


def asks_for_confirmation(tool: object) -> bool:
    """Whether an ADK tool may stop for a person; ADK keeps the flag private."""
    return bool(getattr(tool, "is_long_running", False) or getattr(tool, "_require_confirmation", False))


def probe() -> None:
    """Check that every private name used above is there.

    Raises:
        CompileError: one is missing in the installed google-adk.
    """
    context = ReadonlyContext(cast(Any, None))
    if not hasattr(context, "_invocation_context") or not _assembles():
        raise CompileError(
            "The installed google-adk assembles requests in a way that adk-fluent does not know. "
            "Use a google-adk release that adk-fluent supports (>=1.25,<3)."
        )
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


def _assembles() -> bool:
    try:
        flow: Any = cast(Any, LlmAgent)._llm_flow.fget(LlmAgent(name="probe", model="none"))
        _contents_position(flow.request_processors)
    except (AttributeError, ValueError):
        return False
    return True


probe()
