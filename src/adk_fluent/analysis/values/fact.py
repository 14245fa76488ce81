"""What is known about one state key: present, absent, either, or unknown; and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from types import NoneType
from typing import Final, Literal, get_args, get_origin

from adk_fluent.analysis.origins import ANYBODY, InitialValue, Sources
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.kinds import values_of
from adk_fluent.ir.state_keys import is_shared

PRESENT: Final = 1
ABSENT: Final = 2
UNKNOWN: Final = 4
REMOVED: Final = 8
"""Set beside `ABSENT` when the key may have been removed within a scope; tells parallel branches apart."""
LOST: Final = 16
"""Set beside `ABSENT` when a pause may have taken the value of a `temp:` key."""
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
    """Why a key may be missing.

    Attributes:
        reason: the kind of place that makes it uncertain.
        step: that place.
        writers: the alternatives of that place on which the key is written.
    """

    reason: Reason
    step: Step
    writers: tuple[Step, ...] = ()


class Fact:
    """What is known about one key.

    Attributes:
        mask: `PRESENT`, `ABSENT` and `UNKNOWN`, each set if it may be so.
        writers: steps whose value it may be; the first few.
        text_of: agents whose whole answer is the value, as far as that is so.
        type: the type of the value, `None` where it is not known.
        why: why it may be missing.
        removed_by: the step that removed it.
        of: what the value is made of; see `sources`.
        lost: the step that may stop for a person after the key was written.
        by: the step that has put the value there; `None` if it is one of those that this is made of.
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
        """The same, where a pause at a step may take the value, if none before has."""
        made = self.with_mask(self.mask | ABSENT | LOST)
        made.lost = self.lost if self.mask & LOST else step
        return made

    def or_else(self, *sources: object) -> Fact:
        """The same, where the value may also be made of these."""
        made = self.with_mask(self.mask)
        made.of, made.by = (self, *sources), None
        return made


@lru_cache(maxsize=4096)
def untouched(key: str) -> Fact:
    """A key that nothing in the tree wrote; another session may have written one of the user or the app."""
    return Fact(UNKNOWN if is_shared(key) else ABSENT, of=(InitialValue(key),))


def leaves_of(key: str) -> str:
    """The key under which a state remembers that `key` was flattened."""
    return f"{key}.*"


def written(
    step: Step, type: object = None, text_of: tuple[Step, ...] = (), of: Sources | None = None
) -> Fact:
    """A key that `step` has just written.

    Args:
        of: what the value is made of; by default an agent's own words, or, of any other step, anybody's.
    """
    if of is None:
        of = (step,) if step.is_model else (ANYBODY,)
    return Fact(PRESENT, (step,), text_of, type, of=of, by=step)


def item_of(step: Step, items: Fact) -> Fact:
    """One item of a list, which `step` has just taken; it may be `None` if the type of the list says so."""
    item = written(step, of=(items,))
    nullable = any(NoneType in get_args(each) for each in get_args(items.type))
    return item.with_mask(PRESENT | ABSENT, Why("item", step)) if nullable else item


def stored_values(fact: Fact) -> tuple[object, ...] | None:
    """All that the value can be, if those are few; the members of an `Enum` only where an agent wrote them.

    An agent's answer is stored as JSON; what a step sets stays a member.
    """
    if fact.type is None or fact.type is str:
        return None
    values = values_of(fact.type)
    plain = fact.type is bool or get_origin(fact.type) is Literal
    return values if plain or all(writer.is_model for writer in fact.writers) else None


def made_of(facts: Sequence[Fact]) -> tuple[Sources, Step | None]:
    """What a value is made of that is one of these, or all of them; and who has put it there, if one has."""
    first = facts[0]
    same = all(fact.of is first.of and fact.by is first.by for fact in facts)
    return (first.of, first.by) if same else (tuple(facts), None)


MOST_WRITERS: Final = 64
"""Of how many steps that may have written a value it is known which; so each step costs no more than that."""


def some(first: tuple[Step, ...], second: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps of both, each once; of more than anybody would name, the latest."""
    if not first or first is second:
        return second
    if not second:
        return first
    return tuple(dict.fromkeys(first + second))[-MOST_WRITERS:]


def alternatives(facts: Sequence[Fact], why: Callable[[tuple[Step, ...]], Why]) -> Fact:
    """What is known when one of these holds."""
    first = facts[0]
    if len(facts) == 1:
        return first.with_mask(first.mask)
    mask, writers, texts, removed = 0, (), (), None
    for fact in facts:
        mask |= fact.mask
        writers = some(writers, fact.writers)
        texts = some(texts, fact.text_of)
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


def together(facts: Sequence[Fact]) -> Fact:
    """What is known when parallel branches did all of these."""
    if len(facts) == 1:
        return facts[0].with_mask(facts[0].mask)
    mask, writers, texts = 0, (), ()
    removed = any(fact.mask & REMOVED for fact in facts)
    for fact in facts:
        mask |= fact.mask
        writers = some(writers, fact.writers)
        texts = some(texts, fact.text_of)
    if not removed and any(fact.mask & STATUS == PRESENT for fact in facts):
        mask = PRESENT
    types = [fact.type for fact in facts]
    same = all(type_ is types[0] for type_ in types)
    why = next((fact.why for fact in facts if fact.why), None)
    by = next((fact.removed_by for fact in facts if fact.removed_by), None)
    of, put_by = made_of(facts)
    return Fact(mask, writers, texts, types[0] if same else None, why, by, of, _lost(facts), put_by)


def _lost(facts: Sequence[Fact]) -> Step | None:
    """The step whose pause may have taken the value, if one may."""
    return next((fact.lost for fact in facts if fact.lost), None)
