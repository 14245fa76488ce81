"""Check that each agent has an instruction and each tool a description."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three
from adk_fluent.context.spec import Context
from adk_fluent.contracts.issues import NoInstruction, UndescribedTool
from adk_fluent.contracts.providing import declared_functions
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.resources import wanted

_TELLING: Final = ("instruction", "static_instruction", "output_schema", "written_fields")
"""The fields of an agent that describe the task to its model; any one of them is enough."""
_ADDING: Final = ("before_agent_callback", "before_model_callback")
"""The callbacks that may add an instruction to a request."""
_LAMBDA: Final = "<lambda>"


@check(place=250)
def check_descriptions(root: object) -> list[ContractIssue]:
    """Check that each agent has an instruction, and each tool a docstring and typed parameters."""
    facts = analyse(root)
    return [*_uninstructed(facts), *_undescribed(facts)]


# --- agents ---------------------------------------------------------------------------------------


def _uninstructed(facts: Facts) -> Iterator[ContractIssue]:
    """One note about all agents whose models get the conversation and no instruction."""
    found = [step for step in facts.steps if _has_no_instruction(step)]
    if found:
        names = [step.name for step in found]
        one = len(found) == 1
        yield NoInstruction(
            severity=Severity.INFO,
            agent=names[0],
            message=f"{at_most_three(names)} {'has' if one else 'have'} no instruction",
            hint=f"{'Its model is' if one else 'Their models are'} sent the conversation alone. "
            "Say what to do: .instruct(...).",
        )


def _has_no_instruction(step: Step) -> bool:
    """True if the model of an agent gets no instruction; false for an agent that was built with ADK."""
    node = step.node
    if not node.agent or node.annotations.adopted is not None:
        return False
    given = node.given
    if any(given.get(field) for field in _TELLING) or any(given.get(field) for field in _ADDING):
        return False
    spec = node.annotations.context
    if isinstance(spec, Context) and spec.templates:
        return False
    return not any(each.node.given.get("global_instruction") for each in (step, *step.above()))


# --- tools ----------------------------------------------------------------------------------------


def _undescribed(facts: Facts) -> Iterator[ContractIssue]:
    """One note about each tool function that has no docstring, or a parameter without a type."""
    known = set[int]()
    for step in facts.steps:
        agent = step.node.agent
        if not agent or "tools" not in agent.given:
            continue
        around = (step, *step.above())
        resources = {name for each in around for name, _ in each.node.annotations.resources}
        for function, _ in declared_functions(agent.tools):
            if id(function) not in known and (lacks := _lacking(function, resources)):
                known.add(id(function))
                yield _note(step, function, lacks)


def _note(step: Step, function: Callable[..., Any], lacks: list[str]) -> ContractIssue:
    name = _name(function)
    return UndescribedTool(
        severity=Severity.INFO,
        agent=step.name,
        message=f"{step.name} has the tool {name!r} without {' and '.join(lacks)}",
        hint="A model knows nothing else about a tool. Write a docstring that says what it does, and the "
        "type of each parameter.",
    )


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _lacking(function: Callable[..., Any], resources: set[str]) -> list[str]:
    """The parts of a tool's description that a function lacks: a docstring, types of its parameters."""
    module = getattr(function, "__module__", None) or type(function).__module__
    if module.startswith(("google.adk.", "adk_fluent.")) or _name(function) == _LAMBDA:
        return []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C
        return []
    hidden = {"tool_context", "input_stream", *wanted(function, resources)}
    untyped = [
        repr(one.name)
        for one in parameters
        if one.annotation is one.empty
        and one.name not in hidden
        and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    called = function if inspect.isroutine(function) else type(function).__call__
    documented = inspect.getdoc(function) or inspect.getdoc(called)
    types = [f"the type{'s' * (len(untyped) > 1)} of {at_most_three(untyped)}"] if untyped else []
    return [*["a docstring"] * (not documented), *types]
