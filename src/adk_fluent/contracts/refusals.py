"""Why a tree cannot be compiled, as far as ADK need not be asked: the check reports it, compiling raises it.

What only the installed ADK knows stays in its backend: a field or an option that this release does not have,
or a value that it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.context.spec import Context
from adk_fluent.contracts.issues import (
    ContextConflict,
    EmptyComposite,
    EndlessTransfer,
    InvalidName,
    InvalidOption,
    NestedTooDeep,
    StreamingSourceMissing,
    UnknownAgent,
    UnknownPrice,
    UnknownTool,
    Unsupported,
)
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.errors import (
    ADKFluentError,
    ArgumentError,
    CompileError,
    CycleError,
    ExpressionError,
    InvalidNameError,
    MissingExtraError,
    UnsupportedNodeError,
)
from adk_fluent.ir.annotations import NO_ANNOTATIONS
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.execution import STEP_BY_STEP, FirstMatch
from adk_fluent.ir.graph import MAX_DEPTH, depth, inevitable_transfers, transfers
from adk_fluent.ir.node_names import RESERVED, check_name
from adk_fluent.ir.nodes import (
    AgentNode,
    FallbackNode,
    LoopNode,
    ModelSelectorNode,
    ParallelNode,
    RaceNode,
    RouteNode,
    SequenceNode,
    TransformNode,
)
from adk_fluent.ir.passage import passages
from adk_fluent.ir.tools import GenerateOptions, agents_inside, tool_name
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from adk_fluent.middleware.approving import ToolApproval


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a tree cannot be compiled.

    Attributes:
        kind: the kind of finding it is for the check.
        error: what compiling raises.
        agent: the step, by its unique name.
        message: the finding in a line.
        hint: what to do.
        text: the message of the error, where that is not made of the other two.
    """

    kind: type[ContractIssue]
    error: type[ADKFluentError]
    agent: str
    message: str
    hint: str
    text: str = ""

    def finding(self) -> ContractIssue:
        """What the check reports."""
        return self.kind(severity=Severity.ERROR, agent=self.agent, message=self.message, hint=self.hint)

    def exception(self) -> ADKFluentError:
        """What compiling raises."""
        return self.error(self.text or f"{self.message}. {self.hint}")


def refuse(refusals: Iterable[Refusal]) -> None:
    """Raise the first of some refusals, if there is one.

    Raises:
        ADKFluentError: the error of that refusal.
    """
    for refusal in refusals:
        raise refusal.exception()


def structural(nodes: Sequence[Node]) -> Iterator[Refusal]:
    """Why no target can run a tree.

    Args:
        nodes: all of it, parents first, with unique names.
    """
    for node in nodes:
        yield from of_node(node, node.name)
    yield from unfed((node, node.name) for node in nodes)
    if handing := list(transfers(nodes)):
        by_name = {node.name: node for node in nodes}
        for node, target in handing:
            if target not in by_name:
                yield lost(target, node.name, by_name)
        yield from endless((node for node, _ in handing), by_name)


# --- depth ----------------------------------------------------------------------------------------


def nesting(root: Node) -> Iterator[Refusal]:
    """Why no run would get through a tree; asked first, since all else takes as much of the stack."""
    if (found := depth(root)) > MAX_DEPTH:
        yield too_deep(root, found)


def known(subject: object) -> Facts:
    """The facts about anything that can be checked, for whoever shows them.

    Raises:
        ExpressionError: the steps stand too deep inside each other.
    """
    facts = analyse(subject)
    if facts.is_too_deep:
        refuse([too_deep(facts.root, facts.depth)])
    return facts


def too_deep(root: Node, found: int) -> Refusal:
    """A tree whose steps stand so deep inside each other."""
    name = root.name or root.kind
    return Refusal(
        NestedTooDeep,
        ExpressionError,
        name,
        f"{name} holds steps {found} deep inside each other, and at most {MAX_DEPTH} can run",
        "Write steps that follow each other as one sequence and the cases of a choice as one Route, or run "
        "the inner part by itself, as a tool of an agent.",
    )


# --- single nodes ---------------------------------------------------------------------------------


def of_node(node: Node, name: str) -> tuple[Refusal, ...]:
    """Why a node cannot be compiled, wherever it stands."""
    found = () if name.isidentifier() and name not in RESERVED else _misnamed(node, name)
    for rule in _RULES.get(type(node), ()):
        if (refusal := rule(node, name)) is not None:
            found = (*found, refusal)
    return found if node.annotations is NO_ANNOTATIONS else (*found, *_annotated(node, name))


