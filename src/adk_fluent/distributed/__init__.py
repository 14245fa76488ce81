"""Where a pipeline may be cut to run in several places."""

from adk_fluent.ir.annotations import ExecutionBoundary, ScalingConfig, TransportConfig

__all__ = ["ExecutionBoundary", "ScalingConfig", "TransportConfig"]
