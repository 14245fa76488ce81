"""Nodes that ask no model: they change the state, look at it, wait for a person, hand over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

from adk_fluent.ir.annotations import ArtifactSpec, Semantics, TransformSpec
from adk_fluent.ir.base import Node, node
from adk_fluent.ir.execution import HandOver
from adk_fluent.ir.frozen import Frozen, kept
from adk_fluent.ir.functions import Access, function_name, step_access, takes_pieces
from adk_fluent.ir.keys import (
    ArtifactUse,
    KeyRead,
    KeyReads,
    declared,
    given_keys,
    in_templates,
    silent,
    uses_in,
)
from adk_fluent.ir.predicates import Predicate, StateView
from adk_fluent.ir.resources import UserCall
from adk_fluent.ir.state_keys import NO_SIGHTINGS, Sightings

Changes = Mapping[str, Any] | None


TransformFn = Callable[[StateView], Changes | Awaitable[Changes]]


Pieces = AsyncIterator[str]
"""An answer as it is generated, piece by piece."""


PiecesFn = Callable[[Pieces], Awaitable[Changes]]


StepFn = TransformFn | PiecesFn
"""A function that is a step: of the state, or of an answer as it is generated."""


PieceFn = Callable[[str], object]


TapFn = Callable[[StateView], object]


@node
class TransformNode(Node):
    """Computes new state from old, without a model.

    Attributes:
        fn: `state -> dict | None`; the dict is what to write, `None` or `{}` is nothing. One whose parameter
            is an `AsyncIterator[str]` gets the pieces of the answer that an edge leads into it.
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
    def function(self) -> object:
        """The user's function that it runs, which may be given resources; `None` if that is an operation."""
        return next((call.function for call in self.calls() if call.injected), None)

    @property
    def says(self) -> str | None:
        """The state key whose value its operation gives as the answer, if it is to be shown."""
        shown = self.annotations.visibility == "user" and isinstance(self.fn, TransformSpec)
        return self.fn.says if shown and isinstance(self.fn, TransformSpec) else None

    @property
    def needs_pieces(self) -> bool:
        """True if its function takes an answer in chunks: its parameter is an `AsyncIterator[str]`."""
        return not isinstance(self.fn, TransformSpec) and takes_pieces(self.fn)

    @property
    def label(self) -> str:
        hint = getattr(self.fn, "step_label", None)
        return hint if isinstance(hint, str) else function_name(self.fn, "transform")

    def calls(self) -> Iterable[UserCall]:
        fn = self.fn
        return fn.calls() if isinstance(fn, TransformSpec) else iter((UserCall(fn, "its function"),))

    def key_reads(self) -> KeyReads:
        fn = self.fn
        if isinstance(fn, TransformSpec):
            yield from (read for read in fn.reads if read.via != "own")
            return
        yield from (KeyRead(one.key, "function", one.softened, where=one.where) for one in self.seen.reads)
        named = set[str]()
        for read in declared([fn], "function"):
            named.add(read.key)
            yield read
        for key in sorted((self.affected_keys or frozenset()) - named):
            yield KeyRead(key, "removal", "lenient")

    @property
    def key_writes(self) -> tuple[str, ...]:
        return tuple(sorted({*self.access.writes, *(one.key for one in self.seen.writes)}))

    @property
    def seen(self) -> Sightings:
        """The uses of state that the source of its function shows, for a function of an ADK workflow."""
        found = getattr(self.fn, "seen", NO_SIGHTINGS)
        return found if isinstance(found, Sightings) else NO_SIGHTINGS

    def undeclared(self) -> tuple[list[object], list[object]]:
        fn, touched = self.fn, self.access
        if isinstance(fn, TransformSpec) and fn.names_keys_as_it_runs:
            return [], []
        reads_known = touched.reads_known or self.takes_pieces
        return [fn] * (not reads_known), [fn] * (not touched.writes_known)

    @property
    def access(self) -> Access:
        fn = self.fn
        return fn.access if isinstance(fn, TransformSpec) else step_access(fn)


@node
class CaptureNode(Node):
    """Copies the conversation into state: the last user message, or the last `turns` turns, as text."""

    kind: ClassVar[str] = "capture"
    key: str
    turns: int | None = None

    @property
    def copies_user(self) -> bool:
        return self.turns is None

    @property
    def copied_turns(self) -> int | None:
        return self.turns

    @property
    def key_writes(self) -> tuple[str, ...]:
        return (self.key,)


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

    def calls(self) -> Iterable[UserCall]:
        yield UserCall(self.predicate, "its predicate")

    def key_reads(self) -> KeyReads:
        yield from declared([self.predicate], "predicate")
        yield from in_templates(self.templates, "message")

    def artifact_uses(self) -> Iterator[ArtifactUse]:
        return uses_in(self.templates)

    @property
    def key_writes(self) -> tuple[str, ...]:
        return given_keys(self.into)

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent([self.predicate]), []


@node
class TapNode(Node):
    """Lets a function look at the state, which it cannot change.

    Behind an edge that passes an answer on in pieces, it is called with each piece instead.
    """

    kind: ClassVar[str] = "tap"
    fn: TapFn

    @property
    def takes_pieces(self) -> bool:
        """True: its function is called with each chunk of an answer."""
        return True

    @property
    def label(self) -> str:
        return function_name(self.fn, "tap")

    def calls(self) -> Iterable[UserCall]:
        yield UserCall(self.fn, "its function")

    def key_reads(self) -> KeyReads:
        return declared([self.fn], "function")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent([self.fn]), []


@node
class TransferNode(Node):
    """Hands over to the agent named `target` and skips the rest of the enclosing sequence."""

    kind: ClassVar[str] = "transfer"
    target: str
    condition: Predicate | None = None

    @kept
    def runs(self) -> HandOver:  # pyright: ignore[reportIncompatibleVariableOverride]  # as a property
        return HandOver(self.target, self.condition)

    @property
    def label(self) -> str:
        return f"to_{self.target}"

    def calls(self) -> Iterable[UserCall]:
        yield UserCall(self.condition, "its condition")

    def key_reads(self) -> KeyReads:
        return declared([self.condition], "predicate")

    def undeclared(self) -> tuple[list[object], list[object]]:
        return silent([self.condition]), []


@node
class ArtifactNode(Node):
    """Runs an operation on artifacts: the files that are kept beside the state of a session or a user.

    Attributes:
        operation: what it does; an `A` operation.
    """

    kind: ClassVar[str] = "artifact"
    operation: ArtifactSpec

    @property
    def label(self) -> str:
        return self.operation.step_label

    def calls(self) -> Iterable[UserCall]:
        return self.operation.calls()

    def key_reads(self) -> KeyReads:
        return iter(self.operation.reads)

    @property
    def key_writes(self) -> tuple[str, ...]:
        return tuple(sorted(self.access.writes))

    def artifact_uses(self) -> Iterator[ArtifactUse]:
        return iter(self.operation.artifacts)

    def undeclared(self) -> tuple[list[object], list[object]]:
        operation, touched = self.operation, self.access
        return [operation] * (not touched.reads_known), [operation] * (not touched.writes_known)

    @property
    def access(self) -> Access:
        return self.operation.access
