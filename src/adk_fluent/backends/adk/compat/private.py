"""The only place where underscore names of ADK are used; each with its reason and a probe.

`probe()` runs when the backend is first imported and fails loudly, naming what moved, instead of letting a
later run go wrong quietly.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import CodeType
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService
from google.adk.tools import function_tool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.genai.types import FunctionDeclaration
from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

from adk_fluent.backends.adk.compat.code_executors import in_threads
from adk_fluent.errors import CompileError
from adk_fluent.inspection.presentation import DEFAULT

AgentStateT = TypeVar("AgentStateT", bound=BaseModel)
"""A checkpoint. ADK only dumps and validates it, so it need not derive from ADK's experimental base class."""


def load_state(agent: BaseAgent, ctx: InvocationContext, state_type: type[AgentStateT]) -> AgentStateT | None:
    """Where `agent` was when its run paused; ADK offers no public reader for checkpoints."""
    return cast("AgentStateT | None", cast(Any, agent)._load_agent_state(ctx, state_type))


def checkpoint(agent: BaseAgent, ctx: InvocationContext, state: BaseModel) -> Event:
    """The event that stores where `agent` is; ADK offers no public constructor for it."""
    ctx.set_agent_state(agent.name, agent_state=cast(Any, state))
    return cast(Event, cast(Any, agent)._create_agent_state_event(ctx))


def finished(agent: BaseAgent, ctx: InvocationContext) -> Event:
    """The event that stores that `agent` has ended."""
    ctx.set_agent_state(agent.name, end_of_agent=True)
    return cast(Event, cast(Any, agent)._create_agent_state_event(ctx))


class Checkpoint(BaseModel):
    """A checkpoint of any agent, whatever it holds; ADK 1.x has an object of its own for an empty one."""

    model_config: ClassVar[ConfigDict] = ConfigDict(from_attributes=True)


def resumes_below(agent: LlmAgent, ctx: InvocationContext) -> bool:
    """Whether a resumed model agent only hands on to the sub-agent that paused, which ADK does not tell."""
    if load_state(agent, ctx, Checkpoint) is None:
        return False
    return cast(Any, agent)._get_subagent_to_resume(ctx) is not None


