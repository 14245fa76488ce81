"""Check that the next step of a streamed answer can take it in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from adk_fluent.analysis.facts import Facts, analyse
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import StreamingEdgeWaits, StreamingModelConflict, StreamingRouteConflict
from adk_fluent.contracts.report import ContractIssue, Severity, check
from adk_fluent.ir import execution
from adk_fluent.ir.passage import answer_together

_FULL: Final = 'Use .stream_to(buffering="full"), or leave it out, where that is what you want.'


@check(place=100)
def check_streaming_contracts(root: object) -> list[ContractIssue]:
    """Report answers that are streamed into a model token by token, into a route, or without any effect."""
    facts = analyse(root)
    found: list[ContractIssue] = []
    for speaker, taker in facts.flow.edges:
        buffering = _buffering(speaker, taker)
        if isinstance(taker.node.runs, execution.FirstMatch):
            found.append(_into_route(speaker, taker, buffering))
        elif taker.is_model and buffering == "token":
            found.append(_into_model(speaker, taker))
    reported = {issue.agent for issue in found}
    notes = (*_ineffective_edges(facts), *_inner_edges(facts))
    return [*found, *(issue for issue in notes if issue.agent not in reported)]


def _ineffective_edges(facts: Facts) -> Iterator[ContractIssue]:
    """Report answers with a streaming edge that the next step still gets only when they are complete."""
    for step, passages in facts.flow.passages.items():
        for place, passage in passages.items():
            if not passage.why or not facts.reaches(step):
                continue
            giver, taker = step.children[place], step.children[place + 1]
            come = "whole" if passage.taking is None else "in chunks only when it has ended"
            while giver.node.annotations.edge is None:
                giver = giver.children[-1]
            yield _ineffective_edge(giver, f"{taker.name} {come}", passage.why, _FULL)


def _inner_edges(facts: Facts) -> Iterator[ContractIssue]:
    """Report streaming edges inside a step of several answers: its follower gets the answer whole."""
    for step in facts.steps:
        edge = step.node.annotations.edge
        if edge is None or edge.buffering == "full" or not facts.reaches(step):
            continue
        around = _outlet(step)
        taker = None if around is None else _follower(around) or _next_round(around, step)
        if around is not None and taker is not None:
            why = f"{taker.name} follows {around.name}, of which {step.name} is a part"
            is_whole = answer_together(around.node) and not taker.node.takes_pieces
            instead = _FULL if is_whole else f"Say .stream_to(...) of {around.name} instead."
            yield _ineffective_edge(step, f"{taker.name} whole", why, instead)


def _outlet(step: Step) -> Step | None:
    """The nearest step around in which this answer is one of several, or is that of the last round.

    Otherwise `None`: the last step of a sequence gives the answer of the whole, so its own edge counts.
    """
    inner, around = step, step.parent
    while around is not None and isinstance(around.node.runs, (execution.InOrder, execution.Wrapped)):
        if inner is not around.children[-1]:
            return None
        inner, around = around, around.parent
    if around is None or (
        isinstance(around.node.runs, execution.Repeated) and inner is not around.children[-1]
    ):
        return None
    return around


def _follower(step: Step) -> Step | None:
    """The next step in the sequences around a step; `None` if a step between has its own edge."""
    inner, around = step, step.parent
    while around is not None and inner.node.annotations.edge is None:
        if isinstance(around.node.runs, execution.STEP_BY_STEP) and inner is not around.children[-1]:
            return around.children[around.children.index(inner) + 1]
        inner, around = around, around.parent
    return None


def _next_round(loop: Step, step: Step) -> Step | None:
    """The first step of a loop's next round, if that is another step."""
    again = (
        isinstance(loop.node.runs, execution.Repeated)
        and loop.node.annotations.edge is None
        and loop.node.max_iterations > 1
    )
    return loop.children[0] if again and loop.children[0] is not step else None


def _ineffective_edge(giver: Step, taker: str, why: str, instead: str) -> ContractIssue:
    edge = giver.node.annotations.edge
    return StreamingEdgeWaits(
        severity=Severity.INFO,
        agent=giver.name,
        message=f'{giver.name}.stream_to(buffering="{edge.buffering}"): the answer reaches {taker}',
        hint=f"That is so because {why}.\n{instead}",
    )


def _buffering(speaker: Step, taker: Step) -> str:
    """The buffering of a speaker's edge, or of the edge of an expression around it that ends there."""
    for step in (speaker, *speaker.above()):
        if step.index <= taker.index < step.end:
            break
        if step.node.annotations.edge is not None:
            return step.node.annotations.edge.buffering
    return "token"


def _into_route(speaker: Step, route: Step, buffering: str) -> ContractIssue:
    return StreamingRouteConflict(
        agent=speaker.name,
        message=f'{speaker.name}.stream_to(buffering="{buffering}") leads into the route {route.name}',
        hint="A route chooses by the whole answer, so it cannot take it in chunks.\n"
        'Use .stream_to(buffering="full").',
    )


def _into_model(speaker: Step, taker: Step) -> ContractIssue:
    return StreamingModelConflict(
        agent=speaker.name,
        message=f'{speaker.name}.stream_to(buffering="token") leads into the model of {taker.name}',
        hint="A model cannot work on single tokens.\n"
        'Use .stream_to(buffering="chunked", chunk_size=...), or "full".',
    )
