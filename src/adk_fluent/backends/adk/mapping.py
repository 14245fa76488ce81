"""`map_over`: a body that runs once per item, each apart from the others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from pydantic import BaseModel, Field, PrivateAttr

from adk_fluent.backends.adk import private
from adk_fluent.backends.adk.composites import Composite, Seen
from adk_fluent.backends.adk.concurrency import apart, interleave, record
from adk_fluent.backends.adk.leaves import Events, spoken_text
from adk_fluent.backends.adk.temporary import with_temporary
from adk_fluent.backends.events import DISCARDS
from adk_fluent.errors import MissingKeyError, TransformError
from adk_fluent.ir.nodes import MapOverNode


class ItemState(BaseModel):
    """Where one item is: its answer, or the checkpoints of the agents that wait inside it."""

    done: bool = False
    answer: Any = None
    agent_states: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    end_of_agents: dict[str, bool] = Field(default_factory=dict[str, bool])


class MapState(BaseModel):
    """Where each item is, by its index as text."""

    items: dict[str, ItemState] = Field(default_factory=dict[str, ItemState])


class Item:
    """One item while it runs."""

    def __init__(self, ctx: InvocationContext) -> None:
        self.ctx = ctx
        self.seen = Seen()
        self.said: dict[str, Event] = {}

    def hear(self, event: Event) -> None:
        """Note what may be the answer, and forget what a fallback withdrew."""
        if event.is_final_response() and spoken_text(event):
            self.said[event.id] = event
        for withdrawn in (event.custom_metadata or {}).get(DISCARDS, ()):
            self.said.pop(withdrawn, None)

    def state(self, structured: frozenset[str]) -> ItemState:
        """What to remember of it: the answer, parsed if its author answers in JSON."""
        if self.seen.paused:
            return ItemState(agent_states=self.ctx.agent_states, end_of_agents=self.ctx.end_of_agents)
        last = next(reversed(self.said.values()), None)
        if last is None:
            return ItemState(done=True)
        text = spoken_text(last)
        return ItemState(done=True, answer=json.loads(text) if last.author in structured else text)


class MapComposite(Composite):
    """Runs its child once per item of a list in state."""

    _structured: frozenset[str] = PrivateAttr(default=frozenset())
    """Names of the agents below that answer in JSON."""

    def parse_answers_of(self, names: Iterable[str]) -> None:
        """Set which agents answer in JSON."""
        self._structured = frozenset(names)

    async def _run_once(self, ctx: InvocationContext) -> Events:
        node = cast(MapOverNode, self._ir)
        values = self._values(ctx.session.state)
        saved = private.load_state(self, ctx, MapState)
        items = dict(saved.items) if saved else {}
        if ctx.is_resumable and saved is None:
            yield private.checkpoint(self, ctx, MapState())
        todo = [index for index in range(len(values)) if not items.get(str(index), ItemState()).done]
        running = [self._item(ctx, index, values[index], items.get(str(index))) for index in todo]
        sources = [self._run_item(item) for item in running]
        async with aclosing(interleave(sources, node.concurrency)) as events:
            async for position, event in events:
                if event is not None:
                    yield with_temporary(ctx, event)
                    continue
                items[str(todo[position])] = running[position].state(self._structured)
                if ctx.is_resumable:
                    yield private.checkpoint(self, ctx, MapState(items=items))
        if any(item.seen.paused for item in running):
            return
        answers = [items[str(index)].answer for index in range(len(values))]
        yield self.state_event(ctx, {node.output_key: answers})
        if ctx.is_resumable:
            yield private.finished(self, ctx)

    def _values(self, state: Mapping[str, Any]) -> Sequence[Any]:
        key = cast(MapOverNode, self._ir).list_key
        values = state.get(key)
        if values is None:
            raise MissingKeyError(f"{self.name!r}: map_over needs the state key {key!r}, which is not set.")
        if not isinstance(values, list | tuple):
            raise TransformError(
                f"{self.name!r}: map_over needs a list at {key!r}, not {type(values).__name__}."
            )
        for index, value in enumerate(cast("Sequence[Any]", values)):
            if value is None:  # which in state is the same as no item at all
                raise TransformError(
                    f"{self.name!r}: item {index} of {key!r} is None, and state cannot hold that. "
                    "Leave such items out before map_over."
                )
        return cast("Sequence[Any]", values)

    def _item(self, ctx: InvocationContext, index: int, value: Any, saved: ItemState | None) -> Item:
        item_key = cast(MapOverNode, self._ir).item_key
        context = apart(ctx, f"{self.name}.{index}", state={item_key: value})
        if saved is not None:
            context.agent_states.update(saved.agent_states)
            context.end_of_agents.update(saved.end_of_agents)
        return Item(context)

    async def _run_item(self, item: Item) -> Events:
        (body,) = self.sub_agents
        async with aclosing(self.relay(body, item.ctx, item.seen)) as events:
            async for event in events:
                record(item.ctx, event)
                item.hear(event)
                yield event
