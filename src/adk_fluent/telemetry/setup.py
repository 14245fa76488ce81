"""Exporters and environment variables that a `TelemetryConfig` asks for; what the application set is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.config import TelemetryConfig
from adk_fluent.errors import MissingExtraError, TelemetryError, install, what_happened

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.trace import SpanProcessor

_attached: list[object] = []
"""The exporters that spans and metrics go to already."""

_CLOUD: Final = "Google Cloud Trace"
_ours: dict[str, str] = {}
"""The environment variables that this module set."""

_OTLP: Final = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_{}_ENDPOINT"


def set_up(
    config: TelemetryConfig,
    tracing: Callable[[], Any] | None = None,
    measuring: Callable[[Any], Any] | None = None,
) -> None:
    """Do what a configuration says, as far as it is not done; expressions call it when they are compiled.

    Args:
        tracing: makes the provider of tracers, where the application has set none.
        measuring: makes the provider of meters out of OpenTelemetry's own; likewise.

    Raises:
        MissingExtraError: a package that exports is not installed.
        TelemetryError: the application's own provider cannot take an exporter, or there are no credentials
            for the cloud.
    """
    _capture(config.capture_content)
    new: list[object] = [
        each for each in config.custom_exporters if not any(each is known for known in _attached)
    ]
    processors = [found for each in new if (found := _processor_of(each)) is not None]
    readers = [found for each in new if (found := _reader_of(each)) is not None]
    if config.trace_to_cloud and _CLOUD not in _attached:
        processors += _to_cloud()
        new.append(_CLOUD)
    _trace_to(processors, tracing)
    _measure_to(readers, measuring)
    _attached.extend(new)


# --- what is on the spans -------------------------------------------------------------------------


def _capture(wanted: bool) -> None:
    """Say in the environment whether messages go on spans, unless the application says it there.

    No is stronger than yes: of two pipelines in a process, one that wants nothing captured must get that.
    """
    mode = "SPAN_AND_EVENT" if _asks_per_run() else "true"  # ADK 1.x knows no other words
    _say("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "true" if wanted else "false", off="false")
    _say("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", mode if wanted else "false", off="false")


def _say(name: str, value: str, off: str) -> None:
    current = os.environ.get(name)
    if current is None or (_ours.get(name) == current and value == off):
        os.environ[name] = _ours[name] = value


def _asks_per_run() -> bool:
    """Whether ADK lets each run say what is captured."""
    from google.adk.agents.run_config import RunConfig

    return "telemetry" in RunConfig.model_fields


def of_a_run(config: TelemetryConfig | None) -> object | None:
    """ADK's own telemetry settings of one run; `None` where ADK has none.

    The environment decides where the application speaks there, and is read once for the run: without settings
    ADK reads it for every span.
    """
    if not _asks_per_run():
        return None
    from google.adk.telemetry.context import ContentCapturingMode
    from google.adk.telemetry.context import TelemetryConfig as OfAdk

    if config is None or "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" not in _ours:
        return OfAdk()
    modes = ContentCapturingMode
    mode = modes.SPAN_AND_EVENT if config.capture_content else modes.NO_CONTENT
    return OfAdk(capture_message_content=mode)


# --- where spans go -------------------------------------------------------------------------------


def _trace_to(processors: Sequence[SpanProcessor], make: Callable[[], Any] | None) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    unset = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    if unset:
        processors = [*processors, *_by_environment("TRACES", _otlp_spans)]
    if not processors:
        return
    if unset:
        trace.set_tracer_provider((make or TracerProvider)())
    provider: Any = trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        raise TelemetryError(
            f"TelemetryConfig: this process traces with a {type(provider).__name__}, which takes no further "
            "exporter. Give it the exporter where the application makes it, and leave it out here."
        )
    for processor in processors:
        provider.add_span_processor(processor)


def _measure_to(readers: Sequence[MetricReader], around: Callable[[Any], Any] | None) -> None:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider

    provider = metrics.get_meter_provider()
    unset = "Proxy" in type(provider).__name__  # OpenTelemetry has no public name for it
    if unset:
        readers = [*readers, *_by_environment("METRICS", _otlp_metrics)]
    if not readers:
        return
    if not unset:
        raise TelemetryError(
            f"TelemetryConfig: this process measures with a {type(provider).__name__}, which takes readers "
            "only when it is made. Give it the reader there, and leave it out here."
        )
    provider = MeterProvider(metric_readers=readers)
    metrics.set_meter_provider(provider if around is None else around(provider))


def _by_environment(signal: str, make: Callable[[], Any]) -> list[Any]:
    """The exporter that OpenTelemetry's own variables name, where nobody has set a provider."""
    return [make()] if any(os.environ.get(name.format(signal)) for name in _OTLP) else []


# --- exporters ------------------------------------------------------------------------------------


def _processor_of(exporter: object) -> SpanProcessor | None:
    """What hands spans to an exporter: at once to one that only shows or keeps them, else in batches."""
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.export import (
        BatchSpanProcessor,
        ConsoleSpanExporter,
        SimpleSpanProcessor,
        SpanExporter,
    )
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    if isinstance(exporter, SpanProcessor):
        return exporter
    if isinstance(exporter, ConsoleSpanExporter | InMemorySpanExporter):
        return SimpleSpanProcessor(exporter)
    return BatchSpanProcessor(exporter) if isinstance(exporter, SpanExporter) else None


def _reader_of(exporter: object) -> MetricReader | None:
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader, PeriodicExportingMetricReader

    if isinstance(exporter, MetricExporter):
        return PeriodicExportingMetricReader(exporter)
    return exporter if isinstance(exporter, MetricReader) else None


def _otlp_spans() -> SpanProcessor:
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise _missing("OTEL_EXPORTER_OTLP_ENDPOINT is set, and sending spans there") from error
    return BatchSpanProcessor(OTLPSpanExporter())


def _otlp_metrics() -> MetricReader:
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError as error:
        raise _missing("OTEL_EXPORTER_OTLP_ENDPOINT is set, and sending metrics there") from error
    return PeriodicExportingMetricReader(OTLPMetricExporter())


def _to_cloud() -> Sequence[SpanProcessor]:
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")  # ADK would only log a warning
        from google.adk.telemetry.google_cloud import get_gcp_exporters
    except ImportError as error:
        raise _missing("TelemetryConfig(trace_to_cloud=True)") from error
    try:
        auth: Any = google.auth  # it says too little of its types
        credentials, project = auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    except DefaultCredentialsError as error:
        raise TelemetryError(
            "TelemetryConfig(trace_to_cloud=True): there are no Google credentials; run "
            "`gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS. "
            f"({what_happened(error)})"
        ) from error
    if not project:
        raise TelemetryError(
            "TelemetryConfig(trace_to_cloud=True): no project is known; set GOOGLE_CLOUD_PROJECT."
        )
    return get_gcp_exporters(enable_cloud_tracing=True, google_auth=(credentials, project)).span_processors


def _missing(what: str) -> MissingExtraError:
    return MissingExtraError(f"{what} needs an exporter that is not installed: {install('otel')}")
