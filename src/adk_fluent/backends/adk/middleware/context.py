"""What a hook is given: the same on every version of ADK."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.state import State as AdkState
from google.adk.tools.base_tool import BaseTool

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.signals import live
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.middleware.places import node_of, pipeline_at, step_at
from adk_fluent.ir.base import Node
from adk_fluent.middleware.enriching import Step
from adk_fluent.middleware.keeping import Scope, Simulation
from adk_fluent.state.fidelity import check_storable

if TYPE_CHECKING:
    from adk_fluent.middleware.hook_context import State


PLUGIN: Final = "adk_fluent_middleware"
"""The name of the plugin that calls the hooks of a run."""


class HookContext:
    """Where a hook is called; see `adk_fluent.middleware.Context`.

    Args:
        native: ADK's own context.
        agent_name: who this is about; by default the agent of the context.
        tool: the tool that this is about.
    """

    __slots__ = ("_delta", "_pipeline", "_state", "agent_name", "event", "invocation", "native", "tool")

    def __init__(
        self,
        native: CallbackContext | InvocationContext,
        agent_name: str | None = None,
        tool: BaseTool | None = None,
    ) -> None:
        self.native: CallbackContext | InvocationContext = native
        self.invocation: InvocationContext = private.invocation(native)
        agent = self.invocation.agent
        self.agent_name: str = agent_name or (agent.name if agent is not None else "")
        self.tool: BaseTool | None = tool
        self.event: Event | None = None
        self._delta: dict[str, Any] = {}
        self._state: State | None = None
        self._pipeline: str | None = None

    @property
    def state(self) -> State:
        """The state of the session."""
        if self._state is None:
            native = self.native
            if isinstance(native, InvocationContext):
                self._state = cast("State", AdkState(native.session.state, self._delta))
            else:
                self._state = cast("State", native.state)
        return self._state

    @property
    def invocation_id(self) -> str:
        """The run."""
        return self.invocation.invocation_id

    @property
    def session_id(self) -> str:
        """The session."""
        return self.invocation.session.id

    @property
    def user_id(self) -> str:
        """Whose session it is."""
        return self.invocation.session.user_id

    @property
    def operation(self) -> str | None:
        """What a model is asked for beside the agent's own work."""
        return getattr(self.native, "operation", None)

    @property
    def streaming(self) -> bool:
        """Whether the model is asked for pieces."""
        config = self.invocation.run_config
        mode = None if config is None else config.streaming_mode
        return self.operation is None and mode is not None and mode.value == "sse"

    @property
    def live(self) -> bool:
        """Whether this is a live conversation."""
        return self.invocation.live_request_queue is not None

    @property
    def simulation(self) -> Simulation | None:
        """What is kept for the simulated runs of this backend; `None` for a live run."""
        return runs.simulation(self.invocation)

    @property
    def simulated(self) -> bool:
        """Whether something else answers in the place of models."""
        return self.simulation is not None

    @property
    def model(self) -> str:
        """The name of the model of the agent that this is about."""
        root: Any = getattr(self.invocation.agent, "root_agent", None)
        agent = root.find_agent(self.agent_name) if root is not None else None
        return str(getattr(getattr(agent, "canonical_model", None), "model", ""))

    @property
    def node(self) -> Node | None:
        """The node that the agent at hand was compiled from; `None` for an agent of ADK's own."""
        return node_of(self.invocation.agent)

    @property
    def tree(self) -> Node | None:
        """The tree that runs, from its root, with the names that its agents run under."""
        return node_of(runs.root_of(self.invocation))

    @property
    def branch(self) -> str | None:
        """The branch of the conversation."""
        return self.invocation.branch

    @property
    def run_id(self) -> str:
        """The run that everything here belongs to, that of an agent inside a tool included."""
        return runs.outermost(self.invocation).invocation_id

    @property
    def pipeline(self) -> str:
        """The name of the expression that runs."""
        if self._pipeline is None:
            self._pipeline = pipeline_at(self.invocation)
        return self._pipeline

    @property
    def step(self) -> Step:
        """What is known of the step at hand."""
        return step_at(self.invocation)

    @property
    def counts_tokens(self) -> bool:
        """Whether ADK itself measures the tokens of model calls."""
        return private.counts_tokens()

    def values(self, scope: Scope) -> runs.Values:
        """What is kept for the run, or what is around it."""
        return runs.values(self.invocation, scope)

    def place_of(self, middleware: object) -> Hashable:
        """Where a middleware stands in the app, and the names of the agents that it acts on.

        It is the same in every request that puts equal middleware into equal pipelines.
        """
        plugin = self._plugin
        return None if plugin is None else plugin.place_of(middleware)

    def stored_events(self, middleware: object) -> Iterable[Event]:
        """The stored events of the session that no rewind annulled, of the agents a middleware acts on."""
        if (plugin := self._plugin) is None:
            return ()
        events = runs.outermost(self.invocation).session.events
        return [event for event in live(events) if plugin.acts_on(middleware, event.author)]

    @property
    def _plugin(self) -> Any:
        return runs.outermost(self.invocation).plugin_manager.get_plugin(PLUGIN)

    async def store(self) -> None:
        """Store what was written where ADK has no event to carry it: around runs and events."""
        if delta := dict(self._delta):
            self._delta.clear()
            check_storable(delta, "A middleware wrote")
            ctx = self.invocation
            event = Event(
                invocation_id=ctx.invocation_id,
                author="user",  # ADK looks for the agent to go on with among the other authors
                branch=ctx.branch,
                actions=EventActions(state_delta=delta),
            )
            await ctx.session_service.append_event(session=ctx.session, event=event)

    async def keep(self) -> None:
        """Store what was written for a call that failed, since ADK drops the event that would carry it."""
        if self.operation is None and not isinstance(self.native, InvocationContext):
            self._delta.update(private.written(self.native))
            await self.store()


class HelperContext(CallbackContext):
    """The context of a question to a helper model.

    Attributes:
        operation: what it is asked for.
        written: what hooks write meanwhile, which has no event of its own yet.
        is_object: whether it asks an object of the user's, which no backend puts a model in the place of.
    """

    def __init__(self, ctx: InvocationContext, operation: str, *, is_object: bool = False) -> None:
        self.is_object: bool = is_object
        self.written: EventActions = EventActions()
        super().__init__(ctx, event_actions=self.written)
        self.operation: str = operation
