"""What an estimate takes for granted: how much is asked, how long answers are, and which way runs go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, Final, cast

from adk_fluent.errors import ArgumentError
from adk_fluent.spelling import did_you_mean

Numbers = float | Mapping[str, float] | None
"""A number for all, numbers by name, or `None` for what is usual."""


@dataclass(frozen=True, kw_only=True)
class TrafficAssumptions:
    """How a pipeline is used; what is not said is what is usual, and the estimate lists it.

    Attributes:
        invocations_per_day: user messages that are answered per day.
        avg_input_tokens: tokens of a user's message.
        avg_output_tokens: tokens of an answer, thoughts included; an agent whose answer a route compares with
            labels gives a label, and none gives more than its own `max_output_tokens`.
        branch_probabilities: how likely a branch of a route, a delegate, or a conditional transfer is taken:
            by the name of an agent, or by the value that a route compares with; of an agent in a tool, which
            share of its caller's calls of tools it gets. What is left is shared by those not named.
        output_tokens: agent → tokens of its answers, where they differ.
        loop_iterations: how many rounds loops take, or loop → rounds; by default 2, and where nothing can end
            a loop earlier, all.
        map_items: how many items maps have, or map, or its list's key, → items; by default 3.
        tool_calls: how often an agent with tools calls one per answer, or agent → calls; by default once.
        tool_result_tokens: tokens of what a tool gives back.
        key_tokens: tokens of a state value that no agent here writes, or key → tokens.
        fallback_rate: how likely what stands before a `//` fails.
        wrong_answer_rate: how likely an answer is not of the type that its agent returns; then the agent is
            asked again, as often as its `returns(retries=)` allows.
        retries: how many more attempts a model call takes on average; each is billed like the first.
        turns_per_session: user messages per session; each sees those before it, and what was answered.
        characters_per_token: of instructions and descriptions, which are counted.
        tokens_per_message: what a provider adds to each message of a request.
        quote_tokens: what stands around another agent's words; by default what the installed ADK puts there.

    Raises:
        ArgumentError: a number is negative, a probability above 1, or something is no number.
    """

    invocations_per_day: float = 1_000
    avg_input_tokens: float = 500
    avg_output_tokens: float = 200
    branch_probabilities: Mapping[str, float] = field(default_factory=dict[str, float])
    output_tokens: Mapping[str, float] = field(default_factory=dict[str, float])
    loop_iterations: Numbers = None
    map_items: Numbers = None
    tool_calls: Numbers = None
    tool_result_tokens: float = 100
    key_tokens: float | Mapping[str, float] = 50
    fallback_rate: float = 0.05
    wrong_answer_rate: float = 0.05
    retries: float = 0
    turns_per_session: float = 1
    characters_per_token: float = 4
    tokens_per_message: float = 4
    quote_tokens: float | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value: object = getattr(self, one.name)
            if isinstance(value, Mapping):
                for name, number in cast("Mapping[str, object]", value).items():
                    _check(number, f"{one.name}={{{name!r}: …}}", most=_MOST.get(one.name))
            elif one.name in _BY_NAME:
                raise ArgumentError(f"{one.name}= takes numbers by name, not {value!r:.40}.")
            elif value is not None or one.default is not None:
                _check(value, f"{one.name}=", least=_LEAST.get(one.name, 0.0), most=_MOST.get(one.name))

    def check_names(self, known: Mapping[str, Iterable[str]]) -> None:
        """Refuse names that mean nothing in a pipeline.

        Args:
            known: field → the names that it may use.

        Raises:
            ArgumentError: one is not among them; the message has the nearest.
        """
        for where, names in known.items():
            given: Any = getattr(self, where)
            allowed = list(names)
            for name in cast("Iterable[str]", given) if isinstance(given, Mapping) else ():
                if name not in allowed:
                    there = did_you_mean(str(name), allowed) or f" There is {', '.join(allowed) or 'none'}."
                    raise ArgumentError(
                        f"{where}= names {name!r}, and there is no such {_KINDS[where]}.{there}"
                    )


_LEAST: Final = {"turns_per_session": 1.0, "characters_per_token": 0.1}
_MOST: Final = {"branch_probabilities": 1.0, "fallback_rate": 1.0, "wrong_answer_rate": 1.0}
_BY_NAME: Final = ("branch_probabilities", "output_tokens")
_KINDS: Final = {
    "branch_probabilities": "branch",
    "output_tokens": "agent",
    "loop_iterations": "loop",
    "map_items": "map or list key",
    "tool_calls": "agent with tools",
}


def _check(value: object, where: str, *, least: float = 0.0, most: float | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ArgumentError(f"{where} takes a number, not {value!r:.40}.")
    if value < least or (most is not None and value > most):
        span = f"from {least:g} up" if most is None else f"from {least:g} to {most:g}"
        raise ArgumentError(f"{where} takes a number {span}, not {value!r}.")
