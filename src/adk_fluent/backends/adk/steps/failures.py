"""Errors that name what failed in one line, with the original error as the cause.

Inside a run the error of a tool, model or callback stays what it is, so that fallbacks, callbacks, plugins
and ADK's own retries see it as they would without us. Our runner names its source: from a note on the error,
or from the functions in its traceback.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Mapping
from contextlib import aclosing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from traceback import walk_tb
from types import CodeType
from typing import Any, Final

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext, LlmCallsLimitExceededError
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.planners.base_planner import BasePlanner
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import BaseSessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai.errors import APIError
from google.genai.types import FunctionResponse
from pydantic import ValidationError
from pydantic_core import to_json

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.middleware.stack import hook_error
from adk_fluent.backends.adk.steps.typed import behind, unpromised, wrong_answer
from adk_fluent.backends.events import RAISED
from adk_fluent.errors import (
    ADKFluentError,
    AnswerError,
    CallbackError,
    MissingKeyError,
    ModelError,
    PredicateError,
    RunError,
    StepError,
    ToolError,
    on_one_line,
    sentence,
    what_happened,
)
from adk_fluent.ir.predicates import AbsentKey, StateView, Unordered, missing
from adk_fluent.state.fidelity import type_text

Events = AsyncGenerator[Event, None]

# --- steps ----------------------------------------------------------------------------------------


@contextmanager
def in_step(step: str, state: StateView) -> Generator[None]:
    """Name the step in which a user's function raises; our own errors pass as they are.

    Raises:
        MissingKeyError: the function asked for a key that the state does not hold.
        PredicateError: a comparison could not be made.
        StepError: it raised anything else.
    """
    try:
        yield
    except ADKFluentError:
        raise
    except Unordered as error:
        raise PredicateError(f"Step {step!r} cannot test its condition: {error}") from error
    except AbsentKey as error:
        raise MissingKeyError(f"Step {step!r} {missing(error, state)}") from error
    except Exception as error:
        raise StepError(f"Step {step!r} raised {sentence(what_happened(error))}") from error


# --- tools and models -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ErrorSource:
    """Where an error came from.

    Attributes:
        agent: the agent whose tool, model or other part it was.
        tool: the name of the tool.
        model: the name of the model.
        part: what else of the agent it was.
        plugin: the name of the plugin.
        called: the callback of ADK's that raised, or the object whose method did.
        answer: what is wrong with the answer of the agent that the tool is.
    """

    agent: str
    tool: str = ""
    model: str = ""
    part: str = ""
    plugin: str = ""
    called: str = ""
    answer: AnswerError | None = None


_NOTE: Final = "__adk_fluent_place__"


def note(error: BaseException, place: ErrorSource) -> None:
    """Write on an error where it came from."""
    BaseException.__setattr__(error, _NOTE, place)  # also where its own class refuses, as a frozen one does


@contextmanager
def noting(place: ErrorSource) -> Generator[None]:
    """Write on an error that passes where it came from, unless that is written on it."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, _NOTE):
            note(error, place)
        raise


class FailureNotes(AddedPlugin):
    """Notes on an error whose tool or model raised it; it changes nothing else."""

    def __init__(self) -> None:
        super().__init__(name="adk_fluent_failures")

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        """Note the agent and its model."""
        note(error, ErrorSource(callback_context.agent_name, model=llm_request.model or ""))

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """Begin to listen to an agent that is a tool."""
        if isinstance(tool, AgentTool):
            _speakers.set([])

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:
        """Note who speaks inside a tool."""
        if event.content and (speakers := _speakers.get()) is not None:
            speakers.append(event.author)

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> None:
        """Note the agent and its tool; of an agent that is a tool, what failed inside it is told."""
        if not (isinstance(tool, AgentTool) and hasattr(error, _NOTE)):
            speakers, wrong = _speakers.get(), None
            if isinstance(tool, AgentTool) and speakers and isinstance(error, ValidationError):
                wrong = unpromised(tool.agent, speakers[-1], error)
            note(error, ErrorSource(tool_context.agent_name, tool=tool.name, answer=wrong))

    async def on_agent_error_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext, error: Exception
    ) -> None:
        """Note that an agent of this run raised; only ADK 2.x tells it, which alone runs an agent again."""
        if (raised := _raised.get()) is not None:
            raised.append(str(error))


