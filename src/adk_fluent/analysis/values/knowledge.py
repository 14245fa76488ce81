"""The knowledge about every state key at one point of a run.

Idea: `Knowledge` is a scope on top of another one, its parent, as in a symbol table. A branch works on a fork
of the state at its start. It records only the keys that it changes, and looks up all others in the parents.
Invariant: while a fork is in use, its parent does not change. So a missing key in a fork means "unchanged".
`join` continues after one of several forks, `both` after all of several parallel ones.

Why not copy the dictionary for each branch? A copy costs as much as there are keys; a wide tree would take
quadratic time. With scopes, a join costs as much as the branches changed.

Two changes concern all keys at once, and a scope records each in one field with a tick: `clear` (a step
removed all session keys but some) and `forget` (a step may have written anything). `get` compares the ticks
to know which of the entries in `facts` are newer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from adk_fluent.analysis.history import ConversationSoFar
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.values.fact import (
    ABSENT,
    ANYBODY,
    PRESENT,
    REMOVED,
    STATUS,
    UNKNOWN,
    Fact,
    Reason,
    Why,
    all_of,
    leaves_of,
    merged_steps,
    one_of,
    ticks,
    unwritten_fact,
)
from adk_fluent.analysis.values.key_effects import Siblings
from adk_fluent.ir.state_keys import is_session_scoped, is_temporary


class Knowledge:
    """The knowledge at one point of a run.

    Attributes:
        parent: the scope below, which has all keys that this one did not change.
        facts: the keys that changed in this scope.
        conversation: the conversation up to this point.
        dead: true if no run reaches this point.
    """

    __slots__ = (
        "_beside",
        "_cleared_at",
        "_cleared_by_step",
        "_unknown_at",
        "_unknown_by",
        "conversation",
        "dead",
        "facts",
        "parent",
    )

    def __init__(self, parent: Knowledge | None = None) -> None:
        self.parent: Knowledge | None = parent
        self.facts: dict[str, Fact] = {}
        self.dead: bool = parent.dead if parent else False
        self.conversation: ConversationSoFar = parent.conversation if parent else ConversationSoFar()
        self._unknown_by: Step | None = None
        self._unknown_at = 0
        self._cleared_by_step: Step | None = None
        self._cleared_at = 0
        self._beside: tuple[tuple[Siblings, int], ...] = parent._beside if parent else ()

    def fork(self) -> Knowledge:
        """A scope on top of this one, which must not change while the fork is in use."""
        return Knowledge(self)

    def beside(self, siblings: Siblings, own: int) -> Knowledge:
        """A fork for one of several parallel branches, which see the writes of their siblings.

        Args:
            siblings: the effects of all branches.
            own: the index of this branch among them.
        """
        fork = Knowledge(self)
        fork._beside = (*self._beside, (siblings, own))
        return fork

    # --- reading ----------------------------------------------------------------------------------

    def get(self, key: str) -> Fact:
        """The fact about a key at this point."""
        scope, unknown_by = self, None
        while True:
            fact = scope.facts.get(key)
            if fact is not None:
                if scope._unknown_at > fact.tick:
                    unknown_by = unknown_by or scope._unknown_by
                break
            if scope._cleared_by_step is not None and is_session_scoped(key):
                fact = Fact(ABSENT | REMOVED, removed_by=scope._cleared_by_step)
                if scope._unknown_at > scope._cleared_at:
                    unknown_by = unknown_by or scope._unknown_by
                break
            unknown_by = unknown_by or scope._unknown_by
            if scope.parent is None:
                fact = unwritten_fact(key)
                break
            scope = scope.parent
        for siblings, own in self._beside:
            if siblings.may_touch(key):
                fact = siblings.over(key, fact, own)
        if unknown_by is not None:
            fact = fact.or_else(ANYBODY)
            if fact.mask & STATUS != PRESENT:
                fact.mask |= UNKNOWN
        return fact

    def look(self, key: str) -> Fact:
        """The fact about a key that a step reads; `a.b` may also exist because a step flattened `a`."""
        fact = self.get(key)
        if fact.mask & ABSENT and "." in key:
            parts = key.split(".")
            for end in range(1, len(parts)):
                flattened = self.get(leaves_of(".".join(parts[:end])))
                if flattened.mask & PRESENT:
                    return fact.or_else(flattened).with_mask(fact.mask | UNKNOWN)
        return fact

    def temp_keys(self) -> set[str]:
        """Every `temp:` key that a step in the tree wrote."""
        found: set[str] = set()
        scope: Knowledge | None = self
        while scope is not None:
            found.update(key for key in scope.facts if is_temporary(key))
            scope = scope.parent
        return found

    def session_keys(self) -> set[str]:
        """Every session key that a step in the tree wrote and that may still be there."""
        found: set[str] = set()
        scope: Knowledge | None = self
        while scope is not None:
            found.update(key for key in scope.facts if is_session_scoped(key))
            scope = None if scope._cleared_by_step else scope.parent
        return found

    # --- changing ---------------------------------------------------------------------------------

    def set(self, key: str, fact: Fact) -> None:
        """Record the fact about a key after a step."""
        self.facts[key] = fact

    def mark_present(self, key: str) -> None:
        """Record that a key is present: the step would have failed without it."""
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
            mask,
            merged_steps(before.writers, fact.writers),
            merged_steps(before.text_of, fact.text_of),
            None,
            why,
            of=(before, fact),
            lost=before.lost,
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
        self._cleared_by_step, self._cleared_at = step, next(ticks)
        for key, fact in kept.items():
            self.facts[key] = fact.with_mask(fact.mask)

    def forget(self, step: Step) -> None:
        """Record that a step may have written anything."""
        self._unknown_by, self._unknown_at = step, next(ticks)

    @property
    def unknown_since(self) -> Step | None:
        """The step in this scope that may have written anything; `None` without one."""
        return self._unknown_by

    @property
    def cleared_by(self) -> Step | None:
        """The step in this scope that removed all session keys but some; `None` without one."""
        return self._cleared_by_step

    # --- joining ----------------------------------------------------------------------------------

    def join(self, forks: Sequence[Knowledge], why: Reason, step: Step, *, or_none: bool = False) -> None:
        """Continue after exactly one of several forks of this state, or, with `or_none`, perhaps after none.

        Args:
            why: the reason that a finding gives for a key which only some of the forks write.
            step: the step that chooses among the forks.
        """
        live = [fork for fork in forks if not fork.dead]
        ways = len(live) + or_none
        if not ways:
            self.dead = True
            return
        special = [fork for fork in live if fork._cleared_by_step or fork._unknown_by]
        changes = self._either(live, ways, special, lambda writers: Why(why, step, writers))
        unknown_by = next((fork._unknown_by for fork in special if fork._unknown_by), None)
        self.conversation = ConversationSoFar.either(
            [fork.conversation for fork in live] + [self.conversation] * or_none
        )
        if unknown_by:
            self.forget(unknown_by)
        for key, fact in changes.items():
            self.facts[key] = fact

    def _cleared_by(self, forks: Sequence[Knowledge]) -> set[str]:
        return self.session_keys() if any(fork._cleared_by_step for fork in forks) else set()

    def _either(
        self,
        live: Sequence[Knowledge],
        ways: int,
        special: Sequence[Knowledge],
        why: Callable[[tuple[Step, ...]], Why],
    ) -> dict[str, Fact]:
        touched: dict[str, list[tuple[Knowledge, Fact]]] = {}
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
            changes[key] = one_of(facts, why)
        return changes

    def both(self, forks: Sequence[Knowledge], siblings: Siblings) -> None:
        """Continue after all of several parallel forks of this state."""
        touched: dict[str, list[tuple[int, Fact]]] = {}
        for index, fork in enumerate(forks):
            for key in fork.facts:
                touched.setdefault(key, []).append((index, fork.get(key)))
        for index, fork in enumerate(forks):
            if fork._cleared_by_step is not None:
                keys = filter(is_session_scoped, {*touched, *self.session_keys()} - fork.facts.keys())
                for key in keys:
                    touched.setdefault(key, []).append((index, fork.get(key)))
        unknown_by = next((fork._unknown_by for fork in forks if fork._unknown_by), None)
        self.conversation = ConversationSoFar.both([fork.conversation for fork in forks], self.conversation)
        if unknown_by:
            self.forget(unknown_by)
        for key, found in touched.items():
            fact = all_of([fact for _, fact in found])
            writers = [index for index, fact in found if fact.mask & PRESENT]
            if not fact.mask & ABSENT and siblings.removes_from(key, writers):
                fact = fact.with_mask(
                    fact.mask | ABSENT | REMOVED, Why("sibling", siblings.step, fact.writers)
                )
            self.facts[key] = fact

    def snapshot(self, base: Knowledge) -> Knowledge:
        """A copy of this state as a fork of `base`, which must be one of the scopes below it."""
        copy = base.fork()
        copy.conversation, copy.dead = self.conversation, self.dead
        scope: Knowledge | None = self
        keys: set[str] = set()
        cleared_by = unknown_by = None
        while scope is not None and scope is not base:
            if cleared_by is None:
                keys |= scope.facts.keys()
            else:
                keys |= {key for key in scope.facts if not is_session_scoped(key)}
            cleared_by, unknown_by = cleared_by or scope._cleared_by_step, unknown_by or scope._unknown_by
            scope = scope.parent
        for siblings, _ in self._beside[len(base._beside) :]:
            keys |= siblings.keys
        if cleared_by:
            copy.clear(cleared_by, ())
        if unknown_by:
            copy.forget(unknown_by)
        for key in keys:
            fact = self.get(key)
            copy.facts[key] = fact.with_mask(fact.mask)
        return copy
