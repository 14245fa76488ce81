"""`adk-fluent eval`: run a suite, and say whether it passed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from adk_fluent.cli.errors import UsageError
from adk_fluent.cli.target import Kind, load
from adk_fluent.errors import EvalError
from adk_fluent.eval import FluentEvalReport, FluentEvalSuite, RegressionReport

PASSED, FAILED = 0, 1
"""Exit codes of `eval`."""

_SUITES: Final = Kind(
    "evaluation suite (FluentEvalSuite)", ("suite",), lambda value: isinstance(value, FluentEvalSuite)
)


@dataclass(frozen=True)
class EvalOptions:
    """What a call of `eval` asks for.

    Attributes:
        suite: `module:attr`, `path/file.py:attr`, or a YAML or `.evalset.json` file.
        pipeline: the TARGET that a file of cases is run on.
        baseline: the report to compare with.
        output: where the report goes as JSON, for a later baseline.
        junit: where it goes as JUnit XML.
        html: where it goes as a page.
        markdown: where it goes as Markdown.
        tags: run only cases with one of these.
        runs: how often each case is run, in place of what the suite says.
        parallelism: how many runs go on at the same time.
        as_json: print the report as JSON.
        allow_unjudged: a case passes although something in it was not judged.
    """

    suite: str
    pipeline: str | None = None
    baseline: Path | None = None
    output: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    markdown: Path | None = None
    tags: Sequence[str] = ()
    runs: int | None = None
    parallelism: int = 4
    as_json: bool = False
    allow_unjudged: bool = False


def evaluate(wanted: EvalOptions) -> int:
    """Run a suite and print a line a case; 1 if one failed, or got worse than the baseline.

    Raises:
        UsageError: the suite, the pipeline or the baseline cannot be loaded, or the suite cannot be run.
    """
    try:
        baseline = None if wanted.baseline is None else FluentEvalReport.load(wanted.baseline)
        for path in (wanted.output, wanted.junit, wanted.html, wanted.markdown):
            if path is not None and not path.absolute().parent.is_dir():
                raise UsageError(f"There is no folder {str(path.parent)!r} to write {path.name} into.")
        with redirect_stdout(sys.stderr):  # what TARGET may print
            suite = _suite(wanted)
            report = asyncio.run(
                suite.run(
                    parallelism=wanted.parallelism,
                    tags=wanted.tags,
                    progress=not wanted.as_json,
                    allow_unjudged=wanted.allow_unjudged,
                )
            )
        _write(report, baseline, wanted)
    except EvalError as error:
        raise UsageError(str(error)) from error
    changes = None if baseline is None else report.compare(baseline)
    sys.stdout.write(_shown(report, changes, as_json=wanted.as_json))
    return PASSED if report.passed and (changes is None or changes.ok) else FAILED


def _suite(wanted: EvalOptions) -> FluentEvalSuite:
    text = wanted.suite
    if not text.endswith((".yaml", ".yml", ".json")):
        if wanted.pipeline is not None:
            raise UsageError("--pipeline goes with a file of cases; a suite in Python names its own.")
        found: Any = load(text, _SUITES).value
    else:
        if wanted.pipeline is None and not Path(text).is_file():
            raise UsageError(f"There is no file {text!r}.")
        if wanted.pipeline is None:
            raise UsageError(f"{text} says no pipeline to run its cases on: --pipeline TARGET.")
        pipeline = load(wanted.pipeline).value
        read = FluentEvalSuite.from_eval_set if text.endswith(".json") else FluentEvalSuite.from_yaml
        found = read(text, pipeline)
    return found if wanted.runs is None else replace(found, num_runs=wanted.runs)


def _write(report: FluentEvalReport, baseline: FluentEvalReport | None, wanted: EvalOptions) -> None:
    from adk_fluent.eval.stored import write

    for path, text in (
        (wanted.output, report.to_json),
        (wanted.junit, report.to_junit),
        (wanted.html, lambda: report.to_html(baseline)),
        (wanted.markdown, report.to_markdown),
    ):
        if path is not None:
            write(path, text())


def _shown(report: FluentEvalReport, changes: RegressionReport | None, *, as_json: bool) -> str:
    if not as_json:
        return f"{report.summary}\n" if changes is None else f"{report.summary}\n\n{changes.summary}\n"
    whole: dict[str, Any] = json.loads(report.to_json())
    if changes is not None:
        whole["changes"] = {change.eval_id: change.verdict for change in changes.changes}
    return f"{json.dumps(whole, indent=1, ensure_ascii=False)}\n"
