"""The parts of the walk that pass agents and transfers.

`ModelWalk` passes an agent: its history, reads, writes and the agents to which it may hand over.
`TransferWalk` follows transfers: to an agent elsewhere, or back to the start of a composite. A transfer
leaves its sequence or starts a composite again. The walk notes the state there, in `skipped` or `restarts`;
the composite joins it at its end or start. So each transfer adds ways to a composite, and the walk itself
still follows the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adk_fluent.analysis.data_flow import Flow, Read
from adk_fluent.analysis.history import possible_speakers
from adk_fluent.analysis.plan import (
    Branch,
    Step,
    coordinator_of,
    left_early,
    may_hand_over,
    may_return,
    owner_of,
)
from adk_fluent.analysis.values import updates
from adk_fluent.analysis.values.fact import (
    ABSENT,
    ANYBODY,
    PRESENT,
    REMOVED,
    UNKNOWN,
    Fact,
    Gathered,
    Why,
    one_of,
    written_fact,
)
from adk_fluent.analysis.values.key_effects import nullable
from adk_fluent.analysis.values.knowledge import Knowledge
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
            updates.apply_callbacks(state, step, given["before_agent_callback"])
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
                updates.apply_callbacks(state, step, given[name])
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
            updates.apply_callbacks(state, step, given["after_agent_callback"])

    def _read_for_request(self, step: Step, state: Knowledge, reads: list[Read]) -> None:
        """Add to each read of an agent's request the fact about its key."""
        for read in reads:
            read.add_fact(self._before_asking(step, read.key, state))

    def _use_tools(self, step: Step, state: Knowledge, reads: list[Read]) -> None:
        """Apply the writes of tools. A tool may stop the run for a person; then the agent starts again."""
        stops = step.node.may_pause
        if stops:
            updates.record_pause(step, state)
            updates.apply_callbacks(state, step, step.node.given.get("before_agent_callback", ()))
        updates.apply_tools(state, step, step.node)
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
        updates.apply_sightings(state, step, node.seen, always=not skipped)
        self.speak(step, state)


ROUNDS: Final = 8
"""The most walks over a body that runs again; the next one needs something new in the last one."""


class TransferWalk(ModelWalk):
    """The part of the walk that passes transfers, and composites that a transfer may start again.

    Attributes:
        skipped: sequence or loop → states in which a transfer skipped its remaining steps.
        restarts: composite → states in which a transfer inside started it again.
        skipping: composites that a transfer may leave.
        restarting: composites that a transfer may start again.
        transferring: the targets of the transfers that the walk follows now; each at most twice.
    """

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.skipped: dict[Step, list[Knowledge]] = {}
        self.restarts: dict[Step, list[Knowledge]] = {}
        skipping, restarting = left_early(flow.plan)
        self.skipping: set[Step] = skipping
        self.restarting: set[Step] = restarting
        self.transferring: list[Step] = []
        self.shift: tuple[int, Branch] = (0, ())

    def _pass(self, step: Step, state: Knowledge) -> None:
        """Pass a step by its kind; `state_walk._Walk` knows them all."""

    def transfer(self, step: Step, state: Knowledge) -> None:
        """Pass a transfer: the target runs instead of the remaining steps around the transfer."""
        self.reads(step, state)
        target = step.target
        if target is not None:
            if target.index <= step.index < target.end:
                self.restarts.setdefault(target, []).append(state.snapshot(self.entered[target]))
            else:
                self._hand_over(step, target, state)
        if step.node.runs.condition is None:
            state.dead = True

    def _hand_over(self, step: Step, target: Step, state: Knowledge) -> None:
        owner = owner_of(step)
        moved = state.snapshot(self.entered[owner]) if owner else state.fork()
        if self.transferring.count(target) < 2:
            self.transferring.append(target)
            entered, shift = dict(self.entered), self.shift
            self.shift = (len(target.branch), self.branch(step))
            self.visit(target, moved)
            if (coordinator := coordinator_of(target)) is not None:
                self._hand_on_to_peers(coordinator, step, moved)
            self.entered = entered
            self.shift = shift
            self.transferring.pop()
        if owner is not None:
            updates.add_parallel_messages(step, owner, moved, self.flow.plan)
            self.skipped.setdefault(owner, []).append(moved)

    def _hand_on_to_peers(self, coordinator: Step, step: Step, state: Knowledge) -> None:
        """Record that the target, a sub-agent, may hand over to the other agents of its coordinator."""
        among = state.fork()
        self.visit(coordinator, among)
        state.join([state.fork(), among], "delegate", step)

    def _run_again(self, step: Step, state: Knowledge) -> None:
        """Pass a composite that a transfer inside may start again."""
        self.entered[step] = state
        ends: list[Knowledge] = []
        scope, known = state.fork(), dict[str, Fact]()
        for _ in range(ROUNDS):
            self._pass(step, scope)
            ends.append(scope)
            self.entered[step] = state
            came = self.restarts.pop(step, None)
            if came is None:
                break
            scope = state.fork()
            scope.join(came, "loop", step)
            more = self._merged(step, known, scope)
            if more is None:
                break
            known = more
            for key, fact in list(scope.facts.items()):
                scope.set(key, fact.or_else(self.gathered[step, key]))
        state.join(ends, "loop", step)

    def _merged(self, step: Step, known: Mapping[str, Fact], scope: Knowledge) -> dict[str, Fact] | None:
        """The facts that the earlier rounds and this one leave; `None` if this one adds no possibility."""
        merged = dict(known)
        new = False
        for key in scope.facts:
            fact, before = scope.get(key), known.get(key)
            gathered = self.gather(step, key, fact)
            if before is None:
                merged[key], new = fact.or_else(gathered), True
            elif fact.mask | before.mask != before.mask:
                merged[key] = one_of([before, fact], lambda writers: Why("loop", step, writers))
                new = True
        return merged if new else None
