"""Reasons why a tree cannot be compiled: the check reports them, and compiling raises them as errors.

The rules here hold for every release of ADK. The backend has the others: a field or an option that the
installed release lacks, or a value that it refuses. Here are the rules about single nodes; those about whole
trees are in `tree_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from adk_fluent import errors
from adk_fluent.context.spec import Context
from adk_fluent.contracts import issues
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir import nodes
from adk_fluent.ir.annotations import NO_ANNOTATIONS
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.execution import FirstMatch
from adk_fluent.ir.graph import RESERVED, check_name
from adk_fluent.ir.tools import GenerateOptions, agents_inside, tool_name
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from adk_fluent.middleware.approving import ToolApproval


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a tree cannot be compiled.

    Attributes:
        kind: the class of the finding that the check reports.
        error: the class of the error that compiling raises.
        agent: the unique name of the step.
        message: the problem in one line.
        hint: what to do.
        text: the message of the error, if it is not `message` followed by `hint`.
    """

    kind: type[ContractIssue]
    error: type[errors.ADKFluentError]
    agent: str
    message: str
    hint: str
    text: str = ""

    def finding(self) -> ContractIssue:
        """This refusal as a finding of the check."""
        return self.kind(severity=Severity.ERROR, agent=self.agent, message=self.message, hint=self.hint)

    def exception(self) -> errors.ADKFluentError:
        """This refusal as the error that compiling raises."""
        return self.error(self.text or f"{self.message}. {self.hint}")


def raise_first(refusals: Iterable[Refusal]) -> None:
    """Raise the first of some refusals, if there is one.

    Raises:
        ADKFluentError: the error of that refusal.
    """
    for refusal in refusals:
        raise refusal.exception()


# --- single nodes ---------------------------------------------------------------------------------


def node_refusals(node: Node, name: str) -> tuple[Refusal, ...]:
    """The reasons why a node cannot be compiled, independent of its place in the tree."""
    found = () if name.isidentifier() and name not in RESERVED else _misnamed(node, name)
    for rule in _RULES.get(type(node), ()):
        if (refusal := rule(node, name)) is not None:
            found = (*found, refusal)
    return found if node.annotations is NO_ANNOTATIONS else (*found, *_annotated(node, name))


def _misnamed(node: Node, name: str) -> tuple[Refusal, ...]:
    try:
        check_name(name, node.kind)
    except errors.InvalidNameError as error:
        message, _, hint = str(error).partition(": ")
        return (Refusal(issues.InvalidName, errors.InvalidNameError, name, message, hint, str(error)),)
    return ()


def _empty(node: Node, name: str) -> Refusal | None:
    if node.children:
        return None
    part = "branch" if isinstance(node.runs, FirstMatch) else "step"
    return Refusal(
        issues.EmptyComposite,
        errors.ExpressionError,
        name,
        f"{name} has nothing to run",
        f"Give this {node.kind} at least one {part}.",
        f"{name!r} is empty: give this {node.kind} at least one {part}.",
    )


def _agent(node: Any, name: str) -> Refusal | None:
    """The first reason against an agent. Most agents set no field that a rule is about, so this is fast."""
    if _DOUBTFUL.isdisjoint(node.given):
        return None
    found = (rule(node, name) for rule in (_contradictory, _misplaced, _unknown_contents, _unpriced))
    return next((refusal for refusal in found if refusal is not None), None)


_DOUBTFUL: Final = frozenset({"annotations", "generate_content_config", "include_contents", "selector"})


def _contradictory(node: Any, name: str) -> Refusal | None:
    """Refuse an agent whose options ask for the whole conversation and for a part of it."""
    spec = node.annotations.context
    if not isinstance(spec, Context) or spec.is_untouched:
        return None
    if node.given.get("include_contents", "none") == "none":
        return None
    return Refusal(
        issues.ContextConflict,
        errors.CompileError,
        name,
        f"{name} has .include_contents('default'), and its context is {spec!r}",
        "The one shows the whole conversation, the other does not. Remove one of the two.",
        f"{name!r}: .include_contents('default') shows the whole conversation, but its context is {spec!r}. "
        "Remove one of the two.",
    )


_ELSEWHERE: Final = {
    "tools": ".tools(...)",
    "system_instruction": ".instruct(...)",
    "response_schema": ".returns(...)",
}
"""Options of a model request that ADK accepts only as fields of the agent."""


def _misplaced(node: Any, name: str) -> Refusal | None:
    config = node.given.get("generate_content_config")
    options = dict(config.options) if isinstance(config, GenerateOptions) else None
    for option, method in _ELSEWHERE.items():
        if getattr(config, option, None) if options is None else options.get(option):
            return Refusal(
                issues.InvalidOption,
                errors.CompileError,
                name,
                f"{name} sets {option} in its generate options, where ADK refuses it",
                f"Use {method} instead.",
            )
    return None


