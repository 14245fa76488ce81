"""The speakers whose messages are in a model's request: those that its context lets through."""

from __future__ import annotations

from collections.abc import Mapping, Set

from adk_fluent.analysis.flow import Flow
from adk_fluent.analysis.plan import Step
from adk_fluent.analysis.talk.sight import Answer, sight_of


def shown(flow: Flow, listener: Step) -> Mapping[Step, bool]:
    """The speakers whose messages may be in the request of a model; true if certain.

    Values from state, in a placeholder or through a key of the context, do not count.
    """
    sight = sight_of(listener.node)
    if sight.is_whole:
        return flow.speakers(listener)
    if sight.history == "none":
        return {}
    if sight.history == "last":
        return {speaker: certain for speaker, certain in flow.turn(listener).items() if speaker}
    found: dict[Step, bool] = {}
    for speaker, certain in flow.speakers(listener).items():
        answer = sight.admits(speaker)
        if answer != "no":
            found[speaker] = certain and answer == "yes"
    return found


def sees(flow: Flow, speaker: Step, listener: Step) -> Answer:
    """The answer whether the listener receives the message of a speaker that ran before it."""
    sight = sight_of(listener.node)
    if sight.history != "last":
        return sight.sees(speaker, listener)
    certain = flow.turn(listener).get(speaker)
    return "no" if certain is None else "yes" if certain else "maybe"


def shown_user(flow: Flow, listener: Step) -> Answer:
    """The answer whether the current user message is in the request of a model, as the user wrote it."""
    sight = sight_of(listener.node)
    if sight.history != "last":
        return "yes" if sight.message else "maybe"
    certain = flow.turn(listener).get(None)
    return "no" if certain is None else "yes" if certain else "maybe"


def shown_of_earlier(flow: Flow, listener: Step) -> Set[Step]:
    """The speakers whose messages of earlier runs of the session may be in the request of a model."""
    sight = sight_of(listener.node)
    if not sight.earlier:
        return frozenset()
    speakers = flow.earlier_speakers(listener)
    return speakers if sight.is_whole else {s for s in speakers if sight.admits(s) != "no"}
