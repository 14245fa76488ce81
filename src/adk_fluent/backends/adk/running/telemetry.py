"""What a `TelemetryConfig` makes of a tree, before it is compiled."""

from __future__ import annotations

from functools import cache

from adk_fluent.config import TelemetryConfig
from adk_fluent.ir.base import Node, walk
from adk_fluent.middleware.enriching import OTelEnrichment
from adk_fluent.telemetry.setup import set_up


def observed(node: Node, config: TelemetryConfig) -> Node:
    """The tree with `otel_enrichment` on it, unless it has one; the exporters are set up.

    Raises:
        MissingExtraError: a package that exports is not installed.
        TelemetryError: the spans or metrics cannot go where the configuration wants them.
    """
    set_up(config)
    if any(isinstance(each, OTelEnrichment) for part in walk(node) for each in part.annotations.middleware):
        return node
    own = node.annotations
    # The last is the innermost: next to the models, so that what other middleware answers costs nothing.
    middleware = (*own.middleware, _enrichment(config.enable_cost_metrics))
    return node.replace(annotations=own.replace(middleware=middleware))


@cache
def _enrichment(costs: bool) -> OTelEnrichment:
    return OTelEnrichment(costs=costs)
