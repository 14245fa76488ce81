"""Events that plugins have seen before the runner gives them out: those of what ran apart at first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin

from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.compat.private import stores_what_plugins_give
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.execution import RaceToSuccess

_NAME: Final = "adk_fluent_once"


class Once(AddedPlugin):
    """Keeps plugins from being asked twice about an event; it is the first of its app.

    ADK asks no further plugin once one has given an event back.
    """

    def __init__(self) -> None:
        super().__init__(name=_NAME)
        self.seen: set[str] = set()

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """Give back an event that all plugins have seen."""
        if event.id not in self.seen:
            return None
        self.seen.discard(event.id)
        runs.given(invocation_context, event)
        return event


def once(root: Node) -> list[BasePlugin]:
    """The plugins that an app for this tree needs, before all others.

    None where plugins are asked only about what the runner gives out.
    """
    apart = stores_what_plugins_give() and any(_runs_apart(node) for node in walk(root))
    return [Once()] if apart else []


def _runs_apart(node: Node) -> bool:
    """Whether what a node runs, or the step behind it, runs apart from the session at first."""
    edge = node.annotations.edge
    return isinstance(node.runs, RaceToSuccess) or (edge is not None and edge.buffering == "chunked")


def already_seen(ctx: InvocationContext, events: Iterable[Event]) -> None:
    """Note that the plugins of this run have seen these events."""
    plugin = ctx.plugin_manager.get_plugin(_NAME)
    if isinstance(plugin, Once):
        plugin.seen.update(event.id for event in events)
