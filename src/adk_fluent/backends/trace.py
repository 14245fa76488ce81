"""`TraceBackend`: ADK's runner, and a structured log of every step."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from adk_fluent.backends.adk.api import ADKBackend, BackendOver
from adk_fluent.errors import what_happened
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.messages import text_in, tokens_used
from adk_fluent.middleware.protocol import CallModel, CallTool, Middleware

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

    from adk_fluent.backends.events import AgentEvent
    from adk_fluent.ir.base import Node

Kind = Literal["enter", "request", "response", "tool_call", "tool_result", "event", "error", "leave"]


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One line of a trace.

    Attributes:
        number: which one it is, from 1.
        at: seconds since the trace began.
        run: the run it belongs to (`invocation_id`).
        agent: the agent or step that it is about.
        kind: `enter` and `leave` of an agent or step, `request` and `response` of its model, `tool_call` and
            `tool_result`, `event` for what leaves the run, `error` for what a model or tool raised.
        detail: what there is to say, as JSON: `model messages tools operation` of a request, `text tokens
            partial` of a response, `tool args result`, `text state` of an event, `error`.
    """

    number: int
    at: float
    run: str
    agent: str
    kind: Kind
    detail: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        fields = {"number": self.number, "at": self.at, "run": self.run, "agent": self.agent}
        return {
            **fields,
            "kind": self.kind,
            "detail": json.loads(json.dumps(dict(self.detail), default=repr)),
        }

    def __str__(self) -> str:
        said = " ".join(f"{name}={_text(value)}" for name, value in self.detail.items())
        return f"{self.number:>4} {self.at:8.3f} {self.agent} {self.kind} {said}".rstrip()


class TraceBackend(BackendOver):
    """Runs expressions as another backend does, and logs every step.

    Args:
        backend: what runs them: one on ADK's runner, such as `mock_backend({...})`; by default `ADKBackend`.

    Raises:
        ArgumentError: `backend` does not run on ADK's runner.

    Attributes:
        steps: the log, in order, of all runs; `str()` of the backend is a line for each.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> backend = TraceBackend(mock_backend({"a": "Hello."}))
        >>> _ = asyncio.run(Agent("a").run("Hi", backend=backend))
        >>> [step.kind for step in backend.steps]
        ['enter', 'request', 'response', 'event', 'leave']
    """

    def __init__(self, backend: ADKBackend | None = None) -> None:
        super().__init__(backend)
        self.steps: list[TraceStep] = []
        self._began = time.monotonic()

    def note(self, ctx: Context, kind: Kind, **detail: Any) -> None:
        """Add a line to the log."""
        at = round(time.monotonic() - self._began, 6)
        known = {name: value for name, value in detail.items() if value not in (None, "", {}, [])}
        step = TraceStep(len(self.steps) + 1, at, ctx.invocation_id, ctx.agent_name, kind, known)
        self.steps.append(step)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def to_json(self) -> str:
        """The log as JSON lines."""
        return "\n".join(json.dumps(step.to_dict(), ensure_ascii=False) for step in self.steps)

    def prepare(self, node: Node) -> Node:
        """The tree of the other backend, with what looks on."""
        made = super().prepare(node)
        own = made.annotations
        return made.replace(annotations=own.replace(middleware=(*own.middleware, _Tracing(self))))


class _Tracing(Middleware):
    """Tells the backend what happens."""

    observes: ClassVar[bool] = True

    def __init__(self, backend: TraceBackend) -> None:
        self._note = backend.note

    async def before_agent(self, ctx: Context, agent_name: str) -> None:
        """An agent or step begins."""
        self._note(ctx, "enter")

    async def after_agent(self, ctx: Context, agent_name: str) -> None:
        """It ends."""
        self._note(ctx, "leave")

    async def on_event(self, ctx: Context, event: AgentEvent) -> None:
        """An event leaves."""
        if not event.is_partial:
            self._note(ctx, "event", text=event.content, state=event.state_delta, error=event.error)

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """A model is asked."""
        tools, messages = list(request.tools_dict), len(request.contents)
        self._note(
            ctx, "request", operation=ctx.operation, model=request.model, messages=messages, tools=tools
        )
        try:
            async with aclosing(call(request)) as responses:
                async for response in responses:
                    said, used = text_in(response), tokens_used(response)
                    self._note(ctx, "response", text=said, tokens=used, partial=response.partial)
                    yield response
        except Exception as error:
            self._note(ctx, "error", error=what_happened(error))
            raise

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """A tool is called."""
        self._note(ctx, "tool_call", tool=tool_name, args=args)
        try:
            result: Any = await call(args)
        except Exception as error:
            self._note(ctx, "error", tool=tool_name, error=what_happened(error))
            raise
        self._note(ctx, "tool_result", tool=tool_name, result=result)
        return result


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
