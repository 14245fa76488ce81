"""Models outside of the pipeline: the simulated user of a case, and the judges of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from google.adk.evaluation.eval_case import EvalCase
from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulatorConfig
from google.adk.evaluation.simulation.user_simulator import NextUserMessage
from google.adk.evaluation.simulation.user_simulator_provider import UserSimulatorProvider
from google.adk.events.event import Event
from google.adk.models import LLMRegistry
from google.genai.types import GenerateContentConfig

from adk_fluent import _real_models
from adk_fluent.backends.adk.api import knowingly
from adk_fluent.errors import RealModelError

if TYPE_CHECKING:
    from adk_fluent.eval.simulation import UserSimulation


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