def run_llm(agent: LlmAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
    """`LlmAgent`'s own loop of model and tool calls, which our subclass runs after its checks."""
    return LlmAgent._run_async_impl(agent, ctx)  # pyright: ignore[reportPrivateUsage]  # see the docstring


def run_remote(agent: BaseAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
    """What ADK's agent for a remote one does, run as a part of ours.

    Its public `run_async` would tell plugins and spans of an agent of the same name inside the agent.
    """
    return agent._run_async_impl(ctx)  # pyright: ignore[reportPrivateUsage]  # see the docstring


def made_with(agent: BaseAgent) -> tuple[str | None, float, tuple[str, ...]]:
    """The URL of ADK's agent for a remote one, its timeout in seconds, and what else it was made with.

    ADK keeps these under private names alone. One made with nothing else tells what is not the default; where
    a name has moved, the URL is not found, and the agent is left as it is.
    """
    held = vars(agent)
    url, seconds = held.get("_agent_card_source"), held.get("_timeout")
    if not isinstance(url, str) or not isinstance(seconds, int | float):
        return None, 0.0, ()
    made = cast(object, cast(Any, type(agent))(name=agent.name, agent_card=url, timeout=seconds))
    plain = cast("dict[str, object]", vars(made))
    other = [name for name in held if name.startswith("_") and held[name] != plain.get(name)]
    return url, seconds, tuple(name.lstrip("_") for name in other)


def run_scripted(name: str, model: BaseLlm, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
    """What a model of a test says in place of a remote agent; for the same reason not by `run_async`."""
    agent = LlmAgent(name=name, model=model)
    return run_llm(agent, ctx.model_copy(update={"agent": agent}))


def invocation(ctx: ReadonlyContext | InvocationContext) -> InvocationContext:
    """The invocation behind a read-only context, which alone knows the branch and the artifact service.

    Some releases give the invocation itself where a read-only context is declared, as for live tools.
    """
    return vars(ctx).get("_invocation_context", ctx)  # asked for often, and `isinstance` would cost more


def written(ctx: ReadonlyContext) -> Mapping[str, Any]:
    """What callbacks have written to the state by a context of a call, which older ADKs keep private."""
    actions = getattr(ctx, "_event_actions", None)
    return {} if actions is None else actions.state_delta


def model_calls(ctx: InvocationContext) -> int:
    """How many models a run has asked; ADK counts for itself alone."""
    return cast(int, cast(Any, ctx)._invocation_cost_manager._number_of_llm_calls)


def set_model_calls(ctx: InvocationContext, count: int) -> None:
    """Let a run have asked so many models."""
    cast(Any, ctx)._invocation_cost_manager._number_of_llm_calls = count


def caller(ctx: InvocationContext) -> InvocationContext | None:
    """The run of the agent whose tool this run is; `None` for one that a program started.

    ADK's `AgentTool` runs its agent in a session of its own, which only its artifacts lead out of.
    """
    tool_context = getattr(ctx.artifact_service, "__dict__", _NONE).get("tool_context")  # of no class
    return None if tool_context is None else invocation(tool_context)


_NONE: Final[Mapping[str, Any]] = {}


@cache
def tells_failures() -> bool:
    """Whether plugins are told that a run failed; from 2.x on they are."""
    return hasattr(BasePlugin, "on_run_error_callback")


@cache
def keeps_all_text() -> bool:
    """Whether an agent's `output_key` also gets the text that stands beside calls of tools; from 2.x on."""
    return hasattr(LlmAgent, "_LlmAgent__maybe_accumulate_streaming_output")


def handing_over(ctx: InvocationContext) -> Callable[[Event], Awaitable[None]] | None:
    """What hands an event to a runner that alone stores what comes of a graph or a root agent; else `None`.

    A node's own way is to give it out, with itself as the author; ADK has no public one for an event of
    somebody else.
    """
    if getattr(ctx, "_event_queue", None) is None:
        return None
    return cast("Callable[[Event], Awaitable[None]]", cast(Any, ctx)._enqueue_event)


_CHOOSERS = ("_get_llm", "_BaseLlmFlow__get_llm")  # the second as older ADKs mangle it


def choose_model(flow: Any, choose: Callable[[BaseLlm, InvocationContext], BaseLlm]) -> None:
    """Let `choose` say, right before each call, what is called in place of the agent's model.

    ADK asks the agent for its model in many places, mostly to learn what it can do, and offers no public hook
    for the one where it calls it.
    """
    name, waits = _chooser(cast("type[object]", type(flow)))
    original = getattr(flow, name)

    def get(ctx: InvocationContext) -> BaseLlm:
        return choose(original(ctx), ctx)

    async def get_async(ctx: InvocationContext) -> BaseLlm:
        return choose(await original(ctx), ctx)

    setattr(flow, name, get_async if waits else get)


@cache
def _chooser(flow: type[object]) -> tuple[str, bool]:
    """What ADK calls the method of a flow that gives the model to call, and whether it is async."""
    name = next(name for name in _CHOOSERS if hasattr(flow, name))
    return name, inspect.iscoroutinefunction(getattr(flow, name))


class Processor(Protocol):
    """A step of ADK's request assembly."""

    def run_async(
        self, invocation_context: InvocationContext, llm_request: LlmRequest
    ) -> AsyncGenerator[Event, None]:
        """Do its part of a request."""
        ...


class AssemblingAgent(LlmAgent):
    """ADK's `LlmAgent`, whose contents can be assembled, and whose answers stored, in another way.

    ADK offers no public hook between its own assembly of the conversation and what is built on it: plugins,
    planners, code executors and tools that add to the request. Nor is there one where it stores an answer, be
    it from a model, a callback or a live run.
    """

    def assembler(self) -> Callable[[Processor], Processor] | None:
        """What makes, of ADK's step, the one that assembles the conversation; `None` leaves it to ADK."""
        return None

    def called(self, model: BaseLlm, ctx: InvocationContext) -> BaseLlm:
        """What is called in place of a model."""
        return model

    def finishers(self) -> Sequence[Processor]:
        """What has the last word on a request, before its tools are added."""
        return ()

    def keep(self, event: Event) -> None:
        """Write to an event's state what it answers, beside what ADK writes."""

    def check(self, event: Event) -> None:
        """Check what a callback answers in its place."""

    async def _handle_before_agent_callback(self, ctx: InvocationContext) -> Event | None:
        return self._checked(await super()._handle_before_agent_callback(ctx))

    async def _handle_after_agent_callback(self, invocation_context: InvocationContext) -> Event | None:
        return self._checked(await super()._handle_after_agent_callback(invocation_context))

    def _checked(self, event: Event | None) -> Event | None:
        if event is not None and event.content is not None:
            self.check(event)
        return event

    def _LlmAgent__maybe_save_output_to_state(self, event: Event) -> None:  # as ADK mangles it
        cast(Any, super())._LlmAgent__maybe_save_output_to_state(event)
        self.keep(event)

    def _validate_output_data(self, data: Any) -> Any:
        """What a graph hands on of an answer, as JSON types: ADK writes nothing else as an input."""
        return to_jsonable_python(cast(Any, super())._validate_output_data(data))

    @property
    def _llm_flow(self) -> Any:
        flow: Any = cast(Any, LlmAgent)._llm_flow.fget(self)
        if (assembler := self.assembler()) is not None:
            position = _contents_position(flow.request_processors)
            flow.request_processors[position] = assembler(flow.request_processors[position])
            # Where ADK looks for a server-side conversation only after the contents, it must not find one.
            flow.request_processors.append(Stateless())
        flow.request_processors.extend((HandOvers(), *self.finishers()))
        if self.code_executor is not None:
            flow.response_processors = in_threads(flow.response_processors)
        choose_model(flow, self.called)
        return flow


class HandOvers:
    """Lets a model that hands over to an agent which is not there know the agents that are.

    ADK tells the model the names, and raises only after the call. Its own search decides; it is private.
    """

    name = "adk_fluent_hand_overs"

    async def run_async(
        self, invocation_context: InvocationContext, llm_request: LlmRequest
    ) -> AsyncGenerator[Event, None]:
        """Change the tool that hands over, if the request has it."""
        tool = llm_request.tools_dict.get("transfer_to_agent")
        if isinstance(tool, TransferToAgentTool):
            names: list[str] = vars(tool)["_agent_names"]
            cast(Any, tool).run_async = _among(tool.run_async, names, invocation_context)
        return
        yield  # an async generator needs one


def _among(
    hand_over: Callable[..., Awaitable[Any]], names: Sequence[str], ctx: InvocationContext
) -> Callable[..., Awaitable[Any]]:
    async def run_async(*, args: dict[str, Any], tool_context: Any) -> Any:
        wanted = args.get("agent_name")
        if wanted is not None and wanted not in names:
            try:
                cast(Any, ctx.agent)._llm_flow._get_agent_to_run(ctx, wanted)
            except ValueError:
                told = ", ".join(map(repr, names))
                return {"error": f"There is no agent {wanted!r} to hand over to. There are: {told}."}
        return await hand_over(args=args, tool_context=tool_context)

    return run_async


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
def stores_what_plugins_give() -> bool:
    """Whether ADK stores the event that a plugin gives back, rather than the one it was given."""
    return hasattr(Runner, "_get_output_event")


@cache
def counts_tokens() -> bool:
    """Whether ADK measures the tokens of model calls, which nothing public tells; it began to in 2.x."""
    try:
        from google.adk.telemetry import _metrics
    except ImportError:
        return False
    return hasattr(_metrics, "record_client_token_usage")


async def through_plugins(ctx: InvocationContext, event: Event) -> Event:
    """What ADK's runner would store of an event, which it would show to the plugins first.

    The runner does this with events it is given; those of a branch that may yet lose never get there.
    """
    if not stores_what_plugins_give():
        return event
    given = await ctx.plugin_manager.run_on_event_callback(invocation_context=ctx, event=event)
    if given is None or given is event:
        return event
    kept = given.model_fields_set - {"id", "invocation_id", "timestamp"}
    return event.model_copy(update={"author": event.author, **{name: getattr(given, name) for name in kept}})


def _words(of: object) -> Iterator[str]:
    """Yield the names and texts in the byte code of a function or of a class's functions; needs no source."""
    if isinstance(of, type):
        for value in vars(of).values():
            yield from _words(value)
        return
    code = of if isinstance(of, CodeType) else getattr(inspect.unwrap(cast(Any, of)), "__code__", None)
    if code is None:
        return
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _words(constant)


@cache
def merges_dicts(service: type[BaseSessionService]) -> bool:
    """Whether a kind of session service merges a stored dict with a new one, as ADK's for SQLite once did.

    Its class is not imported here: it needs a package that a user of other services may not have.
    """
    return service.__name__ == "SqliteSessionService" and any(
        "json_patch" in word for word in _words(service)
    )


def sqlite_file(service: BaseSessionService) -> str | None:
    """The SQLite file in which a session service keeps its sessions; `None` for any other service.

    ADK offers no public way to ask. The classes are not imported here: they need packages that a user of
    other services may not have.
    """
    kinds = {each.__name__ for each in type(service).__mro__}
    path: object = None
    if "SqliteSessionService" in kinds:
        path = getattr(service, "_db_path", None)
    elif "DatabaseSessionService" in kinds:
        url = getattr(getattr(service, "db_engine", None), "url", None)
        path = getattr(url, "database", None) if str(url).startswith("sqlite") else None
    return path if isinstance(path, str) and path not in ("", ":memory:") else None


@cache
def clears_branches() -> bool:
    """Whether ADK takes an empty branch of a node's event for none, and `None` for that of the event before.

    ADK offers no public way to ask; its versions before 2 have no nodes at all.
    """
    try:
        from google.adk.workflow._node_runner import NodeRunner
    except ImportError:
        return False
    stamping = getattr(NodeRunner, "_enrich_event", None)
    return stamping is not None and "" in _words(stamping)


def keep_no_tools(toolset: BaseToolset) -> None:
    """Let a toolset be asked for its tools each time; newer ADKs keep them for a run, with no public way."""
    if hasattr(toolset, "_use_invocation_cache"):
        cast(Any, toolset)._use_invocation_cache = False


@cache
def drops_failing_toolsets() -> bool:
    """Whether ADK goes on without the tools of a toolset that raises; it has no public way to ask."""
    from google.adk.agents import llm_agent

    listing = getattr(llm_agent, "_convert_tool_union_to_tools", None)
    return listing is not None and "Exception" in _words(listing)


def confirmation_of(tool: FunctionTool) -> bool | Callable[..., Any]:
    """Whether a person must approve the calls of a function; ADK keeps it private."""
    return cast(Any, getattr(tool, "_require_confirmation", False))


def forget_tools(toolset: BaseToolset) -> None:
    """Let a toolset that was closed be asked for its tools again.

    Newer ADKs keep the tools for the run that asked for them, and a run that waited for a person is the same
    one when it goes on: it would get tools of a connection that is closed.
    """
    for name in ("_cached_invocation_id", "_cached_prefixed_tools"):
        if hasattr(toolset, name):
            setattr(toolset, name, None)


def declaration(tool: BaseTool) -> FunctionDeclaration | None:
    """What a model is told of a tool, which ADK adds to a request after all else."""
    return tool._get_declaration()  # pyright: ignore[reportPrivateUsage]  # no public name


def keeps_functions() -> bool:
    """Whether this release keeps the functions that it has declared, with all that they hold."""
    return hasattr(function_tool, "_build_declaration_cached")


def declare_like(tool: FunctionTool, original: FunctionTool, hidden: Sequence[str] = ()) -> None:
    """Let a tool declare to the model exactly what ADK declares of another one.

    ADK reads the documentation and types of a function in a way that no object in its place can imitate.
    Where it cannot read the other one, the tool declares its own function.

    Args:
        hidden: parameters that are not declared.
    """
    if hidden:
        original = copy.copy(original)
        vars(original)["_ignore_params"] = [*vars(original).get("_ignore_params", ()), *hidden]
    tool.name, tool.description = original.name, original.description
    own = tool._get_declaration  # pyright: ignore[reportPrivateUsage]  # no public name

    def declared() -> FunctionDeclaration | None:
        try:
            return declaration(original)
        except Exception:  # noqa: BLE001  # whatever ADK's parsing raises
            return own()

    vars(tool)["_get_declaration"] = declared


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
        (BaseAgent, "_run_async_impl"),
        (BaseAgent, "_load_agent_state"),
        (BaseAgent, "_create_agent_state_event"),
        (LlmAgent, "_run_async_impl"),
        (LlmAgent, "_LlmAgent__maybe_save_output_to_state"),
        (LlmAgent, "_get_subagent_to_resume"),
        (LlmAgent, "_handle_before_agent_callback"),
        (LlmAgent, "_handle_after_agent_callback"),
        (BaseTool, "_get_declaration"),
    ]
    if hasattr(LlmAgent, "_run_impl"):  # where agents can be nodes of a graph
        names += [(LlmAgent, "_validate_output_data"), (InvocationContext, "_enqueue_event")]
    if hasattr(LlmAgent, "set_default_model"):
        names.append((LlmAgent, DEFAULT))
    for owner, name in names:
        require(owner, name)

    if "_invocation_cost_manager" not in InvocationContext.__private_attributes__:
        raise CompileError(
            "The installed google-adk counts model calls in a way that adk-fluent does not know. "
            "Use a google-adk release that adk-fluent supports (>=1.25,<3)."
        )


def misfit(response: Mapping[str, Any], schema: object) -> ValueError | None:
    """Why ADK refuses an answer to its question; 1.x, which asks none, and releases without schemas do not.

    ADK has no public way to check it before the run goes on; then it is too late to answer again.
    """
    try:
        found: Any = import_module("google.adk.workflow.utils._rehydration_utils")
        unwrap, validate = found._unwrap_response, found._validate_resume_response
    except (ImportError, AttributeError):
        return None
    try:
        validate(unwrap(dict(response)), schema)
    except ValueError as error:
        return error.__cause__ if isinstance(error.__cause__, ValueError) else error
    return None


def require(owner: type, name: str) -> None:
    """Check that a class of ADK's has a private name.

    Raises:
        CompileError: it has not.
    """
    if getattr(owner, name, None) is None:
        raise CompileError(
            f"The installed google-adk has no {owner.__name__}.{name}, which adk-fluent needs. "
            "Use a google-adk release that adk-fluent supports (>=1.25,<3)."
        )


def _assembles() -> bool:
    try:
        flow: Any = cast(Any, LlmAgent)._llm_flow.fget(LlmAgent(name="probe", model="none"))
        _contents_position(flow.request_processors)
        assert any(hasattr(flow, name) for name in _CHOOSERS)
        assert hasattr(flow, "_get_agent_to_run")
        assert "_agent_names" in vars(TransferToAgentTool([]))
    except (AssertionError, AttributeError, ValueError):
        return False
    return True


probe()
