"""The part of the walk that passes agents: their history, reads, writes and transfers."""

from __future__ import annotations

from typing import Final

from adk_fluent.analysis.data_flow import Flow, Read
from adk_fluent.analysis.history import possible_speakers
from adk_fluent.analysis.plan import Branch, Step, may_hand_over, may_return
from adk_fluent.analysis.values.fact import (
    ABSENT,
    ANYBODY,
    PRESENT,
    REMOVED,
    UNKNOWN,
    Fact,
    Gathered,
    Why,
    written_fact,
)
from adk_fluent.analysis.values.key_effects import nullable
from adk_fluent.analysis.values.knowledge import Knowledge
from adk_fluent.analysis.values.updates import call_functions, maybe_write, record_pause, use_tools
from adk_fluent.context.spec import Context
from adk_fluent.ir.annotations import ContextSpec
from adk_fluent.ir.base import UNSET
from adk_fluent.ir.execution import OnFailure, Repeated
from adk_fluent.ir.nodes import AgentNode, NativeNode
from adk_fluent.ir.tools import ends_loops

_BESIDE: Final = frozenset({"annotations", "declared_writes", "output_schema", "written_fields"})
"""The fields of an agent by which its answer may write other keys than the output key."""


class ModelWalk:
    """The part of the walk that passes agents; `state_walk._Walk` adds the other steps and the composites.

    Attributes:
        flow: the result.
        entered: composite → the state at its last start.
        loop_exits: loop → states in which an agent ended it.
        gathered: composite and key → the facts about the key at the end of each round.
        shift: after a transfer, the depth of the target's own branch, and the branch of the transfer.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.entered: dict[Step, Knowledge] = {}
        self.loop_exits: dict[Step, list[Knowledge]] = {}
        self.gathered: dict[tuple[Step, str], Gathered] = {}
        self.shift: tuple[int, Branch] = (0, ())

    def visit(self, step: Step, state: Knowledge) -> None:
        """Pass a step: note the facts in `state` that it reads, then change `state` as the step does."""

    def branch(self, step: Step) -> Branch:
        """The conversation branch on which a step runs now: after a transfer, that of the transfer."""
        depth, base = self.shift
        return base + step.branch[depth:]

    def reads(self, step: Step, state: Knowledge) -> None:
        """Add to each read of the step the fact about its key."""
        for read in self.flow.reads_of(step):
            read.add_fact(state.look(read.key))

    def gather(self, step: Step, key: str, fact: Fact) -> Gathered:
        """Add the fact about a key at the end of a round: a later value may come from any earlier round."""
        gathered = self.gathered.setdefault((step, key), Gathered())
        gathered.facts.append(fact)
        return gathered

    def agent(self, step: Step, state: Knowledge) -> None:
        """Pass an agent."""
        node: AgentNode = step.node
        given = node.given
        self._listen(step, state)
        if "before_agent_callback" in given:
            call_functions(state, step, given["before_agent_callback"])
        early: list[Read] = []
        late: list[Read] = []
        last: list[Read] = []
        places = {"tool": late, "callback": late, "ending": last}
        for read in self.flow.reads_of(step):
            places.get(read.via, early).append(read)
        self._read_for_request(step, state, early)
        if node.tools:
            self._use_tools(step, state, early)
        for name in ("before_model_callback", "after_model_callback"):
            if name in given:
                call_functions(state, step, given[name])
        for read in late:
            read.add_fact(state.look(read.key))
        may_leave = bool(node.tools) and ends_loops(node.tools)
        unlooped = may_leave and not self._leave_loop(step, state)
        if node.children:
            self._delegate(step, state)
        elif unlooped:
            self._answer_or_leave(step, state)
        elif may_hand_over(step):
            answered = state.fork()
            self._answer(step, answered)
            state.join([answered], "delegate", step, or_none=True)
        else:
            self._answer(step, state)
        for read in last:
            read.add_fact(state.look(read.key))
        if "after_agent_callback" in given:
            call_functions(state, step, given["after_agent_callback"])

    def _read_for_request(self, step: Step, state: Knowledge, reads: list[Read]) -> None:
        """Add to each read of an agent's request the fact about its key."""
        for read in reads:
            read.add_fact(self._before_asking(step, read.key, state))

    def _use_tools(self, step: Step, state: Knowledge, reads: list[Read]) -> None:
        """Apply the writes of tools. A tool may stop the run for a person; then the agent starts again."""
        stops = step.node.may_pause
        if stops:
            record_pause(step, state)
            call_functions(state, step, step.node.given.get("before_agent_callback", ()))
        use_tools(state, step, step.node)
        if stops:
            self._read_for_request(step, state, reads)

    def _answer(self, step: Step, state: Knowledge) -> None:
        node: AgentNode = step.node
        if isinstance(node.output_key, str):
            schema = node.output_schema
            state.set(
                node.output_key, written_fact(step, str if schema in (UNSET, None) else schema, (step,))
            )
        if not _BESIDE.isdisjoint(node.given):  # most agents write nothing else
            self._write_beside(step, node, state)
        self.speak(step, state, certain=not node.children)

    def _write_beside(self, step: Step, node: AgentNode, state: Knowledge) -> None:
        """Record the other keys that an answer writes, and those that it may leave without a value."""
        for key in node.declared_writes:
            state.set(key, written_fact(step))
        for field_ref in node.written_fields:
            text = (step,) if field_ref.is_text and len(node.written_fields) == 1 else ()
            state.set(field_ref.key, written_fact(step, field_ref.type, text))
        if (spec := node.annotations.context) is not None:
            surely = self._written_by(spec, step, state) if spec.access.writes else ()
            for key in sorted(spec.access.writes):  # notes, or a summary of the history
                fact = written_fact(step, of=(ANYBODY,))
                if key in surely:
                    state.set(key, fact)
                else:
                    state.maybe(key, fact, Why("context", step, (step,)))
        for key in nullable(node):
            fact = state.get(key)
            state.set(key, fact.with_mask(fact.mask | ABSENT | REMOVED, Why("null", step, (step,))))

    def _before_asking(self, step: Step, key: str, state: Knowledge) -> Fact:
        """The fact about a key for the instruction: the agent's context may have written it just before."""
        fact, spec = state.look(key), step.node.annotations.context
        if isinstance(spec, Context) and key in spec.extracted_keys:
            fact = fact.or_else(ANYBODY)
            fact.mask |= PRESENT
        return fact

    def _written_by(self, spec: ContextSpec, step: Step, state: Knowledge) -> frozenset[str]:
        """The keys that a context certainly writes."""
        if not isinstance(spec, Context):
            return frozenset()
        speakers = possible_speakers([(state.conversation.history, self.branch(step))])
        return spec.surely_written(anything=any(speakers.values()))

    def speak(self, step: Step, state: Knowledge, *, certain: bool = True) -> None:
        """Add a message of the step to the conversation, on its branch."""
        branch = self.branch(step)
        self.flow.speakers_on_branches[step, branch] = None
        state.conversation = state.conversation.with_message(step, branch, certain=certain)

    def _note_situation(self, step: Step, state: Knowledge) -> None:
        """Note the history and the branch with which an agent runs."""
        situation = (state.conversation.history, self.branch(step))
        self.flow.situations.setdefault(step, []).append(situation)

    def _listen(self, step: Step, state: Knowledge) -> None:
        self._note_situation(step, state)
        self.flow.upstream.setdefault(step, {}).update(dict.fromkeys(state.conversation.last))

    def _delegate(self, step: Step, state: Knowledge) -> None:
        """Pass an agent with sub-agents: it answers, or hands over to one, which may hand over to another."""
        answered = state.fork()
        self._answer(step, answered)
        handed = state.fork()
        self._speak_before_transfer(step, handed)
        ways = self.each(step, handed)
        if self.flow.visits[step] == 1:
            ways += self._further_transfers(step, state, ways)
        state.join([answered, *(way.snapshot(state) for way in ways)], "delegate", step)
        state.conversation = state.conversation._replace(last=tuple(dict.fromkeys(state.conversation.last)))

    def _further_transfers(self, step: Step, state: Knowledge, ways: list[Knowledge]) -> list[Knowledge]:
        """The states after a sub-agent with control handed over to another sub-agent, or back."""
        again = state.fork()
        again.join([way.snapshot(state) for way in ways], "delegate", step)
        for key, fact in list(again.facts.items()):
            again.set(key, fact.or_else(self.gather(step, key, fact)))
        more: list[Knowledge] = []
        if any(may_return(child) for child in step.children):
            self._note_situation(step, again)
            for read in self.flow.reads_of(step):
                fact = again.look(read.key)
                failed = read.level == "required" and read.status == "never"  # the run has ended
                if read.via != "ending" and not (failed and fact.mask & UNKNOWN):
                    read.add_fact(fact)
            back = again.fork()
            self._answer(step, back)
            more.append(back)
            self._speak_before_transfer(step, again)
        more += self.each(step, again)
        for way in more:
            for key in way.facts:
                self.gather(step, key, way.get(key))
        return more

    def _speak_before_transfer(self, step: Step, state: Knowledge) -> None:
        """Note that a model may write text beside its transfer; the next agent does not react to that."""
        last = state.conversation.last
        self.speak(step, state, certain=False)
        if isinstance(step.node.output_key, str):  # newer releases of ADK store such text, too
            state.maybe(step.node.output_key, written_fact(step), Why("delegate", step, (step,)))
        state.conversation = state.conversation._replace(last=last)

    def each(self, step: Step, state: Knowledge) -> list[Knowledge]:
        """Visit every child, each in another fork of `state`; give the forks."""
        ways = [state.fork() for _ in step.children]
        for child, way in zip(step.children, ways, strict=True):
            self.visit(child, way)
        return ways

    def _leave_loop(self, step: Step, state: Knowledge) -> bool:
        """Note that the agent may end the nearest loop, with or without an answer; false without a loop."""
        loop = next((outer for outer in step.above() if isinstance(outer.node.runs, Repeated)), None)
        if loop is None or loop not in self.entered:
            return False
        exit_state = state.snapshot(self.entered[loop])
        self._answer_or_leave(step, exit_state)
        self.loop_exits.setdefault(loop, []).append(exit_state)
        return True

    def _answer_or_leave(self, step: Step, state: Knowledge) -> None:
        answered = state.fork()
        self._answer(step, answered)
        state.join([answered], "left", step, or_none=True)

    def remote(self, step: Step, state: Knowledge) -> None:
        """Pass a remote agent, or its fallback, which runs if the remote agent fails."""
        self._listen(step, state)
        self.reads(step, state)
        answered = state.fork()
        runs: OnFailure = step.node.runs
        if runs.output_key:
            answered.set(runs.output_key, written_fact(step, runs.answers, (step,)))
        self.speak(step, answered)
        ways = [answered]
        for child in step.children:
            instead = state.fork()
            self.visit(child, instead)
            ways.append(instead)
        state.join(ways, "fallback", step)

    def native(self, step: Step, state: Knowledge) -> None:
        """Pass a native agent, whose steps are not known."""
        node: NativeNode = step.node
        self._listen(step, state)
        self.reads(step, state)
        if node.undeclared()[1]:
            state.forget(step)
        for key in sorted(node.declared.writes) if node.declared is not None else ():
            state.set(key, written_fact(step, of=(ANYBODY,)))
        skipped = getattr(node.native.value, "before_agent_callback", None)  # it may answer instead
        maybe_write(state, step, node.seen, always=not skipped)
        self.speak(step, state)
