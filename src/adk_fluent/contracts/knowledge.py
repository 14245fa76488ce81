"""What is known about every state key at one point of a run: present, absent, either, or unknown.

`State` is a scope over another one. A branch works on a fork of what it starts from and records only what it
changes, so that joining branches costs what they changed, not what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Literal

from adk_fluent.contracts.plan import Step
from adk_fluent.contracts.talk import Talk
from adk_fluent.state.delta import is_session_scoped

PRESENT: Final = 1
ABSENT: Final = 2
UNKNOWN: Final = 4
REMOVED: Final = 8
"""Set beside `ABSENT` when the key may have been removed within a scope; tells parallel branches apart."""
STATUS: Final = 7

Reason = Literal[
    "branch", "fallback", "race", "sibling", "map", "tool", "delegate", "boundary", "moved", "loop"
]
_ticks = count(1)


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
    """

    __slots__ = ("mask", "removed_by", "text_of", "tick", "type", "why", "writers")

    def __init__(
        self,
        mask: int,
        writers: tuple[Step, ...] = (),
        text_of: tuple[Step, ...] = (),
        type: object = None,
        why: Why | None = None,
        removed_by: Step | None = None,
    ) -> None:
        self.mask = mask
        self.writers = writers
        self.text_of = text_of
        self.type = type
        self.why = why
        self.removed_by = removed_by
        self.tick = next(_ticks)

    def with_mask(self, mask: int, why: Why | None = None) -> Fact:
        """The same value, more or less certain."""
        return Fact(mask, self.writers, self.text_of, self.type, why or self.why, self.removed_by)


NEVER: Final = Fact(ABSENT)
OUTSIDE: Final = Fact(UNKNOWN)
"""A `user:` or `app:` key that nothing in the tree wrote: another session may have."""


def leaves_of(key: str) -> str:
    """The key under which a state remembers that `key` was flattened."""
    return f"{key}.*"


def written(step: Step, type: object = None, text_of: tuple[Step, ...] = ()) -> Fact:
    """A key that `step` has just written."""
    return Fact(PRESENT, (step,), text_of, type)


@dataclass(frozen=True, slots=True)
class Effects:
    """What a subtree may do to the state, wherever it goes.

    Attributes:
        writes: key → the last step that may write it.
        removes: session keys that it may remove.
        clears: the step that may remove all session keys but a few.
        unknown: a step that may write anything.
    """

    writes: Mapping[str, Step] = field(default_factory=dict[str, Step])
    removes: Mapping[str, Step] = field(default_factory=dict[str, Step])
    clears: Step | None = None
    unknown: Step | None = None


class Siblings:
    """What the other branches of a parallel step may do while one runs."""

    __slots__ = ("_clears", "_effects", "_removes", "_unknown", "_writes", "step")

    def __init__(self, step: Step, effects: Sequence[Effects]) -> None:
        self.step = step
        self._effects = effects
        self._writes: dict[str, list[int]] = {}
        self._removes: dict[str, list[int]] = {}
        for index, effect in enumerate(effects):
            for key in effect.writes:
                self._writes.setdefault(key, []).append(index)
            for key in effect.removes:
                self._removes.setdefault(key, []).append(index)
        self._unknown = [index for index, effect in enumerate(effects) if effect.unknown]
        self._clears = [index for index, effect in enumerate(effects) if effect.clears]

    def over(self, key: str, base: Fact, own: int) -> Fact:
        """What branch `own` knows about a key that it has not touched itself."""
        mask = base.mask
        others = _others(self._writes.get(key, ()), own)
        if others:
            mask |= PRESENT
        if _others(self._removes.get(key, ()), own):
            mask |= ABSENT
        if _others(self._clears, own) and is_session_scoped(key):
            mask |= ABSENT
        if _others(self._unknown, own) and mask & STATUS != PRESENT:
            mask |= UNKNOWN
        if mask == base.mask:
            return base
        writers = tuple(self._effects[index].writes[key] for index in others)
        return Fact(mask, base.writers + writers, (), None, Why("sibling", self.step, writers))

    def may_touch(self, key: str) -> bool:
        """Whether any branch may write or remove this key."""
        return bool(key in self._writes or key in self._removes or self._unknown or self._clears)

    def removes_from(self, key: str, writers: Sequence[int]) -> bool:
        """Whether a branch may remove a key that another of these branches wrote."""
        removers = [*self._removes.get(key, ())[:2], *(self._clears[:2] if is_session_scoped(key) else ())]
        return any(writer != remover for remover in removers for writer in writers[:2])

    @property
    def keys(self) -> set[str]:
        """Every key that some branch names as written or removed."""
        return {*self._writes, *self._removes}


