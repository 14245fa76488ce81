"""Names are unique, branches can be reached, loops can end, gates can wait."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.contracts.effects import effects_of
from adk_fluent.contracts.facts import Facts, facts_of
from adk_fluent.contracts.issues import (
    DuplicateName,
    LoopRunsToLimit,
    NotResumable,
    ParallelWriters,
    RouteWithoutOtherwise,
    UnreachableBranch,
)
from adk_fluent.contracts.matches import covered, exhaustive
from adk_fluent.contracts.plan import Step, branch_names
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.contracts.touches import ends_loops
from adk_fluent.ir.functions import access
from adk_fluent.ir.matching import Match
from adk_fluent.ir.nodes import AgentNode, GateNode, LoopNode, ParallelNode, RouteNode
from adk_fluent.ir.tools import FunctionTool


def check_names(root: object) -> list[ContractIssue]:
    """No two different nodes have one name."""
    facts = facts_of(root)
    return [
        DuplicateName(
            severity=Severity.ERROR,
            agent=name,
            message=f'Two different nodes are called "{name}"',
            hint=f"Nothing could tell them apart. Rename one: .named('{name}_b').",
        )
        for name in facts.plan.clashes
    ]


# --- reachability ---------------------------------------------------------------------------------


def check_reachability(root: object) -> list[ContractIssue]:
    """Every branch and step can run, and every route has one for every case."""
    facts = facts_of(root)
    routes = [step for step in facts.steps if isinstance(step.node, RouteNode)]
    return [
        *(issue for step in routes if step.visits for issue in _branches(step)),
        *_skipped(facts),
        *(issue for step in routes if (issue := _open(step)) is not None),
    ]


def _branches(step: Step) -> Iterator[ContractIssue]:
    node: RouteNode = step.node
    tests = [test for test, _ in node.rules]
    for number, test in enumerate(tests):
        if (by := covered(test, tests[:number])) is not None:
            yield _unreachable(
                step.children[number],
                f"{branch_names(step, [step.children[number]])} of {step.name} can never run",
                f"The test {by} comes before it and holds whenever this one does.",
                key=test.key if isinstance(test, Match) else None,
            )
    if node.default is not None and exhaustive(tests):
        yield _unreachable(
            step.children[-1],
            f"otherwise of {step.name} can never run",
            "One of the tests before it always holds.",
            key=node.key,
        )


def _skipped(facts: Facts) -> Iterator[ContractIssue]:
    """Steps that the walk never came to, the first of each row."""
    for step in facts.steps:
        parent = step.parent
        if step.visits or (parent is not None and not parent.visits):
            continue
        before = parent.children[: parent.children.index(step)] if parent else []
        if all(sibling.visits for sibling in before):
            yield _unreachable(
                step,
                f"{step.name} can never run",
                "A transfer before it always hands over and skips the rest of the sequence.\n"
                "Give that transfer a condition, or remove what follows it.",
            )


def _unreachable(step: Step, message: str, hint: str, key: str | None = None) -> ContractIssue:
    return UnreachableBranch(severity=Severity.WARN, agent=step.name, key=key, message=message, hint=hint)


def _open(step: Step) -> ContractIssue | None:
    """A route of several cases without `otherwise`; `.proceed_if` is one case and means to be skipped."""
    node: RouteNode = step.node
    tests = [test for test, _ in node.rules]
    if node.default is not None or (node.key is None and len(tests) == 1) or exhaustive(tests):
        return None
    on = f'Route("{node.key}") ({step.name})' if node.key else step.name
    return RouteWithoutOtherwise(
        severity=Severity.INFO,
        agent=step.name,
        key=node.key,
        message=f"{on} has no otherwise",
        hint="When no test holds, no branch runs and the pipeline goes on. Add .otherwise(...).",
    )


# --- parallel branches ----------------------------------------------------------------------------


def check_parallel_writers(root: object) -> list[ContractIssue]:
    """No two branches that run at the same time write one key."""
    facts = facts_of(root)
    return [
        issue
        for step in facts.steps
        if isinstance(step.node, ParallelNode) and step.visits
        for issue in _clashes(step)
    ]


def _clashes(step: Step) -> Iterator[ContractIssue]:
    first: dict[str, Step] = {}
    told: set[str] = set()
    for child in step.children:
        for key, writer in effects_of(child).writes.items():
            other = first.setdefault(key, writer)
            if other is not writer and key not in told:
                told.add(key)
                yield ParallelWriters(
                    severity=Severity.WARN,
                    agent=writer.name,
                    key=key,
                    message=f'{other.name} and {writer.name} both write "{key}" at the same time',
                    hint=f"They are branches of {step.name}: whichever is slower wins.\n"
                    "Give each a key of its own and join them with S.merge(..., into=...).",
                )


# --- loops and gates ------------------------------------------------------------------------------


def check_loops(root: object) -> list[ContractIssue]:
    """Every `until` reads something that the loop's body changes."""
    facts = facts_of(root)
    return [
        issue
        for step in facts.steps
        if isinstance(step.node, LoopNode) and (issue := _endless(step, facts)) is not None
    ]


def _endless(step: Step, facts: Facts) -> ContractIssue | None:
    node: LoopNode = step.node
    if node.until is None:
        return None
    touched = access(node.until)
    effects = effects_of(step)
    if not touched.reads or not touched.reads_known or effects.unknown or effects.clears:
        return None
    if touched.reads & (effects.writes.keys() | effects.removes.keys()):
        return None
    inside = facts.steps[step.index : step.end]
    if any(isinstance(inner.node, AgentNode) and ends_loops(inner.node) for inner in inside):
        return None
    key = min(touched.reads)
    read = ", ".join(f'"{name}"' for name in sorted(touched.reads))
    return LoopRunsToLimit(
        severity=Severity.WARN,
        agent=step.name,
        key=key,
        message=f"{step.name} can only run to its limit of {node.max_iterations}",
        hint=f"Its until reads {read}, which nothing in its body writes, so the answer never changes.\n"
        f'Write "{key}" in the body.',
    )


def check_resumable(root: object) -> list[ContractIssue]:
    """Gates and confirmations are only used where a run can wait."""
    facts = facts_of(root)
    if getattr(facts.config, "resumable", None) is not False:
        return []
    return [
        NotResumable(
            severity=Severity.ERROR,
            agent=step.name,
            message=f"{step.name} waits for a person, and resumable=False forbids it",
            hint="Leave ExecutionConfig(resumable=) out, or set it to True.",
        )
        for step in facts.steps
        if isinstance(step.node, GateNode) or (isinstance(step.node, AgentNode) and _asks(step.node))
    ]


def _asks(node: AgentNode) -> bool:
    return any(
        tool.require_confirmation is not False
        if isinstance(tool, FunctionTool)
        else bool(getattr(tool, "_require_confirmation", False))
        for tool in node.tools
    )