_speakers: Final[ContextVar[list[str] | None]] = ContextVar("adk_fluent_speakers", default=None)
"""Who has spoken inside the agent that is a tool, and is being called here."""

_raised: Final[ContextVar[list[str] | None]] = ContextVar("adk_fluent_raised", default=None)
"""What the exceptions say that agents of the run at hand raised."""


def reported(event: Event, raised: Collection[str]) -> Event:
    """An error event, marked if it only reports an exception.

    ADK 2.x stores such an event when a root agent, or a node, raises. Then it raises the exception, or runs
    the agent again, if that has a `retry_config`.

    Args:
        raised: what the exceptions say that agents of the run raised.
    """
    if event.content or event.error_message not in raised:
        return event
    return event.model_copy(update={"custom_metadata": {**(event.custom_metadata or {}), RAISED: True}})


async def storable(events: Events) -> Events:
    """The events of an agent, whose tools must return what a session can store.

    ADK itself finds out when it stores the event, or the next model is asked, and says of neither who it was.

    Raises:
        ToolError: a tool returned something else.
    """
    async with aclosing(events) as run:
        async for event in run:
            for result in event.get_function_responses():
                try:
                    to_json(result.response)
                except ValueError as error:  # pydantic's own is one
                    raise ToolError(
                        f"Agent {event.author!r}: what its tool {result.name!r} returned cannot be stored: "
                        f"{sentence(what_happened(error))} Return text, numbers, lists, dicts or models."
                    ) from error
            yield event


@contextmanager
def naming_failures(root: str) -> Generator[Collection[str]]:
    """Make one line of an error, which names its source, or at least the agent that ran.

    It gives what the exceptions say that agents raised within, caught or not.

    Args:
        root: the name of the root agent, which is named where no agent ran yet.

    Raises:
        ToolError: a tool raised; the message names it and its agent.
        StepError: a function in an agent's instruction raised.
        ModelError: a model raised; the message names its agent and says what can be done.
        CallbackError: a callback, planner, code executor, toolset or plugin raised.
        RunError: anything else raised, such as ADK itself.
        ADKFluentError: a hook of a middleware raised.
    """
    raised: list[str] = []
    token = _raised.set(raised)
    try:
        yield raised
    except ADKFluentError:
        raise
    except Exception as error:  # whatever leaves a run is named
        if told := hook_error(error):
            raise told from told.__cause__
        cause = _of_plugin(error) or error
        if isinstance(cause, ADKFluentError):
            raise cause from cause.__cause__
        if (told := _told(error, cause, root)) is None:
            raise
        raise told from cause
    finally:
        with suppress(ValueError):  # closed by another task than the one that began
            _raised.reset(token)


def _of_store(error: Exception) -> bool:
    frames = walk_tb(error.__traceback__)
    return any(isinstance(frame.f_locals.get("self"), BaseSessionService) for frame, _ in frames)


def _of_plugin(error: Exception) -> Exception | None:
    """What a plugin raised, of which ADK makes a `RuntimeError`."""
    cause = error.__cause__ if isinstance(error, RuntimeError) else None
    return cause if isinstance(cause, Exception) and _plugin_in(cause) is not None else None


def _plugin_in(error: Exception) -> ErrorSource | None:
    for frame, _ in walk_tb(error.__traceback__):
        if isinstance(plugin := frame.f_locals.get("self"), BasePlugin):
            return ErrorSource("", plugin=plugin.name, called=frame.f_code.co_name)
    return None


def _told(error: Exception, cause: Exception, root: str) -> RunError | None:
    """The error that names where another one came from; `None` for a store's, which the runs name.

    Args:
        error: what left the run.
        cause: the same, or what a plugin raised.
        root: the name of the root agent.
    """
    noted: ErrorSource | None = getattr(error, _NOTE, None)
    found, at = _in_traceback(error, noted)
    agent = at.name if at else ""
    if isinstance(cause, ValidationError) and (told := _of_answer(cause, at)):
        return told
    if isinstance(cause, LlmCallsLimitExceededError):
        return RunError(
            f"Agent {agent or root!r} may not ask its model again: {sentence(on_one_line(cause))} Allow more "
            "with ExecutionConfig(max_llm_calls=...), or look why it calls so often."
        )
    if cause is not error and (plugin := _plugin_in(cause)) is not None:
        return _named(cause, replace(plugin, agent=agent))
    if noted is not None and noted.tool and agent not in ("", noted.agent):
        noted = None  # an agent inside the tool failed
    if (place := found or noted) is not None:
        return _named(cause, place)
    if cause is error and _of_store(error):
        return None
    whose = f"Agent {agent!r}" if agent else f"The run of {root!r}"
    if at is not None and isinstance(cause, TypeError) and (remedy := _uncallable(at, str(cause))):
        return CallbackError(f"{whose}: {remedy}")
    return RunError(f"{whose} raised {sentence(what_happened(cause))}")


