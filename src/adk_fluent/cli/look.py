"""`adk-fluent check`, `explain` and `preview`: what can be known of a pipeline before it runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from adk_fluent.cli.errors import UsageError
from adk_fluent.cli.target import load
from adk_fluent.contracts.report import ContractReport, Severity
from adk_fluent.errors import ArgumentError
from adk_fluent.expr.base import Expr
from adk_fluent.ir.base import root_of

OK, FINDINGS = 0, 1
"""Exit codes of `check`."""


def check(target: str, *, state: Mapping[str, Any], strict: bool, as_json: bool) -> int:
    """Print what the contract checks find; 1 if there are errors.

    Args:
        state: what will be in the session's state before a run.
        strict: make every warning and note an error.

    Raises:
        UsageError: TARGET cannot be loaded, or adk-fluent cannot look inside it.
    """
    subject = _inside(target, "checked")
    with redirect_stdout(sys.stderr):  # what TARGET registered as a check may print
        report = subject.check(state=state, strict=strict)
    _write(report.to_json() if as_json else _findings(report))
    return OK if report.ok else FINDINGS


def explain(target: str, *, as_json: bool) -> int:
    """Print all that is known of TARGET.

    Raises:
        UsageError: TARGET cannot be loaded, or adk-fluent cannot look inside it.
    """
    subject = _inside(target, "explained")
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
        UsageError: TARGET cannot be loaded, or adk-fluent cannot look inside it.
        RunError: a run would fail before it is through.
    """
    if not prompt.strip():
        raise UsageError("PROMPT is empty.")
    subject = _inside(target, "previewed")
    with redirect_stdout(sys.stderr):  # its steps run
        found = asyncio.run(subject.preview(prompt, answers, state=state))
    _write(found.to_json() if as_json else str(found))
    return OK


def _inside(target: str, what: str) -> Expr[Any]:
    """The expression that TARGET is, or was built of."""
    found = load(target)
    if found.expression is not None:
        return found.expression
    try:
        return Expr[Any].from_node(root_of(found.value))
    except ArgumentError as error:
        raise UsageError(
            f"{target} is a {type(found.value).__name__} made with ADK alone. Only expressions, and what "
            f"adk-fluent built of them, can be {what}; `adk-fluent run` runs it, and `adk-fluent viz` draws "
            "ADK's own agents."
        ) from error


def _findings(report: ContractReport) -> str:
    """The findings, worst first, then how many there are of each kind."""
    found = [str(issue) for issue in report.issues if issue.severity is not Severity.OK]
    counts = {"error": report.errors, "warning": report.warnings, "note": report.infos}
    said = [f"{len(issues)} {word}{'s' * (len(issues) != 1)}" for word, issues in counts.items() if issues]
    promises = f"{len(report.oks)} promise{'s hold' if len(report.oks) != 1 else ' holds'}"
    return "\n".join([*found, f"{', '.join(said) or 'Nothing wrong'}; {promises}."])


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
