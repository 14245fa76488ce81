"""Helper-model calls that rewrite an agent's instruction (`P.compress`, `P.adapt`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from adk_fluent.context.helper_requests import ExpectedRequest
from adk_fluent.cost.requests import of_instruction
from adk_fluent.cost.traffic import TrafficAssumptions
from adk_fluent.ir.nodes import AgentNode
from adk_fluent.prompt.spec import PromptSpec, Rewrite, When
from adk_fluent.prompt.text import CHARACTERS_PER_TOKEN, question_for


class Rewritten(NamedTuple):
    """A part of an instruction that a helper model rewrites.

    Attributes:
        question: the call of the helper model.
        anew: True if it is called in every run; a constant text is rewritten once and cached.
        shorter: the number of tokens by which the part becomes shorter.
    """

    question: ExpectedRequest
    anew: bool
    shorter: float


def rewritten(
    node: AgentNode, size: Callable[[str], float], traffic: TrafficAssumptions
) -> Iterator[Rewritten]:
    """The parts of an agent's instruction that a helper model rewrites (`P.compress`, `P.adapt`).

    Args:
        size: function that returns the tokens of a state value.
    """
    instruction = node.given.get("instruction")
    if not isinstance(instruction, PromptSpec) or not instruction.needs_model:
        return
    for part in _rewrites(instruction):
        keys: list[str] = []
        characters = of_instruction(part.source, keys)
        tokens = characters / traffic.characters_per_token + sum(map(size, keys))
        asked = question_for(part, "x" * int(tokens * CHARACTERS_PER_TOKEN))
        if asked is None:  # the text is short enough already
            continue
        usual = tokens if part.operation == "adapt" else traffic.avg_output_tokens
        answer = usual if part.max_tokens is None else min(tokens, part.max_tokens)
        question = ExpectedRequest(
            f"P.{part.operation}", part.model, len(asked) / CHARACTERS_PER_TOKEN, answer
        )
        yield Rewritten(question, bool(keys) or not part.source.static, tokens - answer)


def _rewrites(prompt: PromptSpec) -> Iterator[Rewrite]:
    for part in prompt.parts:
        if isinstance(part, Rewrite):
            yield part
        elif isinstance(part, When):
            yield from _rewrites(part.then)
