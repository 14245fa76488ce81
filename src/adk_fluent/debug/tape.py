"""What a recording answers: which recorded call is the one that is made now."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import inf
from typing import Any, TypeVar

from adk_fluent._redaction import Redactor
from adk_fluent.debug.lanes import CallQueue, Lanes, has_lost, is_within, lane_of
from adk_fluent.debug.order import Order
from adk_fluent.debug.recorder import default_model
from adk_fluent.debug.recording import Recording
from adk_fluent.debug.requests import (
    Asked,
    changed_channels,
    lines_between,
    plain,
    request_lines,
    same_request,
)
from adk_fluent.debug.values import Choice, LLMInteraction, RecordedRun, Saved, SavedArtifact, ToolInteraction
from adk_fluent.ir.base import Node, walk
from adk_fluent.ir.execution import RaceToSuccess
from adk_fluent.ir.graph import resolve_names
from adk_fluent.spelling import did_you_mean

_Places = dict[tuple[object, ...], deque[int]]

V = TypeVar("V", LLMInteraction, ToolInteraction)
K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A call that was not recorded as it is made.

    Attributes:
        agent: the agent that makes it, or `agent:operation`, or `agent/tool`.
        call: which of its calls, from 1.
        changed: channel → what differs, as lines of a diff: `prompt state history tools answer model options`
            of a request, `args` of a tool. Empty if the recording has no such call.
        message: the same in words.
        recorded: the call that was recorded in its place.
    """

    agent: str
    call: int
    changed: Mapping[str, list[str]]
    message: str
    recorded: LLMInteraction | ToolInteraction | None = None

    def __str__(self) -> str:
        return self.message


