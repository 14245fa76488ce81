"""Mocks: what calls of tools give in an evaluation, in the place of the tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext

from adk_fluent.backends.adk.api import Replacing, around


class ToolMocks(BasePlugin, Replacing):
    """Answers in the place of tools, inside all that surrounds a call: callbacks, middleware, recordings.

    It stands where a recording takes down what a tool gave. A call that a person must approve waits for the
    answer of the case. Where the case holds none for it, the person has approved it.

    Args:
        mocks: tool → a value that its calls give, an exception that they raise, or what is called.
        answers: gives how many answers to confirmations the case holds in later turns.
    """

    def __init__(self, mocks: Mapping[str, object], answers: Callable[[], int] = lambda: 0) -> None:
        super().__init__(name="adk_fluent_eval_mocks")
        self._mocks = {name: self._asking(_pretending(output)) for name, output in mocks.items()}
        self._answers = answers
        self._asked = 0

    def next_turn(self) -> None:
        """Forget how many calls asked in the turn before."""
        self._asked = 0

    def _asking(self, mock: around.Around) -> around.Around:
        async def call(call: around.Call) -> Any:
            async def proceed(args: dict[str, Any]) -> Any:
                return await mock(replace(call, args=args))

            answer = call.context.tool_confirmation
            if (answer is None or not answer.confirmed) and await around.asks(call):
                return await around.Asking(None)(replace(call, proceed=proceed))
            return await mock(call)

        return call

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Put the mocks in the place of the tools that the answer to a request may ask for."""
        tools = llm_request.tools_dict
        for name in tools.keys() & self._mocks.keys():
            tools[name] = self.replaced(tools[name])

    def replaced(self, tool: BaseTool) -> BaseTool:
        """The mock of a tool that has one."""
        if tool.name not in self._mocks or _MOCKED in vars(tool):
            return tool
        made = around.around_tool(tool, self._mocks[tool.name])
        vars(made)[_MOCKED] = True
        return made

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Approve the call of a mock for which the case holds no answer."""
        if tool.name not in self._mocks:
            return None
        if _MOCKED not in vars(tool):  # an agent of ADK's makes an approved call
            result = await self._mocks[tool.name](
                around.Call(tool.name, tool_args, tool_context, _never, tool)
            )
            return cast("dict[str, Any]", result) if isinstance(result, dict) else {"result": result}
        if tool_context.tool_confirmation is None and self._asked >= self._answers():
            tool_context.tool_confirmation = ToolConfirmation(confirmed=True)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: object
    ) -> None:
        """Note whether the call waits for an answer."""
        self._asked += tool_context.function_call_id in tool_context.actions.requested_tool_confirmations


async def _never(args: dict[str, Any]) -> Any:
    """Stand for the call of the tool itself, which no mock makes."""
    raise AssertionError("a mock does not call its tool")


_MOCKED: Final = "_adk_fluent_mocked"


def _pretending(output: Any) -> around.Around:
    again: object = getattr(output, "again", None)
    if callable(again):  # what was recorded also does what the tool did beside its result

        async def repeat(call: around.Call) -> Any:
            return await cast(Any, again)(call.context, call.args)

        return repeat
    raised = isinstance(output, BaseException) or callable(output)
    return around.Pretending(None, output) if raised else around.Pretending(output, None)
