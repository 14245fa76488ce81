"""Nodes that hold an agent of ADK's, which runs as it was given."""

from __future__ import annotations

from typing import ClassVar

from adk_fluent.ir.base import Node, WrapperNode, node
from adk_fluent.ir.execution import Execution, Wrapped
from adk_fluent.ir.functions import Access
from adk_fluent.ir.keys import KeyRead, KeyReads
from adk_fluent.ir.native import Native
from adk_fluent.ir.sighting import NO_SIGHTINGS, Sightings


@node
class NativeNode(Node):
    """A native agent whose inside nobody can see; a clone of it runs.

    Attributes:
        native: the agent.
        declared: the state keys that it touches, where that was said; else what its source shows.
    """

    kind: ClassVar[str] = "native"
    speaks: ClassVar[bool] = True
    opaque: ClassVar[bool] = True
    output_key: ClassVar[str | None] = None
    """Where its answer is stored, as far as anybody knows."""
    native: Native
    declared: Access | None = None

    @property
    def as_given(self) -> Native:
        return self.native

    @property
    def label(self) -> str:
        return self.native.name

    @property
    def voices(self) -> tuple[str, ...]:
        """The names under which it may speak: its own, and those of the agents in it."""
        return (self.name, *self.native.names)

    @property
    def may_turn_to_ask(self) -> bool:
        return self.native.asks

    @property
    def seen(self) -> Sightings:
        """What its source shows of the keys it touches; nothing where that was declared."""
        if self.declared is not None:
            return NO_SIGHTINGS
        from adk_fluent.ir.source import sightings  # only what is adopted needs it

        held: object = self.native.value
        return sightings(type(held))

    def key_reads(self) -> KeyReads:
        if self.declared is not None:
            yield from (KeyRead(key, "function") for key in sorted(self.declared.reads))
        yield from (KeyRead(one.key, "function", one.softened, where=one.where) for one in self.seen.reads)

    @property
    def key_writes(self) -> tuple[str, ...]:
        said = () if self.declared is None else sorted(self.declared.writes)
        return tuple(dict.fromkeys([*said, *(one.key for one in self.seen.writes)]))

    def undeclared(self) -> tuple[list[object], list[object]]:
        said, unknown = self.declared, [self.native.value]
        if said is None:
            return unknown, unknown
        return unknown * (not said.reads_known), unknown * (not said.writes_known)


@node
class KnownNativeNode(WrapperNode):
    """A native agent or workflow that runs as it is, and of which `body` is what could be read.

    Attributes:
        native: what a clone of runs in place of `body`.
        body: what is known of it.
    """

    kind: ClassVar[str] = "known_native"
    runs: ClassVar[Execution] = Wrapped()
    native: Native
    body: Node

    @property
    def as_given(self) -> Native:
        return self.native

    @property
    def may_turn_to_ask(self) -> bool:
        return self.native.asks

    @property
    def label(self) -> str:
        return f"{self.native.name}_as_given"
