"""Checks that a tree can be compiled: its depth, its nodes, their names, and the agents that it names.

Expressions that mix operators without parentheses, and runs that cannot wait for a person, are reported, too.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from adk_fluent.analysis.audience import EVERYTHING, visible_history
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three, hand_over_targets
from adk_fluent.contracts import issues
from adk_fluent.contracts.refusals import Refusal, node_refusals
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.contracts.tree_rules import endless_transfers, too_deep, unfed_chunk_steps, unknown_target
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.execution import HandOver, InOrder, InParallel
from adk_fluent.ir.frozen import use_of
from adk_fluent.ir.graph import resolve_names, transfers
from adk_fluent.ir.nodes import agent_of
from adk_fluent.ir.tools import agents_inside, confirms, tool_name
from adk_fluent.spelling import Spelling

# --- depth ----------------------------------------------------------------------------------------


@check(place=10)
def check_nesting(root: object) -> list[ContractIssue]:
    """Report a tree whose run needs more than Python's stack; compiling refuses it, too."""
    facts = analyse(root)
    return [too_deep(facts.root, facts.depth).finding()] if facts.is_too_deep else []


# --- nodes ----------------------------------------------------------------------------------------


@check(place=30)
def check_structure(root: object) -> list[ContractIssue]:
    """Report each reason for which compiling refuses the tree; `check_names` reports names and transfers."""
    facts = analyse(root)
    found = [refusal.finding() for step in facts.steps for refusal in node_refusals(step.node, step.name)]
    found += [
        refusal.finding() for refusal in unfed_chunk_steps((step.node, step.name) for step in facts.steps)
    ]
    return found + [refusal.finding() for refusal in _endless_transfers(facts)]


def _endless_transfers(facts: Facts) -> Iterator[Refusal]:
    if facts.plan.clashes or not any(True for _ in transfers(step.node for step in facts.steps)):
        return
    by_name = {node.name: node for node in walk(resolve_names(facts.root).root)}
    yield from endless_transfers((node for node, _ in transfers(by_name.values())), by_name)


# --- names ----------------------------------------------------------------------------------------


@check(place=20)
def check_names(root: object) -> list[ContractIssue]:
    """Report different nodes with the same name, and transfers to an unknown agent."""
    facts = analyse(root)
    transfers = [step for step in facts.steps if isinstance(step.node.runs, HandOver)]
    names = [step.name for step in facts.steps] if transfers else []
    return [
        *(_name_clash(name) for name in facts.plan.clashes),
        *(
            unknown_target(step.node.runs.target, step.name, names).finding()
            for step in transfers
            if step.target is None
        ),
    ]


def _name_clash(name: str) -> ContractIssue:
    return issues.DuplicateName(
        severity=Severity.ERROR,
        agent=name,
        message=f'Two different nodes are called "{name}"',
        hint=f"A name must identify one node. Rename one: .named('{name}_b').",
    )


# --- names in contexts and instructions -----------------------------------------------------------


_PLACEHOLDER: Final = re.compile(r"\{[^{}]*\}")
_NAME: Final = re.compile(r"\b[A-Za-z]\w*_\w+\b|(?<=`)\w+(?=`)")
"""Words that are names rather than English: those with an underscore, or between backticks."""
_HANDED: Final = re.compile(
    r"\b(?:transfer|delegate|route|hand|forward)\w*\s+(?:(?!to\b|back\b)\w+\s+){0,3}to\s+(?:the\s+)?[`'\"]?"
    r"([A-Za-z]\w*_\w+)|\btransfer_to_agent\(\s*(?:agent_name\s*=\s*)?['\"](\w+)",
    re.IGNORECASE,
)


@check(place=60)
def check_context_contracts(root: object) -> list[ContractIssue]:
    """Check that the tree has every agent that a context spec names or an instruction hands over to."""
    facts = analyse(root)
    return [*_unknown_authors(facts), *(issue for step in facts.steps for issue in _misnamed(step, facts))]


