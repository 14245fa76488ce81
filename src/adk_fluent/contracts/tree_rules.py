"""Rules about whole trees: their depth, their transfers, and the steps that take a streamed answer.

The rules about single nodes are in `refusals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.contracts import issues
from adk_fluent.contracts.refusals import Refusal, node_refusals, raise_first
from adk_fluent.errors import CompileError, CycleError, ExpressionError
from adk_fluent.ir import execution
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.graph import MAX_DEPTH, depth, transfers
from adk_fluent.ir.passage import passages
from adk_fluent.spelling import did_you_mean


def tree_refusals(nodes: Sequence[Node]) -> Iterator[Refusal]:
    """Yield the reasons why no target can run a tree.

    Args:
        nodes: all nodes of the tree, parents first, with unique names.
    """
    for node in nodes:
        yield from node_refusals(node, node.name)
    yield from unfed_chunk_steps((node, node.name) for node in nodes)
    if handing := list(transfers(nodes)):
        by_name = {node.name: node for node in nodes}
        for node, target in handing:
            if target not in by_name:
                yield unknown_target(target, node.name, by_name)
        yield from endless_transfers((node for node, _ in handing), by_name)


# --- depth ----------------------------------------------------------------------------------------


def depth_refusals(root: Node) -> Iterator[Refusal]:
    """Refuse a tree that is nested too deep. Ask this first: every other function recurses as deep."""
    if (found := depth(root)) > MAX_DEPTH:
        yield too_deep(root, found)


def checked_facts(subject: object) -> Facts:
    """The facts about a tree that is not nested too deep.

    Args:
        subject: anything that `check_all` takes.

    Raises:
        ExpressionError: the steps are nested too deep for a run.
    """
    facts = analyse(subject)
    if facts.is_too_deep:
        raise_first([too_deep(facts.root, facts.depth)])
    return facts


def too_deep(root: Node, found: int) -> Refusal:
    """The refusal of a tree that is nested too deep."""
    name = root.name or root.kind
    return Refusal(
        issues.NestedTooDeep,
        ExpressionError,
        name,
        f"{name} nests steps {found} levels deep, and a run can take at most {MAX_DEPTH}",
        "Write steps that follow each other as one sequence and the cases of a choice as one Route, or run "
        "the inner part by itself, as a tool of an agent.",
    )


# --- streamed answers -----------------------------------------------------------------------------


def unfed_chunk_steps(nodes: Iterable[tuple[Node, str]]) -> Iterator[Refusal]:
    """Refuse functions that take an answer in chunks but have no streaming edge before them.

    Args:
        nodes: all nodes of a tree, parents first, with their unique names.
    """
    fed = set[int]()
    for node, name in nodes:
        if isinstance(node.runs, execution.STEP_BY_STEP):
            children = node.children
            fed.update(id(children[index + 1]) for index in passages(children))
        elif node.needs_pieces and id(node) not in fed:
            yield Refusal(
                issues.StreamingSourceMissing,
                CompileError,
                name,
                f"{name} takes an answer in chunks, and no step before it streams one",
                'Put it directly after an agent with .stream_to("token"), or let it take the state.',
            )


# --- transfers ------------------------------------------------------------------------------------


def unknown_target(target: str, name: str, names: Iterable[str]) -> Refusal:
    """The refusal of a transfer to an agent that does not exist."""
    like = did_you_mean(target, [other for other in names if other != name])
    return Refusal(
        issues.UnknownAgent,
        CompileError,
        name,
        f'{name} hands over to "{target}", and nothing has that name',
        like.strip() or "Give the agent to which it should hand over this name.",
        f"transfer({target!r}): nothing in this tree has that name.{like}",
    )


def endless_transfers(handing: Iterable[Node], by_name: Mapping[str, Node]) -> Iterator[Refusal]:
    """Refuse transfers that always lead back to themselves.

    Args:
        handing: nodes of the tree that may hand over.
        by_name: all nodes of the tree by their unique names.
    """
    for node, target in transfers(handing):
        if _never_ends(node, by_name):
            yield Refusal(
                issues.EndlessTransfer,
                CycleError,
                node.name,
                f'{node.name} hands over to "{target}", which always leads back to it',
                "The run would never end. Give it a condition, or use a loop.",
                f"transfer({target!r}) always leads back to itself, so the run would never end. "
                "Give it a condition, or use a loop.",
            )


def _never_ends(start: Node, by_name: Mapping[str, Node]) -> bool:
    """True if unconditional transfers lead from `start` back to it."""
    pending, seen = [target for _, target in transfers(_inevitable_transfers(start))], set[str]()
    while pending:
        reached = by_name.get(pending.pop())
        for transfer, target in transfers(_inevitable_transfers(reached)) if reached else ():
            if transfer.name == start.name:
                return True
            if transfer.name not in seen:
                seen.add(transfer.name)
                pending.append(target)
    return False


def _inevitable_transfers(node: Node) -> tuple[Node, ...]:
    """The transfers that every run of `node` reaches: no state and no answer of a model can avoid them."""
    match node.runs:
        case execution.HandOver(condition=None):
            return (node,)
        case execution.InOrder() | execution.Repeated():
            for child in node.children:
                if (found := _inevitable_transfers(child)) or any(map(_may_end, walk(child))):
                    return found
            return ()
        case execution.InParallel() | execution.Wrapped():
            return tuple(found for child in node.children for found in _inevitable_transfers(child))
        case execution.FirstSuccess():
            return _inevitable_transfers(node.children[0]) if node.children else ()
        case _:
            return ()


def _may_end(node: Node) -> bool:
    """True if a run may end at this node, so that the next steps of its sequence may not run."""
    if isinstance(node.runs, (*execution.ONE_COUNTS, execution.PerItem)):
        return any(isinstance(step.runs, execution.HandOver) for step in walk(node))
    return node.asks or isinstance(node.runs, execution.HandOver)
