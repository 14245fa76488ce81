"""Between ADK's values and ours: prompts, events, configuration."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.context_cache_config import ContextCacheConfig as AdkContextCacheConfig
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode  # pyright: ignore[reportPrivateImportUsage]  # its public home on every supported version
from google.adk.apps.app import EventsCompactionConfig, ResumabilityConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.events.event import Event
from google.genai import types

from adk_fluent.analysis.visibility import VISIBILITY
from adk_fluent.backends.adk.events.approvals import pending_in
from adk_fluent.backends.adk.events.signals import failure, told_text
from adk_fluent.backends.adk.steps.tree import below
from adk_fluent.backends.events import AgentEvent, ToolCallInfo, ToolResponseInfo
from adk_fluent.backends.spending import usage_of
from adk_fluent.backends.turns import EMPTY, no_prompt
from adk_fluent.config import CompactionConfig, ContextCacheConfig, ExecutionConfig
from adk_fluent.cost.prices import CACHED, COST
from adk_fluent.errors import AnswerError, ArgumentError, CompileError
from adk_fluent.ir.base import Node
from adk_fluent.ir.nodes import agent_of
from adk_fluent.state.answers import answer_type
from adk_fluent.telemetry.setup import of_a_run

Prompt = Any
"""Text, a `Content`, a `Part`, or a list of texts and parts."""


def to_content(prompt: Prompt) -> types.Content:
    """A user message of whatever the caller gave.

    Raises:
        ArgumentError: it is empty, or nothing a message can hold.
    """
    if isinstance(prompt, types.Content):
        message = prompt
    else:
        items = cast("Sequence[object]", prompt) if isinstance(prompt, list | tuple) else [prompt]
        message = types.Content(role="user", parts=[_part(item) for item in items])
    if all(part in _NOTHING for part in message.parts or ()):
        raise ArgumentError(EMPTY)
    return message


def check_prompt(root: Node, message: types.Content) -> None:
    """Refuse a prompt in text that is not what the agent at the root accepts; ADK's versions differ in that.

    Raises:
        ArgumentError: it is not JSON of that type.
    """
    schema = root.given.get("input_schema")
    texts = [part.text for part in message.parts or ()]
    if not agent_of(root) or schema is None or None in texts:
        return
    text = "".join(map(str, texts))
    try:
        answer_type(schema).parse(text, root.name)
    except AnswerError as error:
        raise ArgumentError(
            f"Agent {root.name!r} accepts {answer_type(schema).name}, and the prompt {text!r:.60} is none: "
            f"{error.reason} Give it as JSON, or leave out .accepts()."
        ) from error


_NOTHING: Final = (types.Part(), types.Part(text=""))


def _part(item: object) -> types.Part:
    if isinstance(item, str):
        return types.Part(text=item)
    if isinstance(item, types.Part):
        return item
    raise no_prompt(item)


def to_agent_event(
    event: Event, session_id: str = "", models: Mapping[str, str] = MappingProxyType({})
) -> AgentEvent:
    """An ADK event of a session as an `AgentEvent`; the ADK event stays reachable as `.raw`.

    Args:
        models: agent → its model, for responses that do not name theirs.
    """
    actions = event.actions
    parts = (event.content.parts if event.content else None) or []
    calls = event.get_function_calls()
    others = tuple(
        p for p in parts if p.inline_data or p.file_data or p.executable_code or p.code_execution_result
    )
    text = told_text(event) or None
    usage = None if (event.custom_metadata or {}).get(CACHED) else event.usage_metadata
    metadata = dict(event.custom_metadata or {})
    model = event.model_version or (models.get(event.author) if usage is not None else None)
    return AgentEvent(
        author=event.author,
        content=text,
        # While streaming, ADK shares the final event's actions with its partial ones.
        state_delta={} if event.partial else dict(actions.state_delta),
        artifact_delta=dict(actions.artifact_delta),
        transfer_to=actions.transfer_to_agent,
        escalate=bool(actions.escalate),
        tool_calls=[ToolCallInfo(c.name or "", dict(c.args or {}), c.id or "") for c in calls],
        tool_responses=[
            ToolResponseInfo(r.name or "", r.response, r.id or "") for r in event.get_function_responses()
        ],
        # To ADK, what only writes state or asks a person is a final response, too.
        is_final=event.is_final_response() and (text is not None or bool(others)),
        is_partial=bool(event.partial),
        end_of_agent=bool(actions.end_of_agent),
        agent_state=actions.agent_state,
        metadata=metadata,
        timestamp=event.timestamp,
        id=event.id,
        invocation_id=event.invocation_id,
        parts=others,
        branch=event.branch,
        model=model,
        usage=None if usage is None else usage_of(usage, model or "", metadata.get(COST)),
        error=failure(event),
        pending=pending_in(event),
        visibility=metadata.get(VISIBILITY, "user"),
        session_id=session_id,
        input_transcription=event.input_transcription and event.input_transcription.text,
        output_transcription=event.output_transcription and event.output_transcription.text,
        turn_complete=bool(event.turn_complete),
        interrupted=bool(event.interrupted),
        raw=event,
    )


def run_config(config: ExecutionConfig, *, streaming: bool = False) -> RunConfig:
    """ADK's `RunConfig` for a configuration; `streaming` is what an unset mode means here."""
    mode = config.streaming_mode or ("sse" if streaming else "none")
    telemetry = of_a_run(config.telemetry)
    more: dict[str, Any] = {} if telemetry is None else {"telemetry": telemetry}
    return RunConfig(
        max_llm_calls=config.max_llm_calls,
        streaming_mode=StreamingMode.SSE if mode == "sse" else StreamingMode.NONE,
        custom_metadata=dict(config.custom_metadata) if config.custom_metadata else None,
        **more,
    )


@contextmanager
def knowingly() -> Generator[None]:
    """Silence ADK's warning that something is experimental, where we or the caller chose it on purpose."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*EXPERIMENTAL.*", category=UserWarning)
        yield


def resumability() -> ResumabilityConfig:
    """ADK's switch for pausing and going on."""
    with knowingly():
        return ResumabilityConfig(is_resumable=True)


def context_cache(config: ContextCacheConfig) -> AdkContextCacheConfig:
    """ADK's settings for caching by a provider."""
    with knowingly():
        return AdkContextCacheConfig(
            cache_intervals=config.cache_intervals,
            ttl_seconds=config.ttl_seconds,
            min_tokens=config.min_tokens,
        )


def compaction(config: CompactionConfig, root: BaseAgent) -> EventsCompactionConfig:
    """ADK's compaction settings for a tree of agents; ADK itself finds a model only when its root has one.

    Raises:
        CompileError: there is no agent with a model in it.
    """
    writer = next((agent for agent in below(root) if isinstance(agent, LlmAgent)), None)
    if writer is None:
        raise CompileError(
            f"{root.name!r}: ExecutionConfig(compaction=) needs an agent with a model, and there is none."
        )
    with knowingly():
        return EventsCompactionConfig(
            summarizer=LlmEventSummarizer(llm=writer.canonical_model),
            compaction_interval=config.interval,
            overlap_size=config.overlap,
            token_threshold=config.token_threshold,
            event_retention_size=config.event_retention_size,
        )
