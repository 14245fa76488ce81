"""What middleware adds to traces: events on the span that is on, where anybody records one."""

from __future__ import annotations

from collections.abc import Mapping


def span_event(name: str, attributes: Mapping[str, str | float]) -> None:
    """Add an event to the current span; nothing where no trace is recorded."""
    from opentelemetry import trace  # ADK brings it; a run without middleware need not load it

    span = trace.get_current_span()
    if span.is_recording():
        span.add_event(name, dict(attributes))
