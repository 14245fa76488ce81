"""What the events of a run mean by the expression that ran, whichever backend gave them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from adk_fluent.analysis.visibility import USER_VISIBLE, VISIBILITY, Outlet, outlet_of
from adk_fluent.backends.answering import Answers, absence, strays
from adk_fluent.backends.events import AgentEvent, Pending, blanked
from adk_fluent.config import ExecutionConfig
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.graph import Named, resolve_names
from adk_fluent.ir.nodes import TimeoutNode


def limited(node: Node, config: ExecutionConfig) -> Node:
    """The tree under the time limit of a configuration."""
    if config.timeout_seconds is None:
        return node
    return TimeoutNode(body=node, seconds=config.timeout_seconds)


@dataclass(frozen=True)
class Reading:
    """How the events of an expression are read.

    Attributes:
        named: its tree, with unique names: those of the events' authors.
    """

    named: Named

    @classmethod
    def of(cls, node: Node, config: ExecutionConfig) -> Reading:
        """That of a tree that runs under a configuration.

        Raises:
            DuplicateNameError: two different nodes have one name.
        """
        return cls(resolve_names(limited(node, config)))

    @cached_property
    def outlet(self) -> Outlet:
        """Who should see which events."""
        return outlet_of(self.named.root)

    @cached_property
    def answers(self) -> Answers:
        """Who returns which type."""
        return Answers.of(self.named)

    @cached_property
    def strays(self) -> frozenset[str]:
        """Who may answer in another type than the agent that handed over promised."""
        return strays(self.named.root, self.answers)

    @cached_property
    def _filters(self) -> bool:
        """Whether anything is hidden from the caller; if not, nobody need ask who sees what."""
        return any(node.annotations.policy == "filtered" for node in walk(self.named.root))

    def origin(self, author: str) -> str:
        """The name the user gave to what runs as `author`."""
        return self.named.origins.get(author, author)

    def marked(self, event: AgentEvent) -> AgentEvent:
        """The event, marked with who should see it.

        What a backend says about that stays, and so does what somebody says who is not in the tree.
        """
        if VISIBILITY in event.metadata or event.visibility != "user":
            return event
        seen = USER_VISIBLE if event.pending else self.outlet.by_author.get(event.author, USER_VISIBLE)
        return replace(event, visibility=seen.visibility, metadata={**event.metadata, **seen.marks})

    def all_marked(self, events: Iterable[AgentEvent]) -> list[AgentEvent]:
        """The events, marked; those of ADK are already."""
        return [event if VISIBILITY in event.metadata else self.marked(event) for event in events]

    def shown(self, event: AgentEvent) -> AgentEvent:
        """The event, marked, as `.filtered()` lets the caller see it."""
        if VISIBILITY not in event.metadata:
            event = self.marked(event)
        hidden = (
            event.visibility != "user" and self._filters and self.outlet.visibility_of(event.author).blanked
        )
        return blanked(event) if hidden else event

    def answered(
        self, events: Sequence[AgentEvent], state: Mapping[str, Any], pending: Sequence[Pending]
    ) -> Answers:
        """Who returns which type, with why nobody answered in these events where somebody promised to."""
        why = absence(self.named.root, self.answers, events, state, pending)
        return self.answers if why is None else replace(self.answers, absence=why)
