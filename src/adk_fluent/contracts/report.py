"""Findings, and the report that holds all findings of a check."""

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
    """The severity of a finding; `OK` confirms that a key is in state when it is read."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"
    OK = "ok"


@dataclass_transform(frozen_default=True, kw_only_default=True)
def issue(cls: C) -> C:
    """Make a class a kind of finding: a frozen dataclass with keyword arguments."""
    return freeze(cls, kw_only=True)


@issue
class ContractIssue(Frozen):
    """One finding.

    Attributes:
        severity: the severity; `WARN` by default.
        code: the kind of finding, stable over versions; `docs/reference/contracts.md` has a section on each.
        agent: the unique name of the agent or step.
        key: the state key with its scope prefix; `None` if the finding is not about a key.
        message: the problem in one line.
        hint: the reason, and what to write instead.
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
    """All findings of the checks, errors first.

    Attributes:
        issues: all findings, including those with severity `OK`.
    """

    issues: tuple[ContractIssue, ...] = ()

    @classmethod
    def of(cls, issues: Iterable[ContractIssue], *, strict: bool = False) -> ContractReport:
        """A report of these findings, errors first, each once; `strict` makes warnings and notes errors."""
        found = {(i.code, i.agent, i.key, i.message, i.hint): i for i in issues}.values()
        if strict:
            found = map(_promoted, found)
        return cls(tuple(sorted(found, key=lambda issue: _ORDER[issue.severity])))

    def _of(self, severity: Severity) -> tuple[ContractIssue, ...]:
        return tuple(issue for issue in self.issues if issue.severity is severity)

    @property
    def errors(self) -> tuple[ContractIssue, ...]:
        """The errors: a run fails there, or gives a wrong result."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[ContractIssue, ...]:
        """The warnings: a run may fail there."""
        return self._of(Severity.WARN)

    @property
    def infos(self) -> tuple[ContractIssue, ...]:
        """The notes: a run works, but perhaps not as intended."""
        return self._of(Severity.INFO)

    @property
    def oks(self) -> tuple[ContractIssue, ...]:
        """The confirmations: each says that a key is in state when it is read."""
        return self._of(Severity.OK)

    @property
    def ok(self) -> bool:
        """True if there are no errors."""
        return not self.errors

    def __str__(self) -> str:
        """One paragraph per finding; one sentence if there are no findings."""
        return "\n".join(map(str, self.issues)) or "✓ Nothing to report."

    def to_json(self) -> str:
        """The report as JSON, in a stable layout whose number is in `version`."""
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
        """The report as HTML for a notebook: counts, and a table of findings, errors first."""
        found = [issue for issue in self.issues if issue.severity is not Severity.OK]
        if not found:
            promises = f"; promises that hold: {len(self.oks)}" * bool(self.oks)
            return html.title(f"✓ No problems found{promises}")
        counts = [(self.errors, "error"), (self.warnings, "warning"), (self.infos, "note")]
        shown = [f"{len(some)} {word}{'s' * (len(some) != 1)}" for some, word in counts if some]
        rows = [(_MARKS[i.severity], i.agent, i.key or "", i.message, i.hint) for i in found]
        return html.title(", ".join(shown)) + html.table(["", "agent", "key", "finding", "what to do"], rows)

    def raise_if_errors(self) -> None:
        """Raise an error if the report has errors.

        Raises:
            ContractError: the report has errors; the message holds all of them.
        """
        if self.errors:
            raise ContractError("\n".join(map(str, self.errors)))


_ORDER: Final = {severity: index for index, severity in enumerate(Severity)}


def _promoted(found: ContractIssue) -> ContractIssue:
    promote = found.severity in (Severity.WARN, Severity.INFO)
    return found.replace(severity=Severity.ERROR) if promote else found


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")
