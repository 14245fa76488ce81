"""Native agents and apps, made with ADK alone, as nodes.

What a class of ADK's own says is a node of its kind. A subclass runs as it is, and is looked into as far as
it leaves alone what its base does; everything else is one opaque node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool as AdkFunctionTool
from google.genai import types

from adk_fluent.backends.adk.api import AddedPlugin, made_with, without_crossings
from adk_fluent.errors import ArgumentError
from adk_fluent.ir._generated import (
    AGENT_FIELDS,
    GENERATE_OPTIONS,
    LOOP_FIELDS,
    PARALLEL_FIELDS,
    SEQUENCE_FIELDS,
)
from adk_fluent.ir.adk_objects import Native, is_native
from adk_fluent.ir.annotations import Adopted, Annotations
from adk_fluent.ir.base import Node
from adk_fluent.ir.functions import NO_ACCESS, Access, access, declares
from adk_fluent.ir.nodes import (
    CALLBACK_FIELDS,
    NO_LIMIT,
    AgentNode,
    KnownNativeNode,
    LoopNode,
    NativeNode,
    ParallelNode,
    RemoteAgentNode,
    SequenceNode,
)
from adk_fluent.ir.tools import GenerateOptions, confirms
from adk_fluent.spelling import did_you_mean
from adk_fluent.tools.sources import FunctionTool, access_of

Declared = Mapping[str, Access]
_ADOPTED: Final = Annotations(adopted=Adopted())
_SHELLS: Final[Mapping[str, tuple[type[Node], tuple[str, ...]]]] = {
    "SequentialAgent": (SequenceNode, SEQUENCE_FIELDS),
    "ParallelAgent": (ParallelNode, PARALLEL_FIELDS),
    "LoopAgent": (LoopNode, LOOP_FIELDS),
}
"""ADK's own composites, by name: importing them where they are deprecated says so."""


def read(value: object, declare: Mapping[str, object] | None = None) -> Node:
    """The tree of a native agent, workflow or app; one that adk-fluent built is what it was built of.

    Args:
        declare: name of an opaque agent → `declares(...)`: the state keys that it touches.

    Raises:
        ArgumentError: it is none of these, `declare` names no opaque agent in it, or its agents stand in a
            circle, or one of them twice.
    """
    reading = Reading({name: _declared(name, said) for name, said in (declare or {}).items()})
    node = reading.whole(value)
    for name in reading.declare:
        if name not in reading.opaque:
            raise ArgumentError(
                f"declare= names {name!r}, which is no agent that cannot be looked into."
                f"{did_you_mean(name, reading.opaque)}"
            )
    return node


def _declared(name: str, said: object) -> Access:
    if isinstance(said, Access):
        return said
    if callable(said) and getattr(said, "__qualname__", "").startswith(declares.__name__):
        return access(cast("Callable[[object], object]", said)(lambda: None))
    raise ArgumentError(
        f"declare={{{name!r}: ...}} takes declares(reads=[...], writes=[...]), not {said!r:.60}."
    )


