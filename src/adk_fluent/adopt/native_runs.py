"""Native ADK agents and apps, made by hand or by `build()`: running them as they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from google.adk.apps.app import App, ResumabilityConfig

from adk_fluent.adopt.reading.native_trees import read
from adk_fluent.backends.adk.api import Compiled, can_pause, knowingly
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError, CompileError
from adk_fluent.ir.adk_objects import Configured, is_native, note_configured
from adk_fluent.ir.graph import Named


def as_compiled(value: object, config: ExecutionConfig) -> Compiled:
    """What `ADKBackend` runs for a native agent, workflow or `App`.

    Args:
        config: how it is run; an `App` keeps its own name and settings.

    Raises:
        ArgumentError: it is none of these.
    """
    if isinstance(value, App):
        root = read(value.root_agent)
        return Compiled(value, Named(root, {}), replace(config, app_name=value.name))
    if not is_native(value):
        raise ArgumentError(f"ADK cannot run {type(value).__name__}; give an agent, a workflow or an App.")
    root = read(value)
    with knowingly():
        pausing = ResumabilityConfig(is_resumable=True) if can_pause(root) else None
        app = App(name=config.app_name, root_agent=cast(Any, value), resumability_config=pausing)
    return Compiled(app, Named(root, {}), config)


def from_yaml(path: Path) -> object:
    """The agent that a `root_agent.yaml` describes.

    Raises:
        CompileError: ADK refuses it.
    """
    from google.adk.agents.config_agent_utils import from_config

    try:
        with knowingly():
            agent = from_config(str(path))
    except (ValueError, OSError) as error:
        raise CompileError(f"{path}: ADK refuses it: {error}") from error
    _note_tools(agent, _loaded(path), path)
    return agent


def _loaded(path: Path) -> Any:
    """What stands in a configuration that ADK has taken."""
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None


def _note_tools(agent: Any, data: Any, path: Path) -> None:
    """Keep, for whoever writes an agent as source, with which arguments its configuration makes its tools."""
    for tool, entry in _pairs(agent, data, "tools"):
        said = cast("dict[str, Any]", entry if isinstance(entry, dict) else {"name": entry})
        args: object = said.get("args") or {}
        module, _, name = str(said.get("name")).rpartition(".")
        home = module or "google.adk.tools"
        maker = getattr(sys.modules.get(home), name, None)
        if maker is not None and maker is not tool and isinstance(args, dict):
            kind = isinstance(maker, type) and hasattr(maker, "from_config")
            given = cast("dict[str, Any]", args)
            note_configured(tool, Configured(f"{home}:{name}", kind, given, str(path)))
            _note_inner(getattr(tool, "agent", None), given.get("agent"), path)
    for part, entry in _pairs(agent, data, "sub_agents"):
        _note_inner(part, entry, path)


def _note_inner(agent: Any, entry: Any, path: Path) -> None:
    """An agent that another configuration, or a part of this one, describes."""
    if agent is None or not isinstance(entry, dict):
        return
    given = cast("dict[str, Any]", entry)
    if isinstance(inner := given.get("config_path"), str):
        _note_tools(agent, _loaded(path.parent / inner), path.parent / inner)
    else:
        _note_tools(agent, given, path)


def _pairs(agent: Any, data: Any, field: str) -> Iterator[tuple[Any, Any]]:
    """What an agent has in a field, each with its entry in the configuration; nothing if they differ."""
    said: Any = cast("dict[str, Any]", data).get(field) if isinstance(data, dict) else None
    entries = cast("list[Any]", said if isinstance(said, list) else [])
    parts: list[Any] = getattr(agent, field, None) or []
    if len(parts) == len(entries):
        yield from zip(parts, entries, strict=True)
