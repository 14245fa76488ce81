"""What a report says, and how it is kept, shown and compared."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_fluent.errors import EvalError
from adk_fluent.eval import FluentCase, FluentEvalReport
from adk_fluent.eval.comparing import fisher, permutation
from adk_fluent.eval.progress import bar
from adk_fluent.eval.results import CaseResult, Score, TurnResult
from tests.eval.support import desk

HOSTILE = "<script>alert('x')</script> | \x00 & ]]>"


def run(name: str, passed: bool, score: float = 1.0, number: int = 1, tags: Sequence[str] = ()) -> CaseResult:
    """One run of a case."""
    said = Score("match", score, 0.5, passed, () if passed else (f"{name} is wrong",))
    turn = TurnResult("Hi", "Hello.", (("tool", {"a": 1}),), "Hey.", (("tool", None),), 0.5)
    return CaseResult(
        eval_id=name,
        run=number,
        passed=passed,
        scores=(said,),
        turns=(turn,),
        tags=tuple(tags),
        seconds=0.5,
        tokens=7,
        cost=Decimal("0.001"),
    )


def report(**cases: Sequence[bool] | Sequence[float]) -> FluentEvalReport:
    """A report of cases, each with its runs: whether each passed, or its score."""
    runs = [
        run(name, bool(given) if isinstance(given, bool) else given >= 0.5, float(given), number)
        for name, all_given in cases.items()
        for number, given in enumerate(all_given, 1)
    ]
    return FluentEvalReport(tuple(runs))


def test_rates_per_tag_and_metric() -> None:
    """The pass rate is over runs; tags and metrics have theirs; a misspelt tag is told with the nearest."""
    runs = (run("a", True, 1.0, tags=["x"]), run("b", False, 0.2, tags=["x", "y"]))
    found = FluentEvalReport(runs)
    assert found.pass_rate == 0.5
    assert found.per_tag["x"].pass_rate == 0.5
    assert (found.per_tag["y"].cases, found.per_tag["y"].passes) == (1, 0)
    assert found.per_tag["y"].scores["match"].mean == 0.2
    assert found.per_metric["match"].mean == 0.6
    assert found.cost == Decimal("0.002")
    with pytest.raises(KeyError, match="No case has the tag 'yyy'"):
        found.per_tag["yyy"]
    assert FluentEvalReport(()).pass_rate == 0


def test_a_report_that_is_saved_loads_equal(tmp_path: Path) -> None:
    """Everything but ADK's own objects comes back."""
    whole = FluentEvalReport(
        (run("a", True, tags=["x"]), replace(run("b", False), error="it broke", cost=None)),
        name="desk",
        versions={"google-adk": "2"},
        notes=("It rained.",),
    )
    path = tmp_path / "report.json"
    whole.save(path)
    assert FluentEvalReport.load(path) == whole
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


async def test_a_real_report_round_trips(tmp_path: Path) -> None:
    """Predicates and native objects in its cases are no obstacle."""
    case = FluentCase("x", state_assertions={"intent": lambda v: False}, expected_trajectory=["open_ticket"])
    made = await desk(case, metrics=["tool_trajectory_avg_score"]).run(engine="light")
    made.save(tmp_path / "r.json")
    assert FluentEvalReport.load(tmp_path / "r.json") == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": ', "not JSON at line 1, column 12"),
        ("[]", "no report of an evaluation"),
        ('{"format": "adk-fluent.eval-report", "version": 2}', "version 2, and this reads version 1"),
        ('{"format": "adk-fluent.eval-report", "version": 1, "case_results": [{}]}', "no whole report"),
        ("\xff", "not JSON at line 1"),
    ],
)
def test_what_is_no_report_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    """Truncated, foreign, newer, or incomplete."""
    path = tmp_path / "r.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(EvalError, match=said) as told:
        FluentEvalReport.load(path)
    assert "\n" not in str(told.value)
    with pytest.raises(EvalError, match="cannot be read"):
        FluentEvalReport.load(tmp_path / "none.json")
    with pytest.raises(EvalError, match="cannot be written"):
        report(a=[True]).save(tmp_path / "none" / "r.json")


def test_newer_fields_are_no_obstacle(tmp_path: Path) -> None:
    """A newer version of the same format may say more."""
    path = tmp_path / "r.json"
    text = report(a=[True]).to_json().replace('"metric":', '"colour": "red", "metric":')
    path.write_text(text.replace('"name": "eval"', '"name": "eval", "mood": "good"'), encoding="utf-8")
    assert FluentEvalReport.load(path) == report(a=[True])


def test_older_reports_have_no_notes(tmp_path: Path) -> None:
    """They load all the same."""
    path = tmp_path / "r.json"
    path.write_text(report(a=[True]).to_json().replace(' "notes": [],\n', ""), encoding="utf-8")
    assert "notes" not in path.read_text(encoding="utf-8")
    assert FluentEvalReport.load(path) == report(a=[True])


