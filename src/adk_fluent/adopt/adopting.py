"""`adopt`: an agent, a workflow or an app made with ADK alone, as an expression."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from adk_fluent.config import CompactionConfig, ContextCacheConfig, ExecutionConfig
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.base import Expr, adopted
from adk_fluent.ir.adk_objects import is_native
from adk_fluent.ir.base import Node
from adk_fluent.ir.frozen import Frozen, frozen

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App
    from google.adk.workflow import BaseNode


def adopt(
    native: BaseAgent | App | BaseNode, declare: Mapping[str, Callable[[Any], Any]] | None = None
) -> Expr[Any]:
    """The expression of an agent, a workflow or an app made with ADK alone; the object itself never changes.

    ADK's own agents are read field by field. A subclass of them runs as it is, as a clone, and is looked
    into as far as it does what its base does. Everything else (a custom `BaseAgent`, a graph of another
    shape) runs as it is given, and checks say once, by its name, that they do not know what it touches. The
    plugins of an app become the expression's middleware; its settings gives `config_of`.

    Args:
        native: what was made with ADK; one that adk-fluent built gives back its expression.
        declare: name of an agent that cannot be looked into → `declares(reads=[...], writes=[...])`, the
            state keys that it touches. `@declares` on its class says the same.

    Raises:
        ArgumentError: it is nothing of ADK's, `declare` names nothing in it, its agents stand in a circle, or
            one of them at two places.

    Example:
        >>> from google.adk.agents import LlmAgent
        >>> from adk_fluent import Agent
        >>> from adk_fluent.adopt import adopt
        >>> native = LlmAgent(name="booker", instruction="Book. Intent: {intent}")
        >>> adopt(native).check().errors[0].message
        'booker reads {intent} in instruction'
        >>> (Agent("clerk").instruct("Classify.").writes("intent") >> native).check().ok
        True
    """
    if not is_native(native):
        raise ArgumentError(f"adopt() takes an agent, a workflow or an App of ADK's, not {native!r:.60}.")
    return adopted(native, declare)


@frozen
class Inside(Frozen):
    """What tells two of ADK's tools around agents apart.

    Attributes:
        body: the tree of the agent.
        options: what else it was made with, where that is not the default.
    """

    body: Node
    options: tuple[tuple[str, Any], ...] = ()


def inside(tool: Any) -> Inside | None:
    """What is in ADK's own tool around an agent; `None` for any other tool, a subclass of that included."""
    known = getattr(sys.modules.get("google.adk.tools.agent_tool"), "AgentTool", None)
    if known is None or type(tool) is not known:
        return None
    options = inspect.signature(known).parameters.values()
    given = ((one.name, getattr(tool, one.name, one.default)) for one in options if one.name != "agent")
    defaults = {one.name: one.default for one in options}
    changed = tuple((name, value) for name, value in given if value != defaults[name])
    return Inside(adopt(tool.agent).node, changed)


def config_of(app: App) -> ExecutionConfig:
    """The settings of an app, for running its expression as the app would run.

    Raises:
        ArgumentError: it has a summarizer of its own, which a configuration cannot hold.

    Example:
        >>> from google.adk.agents import LlmAgent
        >>> from google.adk.apps import App
        >>> config_of(App(name="support", root_agent=LlmAgent(name="a"))).app_name
        'support'
    """
    resumable, caching = app.resumability_config, app.context_cache_config
    return ExecutionConfig(
        app_name=app.name if app.name.isidentifier() else app.name.replace("-", "_"),
        resumable=None if resumable is None else resumable.is_resumable,
        compaction=_compaction(app),
        context_cache=None
        if caching is None
        else ContextCacheConfig(
            cache_intervals=caching.cache_intervals,
            ttl_seconds=caching.ttl_seconds,
            min_tokens=caching.min_tokens,
        ),
    )


def _compaction(app: App) -> CompactionConfig | None:
    config = app.events_compaction_config
    if config is None:
        return None
    if config.summarizer is not None:
        raise ArgumentError(
            f"App {app.name!r} has a summarizer of its own, which an ExecutionConfig cannot hold; "
            "run the app itself."
        )
    given = {
        "interval": config.compaction_interval,
        "overlap": config.overlap_size,
        "token_threshold": getattr(config, "token_threshold", None),
        "event_retention_size": getattr(config, "event_retention_size", None),
    }
    return CompactionConfig(**{name: value for name, value in given.items() if value is not None})
