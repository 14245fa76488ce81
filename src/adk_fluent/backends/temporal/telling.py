"""Spans and metrics of durable runs: told once, though a run is decided again from its history."""

from __future__ import annotations

import logging
from typing import Final

from adk_fluent.config import TelemetryConfig
from adk_fluent.errors import MissingExtraError, install

logger: logging.Logger = logging.getLogger("adk_fluent.durable")

_SAFE: Final = "ReplaySafe"


def set_up(config: TelemetryConfig | None) -> None:
    """Let this process tell of runs what a configuration says, and nothing twice.

    The providers are those of Temporal's SDK, under which a span or a measurement of what is only repeated
    goes nowhere, and a span that another worker began has the same id and start when this one ends it. A
    provider that the application has set is kept; one that tells all twice is warned of.

    Raises:
        MissingExtraError: OpenTelemetry's SDK is not installed.
        TelemetryError: a provider of the application takes no further exporter.
    """
    if config is not None:
        try:
            from temporalio.contrib.opentelemetry import ReplaySafeMeterProvider, create_tracer_provider
        except ImportError as error:
            raise MissingExtraError(
                f"Telemetry of a worker needs OpenTelemetry's SDK: {install('otel')}."
            ) from error
        from adk_fluent.telemetry import setup

        setup.set_up(config, tracing=create_tracer_provider, measuring=ReplaySafeMeterProvider)
    for what in _telling_twice():
        logger.warning(
            "This worker's %s tells again what a run repeats from its history. Leave it to "
            "run_worker(telemetry=), or wrap it with temporalio.contrib.opentelemetry.",
            what,
        )


def _telling_twice() -> list[str]:
    """The providers of this process that tell what is only repeated."""
    from opentelemetry import metrics, trace

    providers = (trace.get_tracer_provider(), metrics.get_meter_provider())
    names = [type(provider).__name__ for provider in providers]
    return [name for name in names if "Proxy" not in name and "NoOp" not in name and _SAFE not in name]
