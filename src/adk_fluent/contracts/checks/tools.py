"""Tools can be told apart, and an agent knows what others did with theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three
from adk_fluent.analysis.talk.audience import apart
from adk_fluent.analysis.talk.history import audible
from adk_fluent.analysis.talk.sight import sight_of
from adk_fluent.context.spec import Context
from adk_fluent.contracts.issues import DuplicateTool, ToolHistory, UnnamedTool
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.tools import tool_name

_LAMBDA = "<lambda>"
_LOOKED_AT = 32
"""So many agents with tools before one are asked whether it sees what their tools did."""


@check(place=200)
def check_tool_contracts(root: object) -> list[ContractIssue]:
    """No two tools of an agent have one name, each has one, and earlier tool calls are not missed."""
    facts = analyse(root)
    with_tools = [step for step in facts.steps if step.node.given.get("tools")]
    return [
        *(issue for step in with_tools for issue in _names(step)),
        *(_left_out(listener, missed) for listener, missed in unseen(facts, with_tools)),
    ]


def _names(step: Step) -> Iterator[ContractIssue]:
    names = [name for tool in step.node.tools if (name := tool_name(tool)) is not None]
    if _LAMBDA in names:
        yield UnnamedTool(
            agent=step.name,
            message=f"{step.name} has a lambda as a tool, which has no name a model could call",
            hint="Write it as a function with a name and a docstring: the model is told both.",
        )
    for name, count in Counter(names).items():
        if count > 1 and name != _LAMBDA:
            yield DuplicateTool(
                severity=Severity.ERROR,
                agent=step.name,
                message=f"{step.name} has {count} tools called {name!r}",
                hint="The model is offered all of them, and every call goes to the last. Rename the others.",
            )


# --- what earlier tools did -----------------------------------------------------------------------


def unseen(facts: Facts, with_tools: list[Step]) -> Iterator[tuple[Step, list[Step]]]:
    """Agents with tools, each with those before it whose tool calls its context leaves out."""
    for position, listener in enumerate(with_tools):
        spec = listener.node.annotations.context
        if isinstance(spec, Context) and facts.reaches(listener):
            earlier = with_tools[max(position - _LOOKED_AT, 0) : position]
            missed = [caller for caller in earlier if _misses(listener, caller, spec, facts)]
            if missed:
                yield listener, missed


def _left_out(listener: Step, missed: list[Step]) -> ContractIssue:
    names = at_most_three([caller.name for caller in missed])
    shown = sight_of(listener.node).shown
    return ToolHistory(
        severity=Severity.INFO,
        agent=listener.name,
        message=f"{listener.name} has {shown}, which leaves out the tool calls of {names}",
        hint="C.default() would show them. If they matter, add "
        f'.context(C.from_agents("{missed[-1].origin}").as_contents()): it sends them as they were.',
    )


def _misses(listener: Step, caller: Step, spec: Context, facts: Facts) -> bool:
    """Whether a context leaves out tool calls that are in the conversation an agent could see."""
    if not facts.reaches(caller) or caller is listener or not audible(caller.branch, listener.branch):
        return False
    if apart(caller, listener) is not None:
        return False
    return sight_of(listener.node).admits(caller) == "no" or spec.drops_calls
