"""Native ADK agents and apps, made by hand or by `build()`: running them as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from google.adk.apps.app import App

from adk_fluent.backends.adk.adopting.reading import read
from adk_fluent.backends.adk.compile.scope import can_pause
from adk_fluent.backends.adk.running.backend import Compiled
from adk_fluent.backends.adk.running.convert import knowingly, resumability
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError, CompileError
from adk_fluent.ir.naming import Named
from adk_fluent.ir.native import is_native


def adopt(value: object, config: ExecutionConfig) -> Compiled:
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
    pausing = resumability() if can_pause(root) else None
    with knowingly():
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
            return from_config(str(path))
    except (ValueError, OSError) as error:
        raise CompileError(f"{path}: ADK refuses it: {error}") from error
