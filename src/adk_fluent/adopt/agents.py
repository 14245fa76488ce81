"""Agents as source: those that ask a model, those of other processes, and native ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from adk_fluent.adopt.writer import Writer, given_in_order
from adk_fluent.adopt.writing import Chain, SourceCall, named, text
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.adk_fields import METHODS, method_of
from adk_fluent.ir.adk_objects import object_path
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import InOrder, Repeated
from adk_fluent.ir.functions import Access, access
from adk_fluent.ir.nodes import (
    CALLBACK_FIELDS,
    AgentNode,
    KnownNativeNode,
    ModelSelectorNode,
    NativeNode,
    ParallelNode,
    RemoteAgentNode,
    RouteNode,
    SequenceNode,
)
from adk_fluent.ir.tools import GenerateOptions
from adk_fluent.tools.sources import FunctionTool

_METHODS: Final[Mapping[str, str]] = {
    **METHODS,
    "produces_type": "produces",
    "consumes_type": "consumes",
}
_ELSEWHERE: Final = frozenset(
    {
        "name",
        "model",
        "children",
        "annotations",
        "tools",
        "disallow_transfer_to_parent",
        "disallow_transfer_to_peers",
        "generate_content_config",
        "written_fields",
        "read_fields",
        "selector",
        "retries",
        "merge",
        "max_iterations",
        "until",
    }
)
"""The fields that are not written by a method of their own."""
_REMOTE_ELSEWHERE: Final = ("name", "annotations", "endpoint", "declared_reads", "output_key", "public_only")


def agent(writer: Writer, node: AgentNode) -> Chain:
    """An agent with its fields."""
    if "declared_writes" in node.given:
        writer.refuse(node, "declared_writes")
    arguments = [text(node.name)]
    if "model" in node.given:
        arguments.append(writer.of(node, "model", node.given["model"]))
    chain = [SourceCall(writer.names.use("adk_fluent", "Agent"), tuple(arguments)), *fields(writer, node)]
    if node.written_fields:
        chain.append(
            SourceCall(".writes", tuple(writer.of(node, "writes", one) for one in node.written_fields))
        )
    chain += _generate(writer, node)
    chain += _tools(writer, node)
    chain += _seen(writer, node)
    if node.selector is not None:
        chain.append(selector(writer, node, node.selector))
    stays, alone = node.disallow_transfer_to_parent is True, node.disallow_transfer_to_peers is True
    if stays or alone:
        chain.append(SourceCall(".isolate" if stays and alone else ".stay" if stays else ".no_peers"))
    if node.children:
        chain.append(SourceCall(".delegate", tuple(writer.step(child) for child in node.children)))
    return chain


def fields(writer: Writer, node: Node) -> Iterator[SourceCall]:
    """The fields that have a method each, in ADK's order."""
    for name, value in given_in_order(node):
        if name in _ELSEWHERE:
            continue
        if name in CALLBACK_FIELDS:
            shown = tuple(writer.of(node, f"{name}[{i}]", one) for i, one in enumerate(value))
            yield SourceCall(f".{method_of(name)}", shown)
        elif name == "output_key" and node.given.get("written_fields"):
            continue  # its schema fields say it
        elif name in ("parallel_worker", "rerun_on_resume") and value is True:
            yield SourceCall(f".{name}")
        else:
            again = named([("retries", str(node.given["retries"]))] if "retries" in node.given else [])
            more = again if name == "output_schema" else ()
            yield SourceCall(f".{_METHODS.get(name, name)}", (writer.of(node, name, value), *more))


def _generate(writer: Writer, node: AgentNode) -> Iterator[SourceCall]:
    config = node.given.get("generate_content_config")
    if isinstance(config, GenerateOptions):
        held = [
            (name, writer.of(node, f"generate_content_config.{name}", value))
            for name, value in config.options
        ]
        yield SourceCall(".generate", named(held))
    elif config is not None:
        value = writer.of(node, "generate_content_config", config)
        yield SourceCall(".generate_content_config", (value,))


def _tools(writer: Writer, node: AgentNode) -> Iterator[SourceCall]:
    plain: list[str] = []
    for index, tool in enumerate(node.tools):
        asking = tool.require_confirmation if isinstance(tool, FunctionTool) else False
        if asking is not False and cast(FunctionTool, tool).declared is None:
            if plain:
                yield SourceCall(".tools", tuple(plain))
                plain = []
            when = "True" if asking is True else writer.of(node, f"tools[{index}]", asking)
            function = writer.of(node, f"tools[{index}].func", cast(FunctionTool, tool).function)
            yield SourceCall(".tool", (function, f"require_confirmation={when}"))
        else:
            plain.append(_agent_tool(writer, node, index, tool) or writer.of(node, f"tools[{index}]", tool))
    if plain:
        yield SourceCall(".tools", tuple(plain))


def _agent_tool(writer: Writer, node: AgentNode, index: int, tool: Any) -> str | None:
    """ADK's own tool around an agent, made anew around what the agent is written as."""
    from adk_fluent.adopt.adopting import inside

    if object_path(tool) is not None or (held := inside(tool)) is None:
        return None
    _, home = writer.home(node)
    writer.learn(tool.agent, None if home is None else f"{home}.tools[{index}].agent")
    kind = writer.names.ref(f"{type(tool).__module__}:{type(tool).__name__}")
    options = named((name, writer.of(node, name, value)) for name, value in held.options)
    return f"{kind}({', '.join([f'{writer.step(held.body)}.build()', *options])})"


