"""How types, tools, functions and prompts are shown."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from adk_fluent.cost.prices import name_of
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode
from adk_fluent.prompt.spec import PromptSpec
from adk_fluent.state.answers import asked_schema
from adk_fluent.state.faults import shown
from adk_fluent.tools.spec import Tool

NOT_SET = "(not set)"


def no_model() -> str:
    """What is said of an agent that names no model: which one ADK takes by default."""
    name = name_of(default_model())
    default = f", {name}" if name else ""
    return f"(not set — the model of the agent above, else ADK's default{default})"


def default_model() -> object:
    """ADK's model for agents that name none: the name, or the model itself; nothing if it is not known.

    An ADK that is loaded is asked, since `set_default_model` may have changed it, which nothing public tells.
    To explain an expression, none is loaded: its source has the name.
    """
    agent: Any = getattr(sys.modules.get("google.adk.agents.llm_agent"), "LlmAgent", None)
    return _default_in_source() if agent is None else getattr(agent, DEFAULT, agent.DEFAULT_MODEL)


DEFAULT: Final = "_default_model"
"""Where ADK's `LlmAgent` keeps what `set_default_model` was given; `private` probes it."""


@cache
def _default_in_source() -> str:
    found = find_spec("google.adk")
    folders = (found and found.submodule_search_locations) or ()
    files = [file for folder in folders if (file := Path(folder, "agents", "llm_agent.py")).is_file()]
    source = files[0].read_text(encoding="utf-8") if files else ""
    named = re.search(r"^ +DEFAULT_MODEL\b[^=\n]*= *['\"]([^'\"]+)['\"]", source, flags=re.MULTILINE)
    return named[1] if named else ""


def type_name(schema: object) -> str:
    """A type as a reader knows it: `Intent`, `list[Intent]`; a JSON schema by its title."""
    if isinstance(schema, Mapping):
        titled = cast("Mapping[str, object]", schema)
        return str(titled.get("title", "JSON"))
    return shown(schema) if isinstance(schema, type) or hasattr(schema, "__args__") else type(schema).__name__


def fields_of(schema: object) -> str:
    """The fields of a model with their types: `{category: str, confidence: float}`; else nothing."""
    fields: Mapping[str, Any] = getattr(schema, "model_fields", {}) if isinstance(schema, type) else {}
    shown = (f"{name}: {type_name(field.annotation)}" for name, field in fields.items())
    return f" {{{', '.join(shown)}}}" if fields else ""


def answer_shape(node: AgentNode | RemoteAgentNode) -> tuple[object, str]:
    """The type an agent's answer must have, and its name; `None` and no name for text.

    A type that is made of the fields which the agent writes is shown by these.
    """
    given = node.returns
    schema = asked_schema(node.agent) if node.agent else given
    if not schema:
        return None, ""
    return schema, type_name(schema) if given else fields_of(schema).strip()


def asked_again(node: AgentNode | RemoteAgentNode) -> str:
    """How often an agent is asked again whose answer does not fit, behind what it returns."""
    times = node.agent.retries if node.agent else 0
    return f" (asked again up to {times} time{'s' * (times > 1)})" if times else ""


def tool_name(tool: object) -> str:
    """The name under which a model sees a tool; a toolset, whose tools only a run tells, by its class."""
    if isinstance(tool, Tool):
        return tool.label
    name = getattr(tool, "name", None)
    if isinstance(name, str) and name:
        return name
    return function_name(tool, type(tool).__name__)


def is_toolset(tool: object) -> bool:
    """Whether it stands for tools that only a run tells."""
    return tool.called is None if isinstance(tool, Tool) else hasattr(tool, "get_tools")


def prompt_text(instruction: object) -> str:
    """An instruction as text, its placeholders unfilled; what depends on the state as it was written."""
    if instruction is UNSET or instruction is None:
        return ""
    if isinstance(instruction, str):
        return instruction
    if isinstance(instruction, PromptSpec):
        return str(instruction) if instruction.static else repr(instruction)
    return f"<{function_name(instruction, 'function')}>"


def listed(names: Iterable[str]) -> str:
    """`a, b and c`, of at least one name."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def hanging(label: str, text: str) -> str:
    """A label, and a text that may have several lines, indented below its first."""
    first, *others = text.split("\n")
    return "\n".join([label + first, *(" " * len(label) + line if line else "" for line in others)])