def _unknown_contents(node: Any, name: str) -> Refusal | None:
    shown = node.given.get("include_contents", "none")
    if shown in ("default", "none"):
        return None
    return Refusal(
        issues.InvalidOption,
        errors.CompileError,
        name,
        f"{name} has .include_contents({shown!r})",
        "It takes 'default' or 'none'. For anything else write a context, such as .context(C.window(3)).",
    )


def _asking_tool(node: Any, name: str) -> Refusal | None:
    """Refuse a tool that runs agents which may wait for a person: inside a tool a person cannot answer."""
    if "tools" not in node.given:
        return None
    for tree in agents_inside(node.tools):
        asking = next((inner for inner in walk(tree) if inner.may_pause), None)
        if asking is not None:
            who = repr(asking.name or asking.label)
            return Refusal(
                issues.Unsupported,
                errors.CompileError,
                name,
                f"{name} has agents as a tool of which {who} may wait for a person, and inside a tool a "
                "person cannot answer",
                "Hand over to them with .delegate(...), or ask before they are called: "
                "T.confirm(T.agent(...)).",
            )
    return None


# --- limits of the backend ------------------------------------------------------------------------

UNSUPPORTED: Final[frozenset[type[Node]]] = frozenset({nodes.ModelSelectorNode})
"""Node types that the ADK backend cannot run yet."""


def _unsupported(name: str, what: str) -> Refusal:
    text = f"the ADK backend cannot {what} yet"
    return Refusal(
        issues.Unsupported,
        errors.UnsupportedNodeError,
        name,
        f"{name}: {text}",
        "Building refuses it.",
        f"{name!r}: {text}.",
    )


def _type(node: Node, name: str) -> Refusal:
    return _unsupported(name, f"run a {node.kind} node ({type(node).__name__})")


def _unpriced(node: Any, name: str) -> Refusal | None:
    """Refuse a choice by price among models without a known price."""
    selector = node.given.get("selector")
    if selector is None:
        return None
    from adk_fluent.cost.model_selection import price_of_candidate, ranking, unpriced

    try:
        ranking(selector, name)
        by_budget = selector.candidates if selector.budget_key else ()
        missing = next((one.model for one in by_budget if price_of_candidate(one) is None), None)
        problem = None if missing is None else unpriced(name, missing)
    except (errors.ArgumentError, errors.MissingExtraError) as error:
        problem = str(error)
    if problem is None:
        return None
    start = "" if problem.startswith("Agent ") else f"Agent {name!r} chooses its model by price. "
    return Refusal(
        issues.UnknownPrice,
        errors.CompileError if not start else errors.MissingExtraError,
        name,
        f"{name} chooses its model by prices that are not known",
        problem,
        start + problem,
    )


def _annotated(node: Node, name: str) -> list[Refusal]:
    found: list[Refusal] = []
    edge = node.annotations.edge
    if edge is not None and edge.buffering != "full" and not any(each.speaks for each in walk(node)):
        found.append(
            Refusal(
                issues.StreamingSourceMissing,
                errors.CompileError,
                name,
                f'{name}.stream_to(buffering="{edge.buffering}"): no agent answers in {name}',
                "Only an agent's answer can be streamed. Call .stream_to() on an agent, or leave it out.",
            )
        )
    if node.annotations.middleware:
        from adk_fluent.middleware.approving import ToolApproval  # imported late: few steps have it

        for each in node.annotations.middleware:
            if isinstance(each, ToolApproval):
                found += _unknown_tools(node, name, each)
    return found


def _unknown_tools(node: Node, name: str, approval: ToolApproval) -> Iterator[Refusal]:
    """Refuse a `tool_approval` for tools that no agent has; nothing is known about tools of a toolset."""
    tools = [tool for agent in walk(node) for tool in agent.given.get("tools", ())]
    known = {tool_name(tool) for tool in tools}
    if None in known or any(hasattr(tool, "agent") for tool in tools):
        return
    names = sorted(filter(None, known))
    for missing in approval.tools:
        if missing not in known:
            has = f"It has {', '.join(names)}." if names else "It has no tools."
            yield Refusal(
                issues.UnknownTool,
                errors.ExpressionError,
                name,
                f"{name} has tool_approval for {missing!r}, and no agent in it has such a tool",
                did_you_mean(missing, names).strip() or has,
            )


_Rule = Callable[[Node, str], Refusal | None]
_RULES: Final[Mapping[type[Node], tuple[_Rule, ...]]] = {
    nodes.SequenceNode: (_empty,),
    nodes.ParallelNode: (_empty,),
    nodes.LoopNode: (_empty,),
    nodes.RouteNode: (_empty,),
    nodes.FallbackNode: (_empty,),
    nodes.RaceNode: (_empty,),
    nodes.AgentNode: (_agent, _asking_tool),
    **dict.fromkeys(UNSUPPORTED, (_type,)),
}
"""The rules for nodes of each type."""
