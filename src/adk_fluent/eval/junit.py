"""Reports as JUnit XML, which CI servers show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from adk_fluent.eval.results import CaseSummary

if TYPE_CHECKING:
    from adk_fluent.eval.report import FluentEvalReport

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML has no form for."""


def to_junit(report: FluentEvalReport) -> str:
    """A report as JUnit XML: a test case per case; an error where a run ended early, else a failure."""
    cases = report.cases.values()
    failed = [case for case in cases if not case.passed]
    broken = sum(_is_broken(case) for case in failed)
    counts = {
        "tests": str(len(cases)),
        "failures": str(len(failed) - broken),
        "errors": str(broken),
        "time": f"{sum(result.seconds for result in report.case_results):.3f}",
    }
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _plain(report.name), **counts})
    for case in cases:
        _add(suite, report.name, case)
    ElementTree.indent(suites)
    body = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _add(suite: ElementTree.Element, name: str, case: CaseSummary) -> None:
    seconds = sum(run.seconds for run in case.runs)
    made = ElementTree.SubElement(
        suite,
        "testcase",
        {"classname": _plain(name), "name": _plain(case.eval_id), "time": f"{seconds:.3f}"},
    )
    if not case.passed:
        told = ElementTree.SubElement(
            made,
            "error" if _is_broken(case) else "failure",
            {"message": _plain(case.failures[0] if case.failures else "failed")},
        )
        told.text = _plain("\n".join(f"run {run.run}: {why}" for run in case.runs for why in run.failures))
    said = [f"{name} {spread}" for name, spread in case.scores.items()]
    if said:
        ElementTree.SubElement(made, "system-out").text = _plain("\n".join(said))


def _is_broken(case: CaseSummary) -> bool:
    return any(run.error for run in case.runs)


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
