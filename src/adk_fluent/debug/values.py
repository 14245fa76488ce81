"""What a recording is made of."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adk_fluent.backends.events import AgentEvent
from adk_fluent.debug.requests import request_lines


@dataclass(frozen=True, slots=True)
class Failure:
    """What a model, a tool or a run raised.

    Attributes:
        type: the name of its class.
        message: what it said.
        status: the HTTP status in it, if it has one.
        bases: that class and those it derives from, as `module:name`, where it is of another library.
    """

    type: str
    message: str = ""
    status: int | None = None
    bases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of what a model answered.

    Attributes:
        response: the fields of ADK's `LlmResponse` that were set, as JSON.
        at: seconds since the model was asked.
        seq: its place among everything that was recorded.
    """

    response: Mapping[str, Any]
    at: float = 0.0
    seq: int = 0


@dataclass(frozen=True, slots=True)
class LLMInteraction:
    """One call of a model, or of a remote agent.

    Attributes:
        agent_name: the agent whose call it was.
        call: which of its calls, from 1; those of each `operation` are counted for themselves.
        operation: what a context asked for beside the agent's own work, such as `summarize`.
        model: the name of the model; the endpoint of a remote agent.
        request: all that it was sent, as JSON: `model instruction contents tools answer options`.
        prompt: the agent's templates, as they are written.
        state: the keys that the agent reads, with their values.
        chunks: what it answered, piece by piece; the last is whole, unless the call failed or was given up.
        error: what it raised.
        branch: the parallel branch it was asked on.
        run: which of the recorded runs it belongs to, from 0.
        started: its place among everything that was recorded.
        ended: likewise; `None` for a call that was given up, such as that of the loser of a race.
        at: seconds since the recording began, when it started.
        seconds: how long it took.
        given_up: its place among everything that was recorded, when it was given up.
        limit: which of the time limits around it cut it off then, if one did: 0 is the outermost.
        remembered: whether the agent had this answer of an earlier question, so that no model was asked.
    """

    agent_name: str
    call: int = 1
    operation: str | None = None
    model: str | None = None
    request: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prompt: tuple[str, ...] = ()
    state: Mapping[str, Any] | None = None
    chunks: tuple[Chunk, ...] = ()
    error: Failure | None = None
    branch: str | None = None
    run: int = 0
    started: int = 0
    ended: int | None = None
    at: float = 0.0
    seconds: float = 0.0
    given_up: int | None = None
    limit: int | None = None
    remembered: bool = False

    @property
    def key(self) -> str:
        """The agent, or `agent:operation` for a question of its context; as in `mock_backend`."""
        return self.agent_name if self.operation is None else f"{self.agent_name}:{self.operation}"

    @property
    def request_content(self) -> list[Any]:
        """The conversation that it was sent."""
        return list(self.request.get("contents") or ())

    @property
    def response_content(self) -> str:
        """The text that it answered."""
        whole = [chunk.response for chunk in self.chunks if not chunk.response.get("partial")]
        parts = itertools.chain.from_iterable(map(_parts, whole))
        return "".join(part.get("text") or "" for part in parts if not part.get("thought"))

    @property
    def latency_ms(self) -> float:
        """How long it took, in milliseconds."""
        return self.seconds * 1000


def _parts(response: Mapping[str, Any]) -> list[Any]:
    content: Mapping[str, Any] = response.get("content") or {}
    return content.get("parts") or []


@dataclass(frozen=True, slots=True)
class SavedArtifact:
    """One version of an artifact.

    Attributes:
        filename: its name.
        version: its number.
        part: its content: the fields of a `Part`; `None` if the run did not load it.
    """

    filename: str
    version: int = 0
    part: Mapping[str, Any] | None = None


Saved = Mapping[tuple[str, int], SavedArtifact]
"""Name and version → the artifact."""