class Reading:
    """Reads one native tree.

    Attributes:
        opaque: the names of the agents in it that cannot be looked into.
    """

    def __init__(self, declare: Declared) -> None:
        self.declare = declare
        self.opaque: dict[str, None] = {}
        self._around: list[BaseAgent] = []
        self._seen: dict[int, BaseAgent] = {}

    def whole(self, value: object) -> Node:
        """An app, an agent, or a workflow."""
        if isinstance(value, App):
            node = self.whole(value.root_agent)
            added = AddedPlugin if hasattr(value.root_agent, "_ir") else ()
            plugins = [plugin for plugin in value.plugins if not isinstance(plugin, added)]
            if not plugins:
                return node
            around = (*plugins, *node.annotations.middleware)
            return node.replace(annotations=node.annotations.replace(middleware=around))
        if isinstance(value, BaseAgent):
            return self.agent(value)
        if not is_native(value):
            raise ArgumentError(f"adopt() takes an agent, a workflow or an App of ADK's, not {value!r:.60}.")
        return self.graph(value)

    def graph(self, value: object) -> Node:
        """A workflow of ADK 2, as far as its graph is a shape that the analysis knows."""
        from adk_fluent.adopt.reading.workflow_shapes import shape

        name = str(getattr(value, "name", "workflow"))
        body = None if name in self.declare else shape(value, self)
        if body is None:
            return self.unknown(value, name)
        return KnownNativeNode(native=Native(value), body=body)

    def unknown(self, value: object, name: str, declared: Access | None = None) -> NativeNode:
        """What cannot be looked into."""
        self.opaque[name] = None
        known = self.declare.get(name, declared)
        if known is None:
            said = access(value)
            known = said if said.reads_known or said.writes_known else None
        inside = tuple(_trees(getattr(value, "sub_agents", ())))
        notes = Annotations(adopted=Adopted(agents=inside)) if inside else _ADOPTED
        return NativeNode(name=name, native=Native(value), declared=known, annotations=notes)

    def agent(self, agent: BaseAgent) -> Node:
        """An agent with all below it."""
        found = getattr(agent, "_ir", None)
        if isinstance(found, Node):
            return without_crossings(cast(Any, agent).current_node())
        if any(above is agent for above in self._around):
            names = " > ".join(above.name for above in [*self._around, agent])
            raise ArgumentError(
                f"Agents stand in a circle: {names}. Take one out of the sub_agents of the other."
            )
        if id(agent) in self._seen:
            raise ArgumentError(
                f"Agent {agent.name!r} stands at two places. ADK gives an agent one parent: put in "
                f"{agent.name}.clone(), under another name."
            )
        self._seen[id(agent)] = agent
        self._around.append(agent)
        try:
            return self._kind(agent)
        finally:
            self._around.pop()

    def _kind(self, agent: BaseAgent) -> Node:
        cls = type(agent)
        base = next((base for base in cls.__mro__ if base.__module__.startswith("google.adk.")), cls)
        if base.__name__ == "RemoteA2aAgent":
            remote = read_remote(agent) if cls is base and agent.name not in self.declare else ""
            return self.unknown(agent, agent.name, NO_ACCESS) if isinstance(remote, str) else remote
        plain = cls is base or _adds_nothing(cls, base)
        if base is LlmAgent and agent.name not in self.declare:
            if plain and not _more_fields(cls):
                return self.llm(cast(LlmAgent, agent))
            if not _overrides_run(cls, base):
                return KnownNativeNode(native=Native(agent), body=self.llm(cast(LlmAgent, agent)))
        if plain and base.__name__ in _SHELLS:
            return self._shell(agent, *_SHELLS[base.__name__])
        return self.unknown(agent, agent.name)

    def _shell(self, agent: BaseAgent, kind: type[Node], fields: tuple[str, ...]) -> Node:
        values = _given(agent, fields)
        if kind is LoopNode:
            values["max_iterations"] = NO_LIMIT
            if (rounds := cast(Any, agent).max_iterations) is not None:
                values["max_iterations"] = max(rounds, 0)
        children = tuple(self.agent(child) for child in agent.sub_agents)
        return cast(Any, kind)(name=agent.name, children=children, **values)

    def llm(self, agent: LlmAgent) -> AgentNode:
        """An agent of ADK's own class, or as far as it is one."""
        values = _given(agent, AGENT_FIELDS)
        if values.get("mode") == "chat" and isinstance(agent.parent_agent, LlmAgent):
            del values["mode"]  # its parent has set it
        if (config := values.pop("generate_content_config", None)) is not None:
            values |= _config(config)
        inside: list[tuple[object, Node]] = []
        if tools := [tool for tool in values.pop("tools", ()) if not _is_added(tool, agent)]:
            values["tools"] = tuple(map(_tool, tools))
            for tool in tools:
                if isinstance(tool, AgentTool):
                    inside.append((tool, Reading({}).whole(tool.agent)))
        children = tuple(self.agent(child) for child in agent.sub_agents)
        used = Adopted(
            tuple((tool, access_of(body)) for tool, body in inside), tuple(body for _, body in inside)
        )
        notes = Annotations(adopted=used) if inside else _ADOPTED
        return AgentNode(name=agent.name, annotations=notes, children=children, **values)


def _trees(agents: Iterable[BaseAgent]) -> Iterator[Node]:
    """The trees of the agents inside one that cannot be looked into, as far as they can be read."""
    for agent in agents:
        with suppress(ArgumentError):  # the code of the user may run agents that form no tree
            yield Reading({}).agent(agent)


# --- fields ---------------------------------------------------------------------------------------


@cache
def _defaults(cls: type[BaseAgent], names: tuple[str, ...]) -> Mapping[str, object]:
    fields = cls.model_fields
    return {name: fields[name].get_default(call_default_factory=True) for name in names if name in fields}


