"""Answers that are passed on in pieces reach something that can take pieces."""

from __future__ import annotations

from adk_fluent.analysis.facts import facts_of
from adk_fluent.analysis.plan import Step
from adk_fluent.contracts.issues import StreamingModelConflict, StreamingRouteConflict
from adk_fluent.contracts.report import ContractIssue, Severity
from adk_fluent.ir.nodes import RouteNode


def check_streaming_contracts(root: object) -> list[ContractIssue]:
    """No answer is passed on token by token into a model, and none in pieces into a route."""
    facts = facts_of(root)
    found: list[ContractIssue] = []
    for speaker, taker in facts.flow.edges:
        buffering = _buffering(speaker, taker)
        if isinstance(taker.node, RouteNode):
            found.append(_into_route(speaker, taker, buffering))
        elif taker.is_model and buffering == "token":
            found.append(_into_model(speaker, taker))
    return found


def _buffering(speaker: Step, taker: Step) -> str:
    """How the answer of `speaker` leaves: as it says itself, or an expression around it that ends there."""
    for step in (speaker, *speaker.above()):
        if step.index <= taker.index < step.end:
            break
        if step.node.annotations.edge is not None:
            return step.node.annotations.edge.buffering
    return "token"


def _into_route(speaker: Step, route: Step, buffering: str) -> ContractIssue:
    return StreamingRouteConflict(
        severity=Severity.WARN,
        agent=speaker.name,
        message=f'{speaker.name}.stream_to(buffering="{buffering}") leads into the route {route.name}',
        hint="A route chooses by the whole answer, so it cannot take it in pieces.\n"
        'Use .stream_to(buffering="full").',
    )


def _into_model(speaker: Step, taker: Step) -> ContractIssue:
    return StreamingModelConflict(
        severity=Severity.WARN,
        agent=speaker.name,
        message=f'{speaker.name}.stream_to(buffering="token") leads into the model of {taker.name}',
        hint="A model cannot work on single tokens.\n"
        'Use .stream_to(buffering="chunked", chunk_size=...), or "full".',
    )
