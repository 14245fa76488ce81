"""The knowledge about one state key at one point of a run: is it in state, who wrote it, which type has it?

A `Fact` describes all runs that reach the point. Its `mask` is a set: `PRESENT` if some run has a value
there, `ABSENT` if some run has none, `UNKNOWN` if code may have changed the key where the analysis cannot see
it. So `PRESENT` alone proves that the key is there, and `PRESENT | ABSENT` means that it may be missing.
`one_of` joins the facts of several ways of which a run takes one. `all_of` joins the facts of branches that
all run; there, one certain write is enough, unless another branch may remove the key.

A fact never changes after it is stored. Each has a `tick`, a number that grows: it tells whether a fact is
older than a step that may have written anything.

A fact also notes the direct sources of its value (`Sources`). `data_flow.authors_of` follows these notes
later, and only if a check asks for the authors of a value. The notes of a loop may lead back to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import count
from types import NoneType
from typing import Final, Literal, get_args, get_origin

from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.kinds import values_of
from adk_fluent.ir.base import Node
from adk_fluent.ir.state_keys import is_shared


@dataclass(frozen=True, slots=True)
class InitialValue:
    """The value of a key before the run."""

    key: str


@dataclass(frozen=True, slots=True)
class WrittenIn:
    """Any value that a step inside may write to a key, except for the steps of one child."""

    step: Step
    key: str
    besides: Step | None = None

    def inside(self, steps: list[Step]) -> Iterator[Step]:
        """The steps inside, without those of the excepted child; `steps` are all of the plan."""
        but = range(0) if self.besides is None else range(self.besides.index, self.besides.end)
        return (step for step in self.step.walk(steps) if step.index not in but)


@dataclass(frozen=True, slots=True)
class SpokenIn:
    """Any message of a step inside this one."""

    step: Step


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """The facts about a key after each round of a loop, or after each of several agents that hand over."""

    facts: list[object] = field(default_factory=list[object])


class Person(Enum):
    """Authors that are not one agent.

    Attributes:
        USER: the user.
        ANYBODY: any author: a function that does not declare its reads has made the value.
    """

    USER = "user"
    ANYBODY = "anybody"


ANYBODY: Final = Person.ANYBODY

Sources = tuple[object, ...]
"""The sources of a value: objects of `Fact`, `Step` (an agent's words), and the classes above."""


def capture_sources(node: Node) -> Sources:
    """The sources of the value that a capture writes; for any other node, anybody."""
    return (Person.USER,) if node.copies_user else (ANYBODY,)


PRESENT: Final = 1
ABSENT: Final = 2
UNKNOWN: Final = 4
REMOVED: Final = 8
"""Set with `ABSENT` if this branch itself may have removed the key, so a sibling's write is not certain."""
LOST: Final = 16
"""Set with `ABSENT` if a pause may have lost the value of a `temp:` key."""
STATUS: Final = 7

Reason = Literal[
    "branch",
    "fallback",
    "race",
    "sibling",
    "map",
    "tool",
    "delegate",
    "boundary",
    "moved",
    "loop",
    "left",
    "context",
    "gate",
    "null",
    "item",
    "source",
]
ticks: Iterator[int] = count(1)


@dataclass(frozen=True, slots=True)
class Why:
    """The reason why a key may be missing.

    Attributes:
        reason: the kind of step that makes the key uncertain.
        step: that step.
        writers: the steps inside it that write the key on some of its ways.
    """

    reason: Reason
    step: Step
    writers: tuple[Step, ...] = ()


class Fact:
    """The knowledge about one key at one point of a run.

    Attributes:
        mask: `PRESENT`, `ABSENT` and `UNKNOWN`, each set if it is possible.
        writers: the last steps that may have written the value, at most `MOST_WRITERS`.
        text_of: agents whose whole answer may be the value.
        type: the type of the value; `None` if it is not known.
        why: the reason why the key may be missing.
        removed_by: the step that removed the key.
        of: the sources of the value; see `Sources`.
        lost: the step that may pause the run after the key was written.
        by: the step that wrote the value; `None` if the writers of the sources in `of` wrote it.
    """

    __slots__ = ("by", "lost", "mask", "of", "removed_by", "text_of", "tick", "type", "why", "writers")

    def __init__(
        self,
        mask: int,
        writers: tuple[Step, ...] = (),
        text_of: tuple[Step, ...] = (),
        type: object = None,
        why: Why | None = None,
        removed_by: Step | None = None,
        of: Sources = (),
        lost: Step | None = None,
        by: Step | None = None,
    ) -> None:
        self.mask: int = mask
        self.writers: tuple[Step, ...] = writers
        self.text_of: tuple[Step, ...] = text_of
        self.type: object = type
        self.why: Why | None = why
        self.removed_by: Step | None = removed_by
        self.of: Sources = of
        self.lost: Step | None = lost
        self.by: Step | None = by
        self.tick: int = next(ticks)

    def with_mask(self, mask: int, why: Why | None = None) -> Fact:
        """The same value, more or less certain."""
        why = why or self.why
        return Fact(
            mask, self.writers, self.text_of, self.type, why, self.removed_by, self.of, self.lost, self.by
        )

    def lost_at(self, step: Step) -> Fact:
        """The same fact after a pause at a step, which may lose the value; an earlier pause stays noted."""
        made = self.with_mask(self.mask | ABSENT | LOST)
        made.lost = self.lost if self.mask & LOST else step
        return made

    def or_else(self, *sources: object) -> Fact:
        """The same fact with more possible sources of the value."""
        made = self.with_mask(self.mask)
        made.of, made.by = (self, *sources), None
        return made


@lru_cache(maxsize=4096)
def unwritten_fact(key: str) -> Fact:
    """A key that no step wrote: absent, or unknown for `user:` and `app:`, which other sessions may write."""
    return Fact(UNKNOWN if is_shared(key) else ABSENT, of=(InitialValue(key),))


def leaves_of(key: str) -> str:
    """The key under which a state remembers that `key` was flattened."""
    return f"{key}.*"


def written_fact(
    step: Step, type: object = None, text_of: tuple[Step, ...] = (), of: Sources | None = None
) -> Fact:
    """A key that `step` has just written.

    Args:
        of: the sources of the value. Default: the agent's own words, or `ANYBODY` for any other step.
    """
    if of is None:
        of = (step,) if step.is_model else (ANYBODY,)
    return Fact(PRESENT, (step,), text_of, type, of=of, by=step)


def item_of(step: Step, items: Fact) -> Fact:
    """One item of a list, which `step` has just taken; it may be `None` if the list's type allows that."""
    item = written_fact(step, of=(items,))
    nullable = any(NoneType in get_args(each) for each in get_args(items.type))
    return item.with_mask(PRESENT | ABSENT, Why("item", step)) if nullable else item


def stored_values(fact: Fact) -> tuple[object, ...] | None:
    """All possible values if there are only a few, otherwise `None`.

    Members of an `Enum` count only if an agent wrote them: its answer is stored as JSON, so as their values.
    A value that another step writes stays a member.
    """
    if fact.type is None or fact.type is str:
        return None
    values = values_of(fact.type)
    plain = fact.type is bool or get_origin(fact.type) is Literal
    return values if plain or all(writer.is_model for writer in fact.writers) else None


def made_of(facts: Sequence[Fact]) -> tuple[Sources, Step | None]:
    """The sources of a value that comes from these facts, and the step that wrote it if all agree on one."""
    first = facts[0]
    same = all(fact.of is first.of and fact.by is first.by for fact in facts)
    return (first.of, first.by) if same else (tuple(facts), None)


MOST_WRITERS: Final = 64
"""The most writers in a fact. The limit bounds the time for each step of a long pipeline."""


def merged_steps(first: tuple[Step, ...], second: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps of both, each once; if there are more than `MOST_WRITERS`, the latest ones."""
    if not first or first is second:
        return second
    if not second:
        return first
    return tuple(dict.fromkeys(first + second))[-MOST_WRITERS:]


def one_of(facts: Sequence[Fact], why: Callable[[tuple[Step, ...]], Why]) -> Fact:
    """The fact if exactly one of these facts holds.

    Args:
        why: makes the reason for a missing key from the writers on the ways that write it.
    """
    first = facts[0]
    if len(facts) == 1:
        return first.with_mask(first.mask)
    mask, writers, texts, removed = 0, (), (), None
    for fact in facts:
        mask |= fact.mask
        writers = merged_steps(writers, fact.writers)
        texts = merged_steps(texts, fact.text_of)
        removed = removed or fact.removed_by
    known = {fact.type if _hashable(fact.type) else None for fact in facts if fact.mask & PRESENT}
    type_ = next(iter(known)) if len(known) == 1 else None
    reason = None
    if mask & PRESENT and mask & (ABSENT | UNKNOWN):
        present = tuple(dict.fromkeys(w for fact in facts if fact.mask & PRESENT for w in fact.writers))
        certain = all(fact.mask & STATUS in (PRESENT, ABSENT, UNKNOWN) for fact in facts)
        reason = why(present) if certain else next((f.why for f in facts if f.why), None) or why(present)
    of, put_by = made_of(facts)
    return Fact(mask, writers, texts, type_, reason, removed, of, _lost(facts), put_by)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def all_of(facts: Sequence[Fact]) -> Fact:
    """The fact after parallel branches that all ran: one branch that surely writes is enough."""
    if len(facts) == 1:
        return facts[0].with_mask(facts[0].mask)
    mask, writers, texts = 0, (), ()
    removed = any(fact.mask & REMOVED for fact in facts)
    for fact in facts:
        mask |= fact.mask
        writers = merged_steps(writers, fact.writers)
        texts = merged_steps(texts, fact.text_of)
    if not removed and any(fact.mask & STATUS == PRESENT for fact in facts):
        mask = PRESENT
    types = [fact.type for fact in facts]
    same = all(type_ is types[0] for type_ in types)
    why = next((fact.why for fact in facts if fact.why), None)
    by = next((fact.removed_by for fact in facts if fact.removed_by), None)
    of, put_by = made_of(facts)
    return Fact(mask, writers, texts, types[0] if same else None, why, by, of, _lost(facts), put_by)


def _lost(facts: Sequence[Fact]) -> Step | None:
    """The step whose pause may have lost the value; `None` without one."""
    return next((fact.lost for fact in facts if fact.lost), None)
