"""Spans and metrics of a durable run are told once, however often its history is read."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from adk_fluent.backends.temporal.server import DevServer
from tests.processes import run

pytestmark = pytest.mark.newest

WORKER = """
import asyncio, json, sys
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from adk_fluent import Agent
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.worker import working
from adk_fluent.config import TelemetryConfig
from adk_fluent.distributed.durable import hosting
from adk_fluent.testing import call_tool, mock_backend
from tests.limits import LIMIT

def look() -> str:
    return "seen"

pipeline = Agent("a") >> Agent("b").tool(look) >> Agent("c")
if sys.argv[2] == "cut":
    pipeline = Agent("a") >> Agent("b").tool(look).execution_boundary() >> Agent("c").execution_boundary()
spans, readings = InMemorySpanExporter(), InMemoryMetricReader()

async def main(address, own, name):
    models = mock_backend({"b": [call_tool("look"), "ok"]}, default="ok")
    telemetry = TelemetryConfig(custom_exporters=[spans, readings])
    if own:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        trace.set_tracer_provider(provider)
        telemetry = None
    backend = TemporalBackend(address, queue=name, worker_timeout=LIMIT)
    async with working(pipeline.node, Address(address), queue=name, models=models, cached=0,
                       telemetry=telemetry, host=hosting()):
        spans.clear()
        await pipeline.run("hi", session_id=name, backend=backend)
    data = readings.get_metrics_data()
    measured = [
        (metric.name, sum(point.count for point in metric.data.data_points))
        for resource in (data.resource_metrics if data else [])
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if hasattr(next(iter(metric.data.data_points)), "count")
    ]
    costs = [
        point.value
        for resource in (data.resource_metrics if data else [])
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "adk_fluent.llm.cost"
        for point in metric.data.data_points
    ]
    ids = {span.context.span_id for span in spans.get_finished_spans()}
    print(json.dumps({
        "spans": [span.name for span in spans.get_finished_spans()],
        "orphans": [s.name for s in spans.get_finished_spans() if s.parent and s.parent.span_id not in ids],
        "measured": measured,
        "costs": costs,
        "cost": [s.attributes["adk_fluent.cost_usd"] for s in spans.get_finished_spans()
                 if "adk_fluent.cost_usd" in s.attributes],
    }))

asyncio.run(main(sys.argv[1], own=sys.argv[2] == "own", name=f"telling-{sys.argv[2]}"))
"""


def _told(server: DevServer, whose: str) -> tuple[dict[str, Any], str]:
    """What a worker process told of one run, and what it complained of."""
    process = run(WORKER, server.address, whose)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1]), process.stderr


def test_each_span_and_measurement_is_told_once(temporal: DevServer) -> None:
    """A worker that keeps no run in memory decides it anew at each step; it tells of it as ADK would."""
    told, _ = _told(temporal, "ours")
    assert Counter(told["spans"]) == {
        "invoke_workflow sequence": 1,
        "invoke_agent sequence": 1,
        **{f"invoke_agent {name}": 1 for name in "abc"},
        "generate_content gemini-3.5-flash": 4,
        "execute_tool look": 1,
    }
    assert told["orphans"] == []
    measured = dict(told["measured"])
    assert measured["gen_ai.execute_tool.duration"] == measured["gen_ai.invoke_workflow.duration"] == 1
    assert measured["gen_ai.client.operation.duration"] == 4
    assert len(told["cost"]) == 4
    assert sum(told["costs"]) == pytest.approx(sum(told["cost"]))


def test_every_segment_tells_what_it_costs(temporal: DevServer) -> None:
    """The first one, too, which runs in the workflow of the whole."""
    told, _ = _told(temporal, "cut")
    assert Counter(told["spans"])["generate_content gemini-3.5-flash"] == 4
    assert len(told["cost"]) == 4
    assert sum(told["costs"]) == pytest.approx(sum(told["cost"]))


def test_a_provider_that_tells_all_twice_is_warned_of(temporal: DevServer) -> None:
    """The application's own is kept, and the log says what to do."""
    told, complaints = _told(temporal, "own")
    assert Counter(told["spans"])["invoke_workflow sequence"] > 1
    assert "run_worker(telemetry=)" in complaints
