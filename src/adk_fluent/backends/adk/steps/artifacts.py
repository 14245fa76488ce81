"""The native agent for a step that does something with artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from google.adk.agents.invocation_context import InvocationContext

from adk_fluent.backends.adk.artifacts.files import Files
from adk_fluent.backends.adk.context.functions import state_of
from adk_fluent.backends.adk.steps.failures import in_step
from adk_fluent.backends.adk.steps.leaves import Events, FluentAgent
from adk_fluent.backends.adk.steps.shrinking import removal
from adk_fluent.ir.nodes import ArtifactNode
from adk_fluent.state.delta import ReadOnlyState, without_unchanged

if TYPE_CHECKING:
    from adk_fluent.artifacts.operations import ArtifactOperation


async def performed(
    node: ArtifactNode, state: ReadOnlyState, files: Files, step: str
) -> tuple[Mapping[str, Any], bool]:
    """What an operation changes in the state, and whether it changed any artifact; `step` is its name.

    Raises:
        ArtifactError: there is no artifact service, it failed, an artifact is not there, or a value or the
            content of a file has not the shape that is needed.
        StepError: a condition raised.
    """
    view = state.at(f"step {step!r}")
    with in_step(step, view):
        changed, acted = await files.do(cast("ArtifactOperation", node.operation).work(view))
        return without_unchanged(changed, view), acted


class ArtifactAgent(FluentAgent):
    """Runs an operation on artifacts."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Events:
        files = Files(ctx, f"Step {self.name!r}")
        delta, acted = await performed(cast(ArtifactNode, self._ir), state_of(ctx), files, self.name)
        if delta or acted:  # also where only a file went: the event says that this is done
            event = self.state_event(ctx, dict(delta), ends=True)
            event.actions.artifact_delta = files.saved
            if (removed := removal(ctx, event)) is not None:
                yield removed
            yield event
