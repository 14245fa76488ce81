"""What crosses an execution boundary survives it."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.analysis.cuts import Stretch, boundaries, obstacle, schema_fields, stretches
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.findings.boundaries import in_the_way
from adk_fluent.contracts.findings.missing import about
from adk_fluent.contracts.issues import BoundaryTempKey, BoundaryType, BoundaryUncuttable, BoundaryUndeclared
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.state_keys import is_temporary
from adk_fluent.ir.tools import agents_inside
from adk_fluent.state.effects import effects_of
from adk_fluent.state.plain_data import is_plain


@check(place=120)
def check_boundary_contracts(root: object) -> list[ContractIssue]:
    """A run can be cut at its boundaries, and all that crosses is declared and can be written as data."""
    facts = analyse(root)
    lost = [*_in_tools(facts)]
    if not boundaries(facts):
        return lost
    lost += _temporary(facts)
    parts = stretches(facts)
    cuts = [part.cut for part in parts[1:] if part.cut is not None]
    return [*lost, *_uncuttable(facts), *_unserializable(facts, cuts), *_undeclared(facts, parts)]


def _temporary(facts: Facts) -> Iterator[ContractIssue]:
    """Reads of `temp:` keys that a boundary takes; other checks, of what reads them, find the same ones."""
    for read in facts.reads:
        if is_temporary(read.key):
            found = about(read, facts)
            if isinstance(found, BoundaryTempKey):
                yield found


def _in_tools(facts: Facts) -> Iterator[ContractIssue]:
    for step in facts.steps:
        for body in agents_inside(agent.tools if (agent := step.node.agent) is not None else ()):
            for node in walk(body):
                if node.annotations.boundary is not None:
                    yield BoundaryUncuttable(
                        agent=step.name,
                        message=f"the execution boundary of {node.name!r} stands inside a tool of "
                        f"{step.name}, which runs as a whole",
                        hint="Nothing is cut there: a tool runs where its agent does.\n"
                        f"Put the boundary on {step.name!r}, or on a step of the pipeline around it.",
                    )


def _uncuttable(facts: Facts) -> Iterator[ContractIssue]:
    for step in boundaries(facts):
        problem = obstacle(facts, step)
        if problem is not None:
            message, hint = in_the_way(problem)
            yield BoundaryUncuttable(
                agent=step.name,
                message=message,
                hint=f"A run in one process goes on there; split() refuses it.\n{hint}",
            )


def _unserializable(facts: Facts, cuts: list[Step]) -> Iterator[ContractIssue]:
    typed = schema_fields(facts)
    for step in facts.steps:
        after = next((cut for cut in cuts if cut.index > step.index), None)
        if after is None:
            return
        for key, value in _constants(step.node):
            if not is_temporary(key) and key not in typed and not is_plain(value):
                yield BoundaryType(
                    agent=step.name,
                    key=key,
                    message=f'{step.name} writes "{key}", a {type(value).__name__}, before the execution '
                    f"boundary of {after.name}",
                    hint=f"What crosses that boundary is data, which has no {type(value).__name__}.\n"
                    "Write text, numbers, bytes, lists and dicts, or declare the key in a StateSchema.",
                )


def _constants(node: Node) -> list[tuple[str, object]]:
    """The values that a step is known to write."""
    return [constant for effect in effects_of(node) for constant in effect.constants]


def _undeclared(facts: Facts, parts: list[Stretch]) -> Iterator[ContractIssue]:
    readers, _ = facts.unknown
    for part in parts:
        if part.cut is None:
            continue
        for step in part.open_reads:
            if step in readers:
                yield BoundaryUndeclared(
                    agent=step.name,
                    message=f"{step.name} runs behind the execution boundary of {part.cut.name} and "
                    "does not say which keys it reads",
                    hint="So the whole state crosses that boundary, and all of it must be data.\n"
                    "Say what it reads: @declares(reads=[...], writes=[...]).",
                )
