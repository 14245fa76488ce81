"""A report as each reader gets it: as text, as Markdown, as JSON, as HTML, as an error."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from adk_fluent.contracts import ContractIssue, ContractReport, Severity
from adk_fluent.errors import ContractError


def issue(severity: Severity, number: int, key: str | None = None, hint: str = "") -> ContractIssue:
    """A finding of this severity."""
    return ContractIssue(
        severity=severity, code=f"c{number}", agent=f"a|{number}", key=key, message=f"<m{number}>", hint=hint
    )


BAD = issue(Severity.ERROR, 1, "k<", "why\nwhat")
WORSE = issue(Severity.ERROR, 2, "user:k")
DOUBTFUL = issue(Severity.WARN, 3, hint="why|")
NOTE = issue(Severity.INFO, 4)
FINE = issue(Severity.OK, 5, "k")
ALL = ContractReport.of([FINE, NOTE, DOUBTFUL, BAD, WORSE, BAD])


def cells(page: str) -> list[list[str]]:
    """The cells of a page's table."""
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    return [[unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


def test_the_worst_comes_first_and_nothing_twice() -> None:
    """A report is ordered by severity, then as it was found; what was found twice stands there once."""
    assert ALL.issues == (BAD, WORSE, DOUBTFUL, NOTE, FINE)


@pytest.mark.parametrize("part", ["code", "agent", "key", "message", "hint"])
def test_findings_that_differ_in_text_are_kept(part: str) -> None:
    """The report keeps findings that differ in any text, and one of two that differ in severity alone."""
    other = BAD.replace(**{part: "other"})
    assert ContractReport.of([BAD, other]).issues == (BAD, other)
    assert len(ContractReport.of([BAD, BAD.replace(severity=Severity.WARN)]).issues) == 1


def test_the_text() -> None:
    """Each finding is a line with its mark and severity, its hint indented below it."""
    assert str(ALL) == (
        "✗ <m1>: ERROR\n  why\n  what\n✗ <m2>: ERROR\n⚠ <m3>: WARN\n  why|\n⚠ <m4>: INFO\n✓ <m5>: OK"
    )


def test_the_markdown() -> None:
    """A row for each finding under a head; nothing in it can break the table or be taken for HTML."""
    assert ALL.to_markdown() == (
        "| severity | code | agent | key | finding |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| ERROR | `c1` | a\\|1 | k&lt; | &lt;m1><br>why<br>what |\n"
        "| ERROR | `c2` | a\\|2 | user:k | &lt;m2> |\n"
        "| WARN | `c3` | a\\|3 |  | &lt;m3><br>why\\| |\n"
        "| INFO | `c4` | a\\|4 |  | &lt;m4> |\n"
        "| OK | `c5` | a\\|5 | k | &lt;m5> |\n"
    )


def test_the_json() -> None:
    """Every finding with all its fields, in the order of the report, indented by two."""
    text = ALL.to_json()
    rows = [
        {
            "severity": found.severity.value,
            "code": found.code,
            "agent": found.agent,
            "key": found.key,
            "message": found.message,
            "hint": found.hint,
        }
        for found in ALL.issues
    ]
    counts = {"error": 2, "warn": 1, "info": 1, "ok": 1}
    data = {"version": 1, "ok": False, "counts": counts, "issues": rows}
    assert list(json.loads(text)) == list(data)
    assert json.loads(text) == data
    assert text.startswith('{\n  "version": 1,\n')
    assert json.loads(ContractReport((DOUBTFUL,)).to_json())["ok"] is True


@pytest.mark.parametrize(
    ("report", "title"),
    [
        (ALL, "2 errors, 1 warning, 1 note"),
        (ContractReport((BAD,)), "1 error"),
        (ContractReport((DOUBTFUL, DOUBTFUL, NOTE, NOTE, NOTE)), "2 warnings, 3 notes"),
        (ContractReport((FINE, FINE)), "✓ No problems found; promises that hold: 2"),
        (ContractReport(), "✓ No problems found"),
    ],
    ids=["all", "one", "some", "fine", "none"],
)
def test_the_page_of_a_notebook(report: ContractReport, title: str) -> None:
    """A notebook shows the counts, and below a table of what is not fine, as it was written."""
    page = report._repr_html_()  # pyright: ignore[reportPrivateUsage]  # what notebooks call
    assert unescape(re.findall(r"^<div[^>]*>(.*?)</div>", page)[0]) == title
    marks = {Severity.ERROR: "✗", Severity.WARN: "⚠", Severity.INFO: "⚠"}
    rows = [
        [marks[found.severity], found.agent, found.key or "", found.message, found.hint]
        for found in report.issues
        if found.severity in marks
    ]
    head = [["", "agent", "key", "finding", "what to do"]] if rows else []
    assert [[cell.replace("\n", "|") for cell in row] for row in cells(page.replace("\n", "|"))] == [
        [cell.replace("\n", "|") for cell in row] for row in head + rows
    ]


def test_the_error_holds_every_error_and_no_more() -> None:
    """`raise_if_errors` raises the text of the errors, one below the other; without any it does nothing."""
    with pytest.raises(ContractError) as caught:
        ALL.raise_if_errors()
    assert str(caught.value) == "✗ <m1>: ERROR\n  why\n  what\n✗ <m2>: ERROR"
    ContractReport((DOUBTFUL, NOTE, FINE)).raise_if_errors()


def test_strict_changes_the_severity_alone() -> None:
    """Under `strict` warnings and notes become errors, in the order found; all else of them stays."""
    strict = ContractReport.of([FINE, NOTE, DOUBTFUL, BAD], strict=True)
    assert strict.issues == (
        NOTE.replace(severity=Severity.ERROR),
        DOUBTFUL.replace(severity=Severity.ERROR),
        BAD,
        FINE,
    )
