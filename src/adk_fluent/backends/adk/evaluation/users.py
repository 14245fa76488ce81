"""Who speaks for the user of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.adk.evaluation.eval_case import EvalCase
from google.adk.evaluation.simulation.llm_backed_user_simulator import LlmBackedUserSimulatorConfig
from google.adk.evaluation.simulation.user_simulator import UserSimulator
from google.adk.evaluation.simulation.user_simulator_provider import UserSimulatorProvider
from google.genai.types import GenerateContentConfig

from adk_fluent.backends.adk.running.convert import knowingly

if TYPE_CHECKING:
    from adk_fluent.eval.simulation import UserSimulation


def user_of(case: EvalCase, simulation: UserSimulation | None) -> UserSimulator:
    """The user of a case: what the case says, or a model that plays it."""
    with knowingly():
        if simulation is None:
            return UserSimulatorProvider().provide(case)
        return UserSimulatorProvider(simulator_config(simulation)).provide(case)


def simulator_config(simulation: UserSimulation) -> LlmBackedUserSimulatorConfig:
    """How ADK's simulator plays a user."""
    return LlmBackedUserSimulatorConfig(
        model=simulation.model,
        # ADK's own default asks for thoughts, which not every model gives
        model_configuration=GenerateContentConfig(),
        max_allowed_invocations=simulation.max_turns,
    )
