"""State and conversation fit together: nothing is lost between them, and nothing is sent twice."""

from __future__ import annotations

from collections.abc import Iterator

from adk_fluent.contracts.audience import Audience
from adk_fluent.contracts.facts import Facts, facts_of
from adk_fluent.contracts.issues import ChannelDuplication, DataLoss, RouteMissingKey
from adk_fluent.contracts.missing import about
from adk_fluent.contracts.plan import Step
from adk_fluent.contracts.reads import Read
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.contracts.sight import Sight, sight_of
from adk_fluent.ir.nodes import AgentNode


def check_channel_coherence(root: object) -> list[ContractIssue]:
    """Routes find their key, no text is lost on its way, and none reaches an agent twice."""
    facts = facts_of(root)
    routes = [
        issue
        for read in facts.reads
        if read.via == "route" and (issue := about(read, facts, RouteMissingKey)) is not None
    ]
    return [*routes, *_doubled(facts), *_lost(facts)]


# --- twice ----------------------------------------------------------------------------------------


_SHOWN = ("template", "prompt", "context")


def _doubled(facts: Facts) -> Iterator[ContractIssue]:
    told: set[tuple[Step, str, Step]] = set()
    for read in facts.reads:
        if read.via not in _SHOWN or not read.texts:
            continue
        sight = sight_of(read.step.node)
        for speaker in read.texts:
            where = (read.step, read.key, speaker)
            if speaker is not read.step and where not in told:
                told.add(where)
                if sight.sees(speaker, read.step) != "no":
                    yield _twice(read, speaker, sight)


def _twice(read: Read, speaker: Step, sight: Sight) -> ContractIssue:
    listener, key = read.step.name, read.key
    through = f"{{{key}}}" if read.via == "template" else f'"{key}" in its {read.via}'
    return ChannelDuplication(
        severity=Severity.INFO,
        agent=listener,
        key=key,
        message=f"{listener} has {sight.shown} with predecessor "
        f'{speaker.name}.outputs("{speaker.node.output_key}")',
        hint=f"{listener} will see what {speaker.name} says in the conversation AND via {through}.\n"
        f"This is duplication. Consider .context(C.user_only()), "
        f'.context(C.exclude_agents("{speaker.origin}")) or .reads("{key}").',
    )


# --- lost -----------------------------------------------------------------------------------------


def _lost(facts: Facts) -> Iterator[ContractIssue]:
    deliberate: dict[Step, Step] = {}
    for listener, speakers in facts.flow.upstream.items():
        sight = sight_of(listener.node)
        for speaker in speakers:
            if not _only_speaks(speaker) or speaker is listener or sight.sees(speaker, listener) != "no":
                continue
            if sight.blunt:
                yield _loss(speaker, listener, sight)
            else:
                deliberate.setdefault(speaker, listener)
    audience = Audience(facts.flow.upstream) if deliberate else None
    for speaker, listener in deliberate.items():
        if audience and facts.visibility[speaker.name] != "user" and not audience.hears(speaker):
            yield _loss(speaker, listener, sight_of(listener.node))


def _only_speaks(speaker: Step) -> bool:
    """Whether what an agent says goes to the conversation alone."""
    node = speaker.node
    if not isinstance(node, AgentNode):
        return not node.output_key
    return not (isinstance(node.output_key, str) or node.declared_writes or node.written_fields)


def _loss(speaker: Step, listener: Step, sight: Sight) -> ContractIssue:
    same = speaker.branch == listener.branch[: len(speaker.branch)]
    why = (
        f"{listener.name} has {sight.shown}"
        if same
        else f"{listener.name} runs on another branch of the conversation"
    )
    return DataLoss(
        severity=Severity.WARN,
        agent=listener.name,
        message=f"{speaker.name} has no .writes() and {why}",
        hint=f"What {speaker.name} says reaches {listener.name} through neither state nor conversation: "
        "it is lost.\n"
        f'Add .writes("{speaker.origin}_text") to {speaker.name} and read that key, or show {listener.name} '
        "the conversation.",
    )
