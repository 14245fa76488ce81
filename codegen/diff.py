"""What changed between two scans, sorted by what it means for the generated modules.

Additions can be taken over as they are; what was removed or changed needs a person to look at it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from .scan import Field, Scan


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs; `before` is `None` for an addition, `after` for a removal."""

    cls: str
    field: str
    before: Field | None
    after: Field | None

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

    def to_json(self) -> str:
        """The report for machines."""
        document = {
            "before": self.before,
            "after": self.after,
            "auto_mergeable": self.auto_mergeable,
            **{k: [c.to_dict() for c in self._of_kind(k)] for k in ("added", "removed", "changed")},
            "not_compared": dict(self.not_compared),
        }
        return json.dumps(document, indent=2) + "\n"

    def to_markdown(self) -> str:
        """The report for people."""
        return "\n".join(_markdown(self)) + "\n"


def diff(before: Scan, after: Scan) -> Diff:
    """Compare two scans; a class that could not be read on one side is not compared."""
    unavailable = {**before.unavailable, **after.unavailable}
    names = [n for n in dict.fromkeys([*before.classes, *after.classes]) if n not in unavailable]
    changes = [c for n in names for c in _changes(n, before.classes.get(n, ()), after.classes.get(n, ()))]
    return Diff(before.adk_version, after.adk_version, tuple(changes), unavailable)


def _changes(cls: str, before: tuple[Field, ...], after: tuple[Field, ...]) -> Iterator[Change]:
    old, new = {f.name: f for f in before}, {f.name: f for f in after}
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield Change(cls, name, old.get(name), new.get(name))


def _markdown(report: Diff) -> Iterator[str]:
    yield f"# google-adk {report.before} to {report.after}"
    yield ""
    flagged = sum(not c.auto_mergeable for c in report.changes)
    yield f"{len(report.changes)} differences, {flagged} of them for a person to look at."
    sections = (
        ("Added", report.added, "Taken over by `python -m codegen write`."),
        ("Removed", report.removed, "Code that sets these fields breaks; decide what takes their place."),
        ("Changed", report.changed, "Look at each: our methods may need another type or meaning."),
    )
    for title, changes, advice in sections:
        if changes:
            yield from (
                "",
                f"## {title}",
                "",
                advice,
                "",
                "| class | field | before | after |",
                "| --- " * 4 + "|",
            )
            yield from map(_row, changes)
    if report.not_compared:
        yield from ("", "## Not compared", "")
        yield from (f"- {cls}: {why}" for cls, why in report.not_compared.items())


def _row(change: Change) -> str:
    note = " (required)" if change.kind == "added" and not change.auto_mergeable else ""
    return f"| {change.cls} | `{change.field}`{note} | {_cell(change.before)} | {_cell(change.after)} |"


def _cell(field: Field | None) -> str:
    if field is None:
        return ""
    shown = f"`{field.type}`" + ("" if field.default is None else f" = `{field.default}`")
    return shown.replace("|", "\\|")
