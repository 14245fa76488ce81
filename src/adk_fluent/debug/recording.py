"""`Recording`: what happened in runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from adk_fluent.backends.events import AgentEvent, is_in_tool
from adk_fluent.debug import stored
from adk_fluent.debug.values import (
    Begin,
    BranchFailure,
    Choice,
    End,
    LLMInteraction,
    Moment,
    RecordedRun,
    Saved,
    Step,
    ToolInteraction,
)
from adk_fluent.errors import RecordingError
from adk_fluent.ir.base import Node, rewrite
from adk_fluent.ir.codec import ir_hash
from adk_fluent.ir.graph import resolve_names

if TYPE_CHECKING:
    from adk_fluent.backends.events import RunResult
    from adk_fluent.eval import FluentCase
    from adk_fluent.expr.base import Expr


@dataclass(frozen=True)
class Recording:
    """What happened in one or more runs; `Recorder` makes it, `load` reads it.

    Attributes:
        ir_hash: the `pipeline_hash` of what ran.
        pipeline: the name of its root.
        runs: the runs, in order.
        steps: every event, in the order in which they left, with the state after each; also those of branches
            that lost a race, which the runs did not give.
        llm_interactions: every call of a model, in the order in which they were asked.
        tool_interactions: every call of a tool, likewise.
        ends: the agents and steps that ran to their end, in order; a replay keeps to it.
        begins: the agents and steps that began on a parallel branch, in order.
        failures: the errors that left a branch and ended those beside it, in order; `None` in a recording of
            a format before 1.5, which does not say.
        choices: how races were decided, in the order in which they began.
        spans: the spans of the runs, where the program has set up OpenTelemetry: `name`, `trace_id`,
            `span_id`, `parent_id`, `start` and `end` (nanoseconds since 1970), `attributes`, `status`.
        places: agent or step → where it stands in the graph, as `line[1].route[0].booker`.
        versions: of `adk-fluent`, `google-adk` and `python`.
        metadata: anything else that was noted.
    """

    ir_hash: str = ""
    pipeline: str = ""
    runs: tuple[RecordedRun, ...] = ()
    steps: tuple[Step, ...] = ()
    llm_interactions: tuple[LLMInteraction, ...] = ()
    tool_interactions: tuple[ToolInteraction, ...] = ()
    ends: tuple[End, ...] = ()
    begins: tuple[Begin, ...] = ()
    failures: tuple[BranchFailure, ...] | None = None
    choices: tuple[Choice, ...] = ()
    spans: tuple[Mapping[str, Any], ...] = ()
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    # --- what is in it ----------------------------------------------------------------------------

    @cached_property
    def events(self) -> tuple[AgentEvent, ...]:
        """The events that the runs gave, in order; without the pieces of streamed answers."""
        return tuple(step.event for step in self.steps if not step.lost)

    @cached_property
    def state_snapshots(self) -> tuple[dict[str, Any], ...]:
        """What the state held after each event."""
        found: list[dict[str, Any]] = []
        held: dict[int, dict[str, Any]] = {}
        for step in self.steps:
            known = held.get(step.run)
            state = dict(self.runs[step.run].state if known is None else known)
            state.update(step.changed)
            held[step.run] = state = {key: value for key, value in state.items() if value is not None}
            found.append(state)
        return tuple(found)

    def heard_until(self, call: LLMInteraction | ToolInteraction) -> int:
        """The last place at which something came of the agent that made a call, in its run and branch."""
        return self._heard.get((call.run, call.agent_name, call.branch), 0)

    @cached_property
    def _heard(self) -> dict[tuple[int, str, str | None], int]:
        events = {(step.run, step.event.author, step.event.branch): step.seq for step in self.steps}
        ends = {(end.run, end.agent_name, end.branch): end.seq for end in self.ends}
        return {lane: max(events.get(lane, 0), ends.get(lane, 0)) for lane in events.keys() | ends.keys()}

    @cached_property
    def unheard(self) -> frozenset[int]:
        """The places of answers that came too late: nothing followed, since a race was decided meanwhile."""
        lanes: dict[tuple[int, str, str | None], list[tuple[int, bool]]] = {}
        for call in self.llm_interactions:
            said = [chunk.seq for chunk in call.chunks if chunk.response.get("content")]
            own = call.operation is None and call.agent_name in self.places
            if own and said and not is_in_tool(call.branch):
                lanes.setdefault((call.run, call.agent_name, call.branch), []).append((said[-1], True))
        heard = [(step.run, step.event.author, step.event.branch, step.seq) for step in self.steps]
        heard += [(end.run, end.agent_name, end.branch, end.seq) for end in self.ends]
        for run, agent, branch, seq in heard:
            if (run, agent, branch) in lanes:
                lanes[run, agent, branch].append((seq, False))
        found: set[int] = set()
        for places in lanes.values():
            following = pairwise([*sorted(places), (-1, True)])
            found |= {place for (place, said), (_, said_next) in following if said and said_next}
        return frozenset(found)

    def saved_artifacts(self, run: int | None = None) -> Saved:
        """The artifacts that are known of the session of a run, or of all; of two of one version the last."""
        at = None if run is None else self.runs[run]
        runs = [
            (index, each)
            for index, each in enumerate(self.runs)
            if at is None or (each.session_id, each.user_id) == (at.session_id, at.user_id)
        ]
        found = [each for _, known in runs for each in known.artifacts]
        numbers = {index for index, _ in runs}
        found += [each for call in self.tool_interactions if call.run in numbers for each in call.artifacts]
        return {(each.filename, each.version): each for each in found if each.part is not None}

    @cached_property
    def extents(self) -> Mapping[int, int]:
        """Run → the last place at which something of it was recorded."""
        calls = (*self.llm_interactions, *self.tool_interactions)
        places = [(each.run, each.seq) for each in (*self.steps, *self.ends)]
        places += [(call.run, max(call.started, call.ended or 0)) for call in calls]
        places += [(call.run, chunk.seq) for call in self.llm_interactions for chunk in call.chunks]
        return dict(sorted(places))

    def get_llm_interactions(self, agent: str | None = None) -> list[LLMInteraction]:
        """The calls of models, or those of one agent."""
        return [each for each in self.llm_interactions if agent in (None, each.agent_name)]

    def get_tool_interactions(self, tool: str | None = None) -> list[ToolInteraction]:
        """The calls of tools, or those of one of them."""
        return [each for each in self.tool_interactions if tool in (None, each.tool_name)]

    def of_same_pipeline(self, subject: Any) -> bool:
        """Whether it is a recording of just this expression, or node."""
        return self.ir_hash == pipeline_hash(subject)

    # --- the file ---------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The content of a file; the layout is stable, and `version` says which it is."""
        return stored.document_of(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file, whole or not at all; its folder is made when missing.

        Raises:
            RecordingError: the file cannot be written.
        """
        stored.write(self.to_json(), path)
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a file; nothing in it is run or imported.

        What a later version of the format added is left out.

        Raises:
            RecordingError: there is no such file, it is no whole recording, or one of a later format.
        """
        return cls.from_json(stored.read(path), str(path))

    @classmethod
    def from_json(cls, text: str, where: str = "The text") -> Recording:
        """Read what `to_json` wrote.

        Args:
            where: where it is from, for messages.

        Raises:
            RecordingError: as for `load`.
        """
        return stored.recording_in(text, cls, where)

    def without(self, redacted: Callable[[Any], Any]) -> Recording:
        """The same, with what was said and known as `redacted` gives it."""
        return stored.redacted_copy(self, redacted)

    # --- going back to it -------------------------------------------------------------------------

    def at(self, step: int | str) -> Moment:
        """What was right after an event.

        Args:
            step: the number of the event, from 1; 0 is the start; or an agent, whose last event counts.

        Raises:
            RecordingError: there is no such step.
        """
        from adk_fluent.debug.moments import moment_at

        return moment_at(self, step)

    async def replay(
        self,
        expression: Expr[Any],
        *,
        on_mismatch: Literal["error", "skip", "live"] = "error",
        tools: Literal["recorded", "live"] = "recorded",
    ) -> Recording:
        """Run an expression on what was recorded, turn by turn, and record that.

        `diff_recordings(recording, await recording.replay(expression))` is empty where nothing changed.

        Args:
            on_mismatch: what to do with requests that were not recorded; see `ReplayerBackend`.
            tools: whether tools give what was recorded, or run.

        Raises:
            ReplayError: a request was not recorded, and `on_mismatch` is `error`.
        """
        from adk_fluent.debug.repeating import replayed

        return await replayed(self, expression, on_mismatch=on_mismatch, tools=tools)

    async def resume(self, expression: Expr[Any], *, at: int | str, **options: Any) -> RunResult[Any]:
        """Run a changed expression from a step on: what was asked before that is answered as recorded.

        Args:
            expression: what runs; up to the step it must ask what was asked.
            at: the step, as for `at`.
            options: those of `run`, but for the session; `backend` says which models answer from then on.

        Raises:
            RecordingError: there is no such step.
            ReplayError: before the step something else is asked than was recorded.
        """
        from adk_fluent.debug.moments import resumed

        return await resumed(self, expression, at, options)

    # --- from production to test ------------------------------------------------------------------

    def to_case(self) -> FluentCase:
        """A case for a `FluentEvalSuite`: the turns of the first session, with the tools that were called.

        The answers are its references, with their pictures and files, which a YAML file cannot hold. Tools
        give what they gave, write the state that they wrote and steer the run as they did; those that work
        inside the run, such as agents, `transfer_to_agent` and `exit_loop`, run. Its id is the pipeline and
        the start of `ir_hash`.

        Raises:
            RecordingError: nothing was recorded; or it holds what a case cannot say: a question to a person,
                a live conversation, or a run that failed.
        """
        from adk_fluent.debug.writing import to_case

        if not self.runs:
            raise RecordingError("There is no run in this recording to make a case of.")
        return to_case(self)

    def to_test(self, target: str) -> str:
        """The source of a pytest that replays the recording and fails where anything differs.

        It holds the recording itself, so it needs no other file, no model and no network.

        Args:
            target: the expression: `module:attr`, or `path/file.py:attr`.

        Raises:
            RecordingError: `target` is neither, or no name that Python can import.
        """
        from adk_fluent.debug.writing import to_test

        return to_test(self, target)

    def __repr__(self) -> str:
        counts = (
            (len(self.runs), "run"),
            (len(self.steps), "event"),
            (len(self.llm_interactions), "model call"),
            (len(self.tool_interactions), "tool call"),
        )
        said = ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts)
        return f"<Recording of {self.pipeline or 'nothing'}: {said}>"


def pipeline_hash(subject: Any) -> str:
    """The hash of an expression or node as a recording notes it: as it runs, without who looks on."""
    node: Node = subject if isinstance(subject, Node) else subject.node
    return ir_hash(resolve_names(rewrite(node, _unobserved)).root)


def hash_if_any(tree: Node) -> str:
    """The hash of what runs; empty for what cannot be hashed, such as a tool that holds itself."""
    try:
        return pipeline_hash(tree)
    except Exception:  # noqa: BLE001  # functions of users may hold anything
        return ""


def places_in(node: Node, path: str) -> Iterator[tuple[str, str]]:
    """Agent or step → where it stands in the graph."""
    yield node.name, path
    for number, child in enumerate(node.children):
        yield from places_in(child, f"{path}[{number}].{child.name}")


def _unobserved(node: Node) -> Node:
    own = node.annotations
    kept = tuple(each for each in own.middleware if not getattr(each, "observes", False))
    return node if kept == own.middleware else node.replace(annotations=own.replace(middleware=kept))
