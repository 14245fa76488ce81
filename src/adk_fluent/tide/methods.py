"""Which builder methods set an ADK field, and which of ADK's fields adk-fluent sets itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

HANDWRITTEN: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        "name": "named",
        "parent_agent": None,
        "sub_agents": "delegate",
        "model": "model",
        "instruction": "instruct",
        "static_instruction": "static",
        "global_instruction": "global_instruct",
        "tools": "tool",
        "output_key": "writes",
        "output_schema": "returns",
        "input_schema": "accepts",
        "max_iterations": "max_iterations",
    }
)
"""ADK field -> builder method, where the method means more than setting the field.

They are written by hand in `adk_fluent.expr`; every other field gets a generated method. `parent_agent` has
none: ADK sets it when it is given an agent tree.
"""

METHOD_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"description": "describe", "timeout": "node_timeout"}
)
"""Builder names that differ from ADK's field name; callbacks lose their `_callback` suffix by rule.

`timeout` gives way because `.timeout(seconds)` bounds a whole expression, on every ADK version.
"""

FURTHER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sub_agents": ("sub_agents",),
        "tools": ("tools",),
        "generate_content_config": ("generate",),
        "include_contents": ("context", "reads"),
        "disallow_transfer_to_parent": ("stay", "isolate"),
        "disallow_transfer_to_peers": ("no_peers", "isolate"),
    }
)
"""ADK field of `LlmAgent` -> further methods of `Agent` that set it, beside the one that bears its name."""

EXPRESSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"LlmAgent": "Agent", "SequentialAgent": "Pipeline", "ParallelAgent": "FanOut", "LoopAgent": "Loop"}
)
"""ADK's agent class -> the expression that is built into one."""

OWN: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "RunConfig": frozenset({"max_llm_calls", "streaming_mode", "custom_metadata", "telemetry"}),
        "App": frozenset(
            {
                "name",
                "root_agent",
                "plugins",
                "resumability_config",
                "events_compaction_config",
                "context_cache_config",
            }
        ),
        "ResumabilityConfig": frozenset({"is_resumable"}),
        "EventsCompactionConfig": frozenset(
            {
                "summarizer",
                "compaction_interval",
                "overlap_size",
                "token_threshold",
                "event_retention_size",
            }
        ),
        "BasePlugin": frozenset(
            {
                "on_user_message_callback",
                "before_agent_callback",
                "before_run_callback",
                "before_model_callback",
                "before_tool_callback",
                "after_tool_callback",
                "on_event_callback",
                "on_model_error_callback",
                "on_agent_error_callback",
                "on_tool_error_callback",
            }
        ),
    }
)
"""ADK class -> the fields that adk-fluent sets, or the hooks that its plugins have."""


def method_name(field: str) -> str:
    """The generated builder method that sets an ADK field.

    >>> method_name("before_model_callback"), method_name("description"), method_name("planner")
    ('before_model', 'describe', 'planner')
    """
    return METHOD_NAMES.get(field, field.removesuffix("_callback"))


def methods_of(adk_class: str, field: str) -> tuple[str, ...]:
    """The builder methods that set this field of an agent class, as a user writes them.

    >>> methods_of("LlmAgent", "generate_content_config")
    ('.generate_content_config()', '.generate()')
    >>> methods_of("LoopAgent", "timeout"), methods_of("App", "name")
    (('.node_timeout()',), ())
    """
    import adk_fluent

    if adk_class not in EXPRESSIONS or field == "max_iterations":  # our loops count their rounds themselves
        return ()
    expression = getattr(adk_fluent, EXPRESSIONS[adk_class])
    names = (HANDWRITTEN.get(field, method_name(field)), *FURTHER.get(field, ()))
    return tuple(f".{name}()" for name in names if name is not None and hasattr(expression, name))
