"""Asking an agent again, when its answer is not of the type that it returns, or a tool wants another call.

A wrong answer never becomes content of an event, so that no other agent and no user takes it for an answer.
Its event says so in its metadata, and keeps what the call used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.schemas import is_model
from adk_fluent.backends.adk.events.signals import failure, spoken_text
from adk_fluent.backends.adk.middleware.stack import stack_of
from adk_fluent.backends.events import PREFACE
from adk_fluent.errors import (
    AnswerError,
    AskAgain,
    RunError,
    StateKeyError,
    StateTypeError,
    ToolError,
    sentence,
)
from adk_fluent.middleware.retrying import Retry
from adk_fluent.middleware.tracing import span_event
from adk_fluent.state.answers import answer_type
from adk_fluent.state.fidelity import type_text
from adk_fluent.state.field_types import fault

Events = AsyncGenerator[Event, None]

WRONG_ANSWER: Final = "adk_fluent.wrong_answer"
"""Metadata of the event of an answer that was not of the type: what is wrong, and which attempt it was."""

MISFITS: Final = (AnswerError, StateKeyError, StateTypeError)
"""What is raised for an answer that is not of the type, or does not have the fields that it writes."""

_EVENT: Final = "__adk_fluent_event__"
_ASKED: Final = "_adk_fluent_asked"
_TOOL_ASKS: Final = "ask_again"


# --- answers --------------------------------------------------------------------------------------


def with_prefaces(run: Events, agent: LlmAgent) -> Events:
    """The events of a run in which each answer names the events before it whose words begin it.

    Those are words beside calls of tools and beside code, where ADK puts them in front of what it stores of
    the answer under the agent's `output_key`.
    """
    return _prefaced(run, agent.name) if private.keeps_all_text() and _may_call(agent) else run


def _may_call(agent: LlmAgent) -> bool:
    return bool(cast(Any, agent).tools or agent.code_executor or agent.sub_agents)


async def _prefaced(run: Events, name: str) -> Events:
    said: list[str] = []
    async with aclosing(run) as events:
        async for event in events:
            if event.author == name and not event.partial and spoken_text(event):
                if said and event.is_final_response():
                    event.custom_metadata = {**(event.custom_metadata or {}), PREFACE: [*said]}
                said.append(event.id)
            yield event


@dataclass(slots=True)
class Asked:
    """What one run of an agent knows of its wrong answers.

    Attributes:
        agent: the name of the agent.
        retries: how often it is asked again at most because of its own declaration.
        takes_none: whether no answer is one, too.
        wrong: the corrections so far: where in the request each stands, and what it consists of.
        length: the contents of the latest request, without the corrections.
        by_tool: what was wrong with an answer that was given by a tool.
        refused: how many answers were wrong.
    """

    agent: str
    retries: int
    takes_none: bool
    wrong: list[tuple[int, list[types.Content]]] = field(
        default_factory=list["tuple[int, list[types.Content]]"]
    )
    length: int = 0
    by_tool: AnswerError | None = None
    refused: int = 0

    def correct(self, answer: str, reason: str) -> None:
        """Have the next request show an answer, and what is wrong with it."""
        said = [types.Content(role="model", parts=[types.Part(text=answer)])] if answer.strip() else []
        told = f"Your answer does not fit: {sentence(reason)} Answer again, correctly."
        self.wrong.append((self.length, [*said, types.Content(role="user", parts=[types.Part(text=told)])]))

    def told_by_tool(self, error: AnswerError) -> None:
        """Count an answer by a tool with which ADK found something wrong, and told the model what.

        ADK would go on so for ever. An agent without retries has one, too, since ADK asks it again.

        Raises:
            AnswerError: no attempt is left.
        """
        self.refused += 1
        if self.refused > max(self.retries, 1):
            raise error


def asked_of(ctx: InvocationContext) -> Asked | None:
    """What the run of the agent at hand knows of its wrong answers; `None` where it is not asked again."""
    return ctx.__dict__.get(_ASKED)


class Corrections:
    """Shows a model its wrong answers of this run, each where it belongs, with the reasons."""

    name = "adk_fluent_corrections"

    async def run_async(self, invocation_context: InvocationContext, llm_request: LlmRequest) -> Events:
        """Add them to a request."""
        if (asked := asked_of(invocation_context)) is not None:
            asked.length = len(llm_request.contents)
            for position, contents in reversed(asked.wrong):
                llm_request.contents[position:position] = contents
        return
        yield  # an async generator needs one


def of_event(error: RunError, event: Event) -> RunError:
    """The error, which knows the event of the answer that it is about."""
    BaseException.__setattr__(error, _EVENT, event)
    return error


async def until_it_fits(run: Callable[[], Events], ctx: InvocationContext, asked: Asked) -> Events:
    """The events of an agent, asked again while its answers are not of the type.

    With `retries`, chunks of an answer are held until it is known to fit.

    Args:
        run: asks the agent.

    Raises:
        AnswerError: no attempt is left.
    """
    object.__setattr__(ctx, _ASKED, asked)
    while True:
        chunks, has_streamed, has_answered = list[Event](), False, asked.takes_none
        last: Event | None = None
        try:
            async with aclosing(run()) as events:
                async for event in events:
                    if event.partial and event.author == asked.agent:
                        has_streamed = has_streamed or bool(spoken_text(event))
                        if asked.retries:
                            chunks.append(event)
                            continue
                    if _is_answer(event, asked.agent):
                        has_answered = has_answered or bool(spoken_text(event).strip())
                        if not has_answered and asked.refused < asked.retries:
                            reason = "It is empty."
                            raise of_event(AnswerError(reason, agent=asked.agent, reason=reason), event)
                    for chunk in chunks:
                        yield chunk
                    chunks.clear()
                    last = event
                    yield event
            return
        except MISFITS as error:
            wrong = cast("Event | None", error.__dict__.pop(_EVENT, None))
            by_tool = asked.by_tool is error
            if not by_tool and (wrong is None or wrong.author != asked.agent):
                raise
            if asked.refused >= await _attempts(ctx, asked, error, streamed=has_streamed):
                raise
            refused = _refused(asked, last if by_tool else wrong, error, by_tool=by_tool)
        yield refused


def _is_answer(event: Event, agent: str) -> bool:
    """Whether an event is what a model ends with: not a call, a result, or a failure."""
    if event.author != agent or event.partial or event.content is None or failure(event):
        return False
    acts = event.get_function_calls() or event.get_function_responses()
    return event.is_final_response() and not acts


async def _attempts(ctx: InvocationContext, asked: Asked, error: Exception, *, streamed: bool) -> int:
    """How often the agent may be asked again in all: by `retries`, or by a `retry` around its model."""
    most = asked.retries
    if not streamed:  # `retry` repeats nothing of which the user has read the beginning
        for hook in stack_of(ctx).of("around_model"):
            if isinstance(hook.middleware, Retry):
                most = max(most, await hook.middleware.again_after(error))
    return most


def _refused(asked: Asked, event: Event | None, error: RunError, *, by_tool: bool) -> Event:
    """What takes the place of a wrong answer: its event without it, or the result of its tool."""
    assert event is not None
    asked.refused += 1
    reason = sentence(getattr(error, "reason", "") or str(error))
    # Without the reason, which may quote the answer: content is for the event alone.
    span_event(WRONG_ANSWER, {"agent": asked.agent, "attempt": asked.refused})
    note = {WRONG_ANSWER: {"reason": reason, "attempt": asked.refused}}
    if not by_tool:
        asked.correct(spoken_text(event), reason)
        metadata = {**(event.custom_metadata or {}), **note}
        return event.model_copy(update={"content": None, "custom_metadata": metadata})
    results = [
        types.FunctionResponse(id=call.id, name=call.name, response={"error": reason})
        for call in event.get_function_calls()
    ]
    return Event(
        invocation_id=event.invocation_id,
        author=event.author,
        branch=event.branch,
        content=types.Content(role="user", parts=[types.Part(function_response=one) for one in results]),
        custom_metadata=note,
    )


# --- answers by a tool ----------------------------------------------------------------------------


class JsonAnswers:
    """Makes the tool by which an agent with tools gives its answer speak JSON.

    ADK lets a model call it that cannot be asked for a schema and offered tools at once, and then writes what
    it was called with as JSON, which it cannot do with the dates and numbers that it made of it.
    """

    name = "adk_fluent_json_answers"

    async def run_async(
        self, invocation_context: InvocationContext, llm_request: LlmRequest
    ) -> AsyncGenerator[Event, None]:
        """Change the tool, if the request has it."""
        tool = llm_request.tools_dict.get("set_model_response")
        if isinstance(tool, SetModelResponseTool):
            cast(Any, tool).run_async = _in_json(tool, cast(Any, invocation_context.agent).name)
        return
        yield  # an async generator needs one


@cache
def _tells_the_model() -> bool:
    """Whether ADK itself gives a model that answers by a tool what is wrong with its answer."""
    return "set_model_response" in EventActions.model_fields


def _in_json(tool: SetModelResponseTool, agent: str) -> Any:
    given = tool.run_async

    async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
        asked = asked_of(private.invocation(tool_context))
        try:
            answer = to_jsonable_python(await given(args=args, tool_context=tool_context))
        except ValidationError as error:  # newer ADKs tell the model, and ask again
            wrong = _misfit(tool, agent, args, error)
            if asked is not None:
                asked.by_tool = wrong
            raise wrong from error
        if getattr(tool_context.actions, "set_model_response", None) is not None:
            cast(Any, tool_context.actions).set_model_response = answer
        elif asked is not None and _tells_the_model():
            asked.told_by_tool(_wrong(tool, agent, args) or AnswerError(str(answer), agent=agent))
        return answer

    return run_async


def _misfit(
    tool: SetModelResponseTool, agent: str, args: dict[str, Any], error: ValidationError
) -> AnswerError:
    """The error for an answer by a tool."""
    expected, reason = type_text(cast(object, tool.output_schema)), f"{fault(error, args)}."
    said = f"{agent!r} answered {args!r:.80}, which is not a {expected}: {reason}"
    return AnswerError(said, agent=agent, reason=reason)


def _wrong(tool: SetModelResponseTool, agent: str, args: dict[str, Any]) -> AnswerError | None:
    """What is wrong with an answer by a tool, which ADK has told the model in many lines."""
    schema: Any = tool.output_schema
    value = args if is_model(schema) else next(iter(args.values()), None)
    try:
        answer_type(schema).adapter.validate_python(value)
    except ValidationError as error:
        return _misfit(tool, agent, args, error)
    return None


# --- tools ----------------------------------------------------------------------------------------


def tool_asks(
    tool: object, args: dict[str, Any], tool_context: object, error: Exception
) -> dict[str, Any] | None:
    """What a model gets as the result of a tool that raised `AskAgain`: an error callback of ADK's."""
    return {_TOOL_ASKS: error.reason, "retries": error.retries} if isinstance(error, AskAgain) else None


async def within_bounds(run: Events, agent: str, retries: int) -> Events:
    """The events of an agent whose tools may ask again, each so often in a row.

    Args:
        retries: how often they may at least.

    Raises:
        ToolError: a tool asked again once more.
    """
    asking = Counter[str]()
    async with aclosing(run) as events:
        async for event in events:
            yield event
            results = event.get_function_responses() if event.author == agent else []
            asks = {str(one.name): found for one in results if (found := _asks(one.response))}
            for name in {str(one.name) for one in results}:
                asking[name] = asking[name] + 1 if name in asks else 0
                if name in asks and asking[name] > (bound := max(retries, asks[name][1])):
                    raise ToolError(
                        f"Agent {agent!r}: its tool {name!r} asked again {asking[name]} times in a row, and "
                        f"may do so {bound}: {sentence(asks[name][0])} Allow more with "
                        "AskAgain(reason, retries=...), or let the tool return what is wrong."
                    )


def _asks(response: Any) -> tuple[str, int] | None:
    if not isinstance(response, dict):
        return None
    held = cast("dict[str, Any]", response)
    return (str(held[_TOOL_ASKS]), int(held["retries"])) if held.keys() == {_TOOL_ASKS, "retries"} else None
