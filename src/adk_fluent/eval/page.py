"""Reports as a page: totals, a line a case, and the turns of those that failed beside what was expected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from adk_fluent import _html as html
from adk_fluent.eval.markdown import verdict
from adk_fluent.eval.results import CaseResult, CaseSummary, TurnResult

if TYPE_CHECKING:
    from adk_fluent.eval.report import FluentEvalReport

_STYLE: Final = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em}"
    "summary{cursor:pointer;font-weight:bold;margin:.6em 0}ul{margin:.3em 0}"
)

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def to_html(report: FluentEvalReport, baseline: FluentEvalReport | None) -> str:
    """A report as one page that needs no other file, and in which nothing runs."""
    return "".join(_page(report, baseline))


def _page(report: FluentEvalReport, baseline: FluentEvalReport | None) -> Iterator[str]:
    title = html.text(report.name)
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n"
    )
    cases = list(report.cases.values())
    passed = sum(case.passed for case in cases)
    runs = f"{report.pass_rate:.0%} of {len(report.case_results)} runs"
    yield f"<p>{passed} of {len(cases)} cases passed, {runs}.</p>\n"
    yield from (f"<p>{html.text(note)}</p>\n" for note in report.notes)
    if baseline is not None:
        yield html.title("Since the baseline") + html.preformatted(report.compare(baseline).summary)
    metrics = list(report.per_metric)
    rows = [[case.eval_id, verdict(case), *_scores(case, metrics), f"{case.seconds:.2f}"] for case in cases]
    yield html.table(["case", "verdict", *metrics, "seconds"], rows)
    if report.per_tag:
        tags = [[tag, found.cases, f"{found.pass_rate:.0%}"] for tag, found in report.per_tag.items()]
        yield html.title("Tags") + html.table(["tag", "cases", "pass rate"], tags)
    for case in report.failed:
        yield from _failed(case)
    yield "\n</body></html>\n"


def _scores(case: CaseSummary, metrics: Iterable[str]) -> list[str]:
    return [str(case.scores.get(metric, "")) for metric in metrics]


def _failed(case: CaseSummary) -> Iterator[str]:
    yield f"\n<h2>{html.text(case.eval_id)}</h2>"
    for run in case.runs:
        if not run.passed:
            yield from _run(run, len(case.runs))


def _run(run: CaseResult, runs: int) -> Iterator[str]:
    heading = f"run {run.run} of {runs}" if runs > 1 else "what went wrong"
    yield f"<details open><summary>{heading}</summary><ul>"
    yield "".join(f"<li>{html.text(why)}</li>" for why in run.failures)
    yield "</ul>"
    yield html.table(
        ["turn", "user", "expected", "actual"], map(_turn, range(1, len(run.turns) + 1), run.turns)
    )
    yield "</details>"


def _turn(number: int, turn: TurnResult) -> list[object]:
    expected = [_call(name, args) for name, args in turn.expected_calls or ()]
    if turn.expected_calls == ():
        expected = ["no tool"]
    actual = [_call(name, args) for name, args in turn.calls]
    return [
        number,
        turn.said,
        "\n".join([*expected, *([turn.reference] if turn.reference is not None else [])]),
        "\n".join([*actual, turn.answer]),
    ]


def _call(name: str, args: Mapping[str, Any] | None) -> str:
    """A call as a line; `…` stands for arguments that may be any."""
    if args is None:
        return f"{name}(…)"
    shown = (f"{key}={json.dumps(value, ensure_ascii=False, default=repr)}" for key, value in args.items())
    return f"{name}({', '.join(shown)})"