def _unknown_authors(facts: Facts) -> list[ContractIssue]:
    choosy = [step for step in facts.steps if visible_history(step.node) is not EVERYTHING]
    if not choosy:
        return []
    names = {"user", *(name for step in facts.steps for name in (step.name, step.origin))}
    return [issue for step in choosy for issue in _unknown_names(step, names, facts)]


def _unknown_names(step: Step, names: set[str], facts: Facts) -> Iterator[ContractIssue]:
    visible = visible_history(step.node)
    for name in sorted({*(visible.authors or ()), *visible.excluded} - names):
        agents = [other.name for other in facts.steps if other.is_model and other is not step]
        like = Spelling(agents).like(name)
        yield issues.UnknownAgent(
            agent=step.name,
            message=f'{step.name} has {visible.context_name}, and no agent is called "{name}"',
            hint=f'Did you mean "{like}"?' if like else f"The agents here are {', '.join(agents) or 'none'}.",
        )


# --- instructions ---------------------------------------------------------------------------------


def _misnamed(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    """Report names in an instruction that look like a delegate but belong to no agent."""
    targets = [other.name for other in hand_over_targets(step)]
    called = _agents_as_tools(step)
    if not targets and not called:
        return
    text = _PLACEHOLDER.sub(" ", "\n".join(step.node.templates))
    handed = {name for found in _HANDED.findall(text) for name in found if name}
    names = dict.fromkeys([*_NAME.findall(text), *handed])
    if not names:
        return
    tools = step.node.tools
    known = {name for one in facts.steps for name in (one.name, one.origin)} | {*facts.writers, *facts.state}
    known |= {read.key for read in facts.reads} | {tool_name(tool) for tool in tools}
    spelling = Spelling([*targets, *called])
    for name in names:
        meant = spelling.meant(name)
        if name in known or (meant is not None and not _is_slip(name, meant)):
            continue
        named = name.casefold().endswith("agent") and None not in map(tool_name, tools)
        if meant is not None or (targets and name in handed and (named or not tools)):
            yield issues.MisnamedAgent(
                agent=step.name,
                message=f'The instruction of {step.name} names "{name}", and no agent is called so',
                hint=f'Did you mean "{meant}"?'
                if meant
                else f"{step.name} can hand over to {at_most_three(targets)}.",
            )


def _agents_as_tools(step: Step) -> list[str]:
    """The names of the agents that a model calls as tools."""
    adopted = step.node.annotations.adopted
    return [
        name
        for tool in step.node.given.get("tools", ())
        if agents_inside([tool]) or (adopted is not None and adopted.inside(tool) is not None)
        if (name := tool_name(tool)) is not None
    ]


def _is_slip(name: str, meant: str) -> bool:
    """True if the two names differ by more than upper case or a plural "s"."""
    return name.casefold() != meant.casefold() and name + "s" != meant and meant + "s" != name


# --- operators ------------------------------------------------------------------------------------


@check(place=240)
def check_operators(root: object) -> list[ContractIssue]:
    """Note each pipeline that is a branch of `|` and has no parentheses in the source."""
    steps = analyse(root).steps
    found = (
        _mixed_operators(step)
        for step in steps
        if isinstance(step.node.runs, InOrder) and step.parent is not None
    )
    return [issue for issue in found if issue is not None]


def _mixed_operators(step: Step) -> ContractIssue | None:
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
            return issues.MixedOperators(
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


# --- gates ----------------------------------------------------------------------------------------


@check(place=210)
def check_resumable(root: object) -> list[ContractIssue]:
    """Report each gate and confirmation if `resumable=False` forbids a run to wait."""
    facts = analyse(root)
    if getattr(facts.config, "resumable", None) is not False:
        return []
    return [
        issues.NotResumable(
            severity=Severity.ERROR,
            agent=step.name,
            message=f"{step.name} waits for a person, and resumable=False forbids it",
            hint="Leave ExecutionConfig(resumable=) out, or set it to True.",
        )
        for step in facts.steps
        if step.node.asks or ((agent := agent_of(step.node)) is not None and any(map(confirms, agent.tools)))
    ]
