"""The wording of findings about state keys: who reads a key, why it is missing, and what to do.

`why_never` explains a key that is never in state, `why_may` one that is missing on some ways to its reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.plan import Step, branch_names
from adk_fluent.analysis.values.fact import ABSENT, STATUS, Fact, Reason, Why
from adk_fluent.analysis.values.kinds import named
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import PerItem, Repeated
from adk_fluent.ir.functions import shown_around, shown_by
from adk_fluent.ir.keys import Via
from adk_fluent.ir.nodes import TransformNode, agent_of
from adk_fluent.ir.state_keys import Sighting, is_key
from adk_fluent.state.schema import defaults_of

if TYPE_CHECKING:
    from adk_fluent.analysis.facts import Facts


def reader_text(read: Read) -> str:
    """The reader in words: `booker reads {intent} in instruction`, with file and line if they are known."""
    where = f" ({read.where})" if read.where else ""
    return _SUBJECTS[read.via].format(step=read.step.name, key=read.key) + where


_SUBJECTS: Final[Mapping[Via, str]] = {
    "template": "{step} reads {{{key}}} in instruction",
    "message": "{step} reads {{{key}}} in its message",
    "prompt": '{step} reads "{key}" in its prompt',
    "context": '{step} reads "{key}" through its context',
    "callback": 'a callback of {step} reads "{key}"',
    "ending": 'a callback of {step} reads "{key}"',
    "tool": 'a tool of {step} reads "{key}"',
    "route": 'Route("{key}") ({step}) reads "{key}"',
    "until": 'until of {step} reads "{key}"',
    "predicate": 'the predicate of {step} reads "{key}"',
    "list": 'map_over("{key}") ({step}) reads "{key}"',
    "operation": '{step} reads "{key}"',
    "removal": '{step} removes "{key}"',
    "function": '{step} reads "{key}"',
    "remote": '{step} sends "{key}"',
    "artifact": '{step} reads "{key}"',
    "budget": '{step} chooses its model by "{key}"',
    "quality": '{step} chooses its model by "{key}"',
}


def names_of(steps: Sequence[Step]) -> str:
    """The names of steps in words: `a`, `a and b`, `a, b and c`."""
    names = list(dict.fromkeys(step.name for step in steps))
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


# --- keys that are never there --------------------------------------------------------------------


def why_never(read: Read, facts: Facts) -> str:
    """The reason why a key is never there, and what to do."""
    for explain in _EXPLAIN:
        if (why := explain(read, facts)) is not None:
            return why
    key = read.key
    start = f'No step writes "{key}", and it is not in the initial state.\n'
    like = facts.spelling.like(key)
    if like is not None:
        return start + f'Did you mean "{like}"?'
    return start + (
        f'Add .writes("{key}") to an agent before it, put {_set(key)} or S.capture("{key}") in front, '
        f'or pass state={{"{key}": ...}}.'
    )


def why_first_turn(read: Read, writers: Sequence[Step]) -> str:
    """The hint for a key that only an earlier turn of the session may have written."""
    return (
        f'"{read.key}" is missing in the first turn of a session: no step writes it before {read.step.name}, '
        f"but {names_of(writers[:3])} may in an earlier turn.\n"
        f"Give it a value before with {_default(read.key)}{_optional(read)}."
    )


def _removed(read: Read, facts: Facts) -> str | None:
    removed = cast(Fact, read.first).removed_by
    if removed is None:
        return None
    return (
        f'{removed.name} removes "{read.key}" before {read.step.name} runs.\n'
        f"Read it earlier, or keep it: S.pick() and S.drop() name what stays and what goes."
    )


def _written_elsewhere(read: Read, facts: Facts) -> str | None:
    key, step = read.key, read.step
    writers = [writer for writer in facts.writers.get(key, ()) if writer is not step]
    if not writers:
        return None
    first = writers[0]
    return (
        f'"{key}" is written by {names_of(writers[:3])}, but {_when(first, step)}.\n'
        f"Move {first.name} in front of {step.name}, or give a first value with {_default(key)}."
    )


def _written_by_itself(read: Read, facts: Facts) -> str | None:
    key, step = read.key, read.step
    if step not in facts.writers.get(key, ()):
        return None
    return (
        f'Only {step.name} itself writes "{key}", and that is after it reads it.\n'
        f"Give a first value with {_default(key)}{_optional(read)}."
    )


def _only_produced(read: Read, facts: Facts) -> str | None:
    agent = produced(read.key, read.step, facts)
    if agent is None:
        return None
    return (
        f'{agent.name} says that it produces "{read.key}", but .produces() stores nothing.\n'
        f'Add .writes("{read.key}") to {agent.name}.'
    )


def _only_answered(read: Read, facts: Facts) -> str | None:
    """The hint if the key is only a field of an earlier agent's answer."""
    key = read.key
    agent = next((a for a in reversed(facts.answers.get(key, ())) if a.index < read.step.index), None)
    if agent is None:
        return None
    model, stored = named(agent.node.output_schema), agent.node.output_key
    into = stored if isinstance(stored, str) else f"{agent.origin}_answer"
    compute = f'S.compute({key}=lambda state: state["{into}"]["{key}"])'
    if into == stored:
        return (
            f'{agent.name} writes a whole {model} to "{into}", and "{key}" is a field of it.\n'
            f"Store the field under its name: {compute} after {agent.name}."
        )
    return (
        f'{agent.name} answers with a {model}, which has "{key}", but nothing stores it.\n'
        f"Declare {key} in a StateSchema and let {agent.name} write it: .writes(State.{key}). "
        f'Or add .writes("{into}") and {compute}.'
    )


