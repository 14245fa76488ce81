"""`tool_approval`: a person decides before a tool is called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, cast

from adk_fluent.errors import ArgumentError, RunError
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.protocol import CallTool, Middleware


def tool_approval(tools: Iterable[str]) -> ToolApproval:
    """Have a person approve each call of these tools, as `.tool(f, require_confirmation=True)` does for one.

    The run stops with `RunResult.pending`, and goes on with `resume(approvals={id: True})`, also in another
    process if the session is stored. A refused tool is not called, and the model is told so. Naming a tool
    that no agent in the expression has is an error of the contract check, and of running it.

    An agent inside a native `AgentTool` cannot wait for a person: when it calls a tool that is named here, a
    `RunError` is raised, and the tool is not called. Name the `AgentTool` itself.

    Args:
        tools: names of tools. A tool that asks by itself is asked for once.

    Raises:
        ArgumentError: no names, or something else.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import call_tool, mock_backend
        >>> def delete(path: str) -> str:
        ...     return f"deleted {path}"
        >>> agent = Agent("cleaner").tool(delete).middleware(tool_approval(["delete"]))
        >>> backend = mock_backend({"cleaner": [call_tool("delete", path="x"), "Done."]})
        >>> result = asyncio.run(agent.run("Clean up", backend=backend))
        >>> (asked,) = result.pending
        >>> asked.message
        'Run delete(path="x")?'
        >>> yes = {asked.id: True}
        >>> asyncio.run(agent.resume(session_id=result.session_id, approvals=yes, backend=backend)).text
        'Done.'
    """
    return ToolApproval(tools)


class ToolApproval(Middleware):
    """What `tool_approval()` makes.

    Attributes:
        tools: the names of the tools.
    """

    may_pause: ClassVar[bool] = True

    def __init__(self, tools: Iterable[str]) -> None:
        given: Any = tools
        names = tuple(cast("Iterable[object]", given)) if isinstance(given, Iterable) else ()
        if isinstance(given, str) or not names or not all(isinstance(n, str) and n for n in names):
            raise ArgumentError(
                f"tool_approval(tools=) takes names of tools, such as tools=['send_mail'], not {given!r:.60}."
            )
        self.tools: tuple[str, ...] = tuple(dict.fromkeys(map(str, names)))

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """Ask a person, once; then call the tool, or say that it was refused."""
        if tool_name not in self.tools:
            return await call(args)
        native: Any = ctx.native
        asked = native.tool_confirmation
        if asked is None:
            if cast(Any, ctx).run_id != ctx.invocation_id:
                raise _unanswerable(ctx.agent_name, tool_name)
            # ADK makes the request of it that a person answers, and words it where it is empty.
            native.request_confirmation(hint="")
            native.actions.skip_summarization = True
            return {"error": "This tool call requires confirmation, please approve or reject."}
        if not asked.confirmed:
            return {"error": "This tool call is rejected."}
        return await call(args)


def _unanswerable(agent: str, tool: str) -> RunError:
    return RunError(
        f"Agent {agent!r} calls {tool!r}, which a person must approve, but it runs inside a tool, where ADK "
        f"cannot wait. Name the tool around {agent!r} in tool_approval(), or hand over to the agent with "
        f".delegate(). {tool!r} was not called."
    )