_TOOL_CALL: Final = ("tool", "args", "tool_context")
_HOOKS: Final[Mapping[str, tuple[str, ...]]] = {
    "before_agent": ("callback_context",),
    "after_agent": ("callback_context",),
    "before_model": ("callback_context", "llm_request"),
    "after_model": ("callback_context", "llm_response"),
    "on_model_error": ("callback_context", "llm_request", "error"),
    "before_tool": _TOOL_CALL,
    "after_tool": (*_TOOL_CALL, "tool_response"),
    "on_tool_error": (*_TOOL_CALL, "error"),
}
"""The callbacks of an agent, each with the keyword arguments that ADK gives it."""
_FUNCTIONS: Final = {
    "canonical_instruction": "instruction",
    "canonical_global_instruction": "global instruction",
}
_OBJECTS: Final[tuple[tuple[type, str], ...]] = (
    (BasePlanner, "planner"),
    (BaseCodeExecutor, "code executor"),
    (BaseToolset, "toolset"),
)


def _of_answer(error: ValidationError, agent: BaseAgent | None) -> AnswerError | None:
    """The error for an answer that ADK itself checked, and found not to be what its agent promises."""
    schema: object = getattr(agent, "output_schema", None)
    if agent is None or schema is None or _packed(error.title) != _packed(type_text(schema)):
        return None
    return wrong_answer(agent.name, schema, error)


def _packed(name: str) -> str:
    return name.replace(" ", "")


def _in_traceback(error: Exception, noted: ErrorSource | None) -> tuple[ErrorSource | None, BaseAgent | None]:
    """The callback, or other part of an agent, in which an error arose, and the agent that ran.

    ADK gives a callback's error on as it is. The traceback has the frames of the agent's methods and of the
    callback; the innermost ones count, since agents run inside tools.

    Args:
        noted: what is written on the error; it counts where the frames of a tool or model are further in,
            as those of a callback are not that raises their error again.
    """
    agent: BaseAgent | None = None
    found: ErrorSource | None = None
    for frame, _ in walk_tb(error.__traceback__):
        owner, name = frame.f_locals.get("self"), frame.f_code.co_name
        if isinstance(owner, BaseAgent):
            found = found if owner is agent else None  # what runs inside a tool is not the tool
            agent = owner
        elif noted is not None and isinstance(owner, BaseTool | BaseLlm):
            found = None
        if agent is None:
            continue
        if (noted is None or noted.agent != agent.name) and (
            tool := _tool_of(owner, frame.f_code, frame.f_locals)
        ) is not None:
            found = ErrorSource(agent.name, tool=tool.name)
        if owner is agent and name in _FUNCTIONS:
            found = ErrorSource(agent.name, part=_FUNCTIONS[name])
        for kind, what in _OBJECTS:
            if isinstance(owner, kind):
                found = ErrorSource(agent.name, called=f"{what} {type(owner).__name__!r}")
        if hooks := _callbacks(agent, frame.f_code):
            found = ErrorSource(
                agent.name, called=f"{' or '.join(hooks)} callback {next(iter(hooks.values()))!r}"
            )
    return found, agent


def _tool_of(owner: object, code: CodeType, held: Mapping[str, object]) -> BaseTool | None:
    """The tool at work in a frame: its own method, or ADK's function that makes an event of its result."""
    if code.co_name.endswith("_build_response_event") and isinstance(tool := held.get("tool"), BaseTool):
        return tool
    return owner if isinstance(owner, BaseTool) else None


