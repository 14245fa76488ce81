"""The runs of one step on the pieces of an answer, and what is made of them: one answer."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent.backends.adk.compat.temporary import with_temporary
from adk_fluent.backends.adk.events.signals import failure, spoken_text
from adk_fluent.backends.adk.steps.branches import Attempt
from adk_fluent.backends.adk.steps.leaves import Events, FluentAgent
from adk_fluent.backends.adk.steps.once import already_seen
from adk_fluent.backends.adk.steps.pieces import Joined, Piece, Voice, answers
from adk_fluent.backends.adk.steps.seen import Seen
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.nodes import RemoteAgentNode, agents_in
from adk_fluent.ir.passage import Passage
from adk_fluent.state.answers import is_structured, returned_type

PIECE: Final = "adk_fluent.piece"
"""Metadata of an event of a run on a piece of an answer: the number of the piece, from 0."""


def text_keys(node: Node) -> dict[str, str]:
    """Where the agents below a node store their answers as text: name → key."""
    agents = {
        agent.name: agent.output_key
        for agent in agents_in(node)
        if isinstance(agent.output_key, str) and not is_structured(agent)
    }
    # Natives may store what they say, too, but not one answer for each piece.
    remotes = (each for each in walk(node) if isinstance(each, RemoteAgentNode))
    return agents | {remote.name: remote.output_key for remote in remotes if remote.output_key}


class RelayingAgent(FluentAgent):
    """Base of agents that pass on the events of their children."""

    _passages: Mapping[int, Passage] = PrivateAttr(default_factory=dict[int, Passage])

    @property
    def passages(self) -> Mapping[int, Passage]:
        """The children, by place, whose answers go on to the next one in pieces."""
        return self._passages

    def pass_on(self, passages: Mapping[int, Passage]) -> None:
        """Set which children's answers go on in pieces."""
        self._passages = {index: passage for index, passage in passages.items() if passage.taking}

    @abstractmethod
    def relay(self, child: BaseAgent, ctx: InvocationContext, seen: Seen) -> Events:
        """The events of one child, unchanged, noting in `seen` what they ask for."""


class Runs:
    """The runs of one step, one for each piece.

    Each reads the state as it is by then, with what the runs before it wrote, and its piece where the whole
    answer will be.

    Args:
        owner: the sequence that the step belongs to.
        ctx: where it runs.
        node: what the step was made from.
        pieces_at: where the agents before it store their answers: name → key.
        adds: whether its agents may say more behind an answer.

    Attributes:
        done: how many there were.
        grown: by what the answers of the step's agents grew with the last run: name and text.
    """

    def __init__(
        self,
        owner: RelayingAgent,
        ctx: InvocationContext,
        node: Node,
        pieces_at: Mapping[str, str],
        *,
        adds: bool = False,
    ) -> None:
        self.done: int = 0
        self.grown: list[tuple[str, str]] = []
        self._owner = owner
        self._ctx = ctx
        self._pieces_at = pieces_at
        self._adds = adds
        self._keys = text_keys(node)
        self._in_json = {agent.name: returned_type(agent) is not None for agent in agents_in(node)}
        self._written: dict[str, Any] = {}
        self._heard: list[Event] = []
        self._joined: dict[Voice, Joined] = {}

    async def on(self, piece: Piece, agent: BaseAgent, seen: Seen, before: list[Event]) -> Events:
        """Run on a piece; the events that come are pieces of answers, all else is kept.

        Args:
            before: the conversation that is seen beside the piece.
        """
        self.grown = []
        if not piece.text.strip():
            for joined in self._joined.values():
                joined.skip(piece.text)
            return
        ctx = self._ctx
        content = types.Content(role="model", parts=[types.Part(text=piece.text)])
        told = Event(invocation_id=ctx.invocation_id, author=piece.author, branch=ctx.branch, content=content)
        state = {**ctx.session.state, **self._written}
        if key := self._pieces_at.get(piece.author):
            state[key] = piece.text
        attempt, begun = Attempt(ctx, events=[*before, told], state=state), set[Voice]()
        async with aclosing(self._owner.relay(agent, attempt.ctx, seen)) as events:
            async for event in events:
                if event.partial:
                    yield self._partial(event, piece, begun)
                else:
                    await attempt.hear(event)
        self._join(piece, attempt.events, attempt.ctx)
        self._heard += [kept for event in attempt.events if (kept := self._kept(event)) is not None]
        self.done += 1

    def _partial(self, event: Event, piece: Piece, begun: set[Voice]) -> Event:
        """A piece of an answer; the first on a piece brings what will stand between the answers."""
        voice = (event.author, event.branch)
        if voice in begun or voice not in self._joined or not (text := spoken_text(event)):
            return event
        begun.add(voice)
        if not (gap := self._joined[voice].gap(piece.text, text)):
            return event
        parts = [types.Part(text=gap), *((event.content and event.content.parts) or [])]
        return event.model_copy(update={"content": types.Content(role="model", parts=parts)})

    def _join(self, piece: Piece, events: list[Event], ctx: InvocationContext) -> None:
        for event in events:
            self._written.update(event.actions.state_delta)
        for voice, answer in answers(events, self._in_json, self._keys, ctx, adds=self._adds).items():
            author, text = voice[0], "\n".join(answer.texts if self._adds else answer.texts[-1:])
            joined = self._joined.setdefault(voice, Joined("\n" if self._in_json[author] else None))
            self.grown.append((author, joined.add(piece.text, text)))
            if key := self._keys.get(author):
                self._written[key] = joined.text

    def _kept(self, event: Event) -> Event | None:
        """What an event did beside saying an answer, which comes out joined; `None` if that is nothing."""
        if failure(event):
            return event
        actions = event.actions.model_copy(
            update={
                "state_delta": {
                    key: value
                    for key, value in event.actions.state_delta.items()
                    if key not in self._keys.values()
                },
                "agent_state": None,
                "end_of_agent": None,
            }
        )
        content = event.content
        if content is not None and event.author in self._in_json:
            parts = [part for part in content.parts or [] if not part.text]
            content = content.model_copy(update={"parts": parts}) if parts else None
        if content is None and event.usage_metadata is None and actions == EventActions():
            return None
        metadata = {**(event.custom_metadata or {}), PIECE: self.done}
        return event.model_copy(update={"content": content, "actions": actions, "custom_metadata": metadata})

    def events(self) -> Iterator[Event]:
        """What the runs did, and then what each agent answered to all pieces."""
        already_seen(self._ctx, self._heard)
        for event in self._heard:
            yield with_temporary(self._ctx, event.model_copy(update={"timestamp": time.time()}))
        for (author, branch), joined in self._joined.items():
            key = self._keys.get(author)
            event = Event(
                invocation_id=self._ctx.invocation_id,
                author=author,
                branch=branch,
                content=types.Content(role="model", parts=[types.Part(text=joined.text)]),
                actions=EventActions(state_delta={key: joined.text} if key else {}),
            )
            yield with_temporary(self._ctx, event)
