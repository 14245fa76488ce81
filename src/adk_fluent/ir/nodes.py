"""Every IR node type.

Nodes that mirror an ADK agent inherit its fields from `_generated`; the others have no ADK counterpart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final, Literal, Self

from adk_fluent.ir._generated import AGENT_FIELDS, AgentFields, LoopFields, ParallelFields, SequenceFields
from adk_fluent.ir.annotations import (
    AuthConfig,
    EdgeSemantics,
    InstructionSpec,
    ModelCandidate,
    RetryConfig,
    Semantics,
    TransformSpec,
)
from adk_fluent.ir.base import Node, Runs, node
from adk_fluent.ir.fields import StateFieldRef
from adk_fluent.ir.frozen import Frozen
from adk_fluent.ir.functions import Access, access, function_name
from adk_fluent.ir.matching import Predicate, StateView
from adk_fluent.ir.template import all_keys

Changes = Mapping[str, Any] | None
TransformFn = Callable[[StateView], Changes | Awaitable[Changes]]
TapFn = Callable[[StateView], object]


def _keys(reads: tuple[str | None, ...] = (), writes: tuple[str | None, ...] = ()) -> Access:
    return Access(frozenset(filter(None, reads)), frozenset(filter(None, writes)))


CALLBACK_FIELDS: Final = frozenset(field for field in AGENT_FIELDS if field.endswith("_callback"))


def templates_in(instruction: object) -> tuple[str, ...]:
    """The texts of an instruction that every run uses."""
    if isinstance(instruction, InstructionSpec):
        return instruction.templates
    return (instruction,) if isinstance(instruction, str) else ()


def _reading(*functions: object) -> Access:
    """What functions that get a read-only view touch: they cannot write."""
    seen = access(*functions)
    return Access(seen.reads, reads_known=seen.reads_known)


@node
class ModelSelectorNode(Node):
    """Chooses the model of an agent at each call; held by the agent, never a step of its own."""

    kind: ClassVar[str] = "model_selector"
    strategy: Literal["cost_optimized", "quality_optimized", "budget_bounded", "adaptive"] = "cost_optimized"
    candidates: tuple[ModelCandidate, ...] = ()
    budget_key: str | None = None
    fallback_model: str | None = None
    quality_key: str | None = None
    quality_threshold: float | None = None

    @property
    def access(self) -> Access:
        conditions = _reading(*(candidate.condition for candidate in self.candidates))
        return conditions | _keys(reads=(self.budget_key, self.quality_key))


@node
class AgentNode(AgentFields):
    """A model call with its tools: ADK's `LlmAgent`.

    Attributes:
        children: agents it may transfer to (ADK's `sub_agents`).
        declared_writes: keys it writes beside `output_key`.
        written_fields: the schema fields among what it writes; see `adk_fluent.state.answers`.
        read_fields: the schema fields among what it is given through its context.
        produces_type: the model it says it produces (`.produces`); a note for checks only.
        consumes_type: the model it says it consumes (`.consumes`); a note for checks only.
        selector: chooses the model at each call, instead of `model`.
    """

    kind: ClassVar[str] = "agent"
    runs: ClassVar[Runs] = "by_model"
    speaks: ClassVar[bool] = True
    children: tuple[Node, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride]  # a field, where the base has a property
    declared_writes: tuple[str, ...] = ()
    written_fields: tuple[StateFieldRef, ...] = ()
    read_fields: tuple[StateFieldRef, ...] = ()
    produces_type: type | None = None
    consumes_type: type | None = None
    selector: ModelSelectorNode | None = None

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(children=children)

    @property
    def templates(self) -> tuple[str, ...]:
        """The texts of its instructions that every run uses; their placeholders must be filled."""
        given = self.given
        if type(text := given.get("instruction")) is str and "global_instruction" not in given:
            return (text,)
        return templates_in(self.instruction) + templates_in(self.global_instruction)

    @property
    def functions(self) -> tuple[object, ...]:
        """The functions of the user that run inside this agent and can reach the state."""
        providers = tuple(x for x in (self.instruction, self.global_instruction) if callable(x))
        return providers + self.callbacks + tuple(getattr(tool, "function", tool) for tool in self.tools)

    @property
    def callbacks(self) -> tuple[Callable[..., Any], ...]:
        """Its callbacks of all kinds."""
        given = self.given
        if CALLBACK_FIELDS.isdisjoint(given):
            return ()
        return tuple(fn for field in AGENT_FIELDS if field in CALLBACK_FIELDS for fn in given.get(field, ()))

    @property
    def access(self) -> Access:
        output = (self.output_key,) if isinstance(self.output_key, str) else ()
        fields = (field.key for field in self.written_fields)
        reads = frozenset[str]().union(*map(all_keys, self.templates))
        own = Access(reads, frozenset((*self.declared_writes, *fields, *output))) | access(*self.functions)
        for instruction in (self.instruction, self.global_instruction):
            if isinstance(instruction, InstructionSpec):
                own |= instruction.access
        if self.annotations.context is not None:
            own |= self.annotations.context.access
        return own | self.selector.access if self.selector else own


@node
class SequenceNode(SequenceFields):
    """Runs its children one after another."""

    kind: ClassVar[str] = "sequence"
    runs: ClassVar[Runs] = "in_order"
    children: tuple[Node, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride]  # a field, where the base has a property

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(children=children)

    @property
    def edge_semantics(self) -> tuple[EdgeSemantics, ...]:
        """How text travels from each child to the next; one fewer than there are children."""
        return tuple(child.annotations.edge or EdgeSemantics() for child in self.children[:-1])


@node
class ParallelNode(ParallelFields):
    """Runs its children at the same time, each on a conversation branch of its own."""

    kind: ClassVar[str] = "parallel"
    runs: ClassVar[Runs] = "at_once"
    apart: ClassVar[bool] = True
    children: tuple[Node, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride]  # a field, where the base has a property
    merge: Literal["wait_all", "first_complete", "interleave"] = "wait_all"

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(children=children)


@node
class LoopNode(LoopFields):
    """Runs its children in order, again and again, until `until` holds, one escalates or the limit is met.

    `until` is tested after each round, so the children run at least once.
    """

    kind: ClassVar[str] = "loop"
    runs: ClassVar[Runs] = "again"
    children: tuple[Node, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride]  # a field, where the base has a property
    max_iterations: int = 10
    until: Predicate | None = None

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(children=children)

    @property
    def access(self) -> Access:
        return _reading(self.until)


@node
class TransformNode(Node):
    """Computes new state from old, without a model.

    Attributes:
        fn: `state -> dict | None`; the dict is what to write, `None` or `{}` is nothing.
        semantics: `merge` writes the dict; `replace_session` also removes every other session-scoped key;
            `delete_keys` removes `affected_keys`, then writes the dict.
        scope: which keys `replace_session` may remove.
        affected_keys: session-scoped keys that `delete_keys` removes.

    An `S` operation says itself what it removes: of one, `semantics` and `affected_keys` follow.
    """

    kind: ClassVar[str] = "transform"
    fn: TransformFn
    semantics: Semantics = "merge"
    scope: Literal["session", "all"] = "session"
    affected_keys: frozenset[str] | None = None

    def _fill(self, values: Mapping[str, object]) -> None:
        fn = values.get("fn")
        if isinstance(fn, TransformSpec):
            values = {**values, "semantics": fn.semantics, "affected_keys": fn.affected_keys}
        super()._fill(values)

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> Frozen:
        fn = values.get("fn")
        if isinstance(fn, TransformSpec):
            values = {**values, "fn": fn.completed(values.get("affected_keys"))}
        return super().from_stored(values)

    @property
    def label(self) -> str:
        hint = getattr(self.fn, "step_label", None)
        return hint if isinstance(hint, str) else function_name(self.fn, "transform")

    @property
    def access(self) -> Access:
        fn = self.fn
        return fn.access if isinstance(fn, TransformSpec) else access(fn)


@node
class CaptureNode(Node):
    """Copies the conversation into state: the last user message, or the last `turns` turns, as text."""

    kind: ClassVar[str] = "capture"
    key: str
    turns: int | None = None

    @property
    def access(self) -> Access:
        return _keys(writes=(self.key,))


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
    runs: ClassVar[Runs] = "one_of"
    key: str | None = None
    rules: tuple[tuple[Predicate, Node], ...] = ()
    default: Node | None = None
    read_fields: tuple[StateFieldRef, ...] = ()

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

    @property
    def access(self) -> Access:
        return _reading(*(test for test, _ in self.rules)) | _keys(reads=(self.key,))


@node
class FallbackNode(Node):
    """Runs its children in order until one succeeds."""

    kind: ClassVar[str] = "fallback"
    runs: ClassVar[Runs] = "until_one_succeeds"
    children: tuple[Node, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride]  # a field, where the base has a property

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(children=children)


@node
class RaceNode(Node):
    """Runs its children at the same time and keeps only what the first to succeed did."""

    kind: ClassVar[str] = "race"
    runs: ClassVar[Runs] = "until_one_succeeds"
    apart: ClassVar[bool] = True
    children: tuple[Node, ...] = ()  # pyright: ignore[reportIncompatibleMethodOverride]  # a field, where the base has a property

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(children=children)


@node
class GateNode(Node):
    """Stops the run until a person approves, when `predicate` says that approval is required.

    Attributes:
        message: what the person is asked; a template over the state.
        into: the key that gets the payload of the approval, or `True`.
    """

    kind: ClassVar[str] = "gate"
    asks: ClassVar[bool] = True
    predicate: Predicate
    message: str = "Approval required"
    into: str | None = None

    @property
    def templates(self) -> tuple[str, ...]:
        """The texts whose placeholders must be filled when it asks."""
        return (self.message,)

    @property
    def access(self) -> Access:
        return _reading(self.predicate) | _keys(tuple(all_keys(self.message)), (self.into,))


@node
class TapNode(Node):
    """Lets a function look at the state; it cannot change it."""

    kind: ClassVar[str] = "tap"
    fn: TapFn

    @property
    def label(self) -> str:
        return function_name(self.fn, "tap")

    @property
    def access(self) -> Access:
        return _reading(self.fn)


@node
class MapOverNode(Node):
    """Runs `body` once per item of the list at `list_key` and writes the answers, in order.

    Attributes:
        item_key: where the body finds its item; gone afterwards.
        output_key: where the list of answers is written.
        concurrency: how many items run at the same time.
    """

    kind: ClassVar[str] = "map"
    runs: ClassVar[Runs] = "per_item"
    apart: ClassVar[bool] = True
    list_key: str
    body: Node
    item_key: str = "_item"
    output_key: str = "results"
    concurrency: int = 5

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(body=children[0])

    @property
    def may_be_skipped(self) -> bool:
        return True

    @property
    def access(self) -> Access:
        return _keys((self.list_key,), (self.output_key,))


@node
class TimeoutNode(Node):
    """Gives `body` a number of seconds, then cancels it and raises."""

    kind: ClassVar[str] = "timeout"
    runs: ClassVar[Runs] = "around_one"
    body: Node
    seconds: float

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(body=children[0])


@node
class TransferNode(Node):
    """Hands over to the agent named `target` and skips the rest of the enclosing sequence."""

    kind: ClassVar[str] = "transfer"
    target: str
    condition: Predicate | None = None

    @property
    def label(self) -> str:
        return f"to_{self.target}"

    @property
    def access(self) -> Access:
        return _reading(self.condition)


@node
class RemoteAgentNode(Node):
    """An agent that another process serves over A2A.

    Attributes:
        endpoint: URL of its agent card, or of the service.
        timeout_seconds: seconds one call may take.
        fallback: what runs instead when the remote fails.
        declared_reads: state keys sent along.
        output_key: where its answer is stored.
    """

    kind: ClassVar[str] = "remote"
    runs: ClassVar[Runs] = "one_of"
    speaks: ClassVar[bool] = True
    endpoint: str
    capabilities: tuple[str, ...] = ()
    input_schema: type | None = None
    output_schema: type | None = None
    auth: AuthConfig | None = None
    timeout_seconds: float = 30.0
    retry: RetryConfig | None = None
    fallback: Node | None = None
    declared_reads: tuple[str, ...] = ()
    output_key: str | None = None

    @property
    def children(self) -> tuple[Node, ...]:
        return () if self.fallback is None else (self.fallback,)

    def with_children(self, children: tuple[Node, ...]) -> Self:
        return self.replace(fallback=children[0] if children else None)

    @property
    def access(self) -> Access:
        return _keys(self.declared_reads, (self.output_key,))


@node
class ArtifactNode(Node):
    """One artifact operation: publish a state value, or snapshot an artifact into state, and the like."""

    kind: ClassVar[str] = "artifact"
    operation: str
    filename: str = ""
    from_key: str | None = None
    into_key: str | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        return self.operation

    @property
    def access(self) -> Access:
        return _keys((self.from_key,), (self.into_key,))


NODE_TYPES: Final[tuple[type[Node], ...]] = (
    AgentNode,
    SequenceNode,
    ParallelNode,
    LoopNode,
    TransformNode,
    RouteNode,
    FallbackNode,
    RaceNode,
    GateNode,
    TapNode,
    MapOverNode,
    TimeoutNode,
    TransferNode,
    CaptureNode,
    ModelSelectorNode,
    RemoteAgentNode,
    ArtifactNode,
)
"""Every node type; a test holds each consumer of the IR against this list."""
