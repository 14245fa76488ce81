"""The card of an expression: what others are told of it, and nothing of what only its agents know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adk_fluent._redaction import safe_url
from adk_fluent.a2a.protocol import sdk
from adk_fluent.analysis.visibility import infer_visibility
from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.ir.base import Node
from adk_fluent.ir.endpoints import is_url
from adk_fluent.ir.graph import resolve_names
from adk_fluent.ir.nodes import agents_in
from adk_fluent.ir.tools import tool_name

_TEXT = ["text/plain", "application/json"]


def card_json(
    root: Node,
    endpoint: str,
    *,
    name: str = "",
    description: str = "",
    version: str = "1.0",
    skills: Sequence[str] = (),
    auth: AuthConfig | None = None,
) -> dict[str, Any]:
    """The card of a tree, as JSON that both versions of the protocol read.

    Its skills are the agents whose words the user sees, with their descriptions and the names of their tools,
    and what `skills` adds. Instructions are not on it, nor are agents that work behind the scenes.
    """
    if not is_url(endpoint):
        raise ArgumentError(f"A card's endpoint= takes an http or https URL, not {safe_url(endpoint)!r}.")
    named = resolve_names(root)
    seen = infer_visibility(named.root)
    agents = [agent for agent in agents_in(named.root) if seen.get(agent.name) == "user"]
    called = name or root.name or (agents[-1].name if agents else "agent")
    told = description or next(
        (str(a.given["description"]) for a in agents if a.given.get("description")), ""
    )
    told = told or f"{called}, an agent."
    found: dict[str, dict[str, Any]] = {called: _skill(called, told, ["agent"])}
    for agent in agents:
        text = str(agent.given.get("description") or f"{agent.name}, an agent.")
        found.setdefault(agent.name, _skill(agent.name, text, ["agent"]))
        for tool in agent.tools if "tools" in agent.given else ():
            if (tool_called := tool_name(tool)) is not None:
                found.setdefault(tool_called, _skill(tool_called, f"{tool_called}, a tool.", ["tool"]))
    for skill in skills:
        found.setdefault(skill, _skill(skill, skill, ["skill"]))
    spoken = {"url": endpoint, "protocolBinding": "JSONRPC"}
    interfaces = [{**spoken, "protocolVersion": each} for each in sdk.versions()]
    return {
        "name": called,
        "description": told,
        "version": version,
        "url": endpoint,
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
        **({"supportedInterfaces": interfaces} if interfaces else {}),  # which are new in version 1.0
        "capabilities": {"streaming": True},
        "defaultInputModes": _TEXT,
        "defaultOutputModes": _TEXT,
        "skills": list(found.values()),
        **_security(auth),
    }


def _skill(id: str, description: str, tags: list[str]) -> dict[str, Any]:
    return {"id": id, "name": id, "description": description, "tags": tags}


def _security(auth: AuthConfig | None) -> Mapping[str, Any]:
    if auth is None:
        return {}
    scheme: dict[str, Any] = {"type": "http", "scheme": "bearer"}
    if auth.type == "api_key":
        scheme = {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    return {"securitySchemes": {auth.type: scheme}, "security": [{auth.type: []}]}