@pytest.mark.parametrize(
    ("before", "now", "verdict"),
    [
        ([True], [False], "regressed"),
        ([True] * 2, [False] * 2, "regressed"),
        ([True, True, False, True], [True, False, False, True], "noise"),
        ([True] * 4, [True, True, True, False], "noise"),
        ([True] * 8, [True] + [False] * 7, "regressed"),
        ([False] * 8, [True] * 7 + [False], "improved"),
        ([False], [True], "improved"),
        ([True, False], [False, True], "same"),
        ([0.9, 0.92], [0.91, 0.9], "noise"),
        ([0.9, 0.92, 0.91], [0.6, 0.61, 0.62], "declined"),
        ([0.9, 0.9], [0.8, 0.8], "declined"),
        ([0.9], [0.8], "noise"),
        ([0.6, 0.6], [0.9, 0.9], "improved"),
    ],
)
def test_a_change_within_noise_is_no_regression(
    before: list[bool] | list[float], now: list[bool] | list[float], verdict: str
) -> None:
    """Cases are compared run against run; only what chance does not explain counts."""
    found = report(case=now).compare(report(case=before))
    assert found.changes[0].verdict == verdict
    assert found.ok is (verdict not in ("regressed", "declined"))
    assert [change.eval_id for change in found.regressed] == ["case"] * (verdict == "regressed")


def test_cases_are_compared_by_name() -> None:
    """Whatever their order; those that only one report has are told."""
    found = report(c=[True], a=[False], b=[True]).compare(report(a=[True], b=[True], old=[True]))
    assert [(change.eval_id, change.verdict) for change in found.changes] == [
        ("a", "regressed"),
        ("b", "same"),
    ]
    assert (found.added, found.removed) == (("c",), ("old",))
    assert str(found).splitlines() == [
        "regressed: a  1/1 → 0/1 runs pass (p = 0.5) – a is wrong",
        "new: c",
        "gone: old",
        "1 regressed; 2 cases compared.",
    ]
    none = report(c=[True]).compare(report(old=[True]))
    assert str(none).splitlines()[-1] == "Nothing is compared: no case is in both reports."


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_fisher_is_the_hypergeometric_tail(runs: int, others: int, data: st.DataObject) -> None:
    """The chances of all outcomes add up to 1, and fewer passes are never likelier."""
    passes = data.draw(st.integers(0, runs + others))
    lowest, highest = max(0, passes - runs), min(others, passes)
    tails = [fisher(passes - k, runs, k, others) for k in range(lowest, highest + 1)]
    assert tails == sorted(tails)
    assert tails[-1] == pytest.approx(1.0)


def test_the_permutation_test_by_hand() -> None:
    """Exact for few scores, by draws for many, and never 0."""
    assert permutation([1, 1], [0, 0]) == pytest.approx(1 / 6)
    assert permutation([0.5], [0.5]) == 1
    assert 0 < permutation([1.0 + n / 100 for n in range(20)], [n / 100 for n in range(20)]) < 0.001


def test_markdown_html_and_junit_say_what_failed() -> None:
    """With the turns beside what was expected, in the page; hostile text stays text."""
    failing = run(HOSTILE, False)
    turn = TurnResult(HOSTILE, "Nope.", (("tool", {"a": 1}),), "Hey.", (("other", None),), 0.1)
    runs = (replace(failing, turns=(turn,)), run("good", True))
    whole = FluentEvalReport(runs, name=HOSTILE, notes=(f"It rained: {HOSTILE}",))
    markdown = whole.to_markdown()
    assert "1 of 2 cases passed" in markdown
    assert "\nIt rained: " in markdown
    assert "<script>" not in markdown
    assert "| good | passed | 1 | 0.50 | $0.0010 |" in markdown
    page = whole.to_html(baseline=report(good=[False]))
    assert "<script>" not in page
    assert "improved: good" in page
    assert "<p>It rained: " in page
    row = page[page.index("<details open>") :]
    assert row.index("other(…)") < row.index("Hey.") < row.index("tool(a=1)") < row.index("Nope.")
    suites = ElementTree.fromstring(whole.to_junit())
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("2", "1", "0")
    (failure,) = suites.iter("failure")
    assert "is wrong" in (failure.get("message") or "")
    broken = FluentEvalReport((replace(run("b", False), error="it broke"),)).to_junit()
    assert ElementTree.fromstring(broken).find("testsuite/testcase/error") is not None


@pytest.mark.parametrize(
    ("value", "threshold", "said"),
    [
        (0.49999, 0.5, "match is 0.49999, below 0.5"),
        (0.7 - 1e-16, 0.7, "match is 0.6999999999999998, below 0.7"),
        (0.3, 0.1 + 0.2, "match is 0.29999999999999999, below 0.30000000000000004"),
        (0.5, 0.5, "match did not pass: it is 0.5, and the threshold 0.5"),
        (0.6, 0.5, "match did not pass: it is 0.6, and the threshold 0.5"),
    ],
)
def test_a_score_is_told_from_its_threshold(value: float, threshold: float, said: str) -> None:
    """In every form of a report, with as many digits as it takes; what is not too low is not called so."""
    failed = CaseResult("x", scores=(Score("match", value, threshold, False),))
    whole = FluentEvalReport((failed,))
    for shown in (str(whole), whole.to_markdown(), whole.to_html(), whole.to_junit()):
        assert said in shown


def test_a_bar_shows_how_far_a_suite_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, in one line; elsewhere nothing."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    drawn = "\rdesk  ███████░░░░░░░  1/2\rdesk  ██████████████  2/2\n"
    for stream, shown in ((Terminal(), drawn), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr("adk_fluent.eval.progress._WIDTH", 14)
        draw = bar("desk")
        draw(1, 2)
        draw(2, 2)
        assert stream.getvalue() == shown