def _named_item(read: Read, facts: Facts) -> str | None:
    """The hint if the body of a map reads its item by another name."""
    for outer in read.step.above():
        runs = outer.node.runs
        if isinstance(runs, PerItem) and read.key in ("item", runs.items.removesuffix("s")):
            return (
                f"{outer.name} gives each item of {runs.items!r} as {{{runs.item_key}}}.\n"
                f"Read {{{runs.item_key}}}, or give it this name: map_over(..., item_key={read.key!r})."
            )
    return None


def _only_default(read: Read, facts: Facts) -> str | None:
    """The hint if a schema gives the key a default, which does not write it to state."""
    schema = facts.defaults.get(read.key)
    if schema is None:
        return None
    name, value = read.key.rpartition(":")[2], defaults_of(schema)[read.key]
    shown = f"{value!r:.40}"
    start = f"{name}={shown}" if name == read.key else f'**{{"{read.key}": {shown}}}'
    return (
        f"{schema.__name__}.{name} has a default, but that counts only where code reads the schema.\n"
        f"Put S.default({start}) in front."
    )


def _only_declared(read: Read, facts: Facts) -> str | None:
    """The hint if a schema declares which function captures the key."""
    field = facts.captured.get(read.key)
    if field is None:
        return None
    schema = f"{field.schema.__name__}." if field.schema else ""
    by = getattr(field.captured_by, "__qualname__", None)
    how = f'{by}("{read.key}")' if by else repr(field.captured_by)
    return (
        f'No step writes "{read.key}", and it is not in the initial state.\n'
        f"{schema}{field.name} is captured by {by or how}: put {how} in front of {read.step.name}."
    )


_EXPLAIN: Final[tuple[Callable[[Read, Facts], str | None], ...]] = (
    _removed,
    _written_elsewhere,
    _written_by_itself,
    _only_produced,
    _only_declared,
    _named_item,
    _only_answered,
    _only_default,
)
"""Reasons why a key is never there, in this order: the finding gives the first one that fits."""


def produced(key: str, step: Step, facts: Facts) -> Step | None:
    """An earlier agent that declares by `.produces()` a field of this name; `None` without one."""
    return next((other for other in facts.producers.get(key, ()) if other.index < step.index), None)


def _when(writer: Step, reader: Step) -> str:
    if writer.index > reader.index and reader not in writer.above():
        return f"only after {reader.name} has run"
    return f"not on the way to {reader.name}"


def written_in_source(node: Node) -> list[Sighting]:
    """The places in source where functions of a node, and the middleware around it, write keys."""
    around = [one for each in node.annotations.middleware for one in shown_around(each).writes]
    if isinstance(node, TransformNode):
        functions = [call.function for call in node.calls() if call.function is not None]
        return [*node.seen.writes, *(one for fn in functions for one in shown_by(fn).returns)]
    if not (agent := agent_of(node)):
        return [*around, *node.seen.writes]
    functions = [getattr(fn, "func", fn) for fn in agent.functions]
    return around + [one for fn in functions if callable(fn) for one in shown_by(fn).writes]


# --- keys that may be missing ---------------------------------------------------------------------


_NOTHING: Final = "then a placeholder is empty text, and every other reader finds nothing"
"""The effect of a key that holds `None` on its readers."""


