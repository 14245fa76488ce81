"""How findings about state keys are worded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from adk_fluent.contracts.fact import ABSENT, STATUS, Fact, Why
from adk_fluent.contracts.plan import Step, branch_names
from adk_fluent.contracts.reads import Read, Via
from adk_fluent.ir.fields import StateFieldRef
from adk_fluent.ir.template import is_key

if TYPE_CHECKING:
    from adk_fluent.contracts.facts import Facts


def who_reads(read: Read) -> str:
    """`booker reads {intent} in its instruction`"""
    return _SUBJECTS[read.via].format(step=read.step.name, key=read.key)


_SUBJECTS: Final[Mapping[Via, str]] = {
    "template": "{step} reads {{{key}}} in instruction",
    "message": "{step} reads {{{key}}} in its message",
    "prompt": '{step} reads "{key}" in its prompt',
    "context": '{step} reads "{key}" through its context',
    "callback": 'a callback of {step} reads "{key}"',
    "tool": 'a tool of {step} reads "{key}"',
    "route": 'Route("{key}") ({step}) reads "{key}"',
    "until": 'until of {step} reads "{key}"',
    "predicate": 'the predicate of {step} reads "{key}"',
    "list": 'map_over("{key}") ({step}) reads "{key}"',
    "operation": '{step} reads "{key}"',
    "function": '{step} reads "{key}"',
    "remote": '{step} sends "{key}"',
    "artifact": '{step} reads "{key}"',
    "budget": '{step} chooses its model by "{key}"',
    "quality": '{step} chooses its model by "{key}"',
}


def listed(steps: Sequence[Step]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    names = list(dict.fromkeys(step.name for step in steps))
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


# --- never ----------------------------------------------------------------------------------------


def why_never(read: Read, facts: Facts) -> str:
    """Why a key is not there, and what to do."""
    key, step = read.key, read.step
    writers = [writer for writer in facts.writers.get(key, ()) if writer is not step]
    removed = cast(Fact, read.first).removed_by
    if removed is not None:
        return (
            f'{removed.name} removes "{key}" before {step.name} runs.\n'
            f"Read it earlier, or keep it: S.pick() and S.drop() name what stays and what goes."
        )
    if writers:
        first = writers[0]
        return (
            f'"{key}" is written by {listed(writers[:3])}, but {_when(first, step)}.\n'
            f"Move {first.name} in front of {step.name}, or give a first value with {_default(key)}."
        )
    if step in facts.writers.get(key, ()):
        return (
            f'Only {step.name} itself writes "{key}", and that is after it reads it.\n'
            f"Give a first value with {_default(key)}{_optional(read)}."
        )
    if field := produced(key, step, facts):
        return (
            f'{field.name} says that it produces "{key}", but .produces() stores nothing.\n'
            f'Add .writes("{key}") to {field.name}.'
        )
    start = f'No step writes "{key}", and it is not in the initial state.\n'
    if (declared := facts.captured.get(key)) is not None:
        return start + _captured(declared, key, step)
    like = facts.spelling.like(key)
    if like is not None:
        return start + f'Did you mean "{like}"?'
    return start + (
        f'Add .writes("{key}") to an agent before it, put {_set(key)} or S.capture("{key}") in front, '
        f'or pass state={{"{key}": ...}}.'
    )


def _captured(field: StateFieldRef, key: str, step: Step) -> str:
    """What a field says of who writes it."""
    schema = f"{field.schema.__name__}." if field.schema else ""
    by = getattr(field.captured_by, "__qualname__", None)
    how = f'{by}("{key}")' if by else repr(field.captured_by)
    return f"{schema}{field.name} is captured by {by or how}: put {how} in front of {step.name}."


def produced(key: str, step: Step, facts: Facts) -> Step | None:
    """An earlier agent that says it produces a field of this name."""
    return next((other for other in facts.producers.get(key, ()) if other.index < step.index), None)


def _when(writer: Step, reader: Step) -> str:
    if writer.index > reader.index and reader not in writer.above():
        return f"only after {reader.name} has run"
    return f"not on the way to {reader.name}"


# --- may ------------------------------------------------------------------------------------------


def why_may(read: Read, facts: Facts) -> str:
    """Why a key may be missing, and what to do."""
    key, step = read.key, read.step
    remedy = f"Give it a value before with {_default(key)}{_optional(read)}."
    if read.only_first_missing:
        later = listed([w for w in facts.writers.get(key, ()) if w is not step][:3]) or step.name
        return f'"{key}" is written by {later} later in the loop: in the first round it is missing.\n{remedy}'
    fact = cast(Fact, read.doubt)
    if fact.why is not None:
        return f"{_REASONS[fact.why.reason](key, fact.why, facts)}\n{remedy}"
    if fact.removed_by is not None:
        certain = fact.mask & STATUS == ABSENT
        how, when = ("is", " again") if certain else ("may be", "")
        return f'"{key}" {how} removed by {fact.removed_by.name} before {step.name} runs{when}.\n{remedy}'
    return f'"{key}" is there only some of the times that {step.name} runs.\n{remedy}'


def _branch(key: str, why: Why, facts: Facts) -> str:
    on = _alternatives(why)
    inside = f'"{key}" is written only when {on} runs' if on else f'"{key}" is written on some ways'
    return f"{inside}, by {listed(why.writers)}." if why.writers else f"{inside}."


def _alternatives(why: Why) -> str:
    """The branches of a place in which the writers stand, as a reader knows them."""
    children = [child for child in why.step.children if any(_inside(w, child) for w in why.writers)]
    return branch_names(why.step, children)


def _inside(step: Step, outer: Step) -> bool:
    return outer.index <= step.index < outer.end


def _fallback(key: str, why: Why, facts: Facts) -> str:
    writers = listed(why.writers)
    return (
        f'"{key}" is written by {writers}, which may fail first, or not run: {why.step.name} has other ways.'
    )


def _race(key: str, why: Why, facts: Facts) -> str:
    return f'"{key}" is written only if {_alternatives(why) or listed(why.writers)} wins {why.step.name}.'


def _sibling(key: str, why: Why, facts: Facts) -> str:
    if not why.writers:
        return f'"{key}" may be removed by another branch of {why.step.name}, which runs at the same time.'
    return (
        f'"{key}" is written by {listed(why.writers)}, which runs at the same time in {why.step.name}, '
        "so it may not be there yet."
    )


def _map(key: str, why: Why, facts: Facts) -> str:
    return f'"{key}" is written once per item of "{why.step.node.list_key}": not at all if the list is empty.'


def _tool(key: str, why: Why, facts: Facts) -> str:
    return f'"{key}" is written by a tool of {why.step.name}, and only if its model calls that tool.'


def _delegate(key: str, why: Why, facts: Facts) -> str:
    return (
        f'"{key}" is written by {listed(why.writers)}, but {why.step.name} or one of its sub-agents may '
        "answer instead."
    )


def _boundary(key: str, why: Why, facts: Facts) -> str:
    return f'"{key}" does not cross the execution boundary before {why.step.name}.'


def _moved(key: str, why: Why, facts: Facts) -> str:
    return f'"{key}" is written by {listed(why.writers)}, which a transfer in {why.step.name} may skip.'


def _left(key: str, why: Why, facts: Facts) -> str:
    return f'"{key}" is written by {why.step.name}, but its model may call exit_loop instead of answering.'


def _context(key: str, why: Why, facts: Facts) -> str:
    return f'"{key}" is written by the context of {why.step.name}, if there is something to make it of.'


def _gate(key: str, why: Why, facts: Facts) -> str:
    return f'"{key}" is written by {why.step.name} only if it asks: not where no approval is required.'


def _loop(key: str, why: Why, facts: Facts) -> str:
    return f'"{key}" is not there after every round of {why.step.name}.'


_REASONS: Final[Mapping[str, Callable[[str, Why, Facts], str]]] = {
    "branch": _branch,
    "fallback": _fallback,
    "race": _race,
    "sibling": _sibling,
    "map": _map,
    "tool": _tool,
    "delegate": _delegate,
    "boundary": _boundary,
    "moved": _moved,
    "loop": _loop,
    "context": _context,
    "left": _left,
    "gate": _gate,
}


def _default(key: str) -> str:
    return f"S.default({key}=...)" if key.isidentifier() else f'S.default(**{{"{key}": ...}})'


def _set(key: str) -> str:
    return f"S.set({key}=...)" if key.isidentifier() else f'S.set(**{{"{key}": ...}})'


def _optional(read: Read) -> str:
    return f", or write {{{read.key}?}}" if read.via in ("template", "message") and is_key(read.key) else ""
