"""`AgentHarness`: a conversation with an expression, as a test has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adk_fluent.backends.events import AgentEvent, Pending, RunResult, ToolCallInfo
from adk_fluent.backends.mock import mock_backend
from adk_fluent.errors import ArgumentError, RunError
from adk_fluent.expr.arguments import describe
from adk_fluent.expr.base import Expr

if TYPE_CHECKING:
    from adk_fluent.backends.protocol import Backend
    from adk_fluent.expr.conversations import Chat


@dataclass(frozen=True, slots=True)
class Response:
    """What one turn came to.

    Attributes:
        final_text: the answer to the user; empty if there is none.
        events: what happened, in order.
        state: what the session's state holds after the turn; of a failed turn, what it held before.
        errors: what was raised; empty for a turn that went well.
        tool_calls: the calls that models made, in order.
        pending: what the turn waits for.
        result: the whole result; `None` for a turn that failed before there was any.
    """

    final_text: str = ""
    events: tuple[AgentEvent, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    errors: tuple[Exception, ...] = ()
    tool_calls: tuple[ToolCallInfo, ...] = ()
    pending: tuple[Pending, ...] = ()
    result: RunResult[Any] | None = None


class AgentHarness:
    """A conversation with an expression: every `send` is a turn in one session, and nothing is raised.

    Args:
        expression: what answers.
        backend: what runs it: `mock_backend({...})`, a `ReplayerBackend`, or any other; by default a mock
            without a script, on which an agent that is asked is an error that names it.
        options: those of `session`, such as `state=`.

    Raises:
        ArgumentError: `expression` is none.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> harness = AgentHarness(Agent("a").writes("said"), mock_backend({"a": ["Hello.", "Bye."]}))
        >>> first, second = (asyncio.run(harness.send(text)) for text in ("Hi", "That is all."))
        >>> first.final_text, second.final_text, second.state, second.errors
        ('Hello.', 'Bye.', {'said': 'Bye.'}, ())
    """

    def __init__(self, expression: Expr[Any], backend: Backend | None = None, **options: Any) -> None:
        if not isinstance(expression, Expr):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not type-check
            raise ArgumentError(f"AgentHarness() takes an expression, not {describe(expression)}.")
        self._state: Mapping[str, Any] = dict(options.get("state") or {})
        self._chat: Chat[Any] = expression.session(backend=backend or mock_backend(), **options)

    async def send(self, prompt: Any) -> Response:
        """One turn; what it raises is in `.errors`.

        Args:
            prompt: text, a `Content`, or a list of parts.
        """
        try:
            return self._response(await self._chat.send(prompt))
        except Exception as error:  # noqa: BLE001  # it is what the test looks at
            return self._failed(error)

    async def resume(
        self, answers: Mapping[str, Any] | None = None, *, approvals: Mapping[str, Any] | None = None
    ) -> Response:
        """Go on with a turn that waits; what it raises is in `.errors`.

        Args:
            answers: `Response.pending` id → the answer, in the form that `Pending.form` names.
            approvals: the same for approvals: id → `True`, `False`, or a payload that approves.
        """
        try:
            return self._response(await self._chat.resume(answers, approvals=approvals))
        except Exception as error:  # noqa: BLE001  # likewise
            return self._failed(error)

    async def aclose(self) -> None:
        """End the conversation, as `async with` does."""
        await self._chat.aclose()

    async def __aenter__(self) -> AgentHarness:
        """Keep what the tools hold open from turn to turn."""
        await self._chat.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def _response(self, result: RunResult[Any]) -> Response:
        self._state = result.state
        calls = tuple(call for event in result for call in event.tool_calls)
        return Response(result.text, tuple(result), result.state, (), calls, tuple(result.pending), result)

    def _failed(self, error: Exception) -> Response:
        result = error.result if isinstance(error, RunError) else None
        events = tuple(result or ())
        calls = tuple(call for event in events for call in event.tool_calls)
        state = self._state if result is None else result.state
        return Response("", events, state, (error,), calls, (), result)
