"""`map_over`: a body that runs once per item, each apart from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from pydantic import BaseModel, PrivateAttr

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.compat.temporary import with_temporary
from adk_fluent.backends.adk.context.functions import state_of
from adk_fluent.backends.adk.events.signals import spoken_text
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.backends.adk.steps.branches import Item, Turns, branch_below
from adk_fluent.backends.adk.steps.checkpoints import since_checkpoint
from adk_fluent.backends.adk.steps.composites import Composite
from adk_fluent.backends.adk.steps.concurrency import interleave
from adk_fluent.backends.adk.steps.leaves import Events
from adk_fluent.backends.adk.steps.seen import Seen
from adk_fluent.backends.events import DISCARDS, PREFACE
from adk_fluent.errors import MissingKeyError, TransformError
from adk_fluent.ir.nodes import MapOverNode
from adk_fluent.ir.predicates import lost
from adk_fluent.state.answers import AnswerType


class MapState(BaseModel):
    """A step of the whole: that it began, or which item has just ended.

    What an item did stands in its own events, so no checkpoint says it again.
    """

    item: int | None = None


class MapComposite(Composite):
    """Runs its child once per item of a list in state."""

    _structured: Mapping[str, AnswerType] = PrivateAttr(default_factory=dict[str, AnswerType])
    """The agents below that answer in JSON, with the type of their answers."""

    def parse_answers_of(self, agents: Mapping[str, AnswerType]) -> None:
        """Set which agents answer in JSON."""
        self._structured = agents

    async def _run_once(self, ctx: InvocationContext) -> Events:
        node = cast(MapOverNode, self._ir)
        values = self._values(state_of(ctx))
        resuming = private.load_state(self, ctx, MapState) is not None
        if ctx.is_resumable and not resuming:
            yield private.checkpoint(self, ctx, MapState())
        passed = since_checkpoint(ctx, self, MapState()) if resuming else []
        turns = Turns(ctx)
        items = self._items(turns.ctx, values, passed)
        todo = self._unfinished(ctx, items, passed)
        seen = [Seen() for _ in todo]
        sources = [self._run_item(items[index], noted) for index, noted in zip(todo, seen, strict=True)]
        # What follows a failure in its own item tells whether it was caught, so that goes first.
        run = interleave(
            sources,
            node.concurrency,
            alone=lambda position: bool(seen[position].problems),
            afoot=runs.afoot(ctx),
            turn=turns.lock,
            due=runs.due(ctx, self.name),
            failed=runs.failed(ctx, self.name),
        )
        async with aclosing(run) as events:
            async for position, event in events:
                if event is not None:
                    yield with_temporary(ctx, event)
                elif seen[position].problems:
                    return
                elif ctx.is_resumable and not seen[position].paused:
                    yield private.checkpoint(self, ctx, MapState(item=todo[position]))
        if any(noted.paused for noted in seen):
            return
        yield self.state_event(ctx, {node.output_key: [self._answer(item) for item in items]})
        if ctx.is_resumable:
            yield private.finished(self, ctx)

    def _values(self, state: Mapping[str, Any]) -> Sequence[Any]:
        key = cast(MapOverNode, self._ir).list_key
        values = state.get(key)
        if values is None:
            raise MissingKeyError(
                f"{self.name!r}: map_over needs the state key {key!r}, which is not set.{lost(state, key)}"
            )
        if not isinstance(values, list | tuple):
            raise TransformError(
                f"{self.name!r}: map_over needs a list at {key!r}, not {type(values).__name__}."
            )
        return cast("Sequence[Any]", values)

    def _items(self, ctx: InvocationContext, values: Sequence[Any], passed: Iterable[Event]) -> list[Item]:
        key, state = cast(MapOverNode, self._ir).item_key, dict(ctx.session.state)
        stem = f"{branch_below(ctx, self.name)}."
        own: dict[str, list[Event]] = {}
        for event in passed:
            if event.branch and event.branch.startswith(stem):
                own.setdefault(event.branch.removeprefix(stem).partition(".")[0], []).append(event)
        return [
            Item(ctx, f"{self.name}.{index}", state, {key: value}, own.get(str(index), ()))
            for index, value in enumerate(values)
        ]

    def _unfinished(
        self, ctx: InvocationContext, items: Sequence[Item], passed: Iterable[Event]
    ) -> list[int]:
        """The items that did not end in an earlier part of the run."""
        (body,) = self.sub_agents
        states = (e.actions.agent_state for e in passed if e.author == self.name and e.branch == ctx.branch)
        ended = {state["item"] for state in states if state}
        return [
            index
            for index, item in enumerate(items)
            if index not in ended and not item.ctx.end_of_agents.get(body.name)
        ]

    async def _run_item(self, item: Item, seen: Seen) -> Events:
        (body,) = self.sub_agents
        async with aclosing(self.relay(body, item.ctx, seen)) as events:
            async for event in events:
                yield item.offer(event)
                item.follow(event)

    def _answer(self, item: Item) -> Any:
        """What an item answered, parsed if its author answers in JSON; `None` if nothing."""
        said: dict[str, Event] = {}
        for event in item.events:
            if event.is_final_response() and spoken_text(event):
                said[event.id] = event
            for withdrawn in (event.custom_metadata or {}).get(DISCARDS, ()):
                said.pop(withdrawn, None)
        last = next(reversed(said.values()), None)
        if last is None:
            return None
        preface = (last.custom_metadata or {}).get(PREFACE, ())
        text = "".join(spoken_text(event) for event in (*(e for e in item.events if e.id in preface), last))
        kind = self._structured.get(last.author)
        return text if kind is None else kind.data(text, last.author)
