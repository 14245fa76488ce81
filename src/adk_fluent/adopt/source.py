"""`to_source`: an adopted project as readable source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, Final, cast

from adk_fluent.adopt.writing import Call, assignment, imports, text
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.base import Expr
from adk_fluent.ir.base import Node, rewrite, root_of
from adk_fluent.ir.functions import Access, access, import_path
from adk_fluent.ir.native import is_native, object_path
from adk_fluent.ir.nodes import (
    CALLBACK_FIELDS,
    AgentNode,
    KnownNativeNode,
    LoopNode,
    NativeNode,
    ParallelNode,
    SequenceNode,
)
from adk_fluent.ir.tools import GenerateOptions
from adk_fluent.tools.sources import FunctionTool

_METHODS: Final[Mapping[str, str]] = {
    "description": "describe",
    "instruction": "instruct",
    "static_instruction": "static",
    "global_instruction": "global_instruct",
    "output_key": "writes",
    "output_schema": "returns",
    "input_schema": "accepts",
    "timeout": "node_timeout",
}
"""The fields whose method has another name; that of a callback is named without its ending."""
_ELSEWHERE: Final = frozenset(
    {"name", "model", "children", "annotations", "tools", "disallow_transfer_to_parent"}
    | {
        "disallow_transfer_to_peers",
        "generate_content_config",
        "max_iterations",
        "native",
        "body",
        "declared",
    }
)
_KINDS: Final[Mapping[type[Node], str]] = {
    SequenceNode: "Pipeline",
    ParallelNode: "FanOut",
    LoopNode: "Loop",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Source of an expression.

    Attributes:
        text: the module; its `pipeline` is the expression.
        native: what was left as it is, and why, in a line each.
    """

    text: str
    native: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


def to_source(x: object) -> str:
    """Python source of a project made with ADK alone, or of an expression of agents, as adk-fluent says it.

    Functions, classes, tools and models are referred to by import; what has no import path, such as a lambda,
    is taken from the native agent. The module has `pipeline`, the expression, and `root_agent`, what it
    builds.

    Args:
        x: an agent, a workflow or an app of ADK's, or an expression of agents, sequences, fan-outs and loops.

    Raises:
        ArgumentError: something in it can be referred to in no way, or it is a step of another kind.

    Example:
        >>> from google.adk.agents import LlmAgent
        >>> print(to_source(LlmAgent(name="clerk", instruction="Sort {topic}.", output_key="intent")))
        from adk_fluent import Agent
        <BLANKLINE>
        pipeline = Agent("clerk").instruct("Sort {topic}.").writes("intent")
        root_agent = pipeline.build()
        <BLANKLINE>
    """
    return written(x).text


def written(x: object) -> Source:
    """`to_source`, with what was left native."""
    if is_native(x):
        from adk_fluent.adopt.adopting import adopt

        return _Writer(x).module(adopt(cast(Any, x)).node)
    return _Writer(None).module(root_of(x))


def bare(x: Expr[Any] | Node) -> Node:
    """The tree without the note that it was made with ADK alone, which source does not repeat."""

    def change(node: Node) -> Node:
        notes = node.annotations
        return node if notes.adopted is None else node.replace(annotations=notes.replace(adopted=None))

    return rewrite(root_of(x), change)


