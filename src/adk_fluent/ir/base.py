"""`Node`, the base of all IR nodes: a frozen value with a name, children, and the state keys it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final, Self, TypeVar, dataclass_transform

from adk_fluent.errors import ArgumentError
from adk_fluent.ir.annotations import NO_ANNOTATIONS, Annotations
from adk_fluent.ir.execution import Execution, Leaf
from adk_fluent.ir.frozen import Frozen, freeze
from adk_fluent.ir.functions import Access
from adk_fluent.ir.keys import ArtifactUse, KeyReads
from adk_fluent.ir.resources import UserCall
from adk_fluent.ir.state_keys import NO_SIGHTINGS, Sightings

if TYPE_CHECKING:
    from adk_fluent.ir.adk_objects import Native


class Unset(Enum):
    """The type of `UNSET`. A field that is "not set" is different from one set to `None`."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def node(cls: C) -> C:
    """Make a class a node type: a frozen, keyword-only dataclass with a cached hash."""
    return freeze(cls, kw_only=True)


@node
class Node(Frozen):
    """Base of all IR nodes: immutable, compared by structure, hash cached.

    Attributes:
        name: unique in a tree after `resolve_names`; empty if the user gave none.
        annotations: facts for checks and backends beside the structure; see `Annotations`.
    """

    kind: ClassVar[str] = "node"
    """The node type in one lower-case word."""
    runs: ClassVar[Execution] = Leaf()
    """The way in which it runs its children; a property if it depends on the node's fields."""
    speaks: ClassVar[bool] = False
    """True if it answers itself, by a model or another program."""
    asks: ClassVar[bool] = False
    """True if the node itself asks a person and waits for the answer."""
    opaque: ClassVar[bool] = False
    """True if the analysis cannot see the parts that run inside the node."""

    name: str = ""
    annotations: Annotations = NO_ANNOTATIONS

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes that it runs, in order."""
        return ()

    def with_children(self, children: tuple[Node, ...]) -> Self:
        """The same node with other children; their number must stay the same."""
        if children:
            raise ValueError(f"{self.kind} has no children")
        return self

    @property
    def as_given(self) -> Native | None:
        """The agent or workflow of ADK's that runs unchanged in the node's place; `None` for other nodes."""
        return None

    @property
    def returns(self) -> object | None:
        """The type that its answer must have; `None` for text, and for a node that does not answer itself."""
        return None

    @property
    def templates(self) -> tuple[str, ...]:
        """The texts with placeholders that every run of the node must fill from the state."""
        return ()

    @property
    def seen(self) -> Sightings:
        """The uses of state that the source of the code in this node shows."""
        return NO_SIGHTINGS

    @property
    def may_be_skipped(self) -> bool:
        """True if a condition or an empty list may have the effect that no child runs."""
        return False

    @property
    def takes_pieces(self) -> bool:
        """True if it can take an answer in chunks of text."""
        return self.needs_pieces

    @property
    def needs_pieces(self) -> bool:
        """True if it can only take an answer in chunks of text, and not the state."""
        return False

    @property
    def says(self) -> str | None:
        """The state key whose value the user receives as its answer, or `None`; no agent sees that answer."""
        return None

    @property
    def copies_user(self) -> bool:
        """True if it copies the last message of the user into state unchanged."""
        return False

    @property
    def copied_turns(self) -> int | None:
        """The number of turns of the conversation that it copies into state; `None` if it copies no turn."""
        return None

    @property
    def unsent_inputs(self) -> tuple[str, ...]:
        """The fields that an agent in another process requires as input, and that the node does not send."""
        return ()

    @property
    def may_pause(self) -> bool:
        """True if a run may pause at the node itself until a person answers."""
        return False

    @property
    def may_turn_to_ask(self) -> bool:
        """True if code that the analysis does not see, such as a native agent, may ask a person in a run."""
        return False

    def key_reads(self) -> KeyReads:
        """The state keys that this node itself reads, without its children."""
        return iter(())

    @property
    def key_writes(self) -> tuple[str, ...]:
        """The known state keys that this node itself writes, in a stable order."""
        return ()

    def artifact_uses(self) -> Iterator[ArtifactUse]:
        """The uses of artifacts by this node itself, in order."""
        return iter(())

    def calls(self) -> Iterable[UserCall]:
        """The user's functions that this node itself calls, other than tools."""
        return ()

    def undeclared(self) -> tuple[list[object], list[object]]:
        """Its functions that may read, and those that may write, keys which they do not declare."""
        return [], []

    @property
    def access(self) -> Access:
        """The state keys that this node itself reads and writes, as far as they are known."""
        readers, writers = self.undeclared()
        reads = frozenset(read.key for read in self.key_reads() if read.via != "removal")
        return Access(reads, frozenset(self.key_writes), not readers, not writers)

    @property
    def reads_keys(self) -> frozenset[str]:
        """The state keys that this node itself reads, scope prefix included (`user:tier`)."""
        return self.access.reads

    @property
    def writes_keys(self) -> frozenset[str]:
        """The state keys that this node itself writes."""
        return self.access.writes

    @property
    def voices(self) -> tuple[str, ...]:
        """The author names that its events may have."""
        return (self.name,)

    @property
    def label(self) -> str:
        """The start of the name that it gets if `name` is empty."""
        return self.kind


@node
class ParentNode(Node):
    """Base of the nodes that hold their children in a tuple."""

    children: tuple[Node, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride]  # a field, where the base has a property

    def with_children(self, children: tuple[Node, ...]) -> Self:
        """The same node with other children."""
        return self.replace(children=children)


class WrapperNode(Node):
    """Base of the nodes with one child, in the field `body`."""

    body: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The body alone."""
        return (self.body,)

    def with_children(self, children: tuple[Node, ...]) -> Self:
        """The same node with another body."""
        return self.replace(body=children[0])


def walk(root: object) -> Iterator[Node]:
    """Every node of the tree, parents before children, in order.

    Args:
        root: an IR node, or an expression.
    """
    stack = [root_of(root)]
    while stack:
        current = stack.pop()
        yield current
        if children := current.children:
            stack.extend(reversed(children))


def rewrite(root: Node, fn: Callable[[Node], Node]) -> Node:
    """The tree with `fn` applied to every node, children first.

    `fn` receives a node whose children did not change as it is, so `rewrite(root, lambda n: n)` returns
    `root` itself.
    """
    children = root.children
    if children:
        changed = tuple(rewrite(child, fn) for child in children)
        if any(new is not old for new, old in zip(changed, children, strict=True)):
            root = root.with_children(changed)
    return fn(root)


def root_of(subject: object) -> Node:
    """The tree of an expression, a node, or a native agent or `App` that adk-fluent built.

    Raises:
        ArgumentError: `subject` is something else.

    >>> from adk_fluent import Agent
    >>> root_of(Agent("a").named("b")).name
    'b'
    """
    if isinstance(subject, Node):
        return subject
    for value in (subject, getattr(subject, "root_agent", None)):
        for found in (value, getattr(value, "node", None), getattr(value, "_ir", None)):
            if isinstance(found, Node):
                return found
    raise ArgumentError(
        "This takes an expression, an IR node, or what adk-fluent built of one, not "
        f"{type(subject).__name__}."
    )
