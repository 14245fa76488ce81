"""The tree as the analysis walks it: one `Step` per place where a node stands, with a name of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adk_fluent.ir.base import Node
from adk_fluent.ir.naming import NameGiver, named_nodes
from adk_fluent.ir.nodes import (
    RouteNode,
    TransferNode,
)

if TYPE_CHECKING:
    from adk_fluent.analysis.keys.reads import Read
    from adk_fluent.analysis.values.siblings import Effects

Branch = tuple[int, ...]
"""The branch of the conversation that a step runs on: the parallel branches around it, outermost first."""


class Step:
    """One place in the tree. A node that is used twice stands at two places.

    Attributes:
        node: what runs there.
        name: its unique name, the one that `resolve_names` would give.
        origin: the name the user gave, if any.
        parent: the step around it.
        children: the steps inside it, in order.
        index: its place in the order parents first.
        end: one more than the index of the last step inside it.
        branch: the conversation branch it runs on.
        reads: what it reads from state; filled when it is first visited.
        effects: what it and all inside it may do to the state; filled when first asked for.
        target: of a transfer, the step it hands over to, if there is one.
        visits: how often the analysis came by; 0 for a step that cannot be reached.
        writes: the keys that it is known to write itself; filled when first asked for.
    """

    __slots__ = (
        "branch",
        "children",
        "effects",
        "end",
        "index",
        "name",
        "node",
        "origin",
        "parent",
        "reads",
        "target",
        "visits",
        "writes",
    )

    def __init__(self, node: Node, name: str, parent: Step | None, index: int, branch: Branch) -> None:
        self.node: Any = node
        self.name: str = name
        self.origin: str = node.name or name
        self.parent: Step | None = parent
        self.children: list[Step] = []
        self.index: int = index
        self.end: int = index + 1
        self.branch: Branch = branch
        self.reads: tuple[Read, ...] | None = None
        self.effects: Effects | None = None
        self.target: Step | None = None
        self.visits: int = 0
        self.writes: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"Step({self.name})"

    @property
    def is_model(self) -> bool:
        """Whether a model or a remote agent answers here."""
        return self.node.speaks

    def walk(self, steps: list[Step]) -> Iterator[Step]:
        """This step and all inside it, in order; `steps` is the plan's list."""
        return iter(steps[self.index : self.end])

    def above(self) -> Iterator[Step]:
        """The steps around it, innermost first."""
        step = self.parent
        while step is not None:
            yield step
            step = step.parent


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
    """The steps of a tree, in one walk.

    Args:
        resolved: whether `resolve_names` has named it, so that `writer_2` may be a reuse of `writer`.
    """
    given, clashing = named_nodes(root)
    giver = NameGiver(given)
    steps: list[Step] = []
    stack: list[tuple[Node, Step | None, Branch]] = [(root, None, ())]
    while stack:
        node, parent, branch = stack.pop()
        step = Step(node, giver.name(node), parent, len(steps), branch)
        steps.append(step)
        if parent is not None:
            parent.children.append(step)
        if children := node.children:
            apart = node.apart  # the index tells composites apart, the number children
            for number in range(len(children) - 1, -1, -1):
                inside = (*branch, step.index, number) if apart else branch
                stack.append((children[number], step, inside))
    by_name = {step.name: step for step in steps}
    if resolved:
        for step in steps:
            step.origin = _origin(step.node, given)
    for step in reversed(steps):
        if step.children:
            step.end = step.children[-1].end
        elif isinstance(step.node, TransferNode):
            step.target = by_name.get(step.node.target)
    return Plan(steps, by_name, clashing)


def _origin(node: Node, given: Mapping[str, Node]) -> str:
    """The name that the user gave to a node of a tree with unique names."""
    base, _, number = node.name.rpartition("_")
    first = given.get(base)
    same = number.isdigit() and first is not None and first.replace(name=node.name) == node
    return base if same else node.name


def branch_names(step: Step, children: list[Step]) -> str:
    """How a message calls some alternatives of a step: the branches of a route by their tests."""
    node = step.node
    if isinstance(node, RouteNode):
        numbers = [step.children.index(child) for child in children]
        return at_most_three([_test_of(node, number, step.children[number]) for number in numbers])
    return at_most_three([repr(child.name) for child in children])


def _test_of(node: RouteNode, number: int, child: Step) -> str:
    if number >= len(node.rules):
        return f"otherwise ({child.name!r})"
    test = node.rules[number][0]
    shown = str(test) if type(test).__name__ == "Match" else getattr(test, "__name__", "a predicate")
    return f"{shown} ({child.name!r})"


def at_most_three(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`; of more, three and how many more there are."""
    if len(names) == 1:
        return names[0]
    if len(names) > 3:
        names = [*names[:3], f"{len(names) - 3} more"]
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
