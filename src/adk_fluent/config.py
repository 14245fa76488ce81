"""Configuration of runs: limits, streaming, resumability, compaction, caching and telemetry."""

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
    """Conditions under which ADK summarises old events; see ADK's `EventsCompactionConfig`.

    The model of the first agent in the expression writes the summaries.

    Attributes:
        interval: number of invocations between two summaries.
        overlap: number of invocations that two summaries share.
        token_threshold: summarise when a request has more tokens than this; needs `event_retention_size`.
        event_retention_size: number of newest events that are never summarised; needs `token_threshold`.
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
    """Spans and metrics of runs through OpenTelemetry: ADK's spans, and the attributes that adk-fluent adds.

    If the application has set a provider, the exporters are added to it. Otherwise a provider is set if there
    is an exporter: one of `custom_exporters`, or the server that `OTEL_EXPORTER_OTLP_ENDPOINT` names. This
    happens when an expression is first compiled with this configuration.

    Attributes:
        trace_to_cloud: send spans to Google Cloud Trace, with the credentials that Google's libraries find.
        capture_content: put the text of requests and responses on the spans. On ADK 1.x this switch is an
            environment variable of the whole process: it is set only if every configuration in the process
            asks for it, and a variable that is set already wins.
        custom_exporters: OpenTelemetry span exporters, span processors, metric readers or metric exporters.
        enable_cost_metrics: record the cost of model calls, in USD, for models whose price is known: as
            `adk_fluent.cost_usd` on spans, and as the metric `adk_fluent.llm.cost`.

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
"""The methods by which an exporter, a span processor and a metric reader are recognized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCacheConfig:
    """Conditions under which a provider caches the constant part of requests; see ADK's `ContextCacheConfig`.

    Attributes:
        cache_intervals: number of runs that use one cache before a new one is made; 1 to 100.
        ttl_seconds: lifetime of a cache in seconds.
        min_tokens: least number of tokens of a request that is cached.
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
    """Convert ADK's `ContextCacheConfig` into ours; return any other value unchanged.

    Raises:
        ArgumentError: ADK's configuration has HTTP options, which ours cannot hold.
    """
    kind: type[object] = type(cast(object, given))
    if kind.__name__ != "ContextCacheConfig" or not kind.__module__.startswith("google.adk."):
        return given
    if getattr(given, "create_http_options", None) is not None:
        raise ArgumentError(
            "ExecutionConfig(context_cache=...): create_http_options cannot be set here. Leave it out, or "
            "set context_cache_config on the App that to_app() returns."
        )
    return ContextCacheConfig(
        cache_intervals=given.cache_intervals, ttl_seconds=given.ttl_seconds, min_tokens=given.min_tokens
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=True)
class ExecutionConfig:
    """Settings of a run, as `run(config=)` and the other terminals take them.

    Attributes:
        app_name: the ADK app's name; a Python identifier.
        max_llm_calls: most model calls of one run, 500 by default; ADK raises an error at the next call.
        timeout_seconds: time limit of one run in seconds; beyond it `AgentTimeoutError` is raised. The time
            in which the program handles the events of a stream, or a store writes them, does not count.
        streaming_mode: `sse` yields partial events while the model generates, `none` only whole events. By
            default `stream` uses `sse` and every other terminal `none`.
        resumable: True if a run can pause and continue later, even in another process. By default it can if
            the expression holds a gate or a tool that asks for confirmation.
        compaction: conditions under which ADK summarises old events.
        context_cache: conditions under which a provider caches the constant part of requests (Gemini does);
            ADK's own `ContextCacheConfig` is accepted, too.
        contracts: use of the contract check's findings when an app is built. `log` writes each once to the
            logger `adk_fluent.contracts`; `error` raises `ContractError` for an error; `off` ignores them.
            By default they are logged, and a run in a new session that must fail because a state key is
            missing raises `UnfilledKeyError`, which is a `ContractError`, before it begins.
        custom_metadata: JSON-able data that ADK puts on every event of the run.
        telemetry: spans and metrics of the run; by default only ADK's own.
        durable: `local` stores each effect in the folder `.adk-fluent`. If this process crashes, run the same
            session and prompt again, and the run continues. It needs the extra `durable-local`.
        tools_in_threads: True (the default) if tools that are not async are called in threads, so that a tool
            that blocks does not stop other runs. `T.fn(f, in_thread=False)` sets it for one tool.

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
        self._check("app_name", named, "ADK requires a Python identifier other than 'user'")
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
    """Return `given`, or the default configuration for `None`.

    Raises:
        ArgumentError: `given` is something else.
    """
    if given is None:
        return ExecutionConfig()
    if not isinstance(given, ExecutionConfig):
        raise ArgumentError(f"config= takes an ExecutionConfig, not {type(given).__name__} {given!r:.40}.")
    return given


def __dir__() -> list[str]:
    return listing(__name__)
