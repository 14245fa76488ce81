"""What adk-fluent adds to ADK's traces: attributes on its spans, metrics that it has not, and exporters.

The switches are `ExecutionConfig(telemetry=TelemetryConfig(...))` and `otel_enrichment()` of
`adk_fluent.middleware`. No span is added.
"""

from adk_fluent._lazy import lazy

__getattr__ = lazy(__name__)