def _misnamed(node: Node, name: str) -> tuple[Refusal, ...]:
    try:
        check_name(name, node.kind)
    except InvalidNameError as error:
        message, _, hint = str(error).partition(": ")
        return (Refusal(InvalidName, InvalidNameError, name, message, hint, str(error)),)
    return ()


def _empty(node: Node, name: str) -> Refusal | None:
    if node.children:
        return None
    part = "branch" if isinstance(node.runs, FirstMatch) else "step"
    return Refusal(
        EmptyComposite,
        ExpressionError,
        name,
        f"{name} has nothing to run",
        f"Give this {node.kind} at least one {part}.",
        f"{name!r} is empty: give this {node.kind} at least one {part}.",
    )


def _agent(node: Any, name: str) -> Refusal | None:
    """The first thing that is wrong with an agent; most say nothing that could be."""
    if _DOUBTFUL.isdisjoint(node.given):
        return None
    found = (rule(node, name) for rule in (_contradictory, _misplaced, _unknown_contents, _unpriced))
    return next((refusal for refusal in found if refusal is not None), None)


_DOUBTFUL: Final = frozenset({"annotations", "generate_content_config", "include_contents", "selector"})


def _contradictory(node: Any, name: str) -> Refusal | None:
    """An agent that is told to show the whole conversation and a part of it."""
    spec = node.annotations.context
    if not isinstance(spec, Context) or spec.is_untouched:
        return None
    if node.given.get("include_contents", "none") == "none":
        return None
    return Refusal(
        ContextConflict,
        CompileError,
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
"""Options of a model request that ADK wants said in another place."""


def _misplaced(node: Any, name: str) -> Refusal | None:
    config = node.given.get("generate_content_config")
    options = dict(config.options) if isinstance(config, GenerateOptions) else None
    for option, method in _ELSEWHERE.items():
        if getattr(config, option, None) if options is None else options.get(option):
            return Refusal(
                InvalidOption,
                CompileError,
                name,
                f"{name} sets {option} in its generate options, where ADK refuses it",
                f"Say it with {method} instead.",
            )
    return None


def _unknown_contents(node: Any, name: str) -> Refusal | None:
    shown = node.given.get("include_contents", "none")
    if shown in ("default", "none"):
        return None
    return Refusal(
        InvalidOption,
        CompileError,
        name,
        f"{name} has .include_contents({shown!r})",
        "It takes 'default' or 'none'; a context says the rest, such as .context(C.window(3)).",
    )


def _asking_tool(node: Any, name: str) -> Refusal | None:
    """An agent that runs others as a tool which may wait for a person: there nobody could answer."""
    if "tools" not in node.given:
        return None
    for tree in agents_inside(node.tools):
        asking = next((inner for inner in walk(tree) if inner.may_pause), None)
        if asking is not None:
            who = repr(asking.name or asking.label)
            return Refusal(
                Unsupported,
                CompileError,
                name,
                f"{name} has agents as a tool of which {who} may wait for a person, and inside a tool nobody "
                "can answer",
                "Hand over to them with .delegate(...), or ask before they are called: "
                "T.confirm(T.agent(...)).",
            )
    return None


# --- what the backend cannot do yet ---------------------------------------------------------------

UNSUPPORTED: Final[frozenset[type[Node]]] = frozenset({ModelSelectorNode})
"""Node types that the ADK backend cannot run yet."""


def _unsupported(name: str, what: str) -> Refusal:
    text = f"the ADK backend cannot {what} yet"
    return Refusal(
        Unsupported,
        UnsupportedNodeError,
        name,
        f"{name}: {text}",
        "Building refuses it.",
        f"{name!r}: {text}.",
    )


def _type(node: Node, name: str) -> Refusal:
    return _unsupported(name, f"run a {node.kind} node ({type(node).__name__})")


def _unpriced(node: Any, name: str) -> Refusal | None:
    """A choice by price among models whose price nobody knows."""
    selector = node.given.get("selector")
    if selector is None:
        return None
    from adk_fluent.cost.choosing import price_of_candidate, ranking, unpriced  # what few choose by

    try:
        ranking(selector, name)
        by_budget = selector.candidates if selector.budget_key else ()
        missing = next((one.model for one in by_budget if price_of_candidate(one) is None), None)
        problem = None if missing is None else unpriced(name, missing)
    except (ArgumentError, MissingExtraError) as error:
        problem = str(error)
    if problem is None:
        return None
    start = "" if problem.startswith("Agent ") else f"Agent {name!r} chooses its model by price. "
    return Refusal(
        UnknownPrice,
        CompileError if not start else MissingExtraError,
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
                StreamingSourceMissing,
                CompileError,
                name,
                f'{name}.stream_to(buffering="{edge.buffering}"): nobody answers in {name}',
                "Only what an agent says can be passed on in pieces. Say it of an agent, or leave it out.",
            )
        )
    if node.annotations.middleware:
        from adk_fluent.middleware.approving import ToolApproval  # which most steps do not have

        for each in node.annotations.middleware:
            if isinstance(each, ToolApproval):
                found += _unknown_tools(node, name, each)
    return found


