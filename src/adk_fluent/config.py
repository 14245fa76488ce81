"""How a pipeline is run: limits, streaming, resumability, compaction, telemetry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, Protocol, cast

from adk_fluent._lazy import listing
from adk_fluent.errors import ArgumentError

STREAMING_MODES = ("none", "sse")
CONTRACT_MODES = ("log", "error", "off")


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf


def _json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return isinstance(value, Mapping | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig:
    """When ADK summarises old events; see ADK's `EventsCompactionConfig`.

    The model of the first agent in the expression writes the summaries.

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
        numbers = (("interval", 1), ("overlap", 0), ("token_threshold", 1), ("event_retention_size", 0))
        for name, least in numbers:
            value = getattr(self, name)
            if not (_whole(value, least) or (value is None and name not in ("interval", "overlap"))):
                raise ArgumentError(
                    f"CompactionConfig({name}={value!r}): it is a whole number, at least {least}."
                )
        if (self.token_threshold is None) != (self.event_retention_size is None):
            raise ArgumentError("CompactionConfig: give token_threshold and event_retention_size together.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """What is told of runs through OpenTelemetry: ADK's spans, with what adk-fluent adds, and metrics.

    A provider that the application has set is kept; exporters are added to it. Without one, a provider is set
    when there is something to export to: one of these exporters, or what `OTEL_EXPORTER_OTLP_ENDPOINT` names.
    It is set up when an expression is first compiled with this configuration.

    Attributes:
        trace_to_cloud: send spans to Google Cloud Trace, with the credentials that Google's libraries find.
        capture_content: put what is said to and by models on the spans. ADK keeps it in environment variables
            on 1.x, so for the whole process: only if every configuration there asks for it. A variable that
            is set already wins.
        custom_exporters: OpenTelemetry span exporters, span processors, metric readers or metric exporters.
        enable_cost_metrics: say what model calls cost: `adk_fluent.cost_usd` on spans, and the metric
            `adk_fluent.llm.cost`, for models whose price is known.

    Raises:
        ArgumentError: a value is of the wrong kind.

    Example:
        >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        >>> spans = InMemorySpanExporter()
        >>> config = ExecutionConfig(telemetry=TelemetryConfig(custom_exporters=[spans]))
    """

    trace_to_cloud: bool = False
    capture_content: bool = False
    custom_exporters: Sequence[object] = ()
    enable_cost_metrics: bool = True

    def __post_init__(self) -> None:
        for name in ("trace_to_cloud", "capture_content", "enable_cost_metrics"):
            if not isinstance(value := getattr(self, name), bool):
                raise ArgumentError(f"TelemetryConfig({name}={value!r:.60}): it is True or False.")
        given = self.custom_exporters
        if not isinstance(given, list | tuple):
            raise ArgumentError(
                f"TelemetryConfig(custom_exporters={given!r:.60}): it is a list of exporters."
            )
        for each in given:
            if isinstance(each, type) or not any(hasattr(each, method) for method in _EXPORTING):
                raise ArgumentError(
                    f"TelemetryConfig(custom_exporters=): {each!r:.60} is no exporter, such as "
                    "ConsoleSpanExporter()."
                )
        object.__setattr__(self, "custom_exporters", tuple(given))


_EXPORTING = ("export", "on_end", "collect")
"""What an exporter, a span processor and a metric reader are known by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCacheConfig:
    """When a provider caches the unchanging part of requests; see ADK's `ContextCacheConfig`.

    Attributes:
        cache_intervals: runs that use one cache before it is made anew; 1 to 100.
        ttl_seconds: seconds that a cache is kept.
        min_tokens: tokens that a request has before it is cached.
    """

    cache_intervals: int = 10
    ttl_seconds: int = 1800
    min_tokens: int = 0

    def __post_init__(self) -> None:
        for name, least in (("cache_intervals", 1), ("ttl_seconds", 1), ("min_tokens", 0)):
            value = getattr(self, name)
            most = 100 if name == "cache_intervals" else inf
            if not _whole(value, least) or value > most:
                limit = f" and at most {most}" if most != inf else ""
                raise ArgumentError(
                    f"ContextCacheConfig({name}={value!r}): it is a whole number, at least {least}{limit}."
                )


class _CacheSettings(Protocol):
    """The settings that our `ContextCacheConfig` and ADK's have in common."""

    @property
    def cache_intervals(self) -> int: ...
    @property
    def ttl_seconds(self) -> int: ...
    @property
    def min_tokens(self) -> int: ...


def _caching(given: Any) -> Any:
    """Ours for a `ContextCacheConfig` of ADK's; anything else as it is.

    Raises:
        ArgumentError: it has HTTP options, which ours cannot hold.
    """
    kind: type[object] = type(cast(object, given))
    if kind.__name__ != "ContextCacheConfig" or not kind.__module__.startswith("google.adk."):
        return given
    if getattr(given, "create_http_options", None) is not None:
        raise ArgumentError(
            "ExecutionConfig(context_cache=...): create_http_options cannot be kept here. Leave it out, or "
            "set context_cache_config on the App that to_app() gives."
        )
    return ContextCacheConfig(
        cache_intervals=given.cache_intervals, ttl_seconds=given.ttl_seconds, min_tokens=given.min_tokens
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=True)
class ExecutionConfig:
    """How a pipeline is run.

    Attributes:
        app_name: the ADK app's name; a Python identifier.
        max_llm_calls: model calls allowed in one run, 500 by default; ADK raises when they are used up.
        timeout_seconds: seconds one run may work; then `AgentTimeoutError` is raised. What the program does
            with the events of a stream takes none of them, nor does storing them.
        streaming_mode: `sse` gives partial events as the model generates, `none` only whole ones; by default
            `stream` uses `sse` and everything else `none`.
        resumable: whether a run can pause and go on later, even in another process; by default it can when
            the expression holds a gate or a tool that asks for confirmation.
        compaction: when old events are summarised.
        context_cache: when a provider caches the unchanging part of requests (Gemini does); ADK's own
            `ContextCacheConfig` is taken, too.
        contracts: what making an app does with what the contract check finds: `log` it, once, on the logger
            `adk_fluent.contracts`; raise `ContractError` for an `error`; or `off`. By default it is logged,
            and a run in a new session that must fail for want of a key raises `UnfilledKeyError`, which is
            a `ContractError`, before it begins.
        custom_metadata: JSON-able data that ADK puts on every event of the run.
        telemetry: what is told of the run through OpenTelemetry; by default nothing but what ADK tells.
        durable: `local` keeps what happens in the folder `.adk-fluent`, so that a run goes on after a crash
            of this process, when the same session and prompt are run again; needs the extra `durable-local`.
        tools_in_threads: whether tools that are not async are called in threads, so that one that blocks does
            not stop other runs; `T.fn(f, in_thread=False)` says it of one tool.

    Raises:
        ArgumentError: a value is out of range.
    """

    app_name: str = "adk_fluent_app"
    max_llm_calls: int = 500
    timeout_seconds: float | None = None
    streaming_mode: Literal["none", "sse"] | None = None
    resumable: bool | None = None
    compaction: CompactionConfig | None = None
    context_cache: ContextCacheConfig | _CacheSettings | None = None
    contracts: Literal["log", "error", "off"] | None = None
    custom_metadata: Mapping[str, Any] | None = None
    telemetry: TelemetryConfig | None = None
    durable: Literal["local"] | None = None
    tools_in_threads: bool = True

    def __post_init__(self) -> None:
        name, seconds = self.app_name, self.timeout_seconds
        named = isinstance(name, str) and name.isidentifier() and name != "user"  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        self._check("app_name", named, "ADK wants a Python identifier, not 'user'")
        self._check("max_llm_calls", _whole(self.max_llm_calls, 1), "it is a positive whole number")
        self._check("timeout_seconds", seconds is None or _positive(seconds), "it is a positive number")
        modes = (None, *STREAMING_MODES)
        live = ", or begin a live conversation with .live()" * (str(self.streaming_mode).lower() == "bidi")
        choice = f"choose one of {STREAMING_MODES}{live}"
        self._check("streaming_mode", self.streaming_mode in modes, choice)
        self._check("contracts", self.contracts in (None, *CONTRACT_MODES), f"choose one of {CONTRACT_MODES}")
        self._check("durable", self.durable in (None, "local"), "it is 'local' or None")
        self._check("tools_in_threads", isinstance(self.tools_in_threads, bool), "it is True or False")  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
        self._check("resumable", self.resumable in (None, True, False), "it is True, False or None")
        compaction = isinstance(self.compaction, CompactionConfig | None)  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
        self._check("compaction", compaction, "it is a CompactionConfig")
        telemetry = isinstance(self.telemetry, TelemetryConfig | None)  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
        self._check("telemetry", telemetry, "it is a TelemetryConfig")
        object.__setattr__(self, "context_cache", _caching(self.context_cache))
        caching = isinstance(self.context_cache, ContextCacheConfig | None)
        self._check("context_cache", caching, "it is a ContextCacheConfig")
        self._check("custom_metadata", _json(self.custom_metadata), "it is a mapping that JSON can hold")

    def _check(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise ArgumentError(f"ExecutionConfig({name}={getattr(self, name)!r:.60}): {rule}.")

    def __hash__(self) -> int:
        metadata = json.dumps(self.custom_metadata, sort_keys=True, default=repr)
        return hash((self.app_name, self.max_llm_calls, self.timeout_seconds, self.resumable, metadata))


def execution_config(given: object) -> ExecutionConfig:
    """The configuration given, or the default one for `None`.

    Raises:
        ArgumentError: it is something else.
    """
    if given is None:
        return ExecutionConfig()
    if not isinstance(given, ExecutionConfig):
        raise ArgumentError(f"config= takes an ExecutionConfig, not {type(given).__name__} {given!r:.40}.")
    return given


def __dir__() -> list[str]:
    return listing(__name__)
