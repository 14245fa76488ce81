"""The tools by which a model itself saves, loads and lists artifacts, as ADK's."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.load_artifacts_tool import LoadArtifactsTool
from google.adk.tools.tool_context import ToolContext

from adk_fluent.artifacts.formats import Unfit, content_of
from adk_fluent.artifacts.requests import fault_of
from adk_fluent.backends.adk.artifacts.files import no_service
from adk_fluent.backends.adk.artifacts.parts import to_part
from adk_fluent.backends.adk.compat import private
from adk_fluent.tools.spec import ArtifactTool


def native_tool(tool: ArtifactTool) -> BaseTool:
    """ADK's tool for one of ours; always a new one."""
    if tool.kind == "load":
        return LoadingTool()
    return FunctionTool(_FUNCTIONS[tool.kind])


async def save_artifact(filename: str, content: str, tool_context: Any) -> dict[str, Any]:
    """Saves a text as a file, and as a new version if there is one of that name.

    Args:
        filename: the name of the file with its ending, such as report.md.
        content: the whole text of the file; in base64 if the file is no text, such as an image.

    Returns:
        The name and the version that was saved; or what was wrong.
    """
    if fault := fault_of(filename):
        return {"error": f"The filename {filename!r} {fault}."}
    try:
        file = content_of(content, filename)
    except Unfit as error:
        return {"error": f"The content {error}."}
    _needs_service(tool_context, "save_artifact")
    version = await tool_context.save_artifact(filename, to_part(file))
    return {"filename": filename, "version": version}


async def list_artifacts(tool_context: Any) -> dict[str, Any]:
    """Lists the names of the files that were saved; those of the user start with "user:"."""
    _needs_service(tool_context, "list_artifacts")
    return {"artifacts": sorted(await tool_context.list_artifacts())}


class LoadingTool(LoadArtifactsTool):
    """ADK's own tool, which says in one line when there is no artifact service."""

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Tell the model which artifacts there are, and show it those that it has asked for."""
        _needs_service(tool_context, self.name)
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)


def _needs_service(tool_context: Any, tool: str) -> None:
    if private.invocation(tool_context).artifact_service is None:
        raise no_service(f"Agent {tool_context.agent_name!r}: its tool {tool!r}")


_FUNCTIONS: Final = {"save": save_artifact, "list": list_artifacts}


def artifact_functions() -> Collection[Any]:
    """The functions of these tools."""
    return _FUNCTIONS.values()
