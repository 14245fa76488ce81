"""Reports of what changed between two ADK releases."""

from __future__ import annotations

import json
from itertools import pairwise

from pydantic import BaseModel

from adk_fluent.tide.diff import Diff, diff
from adk_fluent.tide.scan import Scan, model_fields
from codegen.markdown import markdown
from codegen.store import REPORTS, stored_scans


class Before(BaseModel):
    kept: int | str
    retyped: int
    relaxed: int
    redefaulted: int = 1
    gone: str = ""


class After(BaseModel):
    kept: str | int
    retyped: str
    relaxed: int = 0
    redefaulted: int = 2
    new: str | None = None


class Demanding(After):
    must: int


def scan_of(version: str, model: type[BaseModel]) -> Scan:
    """A scan with one class, `Agent`, that has the fields of `model`."""
    return Scan(version, {"Agent": model_fields(model)}, {}, {})


def report() -> Diff:
    """From `Before` to `After`."""
    return diff(scan_of("1.0.0", Before), scan_of("2.0.0", After))


def test_fields_are_sorted_into_added_removed_and_changed() -> None:
    """Each difference is told once, under what it is; another order of a union is none."""
    found = report()
    assert [c.field for c in found.added] == ["new"]
    assert [c.field for c in found.removed] == ["gone"]
    assert {c.field: c.aspects for c in found.changed} == {
        "retyped": ("type",),
        "relaxed": ("default", "required"),
        "redefaulted": ("default",),
    }


def test_only_additions_merge_by_themselves() -> None:
    """Removed and changed fields wait for a person; so does a new one that must be given."""
    found = report()
    assert [c.field for c in found.changes if c.auto_mergeable] == ["new"]
    assert not found.auto_mergeable
    grown = diff(scan_of("1.0.0", After), scan_of("2.0.0", Demanding))
    assert [(c.field, c.auto_mergeable) for c in grown.added] == [("must", False)]


def test_equal_scans_give_an_empty_report() -> None:
    """No change means nothing to report, and nothing that stops an upgrade."""
    found = diff(scan_of("1.0.0", Before), scan_of("1.0.1", Before))
    assert not found.changes
    assert found.auto_mergeable


def test_json_and_markdown_tell_the_same() -> None:
    """Machines and people are told about the same fields."""
    found = report()
    document = json.loads(found.to_json())
    assert [c["field"] for c in document["changed"]] == ["retyped", "relaxed", "redefaulted"]
    assert document["removed"][0]["auto_mergeable"] is False
    assert document["added"][0]["after"] == {"type": "str | None", "default": "None", "required": False}
    for change in found.changes:
        assert f"`{change.field}`" in markdown(found)


def test_committed_reports_are_what_the_committed_scans_give() -> None:
    """Reports in the repository are never edited by hand or forgotten."""
    scans = stored_scans()
    found = [diff(old, new) for old, new in pairwise(scans)]
    expected = {f"{d.before}-to-{d.after}": (d.to_json(), markdown(d)) for d in found}
    stored = {
        path.stem: (path.read_text(encoding="utf-8"), path.with_suffix(".md").read_text(encoding="utf-8"))
        for path in REPORTS.glob("*.json")
    }
    assert stored == expected


def test_unified_context_classes_are_no_change_of_any_callback() -> None:
    """From 1.25.0 on no callback's signature changed, though ADK renamed the contexts in between."""
    scans = stored_scans()
    changed = {c.field for c in diff(scans[0], scans[-1]).changed}
    assert not [name for name in changed if name.endswith("_callback")]


def test_real_changes_between_stored_releases_are_found() -> None:
    """The reports tell what ADK's own release history tells."""
    found = {s.adk_version: s for s in stored_scans()}
    to_1_39 = diff(found["1.25.0"], found["1.39.1"])
    assert [(c.cls, c.field) for c in to_1_39.changed] == [("LlmAgent", "output_schema")]
    to_2_13 = diff(found["1.39.1"], found["2.13.0"])
    added = {c.field for c in to_2_13.added if c.cls == "LlmAgent"}
    assert added == {
        "rerun_on_resume",
        "wait_for_output",
        "retry_config",
        "timeout",
        "state_schema",
        "mode",
        "parallel_worker",
    }
    assert not to_2_13.removed