def why_may(read: Read, facts: Facts) -> str:
    """The reason why a key may be missing, and what to do."""
    key, step = read.key, read.step
    remedy = f"Give it a value before with {_default(key)}{_optional(read)}."
    if read.only_first_missing:
        return f"{_later(key, step, facts)}\n{remedy}"
    fact = cast(Fact, read.doubt)
    if fact.why is not None and fact.why.reason == "null":
        remedy = f"Put {_default(key)} after {fact.why.step.name}{_optional(read)}."
    elif fact.why is not None and fact.why.reason == "item":
        remedy = f"Leave such items out before {fact.why.step.name}{_optional(read)}."
    if fact.why is not None:
        return f"{_may_reason(key, fact.why)}\n{remedy}"
    if key in facts.state and facts.state[key] is None and fact.why is None and not fact.writers:
        return f'The initial state holds None for "{key}": {_NOTHING}.\n{remedy}'
    if fact.removed_by is not None:
        certain = fact.mask & STATUS == ABSENT
        how, when = ("is", " again") if certain else ("may be", "")
        return f'"{key}" {how} removed by {fact.removed_by.name} before {step.name} runs{when}.\n{remedy}'
    return f'"{key}" is in state only some of the times that {step.name} runs.\n{remedy}'


def _later(key: str, step: Step, facts: Facts) -> str:
    """The reason why a key is written after its reader has run: later in a loop, or after a hand-over."""
    later = names_of([writer for writer in facts.writers.get(key, ()) if writer is not step][:3])
    if any(isinstance(outer.node.runs, Repeated) for outer in step.above()):
        return (
            f'"{key}" is written by {later or step.name} later in the loop: in the first round it is missing.'
        )
    who = f"{later}, which runs after {step.name}" if later else f"{step.name} itself, after it reads it"
    return f'"{key}" is written by {who}: it is missing when {step.name} runs first.'


_MAY_REASONS: Final[Mapping[Reason, str]] = {
    "branch": '"{key}" is written {when}{by}.',
    "fallback": '"{key}" is written by {writers}, which may fail first, or not run: {step} has other ways.',
    "race": '"{key}" is written only if {branches} wins {step}.',
    "sibling": '"{key}" is written by {writers}, which runs at the same time in {step}, '
    "so it may not be there yet.",
    "map": '"{key}" is written once per item of "{items}": not at all if the list is empty.',
    "tool": '"{key}" is written by a tool of {step}{places}, and only if its model calls that tool.',
    "source": '"{key}" is written by code of {step}{places}, perhaps not every time.',
    "delegate": '"{key}" is written by {writers}, but {step} or one of its sub-agents may answer instead.',
    "boundary": '"{key}" does not cross the execution boundary before {step}.',
    "moved": '"{key}" is written by {writers}, which a transfer in {step} may skip.',
    "loop": '"{key}" is not there after every round of {step}.',
    "context": '"{key}" is written by the context of {step}, and only if there is something to write.',
    "left": '"{key}" is written by {step}, but its model may call exit_loop instead of answering.',
    "gate": '"{key}" is written by {step} only if it asks: not if no approval is required.',
    "null": f'"{{key}}" is written by {{step}}, whose answer may be None: {_NOTHING}.',
    "item": f'"{{key}}" is one item after another of "{{items}}", which may be None: {_NOTHING}.',
}
"""The texts for the reasons why a key may be missing; `_may_reason` fills in the words."""

_REMOVED_BESIDE: Final = '"{key}" may be removed by another branch of {step}, which runs at the same time.'
"""The text for a parallel branch that removes the key instead of writing it."""


def _may_reason(key: str, why: Why) -> str:
    """The reason why a key may be missing, in words."""
    writers, branches = names_of(why.writers), _alternatives(why)
    removed = why.reason == "sibling" and not why.writers
    return (_REMOVED_BESIDE if removed else _MAY_REASONS[why.reason]).format(
        key=key,
        step=why.step.name,
        writers=writers,
        branches=branches or writers,
        when=f"only when {branches} runs" if branches else "on some ways only",
        by=f", by {writers}" if writers else "",
        items=why.step.node.given.get("list_key", ""),
        places=_places(key, why) if why.reason in ("tool", "source") else "",
    )


def _alternatives(why: Why) -> str:
    """The branches that hold the writers, in words: only one of them runs."""
    children = [child for child in why.step.children if any(_inside(w, child) for w in why.writers)]
    names = [branch_names(why.step, [child]) for child in children]
    return " or ".join(names if len(names) <= 4 else [*names[:3], f"one of {len(names) - 3} more"])


def _inside(step: Step, outer: Step) -> bool:
    return outer.index <= step.index < outer.end


def _places(key: str, why: Why) -> str:
    """The places in source where a step writes a key, in parentheses; empty if none is known."""
    places = sorted({one.where for one in written_in_source(why.step.node) if one.key == key})
    return f" ({', '.join(places)})" if places else ""


def _default(key: str) -> str:
    return f"S.default({key}=...)" if key.isidentifier() else f'S.default(**{{"{key}": ...}})'


def _set(key: str) -> str:
    return f"S.set({key}=...)" if key.isidentifier() else f'S.set(**{{"{key}": ...}})'


def _optional(read: Read) -> str:
    return f", or write {{{read.key}?}}" if read.via in ("template", "message") and is_key(read.key) else ""
