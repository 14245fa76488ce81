"""Native ADK agents and apps, made by hand or by `build()`: running and drawing them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.sessions import BaseSessionService

from adk_fluent.backends.adk.compile.compiler import can_pause
from adk_fluent.backends.adk.running.backend import Compiled
from adk_fluent.backends.adk.running.convert import knowingly, resumability
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError, CompileError, UnsupportedNodeError
from adk_fluent.ir.base import UNSET, Node
from adk_fluent.ir.naming import Named
from adk_fluent.ir.nodes import AgentNode, LoopNode, ParallelNode, SequenceNode, TransformNode


def is_native(value: object) -> bool:
    """Whether ADK itself can run this: an agent, an `App`, or, where ADK has them, a workflow."""
    return isinstance(value, App | BaseAgent) or _is_workflow(value)


def _is_workflow(value: object) -> bool:
    try:
        from google.adk.workflow import BaseNode
    except ImportError:  # before ADK 2
        return False
    return isinstance(value, BaseNode)


def adopt(value: object, config: ExecutionConfig) -> Compiled:
    """What `ADKBackend` runs for a native agent, workflow or `App`.

    Args:
        config: how it is run; an `App` keeps its own name and settings.

    Raises:
        ArgumentError: it is none of these.
    """
    if isinstance(value, App):
        root = _node_or_nothing(value.root_agent)
        return Compiled(value, Named(root, {}), replace(config, app_name=value.name))
    if not is_native(value):
        raise ArgumentError(f"ADK cannot run {type(value).__name__}; give an agent, a workflow or an App.")
    root = _node_or_nothing(value)
    pausing = resumability() if can_pause(root) else None
    with knowingly():
        app = App(name=config.app_name, root_agent=cast(Any, value), resumability_config=pausing)
    return Compiled(app, Named(root, {}), config)


def to_node(agent: object) -> Node:
    """The IR of a native agent: what it was compiled from, or as much as ADK's own agents tell.

    Raises:
        UnsupportedNodeError: it is, or holds, an agent of a class that only its author knows.
    """
    if isinstance(agent, App):
        return to_node(agent.root_agent)
    found = getattr(agent, "_ir", None)
    if isinstance(found, Node):
        return found
    if not isinstance(agent, BaseAgent):
        raise UnsupportedNodeError(
            f"A {type(agent).__name__} cannot be drawn; give an expression or an agent."
        )
    children = tuple(to_node(child) for child in agent.sub_agents)
    if isinstance(agent, LlmAgent):
        return AgentNode(
            name=agent.name,
            instruction=agent.instruction,
            output_key=agent.output_key or UNSET,
            output_schema=agent.output_schema or UNSET,
            children=children,
        )
    # By name: these classes are deprecated where `Workflow` exists, and importing them says so.
    kinds = {cls.__name__ for cls in type(agent).__mro__ if cls.__module__.startswith("google.adk.")}
    if "SequentialAgent" in kinds:
        return SequenceNode(name=agent.name, children=children)
    if "ParallelAgent" in kinds:
        return ParallelNode(name=agent.name, children=children)
    if "LoopAgent" in kinds:
        rounds = cast("int | None", getattr(agent, "max_iterations", None))
        return LoopNode(name=agent.name, children=children, max_iterations=rounds or 0)
    raise UnsupportedNodeError(
        f"{agent.name!r} is a {type(agent).__name__}, whose inside cannot be seen; only expressions and "
        "ADK's own agents can be drawn."
    )


def _node_or_nothing(agent: object) -> Node:
    try:
        return to_node(agent)
    except UnsupportedNodeError:
        return TransformNode(name="unknown", fn=lambda state: None)


def from_yaml(path: Path) -> object:
    """The agent that a `root_agent.yaml` describes.

    Raises:
        CompileError: ADK refuses it.
    """
    from google.adk.agents.config_agent_utils import from_config

    try:
        with knowingly():
            return from_config(str(path))
    except (ValueError, OSError) as error:
        raise CompileError(f"{path}: ADK refuses it: {error}") from error


def sqlite_sessions(path: Path) -> BaseSessionService:
    """Sessions kept in a SQLite file; it is made when missing."""
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    return SqliteSessionService(db_path=str(path))
