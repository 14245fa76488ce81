"""The checker finds every planted fault and raises no false alarm, over two corpora of pipelines."""

from __future__ import annotations

import pytest

from adk_fluent.contracts import ContractReport, Severity, check_all, issues
from tests.contracts.corpus.cases import Case, Fault
from tests.contracts.corpus.correct import CORRECT
from tests.contracts.corpus.faulty import FAULTY


def check(case: Case) -> ContractReport:
    """The report on a case."""
    return check_all(case.expression, state=case.state, schema=case.schema, config=case.config)


def test_the_corpora_are_large_and_without_doubles() -> None:
    """There are at least 60 correct pipelines and 120 faulty ones, no two alike."""
    assert len({(case.expression, case.schema) for case in CORRECT}) == len(CORRECT) >= 60
    assert (
        len({(case.expression, case.code, case.schema, case.config) for case in FAULTY}) == len(FAULTY) >= 120
    )
    assert len({case.name for case in CORRECT}) == len(CORRECT)


@pytest.mark.parametrize("case", CORRECT, ids=lambda case: case.name)
def test_a_correct_pipeline_raises_no_alarm(case: Case) -> None:
    """This pipeline is right, so there is no error and no warning."""
    report = check(case)
    assert [*report.errors, *report.warnings] == []


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: f"{case.code}: {case.name}")
def test_a_planted_fault_is_found_and_nothing_else(case: Fault) -> None:
    """The fault is found under its code, names its agent and key, and no other error or warning is raised."""
    report = check(case)
    hits = [
        issue
        for issue in report.issues
        if (issue.code, issue.agent, issue.key) == (case.code, case.agent, case.key)
        and issue.severity is Severity(case.severity)
    ]
    assert hits, str(report)
    assert [issue for issue in (*report.errors, *report.warnings) if issue not in hits] == []


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: f"{case.code}: {case.name}")
def test_a_finding_says_where_and_what_to_do(case: Fault) -> None:
    """The message names the agent and the key, in a line, and the hint says something more."""
    for issue in check(case).issues:
        if issue.code == case.code and issue.agent == case.agent:
            assert issue.agent in issue.message + issue.hint
            assert issue.key is None or issue.key in issue.message + issue.hint
            assert "\n" not in issue.message
            assert issue.hint


def test_every_kind_of_finding_has_a_planted_fault() -> None:
    """No kind of finding exists that no faulty pipeline shows."""
    kinds = {
        kind.code
        for kind in vars(issues).values()
        if hasattr(kind, "code") and kind.__module__ == issues.__name__
    }
    assert kinds - {case.code for case in FAULTY} == set()
