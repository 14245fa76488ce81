"""Every branch and step can run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, branch_names
from adk_fluent.analysis.typed import known_type
from adk_fluent.analysis.values.comparing import covers
from adk_fluent.analysis.values.kinds import TEXT, kinds
from adk_fluent.analysis.values.matches import covered, exhaustive
from adk_fluent.contracts.issues import RouteWithoutOtherwise, UnreachableBranch
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.execution import FirstMatch
from adk_fluent.ir.predicates import Match, Predicate


@check(place=160)
def check_reachability(root: object) -> list[ContractIssue]:
    """Every branch and step can run, and every route has one for every case."""
    facts = analyse(root)
    routes = [step for step in facts.steps if isinstance(step.node.runs, FirstMatch)]
    return [
        *(issue for step in routes if facts.reaches(step) for issue in _branches(step, facts)),
        *_skipped(facts),
        *(issue for step in routes if (issue := _open(step, facts)) is not None),
    ]


def _branches(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    runs: FirstMatch = step.node.runs
    tests = runs.tests
    parts = any(isinstance(test, Match) and test.op == "contains" for test in tests)
    before = covered(tests, text=parts and _is_text(step, facts))
    for number, (test, by) in enumerate(zip(tests, before, strict=True)):
        if by is not None:
            earlier = str(by) if isinstance(by, Match) else getattr(by, "__name__", "of a function")
            yield _unreachable(
                step.children[number],
                f"{branch_names(step, [step.children[number]])} of {step.name} can never run",
                f"The test {earlier} comes before it and holds whenever this one does.",
                key=test.key if isinstance(test, Match) else None,
            )
    if runs.default and exhaustive(tests):
        yield _unreachable(
            step.children[-1],
            f"{branch_names(step, step.children[-1:])} of {step.name} can never run",
            f'One of the tests before it always holds, whatever "{runs.key}" is.',
            key=runs.key,
        )


def _is_text(step: Step, facts: Facts) -> bool:
    """Whether all that a route compares is text."""
    known = [known_type(read, facts) for read in facts.reads_of(step) if read.via == "route" and read.reached]
    return all(one is not None and all(kinds(kind) == TEXT for kind in one.types) for one in known)


def _skipped(facts: Facts) -> Iterator[ContractIssue]:
    """Steps that the walk never came to, the first of each row."""
    for step in facts.steps:
        parent = step.parent
        if facts.reaches(step) or (parent is not None and not facts.reaches(parent)):
            continue
        if parent is None or step is _first_unvisited(parent, facts):
            yield _unreachable(
                step,
                f"{step.name} can never run",
                "A transfer before it always hands over and skips the rest of the sequence.\n"
                "Give that transfer a condition, or remove what follows it.",
            )


def _first_unvisited(parent: Step, facts: Facts) -> Step:
    return next(child for child in parent.children if not facts.reaches(child))


def _unreachable(step: Step, message: str, hint: str, key: str | None = None) -> ContractIssue:
    return UnreachableBranch(agent=step.name, key=key, message=message, hint=hint)


def _open(step: Step, facts: Facts) -> ContractIssue | None:
    """A route of several cases without `otherwise`; `.proceed_if` is one case and means to be skipped."""
    runs: FirstMatch = step.node.runs
    tests = runs.tests
    if step.node.annotations.adopted is not None:
        return None  # a graph of ADK's, in which only its functions know which ways they choose
    if runs.default or (runs.key is None and len(tests) == 1) or exhaustive(tests):
        return None
    if _all_covered(step, tests, facts):
        return None
    on = f'Route("{runs.key}") ({step.name})' if runs.key else step.name
    return RouteWithoutOtherwise(
        severity=Severity.INFO,
        agent=step.name,
        key=runs.key,
        message=f"{on} has no otherwise",
        hint="When no test holds, no branch runs and the pipeline goes on. Add .otherwise(...).",
    )


def _all_covered(step: Step, tests: Sequence[Predicate], facts: Facts) -> bool:
    """Whether the key can only be a few values, and there is a test for each."""
    for read in facts.reads_of(step):
        if read.via == "route" and read.key == step.node.runs.key and read.reached:
            known = known_type(read, facts)
            return known is not None and known.values is not None and covers(tests, read.key, known.values)
    return False
