"""The execution plan of a tree: one `Step` per place of a node, with a unique name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, Final, NoReturn

from adk_fluent.ir import execution
from adk_fluent.ir.base import Node
from adk_fluent.ir.execution import STEP_BY_STEP
from adk_fluent.ir.graph import NameGiver, named_nodes
from adk_fluent.ir.nodes import AgentNode, agent_of
from adk_fluent.ir.passage import Passage, changing_hooks, leaving, passages

_put: Final = object.__setattr__
Branch = tuple[int, ...]
"""A branch of the conversation: the parallel branches around a step, outermost first."""


class Step:
    """One place in the tree, immutable once the plan is complete. A node that is used twice has two steps.

    Attributes:
        node: the node at this place.
        name: its unique name, the same that `resolve_names` gives.
        origin: the name that the user gave; without one, `name`.
        parent: the step around it; `None` for the root.
        children: the steps inside it, in order.
        index: its position in the order in which parents come first.
        end: the index after the last step inside it.
        branch: its conversation branch.
        target: the step to which a transfer hands over; `None` for other steps and unknown names.
    """

    __slots__ = ("branch", "children", "end", "index", "name", "node", "origin", "parent", "target")

    node: Any
    name: str
    origin: str
    parent: Step | None
    children: tuple[Step, ...]
    index: int
    end: int
    branch: Branch
    target: Step | None

    def __init__(self, node: Node, name: str, parent: Step | None, index: int, branch: Branch) -> None:
        _put(self, "node", node)
        _put(self, "name", name)
        _put(self, "origin", node.name or name)
        _put(self, "parent", parent)
        _put(self, "children", ())
        _put(self, "index", index)
        _put(self, "end", index + 1)
        _put(self, "branch", branch)
        _put(self, "target", None)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __repr__(self) -> str:
        return f"Step({self.name})"

    @property
    def is_model(self) -> bool:
        """True if a model or a remote agent answers here."""
        return self.node.speaks

    def walk(self, steps: list[Step]) -> Iterator[Step]:
        """This step and all steps inside it, in order; `steps` is the plan's list."""
        return iter(steps[self.index : self.end])

    def above(self) -> Iterator[Step]:
        """The steps around it, innermost first."""
        step = self.parent
        while step is not None:
            yield step
            step = step.parent


def hand_over_targets(step: Step) -> list[Step]:
    """The agents to which ADK offers the model of a step to hand over: below it, above it and beside it."""
    found, parent = list(step.children) if isinstance(step.node.runs, execution.ByModel) else [], step.parent
    if (
        isinstance(step.node.runs, execution.ByModel)
        and parent is not None
        and isinstance(parent.node.runs, execution.ByModel)
    ):
        if step.node.disallow_transfer_to_parent is not True:
            found.append(parent)
        if step.node.disallow_transfer_to_peers is not True:
            found += [peer for peer in parent.children if peer is not step]
    return found


def first_after(step: Step) -> int:
    """The lowest index of a step that can run after this one: in a loop, the index of the loop."""
    loops = [outer.index for outer in step.above() if isinstance(outer.node.runs, execution.Repeated)]
    return min(loops, default=step.index)


@dataclass(frozen=True, slots=True)
class Plan:
    """A tree ready for analysis.

    Attributes:
        steps: every step, parents first, in order.
        by_name: unique name → step.
        clashes: names that two different nodes share, each with the second of them.
    """

    steps: list[Step]
    by_name: dict[str, Step]
    clashes: dict[str, Node]

    @property
    def root(self) -> Step:
        """The outermost step."""
        return self.steps[0]


def plan(root: Node, *, resolved: bool = False) -> Plan:
    """The plan of a tree.

    Args:
        resolved: true if `resolve_names` has named the tree, so `writer_2` may be another use of `writer`.
    """
    given, clashing = named_nodes(root)
    giver = NameGiver(given)
    steps: list[Step] = []
    inside: dict[Step, list[Step]] = {}
    stack: list[tuple[Node, Step | None, Branch]] = [(root, None, ())]
    while stack:
        node, parent, branch = stack.pop()
        step = Step(node, giver.name(node), parent, len(steps), branch)
        steps.append(step)
        if parent is not None:
            inside.setdefault(parent, []).append(step)
        if children := node.children:
            apart = node.runs.separate_branches  # the index tells composites apart, the number children
            for number in range(len(children) - 1, -1, -1):
                below = (*branch, step.index, number) if apart else branch
                stack.append((children[number], step, below))
    by_name = {step.name: step for step in steps}
    if resolved:
        for step in steps:
            _put(step, "origin", _origin(step.node, given))
    for step in reversed(steps):
        if step in inside:
            _put(step, "children", tuple(inside[step]))
            _put(step, "end", step.children[-1].end)
        elif isinstance(step.node.runs, execution.HandOver):
            _put(step, "target", by_name.get(step.node.runs.target))
    return Plan(steps, by_name, clashing)