def _unknown_tools(node: Node, name: str, approval: ToolApproval) -> Iterator[Refusal]:
    """Tools that are to be approved and that nobody has; where a set of tools is, nobody knows."""
    tools = [tool for agent in walk(node) for tool in agent.given.get("tools", ())]
    known = {tool_name(tool) for tool in tools}
    if None in known or any(hasattr(tool, "agent") for tool in tools):
        return
    names = sorted(filter(None, known))
    for missing in approval.tools:
        if missing not in known:
            has = f"It has {', '.join(names)}." if names else "It has no tools."
            yield Refusal(
                UnknownTool,
                ExpressionError,
                name,
                f"{name} has tool_approval for {missing!r}, and no agent in it has such a tool",
                did_you_mean(missing, names).strip() or has,
            )


_Rule = Callable[[Node, str], Refusal | None]
_RULES: Final[Mapping[type[Node], tuple[_Rule, ...]]] = {
    SequenceNode: (_empty,),
    ParallelNode: (_empty,),
    LoopNode: (_empty,),
    RouteNode: (_empty,),
    FallbackNode: (_empty,),
    RaceNode: (_empty,),
    AgentNode: (_agent, _asking_tool),
    **dict.fromkeys(UNSUPPORTED, (_type,)),
}
"""What can be wrong with a node of each type."""


# --- answers in pieces ----------------------------------------------------------------------------


def unfed(nodes: Iterable[tuple[Node, str]]) -> Iterator[Refusal]:
    """Functions that take an answer in pieces, where no edge leads one into them.

    Args:
        nodes: all nodes of a tree, parents first, with their unique names.
    """
    fed = set[int]()
    for node, name in nodes:
        if isinstance(node.runs, STEP_BY_STEP):
            children = node.children
            fed.update(id(children[index + 1]) for index in passages(children))
        # A tap that gets no pieces looks at the state.
        elif isinstance(node, TransformNode) and node.takes_pieces and id(node) not in fed:
            yield Refusal(
                StreamingSourceMissing,
                CompileError,
                name,
                f"{name} takes an answer in pieces, and no edge leads one into it",
                'Put it right behind an agent that says .stream_to("token"), or let it take the state.',
            )


# --- transfers ------------------------------------------------------------------------------------


def lost(target: str, name: str, names: Iterable[str]) -> Refusal:
    """A transfer to nobody."""
    like = did_you_mean(target, [other for other in names if other != name])
    return Refusal(
        UnknownAgent,
        CompileError,
        name,
        f'{name} hands over to "{target}", and nothing has that name',
        like.strip() or "Give the agent that is meant this name.",
        f"transfer({target!r}): nothing in this tree has that name.{like}",
    )


def endless(handing: Iterable[Node], by_name: Mapping[str, Node]) -> Iterator[Refusal]:
    """Transfers that a run could not get past, of those in a tree with unique names."""
    for node, target in transfers(handing):
        if _never_ends(node, by_name):
            yield Refusal(
                EndlessTransfer,
                CycleError,
                node.name,
                f'{node.name} hands over to "{target}", which always leads back to it',
                "The run would never end. Give it a condition, or use a loop.",
                f"transfer({target!r}) always leads back to itself, so the run would never end. "
                "Give it a condition, or use a loop.",
            )


def _never_ends(start: Node, by_name: Mapping[str, Node]) -> bool:
    """Whether following unconditional transfers from `start` comes back to it."""
    pending, seen = [target for _, target in transfers(inevitable_transfers(start))], set[str]()
    while pending:
        reached = by_name.get(pending.pop())
        for transfer, target in transfers(inevitable_transfers(reached)) if reached else ():
            if transfer.name == start.name:
                return True
            if transfer.name not in seen:
                seen.add(transfer.name)
                pending.append(target)
    return False
