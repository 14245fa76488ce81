"""Texts and tables of inspection: `PerAgent`, and types, tools, functions and prompts as text."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar, cast, runtime_checkable

from adk_fluent import _html as html
from adk_fluent.cost.prices import name_of
from adk_fluent.errors import MissingKeyError
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode, agent_of
from adk_fluent.prompt.spec import PromptSpec
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.answers import asked_schema
from adk_fluent.state.fidelity import type_text
from adk_fluent.tools.spec import Tool

T = TypeVar("T")

NOT_SET = "(not set)"


@runtime_checkable
class Tabular(Protocol):
    """An object that can be shown as a table of labels and texts."""

    def rows(self) -> Iterable[tuple[str, str]]:
        """The labels and texts, in order; the table leaves out empty texts."""
        ...


def tables(found: Mapping[str, Tabular]) -> str:
    """An HTML table for each agent, below the agent's name."""
    return "".join(html.title(agent) + html.facts(one.rows()) for agent, one in found.items())


class PerAgent(Mapping[str, T], Generic[T]):
    """A read-only mapping from each agent's name to the result for that agent, in the order of the tree.

    An agent that is used twice has two entries, `writer` and `writer_2`. `str()` returns readable text.

    Args:
        found: pairs of a name and a result.
    """

    __slots__ = ("_found",)

    def __init__(self, found: Iterable[tuple[str, T]] = ()) -> None:
        self._found = dict(found)

    def __getitem__(self, agent: str) -> T:
        try:
            return self._found[agent]
        except KeyError:
            known = did_you_mean(agent, self._found) or f" There is {', '.join(self._found) or 'none'}."
            raise MissingKeyError(f"There is no agent {agent!r} here.{known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerAgent) and dict(self) == dict(other)  # pyright: ignore[reportUnknownArgumentType]  # the results may be of any type

    __hash__ = None

    def __repr__(self) -> str:
        return f"PerAgent({', '.join(self._found)})"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self._found.values())) or "There is no agent here."

    def _repr_html_(self) -> str:
        """HTML for a notebook: a table for each agent, or the text if the results are not `Tabular`."""
        if self._found and all(isinstance(one, Tabular) for one in self._found.values()):
            return tables(cast("dict[str, Tabular]", self._found))
        return html.preformatted(str(self))


# --- texts ----------------------------------------------------------------------------------------


def no_model() -> str:
    """The text for an agent without a model; it names ADK's default model if that is known."""
    name = name_of(default_model())
    default = f", {name}" if name else ""
    return f"(not set — the model of the agent above, else ADK's default{default})"


def default_model() -> object:
    """ADK's default model: its name or the model object; an empty text if it is not known.

    If ADK is loaded, the value comes from its `LlmAgent` class, because `set_default_model` may have changed
    it. Otherwise the name is read from ADK's source, so that explaining an expression does not load ADK.
    """
    agent: Any = getattr(sys.modules.get("google.adk.agents.llm_agent"), "LlmAgent", None)
    return _default_in_source() if agent is None else getattr(agent, DEFAULT, agent.DEFAULT_MODEL)


DEFAULT: Final = "_default_model"
"""The attribute of ADK's `LlmAgent` that `set_default_model` sets; `compat.private` checks that it exists."""


@cache
def _default_in_source() -> str:
    """The value of `DEFAULT_MODEL` in the source of the installed ADK, or an empty text."""
    found = find_spec("google.adk")
    folders = (found and found.submodule_search_locations) or ()
    files = [file for folder in folders if (file := Path(folder, "agents", "llm_agent.py")).is_file()]
    source = files[0].read_text(encoding="utf-8") if files else ""
    named = re.search(r"^ +DEFAULT_MODEL\b[^=\n]*= *['\"]([^'\"]+)['\"]", source, flags=re.MULTILINE)
    return named[1] if named else ""


def type_name(schema: object) -> str:
    """The name of a type as users write it: `Intent`, `list[Intent]`; a JSON schema's title."""
    if isinstance(schema, Mapping):
        titled = cast("Mapping[str, object]", schema)
        return str(titled.get("title", "JSON"))
    return (
        type_text(schema)
        if isinstance(schema, type) or hasattr(schema, "__args__")
        else type(schema).__name__
    )


def fields_of(schema: object) -> str:
    """The fields of a Pydantic model: ` {category: str, confidence: float}`; empty for other types."""
    fields: Mapping[str, Any] = getattr(schema, "model_fields", {}) if isinstance(schema, type) else {}
    shown = (f"{name}: {type_name(field.annotation)}" for name, field in fields.items())
    return f" {{{', '.join(shown)}}}" if fields else ""


def answer_shape(node: AgentNode | RemoteAgentNode) -> tuple[object, str]:
    """The type of an agent's answer and its name; `None` and an empty name for plain text.

    If the type is made from the fields that the agent writes, the fields are shown instead of a name.
    """
    given = node.returns
    schema = asked_schema(agent) if (agent := agent_of(node)) else given
    if not schema:
        return None, ""
    return schema, type_name(schema) if given else fields_of(schema).strip()


def asked_again(node: AgentNode | RemoteAgentNode) -> str:
    """The note on retries after the agent's type, such as ` (asked again up to 2 times)`, or nothing."""
    times = agent.retries if (agent := agent_of(node)) else 0
    return f" (asked again up to {times} time{'s' * (times > 1)})" if times else ""


def tool_name(tool: object) -> str:
    """The name under which a model sees a tool; for a toolset, the name of its class."""
    if isinstance(tool, Tool):
        return tool.label
    name = getattr(tool, "name", None)
    if isinstance(name, str) and name:
        return name
    return function_name(tool, type(tool).__name__)


def is_toolset(tool: object) -> bool:
    """True for a toolset: its tools are known only during a run."""
    return tool.called is None if isinstance(tool, Tool) else hasattr(tool, "get_tools")


def prompt_text(instruction: object) -> str:
    """An instruction as text with unfilled placeholders; dynamic ones as the user wrote them, or `<name>`."""
    if instruction is UNSET or instruction is None:
        return ""
    if isinstance(instruction, str):
        return instruction
    if isinstance(instruction, PromptSpec):
        return str(instruction) if instruction.static else repr(instruction)
    return f"<{function_name(instruction, 'function')}>"


def listed(names: Iterable[str]) -> str:
    """Join one or more names: `a, b and c`."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def hanging(label: str, text: str) -> str:
    """Put a label before a text, and indent the text's further lines below its first one."""
    first, *others = text.split("\n")
    return "\n".join([label + first, *(" " * len(label) + line if line else "" for line in others)])
