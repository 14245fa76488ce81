"""Notes of what happens in runs, as a recorder takes them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from adk_fluent import __version__
from adk_fluent._limit import limits_around
from adk_fluent._redaction import Redactor
from adk_fluent.backends.events import BEGINNING
from adk_fluent.debug.errors import bases_of
from adk_fluent.debug.events import event_from
from adk_fluent.debug.recording import Recording, pipeline_hash
from adk_fluent.debug.requests import DEEPEST, deeper_than, plain, request_json
from adk_fluent.debug.spans import Spans
from adk_fluent.debug.values import (
    Begin,
    BranchFailure,
    Choice,
    Chunk,
    End,
    Failure,
    LLMInteraction,
    RecordedRun,
    SavedArtifact,
    Step,
    ToolInteraction,
)
from adk_fluent.errors import RemoteError, on_one_line
from adk_fluent.middleware.faults import root_of, status_of

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

    from adk_fluent.backends.events import AgentEvent
    from adk_fluent.ir.base import Node

V = TypeVar("V", LLMInteraction, ToolInteraction)

PASSING: Final = 503
"""The status that is noted of a remote agent's failure which may pass."""


class Notes:
    """All that is noted of some runs.

    Nothing is kept that is not asked for, and secrets are taken out before anything is.

    Args:
        content: whether what was said is kept: messages, answers, arguments, results and texts of errors.
        state: whether the state is.
        secret: more keys whose values are secret.
    """

    def __init__(self, content: bool, state: bool, secret: Sequence[str]) -> None:
        self._content, self._state, self._secret = content, state, secret
        self._redacted = Redactor(secret)
        self._began = time.monotonic()
        self._seq: Iterator[int] = count(1)
        self._calls: Counter[str] = Counter()
        self._runs: list[RecordedRun] = []
        self._steps: list[Step] = []
        self._places: dict[str, int] = {}
        self._old: set[str] = set()
        self._ends: list[End] = []
        self._begins: list[Begin] = []
        self._failures: list[BranchFailure] = []
        self._races: list[NotedRace] = []
        self._asked: list[NotedCall[LLMInteraction]] = []
        self._used: list[NotedCall[ToolInteraction]] = []
        self._tree: Node | None = None
        self._hash = ""
        self._metadata: dict[str, Any] = {"redact": list(secret)} if secret else {}
        self.spans: Spans = Spans()

    def recording(self) -> Recording:
        """What was noted so far."""
        tree = self._tree
        made = Recording(
            ir_hash=self._hash,
            pipeline="" if tree is None else tree.name,
            runs=tuple(self._runs),
            steps=tuple(self._steps),
            llm_interactions=tuple(self._whole(call) for call in self._asked),
            tool_interactions=tuple(call.whole() for call in self._used),
            ends=tuple(self._ends),
            begins=tuple(self._begins),
            failures=tuple(self._failures),
            choices=tuple(race.whole() for race in self._races),
            spans=tuple(self._redacted(plain(self.spans.found(content=self._content)))),
            places={} if tree is None else dict(_places(tree, tree.name)),
            versions={
                "adk-fluent": __version__,
                "google-adk": version("google-adk"),
                "python": sys.version.partition(" ")[0],
            },
            metadata=dict(self._metadata),
        )
        return made.without(self._redacted) if self._redacted.has_learned else made

    def _whole(self, call: NotedCall[LLMInteraction]) -> LLMInteraction:
        self.settle(call)
        return call.whole()

    # --- runs -------------------------------------------------------------------------------------

    def begin(
        self,
        run: NotedRun,
        tree: Node | None,
        metadata: Mapping[str, Any],
        known: RecordedRun,
        events: Sequence[Any] = (),
    ) -> None:
        """Note the start of a run, and what its session holds; that is kept as far as it is asked for.

        Args:
            metadata: what else a replay needs to know; the first run says it.
        """
        run.index, run.notes = len(self._runs), self
        if self._tree is None:
            self._tree, self._hash = tree, _hash_of(tree)
            self._metadata |= metadata
        prompt, state = self.content(known.prompt, {}), self.state(known.state)
        self._runs.append(
            replace(known, prompt=prompt, state=state, left=True, earlier=self._earlier(known, events))
        )
        self.spans.watch()

    def _earlier(self, run: RecordedRun, events: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
        """The events of a session that no recorded run gave; what a replay makes again is not among them."""
        place = run.session_id, run.user_id
        known = {each.invocation_id for each in self._runs if (each.session_id, each.user_id) == place}
        found = [each for each in events if each.invocation_id not in known and each.id not in self._old]
        while found and found[-1].author == "user" and found[-1].invocation_id == run.invocation_id:
            found.pop()  # what the user says now
        # What a session was created with is state, and is kept as that.
        found = [each for each in found if BEGINNING not in (each.custom_metadata or {})]
        if known:  # what ADK itself wrote after a recorded run, as a summary
            found = [each for each in found if each.actions.compaction is None]
        self._old.update(each.id for each in found)
        made = [plain(each) for each in found]
        if not self._state:
            made = [{**each, "actions": {**each.get("actions", {}), "state_delta": {}}} for each in made]
        return tuple(self.content(made, []))

    def failed(self, index: int, error: BaseException) -> None:
        """Note what a run ended with."""
        if 0 <= index < len(self._runs):
            self._runs[index] = replace(self._runs[index], error=self.failure(error), left=False)

    def came_to_its_end(self, index: int) -> None:
        """Note that the caller of a run has heard all of it."""
        self._runs[index] = replace(self._runs[index], left=False)

    def came_upon(self, index: int, filename: str, version: int, part: Mapping[str, Any] | None) -> None:
        """Note a version of an artifact that was there before a run, with its content if the run loads it."""
        run = self._runs[index]
        known = {(each.filename, each.version): each for each in run.artifacts}
        if part is not None or (filename, version) not in known:
            known[filename, version] = SavedArtifact(filename, version, self.content(part, None))
            self._runs[index] = replace(run, artifacts=tuple(known.values()))

    def step(self, run: NotedRun, event: AgentEvent, state: Mapping[str, Any]) -> None:
        """Note an event, with the state after it."""
        self.spans.note()
        held, run.held = run.held, state
        changed = {key: value for key, value in state.items() if not _same(held, key, value)}
        changed |= dict.fromkeys(held.keys() - state.keys())
        self._places[event.id] = len(self._steps)
        self._steps.append(
            Step(
                self._event(event), self.state(changed, gone=True), False, run.index, self.next(), self.now()
            )
        )

    def _event(self, event: AgentEvent) -> AgentEvent:
        """The event as it is kept; without the content, what is left says what happened and not its words."""
        if not self._content:
            bare = dict.fromkeys(("content", "error", "input_transcription", "output_transcription"))
            asked = tuple(replace(each, message="", payload={}) for each in event.pending)
            event = replace(
                event, **bare, parts=(), tool_calls=[], tool_responses=[], metadata={}, pending=asked
            )
        if not (self._content and self._state):
            event = replace(event, agent_state=None)
        if not self._state:
            event = replace(event, state_delta={})
        return event_from(self._redacted(_as_json(event)))

    def lost(self, event: str, is_lost: bool) -> None:
        """Note whether an event counts: whether the run gives it."""
        if (place := self._places.get(event)) is not None:
            step = self._steps[place]
            given = step.given if is_lost else (*step.given, self.next())
            self._steps[place] = replace(step, lost=is_lost, given=given)

    def end(self, agent: str, branch: str | None, index: int) -> None:
        """Note that an agent or step ran to its end."""
        self._ends.append(End(agent, branch, max(index, 0), self.next(), self.now()))

    def starts(self, agent: str, branch: str, index: int) -> None:
        """Note that an agent or step begins on a parallel branch."""
        self._begins.append(Begin(agent, branch, index, self.next(), self.now()))

    def fails(self, step: str, child: int, branch: str | None, index: int) -> None:
        """Note that an error leaves a branch of a step."""
        self._failures.append(BranchFailure(step, child, branch, index, self.next(), self.now()))

    def begins(self, race: NotedRace) -> NotedRace:
        """Note that a race begins."""
        self._races.append(race)
        return race

    # --- calls ------------------------------------------------------------------------------------

    def asks(self, call: LLMInteraction) -> NotedCall[LLMInteraction]:
        """Note that a model is asked."""
        noted = NotedCall(
            replace(
                call,
                call=self._count(call.key),
                model=self._redacted({"model": call.model})["model"],  # of a remote agent it is a URL
                request=self.content(call.request, {}),
                prompt=tuple(self.content(list(call.prompt), [])),
                state=self.state(call.state or {}) if self._state else None,
                started=self.next(),
                at=self.now(),
            )
        )
        self._asked.append(noted)
        return noted

    def found(self, call: LLMInteraction, answer: Iterable[Mapping[str, Any]]) -> None:
        """Note what a cache answered, unless the recording has the call that it is from.

        In a replay the cache is empty at first, so that the model is asked where it held an answer before.
        """
        request = self.content(call.request, None)
        if request is not None and all(each.noted.request != request for each in self._asked):
            noted = self.asks(call)
            for response in answer:
                noted.chunks.append(Chunk(self.content(dict(response), {}), noted.seconds, self.next()))
            noted.end(self)

    def remembered(self, call: LLMInteraction, response: LlmResponse) -> None:
        """Note an answer that an agent had of an earlier question, as one of the model."""
        noted = self.asks(replace(call, remembered=True))
        self.gave(noted, response)
        noted.end(self)

    def remote(self, index: int, agent: str, request: LlmRequest, branch: str | None) -> NotedRemote:
        """Note a call of a remote agent, as one of a model whose name is the endpoint."""
        asked = request_json(request)
        call = LLMInteraction(agent, model=request.model, request=asked, branch=branch, run=max(index, 0))
        noted = self.asks(call)
        noted.noted = replace(noted.noted, state=None)
        return NotedRemote(self, noted)

    def uses(self, call: ToolInteraction) -> NotedCall[ToolInteraction]:
        """Note that a tool is called."""
        noted = NotedCall(
            replace(
                call,
                call=self._count(call.key),
                args=self.content(call.args, {}),
                started=self.next(),
                at=self.now(),
            )
        )
        self._used.append(noted)
        return noted

    def did(self, call: NotedCall[ToolInteraction], result: Any, actions: Mapping[str, Any]) -> None:
        """Note what a tool gave, and what it did beside."""
        kept = {
            name: value
            for name, value in actions.items()
            if (self._state if name == "state_delta" else self._content)
        }
        given = self.content(result, None)
        call.noted = replace(call.noted, result=given, actions=self._redacted(kept))

    def saved(
        self, call: NotedCall[ToolInteraction], saved: Iterable[tuple[str, int, Mapping[str, Any]]]
    ) -> None:
        """Note the artifacts that a tool saved, even if it failed afterwards."""
        artifacts = tuple(
            SavedArtifact(name, version, self.content(part, None)) for name, version, part in saved
        )
        call.noted = replace(call.noted, artifacts=artifacts)

    def gave(self, call: NotedCall[LLMInteraction], response: LlmResponse) -> None:
        """Note a piece of an answer."""
        said = plain(response)
        if self._content and response.partial and (text := _text_of(said)) is not None:
            call.pieces.append((len(call.chunks), *text))
        call.chunks.append(Chunk(self.content(said, {}), call.seconds, self.next()))

    def settle(self, call: NotedCall[Any]) -> None:
        """Put pieces of a streamed answer together whose secrets stand across the borders between them."""
        for thought in (False, True):
            pieces = [(place, text) for place, is_thought, text in call.pieces if is_thought is thought]
            whole = self._redacted("".join(text for _, text in pieces))
            if whole != "".join(self._redacted(text) for _, text in pieces):
                (first, _), *rest = pieces
                part = {"text": whole, "thought": True} if thought else {"text": whole}
                said = dict(call.chunks[first].response)
                said["content"] = {**said["content"], "parts": [part]}
                call.chunks[first] = replace(call.chunks[first], response=said)
                call.dropped.update(place for place, _ in rest)

    def failure(self, error: BaseException) -> Failure:
        """What is noted of an error."""
        root = root_of(error) if isinstance(error, Exception) else error
        message = on_one_line(root) if self._content else ""
        return Failure(type(root).__name__, self._redacted(message), status_of(root), bases_of(type(root)))

    # --- what is kept -----------------------------------------------------------------------------

    def content(self, value: Any, otherwise: Any) -> Any:
        """What was said, without secrets; `otherwise` where it is not asked for."""
        return self._redacted(value) if self._content else otherwise

    def state(self, state: Mapping[str, Any], *, gone: bool = False) -> Mapping[str, Any]:
        """Keys and values of the state without secrets, as JSON; nothing where it is not asked for.

        Args:
            gone: whether keys stay that hold `None`, as those do that were dropped.
        """
        kept = {key: plain(value) for key, value in state.items() if gone or value is not None}
        return self._redacted(kept) if self._state else {}

    def now(self) -> float:
        """Seconds since the beginning."""
        return round(time.monotonic() - self._began, 6)

    def next(self) -> int:
        """The next place among everything that is noted."""
        return next(self._seq)

    def _count(self, key: str) -> int:
        self._calls[key] += 1
        return self._calls[key]


def _text_of(response: Mapping[str, Any]) -> tuple[bool, str] | None:
    """Of a piece that is text alone, whether it is a thought, and the text."""
    content: Mapping[str, Any] = response.get("content") or {}
    parts: list[Mapping[str, Any]] = content.get("parts") or []
    if len(parts) != 1 or not isinstance(text := parts[0].get("text"), str):
        return None
    return bool(parts[0].get("thought")), text


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


def _hash_of(tree: Node | None) -> str:
    """The hash of what runs; empty for what cannot be hashed, such as a tool that holds itself."""
    try:
        return "" if tree is None else pipeline_hash(tree)
    except Exception:  # noqa: BLE001  # functions of users may hold anything
        return ""


def _same(held: Mapping[str, Any], key: str, value: Any) -> bool:
    """Whether the state held this value; one that cannot be compared, such as an array, counts as another."""
    if key not in held:
        return False
    try:
        return held[key] is value or bool(held[key] == value)
    except Exception:  # noqa: BLE001  # values may be anything
        return False


def _places(node: Node, path: str) -> Iterator[tuple[str, str]]:
    yield node.name, path
    for number, child in enumerate(node.children):
        yield from _places(child, f"{path}[{number}].{child.name}")


@dataclass
class NotedRun:
    """What is known of the run at hand."""

    index: int = -1
    notes: Notes | None = None
    answer_found: Callable[..., None] | None = None
    answer_remembered: Callable[..., None] | None = None
    prompt: Mapping[str, Any] = field(default_factory=dict[str, Any])
    held: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def run_failed(self, error: Exception) -> None:
        """Called when the run ends with an error."""
        if self.notes is not None:
            self.notes.failed(self.index, error)

    def branch_failed(self, step: str, branch: str | None, child: int) -> None:
        """Called when an error leaves a branch of a step."""
        if self.notes is not None and self.index >= 0:
            self.notes.fails(step, child, branch, self.index)

    def event_apart(self, event: str) -> None:
        """Called when an event is seen that the run may never give."""
        if self.notes is not None:
            self.notes.lost(event, True)

    def event_given(self, event: str) -> None:
        """Called when it does."""
        if self.notes is not None:
            self.notes.lost(event, False)

    def race_begins(self, contest: str, branch: str | None, names: Collection[str]) -> NotedRace | None:
        """Called when a race begins."""
        if self.notes is None or self.index < 0:
            return None
        began = self.notes.next()
        return self.notes.begins(NotedRace(self.notes, Choice(contest, "", branch, self.index, began=began)))

    def remote_asked(self, agent: str, request: LlmRequest, branch: str | None) -> NotedRemote:
        """Called when a remote agent is asked."""
        assert self.notes is not None
        return self.notes.remote(self.index, agent, request, branch)


class NotedRace:
    """A race that goes on."""

    def __init__(self, notes: Notes, noted: Choice) -> None:
        self._notes, self._noted = notes, noted
        self._taken: list[str] = []

    def whole(self) -> Choice:
        """All that is known of it so far."""
        return replace(self._noted, taken=tuple(self._taken))

    def may(self, branch: str, wins: bool) -> bool:
        """Any branch may go on."""
        return True

    def took(self, branch: str, ends: bool) -> None:
        """Something of this branch was taken."""
        self._taken.append(branch)

    async def settles(self, wins: bool) -> None:
        """It is about to be decided."""

    def decided(self, winner: str) -> None:
        """It goes on with one of its branches."""
        self._noted = replace(self._noted, winner=winner, seq=self._notes.next())


class NotedCall(Generic[V]):
    """A call that goes on.

    Attributes:
        noted: what is known of it so far, but for what a model answered.
        chunks: that, as it came.
        pieces: of the chunks that are pieces of a text: their place, whether they are thoughts, and the text.
        dropped: the places of chunks whose text stands in another one.
    """

    def __init__(self, noted: V) -> None:
        self.noted: V = noted
        self.chunks: list[Chunk] = []
        self.pieces: list[tuple[int, bool, str]] = []
        self.dropped: set[int] = set()
        self._began = time.monotonic()

    def whole(self) -> V:
        """All that is known of it so far."""
        chunks = tuple(chunk for place, chunk in enumerate(self.chunks) if place not in self.dropped)
        return replace(self.noted, chunks=chunks) if chunks else self.noted

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return round(time.monotonic() - self._began, 6)

    @contextmanager
    def going_on(self, notes: Notes) -> Generator[None]:
        """Notes how it ends: with an error, well, or given up, if nobody reads on."""
        try:
            yield
        except Exception as error:
            self.end(notes, error=notes.failure(error))
            raise
        except BaseException:  # cancelled, or closed
            self.leave(notes)
            raise
        else:
            self.end(notes)

    def leave(self, notes: Notes) -> None:
        """Note that it was given up."""
        self._settle(notes)
        limit = next((at for at, each in enumerate(limits_around()) if each.is_over), None)
        self.noted = replace(self.noted, given_up=notes.next(), limit=limit, seconds=self.seconds)

    def end(self, notes: Notes, **changes: Any) -> None:
        """Note that it came to its end."""
        self._settle(notes)
        self.noted = replace(self.noted, ended=notes.next(), seconds=self.seconds, **changes)

    def _settle(self, notes: Notes) -> None:
        notes.settle(self)
        self.pieces.clear()


class NotedRemote:
    """A call of a remote agent that goes on."""

    def __init__(self, notes: Notes, noted: NotedCall[LLMInteraction]) -> None:
        self._notes, self._noted = notes, noted

    def gave(self, response: LlmResponse) -> None:
        """It answered, in whole or in part."""
        self._notes.gave(self._noted, response)

    def failed(self, problem: str, *, passing: bool) -> None:
        """It failed, in a way that may pass or not."""
        told = self._notes.failure(RemoteError(problem))
        self._noted.end(self._notes, error=replace(told, status=PASSING if passing else None))

    def ended(self) -> None:
        """It came to its end."""
        self._noted.end(self._notes)

    def left(self) -> None:
        """Nobody reads on."""
        if self._noted.noted.ended is None:
            self._noted.leave(self._notes)
