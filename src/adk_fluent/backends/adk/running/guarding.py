"""What keeps a test from asking a real model where an agent of ADK's own runs."""

from __future__ import annotations

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.added import AddedPlugin
from adk_fluent.backends.adk.middleware.calls import surround


class RealModels(AddedPlugin):
    """Puts what refuses to ask a real model around those of native agents; ours look themselves.

    It refuses nothing itself, since a callback of the agent may still answer in place of its model.
    """

    def __init__(self) -> None:
        super().__init__(name="adk_fluent_real_models")

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Surround the model that is about to be asked."""
        surround(private.invocation(callback_context))