def _seen(writer: Writer, node: AgentNode) -> Iterator[SourceCall]:
    """What it sees of the conversation, said by its schema fields where it was said so."""
    context = node.annotations.context
    if context is None and not node.read_fields:
        return
    from adk_fluent.expr.agent import Agent

    blank, whole = Agent("a"), cast(Any, context)
    if not node.read_fields:
        yield SourceCall(".context", (writer.of(node, "context", context),))
        return
    keys = tuple(writer.of(node, "reads", one) for one in node.read_fields)
    ways: list[tuple[Callable[[], Any], tuple[SourceCall, ...]]] = [
        (lambda: blank.reads(*node.read_fields), (SourceCall(".reads", keys),)),
        (
            lambda: blank.reads(*node.read_fields, keep_history=True),
            (SourceCall(".reads", (*keys, "keep_history=True")),),
        ),
        (
            lambda: blank.context(whole).reads(*node.read_fields),
            (SourceCall(".context", (writer.of(node, "context", context),)), SourceCall(".reads", keys)),
        ),
    ]
    found = (calls for make, calls in ways if make().node.annotations.context == context)
    calls = next(found, None)
    if calls is None:
        writer.refuse(node, "the fields that it reads")
    yield from calls or ()


def selector(writer: Writer, node: Node, selector: ModelSelectorNode) -> SourceCall:
    """What chooses the model."""
    shown = [
        (name, writer.of(node, name, value))
        for name, value in selector.given.items()
        if name not in ("strategy", "candidates", "name", "annotations")
    ]
    candidates = ", ".join(writer.of(node, "candidates", one) for one in selector.candidates)
    return SourceCall(
        ".model_select", (text(selector.strategy), *named([("candidates", f"[{candidates}]"), *shown]))
    )


def remote(writer: Writer, node: RemoteAgentNode) -> Chain:
    """An agent of another process."""
    renamed = {"timeout_seconds": "timeout"}
    shown = [("endpoint", text(node.endpoint))]
    for name, value in given_in_order(node):
        if name in _REMOTE_ELSEWHERE:
            continue
        if name == "auth":
            writer.left_out.append(f"auth of {node.name}: a token does not belong into source.")
        elif name == "fallback":
            shown.append((name, writer.step(value)))
        else:
            shown.append((renamed.get(name, name), writer.of(node, name, value)))
    if node.public_only:
        writer.refuse(node, "public_only")
    chain = [SourceCall(writer.names.use("adk_fluent", "RemoteAgent"), (text(node.name), *named(shown)))]
    if node.declared_reads:
        chain.append(SourceCall(".reads", tuple(map(text, node.declared_reads))))
    return [*chain, SourceCall(".writes", (text(node.output_key),))] if node.output_key else chain


def native_agent(writer: Writer, node: NativeNode | KnownNativeNode) -> Chain:
    """What runs as it was given."""
    value = node.native.value
    path = writer.path(value)
    kind = type(value).__name__
    if path is None:
        raise ArgumentError(
            f"to_source() cannot refer to {node.native.name!r}, a {kind}: give it a name in a module."
        )
    article = "an" if kind[:1].lower() in "aeiou" else "a"
    writer.native.append(f"{node.native.name}, {article} {kind}: {_why(node)}")
    arguments = [writer.names.ref(path)]
    if isinstance(node, NativeNode) and (said := node.declared) and said != access(value) and said.given:
        arguments.append(f"declare={{{text(node.name)}: {_declares(writer, said)}}}")
    return [SourceCall(writer.names.use("adk_fluent.adopt", "adopt"), tuple(arguments))]


def _declares(writer: Writer, said: Access) -> str:
    name = writer.names.use("adk_fluent.state", "declares")
    keys = {"reads": said.reads, "writes": said.writes}
    shown = [f"{what}=[{', '.join(map(text, sorted(of)))}]" for what, of in keys.items() if of]
    return f"{name}({', '.join(shown)})"


def _why(node: NativeNode | KnownNativeNode) -> str:
    """Why an agent stays what it is."""
    native: Any = node.native.value
    if isinstance(node, NativeNode):
        if type(native).__name__ == "RemoteA2aAgent":
            from adk_fluent.adopt.reading.native_trees import read_remote

            return f"{read_remote(native)}."
        return "only its class knows what it does."
    if hasattr(native, "graph"):
        return f"ADK runs a graph itself. In it: {outline(node.body)}."
    return "its class has more than LlmAgent: fields or methods of its own."


def outline(node: Node) -> str:
    """A tree of a graph in a line: what runs after what, beside what, or again."""
    signs: Mapping[type[Node], str] = {SequenceNode: " >> ", ParallelNode: " | ", RouteNode: " or "}
    if type(node) in signs:
        inner = signs[type(node)].join(outline(child) for child in node.children)
        return inner if isinstance(node.runs, InOrder) else f"({inner})"
    if isinstance(node.runs, Repeated):
        return f"({' >> '.join(outline(child) for child in node.children)}) again"
    return node.name or node.label
