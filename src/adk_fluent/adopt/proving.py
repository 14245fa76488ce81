"""Runs what ADK alone made and its expression with the same script, and compares what they do."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from adk_fluent.errors import what_happened
from adk_fluent.expr.base import Expr

T = TypeVar("T")


async def run_alike(
    native: object,
    expression: Expr[Any],
    prompt: str = "Hello.",
    answers: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    *,
    tools: Literal["real", "recorded"] = "real",
    left_out: list[str] | None = None,
    artifacts: Iterable[str] = (),
) -> list[str]:
    """Where the two differ in events, state or what models are asked, in a line each; none if they run alike.

    No model is asked: scripted ones answer on both sides. The native one runs twice, and what it writes
    differently each time, such as the time, is not compared.

    Args:
        native: an agent, a workflow or an app of ADK's.
        answers: agent → what it answers, as for `MockBackend`; what is not here is made up.
        state: what is in the session's state before.
        tools: what a call of a tool does: what the user's code does, or nothing but being recorded, and
            compared, too.
        left_out: gets a line for each thing that was not compared, as two native runs differ in it.
        artifacts: the names of files that exist on both sides before, each with a text that is made up.

    Raises:
        Exception: whatever both raise; the native one's.
    """
    from adk_fluent.adopt import run_comparison, tool_stubs
    from adk_fluent.backends.mock import MockBackend
    from adk_fluent.backends.stand_ins import in_form

    script, before = dict(answers or {}), dict(state or {})
    otherwise = in_form("an agent", "An answer.")
    kind = tool_stubs.StandingBackend if tools == "recorded" else MockBackend

    def scripted() -> MockBackend:
        files = run_comparison.ProvidedArtifacts(provided=tuple(artifacts))
        return kind(script, default=otherwise, artifact_service=files)

    async def mine() -> run_comparison.Played:
        backend = scripted()
        return await run_comparison.played(native, backend, prompt, before)

    async def theirs() -> run_comparison.Played:
        backend = scripted()
        with run_comparison.restoring(backend):
            result = await expression.run(prompt, backend=backend, state=before)
        return run_comparison.of(result, backend, result.state)

    one, again, other = [await _tried(run()) for run in (mine, mine, theirs)]
    if isinstance(one, Exception) and isinstance(other, Exception):
        raise one
    if isinstance(one, Exception) or isinstance(again, Exception) or isinstance(other, Exception):
        fails = [run for run in (one, again, other) if isinstance(run, Exception)]
        side = "the expression" if fails == [other] else "what ADK made"
        return [f"only {side} fails: {what_happened(fails[0])}"]
    if left_out is not None:
        left_out += run_comparison.varying(one, again)
    return run_comparison.differences(*run_comparison.steady(one, again, other))


async def _tried(run: Awaitable[T]) -> T | Exception:
    """What a run gives, or raises: the user's own functions run in it."""
    try:
        return await run
    except Exception as error:  # noqa: BLE001  # it is compared
        return error
