"""What a check finds, and the report that holds it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import Final, TypeVar, dataclass_transform

from adk_fluent import _html as html
from adk_fluent.errors import ContractError
from adk_fluent.ir.frozen import Frozen, freeze, frozen

C = TypeVar("C", bound=type)


class Severity(Enum):
    """How bad a finding is; `OK` is a promise that was checked and holds."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"
    OK = "ok"


@dataclass_transform(frozen_default=True, kw_only_default=True)
def issue(cls: C) -> C:
    """Make a class a kind of finding: a frozen dataclass built by keyword."""
    return freeze(cls, kw_only=True)


@issue
class ContractIssue(Frozen):
    """One finding.

    Attributes:
        severity: how bad it is; `WARN` unless a check says otherwise.
        code: the kind of finding, stable over versions; `docs/reference/contracts.md` has a section on each.
        agent: the agent or step it is about, by its unique name.
        key: the state key it is about, scope prefix included; `None` where no key is concerned.
        message: what was found, in one line.
        hint: why that is so and what to write instead.
    """

    severity: Severity = Severity.WARN
    code: str = "custom"
    agent: str = ""
    key: str | None = None
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """The finding as the report prints it."""
        lines = [f"{_MARKS[self.severity]} {self.message}: {self.severity.name}"]
        lines += [f"  {line}" for line in self.hint.splitlines()]
        return "\n".join(lines)


_MARKS: Final = {Severity.OK: "✓", Severity.INFO: "⚠", Severity.WARN: "⚠", Severity.ERROR: "✗"}


@frozen
class ContractReport(Frozen):
    """Everything that the checks found, errors first.

    Attributes:
        issues: all findings, those that are fine (`OK`) included.
    """

    issues: tuple[ContractIssue, ...] = ()

    @classmethod
    def of(cls, issues: Iterable[ContractIssue], *, strict: bool = False) -> ContractReport:
        """A report with the worst first; `strict` makes every warning and note an error."""
        found = {(i.code, i.agent, i.key, i.message, i.hint): i for i in issues}.values()
        if strict:
            found = map(_promoted, found)
        return cls(tuple(sorted(found, key=lambda issue: _ORDER[issue.severity])))

    def _of(self, severity: Severity) -> tuple[ContractIssue, ...]:
        return tuple(issue for issue in self.issues if issue.severity is severity)

    @property
    def errors(self) -> tuple[ContractIssue, ...]:
        """What cannot work."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[ContractIssue, ...]:
        """What may go wrong."""
        return self._of(Severity.WARN)

    @property
    def infos(self) -> tuple[ContractIssue, ...]:
        """What is worth knowing."""
        return self._of(Severity.INFO)

    @property
    def oks(self) -> tuple[ContractIssue, ...]:
        """What was checked and holds."""
        return self._of(Severity.OK)

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return not self.errors

    def __str__(self) -> str:
        """One paragraph per finding, or a sentence if there is none."""
        return "\n".join(map(str, self.issues)) or "✓ Nothing to report."

    def to_json(self) -> str:
        """The report as JSON; the layout is stable, and `version` says which it is."""
        rows = [
            {
                "severity": issue.severity.value,
                "code": issue.code,
                "agent": issue.agent,
                "key": issue.key,
                "message": issue.message,
                "hint": issue.hint,
            }
            for issue in self.issues
        ]
        counts = {severity.value: len(self._of(severity)) for severity in Severity}
        return json.dumps({"version": 1, "ok": self.ok, "counts": counts, "issues": rows}, indent=2)

    def to_markdown(self) -> str:
        """The report as a Markdown table."""
        if not self.issues:
            return "Nothing to report.\n"
        head = ["| severity | code | agent | key | finding |", "| --- | --- | --- | --- | --- |"]
        rows = [
            f"| {issue.severity.name} | `{issue.code}` | {_cell(issue.agent)} | {_cell(issue.key or '')} "
            f"| {_cell(issue.message)}{'<br>' * bool(issue.hint)}{_cell(issue.hint)} |"
            for issue in self.issues
        ]
        return "\n".join([*head, *rows, ""])

    def _repr_html_(self) -> str:
        """As a notebook shows it: a count, and a table of what was found, the worst first."""
        found = [issue for issue in self.issues if issue.severity is not Severity.OK]
        if not found:
            held = f"; promises that hold: {len(self.oks)}" * bool(self.oks)
            return html.title(f"✓ No problems found{held}")
        counts = [(self.errors, "error"), (self.warnings, "warning"), (self.infos, "note")]
        said = [f"{len(some)} {word}{'s' * (len(some) != 1)}" for some, word in counts if some]
        rows = [(_MARKS[i.severity], i.agent, i.key or "", i.message, i.hint) for i in found]
        return html.title(", ".join(said)) + html.table(["", "agent", "key", "finding", "what to do"], rows)

    def raise_if_errors(self) -> None:
        """Do nothing if there are no errors.

        Raises:
            ContractError: there are; the message holds them all.
        """
        if self.errors:
            raise ContractError("\n".join(map(str, self.errors)))


_ORDER: Final = {severity: index for index, severity in enumerate(Severity)}


def _promoted(found: ContractIssue) -> ContractIssue:
    promote = found.severity in (Severity.WARN, Severity.INFO)
    return found.replace(severity=Severity.ERROR) if promote else found


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")
