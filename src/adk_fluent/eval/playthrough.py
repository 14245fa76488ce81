"""One case played once: the conversation on our runner, and what it did."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from google.adk.agents.callback_context import CallbackContext
from google.adk.evaluation.app_details import AgentDetails, AppDetails
from google.adk.evaluation.eval_case import EvalCase, Invocation, InvocationEvents
from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulatorConfig
from google.adk.evaluation.simulation.user_simulator import NextUserMessage, Status
from google.adk.evaluation.simulation.user_simulator_provider import UserSimulatorProvider
from google.adk.events.event import Event
from google.adk.models import LLMRegistry
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types
from google.genai.types import GenerateContentConfig

from adk_fluent import _real_models
from adk_fluent.backends.adk.api import ADKBackend, Compiled, Services, approvals, knowingly
from adk_fluent.backends.events import AgentEvent, Usage, uncaught
from adk_fluent.backends.recent import Recent
from adk_fluent.errors import EvalError, MissingExtraError, RealModelError, install, no_answer, what_happened
from adk_fluent.eval.adk_sets import USER, thinks, without_thoughts
from adk_fluent.eval.tool_mocks import ToolMocks
from adk_fluent.ir.base import walk
from adk_fluent.ir.graph import Named

if TYPE_CHECKING:
    from adk_fluent.eval.simulation import UserSimulation


@dataclass(frozen=True)
class Played:
    """What a conversation did.

    Attributes:
        session_id: the session it was played in.
        invocations: its turns as ADK's evaluators take them, without the thoughts of the agents.
        thinking: the numbers of the turns, from 0, in whose answers there were thoughts.
        seconds: how long each turn took.
        state: the state at the end, without what is absent.
        after: agent → the state right after its last words; one that said nothing is not there.
        usage: agent and model → the tokens used.
        error: what ended it early, in one line.
        content: whether a simulated user ended it, which it does when it has what it wants.
        waiting: the approvals for which its last turn waits, one line each.
    """

    session_id: str
    invocations: Sequence[Invocation] = ()
    thinking: Collection[int] = ()
    seconds: Sequence[float] = ()
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    after: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, "Mapping[str, Any]"])
    usage: Mapping[tuple[str, str], Usage] = field(default_factory=dict[tuple[str, str], Usage])
    error: str | None = None
    content: bool = False
    waiting: tuple[str, ...] = ()


async def play(
    backend: ADKBackend,
    compiled: Compiled,
    case: EvalCase,
    user: SimulatedUser,
    *,
    services: Services,
    session_id: str,
    mocks: Mapping[str, object],
    watched: Sequence[str] = (),
) -> Played:
    """Play a case; what fails ends it and is told in the result.

    Args:
        services: where its session and all else is kept.
        user: who speaks for the user.
        session_id: the id of the session.
        mocks: tool → what its calls give; see `ToolMocks`.
        watched: the agents after which the state is wanted.
    """
    requests = _Requests()
    # the mocks come first, so that the plugin of the middleware finds them where the tools would be
    answers = [_approvals_in(turn.user_content) for turn in case.conversation or ()]
    tools = ToolMocks(mocks, lambda: sum(answers[len(log.turns) :]))
    plugins = [*([tools] if mocks else []), requests, *compiled.app.plugins]
    app = compiled.app.model_copy(update={"plugins": plugins})
    scene = replace(compiled, app=app, _runners=Recent())
    kept = {field.name: getattr(services, field.name) for field in fields(services)}
    state = dict(case.session_input.state) if case.session_input else {}
    log = _Log(compiled.named, state, watched)
    error: str | None = None
    content = False
    try:
        async for said in _messages(user, log):
            if said is None:
                content = True
                break
            said, stray = approvals.addressed(said, log.native)
            if stray is not None:
                raise EvalError(_STRAY.format(len(log.turns) + 1, stray))
            log.starts(said)
            tools.next_turn()
            where: dict[str, Any] = {"services": kept, "user_id": USER, "session_id": session_id}
            if given := approvals.approvals_of(said):
                events = backend.resume(scene, approvals=given, **where)
            else:
                events = backend.stream(scene, said, streaming=False, state=state, **where)
            state = {}
            async with aclosing(events) as heard:
                async for event in heard:
                    log.hears(event)
            log.ends()
            if (failed := uncaught(log.turn)) is not None:
                error = no_answer(
                    compiled.named.origins.get(failed.author, failed.author), failed.error or ""
                )
                break
    except MissingExtraError:
        raise
    except EvalError as wrong:
        error = str(wrong)
    except Exception as raised:  # noqa: BLE001  # whatever a case raises is its result, and the others go on
        error = what_happened(raised)
    turns = log.invocations(requests.details)
    return Played(
        session_id,
        invocations=[*map(_thoughtless, turns)],
        thinking=frozenset(number for number, turn in enumerate(turns) if thinks(turn.final_response)),
        seconds=tuple(log.seconds),
        state=log.state,
        after=log.after,
        usage=log.usage,
        error=error,
        content=content,
        waiting=tuple(
            f"{one.agent!r} waits for approval: {one.message}"
            for event in (log.turns[-1] if log.turns else ())
            for one in approvals.pending_in(event)
        ),
    )


async def _messages(user: SimulatedUser, log: _Log) -> AsyncIterator[types.Content | None]:
    """Yield what the user says, turn by turn, having heard the log so far; `None` when it is content.

    Raises:
        MissingExtraError: the one who plays the user needs what is not installed.
    """
    while True:
        try:
            message = await user.get_next_user_message(log.native)
        except ImportError as error:
            raise MissingExtraError(
                f"A simulated user needs {error.name}, which is missing: {install('eval')}."
            ) from error
        if message.status == Status.STOP_SIGNAL_DETECTED:
            yield None
        if message.status != Status.SUCCESS or message.user_message is None:
            return
        yield message.user_message


_STRAY: Final = (
    "Turn {} answers {!r}, which this run has not asked before. Of a run that paused, ADK's web page keeps "
    "the last message alone: put the one that began it before it."
)


def _approvals_in(said: types.Content) -> int:
    """How many answers to confirmations there are in a message."""
    given = (part.function_response for part in said.parts or ())
    return sum(one is not None and one.name == approvals.CONFIRMATION for one in given)


class _Log:
    """What is heard in a conversation."""

    def __init__(self, named: Named, state: Mapping[str, Any], watched: Sequence[str]) -> None:
        self.turns: list[list[Event]] = []
        self.turn: list[AgentEvent] = []
        self.seconds: list[float] = []
        self.after: dict[str, dict[str, Any]] = {}
        self.usage: dict[tuple[str, str], Usage] = {}
        self._state = dict(state)
        self._watched = {name: set(_speakers(named, name)) for name in watched}
        self._said: list[types.Content] = []
        self._since = 0.0

    @property
    def native(self) -> list[Event]:
        """All events so far."""
        return [event for turn in self.turns for event in turn]

    @property
    def state(self) -> dict[str, Any]:
        """The state now, without what is absent."""
        return {key: value for key, value in self._state.items() if value is not None}

    def starts(self, said: types.Content) -> None:
        """A turn begins."""
        self.turn, self._since = [], time.perf_counter()
        self.turns.append([])
        self._said.append(said)

    def ends(self) -> None:
        """A turn is over."""
        self.seconds.append(time.perf_counter() - self._since)

    def hears(self, event: AgentEvent) -> None:
        """Something happened."""
        native = event.raw
        if native is None:
            return
        if not self.turn:
            said = Event(author="user", content=self._said[-1], invocation_id=native.invocation_id)
            self.turns[-1].append(said)
        self.turn.append(event)
        self.turns[-1].append(native)
        self._state |= event.state_delta
        for name, speakers in self._watched.items():
            if event.author in speakers:
                self.after[name] = self.state
        if event.usage is not None:
            key = event.author, event.model or ""
            self.usage[key] = self.usage.get(key, Usage()) + event.usage

    def invocations(self, details: Mapping[str, AppDetails]) -> list[Invocation]:
        """The turns as ADK's evaluators take them: one for each message, also where a run goes on."""
        made = [_invocation(said, turn, details) for said, turn in zip(self._said, self.turns, strict=True)]
        for turn, seconds in zip(made, self.seconds, strict=False):
            if "duration" in Invocation.model_fields:  # since ADK 2
                setattr(turn, "duration", round(seconds, 3))  # noqa: B010  # older releases have no such field
        return made


