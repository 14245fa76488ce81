"""What a middleware is: the hooks it may have, and what each is given."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.keeping import Kept, Shared

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.models import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.genai.types import Content

    from adk_fluent.backends.events import AgentEvent

T = TypeVar("T")


class CallModel(Protocol):
    """What `around_model` calls to ask the model, once or several times."""

    def __call__(
        self, request: LlmRequest, *, model: str | BaseLlm | None = None
    ) -> AsyncGenerator[LlmResponse, None]:
        """The answer: pieces with `partial=True` where the run streams, and the whole of it last.

        Args:
            request: what is sent.
            model: another model than the agent's, by name or as ADK's object.
        """
        ...


CallTool = Callable[[dict[str, Any]], Awaitable[Any]]
"""What `around_tool` calls to run the tool: `await call(args)`."""


class Middleware:
    """Base of every middleware: override the hooks you need, all of them `async`.

    A hook that returns `None` changes nothing. What goes in passes the stack in its order, what comes out in
    the reverse one, as through functions that call each other: the first middleware is the outermost. So
    `before_*` and `on_user_message` run first to last, and the first to return a value decides: neither those
    after it nor the model, tool or agent are asked. `after_*` and `on_event` run last to first, each on what
    the one before made of it. `on_*_error` run last to first, and the first to return a value has answered in
    place of what failed.

    Attributes:
        best_effort: what its hooks raise is logged on `adk_fluent.middleware` and the run goes on; by default
            it stops the run with a `MiddlewareError`.
        may_pause: whether it may stop a run to wait for a person, so that runs with it can be resumed.
        observes: whether it only looks on. Then it sees what really happens, wherever it stands in a stack:
            the user's message and the state before any other middleware, the calls of models and tools inside
            all others, and events as they leave.
        remembers: whether what one run taught it decides in the next, so that a run cannot be decided again
            from its history alone. On a durable engine its `around_model` acts in the worker that asks the
            model; it has no other hook, and keeps nothing for a run or a session.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> class Shout(Middleware):
        ...     async def on_user_message(self, ctx, message):
        ...         return message.parts[0].text.upper()
        >>> backend = mock_backend({"a": lambda request: "You said " + request.contents[0].parts[0].text})
        >>> asyncio.run(Agent("a").middleware(Shout()).ask_async("hello", backend=backend))
        'You said HELLO'
    """

    best_effort: ClassVar[bool] = False
    may_pause: ClassVar[bool] = False
    observes: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    _passes_on: ClassVar[bool] = False
    """Whether its `around_model` asks once, gives every response on as it comes, holds nothing meanwhile, and
    raises nothing of its own: then nothing has to stand between it and the model."""
    _portable: ClassVar[bool] = False
    """Whether its `around_model` needs the call alone, so that it may act wherever the model is asked."""
    _by_usage: ClassVar[bool] = False
    """Whether it goes by what answers say they used, so that it may stand around a store of answers."""

    _keeps_answers: ClassVar[bool] = False
    """Whether an answer that passes it is, whole, what its pieces were, and no other takes its place."""

    # --- values of its own ------------------------------------------------------------------------

    def per_run(self, factory: Callable[[], T]) -> Kept[T]:
        """Declare a value that every run has one of: `self.spent = self.per_run(Counter)`.

        In a hook, `self.spent(ctx)` is that of the run at hand, made by `factory` when it is first asked for
        and dropped when the run ends, however it does. Agents inside tools belong to the run that called
        them. A run that pauses has ended; what must survive that belongs into `ctx.state`.
        """
        return Kept(factory, "run")

    def per_session(self, factory: Callable[[], T]) -> Kept[T]:
        """Declare a value that every session has one of, in the memory of this process.

        Sessions of two session services never share one, though their ids are equal. A value is dropped when
        the library deletes the session, as `ask` does with one that nobody named. Of more than 10,000
        sessions of a service, or more than 64 values of a session, those go that were not used for longest.
        What must outlive the process belongs into `ctx.state`.

        A rewind gives the value back as it was before the run: a copy, which each run makes when it first
        asks. A value that cannot be copied, or whose run is more than 32 runs ago, is made anew.
        """
        return Kept(factory, "session")

    def shared(self, factory: Callable[[], T]) -> Shared[T]:
        """Declare a value that all runs share: `self.answers = self.shared(dict)`.

        In a hook, `self.answers(ctx)` is that of live runs, which this object holds. The runs of a backend on
        which scripts, stand-ins or a recording answer (`ctx.simulated`) share one of their own, for as long
        as the backend lives: a test that takes one `mock_backend` for several runs sees what the first of
        them left, and live runs never do. Outside of hooks, `self.answers.current` is the value of live runs,
        or, as long as there was none, of the simulated runs that came last.
        """
        return Shared(factory)

    def idle(self) -> bool:
        """Whether nothing that it does would be noticed now, so that none of its hooks is called.

        It is asked before each, and must be quick. By default it is never idle.
        """
        return False

    async def close(self) -> None:
        """Give back what it holds: called when ADK closes its runner, and by `await expr.aclose()`."""

    # --- the run ----------------------------------------------------------------------------------

    async def on_user_message(self, ctx: Context, message: Content) -> Content | str | None:
        """Before the user's message is stored; what it returns takes its place."""

    async def before_run(self, ctx: Context) -> Content | str | None:
        """Before anything runs; what it returns is the answer, and nothing runs."""

    async def after_run(self, ctx: Context) -> None:
        """After a run that did not fail."""

    async def on_run_error(self, ctx: Context, error: Exception) -> None:
        """After a run that failed, where ADK says so (2.x); what it raises is only logged."""

    async def on_event(self, ctx: Context, event: AgentEvent) -> AgentEvent | Event | None:
        """For every event of the run.

        What it returns takes the place of the event, for the caller and, with ADK from 1.31 on, in the stored
        session too: the event with another `content`, `metadata` or `state_delta`, as `dataclasses.replace`
        makes one, or a native event.
        """

    # --- agents -----------------------------------------------------------------------------------

    async def before_agent(self, ctx: Context, agent_name: str) -> Content | str | None:
        """Before an agent or another step runs; what it returns is its answer, and it does not run."""

    async def after_agent(self, ctx: Context, agent_name: str) -> Content | str | None:
        """After an agent or another step; what it returns is said after its answer."""

    async def on_agent_error(self, ctx: Context, agent_name: str, error: Exception) -> None:
        """After an agent failed, where ADK says so (2.x); what it raises is only logged."""

    # --- models -----------------------------------------------------------------------------------

    async def before_model(self, ctx: Context, request: LlmRequest) -> LlmResponse | str | None:
        """Before a model is asked; it may change the request. What it returns is the answer."""

    async def after_model(self, ctx: Context, response: LlmResponse) -> LlmResponse | str | None:
        """For everything a model answers, pieces included; what it returns takes its place."""

    async def on_model_error(
        self, ctx: Context, request: LlmRequest, error: Exception
    ) -> LlmResponse | str | None:
        """When a model fails; what it returns is the answer."""

    def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse | str | Mapping[str, Any]]:
        """In place of the call of a model: an async generator that asks `call`, as often as it likes.

        `async for response in call(request): yield response` is what happens without it; it may
        yield text too, or the fields of a response as JSON holds them. A `ModelError` that
        it raises counts as a failure of the model: a `//`, and the middleware around this one, may catch it.
        """
        return call(request)

    # --- tools ------------------------------------------------------------------------------------

    async def before_tool(self, ctx: Context, tool_name: str, args: dict[str, Any]) -> dict[str, Any] | None:
        """Before a tool is called; it may change the arguments. What it returns is the result."""

    async def after_tool(
        self, ctx: Context, tool_name: str, args: dict[str, Any], result: dict[str, Any]
    ) -> dict[str, Any] | None:
        """After a tool was called; what it returns takes the place of the result."""

    async def on_tool_error(
        self, ctx: Context, tool_name: str, args: dict[str, Any], error: Exception
    ) -> dict[str, Any] | None:
        """When a tool fails; what it returns is the result."""

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        """In place of the call of a tool; `return await call(args)` is what happens without it."""
        return await call(args)
