"""Checks of what users give to the factories of `T`: tools, specifications, filters and URLs.

Each function returns a valid argument, or raises an error that names the factory. `wrapped` puts a wrapper
around each of several tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from adk_fluent.errors import ArgumentError
from adk_fluent.expr.arguments import describe
from adk_fluent.expr.base import Expr, usable_tools
from adk_fluent.state.delta import detached
from adk_fluent.tools import sources
from adk_fluent.tools.spec import Tool, together


def wrapped(tool: object, wrap: Callable[[object], Tool], where: str) -> Tool:
    """Wrap a tool, or each of several."""
    parts = tuple(wrap(_not_of_provider(one, where)) for one in _single_tools(tool, where))
    return parts[0] if len(parts) == 1 else together(*parts)


def check_single(tool: object, where: str) -> None:
    """Refuse a value that holds several tools."""
    if len(_single_tools(tool, where)) > 1:
        raise ArgumentError(f"{where} takes one tool, not {tool!r:.60}.")


def _single_tools(tool: object, where: str) -> tuple[object, ...]:
    if isinstance(tool, str):
        raise ArgumentError(f"{where} takes a tool, not the name {tool!r}.")
    return usable_tools(tool)


def _not_of_provider(tool: object, where: str) -> object:
    """Refuse a tool that the model's provider runs: a wrapper cannot be around it."""
    if isinstance(tool, sources.GoogleSearch | sources.UrlContext | sources.VertexAiSearch):
        raise ArgumentError(
            f"{where}: the provider of the model runs {tool!r}, so its calls cannot be wrapped."
        )
    return tool


def agent_remedy(value: object) -> str:
    """The remedy for a value that is not an agent, for the end of a message; empty if no remedy is known."""
    if isinstance(value, str):
        return f" Give the agent itself: T.agent(Agent({value!r}))."
    if isinstance(value, type):
        return f" Give an object of it: T.agent({value.__name__}(...))."
    if isinstance(value, Tool) or hasattr(value, "run_async") or hasattr(value, "get_tools"):
        return " It is a tool already: .tools(tool)."
    if isinstance(value, list | tuple):
        return " Give one agent to each T.agent(...)."
    return " Write T.fn(...)." if callable(value) else ""


def function_remedy(function: object) -> str:
    """The remedy for a value that is not a function, for the end of a message; empty if none is known."""
    if isinstance(function, Expr):
        return " Write T.agent(...)."
    if hasattr(function, "get_tools"):
        return " Write T.toolset(...)."
    return " A tool of ADK's stands as it is: .tools(tool)." if hasattr(function, "run_async") else ""


def specification(spec: object) -> Any:
    """Check the form of a specification; ADK checks its content when the agent is built.

    Raises:
        ArgumentError: the value is not a specification.
    """
    if isinstance(spec, Path):
        return spec
    if isinstance(spec, Mapping):
        held = detached(dict(cast("Mapping[str, Any]", spec)))
        if isinstance(held.get("paths"), Mapping):
            return held
    elif not isinstance(spec, str):
        raise ArgumentError(
            f"T.openapi() takes a specification as a dict, as text or as a Path, not {describe(spec)}."
        )
    elif spec.startswith(("http://", "https://")):
        raise ArgumentError(
            "T.openapi() fetches nothing: download the specification, and give its text or Path."
        )
    elif "paths" in spec:
        return spec
    file = " A file is given as a Path." if isinstance(spec, str) else ""
    raise ArgumentError(
        f"T.openapi() takes a specification, and {spec!r:.60} has no paths of a service.{file}"
    )


def tool_filter(names: object, where: str) -> sources.ToolFilter:
    """Return the names of tools as a tuple; a predicate of ADK's and `None` stay.

    Raises:
        ArgumentError: the value is something else, or names no tool.
    """
    if names is None or callable(names):
        return cast("sources.ToolFilter", names)
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ArgumentError(f"{where[:-1]}tool_filter=) takes the names of tools, not {describe(names)}.")
    found = tuple(cast("Iterable[object]", names))
    if not found or not all(isinstance(name, str) for name in found):
        raise ArgumentError(f"{where[:-1]}tool_filter=) takes the names of tools, not {found!r:.60}.")
    return cast("tuple[str, ...]", found)


def prefix(value: object, where: str) -> str | None:
    """Return `value` if it is an identifier or `None`."""
    if value is None or (isinstance(value, str) and value.isidentifier()):
        return value
    raise ArgumentError(f"{where[:-1]}prefix=) takes an identifier, not {describe(value)}.")


def name_of_url(url: str) -> str:
    """Make a name from a URL: the last part of its path, or else its host.

    >>> name_of_url("https://museum.example/guide-2/.well-known/agent-card.json"), name_of_url("http://[::1]:80")
    ('guide_2', 'remote_1')
    """
    parts = urlsplit(url)
    path = parts.path.partition("/.well-known/")[0].rstrip("/").rpartition("/")[2]
    name = re.sub(r"\W+", "_", path or (parts.hostname or ""), flags=re.ASCII).strip("_")
    return name if name.isidentifier() else f"remote_{name}".rstrip("_")