def _others(indices: Sequence[int], own: int) -> list[int]:
    """The first few indices of other branches than one's own."""
    return [index for index in indices[:4] if index != own]


class State:
    """What is known at one point; a fork of a state sees it and records its own changes.

    Attributes:
        facts: keys that changed in this scope.
        dead: the point cannot be reached.
    """

    __slots__ = ("_beside", "_cut", "_cut_at", "_fog", "_fog_at", "dead", "facts", "parent", "talk")

    def __init__(self, parent: State | None = None) -> None:
        self.parent = parent
        self.facts: dict[str, Fact] = {}
        self.dead = parent.dead if parent else False
        self.talk = parent.talk if parent else Talk()
        self._fog: Step | None = None
        self._fog_at = 0
        self._cut: Step | None = None
        self._cut_at = 0
        self._beside: tuple[tuple[Siblings, int], ...] = parent._beside if parent else ()

    def fork(self) -> State:
        """A scope on top of this one, which must not change while the fork is in use."""
        return State(self)

    def beside(self, siblings: Siblings, own: int) -> State:
        """A fork for one of several parallel branches."""
        made = State(self)
        made._beside = (*self._beside, (siblings, own))
        return made

    # --- reading ----------------------------------------------------------------------------------

    def get(self, key: str) -> Fact:
        """What is known about a key here."""
        scope, fog = self, None
        while True:
            fact = scope.facts.get(key)
            if fact is not None:
                if scope._fog_at > fact.tick:
                    fog = fog or scope._fog
                break
            if scope._cut is not None and is_session_scoped(key):
                fact = Fact(ABSENT | REMOVED, removed_by=scope._cut)
                if scope._fog_at > scope._cut_at:
                    fog = fog or scope._fog
                break
            fog = fog or scope._fog
            if scope.parent is None:
                fact = NEVER if not key.startswith(("user:", "app:")) else OUTSIDE
                break
            scope = scope.parent
        for siblings, own in self._beside:
            if siblings.may_touch(key):
                fact = siblings.over(key, fact, own)
        if fog is not None and fact.mask & STATUS != PRESENT:
            return fact.with_mask(fact.mask | UNKNOWN)
        return fact

    def look(self, key: str) -> Fact:
        """What is known about a key that somebody reads: `a.b` may also come of flattening `a`."""
        fact = self.get(key)
        if fact.mask & ABSENT and "." in key:
            parts = key.split(".")
            for end in range(1, len(parts)):
                if self.get(leaves_of(".".join(parts[:end]))).mask & PRESENT:
                    return fact.with_mask(fact.mask | UNKNOWN)
        return fact

    def temp_keys(self) -> set[str]:
        """Every `temp:` key that something in the tree wrote."""
        found: set[str] = set()
        scope: State | None = self
        while scope is not None:
            found.update(key for key in scope.facts if key.startswith("temp:"))
            scope = scope.parent
        return found

    def session_keys(self) -> set[str]:
        """Every session key that may be there and that something in the tree wrote."""
        found: set[str] = set()
        scope: State | None = self
        while scope is not None:
            found.update(key for key in scope.facts if is_session_scoped(key))
            scope = None if scope._cut else scope.parent
        return found

    # --- changing ---------------------------------------------------------------------------------

    def set(self, key: str, fact: Fact) -> None:
        """Record what a step did to a key."""
        self.facts[key] = fact

    def is_there(self, key: str) -> None:
        """Record that a key turned out to be present."""
        fact = self.get(key)
        if fact.mask & STATUS != PRESENT:
            self.facts[key] = fact.with_mask(PRESENT)

    def maybe(self, key: str, fact: Fact, why: Why) -> None:
        """Record that a step may have written a key."""
        before = self.get(key)
        mask = before.mask | PRESENT
        if mask & STATUS == PRESENT:
            why = before.why or why
        self.facts[key] = Fact(
            mask, some(before.writers, fact.writers), some(before.text_of, fact.text_of), None, why
        )

    def remove(self, key: str, step: Step) -> None:
        """Record that a step removed a session key."""
        if is_session_scoped(key):
            self.facts[key] = Fact(ABSENT | REMOVED, removed_by=step)

    def clear(self, step: Step, keep: Iterable[str]) -> None:
        """Record that a step removed every session key but these."""
        kept = {key: self.get(key) for key in keep if is_session_scoped(key)}
        for key in [key for key in self.facts if is_session_scoped(key)]:
            del self.facts[key]
        self._cut, self._cut_at = step, next(_ticks)
        for key, fact in kept.items():
            self.facts[key] = fact.with_mask(fact.mask)

    def blur(self, step: Step) -> None:
        """Record that a step may have written anything."""
        self._fog, self._fog_at = step, next(_ticks)

    @property
    def blurred_by(self) -> Step | None:
        """The step after which this scope cannot tell what is there."""
        return self._fog

    @property
    def cleared_by(self) -> Step | None:
        """The step that removed all session keys in this scope but those it names."""
        return self._cut

    # --- joining ----------------------------------------------------------------------------------

    def join(self, forks: Sequence[State], why: Reason, step: Step, *, or_none: bool = False) -> None:
        """Go on after exactly one of several forks of this state, or, with `or_none`, after none of them.

        Args:
            why: what makes a key uncertain that only some of them write.
            step: the place that chooses.
        """
        live = [fork for fork in forks if not fork.dead]
        ways = len(live) + or_none
        if not ways:
            self.dead = True
            return
        special = [fork for fork in live if fork._cut or fork._fog]
        changes = self._either(live, ways, special, lambda writers: Why(why, step, writers))
        fog = next((fork._fog for fork in special if fork._fog), None)
        self.talk = Talk.either([fork.talk for fork in live] + [self.talk] * or_none)
        if fog:
            self.blur(fog)
        for key, fact in changes.items():
            self.facts[key] = fact

    def _cleared_by(self, forks: Sequence[State]) -> set[str]:
        return self.session_keys() if any(fork._cut for fork in forks) else set()

    def _either(
        self,
        live: Sequence[State],
        ways: int,
        special: Sequence[State],
        why: Callable[[tuple[Step, ...]], Why],
    ) -> dict[str, Fact]:
        touched: dict[str, list[tuple[State, Fact]]] = {}
        for fork in live:
            for key in fork.facts:
                touched.setdefault(key, []).append((fork, fork.get(key)))
        for key in self._cleared_by(live):
            touched.setdefault(key, [])
        changes: dict[str, Fact] = {}
        for key, found in touched.items():
            facts = [fact for _, fact in found]
            if len(found) < ways:
                silent = [fork for fork in special if all(fork is not other for other, _ in found)]
                facts += [fork.get(key) for fork in silent]
                if len(found) + len(silent) < ways:
                    facts.append(self.get(key))
            changes[key] = alternatives(facts, why)
        return changes

    def both(self, forks: Sequence[State], siblings: Siblings) -> None:
        """Go on after all of several parallel forks of this state."""
        touched: dict[str, list[tuple[int, Fact]]] = {}
        for index, fork in enumerate(forks):
            for key in fork.facts:
                touched.setdefault(key, []).append((index, fork.get(key)))
        for index, fork in enumerate(forks):
            if fork._cut is not None:
                keys = filter(is_session_scoped, {*touched, *self.session_keys()} - fork.facts.keys())
                for key in keys:
                    touched.setdefault(key, []).append((index, fork.get(key)))
        fog = next((fork._fog for fork in forks if fork._fog), None)
        self.talk = Talk.both([fork.talk for fork in forks], self.talk)
        if fog:
            self.blur(fog)
        for key, found in touched.items():
            fact = _together([fact for _, fact in found])
            writers = [index for index, fact in found if fact.mask & PRESENT]
            if not fact.mask & ABSENT and siblings.removes_from(key, writers):
                fact = fact.with_mask(
                    fact.mask | ABSENT | REMOVED, Why("sibling", siblings.step, fact.writers)
                )
            self.facts[key] = fact

    def snapshot(self, base: State) -> State:
        """A fork of `base` that knows what this state, itself above `base`, knows now."""
        made = base.fork()
        made.talk, made.dead = self.talk, self.dead
        scope: State | None = self
        keys: set[str] = set()
        cut = fog = None
        while scope is not None and scope is not base:
            if cut is None:
                keys |= scope.facts.keys()
            else:
                keys |= {key for key in scope.facts if not is_session_scoped(key)}
            cut, fog = cut or scope._cut, fog or scope._fog
            scope = scope.parent
        for siblings, _ in self._beside[len(base._beside) :]:
            keys |= siblings.keys
        if cut:
            made.clear(cut, ())
        if fog:
            made.blur(fog)
        for key in keys:
            fact = self.get(key)
            made.facts[key] = fact.with_mask(fact.mask)
        return made


def some(first: tuple[Step, ...], second: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps of both, the latest few, each once."""
    if not first or first is second:
        return second
    if not second:
        return first
    return tuple(dict.fromkeys(first + second))[-4:]


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
    return Fact(mask, writers, texts, type_, reason, removed)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _together(facts: Sequence[Fact]) -> Fact:
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
    return Fact(mask, writers, texts, types[0] if same else None, why, by)
