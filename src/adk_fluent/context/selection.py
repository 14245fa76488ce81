"""Evaluating a context spec: from a conversation to what an agent sees of it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from adk_fluent.context.entries import CountTokens, Entry, Scene, estimate_tokens, keep_pairs, split
from adk_fluent.context.model_operations import ASKING, Answer, Step
from adk_fluent.context.operations import EVENTS, EVERYTHING, Entries, on_events, redact
from adk_fluent.context.rendering import TEMPLATE, show, text
from adk_fluent.context.spec import NEUTRAL, SHOWN, Context
from adk_fluent.errors import ContextError, MissingKeyError
from adk_fluent.ir.functions import function_name
from adk_fluent.ir.matching import at_once, lost
from adk_fluent.ir.template import Placeholder, render


@dataclass(frozen=True, slots=True)
class Selection:
    """What an agent sees.

    Attributes:
        entries: what is selected, values of the state first, then the conversation in order.
        pinned: what is sent whatever the spec says; see `split`.
        untouched: whether the conversation is seen as it is, so that ADK can assemble it.
        writes: state keys that the selection itself writes (`C.extract`, `C.distill`).
    """

    entries: Entries = ()
    pinned: Entries = ()
    untouched: bool = False
    writes: tuple[tuple[str, Any], ...] = ()

    @property
    def shown(self) -> Entries:
        """The values shown beside the conversation."""
        return tuple(entry for entry in self.entries if entry.kind == "state")

    @property
    def conversation(self) -> Entries:
        """What is selected of the conversation."""
        return tuple(entry for entry in self.entries if entry.kind != "state")


Selecting = Generator[Step, Answer, Selection]

_DEFAULT = Context("default")


def select(
    spec: Context,
    entries: Iterable[Entry],
    *,
    agent: str = "",
    now: float = 0.0,
    count_tokens: CountTokens = estimate_tokens,
    state: Mapping[str, Any] | None = None,
) -> Selection:
    """What `agent` sees of a conversation, where no helper model can be asked.

    Operations that would ask one leave the selection as it is.

    Args:
        agent: the name that the agent's own entries have as their author.
        now: seconds since the epoch, for `C.fresh`.

    Raises:
        ContextError: a `C.validate` or a strict `C.budget` refuses it.
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
) -> Scene:
    """The conversation as specs are evaluated on it."""
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
    )


def selecting(spec: Context, scene: Scene) -> Selecting:
    """Evaluate a spec; yields each question to a helper model and is sent the answer."""
    resolved = spec.resolved(scene.state, scene.agent) or _DEFAULT
    given = Selection(scene.history, scene.pinned, untouched=True)
    if not resolved.is_selection:
        given = yield from _apply(_DEFAULT, given, scene)
    chosen = yield from _apply(resolved, given, scene)
    return replace(
        chosen,
        entries=tuple(sorted(chosen.entries, key=_order)),
        untouched=chosen.untouched and chosen.pinned == scene.pinned,
    )


def _order(entry: Entry) -> tuple[bool, int]:
    return entry.kind != "state", 0 if entry.kind == "state" else entry.index


def _apply(spec: Context, given: Selection, scene: Scene) -> Selecting:
    match spec.op:
        case "pipe":
            return (yield from _pipe(spec.parts, given, scene))
        case "sum":
            return (yield from _sum(spec.parts, given, scene))
        case "validate":
            _validate(spec.param["checks"], given, scene)
            return given
        case "write_notes":
            return given
        case op if op in SHOWN:
            return replace(given, entries=_shown(spec, scene), untouched=False)
        case _:
            return (yield from _filter(spec, given, scene))


def _pipe(parts: tuple[Context, ...], given: Selection, scene: Scene) -> Selecting:
    first, *others = parts
    given = yield from _apply(first, given, scene)
    for part in others:
        if part.op in SHOWN:  # it selects nothing of what it is given, so it only adds what it shows
            given = replace(given, entries=given.entries + _shown(part, scene))
        else:
            given = yield from _apply(part, given, scene)
    return given


