"""Types of `P`; pyright checks this file in strict mode, and it runs once."""

from __future__ import annotations

from typing import assert_type

from adk_fluent import Agent, P
from adk_fluent.prompt import Arrangement, PromptSpec


def test_composition_keeps_its_types() -> None:
    """Factories give prompts or arrangements, `+` and `|` give prompts, and agents take them."""
    prompt = P.role("r") + P.when("vip", P.task("t")) + P.from_state("x")
    assert_type(prompt, PromptSpec)
    assert_type(P.only("task"), Arrangement)
    assert_type(prompt | P.only("task"), PromptSpec)
    assert_type(P.scaffolded(prompt), PromptSpec)
    assert_type(Agent("a").instruct(prompt), Agent[str])
    assert assert_type(prompt.render({}), str) == "r"
