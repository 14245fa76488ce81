"""The operations of `S`, `C`, `P`, `T` and `A` as the calls of the factories that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from itertools import zip_longest
from typing import Any, Final, cast

from adk_fluent.adopt.writing import Unwritable, Writing, named, text
from adk_fluent.artifacts.operations.base import ArtifactOperation
from adk_fluent.context.composition import Pipe, Sum
from adk_fluent.context.filters import Redact
from adk_fluent.context.sources import Scratchpads
from adk_fluent.context.spec import Context
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import access
from adk_fluent.ir.predicates import Match
from adk_fluent.prompt import spec as prompts
from adk_fluent.prompt.text import HEADERS, UNNAMED
from adk_fluent.state.operations.base import StateOperation
from adk_fluent.state.operations.conditions import Together as AtOnce
from adk_fluent.state.operations.writes import Fn
from adk_fluent.tools.sources import AgentTool, FunctionTool, RemoteTool, VertexAiSearch
from adk_fluent.tools.spec import ArtifactTool, Tool, ToolGroup

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def called(factory: str, held: Mapping[str, Any], writing: Writing, name: str = "") -> str:
    """A call of a factory, such as `S.rename`, with what its operation holds.

    What a parameter takes is in the field of its name, else in the first field that is left.

    Args:
        factory: its namespace.
        name: its own name.

    Raises:
        Unwritable: there is no such factory, or it has no parameter for a field.
    """
    import adk_fluent

    function = getattr(getattr(adk_fluent, factory), name, None)
    if function is None:
        raise Unwritable
    parameters = list(signature(function).parameters.values())
    rest = [value for field, value in held.items() if field not in signature(function).parameters]
    values = {one.name: held[one.name] for one in parameters if one.name in held}
    others = [one.name for one in parameters if one.name not in held and one.name != "scope"]
    if len(rest) > len(others):
        raise Unwritable
    values |= dict(zip(others, rest, strict=False))
    shown = [
        text for one in parameters if one.name in values for text in _argument(one, values[one.name], writing)
    ]
    return f"{writing.names.use('adk_fluent', factory)}.{name}({', '.join(shown)})"


def _argument(parameter: Parameter, value: Any, writing: Writing) -> tuple[str, ...]:
    """What stands in a call for one parameter; nothing for its default."""
    if parameter.kind is Parameter.VAR_POSITIONAL:
        items = sorted(cast("frozenset[str]", value)) if isinstance(value, frozenset) else value
        return tuple(_shown(item, writing) for item in cast("tuple[Any, ...]", items))
    if parameter.kind is Parameter.VAR_KEYWORD:
        return named((name, _shown(one, writing)) for name, one in value)
    if type(value) is type(parameter.default) and value == parameter.default:
        return ()
    shown = _shown(dict(value) if parameter.name == "metadata" else value, writing)
    return (
        (shown,)
        if parameter.default is Parameter.empty and parameter.kind in _POSITIONAL
        else (f"{parameter.name}={shown}",)
    )


def _shown(value: Any, writing: Writing) -> str:
    if isinstance(value, Match) and (value.op, value.value) == ("truthy", True):
        return text(value.key)
    if isinstance(value, Node):
        return writing.step(value)
    steps = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if steps and all(isinstance(one, Node) for one in steps):
        return " >> ".join(writing.step(cast(Node, one)) for one in steps)
    return writing.value(value)


def _own(operation: Any) -> dict[str, Any]:
    return {name: getattr(operation, name) for name in operation._defaults}


# --- each namespace -------------------------------------------------------------------------------


def _state(operation: StateOperation, writing: Writing) -> str:
    if isinstance(operation, AtOnce):
        return f"({' + '.join(writing.step(step) for step in operation.steps)})"
    held = _own(operation)
    if isinstance(operation, Fn):
        said = held.pop("declared")
        if said != access(operation.fn):
            held |= {"reads": sorted(said.reads), "writes": sorted(said.writes)}
    return called("S", held, writing, operation.name)


def _artifact(operation: ArtifactOperation, writing: Writing) -> str:
    return called("A", _own(operation), writing, operation.name)


def _artifact_tool(tool: ArtifactTool, writing: Writing) -> str:
    return f"{writing.names.use('adk_fluent', 'A')}.tool.{tool.kind}()"


def _context(spec: Context, writing: Writing) -> str:
    if isinstance(spec, Sum | Pipe):
        joined = spec.sign.join(_inside(part, writing) for part in spec.parts)
        return f"({joined}).as_contents()" if spec.contents else joined
    held: dict[str, Any] = dict(spec.params)
    if isinstance(spec, Scratchpads):
        (held["key"],) = held.pop("keys")
    if isinstance(spec, Redact):
        import re

        held["patterns"] = tuple(
            pattern if re.compile(pattern).flags == flags else re.compile(pattern, flags)
            for pattern, flags in spec.patterns
        )
    shown = called(spec.namespace, held | ({"spec": spec.parts[0]} if spec.parts else {}), writing, spec.op)
    alone = spec.contents and not (spec.parts and spec.parts[0].contents)
    return f"{shown}.as_contents()" if alone else shown


def _inside(part: Context, writing: Writing) -> str:
    shown = writing.value(part)
    return f"({shown})" if isinstance(part, Sum | Pipe) and not part.contents else shown


def _prompt(prompt: prompts.PromptSpec, writing: Writing) -> str:
    name = writing.names.use("adk_fluent", "P")
    shown = " + ".join(_part(part, name, writing) for part in prompt.parts)
    if prompt.order:
        inner = f"({shown})" if len(prompt.parts) > 1 else shown
        shown = f"{inner} | {name}.reorder({', '.join(map(text, prompt.order))})"
    for before, after in zip_longest(reversed(prompt.preambles), prompt.postambles, fillvalue=""):
        shown = f"{name}.scaffolded({shown}, preamble={text(before)}, postamble={text(after)})"
    return f"{name}.versioned({shown}, tag={text(prompt.tag)})" if prompt.tag else shown


def _part(part: prompts.Part, name: str, writing: Writing) -> str:
    if isinstance(part, prompts.Section):
        if part.name in HEADERS or part.name in UNNAMED:
            return f"{name}.{part.name}({text(part.text)})"
        return f"{name}.section({text(part.name)}, {text(part.text)})"
    if isinstance(part, prompts.FromState):
        return f"{name}.from_state({', '.join(map(text, part.keys))})"
    if isinstance(part, prompts.When):
        return f"{name}.when({_shown(part.test, writing)}, {writing.value(part.then)})"
    rewrite = cast(prompts.Rewrite, part)
    options = {
        "max_tokens": rewrite.max_tokens,
        "audience": rewrite.audience or None,
        "model": rewrite.model,
    }
    given = named((key, writing.value(value)) for key, value in options.items() if value is not None)
    source = writing.value(rewrite.source)
    inner = source if len(rewrite.source.parts) == 1 and " " not in source else f"({source})"
    return f"({inner} | {name}.{rewrite.operation}({', '.join(given)}))"


def _tool(tool: Tool, writing: Writing) -> str:
    if isinstance(tool, ToolGroup):
        return " | ".join(writing.value(part) for part in tool.parts)
    held = _own(tool)
    if isinstance(tool, FunctionTool):
        held |= {"confirm": held.pop("require_confirmation")}
        said = held.pop("declared")
        held |= {} if said is None else {"reads": sorted(said.reads), "writes": sorted(said.writes)}
    elif isinstance(tool, RemoteTool):
        given = dict(tool.body.given)
        held = {"url": given.pop("endpoint"), "timeout": tool.body.timeout_seconds}
        given.pop("timeout_seconds", None)
        held |= given
    elif isinstance(tool, AgentTool):
        return f"{writing.names.use('adk_fluent', 'T')}.agent({writing.step(tool.body)})"
    elif isinstance(tool, VertexAiSearch):
        held = dict(tool.options)
    return called("T", held, writing, tool.op)


OPERATIONS: Final[tuple[tuple[type[Any], Callable[[Any, Any], str]], ...]] = (
    (StateOperation, _state),
    (ArtifactOperation, _artifact),
    (ArtifactTool, _artifact_tool),
    (Context, _context),
    (prompts.PromptSpec, _prompt),
    (Tool, _tool),
)
"""The bases of all operations, each with how one is written."""