def _sum(parts: tuple[Context, ...], given: Selection, scene: Scene) -> Selecting:
    sources = [part for part in parts if part.is_selection]
    if sources:
        chosen = replace(given, entries=(), untouched=False)
        for part in sources:
            found = yield from _apply(part, replace(given, pinned=chosen.pinned), scene)
            chosen = replace(
                found,
                entries=_union(chosen.entries, found.entries),
                untouched=chosen.untouched or found.untouched,
                writes=chosen.writes + found.writes,
            )
        given = chosen
    for part in parts:
        if not part.is_selection:
            given = yield from _apply(part, given, scene)
    return given


def _union(first: Entries, second: Entries) -> Entries:
    """Both, each entry once; of two versions of one entry the first stays."""
    have = {_identity(entry) for entry in first}
    return first + tuple(entry for entry in second if _identity(entry) not in have)


def _identity(entry: Entry) -> tuple[str, int | str]:
    return entry.kind, entry.index if entry.kind == "event" else f"{entry.author}: {entry.text}"


def _filter(spec: Context, given: Selection, scene: Scene) -> Selecting:
    params = dict(spec.params)
    name = spec.op
    if name == "budget" and params.pop("overflow") == "summarize":
        name = "budget_by_summary"
    elif name == "budget":
        params = {**params, "overflow": spec.param["overflow"]}
        params.pop("model")
    writes = given.writes
    if name in EVENTS:
        entries = on_events(EVENTS[name], given.entries, scene, **params)
    elif name in EVERYTHING:
        entries = EVERYTHING[name](given.entries, scene, **params)
    else:
        entries, written = yield from ASKING[name](given.entries, scene, **params)
        writes += written
    if name not in PARTIAL:
        entries = keep_pairs(given.entries, entries)
    return Selection(
        entries,
        _redacted(given.pinned, scene, params) if name == "redact" else given.pinned,
        untouched=given.untouched and (name == "default" or name in NEUTRAL),
        writes=writes,
    )


PARTIAL = frozenset({"select", "project"})
"""Operations that may ask for tool calls without their results, or the reverse."""


def _redacted(pinned: Entries, scene: Scene, params: Mapping[str, Any]) -> Entries:
    # The agent's own calls stay as its model made them: providers check them against their signatures.
    clean = redact(pinned, scene, **params)
    return tuple(
        replace(new, function_calls=old.function_calls) for new, old in zip(clean, pinned, strict=True)
    )


def _shown(spec: Context, scene: Scene) -> Entries:
    if spec.op == "template":
        return (Entry(kind="state", author=TEMPLATE, text=_rendered(spec.param["text"], scene)),)
    keys: tuple[str, ...] = spec.param["keys"]
    values = ((key, scene.state.get(key)) for key in keys)
    return tuple(
        Entry(kind="state", author=key, text=show(value)) for key, value in values if value is not None
    )


def _rendered(template: str, scene: Scene) -> str:
    def value(placeholder: Placeholder) -> str:
        found = scene.state.get(placeholder.key)
        if found is None and not placeholder.optional:
            raise MissingKeyError(
                f"Agent {scene.agent!r} needs state key {placeholder.key!r} for its C.template, and it is "
                "not set."
                + (
                    lost(scene.state, placeholder.key)
                    or f" Write it before, or write {{{placeholder.key}?}} if it may be missing."
                )
            )
        return "" if found is None else str(found)

    return render(template, value)


def _validate(checks: tuple[Any, ...], given: Selection, scene: Scene) -> None:
    message = tuple(entry for entry in given.pinned if entry.is_user_message)
    seen = text((*given.entries, *message))
    for check in checks:
        name = function_name(check, "<lambda>")
        if not at_once(check(seen), f"{scene.agent!r}: its check {name!r} in C.validate", "C.validate"):
            raise ContextError(
                f"Agent {scene.agent!r}: C.validate({name}) refuses its context, so its model is not called."
            )