def _invocation(
    said: types.Content, events: Sequence[Event], details: Mapping[str, AppDetails]
) -> Invocation:
    if not events:
        return Invocation(user_content=said)
    same = [event.model_copy(update={"invocation_id": events[0].invocation_id}) for event in events]
    (made,) = EvaluationGenerator.convert_events_to_eval_invocations(same, dict(details))
    return made


def _thoughtless(turn: Invocation) -> Invocation:
    """A turn without the thoughts of agents, which ADK's evaluators and those who judge take for answers."""
    data, answer = turn.intermediate_data, without_thoughts(turn.final_response)
    if isinstance(data, InvocationEvents):
        events = [
            event.model_copy(update={"content": without_thoughts(event.content)})
            for event in data.invocation_events
        ]
        data = InvocationEvents(invocation_events=events)
    return turn.model_copy(update={"final_response": answer, "intermediate_data": data})


def _speakers(named: Named, name: str) -> Iterator[str]:
    """The names under which a step, or whoever is in it, may speak."""
    for node in walk(named.root):
        if node.name == name or named.origins.get(node.name) == name:
            yield from (inside.name for inside in walk(node))


class _Requests(BasePlugin):
    """Keeps what agents are told and which tools they have, which some of ADK's judges look at."""

    def __init__(self) -> None:
        super().__init__(name="adk_fluent_eval_requests")
        self.details: dict[str, AppDetails] = {}

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Note the request of an agent."""
        of_turn = self.details.setdefault(callback_context.invocation_id, AppDetails())
        name, config = callback_context.agent_name, cast(Any, llm_request.config)
        told: object = config.system_instruction
        of_turn.agent_details[name] = AgentDetails(
            name=name,
            instructions=told if isinstance(told, str) else str(told or ""),
            tool_declarations=list(llm_request.config.tools or ()),
        )


# --- models outside of the pipeline: the simulated user, and the judges of metrics -----------------


class SimulatedUser(Protocol):
    """Speaks for the user of a case, as ADK's `UserSimulator` does."""

    async def get_next_user_message(self, events: list[Event]) -> NextUserMessage:
        """The next message of the user, after these events."""
        ...