@dataclass(frozen=True, slots=True)
class ToolInteraction:
    """One call of a tool.

    Attributes:
        tool_name: the tool.
        agent_name: the agent that called it.
        call: which call of this tool by this agent, from 1.
        call_id: the id of the call, as in the events.
        args: what it was called with.
        result: what it gave.
        error: what it raised.
        actions: what it did beside: the fields of ADK's `EventActions` that it changed.
        artifacts: the artifacts that it saved, in order.
        inside: whether it works inside the run alone, as an agent does that is a tool; a replay runs it.
        branch: the parallel branch it was called on.
        run: which of the recorded runs it belongs to, from 0.
        started: its place among everything that was recorded.
        ended: likewise; `None` if it was given up.
        at: seconds since the recording began, when it started.
        seconds: how long it took.
        given_up: its place among everything that was recorded, when it was given up.
        limit: which of the time limits around it cut it off then, if one did: 0 is the outermost.
    """

    tool_name: str
    agent_name: str = ""
    call: int = 1
    call_id: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: Any = None
    error: Failure | None = None
    actions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    artifacts: tuple[SavedArtifact, ...] = ()
    inside: bool = False
    branch: str | None = None
    run: int = 0
    started: int = 0
    ended: int | None = None
    at: float = 0.0
    seconds: float = 0.0
    given_up: int | None = None
    limit: int | None = None

    @property
    def key(self) -> str:
        """The agent and the tool."""
        return f"{self.agent_name}/{self.tool_name}"


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run: a turn of a conversation, or its going on after an approval.

    Attributes:
        prompt: what the user said: the fields of a `Content`.
        session_id: the session it ran in.
        user_id: whose it is.
        state: what the state held before.
        invocation_id: the run itself.
        streaming: whether pieces of answers were asked for.
        live: whether it was a live conversation, of which only the events are known.
        error: what it ended with, if it failed.
        left: whether its caller left it before its end, as a client does that disconnects.
        artifacts: the artifacts that were there before, as far as the run came upon them.
        earlier: the events of its session that were there before and are of no run of the recording: the
            fields of ADK's `Event`.
    """

    prompt: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session_id: str = ""
    user_id: str = "user"
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    invocation_id: str = ""
    streaming: bool = False
    live: bool = False
    error: Failure | None = None
    left: bool = False
    artifacts: tuple[SavedArtifact, ...] = ()
    earlier: tuple[Mapping[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """The text of what the user said."""
        return "".join(part.get("text") or "" for part in self.prompt.get("parts") or ())


@dataclass(frozen=True, slots=True)
class _StepMoment:
    """A moment in the life of an agent or another step.

    Attributes:
        agent_name: the agent or step.
        branch: the parallel branch it ran on.
        run: which of the recorded runs it belongs to, from 0.
        seq: its place among everything that was recorded.
        at: seconds since the recording began.
    """

    agent_name: str
    branch: str | None = None
    run: int = 0
    seq: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class End(_StepMoment):
    """An agent or another step that ran to its end, neither failing nor being given up."""


@dataclass(frozen=True, slots=True)
class Begin(_StepMoment):
    """An agent or another step that began on a parallel branch, where it reads the state."""


@dataclass(frozen=True, slots=True)
class BranchFailure:
    """An error that left a branch of a fan-out, a race or a map, and ended the branches beside it.

    Attributes:
        step: the fan-out, race or map.
        child: the number of the branch, from 0.
        branch: the parallel branch that the step ran on.
        run: which of the recorded runs it belongs to, from 0.
        seq: its place among everything that was recorded.
        at: seconds since the recording began.
    """

    step: str
    child: int = 0
    branch: str | None = None
    run: int = 0
    seq: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of its branches a race, or a fan-out with `merge="first_complete"`, went on with.

    Attributes:
        contest: the race.
        winner: the branch: the name of its root; empty where none won, or the race was given up.
        branch: the parallel branch that the race ran on.
        run: which of the recorded runs it belongs to, from 0.
        seq: its place among everything that was recorded.
        began: the last place before the race.
        taken: the branches, once for each thing that the race took from one of them, in that order: events
            that are whole, and ends.
    """

    contest: str
    winner: str = ""
    branch: str | None = None
    run: int = 0
    seq: int = 0
    began: int = 0
    taken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One event with what the state was after it.

    Attributes:
        event: the event; `raw` is not recorded.
        changed: what was other in the state than after the event before; `None` for a key that is gone.
        lost: whether it is of a branch that lost a race: then the run did not give it, and nobody keeps it.
        run: which of the recorded runs it belongs to, from 0.
        seq: its place among everything that was recorded.
        at: seconds since the recording began.
        given: the places at which a race that had kept the event to itself passed it on, if one did.
    """

    event: AgentEvent
    changed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lost: bool = False
    run: int = 0
    seq: int = 0
    at: float = 0.0
    given: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Moment:
    """What was right after an event of a recording; `str()` shows it.

    Attributes:
        step: the number of the event, from 1; 0 is the start.
        seq: its place among everything that was recorded.
        event: the event; `None` at the start.
        agent: the agent or step that it is from; empty at the start.
        position: where that stands in the graph, as `line[1].route[0].booker`.
        state: what the state held.
        views: agent → the request that it was to see next, as `LLMInteraction.request`; agents that were not
            asked any more are not in it.
    """

    step: int
    seq: int = 0
    event: AgentEvent | None = None
    agent: str = ""
    position: str = ""
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    views: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, "Mapping[str, Any]"])

    def __str__(self) -> str:
        said = "" if self.event is None or not self.event.content else f": {self.event.content}"
        lines = [f"step {self.step}: {self.position or 'the start'}{said}"]
        lines += [f"  {key} = {value!r}" for key, value in self.state.items()]
        for agent, request in self.views.items():
            lines.append(f"{agent} sees next:")
            lines += [f"  {line}" for line in request_lines(request).splitlines()]
        return "\n".join(lines)