@dataclass
class _Writer:
    """Writes one module.

    Attributes:
        origin: the native object that it is the source of.
        lines: assignments, children before parents.
        left: what stays native, and why.
    """

    origin: object
    lines: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    _names: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    _taken: set[str] = field(default_factory=lambda: {"pipeline", "root_agent", "app"})
    _paths: dict[int, str] = field(default_factory=dict[int, str])
    _agents: dict[str, Any] = field(default_factory=dict[str, Any])

    def module(self, root: Node) -> Source:
        """The whole module."""
        whole = getattr(self.origin, "root_agent", self.origin)
        if whole is not None:
            self._learn(whole)
        chain = self._chain(root)
        self.lines.append(assignment("pipeline", chain))
        app = self.origin if whole is not self.origin else None
        if app is not None and (path := object_path(app)) is not None:
            config = f"{self._use('adk_fluent.adopt', 'config_of')}({self._ref(path)})"
            self.lines.append(f"app = pipeline.to_app({config})")
        else:
            self.lines.append("root_agent = pipeline.build()")
        head = "".join(f"# Left native: {line}\n" for line in self.left)
        used = [(module, name, alias) for alias, (module, name) in self._names.items()]
        body = "\n".join(self.lines)
        return Source(f"{head}{imports(used)}\n\n{body}\n", tuple(self.left))

    def _learn(self, agent: Any, path: str | None = None) -> None:
        """Note how each native agent can be referred to."""
        path = object_path(agent) or path
        if path is not None:
            self._paths[id(agent)] = path
        self._agents.setdefault(str(getattr(agent, "name", "")), agent)
        for index, child in enumerate(getattr(agent, "sub_agents", ())):
            self._learn(child, None if path is None else f"{path}.sub_agents[{index}]")

    # --- nodes ------------------------------------------------------------------------------------

    def _variable(self, node: Node) -> str:
        """The name of a variable that holds a node's expression."""
        name = self._free(node.name or node.label)
        self.lines.append(assignment(name, self._chain(node)))
        return name

    def _free(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self._taken or candidate in self._names or iskeyword(candidate):
            count += 1
            candidate = f"{name}_agent" if count == 2 else f"{name}_agent_{count}"
        self._taken.add(candidate)
        return candidate

    def _chain(self, node: Node) -> list[Call]:
        if isinstance(node, NativeNode | KnownNativeNode):
            chain = [self._native(node)]
        elif isinstance(node, AgentNode):
            chain = self._agent(node)
        elif type(node) in _KINDS:
            chain = self._composite(node)
        else:
            raise ArgumentError(
                f"to_source() writes agents, sequences, fan-outs and loops; {node.name or node.label!r} is a "
                f"{node.kind} step."
            )
        notes = node.annotations.replace(adopted=None, middleware=())
        if notes.given:
            raise ArgumentError(
                f"to_source() cannot write what {node.name!r} says beside ADK's fields: "
                f"{', '.join(notes.given)}."
            )
        if around := node.annotations.middleware:
            plugins: list[object] = list(getattr(self.origin, "plugins", ()))
            chain.append(Call(".middleware", tuple(self._plugin(one, plugins) for one in around)))
        return chain

    def _native(self, node: NativeNode | KnownNativeNode) -> Call:
        value = node.native.value
        path = self._paths.get(id(value)) or object_path(value)
        kind = type(value).__name__
        if path is None:
            raise ArgumentError(
                f"to_source() cannot refer to {node.native.name!r}, a {kind}: give it a name in a module."
            )
        self.left.append(f"{node.native.name}, a {kind}: only its class knows what it does.")
        arguments = [self._ref(path)]
        if isinstance(node, NativeNode) and (said := node.declared) and said != access(value) and said.given:
            arguments.append(f"declare={{{text(node.name)}: {self._declares(said)}}}")
        return Call(self._use("adk_fluent.adopt", "adopt"), tuple(arguments))

    def _declares(self, said: Access) -> str:
        name = self._use("adk_fluent.state", "declares")
        keys = {"reads": said.reads, "writes": said.writes}
        shown = [f"{what}=[{', '.join(map(text, sorted(of)))}]" for what, of in keys.items() if of]
        return f"{name}({', '.join(shown)})"

    def _composite(self, node: Node) -> list[Call]:
        arguments = [self._variable(child) for child in node.children]
        arguments += [f"name={text(node.name)}"] if node.name else []
        if isinstance(node, LoopNode) and node.max_iterations != 10:
            arguments.append(f"max_iterations={node.max_iterations}")
        return [Call(self._use("adk_fluent", _KINDS[type(node)]), tuple(arguments)), *self._fields(node)]

    def _agent(self, node: AgentNode) -> list[Call]:
        arguments = [text(node.name)]
        if "model" in node.given:
            arguments.append(self._value(node, "model", node.given["model"]))
        chain = [Call(self._use("adk_fluent", "Agent"), tuple(arguments)), *self._fields(node)]
        config = node.given.get("generate_content_config")
        if isinstance(config, GenerateOptions):
            held = [
                f"{name}={self._value(node, f'generate_content_config.{name}', value)}"
                for name, value in config.options
            ]
            chain.append(Call(".generate", tuple(held)))
        elif config is not None:
            value = self._value(node, "generate_content_config", config)
            chain.append(Call(".generate_content_config", (value,)))
        chain += self._tools(node)
        stays, alone = node.disallow_transfer_to_parent is True, node.disallow_transfer_to_peers is True
        if stays or alone:
            chain.append(Call(".isolate" if stays and alone else ".stay" if stays else ".no_peers"))
        if node.children:
            chain.append(Call(".delegate", tuple(self._variable(child) for child in node.children)))
        return chain

    def _fields(self, node: Node) -> list[Call]:
        calls: list[Call] = []
        for name in node._defaults:  # pyright: ignore[reportPrivateUsage]  # the fields in ADK's order
            if name not in node.given or name in _ELSEWHERE:
                continue
            value: Any = node.given[name]
            if name in CALLBACK_FIELDS:
                shown = tuple(self._value(node, f"{name}[{i}]", one) for i, one in enumerate(value))
                calls.append(Call(f".{name.removesuffix('_callback')}", shown))
            elif (name, value) == ("parallel_worker", True) or (name, value) == ("rerun_on_resume", True):
                calls.append(Call(f".{name}"))
            else:
                calls.append(Call(f".{_METHODS.get(name, name)}", (self._value(node, name, value),)))
        return calls

    def _tools(self, node: AgentNode) -> list[Call]:
        calls: list[Call] = []
        plain: list[str] = []
        for index, tool in enumerate(node.tools):
            if isinstance(tool, FunctionTool) and tool.require_confirmation:
                if plain:
                    calls.append(Call(".tools", tuple(plain)))
                    plain = []
                asking = tool.require_confirmation
                when = "True" if asking is True else self._value(node, f"tools[{index}]", asking)
                function = self._value(node, f"tools[{index}].func", tool.function)
                calls.append(Call(".tool", (function, f"require_confirmation={when}")))
            else:
                plain.append(self._value(node, f"tools[{index}]", tool))
        return [*calls, Call(".tools", tuple(plain))] if plain else calls

    # --- values -----------------------------------------------------------------------------------

    def _value(self, node: Node, where: str, value: Any) -> str:
        """A value as source: written down, imported, or taken from the native agent."""
        if (plain := _literal(value)) is not None:
            return plain
        path = import_path(value) if callable(value) else None
        path = path or object_path(value)
        if path is not None and "<" not in path:
            return self._ref(path)
        native = self._agents.get(node.name)
        home = self._paths.get(id(native))
        found = None if home is None else _found(native, where, value)
        if home is None or found is None:
            raise ArgumentError(
                f"to_source() cannot refer to {where} of {node.name!r}, {value!r:.60}: give it, or the "
                "agent, a name at the top level of a module."
            )
        what = getattr(value, "__name__", None) or type(value).__name__
        self.left.append(f"{where} of {node.name}: {what} has no name that could be imported.")
        return f"{self._ref(home)}.{found}"

    def _plugin(self, plugin: object, plugins: list[object]) -> str:
        path = object_path(plugin)
        home = object_path(self.origin)
        if path is not None:
            return self._ref(path)
        place = next((index for index, one in enumerate(plugins) if one is plugin), None)
        if home is None or place is None:
            raise ArgumentError(f"to_source() cannot refer to {plugin!r:.60}: give it a name in a module.")
        return f"{self._ref(home)}.plugins[{place}]"

    def _ref(self, path: str) -> str:
        """A reference to `module:name.more`, whose name is imported."""
        module, _, qualified = path.partition(":")
        cut = min(
            (at for at in (qualified.find("."), qualified.find("[")) if at >= 0), default=len(qualified)
        )
        return self._use(module, qualified[:cut]) + qualified[cut:]

    def _use(self, module: str, name: str) -> str:
        """The name under which something is imported."""
        module = _public(module, name)
        alias, count = name, 1
        while (alias in self._taken) or self._names.get(alias, (module, name)) != (module, name):
            count += 1
            alias = f"native_{name}" if count == 2 else f"native_{name}_{count}"
        self._names[alias] = (module, name)
        return alias


def _public(module: str, name: str) -> str:
    """The package that gives out what a module of ADK's defines."""
    import sys

    if not module.startswith("google.adk."):
        return module
    package = ".".join(module.split(".")[:3])
    held = sys.modules.get(package)
    same = held is not None and getattr(held, name, None) is getattr(sys.modules.get(module), name, False)
    return package if same else module


def _literal(value: object) -> str | None:
    """A plain value as source; `None` for anything else."""
    if isinstance(value, str):
        return text(value) if type(value) is str else None
    if value is None or type(value) in (bool, int, float, bytes):
        return repr(value)
    if type(value) in (list, tuple):
        items = [_literal(item) for item in cast("list[object]", value)]
        if None in items:
            return None
        inner = ", ".join(cast("list[str]", items))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(items) == 1)})"
    if type(value) is dict:
        pairs = [(_literal(k), _literal(v)) for k, v in cast("dict[object, object]", value).items()]
        if any(k is None or v is None for k, v in pairs):
            return None
        return f"{{{', '.join(f'{k}: {v}' for k, v in pairs)}}}"
    return None


def _found(native: object, where: str, value: object) -> str | None:
    """How a field of a native agent leads to a value: a callback may be one, or one of a list."""
    name, _, rest = where.partition("[")
    held: Any = native
    for part in name.split("."):
        held = getattr(held, part, None)
    if not rest:
        return name if held is value else None
    index = int(rest.partition("]")[0])
    many = isinstance(held, list | tuple)
    items: list[Any] = list(cast("list[Any]", held)) if many else [held]
    for way, get in _WAYS.items():
        if index < len(items) and get(items[index]) is value:
            return f"{name}[{index}]{way}" if isinstance(held, list) else name
    return None


_WAYS: Final[Mapping[str, Callable[[Any], object]]] = {
    "": lambda item: item,
    ".func": lambda item: getattr(item, "func", None),
}
