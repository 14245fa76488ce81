"""Where a run can be left and gone on with from its session, when what an engine keeps of it has grown long.

That is where a step of a sequence or of a round of a loop begins, if nothing else is on at that time: there
the checkpoints in the session say all that is to be known. Inside of parallel branches, time limits and
agents that call tools it is not.
"""

from __future__ import annotations

from google.adk.agents.invocation_context import InvocationContext

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import STEP_BY_STEP, FirstMatch


def spine(root: Node) -> list[Node]:
    """Those whose steps begin with nothing else on."""
    if isinstance(root.runs, (*STEP_BY_STEP, FirstMatch)):
        return [root, *(each for child in root.children for each in spine(child))]
    return []


class Course(AddedPlugin):
    """What of a run is in no session: how many model calls it has made, and what middleware keeps for it.

    Args:
        calls: how many it had made when it was left.
    """

    def __init__(self, calls: int = 0) -> None:
        super().__init__(name="adk_fluent_course")
        self._before = calls
        self._ctx: InvocationContext | None = None

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Count on from where it was left."""
        if private.caller(invocation_context) is None:
            private.set_model_calls(invocation_context, self._before)
            self._ctx, self._before = invocation_context, 0

    @property
    def calls(self) -> int:
        """How many model calls there were."""
        return 0 if self._ctx is None else private.model_calls(self._ctx)

    @property
    def can_be_left(self) -> bool:
        """Whether no middleware keeps anything that would be lost."""
        return self._ctx is not None and not runs.keeps(self._ctx)
