"""Nodes that run others: in order, at once, one of them, again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Literal, Self

from adk_fluent.ir import execution
from adk_fluent.ir._generated import LoopFields, ParallelFields, SequenceFields
from adk_fluent.ir.annotations import EdgeSemantics
from adk_fluent.ir.base import Node, ParentNode, WrapperNode, node
from adk_fluent.ir.frozen import kept
from adk_fluent.ir.functions import access
from adk_fluent.ir.keys import KeyRead, KeyReads, declared, given_keys, silent
from adk_fluent.ir.predicates import Match, Predicate
from adk_fluent.ir.resources import UserCall
from adk_fluent.ir.state_keys import StateFieldRef

NO_LIMIT: Final = 1_000_000
"""Rounds of a loop that ends only when an agent says so; ADK's limit of model calls ends it long before."""


@node
class SequenceNode(ParentNode, SequenceFields):  # pyright: ignore[reportIncompatibleVariableOverride]  # children is a field
    """Runs its children one after another."""

    kind: ClassVar[str] = "sequence"
    runs: ClassVar[execution.Execution] = execution.InOrder()

    @property
    def edge_semantics(self) -> tuple[EdgeSemantics, ...]:
        """The edges from each child to the next; one fewer than there are children."""
        return tuple(child.annotations.edge or EdgeSemantics() for child in self.children[:-1])


@node
class ParallelNode(ParentNode, ParallelFields):  # pyright: ignore[reportIncompatibleVariableOverride]  # children is a field
    """Runs its children at the same time, each on a separate branch of the conversation."""

    kind: ClassVar[str] = "parallel"
    merge: Literal["wait_all", "first_complete", "interleave"] = "wait_all"

    @kept
    def runs(self) -> execution.InParallel:  # pyright: ignore[reportIncompatibleVariableOverride]  # as a property
        return execution.InParallel(waits=self.merge != "first_complete")


@node
class LoopNode(ParentNode, LoopFields):  # pyright: ignore[reportIncompatibleVariableOverride]  # children is a field
    """Runs its children in order, again and again, until `until` holds, one escalates or the limit is met.

    `until` is tested after each round, so the children run at least once.
    """

    kind: ClassVar[str] = "loop"
    max_iterations: int = 10
    until: Predicate | None = None

    @kept
    def runs(self) -> execution.Repeated:  # pyright: ignore[reportIncompatibleVariableOverride]  # as a property
        return execution.Repeated(self.max_iterations, self.until)

    def calls(self) -> Iterable[UserCall]:
        yield UserCall(self.until, "its until()")

    def key_reads(self) -> KeyReads:
        return declared([self.until], "until", "tolerant")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent([self.until]), []


@node
class RouteNode(Node):
    """Runs the first branch whose predicate holds, else `default`, else nothing.

    Attributes:
        key: the state key that comparisons are about.
        rules: predicates, each with the branch to run when it holds.
        default: what runs when none holds.
        read_fields: the schema field that `key` was given as, if it was.
    """

    kind: ClassVar[str] = "route"
    key: str | None = None
    rules: tuple[tuple[Predicate, Node], ...] = ()
    default: Node | None = None
    read_fields: tuple[StateFieldRef, ...] = ()

    @kept
    def runs(self) -> execution.FirstMatch:  # pyright: ignore[reportIncompatibleVariableOverride]  # as a property
        return execution.FirstMatch(tuple(test for test, _ in self.rules), self.key, self.default is not None)

    @property
    def children(self) -> tuple[Node, ...]:
        branches = tuple(branch for _, branch in self.rules)
        return branches if self.default is None else (*branches, self.default)

    def with_children(self, children: tuple[Node, ...]) -> Self:
        rules = tuple((test, child) for (test, _), child in zip(self.rules, children, strict=False))
        return self.replace(rules=rules, default=None if self.default is None else children[-1])

    @property
    def may_be_skipped(self) -> bool:
        return self.key is None and self.default is None

    def calls(self) -> Iterable[UserCall]:
        return (UserCall(test, "its test") for test, _ in self.rules if not isinstance(test, Match))

    def key_reads(self) -> KeyReads:
        tests = [test for test, _ in self.rules]
        compared = [test for test in tests if isinstance(test, Match)]
        asked = [test for test in tests if not isinstance(test, Match)]
        for key in dict.fromkeys((*given_keys(self.key), *(test.key for test in compared))):
            mine = [test for test in compared if test.key == key]
            expected = any(test.op == "eq" and test.value is None for test in mine)  # a rule for its absence
            by_others = not mine and key in access(*asked).reads  # which say what its absence means
            tolerant = expected or by_others or (bool(mine) and all(test.op == "ne" for test in mine))
            yield KeyRead(key, "route", "tolerant" if tolerant else "required")
        yield from declared(asked, "predicate")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent(test for test, _ in self.rules), []


@node
class FallbackNode(ParentNode):
    """Runs its children in order until one succeeds."""

    kind: ClassVar[str] = "fallback"
    runs: ClassVar[execution.Execution] = execution.FirstSuccess()


@node
class RaceNode(ParentNode):
    """Runs its children at the same time and keeps only what the first to succeed did."""

    kind: ClassVar[str] = "race"
    runs: ClassVar[execution.Execution] = execution.RaceToSuccess()


@node
class MapOverNode(WrapperNode):
    """Runs `body` once per item of the list at `list_key` and writes the answers, in order.

    Attributes:
        item_key: where the body finds its item; gone afterwards.
        output_key: where the list of answers is written.
        concurrency: how many items run at the same time.
    """

    kind: ClassVar[str] = "map"
    list_key: str
    body: Node
    item_key: str = "_item"
    output_key: str = "results"
    concurrency: int = 5

    @kept
    def runs(self) -> execution.PerItem:  # pyright: ignore[reportIncompatibleVariableOverride]  # as a property
        return execution.PerItem(self.list_key, self.item_key, self.output_key)

    @property
    def may_be_skipped(self) -> bool:
        return True

    def key_reads(self) -> KeyReads:
        yield KeyRead(self.list_key, "list", type=list)

    @property
    def key_writes(self) -> tuple[str, ...]:
        return (self.output_key,)


@node
class TimeoutNode(WrapperNode):
    """Gives `body` a number of seconds, then cancels it and raises."""

    kind: ClassVar[str] = "timeout"
    runs: ClassVar[execution.Execution] = execution.Wrapped()
    body: Node
    seconds: float
