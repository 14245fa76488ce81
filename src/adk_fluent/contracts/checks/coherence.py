"""Check that each answer reaches its reader once: through the state or through the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adk_fluent.analysis.audience import Audience, Sight, sees, sight_of, talked_over
from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three
from adk_fluent.contracts.findings.missing import about
from adk_fluent.contracts.issues import ChannelDuplication, DataLoss, RouteMissingKey
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.execution import PerItem


@check(place=90)
def check_channel_coherence(root: object) -> list[ContractIssue]:
    """Check that routes find their key, that no answer is lost, and that no agent gets an answer twice."""
    facts = analyse(root)
    routes = [
        issue
        for read in facts.reads
        if read.via == "route" and (issue := about(read, facts, RouteMissingKey)) is not None
    ]
    return [*routes, *_answers_twice(facts), *_lost_answers(facts)]


# --- answers that an agent gets twice -------------------------------------------------------------


_CHANNELS = ("template", "prompt", "context")


def _answers_twice(facts: Facts) -> Iterator[ContractIssue]:
    """Report each agent that gets an answer from the conversation and from the state, once per agent."""
    found: dict[Step, dict[tuple[str, Step], Read]] = {}
    for read in facts.reads:
        if read.via in _CHANNELS and read.texts:
            for speaker in read.texts:
                if speaker is not read.step and sees(facts.flow, speaker, read.step) != "no":
                    found.setdefault(read.step, {}).setdefault((read.key, speaker), read)
    for listener, told in found.items():
        yield _twice(listener, [(read, speaker) for (_, speaker), read in told.items()])


def _twice(listener: Step, told: list[tuple[Read, Step]]) -> ContractIssue:
    rows = [
        (
            f'{speaker.name}.outputs("{speaker.node.output_key}")',
            speaker.name,
            speaker.origin,
            read.key,
            _channel(read),
        )
        for read, speaker in told
    ]
    outputs, speakers, origins, keys, channels = map(_each, zip(*rows, strict=True))
    name, many = listener.name, len(speakers) > 1
    return ChannelDuplication(
        severity=Severity.INFO,
        agent=name,
        key=keys[0],
        message=f"{name} has {sight_of(listener.node).shown} with predecessor{'s' * many} "
        f"{at_most_three(outputs)}",
        hint=f"{name} will see what {at_most_three(speakers)} {'say' if many else 'says'} in the "
        f"conversation AND via {at_most_three(channels)}.\n"
        f"This is duplication. Consider .context(C.user_only()), .context(C.exclude_agents("
        f"{_arguments(origins)})) or .reads({_arguments(keys)}).",
    )


def _each(names: Sequence[str]) -> list[str]:
    """The names without repetitions, in order."""
    return [*names] if len(names) == 1 else list(dict.fromkeys(names))


def _channel(read: Read) -> str:
    return f"{{{read.key}}}" if read.via == "template" else f'"{read.key}" in its {read.via}'


def _arguments(names: list[str]) -> str:
    shown = ", ".join([f'"{name}"' for name in names[:6]])
    return f"{shown}, ..." if len(names) > 6 else shown


# --- answers that are lost ------------------------------------------------------------------------


def _lost_answers(facts: Facts) -> Iterator[ContractIssue]:
    deliberate: dict[Step, Step] = {}
    talking_over: dict[Step, list[Step]] = {}
    for listener, speakers in facts.flow.upstream.items():
        sight = sight_of(listener.node)
        for speaker in speakers:
            if not _only_speaks(speaker) or speaker is listener or _gathered(speaker, listener):
                continue
            if sees(facts.flow, speaker, listener) != "no":
                continue
            if sight.wholesale:
                yield _loss(speaker, listener, sight)
            else:
                deliberate.setdefault(speaker, listener)
        if sight.history == "last":
            talking_over[listener] = talked_over(facts.flow.turn(listener))
    if not (deliberate or any(talking_over.values())):
        return
    audience = Audience(facts.flow.upstream, facts.flow.turn)
    for listener, speakers in talking_over.items():
        lost = [one for one in speakers if _only_speaks(one) and not _gathered(one, listener)]
        if lost := [one for one in lost if _is_unheard(one, audience, facts)]:
            yield _one_of(speakers, lost, listener)
    for speaker, listener in deliberate.items():
        if _is_unheard(speaker, audience, facts):
            yield _loss(speaker, listener, sight_of(listener.node))


def _is_unheard(speaker: Step, audience: Audience, facts: Facts) -> bool:
    """True if neither the user nor a model receives the speaker's answer."""
    return facts.visibility[speaker.name] != "user" and not audience.hears(speaker)


def _only_speaks(speaker: Step) -> bool:
    """True if an agent's answer is in the conversation only, and not in state."""
    node = speaker.node
    if node.opaque:
        return False  # it may store the answer in state: its code does not show that
    if not (agent := node.agent):
        return not node.key_writes
    return not (isinstance(agent.output_key, str) or agent.declared_writes or agent.written_fields)


def _gathered(speaker: Step, listener: Step) -> bool:
    """True if a map puts the speaker's answer into its list of answers before the listener runs."""
    return any(
        isinstance(outer.node.runs, PerItem) and not outer.index <= listener.index < outer.end
        for outer in speaker.above()
    )


def _one_of(speakers: list[Step], lost: list[Step], listener: Step) -> ContractIssue:
    """The warning that a listener, which gets only the last message, misses the other parallel answers."""
    name, names = listener.name, at_most_three([speaker.name for speaker in lost])
    return DataLoss(
        agent=name,
        message=f"{name} has {sight_of(listener.node).shown} and hears only one of "
        f"{at_most_three([speaker.name for speaker in speakers])}",
        hint=f"They run at the same time. {name} hears the one that ends last, and the others are lost.\n"
        f"Add .writes(...) to {names} and read that, or show {name} the conversation.",
    )


def _loss(speaker: Step, listener: Step, sight: Sight) -> ContractIssue:
    same = speaker.branch == listener.branch[: len(speaker.branch)]
    why = (
        f"{listener.name} has {sight.shown}"
        if same
        else f"{listener.name} runs on another branch of the conversation"
    )
    return DataLoss(
        agent=listener.name,
        message=f"{speaker.name} has no .writes() and {why}",
        hint=f"What {speaker.name} says reaches {listener.name} through neither state nor conversation: "
        "it is lost.\n"
        f'Add .writes("{speaker.origin}_text") to {speaker.name} and read that key, or show {listener.name} '
        "the conversation.",
    )
