"""Tools that touch nothing outside of the run."""

from __future__ import annotations

from typing import Final

from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.load_artifacts_tool import LoadArtifactsTool

from adk_fluent.backends.adk.artifacts.tools import artifact_functions

_OF_ADK: Final = frozenset({"transfer_to_agent", "set_model_response", "exit_loop", "finish_task"})
"""ADK's own, by which a model steers the run."""


def works_inside(tool: BaseTool | None) -> bool:
    """Whether all that a tool does happens inside the run: it asks agents, keeps artifacts, or steers."""
    if isinstance(tool, AgentTool | LoadArtifactsTool):
        return True
    return tool is not None and (tool.name in _OF_ADK or getattr(tool, "func", None) in artifact_functions())
