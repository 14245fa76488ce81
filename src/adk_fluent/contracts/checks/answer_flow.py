"""Checks that each answer reaches its readers: the next agents, in a form that they accept, and the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from adk_fluent.analysis import audience
from adk_fluent.analysis.data_flow import Read
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step, at_most_three, branch_names
from adk_fluent.contracts import issues
from adk_fluent.contracts.findings import finding_about
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.ir.annotations import ContentSpec, Modality
from adk_fluent.ir.execution import ONE_COUNTS, PerItem
from adk_fluent.ir.nodes import agent_of


@check(place=90)
def check_channel_coherence(root: object) -> list[ContractIssue]:
    """Check that routes find their key, that no answer is lost, and that no agent gets an answer twice."""
    facts = analyse(root)
    routes = [
        issue
        for read in facts.reads
        if read.via == "route" and (issue := finding_about(read, facts, issues.RouteMissingKey)) is not None
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
                if (
                    speaker is not read.step
                    and audience.message_reaches(facts.flow, speaker, read.step) != "no"
                ):
                    found.setdefault(read.step, {}).setdefault((read.key, speaker), read)
    for listener, reads in found.items():
        yield _duplicate(listener, [(read, speaker) for (_, speaker), read in reads.items()])


def _duplicate(listener: Step, reads: list[tuple[Read, Step]]) -> ContractIssue:
    rows = [
        (
            f'{speaker.name}.outputs("{speaker.node.output_key}")',
            speaker.name,
            speaker.origin,
            read.key,
            _channel(read),
        )
        for read, speaker in reads
    ]
    outputs, speakers, origins, keys, channels = map(_distinct, zip(*rows, strict=True))
    name, many = listener.name, len(speakers) > 1
    return issues.ChannelDuplication(
        severity=Severity.INFO,
        agent=name,
        key=keys[0],
        message=f"{name} has {audience.visible_history(listener.node).context_name} with "
        f"predecessor{'s' * many} {at_most_three(outputs)}",
        hint=f"{name} will see what {at_most_three(speakers)} {'say' if many else 'says'} in the "
        f"conversation AND via {at_most_three(channels)}.\n"
        f"This is duplication. Consider .context(C.user_only()), .context(C.exclude_agents("
        f"{_arguments(origins)})) or .reads({_arguments(keys)}).",
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """The names without repetitions, in order."""
    return [*names] if len(names) == 1 else list(dict.fromkeys(names))


def _channel(read: Read) -> str:
    return f"{{{read.key}}}" if read.via == "template" else f'"{read.key}" in its {read.via}'


def _arguments(names: list[str]) -> str:
    shown = ", ".join([f'"{name}"' for name in names[:6]])
    return f"{shown}, ..." if len(names) > 6 else shown


# --- answers that are lost ------------------------------------------------------------------------


def _lost_answers(facts: Facts) -> Iterator[ContractIssue]:
    by_choice: dict[Step, Step] = {}
    concurrent: dict[Step, list[Step]] = {}
    for listener, speakers in facts.flow.upstream.items():
        visible = audience.visible_history(listener.node)
        for speaker in speakers:
            if not _only_speaks(speaker) or speaker is listener or _gathered(speaker, listener):
                continue
            if audience.message_reaches(facts.flow, speaker, listener) != "no":
                continue
            if visible.wholesale:
                yield _lost_answer(speaker, listener, visible)
            else:
                by_choice.setdefault(speaker, listener)
        if visible.history == "last":
            concurrent[listener] = audience.concurrent_speakers(facts.flow.turn_speakers(listener))
    if not (by_choice or any(concurrent.values())):
        return
    listeners = audience.Audience(facts.flow.upstream, facts.flow.turn_speakers)
    for listener, speakers in concurrent.items():
        lost = [one for one in speakers if _only_speaks(one) and not _gathered(one, listener)]
        if lost := [one for one in lost if _is_unheard(one, listeners, facts)]:
            yield _one_of_parallel(speakers, lost, listener)
    for speaker, listener in by_choice.items():
        if _is_unheard(speaker, listeners, facts):
            yield _lost_answer(speaker, listener, audience.visible_history(listener.node))


def _is_unheard(speaker: Step, listeners: audience.Audience, facts: Facts) -> bool:
    """True if neither the user nor a model receives the speaker's answer."""
    return facts.visibility[speaker.name] != "user" and not listeners.has_listener(speaker)


def _only_speaks(speaker: Step) -> bool:
    """True if an agent's answer is in the conversation only, and not in state."""
    node = speaker.node
    if node.opaque:
        return False  # it may store the answer in state: its code does not show that
    if not (agent := agent_of(node)):
        return not node.key_writes
    return not (isinstance(agent.output_key, str) or agent.declared_writes or agent.written_fields)


def _gathered(speaker: Step, listener: Step) -> bool:
    """True if a map puts the speaker's answer into its list of answers before the listener runs."""
    return any(
        isinstance(outer.node.runs, PerItem) and not outer.index <= listener.index < outer.end
        for outer in speaker.above()
    )


def _one_of_parallel(speakers: list[Step], lost: list[Step], listener: Step) -> ContractIssue:
    """The warning that a listener, which gets only the last message, misses the other parallel answers."""
    name, names = listener.name, at_most_three([speaker.name for speaker in lost])
    return issues.DataLoss(
        agent=name,
        message=f"{name} has {audience.visible_history(listener.node).context_name} and hears only one of "
        f"{at_most_three([speaker.name for speaker in speakers])}",
        hint=f"They run at the same time. {name} hears the one that ends last, and the others are lost.\n"
        f"Add .writes(...) to {names} and read that, or show {name} the conversation.",
    )