def _given(agent: BaseAgent, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields that somebody has set, as a node holds them."""
    values: dict[str, Any] = {}
    held = agent.__dict__
    for name, default in _defaults(type(agent), names).items():
        value = held.get(name, default)
        if value is default or (type(value) is type(default) and value == default):
            continue
        if name in CALLBACK_FIELDS:
            many = isinstance(value, list | tuple)
            value = tuple(cast("Iterable[object]", value)) if many else (value,)
        values[name] = value
    return values


def _config(config: types.GenerateContentConfig) -> dict[str, Any]:
    """Options for the model, in the form that `.generate()` gives them where that has them all."""
    names = [name for name in type(config).model_fields if name in config.model_fields_set]
    if not names:
        return {}
    if any(name not in GENERATE_OPTIONS for name in names):
        return {"generate_content_config": config}
    return {
        "generate_content_config": GenerateOptions(tuple((name, getattr(config, name)) for name in names))
    }


def _tool(tool: object) -> object:
    """Return the function of a `FunctionTool` that is as ADK makes it of the function; else the tool itself.

    So a tool keeps a name, a description or another setting that it was given after it was made.
    """
    if type(tool) is not AdkFunctionTool or not hasattr(tool.func, "__name__"):
        return tool
    if _settings(tool) != _settings(AdkFunctionTool(tool.func)):
        return tool
    asking: Any = getattr(tool, "_require_confirmation", False) if confirms(tool) else False
    return FunctionTool(tool.func, asking) if asking else tool.func


def _is_added(tool: object, agent: LlmAgent) -> bool:
    """Whether ADK has added a tool, for the `mode` of the agent or of a sub-agent; it will do so again."""
    kind = type(tool)
    if kind.__name__ == "FinishTaskTool":
        return kind.__module__.startswith("google.adk.")
    inner = getattr(tool, "agent", None)
    return (
        isinstance(tool, AgentTool)
        and kind is not AgentTool
        and any(inner is one for one in agent.sub_agents)
    )


def _settings(tool: AdkFunctionTool) -> Mapping[str, object]:
    return {name: value for name, value in vars(tool).items() if not name.startswith("_")}


# --- remote agents ----------------------------------------------------------------------------------


_CALLBACKS: Final = ("before_agent_callback", "after_agent_callback")


def read_remote(agent: BaseAgent) -> RemoteAgentNode | str:
    """The node of a `RemoteA2aAgent`, or why it must stay what it is."""
    endpoint, seconds, more = made_with(agent)
    if endpoint is None or not endpoint.startswith(("http://", "https://")):
        return "its card is no URL"
    more += tuple(name for name in ("sub_agents", "mode", *_CALLBACKS) if getattr(agent, name, None))
    if more:
        return f"it has more than a URL: {', '.join(more)}"
    said: dict[str, Any] = {"description": agent.description} if agent.description else {}
    said["raises"] = False  # ADK tells of a failure by an event, too
    if endpoint.startswith("http://"):
        from adk_fluent.a2a.protocol.cards import is_loopback  # which the others do not need

        said |= {} if is_loopback(endpoint) else {"allow_http": True}
    return RemoteAgentNode(name=agent.name, endpoint=endpoint, timeout_seconds=seconds, **said)


# --- classes --------------------------------------------------------------------------------------


def _own(cls: type, base: type) -> Iterable[type]:
    return cls.__mro__[: cls.__mro__.index(base)]


@cache
def _adds_nothing(cls: type, base: type) -> bool:
    """Whether a subclass has no method of its own, so that it does what its base does."""
    own = (name for one in _own(cls, base) for name, value in vars(one).items() if callable(value))
    return all(name.startswith("__") and name != "__init__" for name in own) and not _state(cls, base)


@cache
def _state(cls: type, base: type) -> bool:
    private = "__private_attributes__"
    return len(getattr(cls, private, {})) > len(getattr(base, private, {}))


@cache
def _more_fields(cls: type[BaseAgent]) -> bool:
    return not set(cls.model_fields) <= {*AGENT_FIELDS, "name", "parent_agent", "sub_agents"}


@cache
def _overrides_run(cls: type, base: type) -> bool:
    runs = {"_run_async_impl", "run_async", "_run_impl", "_run_live_impl", "run_live", "run"}
    return any(not runs.isdisjoint(vars(one)) for one in _own(cls, base))
