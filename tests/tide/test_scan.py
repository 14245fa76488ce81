"""Scanning the installed google-adk."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel, Field, PrivateAttr

from adk_fluent.tide.diff import diff
from adk_fluent.tide.scan import AGENTS, COMPARED, Scan, callbacks, model_fields, scan
from codegen.markdown import markdown
from codegen.store import stored_scans

if TYPE_CHECKING:
    from google.adk.agents.callback_context import CallbackContext

ALL = [*AGENTS, *COMPARED, "GenerateContentConfig", "BasePlugin"]


@pytest.fixture
def partial(monkeypatch: pytest.MonkeyPatch) -> Scan:
    """A scan that could not import one of the compared modules."""
    scan()  # imports the agents, for which some ADK releases need the apps module
    monkeypatch.setitem(sys.modules, "google.adk.apps.app", None)
    found = scan()
    monkeypatch.undo()
    return found


def test_a_scan_holds_the_public_fields_of_every_class() -> None:
    """Nothing that ADK declares on its agents, configuration or plugins is left out or invented."""
    from google.adk.agents import LlmAgent, RunConfig

    found = scan()
    assert list(found.classes) == ALL
    assert not found.unavailable
    assert [f.name for f in found.classes["LlmAgent"]] == list(LlmAgent.model_fields)
    assert [f.name for f in found.classes["RunConfig"]] == list(RunConfig.model_fields)
    assert {"before_model_callback", "on_event_callback"} <= {f.name for f in found.classes["BasePlugin"]}


def test_a_scan_is_the_same_after_a_round_trip_through_json() -> None:
    """Storing a scan loses nothing."""
    found = scan()
    assert Scan.from_json(found.to_json()) == found


def test_the_stored_scan_of_the_installed_release_is_current() -> None:
    """A committed scan is what scanning that release gives, so reports can be trusted."""
    found = scan()
    stored = {s.adk_version: s for s in stored_scans()}
    assert stored.get(found.adk_version, found) == found


def test_a_scan_of_another_schema_version_is_refused() -> None:
    """An old file says how to renew it instead of failing somewhere later."""
    document = json.loads(scan().to_json()) | {"schema_version": 0}
    with pytest.raises(ValueError, match="python -m codegen scan"):
        Scan.from_json(json.dumps(document))


def test_a_missing_optional_module_is_reported_and_the_rest_is_scanned(partial: Scan) -> None:
    """An ADK without one of the compared modules gives a scan that names what it could not read."""
    whole = scan()
    missing = {"App", "ResumabilityConfig", "EventsCompactionConfig"}
    assert set(partial.unavailable) == missing
    assert partial.classes == {n: f for n, f in whole.classes.items() if n not in missing}


def test_what_could_not_be_scanned_is_not_reported_as_removed(partial: Scan) -> None:
    """A class missing on one side is listed as not compared, never as a change of ADK."""
    report = diff(scan(), partial)
    assert not report.changes
    assert "App" in report.not_compared
    assert "- App:" in markdown(report)


class Model(BaseModel):
    needed: int
    text: str = "x"
    numbers: list[int] = Field(default_factory=list[int])
    limit: int = Field(default_factory=lambda: 500)
    path: Path | None = None
    _secret: int = PrivateAttr(default=1)


def test_defaults_are_told_as_source_and_private_attributes_left_out() -> None:
    """Each field has its type, its default as one would write it, and whether it must be given."""
    assert [(f.name, f.type, f.default, f.required) for f in model_fields(Model)] == [
        ("needed", "int", None, True),
        ("text", "str", "'x'", False),
        ("numbers", "list[int]", "list()", False),
        ("limit", "int", "500", False),
        ("path", "Path | None", "None", False),
    ]


class Plugin:
    def before(self, *, context: CallbackContext, maybe: Path | None = None) -> None: ...

    def _hidden(self) -> None: ...


def test_hooks_are_told_by_signature_even_when_a_name_cannot_be_resolved() -> None:
    """A name that ADK imports for type checkers only does not stop the scan."""
    (hook,) = callbacks(Plugin)
    assert (hook.name, hook.type) == ("before", "(*, context: Context, maybe: Path | None) -> None")
