"""`adk-fluent check`, `explain` and `preview`: what can be known of a pipeline before it runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, cast

from adk_fluent.cli import exchange
from adk_fluent.cli.errors import UsageError
from adk_fluent.cli.places import Places, places_of
from adk_fluent.cli.starting_state import starting_state
from adk_fluent.cli.target import Target, load
from adk_fluent.contracts.report import ContractReport, Severity
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.base import Expr

OK, FINDINGS = 0, 1
"""Exit codes of `check`."""


def check(
    target: str,
    *,
    state: Mapping[str, Any],
    strict: bool,
    as_json: bool,
    github: bool = False,
    sarif: Path | None = None,
    baseline: Path | None = None,
) -> int:
    """Print what the contract checks find; 1 if there are errors.

    Args:
        state: what will be in the session's state before a run, beside what the project passes to
            `create_session(state=...)`.
        strict: make every warning and note an error.
        github: print it as annotations of GitHub's.
        sarif: write it as SARIF, too.
        baseline: leave out what this file knows; one that is not there yet is written.

    Raises:
        UsageError: TARGET cannot be loaded.
    """
    found = load(target)
    subject = inside(target, found)
    with redirect_stdout(sys.stderr):  # what TARGET registered as a check may print
        report = subject.check(state={**starting_state(found), **state}, strict=strict)
    if baseline is not None:
        if not baseline.exists():
            count = exchange.write_baseline(baseline, exchange.findings(report))
            print(f"wrote {baseline}: {count} findings that are known from now on", file=sys.stderr)
        report = exchange.without_known(report, baseline)
    places = places_of(found, subject)
    if sarif is not None:
        _save(sarif, exchange.to_sarif(report, places))
    if github:
        _write(exchange.to_github(report, places))
    else:
        _write(exchange.to_json(report, places) if as_json else _findings(report, places))
    return OK if report.ok else FINDINGS


def _save(file: Path, text: str) -> None:
    try:
        file.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {str(file)!r}: {error.strerror}.") from error


def explain(target: str, *, as_json: bool) -> int:
    """Print all that is known of TARGET.

    Raises:
        UsageError: TARGET cannot be loaded.
    """
    subject = inside(target)
    with redirect_stdout(sys.stderr):
        found = subject.explain()
    _write(found.to_json() if as_json else str(found))
    return OK


def preview(
    target: str,
    prompt: str,
    *,
    answers: Mapping[str, Any],
    state: Mapping[str, Any],
    as_json: bool,
) -> int:
    """Print every request that models would get for PROMPT; no model is asked.

    Args:
        answers: agent → what it answers; what is not here is made up.
        state: what is in the session's state before.

    Raises:
        UsageError: TARGET cannot be loaded.
        RunError: a run would fail before it is through.
    """
    if not prompt.strip():
        raise UsageError("PROMPT is empty.")
    subject = inside(target)
    with redirect_stdout(sys.stderr):  # its steps run
        found = asyncio.run(subject.preview(prompt, answers, state=state))
    _write(found.to_json() if as_json else str(found))
    return OK


def inside(target: str, found: Target | None = None) -> Expr[Any]:
    """The expression that TARGET is, was built of, or, made with ADK alone, can be read as.

    Args:
        found: what TARGET stands for, if it was loaded.

    Raises:
        UsageError: TARGET cannot be loaded.
    """
    found = found or load(target)
    if found.expression is not None:
        return found.expression
    from adk_fluent.adopt.adopting import adopt

    return adopt(cast(Any, found.value))


def _findings(report: ContractReport, places: Places) -> str:
    """The findings, worst first, each with its place, then how many there are of each kind."""
    found = [
        f"{issue}\n  at {places.of(issue.agent)}"
        for issue in report.issues
        if issue.severity is not Severity.OK
    ]
    counts = {"error": report.errors, "warning": report.warnings, "note": report.infos}
    said = [f"{len(issues)} {word}{'s' * (len(issues) != 1)}" for word, issues in counts.items() if issues]
    held = f"; {len(report.oks)} promise{'s hold' if len(report.oks) != 1 else ' holds'}" * bool(report.oks)
    return "\n".join([*found, f"{', '.join(said) or 'No problems found'}{held}."])


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def estimate(target: str, traffic: Mapping[str, Any], *, prices: Mapping[str, Any], as_json: bool) -> int:
    """Print what TARGET will cost.

    Args:
        traffic: the fields of `TrafficAssumptions`; `None` where nothing was given.
        prices: model → `IN,OUT`, in USD per million tokens.

    Raises:
        UsageError: TARGET cannot be loaded, or a number is no number.
    """
    from adk_fluent.cost.estimate import estimate_cost
    from adk_fluent.cost.prices import Price
    from adk_fluent.cost.traffic import TrafficAssumptions

    given: dict[str, Price] = {}
    for model, price in prices.items():
        into, _, out = str(price).partition(",")
        try:
            given[model] = Price.per_million(input=into.strip(), output=out.strip())
        except ArgumentError:
            raise UsageError(
                f"--price takes MODEL=IN,OUT in USD per million tokens, not {model}={price}"
            ) from None
    try:
        assumed = TrafficAssumptions(**{name: value for name, value in traffic.items() if value is not None})
    except ArgumentError as error:
        raise UsageError(str(error)) from None
    found = estimate_cost(inside(target), assumed, prices=given)
    _write(found.to_json() if as_json else str(found))
    return OK