def _lost_answer(speaker: Step, listener: Step, visible: audience.VisibleHistory) -> ContractIssue:
    same = speaker.branch == listener.branch[: len(speaker.branch)]
    why = (
        f"{listener.name} has {visible.context_name}"
        if same
        else f"{listener.name} runs on another branch of the conversation"
    )
    return issues.DataLoss(
        agent=listener.name,
        message=f"{speaker.name} has no .writes() and {why}",
        hint=f"What {speaker.name} says reaches {listener.name} through neither state nor conversation: "
        "it is lost.\n"
        f'Add .writes("{speaker.origin}_text") to {speaker.name} and read that key, or show {listener.name} '
        "the conversation.",
    )


# --- kinds of content -----------------------------------------------------------------------------


_AS_TEXT: Final = frozenset({Modality.STRUCTURED, Modality.CODE})
"""Kinds of content that are sent as text, so an agent that accepts text accepts them, too."""
_FILES: Final = frozenset({Modality.IMAGE, Modality.AUDIO, Modality.VIDEO, Modality.PDF})


@check(place=110)
def check_modality_contracts(root: object) -> list[ContractIssue]:
    """Check that each declared kind of content reaches the next agent, and that this agent accepts it."""
    facts = analyse(root)
    return [issue for listener in facts.flow.upstream for issue in _modality_issues(listener, facts)]


def _modality_issues(listener: Step, facts: Facts) -> Iterator[ContractIssue]:
    visible = audience.visible_history(listener.node)
    accepted = _content_spec(listener)
    for speaker in facts.flow.upstream[listener]:
        produced = _content_spec(speaker)
        if produced is None or speaker is listener:
            continue
        reached = audience.message_reaches(facts.flow, speaker, listener) != "no"
        files = produced.output_modalities & _FILES
        wanted = files & accepted.input_modalities if accepted else files
        if wanted and not visible.files and (reached or accepted):
            yield _modality_loss(speaker, listener, wanted, visible.context_name)
        if reached and accepted and (refused := _refused_kinds(produced, accepted)):
            yield _modality_mismatch(speaker, listener, refused, accepted)


def _content_spec(step: Step) -> ContentSpec | None:
    return step.node.annotations.content


def _refused_kinds(produced: ContentSpec, accepted: ContentSpec) -> frozenset[Modality]:
    takes = accepted.input_modalities
    if Modality.TEXT in takes:
        takes |= _AS_TEXT
    return produced.output_modalities - takes


def _kinds_text(modalities: frozenset[Modality]) -> str:
    return " and ".join(sorted(modality.value for modality in modalities))


def _modality_mismatch(
    speaker: Step, listener: Step, refused: frozenset[Modality], accepted: ContentSpec
) -> ContractIssue:
    return issues.ModalityMismatch(
        agent=listener.name,
        message=f"{speaker.name} produces {_kinds_text(refused)}, which {listener.name} does not accept",
        hint=f"{listener.name} accepts {_kinds_text(accepted.input_modalities)}.\n"
        f"Add it to .accepts(...), or put an agent in between that turns it into what {listener.name} takes.",
    )


def _modality_loss(speaker: Step, listener: Step, lost: frozenset[Modality], shown: str) -> ContractIssue:
    kinds = _kinds_text(lost)
    return issues.ModalityLoss(
        agent=listener.name,
        message=f"{listener.name} has {shown}, but upstream {speaker.name} produces {kinds} content",
        hint=f"{kinds.capitalize()} content reaches an agent only through C.default(), or a context "
        "with .as_contents(); otherwise only its text does.",
    )


# --- answers for the user -------------------------------------------------------------------------


@check(place=150)
def check_visibility_contracts(root: object) -> list[ContractIssue]:
    """Check that the user sees an answer, for every branch of a route."""
    facts = analyse(root)
    speaking = (step for step in facts.steps if step.is_model or step.node.says is not None)
    speakers = [step for step in speaking if facts.reaches(step)]
    if not speakers:
        return []
    if not any(facts.visibility[step.name] == "user" for step in speakers):
        last = speakers[-1]
        return [
            issues.NobodyVisible(
                agent=last.name,
                message="No agent is visible to the user",
                hint=f"All answers are internal. Remove a .hide(), or add .show() to {last.name}.",
            )
        ]
    return list(_silent_branches(facts, {step.index for step in speakers}))


def _silent_branches(facts: Facts, speakers: set[int]) -> Iterator[ContractIssue]:
    """Report branches whose agents all stay internal, if the user sees an agent of another branch."""
    visible, speaking = _counts_before(facts, speakers)
    for step in facts.steps:
        if step.node.runs.separate_branches or not isinstance(step.node.runs, ONE_COUNTS):
            continue
        seen = {child: visible[child.end] - visible[child.index] for child in step.children}
        for child in step.children if any(seen.values()) else ():
            if not seen[child] and speaking[child.end] - speaking[child.index]:
                yield _silent_branch(step, child)


def _counts_before(facts: Facts, speakers: set[int]) -> tuple[list[int], list[int]]:
    """The number of visible steps before each index, and the number of speaking ones."""
    visible, speaking = [0], [0]
    for step in facts.steps:
        speaks = step.index in speakers
        visible.append(visible[-1] + (speaks and facts.visibility[step.name] == "user"))
        speaking.append(speaking[-1] + speaks)
    return visible, speaking


def _silent_branch(step: Step, child: Step) -> ContractIssue:
    return issues.BranchNotVisible(
        severity=Severity.INFO,
        agent=child.name,
        message=f"No agent is visible to the user when {branch_names(step, [child])} runs",
        hint=f"All answers in this branch of {step.name} are internal. Remove a .hide(), or add .show().",
    )
