"""Runs what ADK alone made and its expression with the same script, and compares what they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adk_fluent.expr.base import Expr


async def run_alike(
    native: object,
    expression: Expr[Any],
    prompt: str = "Hello.",
    answers: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
) -> list[str]:
    """Where the two differ in events, state or what models are asked, in a line each; none if they run alike.

    No model is asked: scripted ones answer on both sides. The native one runs twice, and what it writes
    differently each time, such as the time, is not compared.

    Args:
        native: an agent, a workflow or an app of ADK's.
        answers: agent → what it answers, as for `MockBackend`; what is not here is made up.
        state: what is in the session's state before.
    """
    from adk_fluent.backends.adk.running import proving
    from adk_fluent.backends.mock import MockBackend

    script, before = dict(answers or {}), dict(state or {})
    first, second, here = (MockBackend(script, default="An answer.") for _ in range(3))
    mine = await proving.played(native, first, prompt, before)
    again = await proving.played(native, second, prompt, before)
    result = await expression.run(prompt, backend=here, state=before)
    other = proving.of(result, here, result.state)
    unstable = proving.changing(mine, again)
    return proving.differences(mine.without(unstable), other.without(unstable))
