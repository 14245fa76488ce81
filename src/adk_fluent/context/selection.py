"""Evaluation of a context spec: from a conversation to the selection that an agent sees.

This module imports all `C` operations, so it also holds the table of them, by which a stored spec is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from adk_fluent.context import composition, control, extraction, filters, model_operations, sources
from adk_fluent.context.entries import (
    CountTokens,
    Entry,
    Scene,
    Selecting,
    Selection,
    estimate_tokens,
    split,
)
from adk_fluent.context.spec import Context

__all__ = ["MODULES", "OPERATIONS", "Selecting", "Selection", "scene_of", "select", "selecting"]

_DEFAULT: Final = sources.DefaultContext()


def select(
    spec: Context,
    entries: Iterable[Entry],
    *,
    agent: str = "",
    now: float = 0.0,
    count_tokens: CountTokens = estimate_tokens,
    state: Mapping[str, Any] | None = None,
) -> Selection:
    """Select the part of a conversation that `agent` sees, without helper models.

    Operations that would ask a helper model leave the selection as it is.

    Args:
        agent: the author of the agent's own entries.
        now: the current time for `C.fresh`, in seconds since the epoch.

    Raises:
        ContextError: a check of `C.validate` fails, or the selection exceeds a strict `C.budget`.
    """
    steps = selecting(spec, scene_of(entries, agent=agent, now=now, count_tokens=count_tokens, state=state))
    try:
        next(steps)
        while True:
            steps.send(None)
    except StopIteration as done:
        return done.value


def scene_of(
    entries: Iterable[Entry],
    *,
    agent: str,
    now: float,
    count_tokens: CountTokens = estimate_tokens,
    state: Mapping[str, Any] | None = None,
    removed: Callable[[str], bool] = lambda key: False,
) -> Scene:
    """The input of a spec: the conversation, split in history and pinned entries, and its state."""
    listed = tuple(entries)
    history, pinned = split(listed, agent)
    turn = max((entry.turn for entry in listed), default=0)
    return Scene(
        history=history,
        pinned=pinned,
        turn=turn,
        agent=agent,
        now=now,
        state={} if state is None else state,
        count_tokens=count_tokens,
        removed=removed,
    )


def selecting(spec: Context, scene: Scene) -> Selecting:
    """Evaluate a spec: yield each request to a helper model, receive its answer, return the selection."""
    resolved = spec.resolved(scene.state, scene.agent) or _DEFAULT
    given = Selection(scene.history, scene.pinned, untouched=True)
    if not resolved.is_selection:
        given = yield from _DEFAULT.applied(given, scene)
    chosen = yield from resolved.applied(given, scene)
    return replace(
        chosen,
        entries=tuple(sorted(chosen.entries, key=_order)),
        untouched=chosen.untouched and chosen.pinned == scene.pinned,
    )


def _order(entry: Entry) -> tuple[bool, int]:
    return entry.kind != "state", 0 if entry.kind == "state" else entry.index


# --- all operations -------------------------------------------------------------------------------


def _operations_below(cls: type[Context]) -> Iterator[type[Context]]:
    for inner in cls.__subclasses__():
        if inner.op:
            yield inner
        yield from _operations_below(inner)


MODULES: Final = (sources, filters, model_operations, extraction, control, composition)
"""The modules that define operations; a stored graph finds a spec by its name only after their import."""

OPERATIONS: Final[Mapping[str, type[Context]]] = MappingProxyType(
    {cls.op: cls for cls in sorted(_operations_below(Context), key=lambda cls: cls.op)}
)
"""Name of an operation → its class."""
