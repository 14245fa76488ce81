"""Checks that every branch and step can run, that loops can end, and that maps use their items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adk_fluent.analysis.facts import Facts, analyse, known_type
from adk_fluent.analysis.plan import Step, branch_names
from adk_fluent.analysis.values.kinds import TEXT, covering_tests, covers, exhaustive, kinds
from adk_fluent.contracts.issues import LoopRunsToLimit, RouteWithoutOtherwise, UnreachableBranch, UnreadItem
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import FirstMatch, PerItem, Repeated
from adk_fluent.ir.functions import access, said, shown_by
from adk_fluent.ir.nodes import CALLBACK_FIELDS, NO_LIMIT, agent_of
from adk_fluent.ir.predicates import Match, Predicate
from adk_fluent.ir.tools import ends_loops, may_leave_loops, pauses

# --- branches -------------------------------------------------------------------------------------


@check(place=160)
def check_reachability(root: object) -> list[ContractIssue]:
    """Report branches and steps that never run, and routes without a branch for some case."""
    facts = analyse(root)
    routes = [step for step in facts.steps if isinstance(step.node.runs, FirstMatch)]
    return [
        *(issue for step in routes if facts.reaches(step) for issue in _dead_branches(step, facts)),
        *_skipped_steps(facts),
        *(issue for step in routes if (issue := _open_route(step, facts)) is not None),
    ]


def _dead_branches(step: Step, facts: Facts) -> Iterator[ContractIssue]:
    runs: FirstMatch = step.node.runs
    tests = runs.tests
    parts = any(isinstance(test, Match) and test.op == "contains" for test in tests)
    before = covering_tests(tests, text=parts and _is_text(step, facts))
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
    """True if all values that a route compares are text."""
    known = [known_type(read, facts) for read in facts.reads_of(step) if read.via == "route" and read.reached]
    return all(one is not None and all(kinds(kind) == TEXT for kind in one.types) for one in known)


def _skipped_steps(facts: Facts) -> Iterator[ContractIssue]:
    """Report steps that the walk did not reach: of several in a row only the first."""
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


def _open_route(step: Step, facts: Facts) -> ContractIssue | None:
    """The note on a route of several cases without `otherwise`; none on `.proceed_if`, which may skip."""
    runs: FirstMatch = step.node.runs
    tests = runs.tests
    if step.node.annotations.adopted is not None:
        return None  # in a graph built with ADK, functions choose the ways: the tests do not show all
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
        hint="When no test holds, no branch runs, and the next step follows. Add .otherwise(...).",
    )


def _all_covered(step: Step, tests: Sequence[Predicate], facts: Facts) -> bool:
    """True if the key has only a few possible values, and a test covers each of them."""
    for read in facts.reads_of(step):
        if read.via == "route" and read.key == step.node.runs.key and read.reached:
            known = known_type(read, facts)
            return known is not None and known.values is not None and covers(tests, read.key, known.values)
    return False


# --- loops ----------------------------------------------------------------------------------------


@check(place=180)
def check_loops(root: object) -> list[ContractIssue]:
    """Check that each body changes a key that `until` reads, and that a loop without a limit can end."""
    facts = analyse(root)
    loops = [step for step in facts.steps if isinstance(step.node.runs, Repeated)]
    found = [_runs_to_limit(step, keys) for step in loops if (keys := unchanging(step, facts))]
    return [*found, *(_without_way_out(step) for step in loops if _never_ends(step, facts))]


def _never_ends(step: Step, facts: Facts) -> bool:
    """True if a `LoopAgent` has no limit, and no agent, tool, callback or plugin can end it."""
    runs: Repeated = step.node.runs
    of_a_graph = not step.node.name
    if runs.until is not None or runs.max_rounds < NO_LIMIT or of_a_graph:
        return False
    plugins = [plugin for outer in (step, *step.above()) for plugin in outer.node.annotations.middleware]
    inside = facts.steps[step.index + 1 : step.end]
    return not any(map(may_leave_loops, plugins)) and not any(_may_leave(inner.node) for inner in inside)


def _may_leave(node: Node) -> bool:
    if node.as_given is not None and may_leave_loops(node.as_given.value):
        return True
    callbacks = [fn for name in CALLBACK_FIELDS for fn in node.given.get(name, ())]
    tools = agent.tools if (agent := agent_of(node)) else ()
    return ends_loops(tools) or any(map(pauses, tools)) or any(map(may_leave_loops, (*callbacks, *tools)))


def _without_way_out(step: Step) -> ContractIssue:
    return LoopRunsToLimit(
        agent=step.name,
        message=f"{step.name} never ends: it has no limit and no way out",
        hint="No tool, callback or agent in it sets escalate.\n"
        "Give it max_iterations=, or an agent in it the tool exit_loop.",
    )


def unchanging(step: Step, facts: Facts) -> frozenset[str]:
    """The keys that a loop's `until` reads if its body cannot change the result; otherwise no keys."""
    until = step.node.runs.until
    nothing: frozenset[str] = frozenset()
    if until is None:
        return nothing
    touched = access(until)
    effects = facts.effects_of(step)
    if said(until) is None and not shown_by(until).by_state:
        return nothing  # a clock, or anything else outside the state, may change the answer
    if not touched.reads_known or effects.unknown or effects.clears:
        return nothing
    if touched.reads & (effects.writes.keys() | effects.removes.keys()):
        return nothing
    agents = (agent_of(inner.node) for inner in facts.steps[step.index : step.end])
    if any(agent is not None and ends_loops(agent.tools) for agent in agents):
        return nothing
    return touched.reads


