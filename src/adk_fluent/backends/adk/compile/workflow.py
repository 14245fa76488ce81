"""The opt-in compile target: ADK 2.x's own graph `Workflow`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from adk_fluent.backends.adk.compile.scope import ModelFor
from adk_fluent.errors import CompileError
from adk_fluent.ir.base import Node

if TYPE_CHECKING:
    from google.adk.workflow import Workflow


def build_workflow(node: Node, model_for: ModelFor | None = None) -> Workflow:
    """An ADK `Workflow` for `node`: a root for `App(root_agent=...)` and `Runner(node=...)`.

    Each composite becomes a `Workflow` of its own inside the one around it, and carries its IR as agents do.
    What agents see and which events there are differs from `build()`: see docs/concepts/workflow-target.md.

    Args:
        node: sequences, parallel branches, loops and routes of agents, transforms, taps, captures and
            artifact operations.
        model_for: which model an agent gets; by default the one it names.

    Raises:
        CompileError: the installed google-adk has no `Workflow`, or refuses a field.
        UnsupportedNodeError: `Workflow` cannot run a node of this type.

    Example:
        >>> from adk_fluent import Agent
        >>> workflow = build_workflow((Agent("draft") >> Agent("edit")).to_ir())
        >>> [type(node).__name__ for node in workflow.graph.nodes]
        ['BaseNode', 'FluentLlmAgent', 'FluentLlmAgent']
    """
    try:
        import_module("google.adk.workflow")
    except ModuleNotFoundError as error:
        raise CompileError(
            "build(target='workflow') needs google-adk 2.x: the installed one has no google.adk.workflow. "
            "Upgrade it, or call build() without a target."
        ) from error
    from adk_fluent.backends.adk.compile.graph import compile_workflow

    return compile_workflow(node, model_for)
