"""Metrics for what ADK does not count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from opentelemetry import metrics
from opentelemetry.metrics import Counter, Histogram

from adk_fluent.telemetry import names

Attributes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Instruments:
    """What is measured; see `adk_fluent.telemetry.METRICS`."""

    cost: Counter
    tokens: Counter
    duration: Histogram
    errors: Counter
    violations: Counter


def are_heard() -> bool:
    """Whether the process has a provider of metrics: OpenTelemetry's API alone passes none on."""
    return not type(metrics.get_meter_provider()).__module__.startswith("opentelemetry.metrics")


@cache
def instruments() -> Instruments:
    """The instruments of this process; they go on where a provider is set later."""
    meter = metrics.get_meter("adk_fluent")
    said = names.METRICS
    return Instruments(
        meter.create_counter(names.LLM_COST, unit="USD", description=said[names.LLM_COST]),
        meter.create_counter(names.LLM_TOKENS, unit="tokens", description=said[names.LLM_TOKENS]),
        meter.create_histogram(names.PIPELINE_DURATION, unit="ms", description=said[names.PIPELINE_DURATION]),
        meter.create_counter(names.PIPELINE_ERRORS, description=said[names.PIPELINE_ERRORS]),
        meter.create_counter(names.VIOLATIONS, description=said[names.VIOLATIONS]),
    )
