"""Where the analysis stops."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import isroutine

from adk_fluent.analysis.facts import analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import UnknownAccess
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.adk_objects import is_native
from adk_fluent.ir.functions import function_name


@check(place=230)
def check_unknown_functions(root: object) -> list[ContractIssue]:
    """One note on all functions that neither say nor show which keys they touch; it names them."""
    facts = analyse(root)
    readers, writers = facts.unknown
    if not readers and not writers:
        return []
    steps = sorted({**readers, **writers}, key=lambda step: step.index)
    hidden = sorted({read.key for read in facts.reads if read.status == "unknown" and ":" not in read.key})
    first = steps[0]
    names = [
        f"{_shown([*readers.get(step, []), *writers.get(step, [])])} in {step.name}" for step in steps[:5]
    ]
    more = f" and {len(steps) - 5} more" if len(steps) > 5 else ""
    affected = f" So nothing can be said about {', '.join(map(repr, hidden))}." if hidden else ""
    what = "reads or writes" if writers else "reads"
    return [
        UnknownAccess(
            severity=Severity.INFO,
            agent=first.name,
            key=hidden[0] if hidden else None,
            message=f"What {', '.join(names)}{more} {what} is unknown",
            hint=f"The source of {_what(readers, writers)} does not show it.{affected}\n"
            'Declare it: @declares(reads=["..."], writes=["..."]) from adk_fluent.state.',
        )
    ]


def _what(*found: Mapping[Step, list[object]]) -> str:
    agents = [is_native(function) for steps in found for each in steps.values() for function in each]
    if all(agents):
        return "such classes"
    return "these functions and such classes" if any(agents) else "these functions"


def _shown(functions: list[object]) -> str:
    function = functions[0]
    if is_native(function):
        return f"{type(function).__name__}, a class of its own,"
    name = function_name(function, "") or getattr(function, "name", "")
    if isinstance(name, str) and name:
        return name
    return "a function" if isroutine(function) or isinstance(function, partial) else type(function).__name__
