"""What a check found, in the forms that other programs take: SARIF, annotations of GitHub, a baseline."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from adk_fluent import __version__
from adk_fluent.cli.errors import UsageError
from adk_fluent.cli.places import Places
from adk_fluent.contracts.report import ContractIssue, ContractReport, Severity

_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARN: "warning", Severity.INFO: "note"}
_COMMANDS: Final = {Severity.ERROR: "error", Severity.WARN: "warning", Severity.INFO: "notice"}


def findings(report: ContractReport) -> list[ContractIssue]:
    """What was found, without what was found to be fine."""
    return [issue for issue in report.issues if issue.severity is not Severity.OK]


def fingerprint(issue: ContractIssue) -> str:
    """What stays the same of a finding when lines move."""
    message = re.sub(r", line \d+", "", issue.message)
    text = "\0".join([issue.code, issue.agent, issue.key or "", message])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def to_sarif(report: ContractReport, places: Places) -> str:
    """The findings as SARIF 2.1.0, which code hosts show beside the lines.

    The format is OASIS's, https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
    """
    found = findings(report)
    rules = list(dict.fromkeys(issue.code for issue in found))
    results = [_result(issue, rules.index(issue.code), places) for issue in found]
    driver = {
        "name": "adk-fluent",
        "version": __version__,
        "rules": [{"id": code, "name": code, "shortDescription": {"text": _words(code)}} for code in rules],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2)


def _words(code: str) -> str:
    text = code.replace("-", " ")
    return f"{text[:1].upper()}{text[1:]}."


def _result(issue: ContractIssue, rule: int, places: Places) -> dict[str, Any]:
    place = places.of(issue.agent)
    region = {"startLine": place.line}
    physical = {"artifactLocation": {"uri": place.file}, "region": region}
    return {
        "ruleId": issue.code,
        "ruleIndex": rule,
        "level": _LEVELS[issue.severity],
        "message": {"text": "\n".join(filter(None, [issue.message, issue.hint]))},
        "locations": [
            {"physicalLocation": physical, "logicalLocations": [{"name": issue.agent, "kind": "object"}]}
        ],
        "partialFingerprints": {"finding/v1": fingerprint(issue)},
    }


def to_github(report: ContractReport, places: Places) -> str:
    """The findings as workflow commands, one a line, which GitHub shows beside the lines of a change."""
    return "\n".join(_annotation(issue, places) for issue in findings(report))


def _annotation(issue: ContractIssue, places: Places) -> str:
    place = places.of(issue.agent)
    text = "\n".join(filter(None, [issue.message, issue.hint]))
    where = f"file={_property(place.file)},line={place.line},title={_property(issue.code)}"
    return f"::{_COMMANDS[issue.severity]} {where}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def to_json(report: ContractReport, places: Places) -> str:
    """The report as JSON, each finding with file and line."""
    data = json.loads(report.to_json())
    for row in data["issues"]:
        place = places.of(row["agent"])
        row |= {"file": place.file, "line": place.line}
    return json.dumps(data, indent=2)


# --- baselines ------------------------------------------------------------------------------------


def write_baseline(file: Path, found: Iterable[ContractIssue]) -> int:
    """Keep what there is today; gives how many findings that is.

    Raises:
        UsageError: the file cannot be written.
    """
    rows = {fingerprint(issue): f"{issue.code}: {issue.message}" for issue in found}
    data = {"version": 1, "known": dict(sorted(rows.items(), key=lambda row: (row[1], row[0])))}
    try:
        file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {str(file)!r}: {error.strerror}.") from error
    return len(rows)


def without_known(report: ContractReport, file: Path) -> ContractReport:
    """The report without what a baseline knows.

    Raises:
        UsageError: it is no baseline.
    """
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
        known = set(data["known"]) if data["version"] == 1 else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{str(file)!r} is no baseline of adk-fluent. Delete it to begin anew.") from error
    if known is None:
        raise UsageError(f"{str(file)!r} is a baseline of another version. Delete it to begin anew.")
    new = [i for i in report.issues if i.severity is Severity.OK or fingerprint(i) not in known]
    return ContractReport(tuple(new))
