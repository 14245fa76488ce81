"""Check expressions that mix `|` and `>>` without parentheses."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path

from adk_fluent.analysis.facts import analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import MixedOperators
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import InOrder, InParallel
from adk_fluent.ir.frozen import use_of


@check(place=240)
def check_operators(root: object) -> list[ContractIssue]:
    """Note each pipeline that is a branch of `|` and has no parentheses in the source."""
    steps = analyse(root).steps
    found = (
        _mixed(step) for step in steps if isinstance(step.node.runs, InOrder) and step.parent is not None
    )
    return [issue for issue in found if issue is not None]


def _mixed(step: Step) -> ContractIssue | None:
    """The note on a branch such as `b >> c` in `a | b >> c`, if its source can be read."""
    if (
        step.parent is None
        or not isinstance(step.parent.node.runs, InParallel)
        or (used := _used_in(step.node)) is None
    ):
        return None
    file, line, operation = used
    for operand in (operation.left, operation.right):
        is_chain = isinstance(operand, ast.BinOp) and isinstance(operand.op, ast.RShift)
        if isinstance(operation.op, ast.BitOr) and is_chain and _is_bare(operand, operation):
            shown = " >> ".join(child.name for child in step.children)
            return MixedOperators(
                severity=Severity.INFO,
                agent=step.parent.name,
                message=f"{shown} is one branch of {step.parent.name}: >> binds tighter than | "
                f"({Path(file).name}, line {line})",
                hint=f"Write ({shown}), or put the branches of | into parentheses, if that is meant.",
            )
    return None


def _used_in(node: Node) -> tuple[str, int, ast.BinOp] | None:
    """File, line and syntax of the operation that `note_use` recorded; `None` without its source."""
    if (use := use_of(node)) is None:
        return None
    code, last = use
    line, end, column, end_column = list(code.co_positions())[last // 2]
    if line is None or end is None or column is None or end_column is None:
        return None
    lines = [one.encode() for one in linecache.getlines(code.co_filename)[line - 1 : end]]
    if len(lines) != end - line + 1:
        return None
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        parsed = ast.parse(f"({b''.join(lines).decode()})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None
    return (code.co_filename, line, parsed) if isinstance(parsed, ast.BinOp) else None


def _is_bare(operand: ast.expr, operation: ast.BinOp) -> bool:
    """True if an operand has no parentheses: then the operation begins or ends exactly where it does."""
    if operand is operation.left:
        return (operand.lineno, operand.col_offset) == (operation.lineno, operation.col_offset)
    end = (operation.end_lineno, operation.end_col_offset)
    return (operand.end_lineno, operand.end_col_offset) == end
