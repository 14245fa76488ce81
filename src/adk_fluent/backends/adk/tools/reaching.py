"""A toolset whose server may not be there: then the run ends, and says which server of which agent."""

from __future__ import annotations

from typing import cast

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.tools.around import AroundToolset, Call
from adk_fluent.errors import ToolError, sentence, what_happened


class Reaching(AroundToolset):
    """A toolset that needs a server.

    Where ADK 2.x finds that a toolset has no tools to offer, it asks the model without them, and the answer
    is made up. So what went wrong is kept until ADK lets the toolset add to the request.

    Args:
        agent: the agent whose toolset it is.
        server: the server, as messages call it.
    """

    def __init__(self, inner: BaseToolset, agent: str, server: str) -> None:
        super().__init__(inner, _plainly)
        self._agent, self._server = agent, server
        self._failed: dict[str, ToolError] = {}  # run → why it got no tools

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools of the server.

        Raises:
            ToolError: it does not answer.
        """
        try:
            return await self.inner.get_tools_with_prefix(readonly_context)
        except Exception as error:
            unreached = self._unreached(error)
            unreached.__cause__ = error
            if readonly_context is None or not private.drops_failing_toolsets():
                raise unreached from error
            self._failed[readonly_context.invocation_id] = unreached
            return []

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """As the toolset itself.

        Raises:
            ToolError: the server gave no tools.
        """
        run = tool_context.invocation_id
        if run not in self._failed and private.drops_failing_toolsets():
            await self.get_tools(tool_context)  # 1.39 asks for the tools later; they are kept for the run
        if (unreached := self._failed.pop(run, None)) is not None:
            raise unreached
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)

    def _unreached(self, error: Exception) -> ToolError:
        said = sentence(what_happened(_first(error)))
        return ToolError(f"Agent {self._agent!r}: {self._server} gave no tools: {said} Is it running?")


def _first(error: BaseException) -> BaseException:
    """What the network or the system said, among all that it led to; else the error itself."""
    pending, seen = [error], set[int]()
    while pending:
        current = pending.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, OSError) and current.errno is not None:
            return current
        if isinstance(current, BaseExceptionGroup):
            pending += cast("tuple[BaseException, ...]", current.exceptions)
        pending += [inner for inner in (current.__cause__, current.__context__) if inner is not None]
    return error


async def _plainly(call: Call) -> object:
    return await call.proceed(call.args)
