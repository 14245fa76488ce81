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
from adk_fluent.ir.keys import KeyRead, KeyReads, declared, in_templates, silent
from adk_fluent.ir.matching import Match, Predicate, StateView
from adk_fluent.ir.tools import confirms, tool_access

Changes = Mapping[str, Any] | None
TransformFn = Callable[[StateView], Changes | Awaitable[Changes]]
TapFn = Callable[[StateView], object]


def _given(*keys: str | None) -> tuple[str, ...]:
    return tuple(key for key in keys if key)


CALLBACKS: Final = (
    "before_agent_callback",
    "before_model_callback",
    "before_tool_callback",
    "after_tool_callback",
    "on_tool_error_callback",
    "on_model_error_callback",
    "after_model_callback",
    "after_agent_callback",
)
"""The functions that ADK calls around an agent's work, in the order it calls them."""
CALLBACK_FIELDS: Final = frozenset(field for field in AGENT_FIELDS if field.endswith("_callback"))
_MORE: Final = CALLBACK_FIELDS | {
    "annotations",
    "declared_writes",
    "global_instruction",
    "selector",
    "tools",
    "written_fields",
}
"""The fields of an agent through which it may touch the state, beside its instruction and output key."""


def templates_in(instruction: object) -> tuple[str, ...]:
    """The texts of an instruction that every run uses."""
    if isinstance(instruction, InstructionSpec):
        return instruction.templates
    return (instruction,) if isinstance(instruction, str) else ()


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

    def key_reads(self) -> KeyReads:
        yield from declared([candidate.condition for candidate in self.candidates], "predicate")
        if self.budget_key:
            yield KeyRead(self.budget_key, "budget", "optional")
        if self.quality_key:
            yield KeyRead(self.quality_key, "quality", "optional")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent(candidate.condition for candidate in self.candidates), []


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

    def key_reads(self) -> KeyReads:
        yield from in_templates(self.templates, "template")
        given = self.given
        if _MORE.isdisjoint(given) and type(given.get("instruction", "")) is str:
            return  # most agents read nothing else
        for provider in self._instructions:
            if isinstance(provider, InstructionSpec):
                yield from provider.key_reads()
            elif callable(provider):
                yield from declared([provider], "function")
        if self.annotations.context is not None:
            yield from self.annotations.context.key_reads()
        for field in CALLBACKS:
            yield from declared(given.get(field, ()), "callback")
        for tool in self.tools:
            for key in tool_access(tool).reads:
                yield KeyRead(key, "tool")
        if self.selector is not None:
            yield from self.selector.key_reads()

    @property
    def key_writes(self) -> tuple[str, ...]:
        keys = [self.output_key] if isinstance(self.output_key, str) else []
        if _MORE.isdisjoint(self.given):
            return tuple(keys)  # most agents write nothing else
        keys += self.declared_writes
        keys += [field.key for field in self.written_fields]
        if self.annotations.context is not None:
            keys += sorted(self.annotations.context.access.writes)
        for tool in self.tools:
            keys += sorted(tool_access(tool).writes)
        keys += sorted(access(*self.callbacks).writes)
        return tuple(dict.fromkeys(keys))

    def undeclared(self) -> tuple[list[object], list[object]]:
        given = self.given
        if _MORE.isdisjoint(given) and type(given.get("instruction", "")) is str:
            return [], []  # as most agents; asked for each of them several times
        readers: list[object] = []
        writers: list[object] = []
        if (spec := self.annotations.context) is not None and not spec.access.reads_known:
            readers.append(spec)
        for provider in self._instructions:
            unknown = isinstance(provider, InstructionSpec) and not provider.access.reads_known
            if unknown or (callable(provider) and not access(provider).reads_known):
                readers.append(provider)
        for tool in self.tools:
            touched = tool_access(tool)
            readers += [tool] * (not touched.reads_known)
            writers += [tool] * (not touched.writes_known)
        callbacks = [callback for callback in self.callbacks if not access(callback).writes_known]
        return [*readers, *callbacks], [*writers, *callbacks]

    @property
    def may_pause(self) -> bool:
        return any(confirms(tool) or getattr(tool, "is_long_running", False) for tool in self.tools)

    @property
    def _instructions(self) -> tuple[object, object]:
        return self.given.get("instruction"), self.given.get("global_instruction")


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

    def key_reads(self) -> KeyReads:
        return declared([self.until], "until", "tolerant")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent([self.until]), []


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

    def key_reads(self) -> KeyReads:
        fn = self.fn
        if isinstance(fn, TransformSpec):
            yield from (read for read in fn.reads if read.via != "own")
            return
        named = set[str]()
        for read in declared([fn], "function"):
            named.add(read.key)
            yield read
        for key in sorted((self.affected_keys or frozenset()) - named):
            yield KeyRead(key, "removal", "lenient")

    @property
    def key_writes(self) -> tuple[str, ...]:
        return tuple(sorted(self.access.writes))

    def undeclared(self) -> tuple[list[object], list[object]]:
        fn, touched = self.fn, self.access
        if isinstance(fn, TransformSpec) and fn.names_keys_as_it_runs:
            return [], []
        return [fn] * (not touched.reads_known), [fn] * (not touched.writes_known)

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
    def key_writes(self) -> tuple[str, ...]:
        return (self.key,)


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

    def key_reads(self) -> KeyReads:
        tests = [test for test, _ in self.rules]
        compared = [test for test in tests if isinstance(test, Match)]
        for key in dict.fromkeys((*_given(self.key), *(test.key for test in compared))):
            mine = [test for test in compared if test.key == key]
            tolerant = bool(mine) and all(test.op == "ne" for test in mine)
            yield KeyRead(key, "route", "tolerant" if tolerant else "required")
        yield from declared([test for test in tests if not isinstance(test, Match)], "predicate")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent(test for test, _ in self.rules), []


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
    def may_pause(self) -> bool:
        return True

    def key_reads(self) -> KeyReads:
        yield from declared([self.predicate], "predicate")
        yield from in_templates(self.templates, "message")

    @property
    def key_writes(self) -> tuple[str, ...]:
        return _given(self.into)

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent([self.predicate]), []


@node
class TapNode(Node):
    """Lets a function look at the state; it cannot change it."""

    kind: ClassVar[str] = "tap"
    fn: TapFn

    @property
    def label(self) -> str:
        return function_name(self.fn, "tap")

    def key_reads(self) -> KeyReads:
        return declared([self.fn], "function")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent([self.fn]), []


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

    def key_reads(self) -> KeyReads:
        yield KeyRead(self.list_key, "list", type=list)

    @property
    def key_writes(self) -> tuple[str, ...]:
        return (self.output_key,)


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

    def key_reads(self) -> KeyReads:
        return declared([self.condition], "predicate")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent([self.condition]), []


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

    def key_reads(self) -> KeyReads:
        return (KeyRead(key, "remote") for key in self.declared_reads)

    @property
    def key_writes(self) -> tuple[str, ...]:
        return _given(self.output_key)


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

    def key_reads(self) -> KeyReads:
        return (KeyRead(key, "artifact") for key in _given(self.from_key))

    @property
    def key_writes(self) -> tuple[str, ...]:
        return _given(self.into_key)


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
