"""One example of every `T` operation, and what they are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.adk.tools.base_toolset import BaseToolset

from adk_fluent import Agent, T
from adk_fluent.ir.annotations import AuthConfig
from adk_fluent.state import declares
from adk_fluent.tools.spec import Tool


def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


def half(number: int) -> float:
    """Half a number."""
    return number / 2


@declares(reads=["unit"], writes=["last"])
def measure(tool_context: Any) -> str:
    """Measure it."""
    tool_context.state["last"] = tool_context.state["unit"]
    return "3"


def shout(result: Any) -> str:
    """A result in capitals."""
    return str(result).upper()


def is_large(number: int) -> bool:
    """True if a person must approve the call."""
    return number > 100


class Box(BaseToolset):
    """A toolset with two tools."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        from google.adk.tools.function_tool import FunctionTool

        return [FunctionTool(weather), FunctionTool(half)]

    async def close(self) -> None:
        """Nothing is open."""


PETS: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:1"}],
    "paths": {
        "/pets/{pet}": {
            "get": {
                "operationId": "getPet",
                "description": "A pet by its name.",
                "parameters": [{"name": "pet", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {"200": {"description": "It"}},
            }
        }
    },
}
RESEARCH = (Agent("digger").instruct("{topic}").writes("found") >> Agent("teller").instruct("{found}")).named(
    "research"
)
TOKEN = AuthConfig(type="bearer", token="s3cret")

EVERY: dict[str, Tool] = {
    "agent": T.agent(RESEARCH),
    "a2a": T.a2a("https://museum.example/guide", description="Knows the museum.", timeout=5),
    "cache": T.cache(weather, ttl=60, key=str),
    "confirm": T.confirm(half, when=is_large),
    "fn": T.fn(weather, confirm=True, reads=["a"], writes=["b"]),
    "google_search": T.google_search(),
    "mcp": T.mcp("http://127.0.0.1:1/mcp", tool_filter=["x"], prefix="far"),
    "mock": T.mock("news", returns=["none"]),
    "openapi": T.openapi(PETS, tool_filter=["get_pet"], allow_private_network_access=True),
    "retry": T.retry(weather, 5),
    "skill": T.skill("skills/refunds"),
    "timeout": T.timeout(weather, 2.5),
    "together": T.fn(weather) | T.mock("news", returns=1) | half,
    "toolset": T.toolset(Box()),
    "transform": T.transform(weather, post=shout),
    "url_context": T.url_context(),
    "vertex_ai_search": T.vertex_ai_search(data_store_id="d", max_results=3),
}
"""Operation → an example; all but a toolset, which is a live object, can be stored."""


def skill_folder(path: Path) -> str:
    """A folder with a skill."""
    folder = path / "refunds"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: refunds\ndescription: How refunds are made.\n---\nAsk for the order number.\n"
    )
    return str(folder)
