"""Nodes that hold a native agent, which runs unchanged."""

from __future__ import annotations

from typing import ClassVar

from adk_fluent.ir.adk_objects import Native
from adk_fluent.ir.base import Node, WrapperNode, node
from adk_fluent.ir.execution import Execution, Wrapped
from adk_fluent.ir.functions import Access
from adk_fluent.ir.keys import KeyRead, KeyReads
from adk_fluent.ir.state_keys import NO_SIGHTINGS, Sightings


@node
class NativeNode(Node):
    """A native agent whose parts are unknown; a clone of it runs.

    Attributes:
        native: the agent.
        declared: the state keys that the user declared for it; `None` if only its source shows them.
    """

    kind: ClassVar[str] = "native"
    speaks: ClassVar[bool] = True
    opaque: ClassVar[bool] = True
    output_key: ClassVar[str | None] = None
    """The state key of its answer, which is unknown."""
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
        """The author names that its events may have: its name, and those of the agents in it."""
        return (self.name, *self.native.names)

    @property
    def may_turn_to_ask(self) -> bool:
        return self.native.asks

    @property
    def seen(self) -> Sightings:
        """The uses of state that its source shows; none if the user declared its keys."""
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
    """A native agent or workflow that runs unchanged; `body` describes its known parts for the analysis.

    Attributes:
        native: the agent or workflow; a clone of it runs.
        body: its known parts as nodes; they do not run.
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
