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
from adk_fluent._redaction import Redactor
from adk_fluent._tasks import limits_around
from adk_fluent.debug.recording import Recording, hash_if_any, places_in
from adk_fluent.debug.requests import plain, request_json
from adk_fluent.debug.retention import Piece, Retention, changes, earlier_events, piece_of
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
from adk_fluent.errors import RemoteError

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

    Args:
        content: whether what was said is kept: messages, answers, arguments, results and texts of errors.
        state: whether the state is.
        secret: more keys whose values are secret.

    Attributes:
        kept: makes of what happens what is noted of it.
        spans: the spans of the runs.
    """

    def __init__(self, content: bool, state: bool, secret: Sequence[str]) -> None:
        self.kept: Retention = Retention(content, state, Redactor(secret))
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
            llm_interactions=tuple(call.whole() for call in self._asked),
            tool_interactions=tuple(call.whole() for call in self._used),
            ends=tuple(self._ends),
            begins=tuple(self._begins),
            failures=tuple(self._failures),
            choices=tuple(race.whole() for race in self._races),
            spans=tuple(self.kept.redacted(plain(self.spans.found(content=self.kept.says)))),
            places={} if tree is None else dict(places_in(tree, tree.name)),
            versions={
                "adk-fluent": __version__,
                "google-adk": version("google-adk"),
                "python": sys.version.partition(" ")[0],
            },
            metadata=dict(self._metadata),
        )
        return made.without(self.kept.redacted) if self.kept.redacted.has_learned else made

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
            self._tree, self._hash = tree, "" if tree is None else hash_if_any(tree)
            self._metadata |= metadata
        place = known.session_id, known.user_id
        before = {each.invocation_id for each in self._runs if (each.session_id, each.user_id) == place}
        new = [each for each in events if each.id not in self._old]
        earlier = earlier_events(known, new, before)
        self._old.update(each.id for each in earlier)
        prompt, state = self.kept.said(known.prompt, {}), self.kept.held(known.state)
        kept = replace(known, prompt=prompt, state=state, left=True, earlier=self.kept.earlier(earlier))
        self._runs.append(kept)
        self.spans.watch()

    def failed(self, index: int, error: BaseException) -> None:
        """Note what a run ended with."""
        if 0 <= index < len(self._runs):
            self._runs[index] = replace(self._runs[index], error=self.kept.failure(error), left=False)

    def came_to_its_end(self, index: int) -> None:
        """Note that the caller of a run has heard all of it."""
        self._runs[index] = replace(self._runs[index], left=False)

    def came_upon(self, index: int, filename: str, version: int, part: Mapping[str, Any] | None) -> None:
        """Note a version of an artifact that was there before a run, with its content if the run loads it."""
        run = self._runs[index]
        known = {(each.filename, each.version): each for each in run.artifacts}
        if part is not None or (filename, version) not in known:
            known[filename, version] = SavedArtifact(filename, version, self.kept.said(part, None))
            self._runs[index] = replace(run, artifacts=tuple(known.values()))

    def step(self, run: NotedRun, event: AgentEvent, state: Mapping[str, Any]) -> None:
        """Note an event, with the state after it."""
        self.spans.note()
        held, run.held = run.held, state
        self._places[event.id] = len(self._steps)
        kept, changed = self.kept.event(event), self.kept.held(changes(held, state), gone=True)
        self._steps.append(Step(kept, changed, False, run.index, self.next(), self.now()))

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
        kept = self.kept
        noted = self._starts(
            call,
            model=kept.redacted({"model": call.model})["model"],  # of a remote agent it is a URL
            request=kept.said(call.request, {}),
            prompt=tuple(kept.said(list(call.prompt), [])),
            state=kept.held(call.state or {}) if kept.holds else None,
        )
        self._asked.append(noted)
        return noted

    def uses(self, call: ToolInteraction) -> NotedCall[ToolInteraction]:
        """Note that a tool is called."""
        noted = self._starts(call, args=self.kept.said(call.args, {}))
        self._used.append(noted)
        return noted

    def _starts(self, call: V, **kept: Any) -> NotedCall[V]:
        self._calls[call.key] += 1
        number, seq = self._calls[call.key], self.next()
        return NotedCall(self, replace(call, call=number, started=seq, at=self.now(), **kept))

    def found(self, call: LLMInteraction, answer: Iterable[Mapping[str, Any]]) -> None:
        """Note what a cache answered, unless the recording has the call that it is from.

        In a replay the cache is empty at first, so that the model is asked where it held an answer before.
        """
        request = self.kept.said(call.request, None)
        if request is not None and all(each.noted.request != request for each in self._asked):
            noted = self.asks(call)
            for response in answer:
                noted.takes(dict(response))
            noted.ended()

    def remembered(self, call: LLMInteraction, response: LlmResponse) -> None:
        """Note an answer that an agent had of an earlier question, as one of the model."""
        noted = self.asks(replace(call, remembered=True))
        noted.gave(response)
        noted.ended()

    def remote(self, call: LLMInteraction) -> NotedCall[LLMInteraction]:
        """Note a call of a remote agent, as one of a model whose name is the endpoint."""
        noted = self.asks(call)
        noted.noted = replace(noted.noted, state=None)
        return noted

    # --- places -----------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds since the beginning."""
        return round(time.monotonic() - self._began, 6)

    def next(self) -> int:
        """The next place among everything that is noted."""
        return next(self._seq)


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

    def remote_asked(self, agent: str, request: LlmRequest, branch: str | None) -> NotedCall[LLMInteraction]:
        """Called when a remote agent is asked."""
        assert self.notes is not None
        asked, run = request_json(request), max(self.index, 0)
        return self.notes.remote(
            LLMInteraction(agent, model=request.model, request=asked, branch=branch, run=run)
        )


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
    """A call of a model, a remote agent or a tool that goes on.

    Attributes:
        noted: what is known of it so far, but for what a model answered.
    """

    def __init__(self, notes: Notes, noted: V) -> None:
        self.noted: V = noted
        self._notes, self._kept = notes, notes.kept
        self._chunks: list[Chunk] = []
        self._pieces: list[Piece] = []
        self._began = time.monotonic()

    def whole(self) -> V:
        """All that is known of it so far."""
        chunks = self._kept.joined(self._chunks, self._pieces)
        return replace(self.noted, chunks=tuple(chunks)) if chunks else self.noted

    @property
    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 6)

    @contextmanager
    def going_on(self) -> Generator[None]:
        """Notes how it ends: with an error, well, or given up, if nobody reads on."""
        try:
            yield
        except Exception as error:
            self.ended(error=self._kept.failure(error))
            raise
        except BaseException:  # cancelled, or closed
            self.left()
            raise
        else:
            self.ended()

    def gave(self, response: LlmResponse) -> None:
        """Note an answer of a model, in whole or in part."""
        said = plain(response)
        if self._kept.says and (piece := piece_of(response, said, len(self._chunks))):
            self._pieces.append(piece)
        self.takes(said)

    def takes(self, said: Mapping[str, Any]) -> None:
        """Note what a model said, as JSON."""
        self._chunks.append(Chunk(self._kept.said(said, {}), self._seconds, self._notes.next()))

    def did(self, result: Any, actions: Mapping[str, Any]) -> None:
        """Note what a tool gave, and what it did beside."""
        given = self._kept.said(result, None)
        self.noted = replace(self.noted, result=given, actions=self._kept.actions(actions))

    def saved(self, saved: Iterable[tuple[str, int, Mapping[str, Any]]]) -> None:
        """Note the artifacts that a tool saved, even if it failed afterwards."""
        kept = [SavedArtifact(name, number, self._kept.said(part, None)) for name, number, part in saved]
        self.noted = replace(self.noted, artifacts=tuple(kept))

    def failed(self, problem: str, *, passing: bool) -> None:
        """A remote agent failed, in a way that may pass or not."""
        told = self._kept.failure(RemoteError(problem))
        self.ended(error=replace(told, status=PASSING if passing else None))

    def left(self) -> None:
        """Nobody reads on: it was given up, unless it had ended."""
        if self.noted.ended is None:
            limit = next((at for at, each in enumerate(limits_around()) if each.is_over), None)
            self._settle(given_up=self._notes.next(), limit=limit)

    def ended(self, error: Failure | None = None) -> None:
        """Note that it came to its end, or failed."""
        changes = {} if error is None else {"error": error}
        self._settle(ended=self._notes.next(), **changes)

    def _settle(self, **changes: Any) -> None:
        self._chunks, self._pieces = self._kept.joined(self._chunks, self._pieces), []
        self.noted = replace(self.noted, seconds=self._seconds, **changes)