def _origin(node: Node, given: Mapping[str, Node]) -> str:
    """The name that the user gave to a node of a tree with unique names."""
    base, _, number = node.name.rpartition("_")
    first = given.get(base)
    same = number.isdigit() and first is not None and first.replace(name=node.name) == node
    return base if same else node.name


def branch_names(step: Step, children: Sequence[Step]) -> str:
    """The names of some branches of a step in messages: those of a route by their tests."""
    runs = step.node.runs
    if isinstance(runs, execution.FirstMatch):
        numbers = [step.children.index(child) for child in children]
        return at_most_three([_test_of(runs, number, step.children[number]) for number in numbers])
    return at_most_three([repr(child.name) for child in children])


def _test_of(runs: execution.FirstMatch, number: int, child: Step) -> str:
    if number >= len(runs.tests):
        return f"otherwise ({child.name!r})"
    test = runs.tests[number]
    shown = str(test) if type(test).__name__ == "Match" else getattr(test, "__name__", "a predicate")
    return f"{shown} ({child.name!r})"


def at_most_three(names: list[str]) -> str:
    """Names in words: `a`, `a and b`, `a, b and c`; of more than three, three and how many others."""
    if len(names) == 1:
        return names[0]
    if len(names) > 3:
        names = [*names[:3], f"{len(names) - 3} more"]
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


# --- streamed answers -----------------------------------------------------------------------------


NOWHERE: Mapping[int, Passage] = {}


def passages_in(plan: Plan) -> dict[Step, Mapping[int, Passage]]:
    """The sequences and loops with streamed answers; for each, index of the speaker → its passage."""
    if all(step.node.annotations.edge is None for step in plan.steps):
        return {}  # most trees stream nothing between steps
    found = {step: passages_of(step) for step in plan.steps if isinstance(step.node.runs, STEP_BY_STEP)}
    return {step: here for step, here in found.items() if here}


def passages_of(step: Step) -> Mapping[int, Passage]:
    """The passages of one sequence or loop: index of the speaker → its passage."""
    if all(leaving(child.node) is None for child in step.children):
        return NOWHERE
    found = passages([child.node.replace(name=child.name) for child in step.children])
    return {place: _with_middleware(passage, step.children[place]) for place, passage in found.items()}


def _with_middleware(passage: Passage, giver: Step) -> Passage:
    """The passage, not live if a middleware may change the answer: then the next step waits for all of it."""
    if not passage.live:
        return passage
    for step in _below(giver):
        if step is not giver and passage.speakers.isdisjoint((step.name, step.node.name)):
            continue
        for middleware in (
            one for place in (step, *step.above()) for one in place.node.annotations.middleware
        ):
            if hooks := changing_hooks(middleware):
                why = f"the {hooks[0]} of {type(middleware).__name__} may change the answer"
                return passage.replace(live=False, why=why)
    return passage


def _below(step: Step) -> Iterator[Step]:
    """A step and all inside it."""
    yield step
    for child in step.children:
        yield from _below(child)


# --- transfers ------------------------------------------------------------------------------------


def left_early(steps: Plan) -> tuple[set[Step], set[Step]]:
    """The composites of which a transfer may skip the rest, and those that it may start again."""
    skipping: set[Step] = set()
    restarting: set[Step] = set()
    for step in steps.steps:
        if isinstance(step.node.runs, execution.HandOver):
            target, owner = step.target, owner_of(step)
            if target is not None and target.index <= step.index < target.end:
                restarting.add(target)
            elif owner is not None:
                skipping.add(owner)
    return skipping, restarting


def owner_of(step: Step) -> Step | None:
    """The sequence or loop of which a transfer skips the remaining steps; `None` without one."""
    return next(
        (outer for outer in step.above() if isinstance(outer.node.runs, execution.STEP_BY_STEP)), None
    )


def coordinator_of(step: Step) -> Step | None:
    """The outermost agent from which models can hand over, from agent to agent, down to this step."""
    found: Step | None = None
    for outer in step.above():
        if not isinstance(outer.node.runs, execution.ByModel):
            break
        found = outer
    return found


def may_hand_over(step: Step) -> bool:
    """True if a sub-agent may hand over to its parent or its peers instead of answering."""
    if step.parent is None or not isinstance(step.parent.node.runs, execution.ByModel):
        return False
    node: AgentNode = step.node
    return node.disallow_transfer_to_parent is not True or node.disallow_transfer_to_peers is not True


def may_return(child: Step) -> bool:
    """True if a sub-agent may hand back to its parent."""
    agent = agent_of(child.node)
    return agent is not None and agent.disallow_transfer_to_parent is not True
