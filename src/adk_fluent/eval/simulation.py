"""`UserSimulation`: a model that plays the user."""

from __future__ import annotations

from dataclasses import dataclass

from adk_fluent.errors import EvalError


@dataclass(frozen=True)
class UserSimulation:
    """A model that plays the user, for cases that are conversations of unknown length.

    ADK's simulator starts with the input of the case and goes on until the model thinks the plan fulfilled.

    Args:
        model: the name of the model that plays the user.
        persona: who the user is, and how they write.
        success_criteria: what the user wants; when it is reached, the conversation ends.
        stop_signal: what a message of the user must hold to end the conversation, as the metric
            `per_turn_user_simulator_quality_v1` sees it; ADK's simulator itself always says `</finished>`.
        max_turns: how many messages the user writes at most, the first included.
        starting_prompt: what the user writes first, where a suite has no cases of its own.

    Raises:
        EvalError: `max_turns` is no positive number, or a text is none.
    """

    model: str = "gemini-2.5-flash"
    persona: str = ""
    success_criteria: str = ""
    stop_signal: str = "</finished>"
    max_turns: int = 20
    starting_prompt: str = "Hello."

    def __post_init__(self) -> None:
        for name in ("model", "persona", "success_criteria", "stop_signal", "starting_prompt"):
            if not isinstance(value := getattr(self, name), str):
                raise EvalError(f"UserSimulation({name}=) takes text, not {value!r:.40}.")
        if type(self.max_turns) is not int or self.max_turns < 1:
            raise EvalError(f"UserSimulation(max_turns=) takes a positive number, not {self.max_turns!r}.")

    @property
    def plan(self) -> str:
        """What the model is told to play."""
        goal = f"Your goal: {self.success_criteria}" if self.success_criteria else ""
        who = f"Who you are: {self.persona}" if self.persona else ""
        return "\n".join(filter(None, (who, goal))) or "Talk with the agent until it has helped you."
