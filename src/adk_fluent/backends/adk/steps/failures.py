"""Who failed: a step, a tool, a model, named in one line, with the error itself as the cause.

Inside a run a tool's or model's error stays what it is, so that fallbacks, callbacks, plugins and ADK's own
retries see it as they would without us. It only carries a note of where it came from, and our runner tells.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from google.adk.agents.callback_context import CallbackContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai.errors import APIError
from pydantic_core import to_json

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.middleware.stack import hook_error
from adk_fluent.errors import (
    ADKFluentError,
    MissingKeyError,
    ModelError,
    PredicateError,
    RunError,
    StepError,
    ToolError,
    sentence,
    what_happened,
)
from adk_fluent.ir.matching import AbsentKey, StateView, Unordered, missing

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
class Place:
    """Where an error came from.

    Attributes:
        agent: the agent whose tool, model or other part it was.
        tool: the name of the tool.
        model: the name of the model.
        part: what else of the agent it was.
    """

    agent: str
    tool: str = ""
    model: str = ""
    part: str = ""


_NOTE: Final = "__adk_fluent_place__"


def note(error: BaseException, place: Place) -> None:
    """Write on an error where it came from."""
    BaseException.__setattr__(error, _NOTE, place)  # also where its own class refuses, as a frozen one does


@contextmanager
def noting(place: Place) -> Generator[None]:
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
        note(error, Place(callback_context.agent_name, model=llm_request.model or ""))

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> None:
        """Note the agent and its tool; of an agent that is a tool, what failed inside it is told."""
        if not (isinstance(tool, AgentTool) and hasattr(error, _NOTE)):
            note(error, Place(tool_context.agent_name, tool=tool.name))


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
def naming_failures() -> Generator[None]:
    """Make one line of what was noted on an error; one without a note passes as it is.

    Raises:
        ToolError: a tool raised; the message names it and its agent.
        StepError: a function in an agent's instruction raised.
        ModelError: a model raised; the message names its agent and says what can be done.
        ADKFluentError: a hook of a middleware raised.
    """
    try:
        yield
    except ADKFluentError:
        raise
    except Exception as error:
        if (raised := hook_error(error)) is not None:
            raise raised from raised.__cause__
        place: Place | None = getattr(error, _NOTE, None)
        if place is None:
            raise
        raise _named(error, place) from error


def _named(error: Exception, place: Place) -> RunError:
    told = sentence(what_happened(error))
    if place.tool:
        return ToolError(f"Agent {place.agent!r}: its tool {place.tool!r} raised {told}")
    if place.part:
        return StepError(f"Agent {place.agent!r}: its {place.part} raised {told}")
    return ModelError(
        f"Agent {place.agent!r} got no answer from its model {place.model!r}: {_refusal(error, place)}"
    )


def _refusal(error: Exception, place: Place) -> str:
    """What a provider said, and what to do about it."""
    code = getattr(error, "code", None) or getattr(error, "status_code", None)  # Google's, and others'
    text = " ".join(str(error).split())
    if isinstance(error, ValueError) and ("API key was provided" in text or "Missing key inputs" in text):
        return f"there is no API key. {NO_KEY}"
    said = f"{code} {error.status}: {error.message}" if isinstance(error, APIError) else what_happened(error)
    return f"{sentence(said)} {_advice(code, text, place)}".rstrip()


NO_KEY: Final = (
    "Set GOOGLE_API_KEY, or GOOGLE_GENAI_USE_VERTEXAI with a project and a location. To try it without a "
    "model, pass backend=mock_backend({...}) of adk_fluent.testing."
)


def _advice(code: object, text: str, place: Place) -> str:
    if code == 429:
        return "Wait and try again, or use another model or key."
    if code == 404 or f"Model {place.model} not found" in text:
        return f"Check the name of the model in Agent({place.agent!r}, ...)."
    if code in (401, 403) or "API key not valid" in text:
        return "Check the key, and whether it may use this model."
    if isinstance(code, int) and code >= 500:
        return "Try again later; a second model after // takes over meanwhile."
    return ""
