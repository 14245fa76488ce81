"""What adk-fluent adds to ADK's traces: attributes on its spans, metrics that it has not, and exporters.

The switches are `ExecutionConfig(telemetry=TelemetryConfig(...))` and `otel_enrichment()` of
`adk_fluent.middleware`. No span is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.telemetry.names import ATTRIBUTES, METRICS
    from adk_fluent.telemetry.setup import set_up

__all__ = ["ATTRIBUTES", "METRICS", "set_up"]

__getattr__: Callable[[str], object] = lazy(__name__)
