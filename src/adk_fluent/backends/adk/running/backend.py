"""`ADKBackend`: compiles the IR to a native ADK app and runs it on ADK's own runner."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App
from google.adk.artifacts import BaseArtifactService
from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
from google.adk.memory import BaseMemoryService
from google.adk.models import BaseLlm
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions import BaseSessionService, Session
from google.adk.tools.base_toolset import BaseToolset

from adk_fluent import _real_models
from adk_fluent._tasks import run_to_end
from adk_fluent.analysis.visibility import Outlet, outlet_of
from adk_fluent.backends.adk import resources
from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.temporary import TemporaryState, temporary
from adk_fluent.backends.adk.compile.boundaries import with_crossings
from adk_fluent.backends.adk.compile.compiler import compile_tree
from adk_fluent.backends.adk.compile.scope import can_pause
from adk_fluent.backends.adk.compile.workflow import build_workflow
from adk_fluent.backends.adk.context.helper_models import named_model
from adk_fluent.backends.adk.events.approvals import asked_by, message_of
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.middleware.parting import check_places
from adk_fluent.backends.adk.running.answering import AnsweredOnce, answering
from adk_fluent.backends.adk.running.convert import (
    Prompt,
    check_prompt,
    compaction,
    context_cache,
    resumability,
    run_config,
    to_agent_event,
    to_content,
)
from adk_fluent.backends.adk.running.guarding import RealModels
from adk_fluent.backends.adk.running.live import LiveLine
from adk_fluent.backends.adk.running.middleware import acting, middleware_plugins
from adk_fluent.backends.adk.running.runner import FluentRunner, Services, shared_services
from adk_fluent.backends.adk.running.store_errors import telling_of
from adk_fluent.backends.adk.running.stored import stored
from adk_fluent.backends.adk.running.telemetry import observed
from adk_fluent.backends.adk.running.toolsets import every_agent, in_use, toolsets_of
from adk_fluent.backends.adk.running.visibility import VisibilityPlugin
from adk_fluent.backends.adk.steps.live import refuse_live
from adk_fluent.backends.adk.steps.once import once
from adk_fluent.backends.adk.steps.remote_observation import Answering
from adk_fluent.backends.adk.steps.tree import default_model, model_of, tell_default_model
from adk_fluent.backends.events import AgentEvent
from adk_fluent.backends.protocol import StoredSession, gathered
from adk_fluent.backends.reading import limited
from adk_fluent.backends.recent import Recent
from adk_fluent.config import ContextCacheConfig, ExecutionConfig, execution_config
from adk_fluent.contracts.check import check_on_build
from adk_fluent.cost.prices import name_of
from adk_fluent.errors import SessionError
from adk_fluent.ir.base import Node
from adk_fluent.ir.graph import Named, resolve_names
from adk_fluent.ir.nodes import AgentNode, RemoteAgentNode

if TYPE_CHECKING:
    from google.adk.workflow import Workflow

DEFAULT_USER = "user"
"""Whose sessions are when a caller names no user."""


@dataclass(frozen=True)
class Compiled:
    """A native app with what running it needs to know.

    Attributes:
        app: ADK's `App`.
        named: the tree it was made from, with unique names.
        config: how it is run.
    """

    app: App
    named: Named
    config: ExecutionConfig
    _runners: Recent[FluentRunner] = field(default_factory=Recent[FluentRunner], repr=False, compare=False)

    def runner(self, services: Services) -> FluentRunner:
        """A runner on these services; the same one for the same services, as long as they are in use."""
        make = partial(FluentRunner, self.app, self.config, services, self.outlet)
        return self._runners.get(services.key, make)

    @cached_property
    def toolsets(self) -> tuple[BaseToolset, ...]:
        """The toolsets that a run may open."""
        return toolsets_of(self.app.root_agent)

    @cached_property
    def models(self) -> Mapping[str, str]:
        """Agent → the name of its model, for responses that do not name theirs; those in tools, too."""
        agents = reversed([*every_agent(self.app.root_agent)])  # of two of one name the outer one counts
        return {agent.name: name_of(model_of(agent) or default_model()) for agent in agents}

    @cached_property
    def outlet(self) -> Outlet:
        """Who should see which events."""
        return outlet_of(self.named.root)

    def check_places(self) -> None:
        """Check that all middleware can act where the workers of an engine ask the models.

        Raises:
            BackendError: one that goes by earlier runs cannot act in a worker, or has one inside that cannot.
        """
        check_places(acting(cast(BaseAgent, self.app.root_agent)))

    def published(self) -> App:
        """The app for ADK's own runners and servers, whose events only a plugin can mark.

        The plugin is the last, since ADK asks no further one after it.
        """
        plugins = [*self.app.plugins, VisibilityPlugin(self.named.root)]
        return self.app.model_copy(update={"plugins": plugins})


class ADKBackend:
    """Compiles expressions to native ADK objects and runs them on ADK's runner.

    Args:
        session_service: where sessions are kept; by default in the memory of this process.
        artifact_service: where artifacts are kept; likewise.
        memory_service: long-term memory; likewise.
        credential_service: credentials of tools; likewise.
    """

    def __init__(
        self,
        session_service: BaseSessionService | None = None,
        artifact_service: BaseArtifactService | None = None,
        memory_service: BaseMemoryService | None = None,
        credential_service: BaseCredentialService | None = None,
    ) -> None:
        self._overrides: Mapping[str, object] = {}
        self._services = Services(session_service, artifact_service, memory_service, credential_service)

    def keep_in(self, services: Services) -> None:
        """Keep what runs store in these services, where they are set."""
        self._services = services.over(self._services)

    def model_for(
        self, node: AgentNode, origin: str, model: str | BaseLlm | None = None
    ) -> str | BaseLlm | None:
        """The model an agent gets in place of its own, or `None`; test backends give a scripted one.

        Args:
            origin: the name the user gave to the agent.
            model: the model it has, its own or that of the agent above; `None` stands for ADK's default.
        """
        return None

    def helper_for(
        self, node: AgentNode, origin: str, operation: str, model: str | BaseLlm | None
    ) -> str | BaseLlm | None:
        """The model that answers what an agent's context spec asks; `None` is the agent's own.

        Args:
            operation: the `C` operation that asks, such as `summarize`.
            model: the model that the spec names.
        """
        return named_model(node, origin, operation, model)

    def another_model(self, node: AgentNode, origin: str, model: str | BaseLlm) -> str | BaseLlm:
        """The model that is asked where a middleware asks another than the agent's own.

        Args:
            origin: the name the user gave to the agent.
            model: the model that the middleware names.
        """
        return model

    def remote_for(self, node: RemoteAgentNode, origin: str) -> BaseLlm | Answering | None:
        """What answers in place of the process that serves a remote agent; `None` is that process.

        Args:
            origin: the name the user gave to the agent.
        """
        return None

    def plugins(self) -> list[BasePlugin]:
        """The plugins of ADK's app."""
        found: list[BasePlugin] = []
        if not private.keeps_temporary():
            found.append(TemporaryState(name="adk_fluent_temporary"))
        if _real_models.watched():
            found.append(RealModels())
        return found

    def prepare(self, node: Node) -> Node:
        """The tree that is compiled for `node`; test backends add to it what users do not see."""
        return node

    def compile(
        self,
        node: Node,
        config: ExecutionConfig | None = None,
        *,
        state: Mapping[str, Any] | None = MappingProxyType({}),
        origins: Mapping[str, str] | None = None,
    ) -> Compiled:
        """A native app for `node`.

        Args:
            state: what the contract check may take to be in the session; `None` if that is not known.
            origins: name → the name the user gave, where `node` is part of a tree whose names are unique.

        Raises:
            CompileError: ADK cannot express something in it.
            ContractError: the contract check found what the expression or the configuration refuses.
            DuplicateNameError: two different nodes have one name.
            MissingExtraError: what a `TelemetryConfig` exports with is not installed.
            TelemetryError: its exporters have nothing to be attached to.
        """
        config = execution_config(config)
        check_on_build(node, config=config, state=state, mode=config.contracts or "log")
        if config.telemetry is not None:
            node = observed(node, config.telemetry)
        named = resolve_names(limited(self.prepare(node), config))
        named = Named(named.root, {**named.origins, **(origins or {})})
        resumable = can_pause(named.root) if config.resumable is None else config.resumable
        caching = cast("ContextCacheConfig | None", config.context_cache)  # whatever was given, it holds ours
        root = self.compiled_tree(named, config)
        tell_default_model(every_agent(root))
        app = App(
            name=config.app_name,
            root_agent=root,
            plugins=[
                *once(named.root),
                *[AnsweredOnce()] * resumable,
                *middleware_plugins(root),
                *self.plugins(),
            ],
            resumability_config=resumability() if resumable else None,
            context_cache_config=context_cache(caching) if caching else None,
            events_compaction_config=compaction(config.compaction, root) if config.compaction else None,
        )
        return Compiled(app, named, config)

    def compiled_tree(self, named: Named, config: ExecutionConfig) -> BaseAgent:
        """The native agents of a tree."""
        return self.native_tree(with_crossings(named, config), config)

    def native_tree(self, named: Named, config: ExecutionConfig) -> BaseAgent:
        """The native agents of a tree as it is, with the models that this backend gives."""
        return compile_tree(
            named,
            self.model_for,
            self.helper_for,
            self.another_model,
            self._overrides,
            self.remote_for,
            tools_in_threads=config.tools_in_threads,
        )

    # --- running ----------------------------------------------------------------------------------

    def services(self, given: Mapping[str, Any] | None = None) -> Services:
        """The services of a run: those given, by name, else this backend's, else the shared ones.

        Raises:
            ArgumentError: one is no service of ADK's.
        """
        return Services(**(given or {})).over(self._services).over(shared_services())

    async def run(self, compiled: Compiled, prompt: Prompt, **options: Any) -> list[AgentEvent]:
        """Run to the end and give all events; takes what `stream` takes."""
        options.setdefault("streaming", False)
        async with aclosing(self.stream(compiled, prompt, **options)) as events:
            return await gathered(events)

    async def stream(
        self,
        compiled: Compiled,
        prompt: Prompt,
        *,
        user_id: str = DEFAULT_USER,
        session_id: str | None = None,
        state: Mapping[str, Any] | None = None,
        services: Mapping[str, Any] | None = None,
        streaming: bool = True,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Give events as they happen.

        Args:
            session_id: the session to go on in; it is created when missing. By default a new one.
            state: written to the session before the run.
            streaming: whether the model's partial answers are given, unless the configuration says.
        """
        message = to_content(prompt)
        check_prompt(compiled.named.root, message)
        runner = compiled.runner(self.services(services))
        session_id = session_id or str(uuid.uuid4())
        delta = await self._prepare(runner, user_id, session_id, dict(state or {}))
        events = runner.annotated(
            user_id=user_id,
            session_id=session_id,
            new_message=message,
            state_delta=delta,
            run_config=run_config(compiled.config, streaming=streaming),
        )
        async with in_use(compiled.toolsets), aclosing(events) as native:
            async for event in native:
                yield to_agent_event(event, session_id, compiled.models)

    async def _prepare(
        self, runner: FluentRunner, user_id: str, session_id: str, state: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Put `state` into a session that does not exist yet; for one that does, give it back as a delta."""
        if not state:
            return None
        service, app = runner.session_service, runner.app_name
        with telling_of(service, session_id):
            if await service.get_session(app_name=app, user_id=user_id, session_id=session_id) is not None:
                return state
            await service.create_session(app_name=app, user_id=user_id, session_id=session_id, state=state)
        return temporary(state) or None

    # --- sessions ---------------------------------------------------------------------------------

    async def session(
        self,
        compiled: Compiled,
        session_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> StoredSession:
        """A stored session.

        Raises:
            SessionError: there is none of that id.
        """
        return stored(await self._session(compiled, session_id, user_id, services), compiled.outlet)

    async def _session(
        self, compiled: Compiled, session_id: str, user_id: str, services: Mapping[str, Any] | None
    ) -> Session:
        runner = compiled.runner(self.services(services))
        with telling_of(runner.session_service, session_id):
            found = await runner.session_service.get_session(
                app_name=runner.app_name, user_id=user_id, session_id=session_id
            )
        if found is None:
            raise SessionError(
                f"There is no session {session_id!r} of user {user_id!r} in app {runner.app_name!r}. "
                "Pass the backend, session_service and user_id that the run had."
            )
        return found

    async def forget(
        self,
        compiled: Compiled,
        *,
        session_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        """Delete a session that nobody can name any more."""
        runner = compiled.runner(self.services(services))
        await resources.end_session(runner.session_service, runner.app_name, user_id, session_id)
        runs.forget(runner.session_service, runner.app_name, user_id, session_id)
        with telling_of(runner.session_service, session_id):
            await run_to_end(
                runner.session_service.delete_session(
                    app_name=runner.app_name, user_id=user_id, session_id=session_id
                )
            )

    async def live(
        self,
        compiled: Compiled,
        *,
        session_id: str,
        user_id: str = DEFAULT_USER,
        state: Mapping[str, Any] | None = None,
        modality: Literal["audio", "text"] = "audio",
        services: Mapping[str, Any] | None = None,
    ) -> LiveLine:
        """A live conversation in a session, which is created when missing.

        Raises:
            UnsupportedNodeError: something in the expression cannot run live.
            SessionError: there is a `state` for the start of a session that has begun.
        """
        refuse_live(compiled.named.root)
        runner = compiled.runner(self.services(services))
        service, app = runner.session_service, runner.app_name
        with telling_of(service, session_id):
            found = await service.get_session(app_name=app, user_id=user_id, session_id=session_id)
            if found is None:
                await service.create_session(
                    app_name=app, user_id=user_id, session_id=session_id, state=dict(state or {})
                )
        if found is not None and state:
            raise SessionError(
                f"Session {session_id!r} has begun, and live(state=) is for the start of one. Leave state "
                "out, or give another session_id."
            )
        session = {"user_id": user_id, "session_id": session_id}
        return LiveLine(runner, compiled.config, session, modality=modality, models=compiled.models)

    async def rewind(
        self,
        compiled: Compiled,
        *,
        session_id: str,
        before_invocation_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> None:
        """Undo a run and all after it.

        Raises:
            SessionError: there is no such session, or no such run in it.
        """
        session = await self._session(compiled, session_id, user_id, services)
        if not any(event.invocation_id == before_invocation_id for event in session.events):
            known = list(dict.fromkeys(event.invocation_id for event in session.events))
            raise SessionError(
                f"Session {session_id!r} has no run {before_invocation_id!r}; it has {known or 'none'}."
            )
        runner = compiled.runner(self.services(services))
        with telling_of(runner.session_service, session_id):
            await runner.rewind_async(
                user_id=user_id, session_id=session_id, rewind_before_invocation_id=before_invocation_id
            )

    async def resume(
        self,
        compiled: Compiled,
        *,
        session_id: str,
        approvals: Mapping[str, Any],
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Answer what a paused run waits for, and give the events that follow.

        Args:
            approvals: `Pending.id` → the answer, also to what is no approval.

        Raises:
            SessionError: there is no such session, it does not wait for one of these answers, or it
                cannot go on.
            ArgumentError: an answer is not of the form that `Pending.form` names.
        """
        with answering(compiled.app.name, user_id, session_id, approvals):
            session = await self._session(compiled, session_id, user_id, services)
            asked = asked_by(session, approvals)
            if compiled.app.resumability_config is None:
                raise SessionError(
                    f"Session {session_id!r} waits, but its run was made as one that cannot go on: nothing "
                    "in it was known to pause, or ExecutionConfig(resumable=False) said so. "
                    "Set ExecutionConfig(resumable=True) for the run and for resume()."
                )
            events = compiled.runner(self.services(services)).annotated(
                user_id=user_id,
                session_id=session_id,
                invocation_id=next(iter(asked.values())).event.invocation_id,
                new_message=message_of(approvals, asked),
            )
            async with in_use(compiled.toolsets), aclosing(events) as native:
                async for event in native:
                    yield to_agent_event(event, session_id, compiled.models)

    async def go_on(
        self,
        compiled: Compiled,
        *,
        invocation_id: str,
        session_id: str,
        user_id: str = DEFAULT_USER,
        services: Mapping[str, Any] | None = None,
        streaming: bool = True,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Go on with a resumable run that was left, after what it has finished, and give what follows."""
        events = compiled.runner(self.services(services)).annotated(
            user_id=user_id,
            session_id=session_id,
            invocation_id=invocation_id,
            run_config=run_config(compiled.config, streaming=streaming),
        )
        async with in_use(compiled.toolsets), aclosing(events) as native:
            async for event in native:
                yield to_agent_event(event, session_id, compiled.models)


@overload
def build(node: Node, target: Literal["agent"] = "agent") -> BaseAgent: ...
@overload
def build(node: Node, target: Literal["agent", "workflow"]) -> BaseAgent | Workflow: ...
def build(node: Node, target: Literal["agent", "workflow"] = "agent") -> BaseAgent | Workflow:
    """The native root agent for `node`, for `adk web` and everything else that takes an ADK agent.

    Args:
        target: `workflow` gives an ADK 2.x `Workflow` instead, as `build_workflow` makes it.
    """
    if target == "workflow":
        return build_workflow(node)
    # What the check finds is logged where a run begins; here it would cost more than the agents themselves.
    check_on_build(node, state={}, mode="off")
    return compile_tree(with_crossings(resolve_names(node), ExecutionConfig()))


@cache
def default_backend() -> ADKBackend:
    """The backend that runs an expression when none is given."""
    return ADKBackend()
