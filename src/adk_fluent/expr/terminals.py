"""`Terminals`: the methods of every expression that compile it, run it, or turn it into ADK objects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Unpack, overload

from adk_fluent._tracebacks import brief
from adk_fluent.errors import ADKFluentError, ArgumentError
from adk_fluent.expr.arguments import text, words
from adk_fluent.expr.options import AnyMiddleware, ResumeOptions, RunOptions, ServiceOptions, listing_options
from adk_fluent.expr.reports import Prompt, Reports
from adk_fluent.ir import AuthConfig, Node
from adk_fluent.middleware.arguments import of_type
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from a2a.types import AgentCard
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App
    from google.adk.runners import Runner
    from google.adk.workflow import Workflow

    from adk_fluent.backends.adk.api import OpenTools
    from adk_fluent.backends.events import AgentEvent, RunResult
    from adk_fluent.config import ExecutionConfig
    from adk_fluent.expr.conversations import Chat, Live
    from adk_fluent.expr.expression_run import Run

T_co = TypeVar("T_co", covariant=True)


class Terminals(Reports, Generic[T_co]):
    """Methods of every expression that build ADK objects from it, or run it."""

    __slots__ = ()

    def _run(self, terminal: str, options: Mapping[str, Any]) -> Run[T_co]:
        from adk_fluent.expr.expression_run import Run

        with brief():
            return Run(self, options, terminal=terminal)

    # --- native ADK objects -----------------------------------------------------------------------

    @overload
    def build(self, *, target: Literal["agent"] = "agent") -> BaseAgent: ...
    @overload
    def build(self, *, target: Literal["workflow"]) -> Workflow: ...
    def build(self, *, target: Literal["agent", "workflow"] = "agent") -> BaseAgent | Workflow:
        """Build the native ADK agent, for `root_agent`, `sub_agents`, `AgentTool` and other uses in ADK.

        Each call returns new objects, because an ADK agent has one parent only. An agent has no plugins, and
        so no middleware; use `to_app()` if you need them.

        Args:
            target: `workflow` returns an ADK 2.x `Workflow` instead, for sequences, parallel branches, loops
                and routes of agents. Its agents see other parts of the conversation.

        Raises:
            ArgumentError: there is no such target.
            CompileError: ADK cannot express a node, or the installed ADK has no `Workflow`.
        """
        if target not in ("agent", "workflow"):
            hint = did_you_mean(str(target), ("agent", "workflow"))
            raise ArgumentError(f"build(target=) is 'agent' or 'workflow', not {target!r}.{hint}")
        from adk_fluent.backends.adk.api import build

        return build(self.node, target)

    def to_agent(self) -> BaseAgent:
        """Do the same as `build()`, named like `to_app()`. Prefer `build()`, which also has a target."""
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
        """Make the A2A card that describes this expression to other agents, as an object of a2a-sdk.

        The card's skills are the agents whose text the user sees, with their descriptions and tools. Internal
        agents and instructions are not on the card. It needs the extra `a2a`.

        Args:
            endpoint: the URL of the service.
            description: the purpose of the service; by default the first description of a visible agent.
            name: the name on the card; by default that of the expression.
            skills: more skills, for clients that search for capabilities.
            auth: the authentication that callers need; the token is not on the card.

        Raises:
            ArgumentError: the endpoint is not a URL.
            MissingExtraError: a2a-sdk is not installed.

        >>> from adk_fluent import Agent
        >>> card = Agent("pay").describe("Pays.").to_agent_card(endpoint="https://pay.example/a2a")
        >>> card.name, card.description, [skill.id for skill in card.skills]
        ('pay', 'Pays.', ['pay'])
        """
        from adk_fluent.a2a.protocol import card_json, sdk

        sdk.need("to_agent_card()")
        told = {"name": name, "description": description, "version": version}
        for argument, value in told.items():
            text(value, f"to_agent_card({argument}=)")
        of_type(auth, AuthConfig | None, "to_agent_card(auth=)", "an AuthConfig(...)", secret=True)
        able = words(skills, "to_agent_card(skills=)")
        return sdk.card_of(card_json.card_json(self.node, endpoint, **told, skills=able, auth=auth))

    def to_app(
        self, config: ExecutionConfig | None = None, *, middleware: AnyMiddleware | None = None
    ) -> App:
        """Build the native ADK `App`: the agent with plugins and configuration, for `adk web` and runners.

        One of its plugins marks every event with its visibility; see `adk_fluent.visibility`. Another is the
        middleware of this expression.

        Args:
            config: limits, streaming, resumability, compaction.
            middleware: middleware around that of the expression; one object, or a list.
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
        """Build a native ADK `Runner` that applies the configuration's limits and creates missing sessions.

        It marks every event with its visibility, and removes the text that `.filtered()` hides. Its
        `run_live` supports agents, and sequences of agents, transforms, taps, captures and artifact
        operations. As in ADK's `SequentialAgent`, each agent calls the function `task_completed` when it has
        finished, and the next one starts.

        Args:
            config: limits, streaming, resumability, compaction.
            middleware: middleware around that of the expression; one object, or a list.
            services: `session_service` and the rest of `ServiceOptions`.

        Raises:
            ArgumentError: an option does not exist; the message says where it belongs.
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
            All events, with `.text` and `.output` (the answer to the user), `.visible` (the events that the
            user should see), `.state`, `.usage` and `.pending`.
        """
        return await self._run("run", options).result(prompt)

    @listing_options(RunOptions)
    def stream(self, prompt: Prompt, **options: Unpack[RunOptions]) -> AsyncGenerator[AgentEvent, None]:
        """Yield events as they happen, including chunks of answers (`is_partial`).

        If you close the stream early, the run ends and its model calls are cancelled; `contextlib.aclosing`
        does so at once. At the end, the session is deleted, unless you named it with `session_id=` or gave a
        `session_service`. If the run waits for an answer, the session stays: `resume` it by the `session_id`
        of its events.

        Args:
            prompt: text, a `Content`, or a list of texts and parts (images, audio, files).
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.

        Raises:
            RunError: the run failed; also raised by a second loop over a stream that has ended.
        """
        from adk_fluent.expr.conversations import EventStream

        return EventStream(self._run("stream", options).stream(prompt))

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
        """Run and return the answer: the parsed `returns` model, or text.

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
        """Ask every prompt in a new session, `concurrency` at a time; the answers keep the order.

        Args:
            prompts: the prompts, as for `run`.
            concurrency: most runs at the same time.
            return_exceptions: as in `asyncio.gather`: with `True`, a prompt's error takes the place of its
                answer, and the other prompts are still asked. By default the first error cancels the rest
                and is raised; its `answers` are those to the other prompts, by index.
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.

        Raises:
            ArgumentError: a message cannot hold one of the prompts; no prompt was asked.
            RunError: the first error; an error of another library is its `__cause__`.

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
        from adk_fluent.expr.conversations import ask_all

        run = self._run("map", options)
        return await ask_all(run, prompts, concurrency, return_exceptions=return_exceptions)

    @listing_options(RunOptions)
    def session(self, *, keep: bool = False, **options: Unpack[RunOptions]) -> Chat[T_co]:
        """Start a conversation: `async with expr.session() as chat: await chat.send("Hi")`.

        Args:
            keep: True if the session stays when the conversation ends. By default it is deleted, unless you
                named it with `session_id=`, gave a `session_service`, or a run in it waits for an answer.
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.
        """
        from adk_fluent.expr.conversations import Chat

        return Chat(self._run("session", options), keep=keep)

    @listing_options(RunOptions)
    def live(self, *, modality: Literal["audio", "text"] = "audio", **options: Unpack[RunOptions]) -> Live:
        """Start a live conversation on ADK's bidirectional streaming, for agents and sequences of agents.

        `async with expr.live() as live:` opens it, `await live.send(...)` sends text or sound, and
        `async for event in live:` receives the events. In a sequence, each agent calls the function
        `task_completed` when it has finished, and the next one starts. `state=` is for a new session.

        Args:
            modality: the form of the answers; many live models support audio only.
            options: `state`, `session_id`, `backend`, `config`, `middleware` and the rest of `RunOptions`.

        Raises:
            ArgumentError: the modality does not exist.
        """
        from adk_fluent.expr.conversations import Live

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
        """Continue a run that waits for an answer, also in another process.

        Args:
            session_id: the session of the run.
            answers: the answer for each id in `RunResult.pending`, in the form that `Pending.form` names.
            approvals: for each id of an approval, `True`, `False`, or a payload that approves.
            options: `backend`, `session_service` and the rest of `ResumeOptions`.

        Raises:
            SessionError: there is no such session, or it does not wait for one of these answers.
            ArgumentError: an answer does not have the form that `Pending.form` names.
            BackendError: the backend stores no sessions.
        """
        run = self._run("resume", {**options, "session_id": session_id})
        return await run.resume(session_id, answers, approvals)

    @listing_options(ResumeOptions)
    async def rewind(
        self, *, session_id: str, before_invocation_id: str, **options: Unpack[ResumeOptions]
    ) -> None:
        """Undo a run and all later ones: the session is exactly as it was before.

        This covers the session's conversation, state and files, and the values that middleware stores for it.
        Values that sessions share stay: `user:` and `app:` keys, and the user's files. A deleted file does
        not come back.

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
        """Keep connections of tools, such as those to MCP servers, open from run to run.

        Each run closes the connections that it opened. Inside `async with pipeline:`, several runs share
        them. At the end, the middleware is closed, too.
        """
        await self._connections.take()
        return self

    async def __aexit__(self, *exception: object) -> None:
        try:
            await self._connections.give_back()
        finally:
            await self._close_middleware()

    async def aclose(self) -> None:
        """Close the connections of tools and the middleware, unless a run or a conversation still uses them.

        A run closes the connections of its tools itself, and leaves middleware open for the next run. The
        objects of `build()`, `to_app()` and `to_runner()` close nothing themselves: call this method, or
        ADK's `runner.close()`.

        Raises:
            MiddlewareError: a middleware could not be closed; the others are closed.
        """
        try:
            async with self._connections.in_use():
                pass
        finally:
            await self._close_middleware()

    @property
    def _connections(self) -> OpenTools:
        from adk_fluent.backends.adk.api import OpenTools

        return OpenTools(self.node)

    async def _close_middleware(self) -> None:
        from adk_fluent.backends.adk.api import close_inside

        await close_inside(self.node)
