"""The tree as the analysis walks it: one `Step` per place where a node stands, with a name of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass
from typing import Any, Final, NoReturn

from adk_fluent.ir import execution
from adk_fluent.ir.base import Node
from adk_fluent.ir.node_names import NameGiver, named_nodes

_put: Final = object.__setattr__
Branch = tuple[int, ...]
"""The branch of the conversation that a step runs on: the parallel branches around it, outermost first."""


class Step:
    """One place in the tree, immutable once the plan stands. A node that is used twice stands at two places.

    Attributes:
        node: what runs there.
        name: its unique name, the one that `resolve_names` would give.
        origin: the name the user gave, if any.
        parent: the step around it.
        children: the steps inside it, in order.
        index: its place in the order parents first.
        end: one more than the index of the last step inside it.
        branch: the conversation branch it runs on.
        target: the step that it hands over to, if it does and there is one.
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
    """The lowest index that a step which runs after this one can have: in a loop, that of the loop."""
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
    """The steps of a tree, in one walk.

    Args:
        resolved: whether `resolve_names` has named it, so that `writer_2` may be a reuse of `writer`.
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
            apart = node.runs.apart  # the index tells composites apart, the number children
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
    """How a message calls some alternatives of a step: the branches of a route by their tests."""
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
    """`a`, `a and b`, `a, b and c`; of more, three and how many more there are."""
    if len(names) == 1:
        return names[0]
    if len(names) > 3:
        names = [*names[:3], f"{len(names) - 3} more"]
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
