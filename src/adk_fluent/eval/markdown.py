"""Reports as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from adk_fluent.eval.results import CaseSummary, Spread

if TYPE_CHECKING:
    from adk_fluent.eval.report import FluentEvalReport


def to_markdown(report: FluentEvalReport) -> str:
    """A report as Markdown."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: FluentEvalReport) -> Iterator[str]:
    cases = report.cases.values()
    yield f"# {_cell(report.name)}"
    yield ""
    yield f"{sum(case.passed for case in cases)} of {len(cases)} cases passed; {_totals(report)}."
    for note in report.notes:
        yield from ("", _cell(note))
    if cases:
        yield ""
        yield from _table(report)
    if report.per_tag:
        yield from ("", "| tag | cases | pass rate |", "|---|---|---|")
        for tag, summary in report.per_tag.items():
            yield f"| {_cell(tag)} | {summary.cases} | {summary.pass_rate:.0%} |"
    for case in report.failed:
        yield from ("", f"## {_cell(case.eval_id)}", "")
        yield from (f"- {_cell(why)}" for why in case.failures)


def _totals(report: FluentEvalReport) -> str:
    said = [f"{report.pass_rate:.0%} of {len(report.case_results)} runs"]
    if report.flake_rate:
        said.append(f"{report.flake_rate:.0%} of the cases are flaky")
    said.append(f"{report.seconds:.2f} s a run")
    if report.cost is not None:
        said.append(f"${report.cost:.4f}")
    return ", ".join(said)


def _table(report: FluentEvalReport) -> Iterator[str]:
    metrics = list(report.per_metric)
    yield _row(("case", "verdict", *metrics, "seconds", "cost"))
    yield _row(["---"] * (len(metrics) + 4))
    for case in report.cases.values():
        scores = [_score(case.scores.get(metric)) for metric in metrics]
        cost = "" if case.cost is None else f"${case.cost:.4f}"
        yield _row((case.eval_id, verdict(case), *scores, f"{case.seconds:.2f}", cost))


def verdict(case: CaseSummary) -> str:
    """Passed, failed or flaky, with how many runs passed where there are several."""
    word = "passed" if case.passed else "flaky" if case.is_flaky else "failed"
    return f"{word} {case.passes}/{len(case.runs)}" if len(case.runs) > 1 else word


def _score(spread: Spread | None) -> str:
    return "" if spread is None else str(spread)


def _row(cells: Sequence[str] | Iterable[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Text that stays within a cell or line."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
