"""The checker finds every planted fault and raises no false alarm, over two corpora of pipelines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import pytest

from adk_fluent import A, Agent, S, contracts
from adk_fluent.contracts import ContractIssue, ContractReport, Severity, check_all, issues
from adk_fluent.errors import UnsupportedNodeError
from adk_fluent.state import CapturedBy, StateSchema
from tests.contracts.corpus import corners, correct, faulty, pauses
from tests.contracts.corpus.cases import Case, Correct, Fault
from tests.samples import TERSE

CORRECT = [*correct.CORRECT, *pauses.CORRECT, *corners.CORRECT]
FAULTY = [*faulty.FAULTY, *pauses.FAULTY, *corners.FAULTY]


def check(case: Case) -> ContractReport:
    """The report on a case."""
    return check_all(case.expression, state=case.state, schema=case.schema, config=case.config)


def is_wrong(issue: ContractIssue) -> bool:
    """True if a finding is about the pipeline and not about a limit of the backend."""
    return issue.severity in (Severity.ERROR, Severity.WARN) and issue.code != "unsupported"


def test_the_corpora_are_large_and_without_doubles() -> None:
    """There are at least 60 correct pipelines and 120 faulty ones, no two alike."""
    assert len({(case.expression, case.schema) for case in CORRECT}) == len(CORRECT) >= 60
    assert (
        len({(case.expression, case.code, case.schema, case.config) for case in FAULTY}) == len(FAULTY) >= 120
    )
    assert len({case.name for case in CORRECT}) == len(CORRECT)


@pytest.mark.parametrize("case", CORRECT, ids=lambda case: case.name)
def test_a_correct_pipeline_raises_no_alarm(case: Correct) -> None:
    """This pipeline is right, so there is no error, no warning, and no note but those that are due."""
    report = check(case)
    assert [issue for issue in report.issues if is_wrong(issue)] == []
    noted = [issue.code for issue in report.infos if issue.code not in TERSE]
    assert sorted(noted) == sorted(case.notes), str(report)


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
    assert [issue for issue in report.issues if is_wrong(issue) and issue not in hits] == []


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: f"{case.code}: {case.name}")
def test_a_finding_says_where_and_what_to_do(case: Fault) -> None:
    """The message names the agent and the key, in a line, and the hint says something more."""
    for issue in check(case).issues:
        if issue.code == case.code and issue.agent == case.agent:
            assert issue.agent in issue.message + issue.hint
            assert issue.key is None or issue.key in issue.message + issue.hint
            assert "\n" not in issue.message
            assert issue.hint


KINDS = {
    name: kind.code
    for name, kind in vars(issues).items()
    if hasattr(kind, "code") and kind.__module__ == issues.__name__
}
"""The code of each kind of finding, by the name of its class."""


def test_every_kind_of_finding_has_a_planted_fault() -> None:
    """No kind of finding exists that no faulty pipeline shows."""
    assert set(KINDS.values()) - {case.code for case in FAULTY} == set()


def test_every_kind_of_finding_is_public() -> None:
    """Each class of finding can be imported from `adk_fluent.contracts` by programs that filter a report."""
    assert KINDS.keys() - set(dir(contracts)) == set()


def test_every_kind_of_finding_has_a_section_in_the_documentation() -> None:
    """Each code can be looked up on the page about contracts, and the page has no other."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "contracts.md").read_text(encoding="utf-8")
    kinds = {case.code for case in FAULTY}
    assert set(re.findall(r"^### ([a-z-]+)$", page, re.MULTILINE)) == kinds


def test_artifact_steps_are_held_to_what_they_read_and_write() -> None:
    """Later steps find the keys that an artifact step loads; the keys that it publishes must exist before."""
    fine = check_all(A.load("cv.txt") >> Agent("reader").instruct("{cv}"))
    assert [issue.key for issue in fine.oks] == ["cv"]
    assert not any(map(is_wrong, fine.issues))
    report = check_all(Agent("writer").writes("cv") >> A.publish("cv.txt", from_key="resume"))
    assert [(i.agent, i.key) for i in report.issues if is_wrong(i)] == [("publish", "resume")]


class Captured(StateSchema):
    """A field that no agent writes."""

    message: Annotated[str, CapturedBy(S.capture)]


@pytest.mark.parametrize(
    "expression",
    [
        Agent("reader").instruct("{message}").schema(Captured),
        Agent("reader").reads(Captured.message),
    ],
    ids=["bound", "read"],
)
def test_a_field_says_what_captures_it(expression: Agent[str]) -> None:
    """`CapturedBy` counts for nothing in a run, so the key is missing; the hint says what would write it."""
    (issue,) = check_all(expression).errors
    assert (
        'Captured.message is captured by S.capture: put S.capture("message") in front of reader.'
        in issue.hint
    )
    assert check_all(S.capture("message") >> expression).ok


def test_a_built_agent_gets_the_report_of_its_expression() -> None:
    """The native agent built of a pipeline gets the same report as the pipeline, names of reuses included."""
    compared = 0
    for case in CORRECT:
        try:
            native = case.expression.build()
        except UnsupportedNodeError:
            continue
        compared += 1
        assert str(check_all(native, state=case.state, config=case.config)) == str(check(case)), case.name
    assert compared > 60
