"""ADK events marked with who should see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin

from adk_fluent.analysis.visibility import USER_VISIBLE, Outlet, StepVisibility, outlet_of
from adk_fluent.backends.adk.added import AddedPlugin
from adk_fluent.backends.adk.events.asides import is_inside
from adk_fluent.ir.annotations import Visibility
from adk_fluent.ir.base import root_of


def event_visibility(event: Event, outlet: Outlet) -> StepVisibility:
    """The visibility of an event: that of its author, or `user` if the event asks a person.

    Only the caller of a tool sees events inside it, even if an agent around the tool has the same name.
    """
    if is_inside(event):
        return outlet.inside
    return USER_VISIBLE if event.long_running_tool_ids else outlet.visibility_of(event.author)


def marked(event: Event, visibility: StepVisibility) -> Event:
    """A copy of an event that says who should see it."""
    return event.model_copy(update={"custom_metadata": _metadata(event, visibility)})


def _metadata(event: Event, visibility: StepVisibility) -> dict[str, Any]:
    return {**(event.custom_metadata or {}), **visibility.marks}


def _is_stored(event: Event, ctx: InvocationContext) -> bool:
    """Whether ADK's session has an event already, as before 1.31; one in memory holds the same object."""
    events = ctx.session.events
    return bool(events) and events[-1] is event


class VisibilityPlugin(AddedPlugin):
    """Marks every event in its `custom_metadata` with who should see it, and changes nothing else.

    `adk_fluent.visibility` is `user`, `internal` or `zero_cost`; `adk_fluent.is_user_facing` is whether it is
    `user`. `to_app()` has this plugin already; it is public for an `App` that is written by hand.

    It may stand anywhere among other plugins. ADK asks no further plugin once one has given an event back, as
    this one must do to mark it. So it goes to the front when a run begins, asks the others itself, in their
    order and by ADK's rules, and marks what they leave: the event, or what one of them puts in its place.

    Where ADK asks plugins before it stores an event (from 1.31 on), the mark is stored with it.

    Args:
        of: an expression, an IR node, an agent or app that adk-fluent built, or agent name → visibility.
        name: the name of the plugin in its app.

    Raises:
        ArgumentError: `of` is none of these.

    Example:
        >>> from google.adk.apps.app import App
        >>> from adk_fluent import Agent
        >>> pipeline = Agent("draft").writes("draft") >> Agent("edit")
        >>> app = App(name="letters", root_agent=pipeline.build(), plugins=[VisibilityPlugin(pipeline)])
        >>> pipeline.to_app().plugins[-1].name
        'adk_fluent_visibility'
    """

    def __init__(self, of: object, name: str = "adk_fluent_visibility") -> None:
        super().__init__(name=name)
        if isinstance(of, Mapping):
            classes = cast("Mapping[str, Visibility]", of)
            self._given = Outlet({agent: StepVisibility(visibility) for agent, visibility in classes.items()})
        else:
            self._given = root_of(of)

    @cached_property
    def _outlet(self) -> Outlet:
        return self._given if isinstance(self._given, Outlet) else outlet_of(self._given)

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Go to the front of the plugins, if this is one of them: it may also stand among the middleware."""
        manager = invocation_context.plugin_manager
        others = [plugin for plugin in manager.plugins if plugin is not self]
        if len(others) < len(manager.plugins) and manager.plugins[0] is not self:
            manager.plugins = [self, *others]  # a new list: another run may be on its way through the old one

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """Mark the event, or give back a marked copy of what the plugins behind this one make of it."""
        manager, changed = invocation_context.plugin_manager, None
        behind = _behind(self, manager.plugins)
        if behind == [] and not _is_stored(event, invocation_context):
            event.custom_metadata = _metadata(
                event, event_visibility(event, self._outlet)
            )  # two copies fewer
            return None
        if behind:
            others = copy(manager)
            others.plugins = behind
            changed = await others.run_on_event_callback(invocation_context=invocation_context, event=event)
        if changed is None:
            return marked(event, event_visibility(event, self._outlet))
        if "custom_metadata" not in changed.model_fields_set:  # then ADK would keep that of the event
            changed = changed.model_copy(update={"custom_metadata": event.custom_metadata})
        if is_inside(event):  # whatever a plugin put in its place, and noted of that
            return marked(changed, event_visibility(event, self._outlet))
        asks = event.long_running_tool_ids or changed.long_running_tool_ids
        return marked(
            changed, USER_VISIBLE if asks else self._outlet.visibility_of(changed.author or event.author)
        )


def _behind(plugin: BasePlugin, plugins: Sequence[BasePlugin]) -> list[BasePlugin] | None:
    """The plugins that ADK would ask after this one; `None` where it is asked by somebody else than ADK.

    One that leaves events alone need not be asked.
    """
    behind: list[BasePlugin] | None = None
    for other in plugins:
        if other is plugin:
            behind = []
        elif behind is not None and (
            type(other).on_event_callback is not BasePlugin.on_event_callback
            or "on_event_callback" in vars(other)
        ):
            behind.append(other)
    return behind
