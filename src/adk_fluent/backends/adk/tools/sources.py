"""Tools of servers, specifications and folders, and those that ADK brings, as ADK has them."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, cast

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset

from adk_fluent.backends.adk.compat.mcp_sessions import end_with_the_run
from adk_fluent.backends.adk.tools.reaching import Reaching
from adk_fluent.backends.adk.tools.scope import Making
from adk_fluent.errors import CompileError, MissingExtraError, install, sentence, what_happened
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.tools.sources import (
    Credential,
    GoogleSearch,
    Mcp,
    OpenApi,
    Skill,
    ToolFilter,
    UrlContext,
    VertexAiSearch,
)


def search(tool: GoogleSearch, making: Making) -> BaseTool:
    """ADK's Google search."""
    from google.adk.tools.google_search_tool import google_search

    return google_search


def url_context(tool: UrlContext, making: Making) -> BaseTool:
    """ADK's reading of web pages."""
    from google.adk.tools.url_context_tool import url_context

    return url_context


def vertex_ai_search(tool: VertexAiSearch, making: Making) -> BaseTool:
    """ADK's search in a data store."""
    from google.adk.tools.vertex_ai_search_tool import VertexAiSearchTool

    return VertexAiSearchTool(**dict(tool.options))


def mcp(tool: Mcp, making: Making) -> BaseToolset:
    """The tools of an MCP server.

    Raises:
        MissingExtraError: the package `mcp` is not installed.
    """
    return Reaching(mcp_toolset(tool, making.agent), making.agent, f"the MCP server {tool.address}")


def mcp_toolset(tool: Mcp, agent: str) -> BaseToolset:
    """ADK's toolset for a server: always the same for one `T.mcp(...)`, as long as anything uses it.

    Raises:
        MissingExtraError: the package `mcp` is not installed; the message names the agent.
    """
    made: Callable[[], BaseToolset | None] = getattr(tool, "_toolset", lambda: None)
    if (found := made()) is not None:
        return found
    try:
        from google.adk.tools.mcp_tool.mcp_toolset import McpToolset
    except ImportError as error:
        raise MissingExtraError(
            f"{agent!r}: {tool!r} needs the package mcp. Install it: {install('mcp')}."
        ) from error
    toolset = McpToolset(
        connection_params=_connection(tool.server),
        tool_filter=_filter(tool.tool_filter),
        tool_name_prefix=tool.prefix,
        # ADK's default is the `sys.stderr` of when it was imported, which may be closed or have no file.
        errlog=sys.__stderr__ or sys.stderr,
    )
    end_with_the_run(toolset)  # on ADK's own runner, too
    object.__setattr__(tool, "_toolset", weakref.ref(toolset))
    return toolset


def _connection(server: Any) -> Any:
    from google.adk.tools.mcp_tool.mcp_session_manager import (
        SseConnectionParams,
        StreamableHTTPConnectionParams,
    )

    if not isinstance(server, str):
        return server
    sse = server.rstrip("/").endswith("/sse")
    return SseConnectionParams(url=server) if sse else StreamableHTTPConnectionParams(url=server)


def _filter(names: ToolFilter) -> Any:
    return [*names] if isinstance(names, tuple) else names


def openapi(tool: OpenApi, making: Making) -> BaseToolset:
    """A tool for each operation of a specification.

    Raises:
        CompileError: it cannot be read.
    """
    from google.adk.tools.openapi_tool import OpenAPIToolset

    options: dict[str, Any] = {
        "spec_dict": _read(tool, making.agent),
        "tool_filter": _filter(tool.tool_filter),
    }
    if tool.auth is not None:
        options["auth_scheme"], options["auth_credential"] = _auth(tool.auth)
    if "allow_private_network_access" in signature(OpenAPIToolset).parameters:  # others never refuse one
        options["allow_private_network_access"] = tool.allow_private_network_access
    try:
        return OpenAPIToolset(**options)
    except Exception as error:
        said = sentence(what_happened(error))
        raise CompileError(
            f"{making.agent!r}: ADK cannot read the specification of {tool.name}: {said}"
        ) from error


def _read(tool: OpenApi, agent: str) -> Mapping[str, Any]:
    if isinstance(tool.spec, dict):
        return tool.spec
    import yaml  # which reads JSON, too

    try:
        text = tool.spec.read_text(encoding="utf-8") if isinstance(tool.spec, Path) else tool.spec
        found: object = yaml.safe_load(text)
    except (OSError, yaml.YAMLError) as error:
        raise CompileError(
            f"{agent!r}: the specification of {tool.name} cannot be read: {sentence(what_happened(error))}"
        ) from error
    if not isinstance(found, dict):
        file = " A file is given as a Path." if isinstance(tool.spec, str) else ""
        raise CompileError(f"{agent!r}: the specification of {tool.name} is not one: {found!r:.60}.{file}")
    return cast("dict[str, Any]", found)


def _auth(auth: Credential) -> Any:
    """ADK's scheme and credential."""
    if not isinstance(auth.held, AuthConfig):
        return auth.held
    from google.adk.auth.auth_credential import (
        AuthCredential,
        AuthCredentialTypes,
        HttpAuth,
        HttpCredentials,
    )
    from google.adk.tools.openapi_tool.auth.auth_helpers import token_to_scheme_credential

    if auth.held.type == "api_key":
        return token_to_scheme_credential("apikey", "header", "X-API-Key", auth.held.token)
    from fastapi.openapi.models import HTTPBearer

    http = HttpAuth(scheme="bearer", credentials=HttpCredentials(token=auth.held.token))
    return HTTPBearer(), AuthCredential(auth_type=AuthCredentialTypes.HTTP, http=http)


def skill(tool: Skill, making: Making) -> BaseToolset:
    """The tools with which a model reads a skill.

    Raises:
        CompileError: the installed ADK cannot load one from a folder, or there is none in it.
    """
    from google.adk import skills
    from google.adk.tools.skill_toolset import SkillToolset

    load = cast("Callable[[Path], Any] | None", getattr(skills, "load_skill_from_dir", None))
    if load is None:
        raise CompileError(
            f"{making.agent!r}: the installed google-adk cannot load {tool!r} from a folder; use a newer one."
        )
    try:
        loaded = load(Path(tool.path))
    except (OSError, ValueError) as error:
        raise CompileError(
            f"{making.agent!r}: {tool!r} cannot be loaded: {sentence(what_happened(error))}"
        ) from error
    return SkillToolset([loaded])
