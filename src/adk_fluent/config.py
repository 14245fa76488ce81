"""How a pipeline is run: limits, streaming, resumability, compaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from adk_fluent.errors import ArgumentError

STREAMING_MODES = ("none", "sse")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig:
    """When ADK summarises old events; see ADK's `EventsCompactionConfig`.

    Attributes:
        interval: invocations between two summaries.
        overlap: invocations that two summaries share.
        token_threshold: summarise when a prompt grows past this many tokens; needs `event_retention_size`.
        event_retention_size: events that are kept as they are; needs `token_threshold`.
    """

    interval: int = 10
    overlap: int = 2
    token_threshold: int | None = None
    event_retention_size: int | None = None

    def __post_init__(self) -> None:
        if (self.token_threshold is None) != (self.event_retention_size is None):
            raise ArgumentError("CompactionConfig: give token_threshold and event_retention_size together.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=True)
class ExecutionConfig:
    """How a pipeline is run.

    Attributes:
        app_name: the ADK app's name; a Python identifier.
        max_llm_calls: model calls allowed in one run, 500 by default; ADK raises when they are used up.
        timeout_seconds: seconds one run may take; then `AgentTimeoutError` is raised.
        streaming_mode: `sse` gives partial events as the model generates, `none` only whole ones; by default
            `stream` uses `sse` and everything else `none`.
        resumable: whether a run can pause and go on later, even in another process; by default it can when
            the expression holds a gate or a tool that asks for confirmation.
        compaction: when old events are summarised.
        custom_metadata: JSON-able data that ADK puts on every event of the run.

    Raises:
        ArgumentError: a value is out of range.
    """

    app_name: str = "adk_fluent_app"
    max_llm_calls: int = 500
    timeout_seconds: float | None = None
    streaming_mode: Literal["none", "sse"] | None = None
    resumable: bool | None = None
    compaction: CompactionConfig | None = None
    custom_metadata: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.app_name.isidentifier() or self.app_name == "user":
            raise ArgumentError(
                f"ExecutionConfig(app_name={self.app_name!r}): ADK wants a Python identifier, not 'user'."
            )
        if self.streaming_mode is not None and self.streaming_mode not in STREAMING_MODES:
            raise ArgumentError(
                f"ExecutionConfig(streaming_mode={self.streaming_mode!r}): choose one of {STREAMING_MODES}."
            )
        if self.timeout_seconds is not None and not self.timeout_seconds > 0:
            raise ArgumentError(
                f"ExecutionConfig(timeout_seconds={self.timeout_seconds!r}) must be positive."
            )

    def __hash__(self) -> int:
        metadata = json.dumps(self.custom_metadata, sort_keys=True, default=repr)
        return hash((self.app_name, self.max_llm_calls, self.timeout_seconds, self.resumable, metadata))