def user_of(case: EvalCase, simulation: UserSimulation | None) -> SimulatedUser:
    """The user of a case: what the case says, or a model that plays it."""
    with knowingly():
        if simulation is None:
            return UserSimulatorProvider().provide(case)
        user = UserSimulatorProvider(simulator_config(simulation)).provide(case)
        return _Guarded(user, simulation.model)


class _Guarded:
    """A simulated user that asks no real model where that is forbidden."""

    def __init__(self, inner: SimulatedUser, model: str) -> None:
        self._inner, self._model = inner, model

    async def get_next_user_message(self, events: list[Event]) -> NextUserMessage:
        """The next message; the case itself says the first.

        Raises:
            RealModelError: a test would ask a real model.
        """
        refused = refusal("The simulated user", self._model, "Script the turns of the case")
        if events and refused is not None:
            raise refused
        return await self._inner.get_next_user_message(events)


def refusal(who: str, model: str, remedy: str) -> RealModelError | None:
    """Why the model of this name must not be asked; `None` if it may be, or if ADK knows no such model.

    Args:
        who: who would ask it.
        remedy: what to do instead.
    """
    try:
        cls = LLMRegistry.resolve(model)
    except (ImportError, ValueError):  # ADK says what is missing when it is asked
        return None
    return _real_models.refusal(who, model, remedy) if _real_models.forbids_class(cls) else None


def simulator_config(simulation: UserSimulation) -> LlmBackedUserSimulatorConfig:
    """How ADK's simulator plays a user."""
    return LlmBackedUserSimulatorConfig(
        model=simulation.model,
        # ADK's own default asks for thoughts, which not every model gives
        model_configuration=GenerateContentConfig(),
        max_allowed_invocations=simulation.max_turns,
    )
