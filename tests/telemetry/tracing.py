"""What the tests of telemetry share: spans in memory, and programs with providers of their own."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.adk.models.llm_response import LlmResponse
from google.genai import types
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from adk_fluent.telemetry import ATTRIBUTES
from tests.processes import run

ROOT = Path(__file__).resolve().parents[2]
MODEL = "gemini-2.5-flash"

PRELUDE = """
import asyncio, json, os
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from adk_fluent import Agent, Route, S
from adk_fluent.config import ExecutionConfig, TelemetryConfig
from adk_fluent.errors import ADKFluentError
from adk_fluent.middleware import otel_enrichment
from adk_fluent.testing import call_tool, mock_backend
from tests.telemetry.tracing import answer, measured
said, spans, reader = {}, InMemorySpanExporter(), InMemoryMetricReader()
def run(expression, responses=None, prompt="hi", **options):
    return asyncio.run(expression.run(prompt, backend=mock_backend(responses, default="ok"), **options))
"""


def program(text: str, **environment: str) -> dict[str, Any]:
    """What a separate process notes in `said`, since providers belong to a whole process."""
    code = f"{PRELUDE}\n{textwrap.dedent(text)}\nprint('<<' + json.dumps(said))"
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ADK_"))}
    done = run(code, environment={**keep, **environment}, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout.rpartition("<<")[2]), "stderr": done.stderr}


def answer(text: str, tokens: tuple[int, int] = (1000, 100), **fields: Any) -> LlmResponse:
    """A model's answer that says what it used and who gave it."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=tokens[0], candidates_token_count=tokens[1]
    )
    given: dict[str, Any] = {
        "content": types.Content(role="model", parts=[types.Part(text=text)]),
        "finish_reason": types.FinishReason.STOP,
        "model_version": MODEL,
        "usage_metadata": usage,
    }
    return LlmResponse(**{**given, **fields})


def measured(reader: Any) -> dict[str, list[tuple[dict[str, Any], float]]]:
    """Metric of ours → its attributes and value, or of a histogram how often it was measured."""
    found: dict[str, list[tuple[dict[str, Any], float]]] = {}
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    value = point.value if hasattr(point, "value") else point.count
                    found.setdefault(metric.name, []).append((dict(point.attributes), value))
    return found


class Spans:
    """The spans of the runs of one test."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self.exporter = exporter

    @property
    def all(self) -> Sequence[ReadableSpan]:
        """Those that have ended."""
        return self.exporter.get_finished_spans()

    def of(self, *starts: str) -> list[dict[str, Any]]:
        """What adk-fluent says on the spans whose names begin so, without its prefix."""
        return [ours(span) for span in self.all if span.name.startswith(starts)]

    def agents(self) -> dict[str, dict[str, Any]]:
        """The same for the spans of agents, by agent."""
        prefix = "invoke_agent "
        return {s.name.removeprefix(prefix): ours(s) for s in self.all if s.name.startswith(prefix)}


def ours(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of adk-fluent on a span, without its prefix."""
    found = {name: value for name, value in (span.attributes or {}).items() if name.startswith("adk_fluent.")}
    assert set(found) <= set(ATTRIBUTES)
    return {name.removeprefix("adk_fluent."): value for name, value in found.items()}
