"""What of a recording comes after what, however fast each of it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from adk_fluent.debug.recording import Recording
    from adk_fluent.debug.values import Choice, LLMInteraction, ToolInteraction

V = TypeVar("V", "LLMInteraction", "ToolInteraction")


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that happened.

    Attributes:
        at: the second at which it did.
        agent: the agent or step whose it is.
        branch: the branch of the conversation: a lane on which one agent runs after the other.
        run: which of the recorded runs it belongs to, from 0.
        kind: the `begin` or the `end` of an agent, a `failure` of a branch of it, an `event` of it, the
            `choice` of a race, a step of a call of its `model`, or `beside` that: of a tool or a question of
            its context, several of which may go on at once.
    """

    at: float
    agent: str
    branch: str | None = None
    run: int = 0
    kind: Literal["begin", "end", "failure", "event", "choice", "model", "beside"] = "event"


class Lanes:
    """The points of a recording, and what follows from their lanes.

    Args:
        recording: what was recorded.
        until: only what happened before this place in it; by default all.
    """

    def __init__(self, recording: Recording, until: int | None = None) -> None:
        points = _points(recording)
        self.points: Mapping[int, Point] = {
            seq: point for seq, point in points if until is None or seq < until
        }
        self._sorted = sorted(self.points)
        self._places = recording.places
        self._ends: dict[tuple[int, str | None, str], list[int]] = {}
        for seq in self._sorted:
            point = self.points[seq]
            if point.kind == "end":
                self._ends.setdefault((point.run, point.branch, point.agent), []).append(seq)

    def is_over(self, earlier: int, by: int) -> bool:
        """Whether what had not happened yet cannot happen any more when the other does.

        So it is with what the same agent did earlier, with what agents did that had ended by then, and with
        what those did that the ended one is made of.
        """
        point, later = self.points[earlier], self.points[by]
        if point.run != later.run or later.kind == "beside":
            return False
        if point.agent == later.agent and point.branch == later.branch:
            return True
        if not is_within(point.branch, later.branch):
            return False
        if later.kind in ("end", "failure") and self._is_part(point.agent, later.agent):
            return True
        ends = self._ends.get((point.run, point.branch, point.agent), [])
        return bisect_left(ends, earlier) < bisect_left(ends, by)

    def _is_part(self, agent: str, of: str) -> bool:
        inner, outer = self._places.get(agent), self._places.get(of)
        return inner is not None and outer is not None and inner.startswith(f"{outer}[")


def has_lost(recording: Recording, call: LLMInteraction | ToolInteraction) -> bool:
    """Whether a call is of a branch that was given up: how far it got until then is chance.

    So are the branches that lost a race, and those that were at work when another made the run fail.
    """
    failed = recording.runs[call.run].error is not None
    if failed and call.branch and call.error is None and call.started > recording.heard_until(call):
        return True
    since: dict[tuple[int, str, str | None], int] = {}
    for choice in recording.choices:
        contest = (choice.run, choice.contest, choice.branch)
        began, since[contest] = max(since.get(contest, 0), choice.began), choice.seq
        lane = lane_of(choice)
        at_stake = call.run == choice.run and began < call.started < choice.seq
        inside = is_within(call.branch, lane) and not is_within(call.branch, f"{lane}.{choice.winner}")
        if at_stake and inside:
            return True
    return False


def lane_of(choice: Choice) -> str:
    """The lane of a race, which those of its branches are below."""
    return f"{choice.branch}.{choice.contest}" if choice.branch else choice.contest


def is_within(branch: str | None, other: str | None) -> bool:
    """Whether a lane is another one, or part of it."""
    return other is None or branch == other or (branch or "").startswith(f"{other}.")


def _points(recording: Recording) -> Iterator[tuple[int, Point]]:
    """Place → what happened there: events, ends of agents, calls of models and tools, and what they gave."""
    for step in recording.steps:
        for seq in (step.seq, *step.given):
            yield seq, Point(step.at, step.event.author, step.event.branch, step.run)
    for end in recording.ends:
        yield end.seq, Point(end.at, end.agent_name, end.branch, end.run, "end")
    for begin in recording.begins:
        yield begin.seq, Point(begin.at, begin.agent_name, begin.branch, begin.run, "begin")
    for failure in recording.failures or ():
        yield failure.seq, Point(failure.at, failure.step, failure.branch, failure.run, "failure")
    for choice in recording.choices:
        if choice.seq:
            yield choice.seq, Point(0.0, choice.contest, choice.branch, choice.run, "choice")
    for call in recording.llm_interactions:
        of, kind = (call.agent_name, call.branch, call.run), "beside" if call.operation else "model"
        yield call.started, Point(call.at, *of, kind)
        for chunk in call.chunks:
            yield chunk.seq, Point(call.at + chunk.at, *of, kind)
        if call.error is not None and call.ended is not None:
            yield call.ended, Point(call.at + call.seconds, *of, kind)
    for used in recording.tool_interactions:
        of = (used.agent_name, used.branch, used.run)
        yield used.started, Point(used.at, *of, "beside")
        if used.ended is not None:
            yield used.ended, Point(used.at + used.seconds, *of, "beside")


class CallQueue(Generic[V]):
    """The recorded calls of one agent, or of one tool of it, that were not made again yet."""

    def __init__(self, calls: Iterable[V] = ()) -> None:
        self.all: list[V] = list(calls)
        self.left: list[V] = list(self.all)
        self.count: int = len(self.left)
        self._branches: set[str | None] = {call.branch for call in self.left}

    def candidates(self, branch: str | None, before: float) -> list[V]:
        """The next one, and those that went on at the same time: which of them came first was chance.

        Args:
            branch: the lane it is made on; those of other lanes count only where none was made on it.
            before: only one that was begun before this place.
        """
        left = self._on(branch)
        if not left or left[0].started >= before:
            return []
        until = left[0].ended
        return [call for call in left if until is None or call.started < until]

    def is_behind(self, branch: str, until: float) -> bool:
        """Whether all that is left on a branch was begun after this place."""
        return all(call.started > until for call in self._on(branch))

    def _on(self, branch: str | None) -> list[V]:
        return [call for call in self.left if call.branch == branch or branch not in self._branches]