def _uncallable(agent: BaseAgent, said: str) -> str:
    """What is wrong with a callback that Python could not call; empty if every callback can be called.

    Args:
        agent: the agent that ran.
        said: the message of Python's error, which names the function.
    """
    for hook, names in _HOOKS.items():
        for function in getattr(agent, f"canonical_{hook}_callbacks", ()):
            called = behind(function)
            name = getattr(called, "__name__", type(called).__name__)
            if f"{name}()" in said and not _takes(called, names):
                return (
                    f"its {hook} callback {name!r} cannot be called. ADK gives it its arguments by name: "
                    f"write def {'callback' if name == '<lambda>' else name}({', '.join(names)})."
                )
    return ""


def _takes(function: Callable[..., Any], names: Iterable[str]) -> bool:
    """True if a function has parameters of these names; others may be resources."""
    try:
        parameters = signature(function).parameters
    except (TypeError, ValueError):  # a built-in without a signature
        return True
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return True
    return all(name in parameters and parameters[name].kind != Parameter.POSITIONAL_ONLY for name in names)


def _callbacks(agent: BaseAgent, code: CodeType) -> dict[str, str]:
    """The callbacks of an agent that this code belongs to: kind of callback → name of the function."""
    found: dict[str, str] = {}
    for hook in _HOOKS:
        for function in getattr(agent, f"canonical_{hook}_callbacks", ()):
            function = behind(function)
            called = function if hasattr(function, "__code__") else type(function).__call__
            if getattr(called, "__code__", None) is code:
                found[hook] = getattr(function, "__name__", type(function).__name__)
    return found


def _named(error: Exception, place: ErrorSource) -> RunError:
    if place.answer is not None:
        return place.answer
    told, whose = sentence(what_happened(error)), f"Agent {place.agent!r}: "
    if place.tool:
        if isinstance(error, ValidationError) and error.title == FunctionResponse.__name__:
            return ToolError(
                f"{whose}the result of its tool {place.tool!r} cannot be stored: a key of it is not text. "
                "Return a dict whose keys are text."
            )
        return ToolError(f"{whose}its tool {place.tool!r} raised {told}")
    if place.part:
        return StepError(f"{whose}its {place.part} raised {told}")
    if place.plugin:
        return CallbackError(
            f"{whose * bool(place.agent)}{place.called} of the plugin {place.plugin!r} raised {told}"
        )
    if place.called:
        return CallbackError(f"{whose}its {place.called} raised {told}")
    return ModelError(
        f"Agent {place.agent!r} got no answer from its model {place.model!r}: {_refusal(error, place)}"
    )


def _refusal(error: Exception, place: ErrorSource) -> str:
    """What a provider said, and what to do about it."""
    code = getattr(error, "code", None) or getattr(error, "status_code", None)  # Google's, and others'
    text = on_one_line(error)
    if isinstance(error, ValueError) and ("API key was provided" in text or "Missing key inputs" in text):
        return f"there is no API key. {NO_KEY}"
    said = f"{code} {error.status}: {error.message}" if isinstance(error, APIError) else what_happened(error)
    if isinstance(error, ImportError):
        advice = "Install the package of this model's provider."
    elif "Missing credentials" in text:
        advice = "Set the provider's key in the environment, such as OPENAI_API_KEY."
    else:
        advice = "" if _LACKS_PACKAGE.search(text) else _advice(code, text, place)
    return f"{sentence(said)} {advice}".rstrip()


_LACKS_PACKAGE: Final = re.compile(r"require the \w+ package\b.*Install it")
"""How ADK says that a model's name is fine, and the package of its provider is missing."""


NO_KEY: Final = (
    "Set GOOGLE_API_KEY, or GOOGLE_GENAI_USE_VERTEXAI with a project and a location. To try it without a "
    "model, pass backend=mock_backend({...}) of adk_fluent.testing."
)


def _advice(code: object, text: str, place: ErrorSource) -> str:
    if code == 429:
        return "Wait and try again, or use another model or key."
    if code == 404 or f"Model {place.model} not found" in text:
        return f"Check the name of the model in Agent({place.agent!r}, ...)."
    if code in (401, 403) or "API key not valid" in text:
        return "Check the key, and whether it may use this model."
    if isinstance(code, int) and code >= 500:
        return "Try again later; a second model after // takes over meanwhile."
    return ""