class Tape:
    """A recording that is played.

    Args:
        recording: what was recorded.
        until: only what was asked before this place in it; by default all.

    Attributes:
        invocations: id of a recorded run → the id that it has now.
        is_complete: whether it says when errors left branches, and which answers agents remembered;
            recordings of a format before 1.5 do not.
    """

    def __init__(self, recording: Recording, until: int | None = None) -> None:
        self.until = until
        self.recording = recording
        self._redacted = Redactor(recording.metadata.get("redact") or ())
        models = [call for call in recording.llm_interactions if self._is_in(call.started)]
        tools = [call for call in recording.tool_interactions if self._is_in(call.started)]
        self._models, self._tools = _queues(models), _queues(tools)
        self._asked: Counter[str] = Counter()
        self._begun = 0
        self._next: dict[str, int] = {}
        self._playing: dict[str, int] = {}
        self.invocations: dict[str, str] = {}
        self._reached = -1
        self.is_complete: bool = recording.failures is not None
        sees_races = recording.metadata.get("sees_races")  # older formats do not say it
        if (noted_apart := sees_races) is None:
            noted_apart = any(step.given or step.lost for step in recording.steps)
        self._notes_given = bool(sees_races) or any(step.given for step in recording.steps)
        self._races: Sequence[Choice] = () if noted_apart else recording.choices
        self._apart: frozenset[str] = frozenset()
        self._given = {step.seq: step.given for step in recording.steps}
        self._gone: dict[str, deque[int] | None] = {}
        self._choices = self._chosen()
        events = ((step.seq, step.event.author, step.event.branch) for step in recording.steps)
        self._events = self._places(events)
        self._ends = self._places((each.seq, each.agent_name, each.branch) for each in recording.ends)
        self._begins = self._places((each.seq, each.agent_name, each.branch) for each in recording.begins)
        failures = recording.failures or ()
        self._failures = self._places((each.seq, each.step, each.branch, each.child) for each in failures)
        self.order: Order = Order(Lanes(recording, until))
        self._ran = frozenset(recording.places) if until is None else frozenset[str]()
        self._alike = recording.versions.get("google-adk") in (None, version("google-adk"))

    def _is_in(self, seq: int) -> bool:
        return self.until is None or seq < self.until

    def _places(self, happened: Iterable[tuple[Any, ...]]) -> _Places:
        """What happened, such as the end of an agent on a branch → where it is in the recording."""
        return _grouped((tuple(what), seq) for seq, *what in happened if self._is_in(seq))

    def _chosen(self) -> dict[str, deque[Choice]]:
        """Lane of a race → how it was decided, each time that it was run."""
        return _grouped((lane_of(each), each) for each in self.recording.choices if self._is_in(each.seq))

    def race(self, contest: str, branch: str | None, until: float) -> Choice | None:
        """How a race that begins was decided; `None` if it did not begin before this place."""
        choices = self._choices.get(lane_of(Choice(contest, branch=branch)))
        return choices.popleft() if choices and choices[0].began < until else None

    @property
    def left(self) -> list[LLMInteraction | ToolInteraction]:
        """What was recorded and not asked again, in order."""
        queues = (*self._models.values(), *self._tools.values())
        return sorted((call for queue in queues for call in queue.left), key=lambda call: call.started)

    def model_asked(self, key: str) -> str | None:
        """The name of the model that was asked under this key."""
        queue = self._models.get(key)
        return None if queue is None else (queue.left or queue.all)[0].model

    def model(
        self, key: str, asked: Asked, before: float = inf, branch: str | None = ""
    ) -> LLMInteraction | Mismatch:
        """The recorded call that this one is.

        Args:
            before: only one that was begun before this place.
            branch: the lane on which it is made, if that is known.
        """
        number, queue = self._number(key), self._models.get(key)
        if queue is None or not (candidates := queue.candidates(branch, before)):
            return self._unknown(key, number, queue, request_lines(asked.request))
        asked = self._as_kept(asked)
        found, fits = self._taken(queue, candidates, lambda call: self._is_asked(call, asked))
        if fits:
            return found
        changed = changed_channels(self._of(found), asked, worded_alike=self._alike)
        return _differs(key, number, changed, found, "its request is not the one that was recorded")

    def recalled(self, key: str, asked: Asked, before: float, branch: str | None) -> LLMInteraction | None:
        """The recorded call that is made next, if this is it and its answer was remembered."""
        if not self.asks_next(key, before, branch):
            return None
        queue, asked = self._models[key], self._as_kept(asked)
        known = [call for call in queue.candidates(branch, before) if call.remembered]
        found = next((call for call in known if self._is_asked(call, asked)), None)
        if found is not None:
            self._number(key)
            self.passed(self._take(queue, found))
        return found

    def asks_next(self, key: str, before: float, branch: str | None) -> bool:
        """Whether a call was recorded that comes next."""
        queue = self._models.get(key)
        return queue is not None and bool(queue.candidates(branch, before))

    def tool(
        self, agent: str, name: str, args: Mapping[str, Any], before: float = inf, branch: str | None = ""
    ) -> ToolInteraction | Mismatch:
        """The recorded call of a tool that this one is; `before` and `branch` as for `model`."""
        key = f"{agent}/{name}"
        number, queue = self._number(key), self._tools.get(key)
        if queue is None or not (candidates := queue.candidates(branch, before)):
            return self._unknown(key, number, queue, f"args: {args}")
        given = self._redacted(plain(args))
        found, fits = self._taken(queue, candidates, lambda call: call.args == given)
        if fits:
            return found
        changed = {"args": list(lines_between(f"{found.args}", f"{given}"))}
        return _differs(key, number, changed, found, "its arguments are not the ones that were recorded")

    def next_run(self, session_id: str) -> float:
        """The place at which the run after the one that a session plays began in the recording."""
        index = self._playing.get(session_id, len(self.recording.runs))
        own = [seq for seq, point in self.order.points.items() if point.run == index]
        later = (seq for seq, point in self.order.points.items() if point.run > index)
        return min((seq for seq in later if seq > max(own, default=0)), default=inf)

    async def asks(self, key: str, branch: str | None, until: float) -> None:
        """A call is about to be made; one that was not made in this run waits until all else waits.

        Args:
            until: where the next run begins.
        """
        queue = self._models.get(key) or self._tools.get(key)
        if branch and (queue is None or queue.is_behind(branch, until)):
            await self.order.last()

    def passed(self, found: LLMInteraction | ToolInteraction | Mismatch) -> None:
        """A call is over, however it was answered."""
        call = found.recorded if isinstance(found, Mismatch) else found
        if isinstance(call, LLMInteraction):
            for chunk in call.chunks:
                self.order.mark(chunk.seq)
        if call is not None:
            self.order.mark(call.ended)

    def run_ended(self) -> None:
        """A run is over: what its branches asked that were given up will not be asked any more."""
        queues: list[CallQueue[Any]] = [*self._models.values(), *self._tools.values()]
        for queue in queues:
            queue.left = [call for call in queue.left if not self._is_past(call)]

    def _is_past(self, call: LLMInteraction | ToolInteraction) -> bool:
        return call.run <= self._reached and (
            has_lost(self.recording, call) or self.recording.runs[call.run].left
        )

    def _taken(
        self, queue: CallQueue[V], candidates: Sequence[V], fits: Callable[[V], bool]
    ) -> tuple[V, bool]:
        """The first of these that fits, or else the first; and whether it fits."""
        found = next(filter(fits, candidates), None)
        return self._take(queue, candidates[0] if found is None else found), found is not None

    def _take(self, queue: CallQueue[V], call: V) -> V:
        self._reached = max(self._reached, call.run)
        queue.left.remove(call)
        self.order.mark(call.started)
        return call

    async def event_due(self, author: str, branch: str | None, event: str, lane: str, until: float) -> None:
        """An event is about to leave a branch, when it is its turn to; one that never did waits for that.

        ADK 1 tells of what is inside a race only when that passes it on: only the race keeps an order in it.

        Args:
            lane: that of the step whose branch it leaves.
        """
        if any(is_within(branch, race) and is_within(lane, race) for race in self._apart):
            return
        if event in self._gone:
            if (later := self._gone[event]) is None:
                return
            await (self.order.turn(later[0]) if later else self.order.last())
        elif (places := self._events.get((author, branch))) and places[0] < until:
            await self.order.turn(places[0])
        elif branch and author in self._ran:
            await self.order.last()

    async def failure_due(self, step: str, branch: str | None, child: int, until: float) -> None:
        """An error is about to leave a branch of a step, when it is its turn to.

        One that never did waits until all else waits; in a recording that does not say when errors came, it
        goes before others that do.
        """
        if not self.is_complete:
            await self.order.cut(first=True)
        elif not await self._in_turn(self._failures.get((step, branch, child)), until):
            await self.order.last()

    def happened(self, author: str, branch: str | None, event: str) -> None:
        """An event of this author left."""
        place = places.popleft() if (places := self._events.get((author, branch))) else None
        self._gone[event] = None if place is None or not self._notes_given else deque(self._given[place])
        self.order.mark(place)

    def given(self, event: str) -> None:
        """An event left that a race had kept to itself."""
        if later := self._gone.get(event):
            self.order.mark(later.popleft())

    async def begins(self, agent: str, branch: str | None, until: float) -> None:
        """An agent begins, when it is its turn to."""
        if self.is_complete and branch:
            await self._due(self._begins, agent, branch, until)

    async def ended(self, agent: str, branch: str | None, until: float) -> None:
        """An agent ends, when it is its turn to; one that was given up before waits for that."""
        await self._due(self._ends, agent, branch, until)

    async def _due(self, known: _Places, agent: str, branch: str | None, until: float) -> None:
        if await self._in_turn(known.get((agent, branch)), until):
            return
        if branch and agent in self._ran:
            await self.order.last()

    async def _in_turn(self, places: deque[int] | None, until: float) -> bool:
        """Wait for the first of these places, if it is before another one; whether it is."""
        if not places or places[0] >= until:
            return False
        place = places[0]
        await self.order.turn(place)
        if places and places[0] == place:  # one that is given up while it waits leaves it to the next
            self.order.mark(places.popleft())
        return True

    def expect(self, session_id: str, run: int) -> None:
        """Let the next run of a session be this one; by default runs begin in the order of the recording."""
        self._next[session_id] = run

    def earlier(self, session_id: str, *, is_new: bool) -> RecordedRun | None:
        """The run that a session plays next, if the session held events before that must be there.

        Args:
            is_new: whether it has no events yet.
        """
        begins = session_id not in self._playing
        index = self._playing[session_id] = self._next.pop(session_id, self._begun)
        self._begun = index + 1
        run = self.recording.runs[index] if index < len(self.recording.runs) else None
        return run if run is not None and run.earlier and (is_new or not begins) else None

    def left_run(self, session_id: str) -> int | None:
        """The run that a session plays, if its caller left it."""
        index = self._playing.get(session_id, len(self.recording.runs))
        return index if index < len(self.recording.runs) and self.recording.runs[index].left else None

    def artifacts(self, session_id: str, invocation_id: str) -> tuple[Sequence[SavedArtifact], Saved]:
        """The artifacts that were there before the run that begins, and all that are known of its session."""
        index = self._playing.get(session_id, len(self.recording.runs))
        if index >= len(self.recording.runs):
            return (), {}
        run = self.recording.runs[index]
        self.invocations[run.invocation_id] = invocation_id
        return run.artifacts, self.recording.saved_artifacts(index)

    def plays(self, tree: Node) -> None:
        """What is about to run."""
        nodes = [*walk(resolve_names(tree).root)]
        named = {each.name for each in nodes}
        races = {each.name for each in nodes if isinstance(each.runs, RaceToSuccess)}
        self._apart = frozenset(lane_of(each) for each in self._races if each.contest in races)
        self.order.without(self.recording.places.keys() - named)

    def _of(self, call: LLMInteraction) -> Asked:
        return Asked(call.request, call.prompt, call.state, self.recording.metadata.get("default_model"))

    def _is_asked(self, call: LLMInteraction, asked: Asked) -> bool:
        return same_request(self._of(call), asked, worded_alike=self._alike)

    def _as_kept(self, asked: Asked) -> Asked:
        """A request as a recording keeps it: without secrets."""
        # The state first, so that its secrets are known as such in the instruction.
        state = None if asked.state is None else self._redacted(dict(asked.state))
        prompt = tuple(self._redacted(list(asked.prompt)))
        return Asked(self._redacted(dict(asked.request)), prompt, state, default_model())

    def _number(self, key: str) -> int:
        self._asked[key] += 1
        return self._asked[key]

    def _unknown(self, key: str, number: int, queue: CallQueue[Any] | None, asked: str) -> Mismatch:
        known = [*self._models, *self._tools]
        if queue is None:
            has = f"{did_you_mean(key, known)} It has {', '.join(known) or 'none'}."
            said = f"{_who(key)} was never asked in the recording.{has}"
        else:
            times = f"{queue.count} call{'s' * (queue.count != 1)}"
            said = f"{_who(key)}, call {number}: the recording has only {times} of it. It is asked:"
            said += "".join(f"\n  {line}" for line in asked.splitlines())
        return Mismatch(key, number, {}, said)


def _who(key: str) -> str:
    agent, _, tool = key.partition("/")
    return f"Tool {tool!r} of agent {agent!r}" if tool else f"Agent {key!r}"


def _differs(
    key: str,
    number: int,
    changed: Mapping[str, list[str]],
    recorded: LLMInteraction | ToolInteraction,
    what: str,
) -> Mismatch:
    shown = "".join(
        f"\n  {channel}:" + "".join(f"\n    {line}" for line in lines) for channel, lines in changed.items()
    )
    names = ", ".join(changed)
    said = f"{_who(key)}, call {number}: {what} ({names or 'order'} changed).{shown}"
    return Mismatch(key, number, dict(changed), said, recorded)


def _grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, deque[T]]:
    found: dict[K, deque[T]] = {}
    for key, each in pairs:
        found.setdefault(key, deque()).append(each)
    return found


def _queues(calls: Iterable[V]) -> dict[str, CallQueue[V]]:
    return {key: CallQueue(of_key) for key, of_key in _grouped((call.key, call) for call in calls).items()}
