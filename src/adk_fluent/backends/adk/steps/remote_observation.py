"""Calls of remote agents as what records them sees them, and what may answer them from a recording."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Protocol

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from adk_fluent.backends.adk.events.signals import refused
from adk_fluent.backends.adk.middleware import runs
from adk_fluent.ir.nodes import RemoteAgentNode

Events = AsyncGenerator[Event, None]


class Note(Protocol):
    """What is noted of one call while it goes on."""

    def gave(self, response: LlmResponse) -> None:
        """It gave a piece, an answer, or a question."""
        ...

    def failed(self, problem: str, *, passing: bool) -> None:
        """It failed; `passing` says whether trying again may help."""
        ...

    def ended(self) -> None:
        """It came to its end."""
        ...

    def left(self) -> None:
        """Nobody waits for it any more; nothing is new if it has ended."""
        ...


class Answering(Protocol):
    """What answers calls of a remote agent in the place of its process, call by call.

    Attributes:
        live: what answers where the process would be asked after all; `None` is the process.
    """

    live: BaseLlm | Answering | None

    def answers(self, request: LlmRequest, ask: Callable[[], Events]) -> Events:
        """The events of one call.

        Args:
            request: what it is sent, as `request_of` gives it.
            ask: asks the process after all.
        """
        ...


def request_of(node: RemoteAgentNode, asking: InvocationContext) -> LlmRequest:
    """What a remote agent is sent: its endpoint as the model, and what was said since it last spoke."""
    said: list[types.Content] = []
    for event in reversed(asking.session.events):
        if event.author == node.name and event.content and event.content.parts and said:
            break
        if event.content and event.content.parts:
            said.insert(0, _without_ids(event.content))
    return LlmRequest(model=node.endpoint, contents=said)


def _without_ids(content: types.Content) -> types.Content:
    """A message whose calls have no ids, which are others in each run."""
    if not any(part.function_call or part.function_response for part in content.parts or ()):
        return content
    said = content.model_copy(deep=True)
    for part in said.parts or ():
        for each in filter(None, (part.function_call, part.function_response)):
            each.id = None
    return said


@contextmanager
def noted(ctx: InvocationContext, node: RemoteAgentNode, asking: InvocationContext) -> Generator[list[Note]]:
    """What notes a call, for as long as it goes on.

    Args:
        asking: what it is asked.
    """
    notes = runs.remote_asked(ctx, node.name, lambda: request_of(node, asking))
    with ExitStack() as leaving:
        for note in notes:
            leaving.callback(note.left)
        yield notes


def tell(notes: Iterable[Note], event: Event) -> None:
    """Note what a call gave: a piece, a question, or that it was not approved."""
    metadata = {"a2a:response": {"status": {"state": "rejected"}}} if refused(event) else None
    response = LlmResponse(content=event.content, partial=event.partial, custom_metadata=metadata)
    for note in notes:
        note.gave(response)


def event_of(response: LlmResponse, author: str) -> Event:
    """What was noted, as the event that it was noted of."""
    event = Event(
        author=author,
        content=response.content,
        partial=response.partial,
        custom_metadata=response.custom_metadata,
    )
    if calls := event.get_function_calls():
        event.long_running_tool_ids = {str(call.id) for call in calls}
    return event
