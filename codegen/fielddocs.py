"""What the generated builder methods say about each ADK field, in our own words.

A field that is not in `FIELD_DOCS` gets a generic sentence, so an ADK upgrade never waits for this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

STRUCTURE: Final = frozenset({"name", "parent_agent", "sub_agents", "max_iterations"})
"""Fields that are no generated node fields either: names, children and loop bounds belong to the nodes."""


@dataclass(frozen=True, slots=True)
class FieldDoc:
    """Text for one builder method: what it is for, and an argument for its example.

    `setup` holds lines the example needs first, `argument` is Python source, and `notes` are further
    paragraphs of the docstring.
    """

    summary: str
    argument: str
    setup: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _callback(summary: str, parameters: str, *notes: str) -> FieldDoc:
    return FieldDoc(summary, "log", (f"def log({parameters}): ...",), notes)


_NO_RETRY = "Returning `None` lets the error propagate; it does not try again. `.middleware(retry())` does."
_NODE_ONLY = (
    "ADK heeds it in nodes of a `Workflow`, and on an LLM agent that is the root of its app; elsewhere it"
    " does nothing."
)

FIELD_DOCS: Final[Mapping[str, FieldDoc]] = MappingProxyType(
    {
        "description": FieldDoc(
            "Say in a sentence what it is good for.",
            '"Answers billing questions."',
            notes=("Other agents read it when they decide whom to hand over to, and A2A cards show it.",),
        ),
        "rerun_on_resume": FieldDoc(
            "Choose what happens when a paused run goes on at this node.",
            "True",
            notes=("`True` runs the node again; `False` takes the user's reply as its output.", _NODE_ONLY),
        ),
        "wait_for_output": FieldDoc(
            "Keep what comes after it waiting until it has produced an output or a route.",
            "True",
            notes=("A node that never produces one then waits for ever.", _NODE_ONLY),
        ),
        "retry_config": FieldDoc(
            "Run the whole node again when it fails, as ADK's `RetryConfig` says.",
            "config",
            ("from google.adk.workflow import RetryConfig", "config = RetryConfig(max_attempts=3)"),
            ("To repeat single model calls, on every ADK version, use `.middleware(retry())`.", _NODE_ONLY),
        ),
        "timeout": FieldDoc(
            "Bound the seconds that ADK gives this node before it cancels it.",
            "30.0",
            notes=(
                "`None` means no bound. A node cut off fails with ADK's `NodeTimeoutError`, which its retry"
                " configuration may catch. To bound any expression, on every ADK version, use"
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
            "Call functions before it runs.",
            "callback_context",
            "One that returns content ends the turn with it; nothing else is called.",
        ),
        "after_agent_callback": _callback(
            "Call functions after it has run.",
            "callback_context",
            "Content that one returns becomes a further answer; the rest are not called.",
        ),
        "before_model_callback": _callback(
            "Call functions before each model call; they may change the request.",
            "callback_context, llm_request",
            "One that returns a response has it used in place of the model's; the rest are not called.",
        ),
        "after_model_callback": _callback(
            "Call functions after each model call.",
            "callback_context, llm_response",
            "A response that one returns replaces the model's; the rest are not called.",
        ),
        "on_model_error_callback": _callback(
            "Call functions when a model call fails.",
            "callback_context, llm_request, error",
            "One that returns a response has it used as the model's answer; the rest are not called.",
            _NO_RETRY,
        ),
        "before_tool_callback": _callback(
            "Call functions before each tool call; they may change the arguments.",
            "tool, args, tool_context",
            "One that returns a dict has it used in place of the tool's result; the rest are not called.",
        ),
        "after_tool_callback": _callback(
            "Call functions after each tool call.",
            "tool, args, tool_context, tool_response",
            "A dict that one returns replaces the tool's result; the rest are not called.",
        ),
        "on_tool_error_callback": _callback(
            "Call functions when a tool raises.",
            "tool, args, tool_context, error",
            "One that returns a dict has it used as the tool's result; the rest are not called.",
            _NO_RETRY,
        ),
        "generate_content_config": FieldDoc(
            "Set how the model generates: temperature, safety settings, token limits.",
            "config",
            (
                "from google.genai.types import GenerateContentConfig",
                "config = GenerateContentConfig(temperature=0.2)",
            ),
            ("ADK refuses tools, a system instruction or a response schema in it: they have own methods.",),
        ),
        "mode": FieldDoc(
            "Choose how work is handed to the agent.",
            '"single_turn"',
            notes=(
                '`"chat"`: by transfer, talking to the user. `"task"`: as a task that may ask the user.'
                ' `"single_turn"`: as a task without the user.',
            ),
        ),
        "parallel_worker": FieldDoc(
            "Run the agent once per item of a list input, in parallel.",
            "True",
            notes=(
                "To map an expression over a state key, on every ADK version, use `map_over`.",
                "ADK heeds it in nodes of a `Workflow`; elsewhere it does nothing.",
            ),
        ),
        "disallow_transfer_to_parent": FieldDoc(
            "Forbid the model to hand the conversation back to the parent agent.",
            "True",
            notes=("The agent then answers once; on the user's next turn its parent is in charge again.",),
        ),
        "disallow_transfer_to_peers": FieldDoc(
            "Forbid the model to hand the conversation to its sibling agents.", "True"
        ),
        "include_contents": FieldDoc(
            "Choose whether ADK sends the conversation so far to the model.",
            '"none"',
            notes=(
                "`\"none\"` alone still lets the previous agent's text through and hides the user's message"
                " behind it; `.context(C.none())` and `.reads(...)` select exactly.",
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
