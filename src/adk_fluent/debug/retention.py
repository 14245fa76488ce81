"""What a recording keeps: only what is asked for, and no secrets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from adk_fluent._redaction import Redactor
from adk_fluent.backends.events import BEGINNING
from adk_fluent.debug.errors import bases_of
from adk_fluent.debug.events import event_from
from adk_fluent.debug.requests import DEEPEST, deeper_than, plain
from adk_fluent.debug.values import Chunk, Failure, RecordedRun
from adk_fluent.errors import on_one_line
from adk_fluent.middleware.faults import root_of, status_of

if TYPE_CHECKING:
    from google.adk.models.llm_response import LlmResponse

    from adk_fluent.backends.events import AgentEvent

Piece = tuple[int, bool, str]
"""A chunk that is a piece of a text: its place, whether it is a thought, and the text with its secrets."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Makes of what happens what a recording keeps of it.

    Attributes:
        says: whether what was said is kept: messages, answers, arguments, results and texts of errors.
        holds: whether the state is.
        redacted: takes secrets out.
    """

    says: bool
    holds: bool
    redacted: Redactor

    def said(self, value: Any, otherwise: Any) -> Any:
        """What was said, without secrets; `otherwise` where it is not asked for."""
        return self.redacted(value) if self.says else otherwise

    def held(self, state: Mapping[str, Any], *, gone: bool = False) -> Mapping[str, Any]:
        """Keys and values of the state without secrets, as JSON; nothing where it is not asked for.

        Args:
            gone: whether keys stay that hold `None`, as those do that were dropped.
        """
        kept = {key: plain(value) for key, value in state.items() if gone or value is not None}
        return self.redacted(kept) if self.holds else {}

    def actions(self, actions: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a tool did beside its result."""
        kept = {k: v for k, v in actions.items() if (self.holds if k == "state_delta" else self.says)}
        return self.redacted(kept)

    def failure(self, error: BaseException) -> Failure:
        """What is kept of an error."""
        root = root_of(error) if isinstance(error, Exception) else error
        message = on_one_line(root) if self.says else ""
        return Failure(type(root).__name__, self.redacted(message), status_of(root), bases_of(type(root)))

    def event(self, event: AgentEvent) -> AgentEvent:
        """An event; without the content, what is left says what happened and not its words."""
        if not self.says:
            bare = dict.fromkeys(("content", "error", "input_transcription", "output_transcription"))
            asked = tuple(replace(each, message="", payload={}) for each in event.pending)
            event = replace(
                event, **bare, parts=(), tool_calls=[], tool_responses=[], metadata={}, pending=asked
            )
        if not (self.says and self.holds):
            event = replace(event, agent_state=None)
        if not self.holds:
            event = replace(event, state_delta={})
        return event_from(self.redacted(_as_json(event)))

    def earlier(self, events: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
        """Events of ADK that were in a session before."""
        made = [plain(each) for each in events]
        if not self.holds:
            made = [{**each, "actions": {**each.get("actions", {}), "state_delta": {}}} for each in made]
        return tuple(self.said(made, []))

    def joined(self, chunks: Sequence[Chunk], pieces: Sequence[Piece]) -> list[Chunk]:
        """An answer; the pieces of its text stand in one chunk if a secret crosses the border of two."""
        made = dict(enumerate(chunks))
        for thought in (False, True):
            texts = {place: text for place, is_thought, text in pieces if is_thought is thought}
            whole = self.redacted("".join(texts.values()))
            if whole != "".join(map(self.redacted, texts.values())):
                first, *rest = texts
                part = {"text": whole, "thought": True} if thought else {"text": whole}
                content = {**made[first].response["content"], "parts": [part]}
                made[first] = replace(made[first], response={**made[first].response, "content": content})
                made = {place: chunk for place, chunk in made.items() if place not in rest}
        return list(made.values())


def earlier_events(run: RecordedRun, events: Sequence[Any], known: Collection[str]) -> list[Any]:
    """The events of a session that no recorded run gave; what a replay makes again is not among them.

    Args:
        known: the ids of the runs that were recorded in it before.
    """
    found = [each for each in events if each.invocation_id not in known]
    while found and found[-1].author == "user" and found[-1].invocation_id == run.invocation_id:
        found.pop()  # what the user says now
    # What a session was created with is state, and is kept as that.
    found = [each for each in found if BEGINNING not in (each.custom_metadata or {})]
    # After a recorded run there is what ADK itself wrote, as a summary.
    return [each for each in found if each.actions.compaction is None] if known else found


def piece_of(response: LlmResponse, said: Mapping[str, Any], place: int) -> Piece | None:
    """A chunk that is a piece of text alone; `said` is the response as JSON."""
    content: Mapping[str, Any] = said.get("content") or {}
    parts: list[Mapping[str, Any]] = content.get("parts") or []
    if not response.partial or len(parts) != 1 or not isinstance(text := parts[0].get("text"), str):
        return None
    return place, bool(parts[0].get("thought")), text


def changes(held: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """What is other in the state than it was; `None` for what is gone."""
    changed = {key: value for key, value in state.items() if not _same(held, key, value)}
    return changed | dict.fromkeys(held.keys() - state.keys())


def _same(held: Mapping[str, Any], key: str, value: Any) -> bool:
    """Whether the state held this value; one that cannot be compared, such as an array, counts as another."""
    if key not in held:
        return False
    try:
        return held[key] is value or bool(held[key] == value)
    except Exception:  # noqa: BLE001  # values may be anything
        return False


def _as_json(event: AgentEvent) -> dict[str, Any]:
    try:
        made = event.to_dict()
        if not deeper_than(made, DEEPEST):
            return made
    except Exception:  # noqa: BLE001, S110  # it holds something that cannot be converted
        pass
    calls = [replace(call, args=plain(call.args)) for call in event.tool_calls]
    answers = [replace(answer, result=plain(answer.result)) for answer in event.tool_responses]
    names = ("state_delta", "metadata", "agent_state")
    rest = {name: plain(getattr(event, name)) for name in names}
    return replace(event, tool_calls=calls, tool_responses=answers, **rest).to_dict()
