"""Docstrings of the generated builder methods: a summary, an example and notes for each ADK field.

A field that is not in `FIELD_DOCS` gets a generic sentence, so an ADK upgrade never waits for this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

STRUCTURE: Final = frozenset({"name", "parent_agent", "sub_agents", "max_iterations"})
"""Fields that are not generated: names, children and loop bounds belong to the handwritten nodes."""


@dataclass(frozen=True, slots=True)
class FieldDoc:
    """The docstring of one builder method.

    Attributes:
        summary: the first line.
        argument: the argument of the example call, as Python source.
        setup: lines of the example before the call.
        notes: further paragraphs.
    """

    summary: str
    argument: str
    setup: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _callback(summary: str, parameters: str, *notes: str) -> FieldDoc:
    return FieldDoc(summary, "log", (f"def log({parameters}): ...",), notes)


_NO_RETRY = "If all return `None`, the error is raised; to retry instead, use `.middleware(retry())`."
_NODE_ONLY = (
    "ADK uses it in nodes of a `Workflow`, and on an LLM agent that is the root of its app; elsewhere it"
    " does nothing."
)

FIELD_DOCS: Final[Mapping[str, FieldDoc]] = MappingProxyType(
    {
        "description": FieldDoc(
            "Describe the agent's purpose in a sentence.",
            '"Answers billing questions."',
            notes=("Other agents use it to choose an agent for a transfer, and A2A cards show it.",),
        ),
        "rerun_on_resume": FieldDoc(
            "Set the behaviour of this node when a paused run continues.",
            "True",
            notes=("`True` runs the node again; `False` takes the user's reply as its output.", _NODE_ONLY),
        ),
        "wait_for_output": FieldDoc(
            "Let later nodes wait until this node has produced an output or a route.",
            "True",
            notes=("If the node never produces one, they wait for ever.", _NODE_ONLY),
        ),
        "retry_config": FieldDoc(
            "Run the whole node again when it fails, as ADK's `RetryConfig` says.",
            "config",
            ("from google.adk.workflow import RetryConfig", "config = RetryConfig(max_attempts=3)"),
            ("To repeat single model calls, on every ADK version, use `.middleware(retry())`.", _NODE_ONLY),
        ),
        "timeout": FieldDoc(
            "Set the seconds after which ADK cancels this node.",
            "30.0",
            notes=(
                "`None` means no limit. A cancelled node fails with ADK's `NodeTimeoutError`, which its retry"
                " configuration may catch. To limit any expression, on every ADK version, use"
                " `.timeout(seconds)`.",
                _NODE_ONLY,
            ),
        ),
        "state_schema": FieldDoc(
            "Let ADK check state writes against a pydantic model.",
            "Ticket",
            ("from pydantic import BaseModel", "class Ticket(BaseModel):", "    intent: str = ''"),
            (
                "Keys with a scope prefix (`app:`, `user:`, `temp:`) are not checked."
                " `.schema(StateSchema)` also checks before anything runs, on every ADK version.",
            ),
        ),
        "before_agent_callback": _callback(
            "Call functions before the agent runs.",
            "callback_context",
            "If a function returns content, it is the agent's answer, and nothing else runs.",
        ),
        "after_agent_callback": _callback(
            "Call functions after the agent has run.",
            "callback_context",
            "If a function returns content, it is a further answer; later functions are not called.",
        ),
        "before_model_callback": _callback(
            "Call functions before each model call; they may change the request.",
            "callback_context, llm_request",
            "If a function returns a response, it replaces the model's; later functions are not called.",
        ),
        "after_model_callback": _callback(
            "Call functions after each model call.",
            "callback_context, llm_response",
            "If a function returns a response, it replaces the model's; later functions are not called.",
        ),
        "on_model_error_callback": _callback(
            "Call functions when a model call fails.",
            "callback_context, llm_request, error",
            "If a function returns a response, it is the model's answer; later functions are not called.",
            _NO_RETRY,
        ),
        "before_tool_callback": _callback(
            "Call functions before each tool call; they may change the arguments.",
            "tool, args, tool_context",
            "If a function returns a dict, it is the result; the tool and later functions are not called.",
        ),
        "after_tool_callback": _callback(
            "Call functions after each tool call.",
            "tool, args, tool_context, tool_response",
            "If a function returns a dict, it replaces the tool's result; later functions are not called.",
        ),
        "on_tool_error_callback": _callback(
            "Call functions when a tool raises.",
            "tool, args, tool_context, error",
            "If a function returns a dict, it is the tool's result; later functions are not called.",
            _NO_RETRY,
        ),
        "generate_content_config": FieldDoc(
            "Set the options of generation: temperature, safety settings, token limits.",
            "config",
            (
                "from google.genai.types import GenerateContentConfig",
                "config = GenerateContentConfig(temperature=0.2)",
            ),
            ("ADK refuses tools, a system instruction or a response schema in it: other methods set these.",),
        ),
        "mode": FieldDoc(
            "Choose how the agent receives work.",
            '"single_turn"',
            notes=(
                '`"chat"`: by transfer; the agent talks to the user. `"task"`: as a task; the agent may ask'
                ' the user. `"single_turn"`: as a task without the user.',
            ),
        ),
        "parallel_worker": FieldDoc(
            "Run the agent once per item of a list input, in parallel.",
            "True",
            notes=(
                "To map an expression over a state key, on every ADK version, use `map_over`.",
                "ADK uses it in nodes of a `Workflow`; elsewhere it does nothing.",
            ),
        ),
        "disallow_transfer_to_parent": FieldDoc(
            "Forbid the model to transfer the conversation back to the parent agent.",
            "True",
            notes=("The agent then answers once; on the user's next turn, its parent runs again.",),
        ),
        "disallow_transfer_to_peers": FieldDoc(
            "Forbid the model to transfer the conversation to its sibling agents.", "True"
        ),
        "include_contents": FieldDoc(
            "Choose whether ADK sends the conversation so far to the model.",
            '"none"',
            notes=(
                "With `\"none\"`, the model still sees the previous agent's text, and not the user's message"
                " before it; `.context(C.none())` and `.reads(...)` select exactly.",
            ),
        ),
        "planner": FieldDoc(
            "Let the model plan before it acts.",
            "planner",
            ("from google.adk.planners import PlanReActPlanner", "planner = PlanReActPlanner()"),
        ),
        "code_executor": FieldDoc(
            "Run the code blocks that the model writes.",
            "executor",
            (
                "from google.adk.code_executors import BuiltInCodeExecutor",
                "executor = BuiltInCodeExecutor()",
            ),
        ),
    }
)
