"""What a pipeline did and cost, read from ADK's own spans and from metrics in the same process."""

import asyncio
import os
from collections.abc import AsyncGenerator

from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from adk_fluent import Agent
from adk_fluent.config import ExecutionConfig, TelemetryConfig
from adk_fluent.cost import Price, register_price


class Scripted(BaseLlm):
    """A model that answers offline and says what it used, as a provider's does."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=900, candidates_token_count=60)
        content = types.Content(role="model", parts=[types.Part(text="Dear Ann, ...")])
        yield LlmResponse(content=content, usage_metadata=usage, model_version=self.model)


model = "gemini-2.5-flash" if "GOOGLE_API_KEY" in os.environ else Scripted(model="house-model")
register_price("house-model", Price.per_million(input=0.30, output=2.50))
letters = Agent("draft", model).instruct("Draft.").writes("text") >> Agent("edit", model).instruct("{text}")


async def main() -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    config = ExecutionConfig(telemetry=TelemetryConfig(custom_exporters=[spans, reader]))
    for _ in range(2):
        await letters.named("letters").run("Write to Ann.", config=config)

    for span in spans.get_finished_spans():
        said = span.attributes or {}
        if "adk_fluent.visibility" in said:
            print(f"{span.name}: {said['adk_fluent.node_type']}, {said['adk_fluent.visibility']}")
        elif "adk_fluent.cost_usd" in said:
            print(f"  {said['adk_fluent.agent_name']}, {span.name}: {said['adk_fluent.cost_usd']:f} USD")

    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data else ():
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            for point in metric.data.data_points if metric.name.startswith("adk_fluent.") else ():
                value = f"{point.value:f}" if isinstance(point, NumberDataPoint) else "measured"
                print(metric.name, dict(point.attributes or {}), value)


if __name__ == "__main__":
    asyncio.run(main())
