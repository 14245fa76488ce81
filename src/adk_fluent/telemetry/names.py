"""The names of what adk-fluent adds to spans and metrics; they stay."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PIPELINE: Final = "adk_fluent.pipeline"
NODE_TYPE: Final = "adk_fluent.node_type"
VISIBILITY: Final = "adk_fluent.visibility"
AGENT_NAME: Final = "adk_fluent.agent_name"
OPERATION: Final = "adk_fluent.operation"
INPUT_TOKENS: Final = "adk_fluent.actual_input_tokens"
OUTPUT_TOKENS: Final = "adk_fluent.actual_output_tokens"
COST_ESTIMATE: Final = "adk_fluent.cost_estimate_usd"
COST: Final = "adk_fluent.cost_usd"
TOOL_AGENT: Final = "adk_fluent.tool_agent"
ERROR_TYPE: Final = "error.type"

ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        PIPELINE: "on the span of the run, of agents, models and tools: the name of the pipeline",
        NODE_TYPE: "on agents: what the step is (`agent`, `sequence`, `route`, ...)",
        VISIBILITY: "on agents: who sees what it says (`user`, `internal`, `zero_cost`)",
        AGENT_NAME: "on models: whose call it is",
        OPERATION: "on models: what was asked beside the agent's own work, such as `summarize`",
        COST_ESTIMATE: "on models: the least the call can cost, from the length of the request, in USD",
        INPUT_TOKENS: "on models: tokens of the request, as the model counted them",
        OUTPUT_TOKENS: "on models: tokens of the answer, thoughts included",
        COST: "on models: what the call cost, in USD",
        TOOL_AGENT: "on tools: the agent that called it",
    }
)
"""Attribute of a span → where it is, and what it says."""

LLM_COST: Final = "adk_fluent.llm.cost"
LLM_TOKENS: Final = "adk_fluent.llm.tokens"
PIPELINE_DURATION: Final = "adk_fluent.pipeline.duration"
PIPELINE_ERRORS: Final = "adk_fluent.pipeline.errors"
VIOLATIONS: Final = "adk_fluent.contracts.violations"

METRICS: Final[Mapping[str, str]] = MappingProxyType(
    {
        LLM_COST: "USD that model calls cost, by `agent_name`, `model` and `pipeline`",
        LLM_TOKENS: "tokens of model calls, likewise, where ADK itself counts none",
        PIPELINE_DURATION: "milliseconds a run took, by `pipeline`",
        PIPELINE_ERRORS: "runs that failed, by `pipeline` and `error.type`",
        VIOLATIONS: "errors and warnings of the check, each once, by `code`, `severity` and `pipeline`",
    }
)
"""Metric → what it measures."""
