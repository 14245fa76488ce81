"""Projects in plain ADK: what is wrong in them is found, and nothing else is called an error."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from adk_fluent.adopt import adopt
from adk_fluent.contracts import ContractReport
from tests.adopt.corpus import PRELUDE, PROJECTS, Project

every_project = pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)


def loaded(project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of a project, from a file of its own, as functions' source is read from there."""
    file = folder / f"{re.sub(r'[^a-z]+', '_', project.name.lower())}.py"
    file.write_text(PRELUDE + project.source)
    module = ModuleType(file.stem)
    monkeypatch.setitem(sys.modules, file.stem, module)
    exec(compile(file.read_text(), str(file), "exec"), module.__dict__)  # written above
    return module


def found(report: ContractReport, severity: str) -> set[str]:
    """`agent:key` of each finding about a key; of another, its code."""
    issues = getattr(report, severity)
    return {f"{issue.agent}:{issue.key}" if issue.key else f"{issue.agent}:{issue.code}" for issue in issues}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # ADK's own, of its composites
@every_project
def test_a_check_finds_what_was_planted_and_nothing_else(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors and warnings are those expected, and each unknown agent is named once."""
    report = adopt(loaded(project, tmp_path, monkeypatch).root_agent).check()
    assert found(report, "errors") == set(project.errors)
    assert found(report, "warnings") == set(project.warnings)
    notes = [issue for issue in report.infos if issue.code == "unknown-access"]
    assert [issue.agent for issue in notes] == list(project.unknown)


def test_there_are_enough() -> None:
    """Forty projects and more, half of them without a fault, each with a name of its own."""
    assert len(PROJECTS) == len({project.name for project in PROJECTS}) >= 40
    assert sum(not (project.errors or project.warnings) for project in PROJECTS) >= 15
