"""Terminals: the methods that compile and run an expression."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack, overload

from adk_fluent._tracebacks import brief
from adk_fluent.errors import ADKFluentError, ArgumentError
from adk_fluent.expr.arguments import words
from adk_fluent.expr.looking import Looking
from adk_fluent.expr.options import ResumeOptions, RunOptions, ServiceOptions, listing_options
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from a2a.types import AgentCard
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App
    from google.adk.runners import Runner
    from google.adk.workflow import Workflow

    from adk_fluent.backends.events import AgentEvent, RunResult
    from adk_fluent.config import ExecutionConfig
    from adk_fluent.expr.live import Live
    from adk_fluent.expr.looking import Prompt
    from adk_fluent.expr.options import AnyMiddleware
    from adk_fluent.expr.running import Run
    from adk_fluent.expr.session import Chat
    from adk_fluent.ir.annotations import AuthConfig
    from adk_fluent.ir.base import Node

T_co = TypeVar("T_co", covariant=True)


class Terminals(Looking, Generic[T_co]):
    """What every expression can be asked to do."""

    __slots__ = ()

    def _run(self, terminal: str, options: Mapping[str, Any]) -> Run[T_co]:
        from adk_fluent.expr.running import Run

        with brief():
            return Run(self, options, terminal=terminal)

    # --- native ADK objects -----------------------------------------------------------------------

    @overload
    def build(self, *, target: Literal["agent"] = "agent") -> BaseAgent: ...
    @overload
    def build(self, *, target: Literal["workflow"]) -> Workflow: ...
    def build(self, *, target: Literal["agent", "workflow"] = "agent") -> BaseAgent | Workflow:
        """The native ADK agent, for `root_agent`, `sub_agents`, `AgentTool` and everything else in ADK.

        Each call gives fresh objects, since an ADK agent has one parent. An agent has no plugins, and so no
        middleware; `to_app()` has both.

        Args:
            target: `workflow` gives an ADK 2.x `Workflow` instead, for sequences, parallel branches, loops
                and routes of agents; what its agents see of the conversation differs.

        Raises:
            ArgumentError: there is no such target.
            CompileError: ADK cannot express something in it, or the installed ADK has no `Workflow`.
        """
        if target not in ("agent", "workflow"):
            hint = did_you_mean(str(target), ("agent", "workflow"))
            raise ArgumentError(f"build(target=) is 'agent' or 'workflow', not {target!r}.{hint}")
        from adk_fluent.backends.adk.api import build

        return build(self.node, target)

    def to_agent(self) -> BaseAgent:
        """Do the same as `build()`, named like `to_app()`. Prefer `build()`, which also takes a target."""
        return self.build()

    def to_agent_card(
        self,
        *,
        endpoint: str,
        description: str = "",
        name: str = "",
        version: str = "1.0",
        skills: Sequence[str] = (),
        auth: AuthConfig | None = None,
    ) -> AgentCard:
        """What other agents are told of this expression: the card of A2A, as its library has it.

        Its skills are the agents whose words the user sees, with their descriptions, and their tools. Agents
        behind the scenes are not on it, nor are instructions. It needs the extra `a2a`.

        Args:
            endpoint: the URL of the service.
            description: what it is for; by default that of the first of these agents which has one.
            name: its name; by default that of the expression.
            skills: what it can do beside that, for those who look for capabilities.
            auth: what callers must have; the token is not on the card.

        Raises:
            ArgumentError: the endpoint is no URL.
            MissingExtraError: a2a-sdk is not installed.

        >>> from adk_fluent import Agent
        >>> card = Agent("pay").describe("Pays.").to_agent_card(endpoint="https://pay.example/a2a")
        >>> card.name, card.description, [skill.id for skill in card.skills]
        ('pay', 'Pays.', ['pay'])
        """
        from adk_fluent.a2a.protocol import sdk
        from adk_fluent.a2a.protocol.card_json import card_json

        sdk.need("to_agent_card()")
        told = {"name": name, "description": description, "version": version}
        able = words(skills, "to_agent_card(skills=)")
        return sdk.card_of(card_json(self.node, endpoint, **told, skills=able, auth=auth))

    def to_app(
        self, config: ExecutionConfig | None = None, *, middleware: AnyMiddleware | None = None
    ) -> App:
        """The native ADK `App`: the agent with its plugins and configuration; for `adk web` and runners.

        One of its plugins marks every event with who should see it; see `adk_fluent.visibility`. Another is
        the middleware of this expression.

        Args:
            config: limits, streaming, resumability, compaction.
            middleware: more of it, around that of the expression; one, or a list.
        """
        from adk_fluent.backends.adk.api import ADKBackend

        return ADKBackend().compile(self._with_middleware(middleware), config).published()

    @listing_options(ServiceOptions)
    def to_runner(
        self,
        config: ExecutionConfig | None = None,
        *,
        middleware: AnyMiddleware | None = None,
        **services: Unpack[ServiceOptions],
    ) -> Runner:
        """A native ADK `Runner` that knows the configuration's limits and creates missing sessions.

        It marks every event with who should see it, and blanks what `.filtered()` hides. Its `run_live` takes
        agents, and sequences of agents, transforms, taps, captures and artifact operations: as in ADK's
        `SequentialAgent`, each agent calls the function `task_completed` when it is done, and the next one
        goes on.

        Args:
            config: limits, streaming, resumability, compaction.
            middleware: more of it, around that of the expression; one, or a list.
            services: `session_service` and the rest of `ServiceOptions`.

        Raises:
            ArgumentError: an option is none of these; the message says where it belongs.
        """
        from adk_fluent.backends.adk.api import ADKBackend
        from adk_fluent.expr.options import only_services

        backend = ADKBackend()
        found = backend.services(only_services(services))
        return backend.compile(self._with_middleware(middleware), config).runner(found)

    def _with_middleware(self, middleware: object) -> Node:
        from adk_fluent.middleware.checking import given_to

        return self.node if middleware is None else given_to(self.node, middleware)

    # --- running ----------------------------------------------------------------------------------

    @listing_options(RunOptions)
    async def run(self, prompt: Prompt, **options: Unpack[RunOptions]) -> RunResult[T_co]:
        """Run to the end, or until an answer from outside is needed.

        Args:
            prompt: text, a `Content`, or a list of texts and parts (images, audio, files).
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.

        Returns:
            All events, with `.text` and `.output` (the answer to the user), `.visible` (the events that are
            for the user), `.state`, `.usage` and `.pending`.
        """
        return await self._run("run", options).result(prompt)

    @listing_options(RunOptions)
    def stream(self, prompt: Prompt, **options: Unpack[RunOptions]) -> AsyncGenerator[AgentEvent, None]:
        """Give events as they happen, pieces of answers (`is_partial`) included.

        Closing it early ends the run and cancels its model calls; `contextlib.aclosing` does so at once.
        However it ends, a session that was not named with `session_id=`, nor kept in a `session_service` of
        yours, is forgotten then; only where the run waits for an answer it stays, to `resume` it by the
        `session_id` of its events.

        Args:
            prompt: text, a `Content`, or a list of texts and parts (images, audio, files).
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.
        """
        return self._run("stream", options).stream(prompt)

    @listing_options(RunOptions)
    def ask(self, prompt: Prompt, **options: Unpack[RunOptions]) -> T_co:
        """Run and wait for the answer: the parsed `returns` model, or text.

        Args:
            prompt: text, a `Content`, or a list of texts and parts (images, audio, files).
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.

        Raises:
            EventLoopError: called inside a running event loop; use `await expr.ask_async(...)` there.
        """
        return self._run("ask", options).ask(prompt)

    @listing_options(RunOptions)
    async def ask_async(self, prompt: Prompt, **options: Unpack[RunOptions]) -> T_co:
        """Run and give the answer: the parsed `returns` model, or text.

        Args:
            prompt: text, a `Content`, or a list of texts and parts (images, audio, files).
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.
        """
        return await self._run("ask_async", options).answer(prompt)

    @overload
    async def map(
        self,
        prompts: Sequence[Prompt],
        *,
        concurrency: int = 5,
        return_exceptions: Literal[False] = False,
        **options: Unpack[RunOptions],
    ) -> list[T_co]: ...
    @overload
    async def map(
        self,
        prompts: Sequence[Prompt],
        *,
        concurrency: int = 5,
        return_exceptions: bool,
        **options: Unpack[RunOptions],
    ) -> list[T_co | ADKFluentError]: ...
    @listing_options(RunOptions)
    async def map(
        self,
        prompts: Sequence[Prompt],
        *,
        concurrency: int = 5,
        return_exceptions: bool = False,
        **options: Unpack[RunOptions],
    ) -> list[T_co] | list[T_co | ADKFluentError]:
        """Ask every prompt in a session of its own, `concurrency` at a time; answers keep the order.

        Args:
            prompts: what is asked.
            concurrency: how many runs there are at a time.
            return_exceptions: as in `asyncio.gather`: with `True`, the error of a prompt takes the place of
                its answer and the others go on. By default the first error cancels the rest and is raised;
                its `answers` are those to the other prompts, by index.
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.

        Raises:
            ArgumentError: a prompt is nothing that a message can hold; nothing was asked.
            RunError: the first error; one of another kind than ours is its `__cause__`.

        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> backend = mock_backend({"a": ["one", OSError("down")]})
        >>> answers = asyncio.run(
        ...     Agent("a").map(["x", "y"], concurrency=1, return_exceptions=True, backend=backend)
        ... )
        >>> [type(answer).__name__ for answer in answers]
        ['str', 'ModelError']
        """
        run = self._run("map", options)
        return await run.map(prompts, concurrency, return_exceptions=return_exceptions)

    @listing_options(RunOptions)
    def session(self, *, keep: bool = False, **options: Unpack[RunOptions]) -> Chat[T_co]:
        """A conversation: `async with expr.session() as chat: await chat.send("Hi")`.

        Args:
            keep: whether the session stays when the conversation ends. By default one that was not named
                with `session_id=`, nor kept in a `session_service` of yours, is forgotten, unless a run in it
                waits for an answer.
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.
        """
        from adk_fluent.expr.session import Chat

        return Chat(self._run("session", options), keep=keep)

    @listing_options(RunOptions)
    def live(self, *, modality: Literal["audio", "text"] = "audio", **options: Unpack[RunOptions]) -> Live:
        """A live conversation on ADK's bidirectional streaming, for agents and sequences of agents.

        `async with expr.live() as live:` opens it, `await live.send(...)` sends text or sound, and
        `async for event in live:` gives what comes. In a sequence each agent calls the function
        `task_completed` when it is done, and the next one goes on. `state=` is for a new session.

        Args:
            modality: what the model answers in; many live models speak only.
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.

        Raises:
            ArgumentError: no such modality.
        """
        from adk_fluent.expr.live import Live

        if modality not in ("audio", "text"):
            hint = did_you_mean(str(modality), ("audio", "text"))
            raise ArgumentError(f"live(modality=) is 'audio' or 'text', not {modality!r}.{hint}")
        return Live(self._run("live", options), modality)

    @listing_options(ResumeOptions)
    async def resume(
        self,
        *,
        session_id: str,
        answers: Mapping[str, Any] | None = None,
        approvals: Mapping[str, Any] | None = None,
        **options: Unpack[ResumeOptions],
    ) -> RunResult[T_co]:
        """Go on with a run that waits for an answer, also in another process.

        Args:
            session_id: the session of the run.
            answers: `RunResult.pending` id → the answer, in the form that `Pending.form` names.
            approvals: the same for approvals: id → `True`, `False`, or a payload that approves.
            options: `backend`, `session_service` and the rest of `ResumeOptions`.

        Raises:
            SessionError: there is no such session, or it does not wait for one of these answers.
            ArgumentError: an answer has another form.
            BackendError: the backend stores no sessions.
        """
        run = self._run("resume", {**options, "session_id": session_id})
        return await run.resume(session_id, answers, approvals)

    @listing_options(ResumeOptions)
    async def rewind(
        self, *, session_id: str, before_invocation_id: str, **options: Unpack[ResumeOptions]
    ) -> None:
        """Undo a run and all after it: the session is exactly what it was before.

        That is its conversation, its state, its files, and what middleware keeps for it. What other sessions
        share stays: `user:` and `app:` keys, and files of the user. A deleted file does not come back.

        Args:
            session_id: the session of the run.
            before_invocation_id: `RunResult.invocation_id` of the first run to undo.
            options: `backend`, `session_service` and the rest of `ResumeOptions`.

        Raises:
            SessionError: there is no such session or run.
            BackendError: the backend stores no sessions.
        """
        await self._run("rewind", {**options, "session_id": session_id}).rewind(before_invocation_id)

    async def __aenter__(self) -> Self:
        """Keep what the tools hold open, such as connections to MCP servers, from run to run.

        Each run closes what it opened; `async with pipeline:` around several saves them from opening it anew.
        Middleware is closed at the end, too.
        """
        from adk_fluent.backends.adk.api import OpenTools

        await OpenTools(self.node).take()
        return self

    async def __aexit__(self, *exception: object) -> None:
        from adk_fluent.backends.adk.api import OpenTools

        try:
            await OpenTools(self.node).give_back()
        finally:
            await self._close_middleware()

    async def aclose(self) -> None:
        """Close what its tools and its middleware hold open, unless a run, or a conversation, still needs it.

        Runs close what their tools opened by themselves, and leave middleware open for the next one. What
        `build()`, `to_app()` and `to_runner()` gave to ADK does not; this closes it, as does ADK's
        `runner.close()`.

        Raises:
            MiddlewareError: a middleware could not be closed; the others are.
        """
        from adk_fluent.backends.adk.api import OpenTools

        try:
            async with OpenTools(self.node).in_use():
                pass
        finally:
            await self._close_middleware()

    async def _close_middleware(self) -> None:
        from adk_fluent.backends.adk.api import close_inside

        await close_inside(self.node)
