"""Whether anybody records spans."""

from __future__ import annotations

from opentelemetry import trace


def are_heard() -> bool:
    """Whether the process has a provider of spans: OpenTelemetry's API alone records none."""
    return not type(trace.get_tracer_provider()).__module__.startswith("opentelemetry.trace")