def _runs_to_limit(step: Step, keys: frozenset[str]) -> ContractIssue:
    read = ", ".join(f'"{name}"' for name in sorted(keys))
    return LoopRunsToLimit(
        agent=step.name,
        key=min(keys),
        message=f"{step.name} can only run to its limit of {step.node.runs.max_rounds}",
        hint=f"Its until reads {read}, which nothing in its body writes, so the answer never changes.\n"
        f'Write "{min(keys)}" in the body.',
    )


# --- maps -----------------------------------------------------------------------------------------


@check(place=190)
def check_maps(root: object) -> list[ContractIssue]:
    """Report each map whose body asks a model but does not read the item."""
    facts = analyse(root)
    maps = [step for step in facts.steps if isinstance(step.node.runs, PerItem) and facts.reaches(step)]
    return [_unread_item(step, facts) for step in maps if not _reads_item(step, facts)]


def _reads_item(step: Step, facts: Facts) -> bool:
    """True if a step inside may read the item, or if the body asks no model and so need not read it."""
    inside = facts.steps[step.index + 1 : step.end]
    if not any(inner.is_model for inner in inside) or any(inner in facts.unknown[0] for inner in inside):
        return True
    key = step.node.runs.item_key
    agents = (inner.node for inner in inside if agent_of(inner.node) is not None)
    return _has_reader(key, inside, facts) or any(key in text for node in agents for text in node.templates)


def _has_reader(key: str, steps: list[Step], facts: Facts) -> bool:
    return any(read.key == key for step in steps for read in facts.reads_of(step))


def _unread_item(step: Step, facts: Facts) -> ContractIssue:
    runs: PerItem = step.node.runs
    body, whole = (
        step.children[0].name,
        _has_reader(runs.items, facts.steps[step.index + 1 : step.end], facts),
    )
    return UnreadItem(
        severity=Severity.INFO,
        agent=step.name,
        key=runs.item_key,
        message=f'{step.name} runs {body} once per item of "{runs.items}", and nothing in it reads '
        f"{{{runs.item_key}}}",
        hint="So every item gets the same request. "
        + (f"{{{runs.items}}} is the whole list; for" if whole else "For")
        + f" one item write {{{runs.item_key}}}.",
    )
