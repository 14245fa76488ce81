"""Check that an agent accepts the kinds of content that the agent before it produces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from adk_fluent.analysis.audience import sees, sight_of
from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import ModalityLoss, ModalityMismatch
from adk_fluent.contracts.registry import check
from adk_fluent.contracts.report import ContractIssue
from adk_fluent.ir.annotations import ContentSpec, Modality

_AS_TEXT: Final = frozenset({Modality.STRUCTURED, Modality.CODE})
"""Kinds of content that are sent as text, so an agent that accepts text accepts them, too."""
_FILES: Final = frozenset({Modality.IMAGE, Modality.AUDIO, Modality.VIDEO, Modality.PDF})


@check(place=110)
def check_modality_contracts(root: object) -> list[ContractIssue]:
    """Check that each declared kind of content reaches the next agent, and that this agent accepts it."""
    facts = analyse(root)
    return [issue for listener in facts.flow.upstream for issue in _between(listener, facts)]


def _between(listener: Step, facts: Facts) -> Iterator[ContractIssue]:
    sight = sight_of(listener.node)
    accepted = _spec(listener)
    for speaker in facts.flow.upstream[listener]:
        produced = _spec(speaker)
        if produced is None or speaker is listener:
            continue
        shown = sees(facts.flow, speaker, listener) != "no"
        files = produced.output_modalities & _FILES
        wanted = files & accepted.input_modalities if accepted else files
        if wanted and not sight.files and (shown or accepted):
            yield _loss(speaker, listener, wanted, sight.shown)
        if shown and accepted and (refused := _refused(produced, accepted)):
            yield _mismatch(speaker, listener, refused, accepted)


def _spec(step: Step) -> ContentSpec | None:
    return step.node.annotations.content


def _refused(produced: ContentSpec, accepted: ContentSpec) -> frozenset[Modality]:
    takes = accepted.input_modalities
    if Modality.TEXT in takes:
        takes |= _AS_TEXT
    return produced.output_modalities - takes


def _names(modalities: frozenset[Modality]) -> str:
    return " and ".join(sorted(modality.value for modality in modalities))


def _mismatch(
    speaker: Step, listener: Step, refused: frozenset[Modality], accepted: ContentSpec
) -> ContractIssue:
    return ModalityMismatch(
        agent=listener.name,
        message=f"{speaker.name} produces {_names(refused)}, which {listener.name} does not accept",
        hint=f"{listener.name} accepts {_names(accepted.input_modalities)}.\n"
        f"Add it to .accepts(...), or put an agent in between that turns it into what {listener.name} takes.",
    )


def _loss(speaker: Step, listener: Step, lost: frozenset[Modality], shown: str) -> ContractIssue:
    return ModalityLoss(
        agent=listener.name,
        message=f"{listener.name} has {shown}, but upstream {speaker.name} produces {_names(lost)} content",
        hint=f"{_names(lost).capitalize()} content reaches an agent only through C.default(), or a context "
        "with .as_contents(); otherwise only its text does.",
    )
