"""Types at run time: writes keep to the schema that is bound, and functions give what ADK takes of them."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from typing import Any, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import ValidationError

from adk_fluent.backends.adk.context.functions import resolved
from adk_fluent.backends.adk.resources import BEHIND
from adk_fluent.backends.answering import strayed
from adk_fluent.errors import AnswerError, CallbackError, StateKeyError, StepError
from adk_fluent.ir.state_keys import StateFieldRef
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.answers import answer_type
from adk_fluent.state.fidelity import check_storable, type_text
from adk_fluent.state.field_types import fault, field_type, misfit_of
from adk_fluent.state.schema import StateSchema


async def keeping_to(
    schema: type[StateSchema] | None, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """The events, unchanged, as long as every session store holds what they write, and the schema fits.

    Raises:
        StateKeyError: a session key is written that the schema does not declare.
        StateTypeError: a value is not of the type that the schema declares, or a store cannot hold it.
    """
    async with aclosing(events) as checked:
        async for event in checked:
            if (delta := event.actions.state_delta) and not event.partial:
                check_storable(delta, f"Agent {event.author!r} wrote")
                if schema is not None:
                    check_writes(schema, event.author, delta)
            yield event


def check_writes(schema: type[StateSchema], agent: str, delta: Mapping[str, Any]) -> None:
    """Refuse what an agent writes that does not fit the schema; keys of other scopes may be undeclared.

    Raises:
        StateKeyError: a session key that the schema does not declare.
        StateTypeError: a value that is not of the type that the schema declares.
    """
    for key, value in delta.items():
        field = _by_key(schema).get(key)
        if field is None:
            if ":" not in key and not key.startswith("_"):  # ADK keeps its own books under such names
                raise StateKeyError(
                    f"Agent {agent!r} wrote state key {key!r}, which {schema.__name__} does not declare."
                    f"{did_you_mean(key, _by_key(schema))} Declare it there, or write another key."
                )
        elif value is not None:
            field_type(field).load(value, misfit_of(agent))


@lru_cache(maxsize=256)
def _by_key(schema: type[StateSchema]) -> Mapping[str, StateFieldRef]:
    return {field.key: field for field in schema.fields().values()}


def answering(
    functions: Sequence[Callable[..., Any]], agent: str, hook: str, kind: type[types.Content | LlmResponse]
) -> list[Callable[..., Awaitable[Any]]]:
    """The callbacks of an agent, which raise a `CallbackError` if they give what ADK cannot use."""
    return [_answering(function, agent, hook, kind) for function in functions]


def _answering(
    function: Callable[..., Any], agent: str, hook: str, kind: type[types.Content | LlmResponse]
) -> Callable[..., Awaitable[Any]]:
    async def call(*args: Any, **arguments: Any) -> Any:
        given: Any = await resolved(function(*args, **arguments))
        usable = isinstance(cast(object, given), (kind, Mapping))  # of a mapping, ADK makes an object
        if given and not usable:
            raise CallbackError(
                f"Agent {agent!r}: its {hook} callback {_name_of(function)!r} returned {_shown(given)}, "
                f"which is no {kind.__name__}. Return one, or None."
            )
        return given

    setattr(call, BEHIND, function)
    return call


def instruction_text(given: object, function: object, agent: str, part: str = "instruction") -> str:
    """What a function gave as an instruction.

    Raises:
        StepError: it is no text.
    """
    if isinstance(given, str):
        return given
    raise StepError(
        f"Agent {agent!r}: the function {_name_of(function)!r} of its {part} returned {_shown(given)}, "
        "which is no text. Return a str."
    )


def unpromised(agent: BaseAgent, author: str, error: ValidationError) -> AnswerError | None:
    """The error for an answer of ADK's `AgentTool` that is not of the type that its agent promises.

    Args:
        agent: the agent of the tool.
        author: who gave the answer: the agent, or one below it.
        error: what ADK raised.
    """
    above = agent
    while not isinstance(above, LlmAgent) and above.sub_agents:  # as ADK finds what the tool returns
        above = above.sub_agents[-1]
    promised: Any = getattr(above, "output_schema", None)
    if promised is None:
        return None
    if author != above.name:
        given = getattr(agent.find_agent(author), "output_schema", None)
        below = above.find_sub_agent(author) is not None
        what = f"handed over to {author!r}" if below else f"{author!r} had the last word"
        remedy = f"Give {author!r} the output_schema {answer_type(promised).name}, too."
        if (absent := strayed(above.name, promised, what, given, remedy)) is not None:
            return absent.error()
    return wrong_answer(author, promised, error)


def wrong_answer(agent: str, schema: object, error: ValidationError) -> AnswerError:
    """The error for an answer that ADK itself checked, and found not to be of the type its agent promises."""
    given: object = error.errors()[0]["input"]
    reason = f"{fault(error, given)}."
    said = f"{agent!r} answered {given!r:.80}, which is not a {type_text(schema)}: {reason}"
    return AnswerError(said, agent=agent, reason=reason)


def behind(function: Any) -> Any:
    """The function of the user for which another one, or a part of it, stands."""
    while True:
        if isinstance(function, functools.partial):
            function = cast("functools.partial[Any]", function).func
        elif (user := getattr(function, BEHIND, None)) is not None:
            function = user
        else:
            return function


def _name_of(function: object) -> str:
    function = behind(function)
    return str(getattr(function, "__name__", type(function).__name__))


def _shown(given: object) -> str:
    return "None" if given is None else f"{given!r:.40} ({type(given).__name__})"
