"""What changed between two scans, sorted by what it means for the generated modules.

Additions can be taken over as they are; what was removed or changed needs a person to look at it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from adk_fluent.tide.scan import AdkField, Scan

KINDS = ("added", "removed", "changed")


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs; `before` is `None` for an addition, `after` for a removal."""

    cls: str
    field: str
    before: AdkField | None
    after: AdkField | None

    @property
    def kind(self) -> str:
        """`added`, `removed` or `changed`."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    @property
    def auto_mergeable(self) -> bool:
        """Whether regenerating is all there is to do: true of new fields that may be left out."""
        return self.before is None and self.after is not None and not self.after.required

    @property
    def aspects(self) -> tuple[str, ...]:
        """What about a changed field is different: `type`, `default`, `required`."""
        if self.before is None or self.after is None:
            return ()
        old, new = asdict(self.before), asdict(self.after)
        return tuple(a for a in ("type", "default", "required") if old[a] != new[a])

    def to_dict(self) -> dict[str, object]:
        """The change as plain JSON values."""
        sides = {
            side: {k: v for k, v in asdict(field).items() if k != "name"}
            for side, field in (("before", self.before), ("after", self.after))
            if field is not None
        }
        changed: dict[str, object] = {"aspects": list(self.aspects)} if self.aspects else {}
        return {
            "class": self.cls,
            "field": self.field,
            "auto_mergeable": self.auto_mergeable,
            **changed,
            **sides,
        }


@dataclass(frozen=True, slots=True)
class Diff:
    """All changes from release `before` to release `after`; `not_compared` says which classes and why."""

    before: str
    after: str
    changes: tuple[Change, ...]
    not_compared: Mapping[str, str]

    @property
    def added(self) -> tuple[Change, ...]:
        """Fields that only the newer release has."""
        return self._of_kind("added")

    @property
    def removed(self) -> tuple[Change, ...]:
        """Fields that only the older release has."""
        return self._of_kind("removed")

    @property
    def changed(self) -> tuple[Change, ...]:
        """Fields of both whose type, default or requiredness differs."""
        return self._of_kind("changed")

    @property
    def auto_mergeable(self) -> bool:
        """Whether every change may be taken over without a person looking at it."""
        return all(c.auto_mergeable for c in self.changes)

    def _of_kind(self, kind: str) -> tuple[Change, ...]:
        return tuple(c for c in self.changes if c.kind == kind)

    @property
    def is_empty(self) -> bool:
        """Whether everything was compared, and nothing differs."""
        return not self.changes and not self.not_compared

    @property
    def verdict(self) -> str:
        """In a few words how much differs."""
        if self.is_empty:
            return "nothing changed"
        flagged = sum(not c.auto_mergeable for c in self.changes)
        told = [_count(len(self.changes), "difference")]
        told += [f"{flagged} to look at"] if self.changes else []
        told += [f"{_count(len(self.not_compared), 'class')} unread"] if self.not_compared else []
        return ", ".join(told)

    def to_dict(self) -> dict[str, object]:
        """The report as plain JSON values."""
        return {
            "before": self.before,
            "after": self.after,
            "auto_mergeable": self.auto_mergeable,
            **{k: [c.to_dict() for c in self._of_kind(k)] for k in KINDS},
            "not_compared": dict(self.not_compared),
        }

    def to_json(self) -> str:
        """The report for machines."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


def diff(before: Scan, after: Scan) -> Diff:
    """Compare two scans; a class that could not be read on one side is not compared."""
    unavailable = {**before.unavailable, **after.unavailable}
    names = [n for n in dict.fromkeys([*before.classes, *after.classes]) if n not in unavailable]
    changes = [c for n in names for c in _changes(n, before.classes.get(n, ()), after.classes.get(n, ()))]
    return Diff(before.adk_version, after.adk_version, tuple(changes), unavailable)


def _changes(cls: str, before: tuple[AdkField, ...], after: tuple[AdkField, ...]) -> Iterator[Change]:
    old, new = {f.name: f for f in before}, {f.name: f for f in after}
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield Change(cls, name, old.get(name), new.get(name))


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}{'es' if word.endswith('s') else 's'}"
