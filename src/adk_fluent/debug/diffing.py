"""What differs between two runs: by structure, not by lines of text."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from adk_fluent._redaction import Redactor
from adk_fluent.backends.events import AgentEvent, events_in
from adk_fluent.debug.events import IdNames, facts_of
from adk_fluent.debug.lanes import has_lost
from adk_fluent.debug.requests import Asked, changed_channels, lines_between, same_request, similarity
from adk_fluent.debug.values import Failure, LLMInteraction, ToolInteraction
from adk_fluent.errors import ArgumentError

if TYPE_CHECKING:
    from adk_fluent.debug.recording import Recording

Kind: TypeAlias = Literal["changed", "moved", "missing", "added"]

Facts = Mapping[str, Any]
V = TypeVar("V", LLMInteraction, ToolInteraction)
T = TypeVar("T")
_Lost = Sequence[Callable[["LLMInteraction | ToolInteraction"], bool]]


@dataclass(frozen=True, slots=True)
class EventChange:
    """One event that is not the same in two runs.

    Attributes:
        kind: `changed`, `moved` to another place, `missing` in the second run, or `added` in it.
        agent: who it is from.
        before: the event of the first run; `None` for an added one.
        after: the event of the second run; `None` for a missing one.
        fields: what changed → what it was and what it is: `content parts state_delta artifact_delta
            transfer_to escalate error tool_calls tool_responses pending`.
        similarity: how much of the text is alike, from 0 to 1; `None` where no text changed.
    """

    kind: Kind
    agent: str
    before: AgentEvent | None = None
    after: AgentEvent | None = None
    fields: Mapping[str, tuple[Any, Any]] = field(default_factory=dict[str, "tuple[Any, Any]"])
    similarity: float | None = None

    def __str__(self) -> str:
        if self.kind == "moved":
            return f"{self.agent}: moved"
        if self.kind != "changed":
            event = self.before or self.after
            said = f": {event.content[:60]!r}" if event is not None and event.content else ""
            return f"{self.agent}: {self.kind}{said}"
        alike = "" if self.similarity is None else f" ({self.similarity:.0%} alike)"
        return f"{self.agent}: {', '.join(self.fields)} changed{alike}"


@dataclass(frozen=True, slots=True)
class EventDiff:
    """What differs between the events of two runs; false where nothing does.

    Attributes:
        changes: the events that are not the same, in the order of the second run, missing ones where they
            were.
        count: how many events the first run has.
    """

    changes: tuple[EventChange, ...] = ()
    count: int = 0

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def summary(self) -> str:
        """What differs, in one line."""
        if not self.changes:
            return f"The same {self.count} event{'s' * (self.count != 1)}."
        return f"{_counted(len(self.changes), 'event')}: {'; '.join(map(str, self.changes))}."

    def __str__(self) -> str:
        from adk_fluent.debug.rendering import events_text

        return events_text(self)

    def to_html(self) -> str:
        """The same as a piece of HTML; `_repr_html_` for notebooks."""
        from adk_fluent.debug.rendering import events_html

        return events_html(self)

    def _repr_html_(self) -> str:
        return self.to_html()


@dataclass(frozen=True, slots=True)
class CallChange:
    """One call of a model, or of a tool, that is not the same in two recordings.

    Attributes:
        kind: `changed`, `missing` in the second recording, or `added` in it.
        key: the agent, `agent:operation` for a question of its context, or `agent/tool`.
        call: which of its calls, from 1.
        channels: what changed → its lines: `prompt state history tools answer model options` of a request,
            `args` of a tool, and `response` or `result` for what came back.
    """

    kind: Kind
    key: str
    call: int
    channels: Mapping[str, list[str]] = field(default_factory=dict[str, "list[str]"])

    def __str__(self) -> str:
        what = f"{', '.join(self.channels)} changed" if self.kind == "changed" else self.kind
        return f"{self.key}, call {self.call}: {what}"


@dataclass(frozen=True, slots=True)
class RecordingDiff:
    """What differs between two recordings; false where nothing does.

    Attributes:
        events: what differs between their events.
        requests: the calls of models that are not the same.
        tools: the calls of tools that are not the same.
        same_pipeline: whether the same expression ran; if not, that alone is no difference.
        errors: run, from 1 → the error that it ended with in each, empty for none; only where these differ.
    """

    events: EventDiff
    requests: tuple[CallChange, ...] = ()
    tools: tuple[CallChange, ...] = ()
    same_pipeline: bool = True
    errors: Mapping[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])

    def __bool__(self) -> bool:
        return bool(self.events or self.requests or self.tools or self.errors)

    @property
    def summary(self) -> str:
        """What differs, in one line."""
        other = "" if self.same_pipeline else " The pipelines differ."
        if not self:
            return f"No difference: {self.events.summary[0].lower()}{self.events.summary[1:]}{other}"
        said = [self.events.summary.rstrip(".")] if self.events else []
        for changes, word in ((self.requests, "model call"), (self.tools, "tool call")):
            if changes:
                said.append(f"{_counted(len(changes), word)}: {'; '.join(map(str, changes))}")
        said += [f"Run {run}: its error changed" for run in self.errors]
        return f"{'. '.join(said)}.{other}"

    def __str__(self) -> str:
        from adk_fluent.debug.rendering import recordings_text

        return recordings_text(self)

    def to_html(self) -> str:
        """The same as a page."""
        from adk_fluent.debug.rendering import recordings_html

        return recordings_html(self)

    def _repr_html_(self) -> str:
        return self.to_html()


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s differ' if count != 1 else ' differs'}"


# --- events ---------------------------------------------------------------------------------------


def diff_events(before: Iterable[AgentEvent], after: Iterable[AgentEvent]) -> EventDiff:
    """What differs between the events of two runs.

    Compared is what happened: who said what, called which tool with what result, wrote which state. Ids,
    times, tokens and pieces of streamed answers do not count. Nor does the order of branches that ran at the
    same time: events are compared branch by branch.

    Raises:
        ArgumentError: one of them is not the events of a run.

    Example:
        >>> one = [AgentEvent("draft", "Helo."), AgentEvent("check", "Fine.")]
        >>> print(diff_events(one, [AgentEvent("draft", "Hello.")]).summary)
        2 events differ: draft: content changed (91% alike); check: missing: 'Fine.'.
    """
    redacted = Redactor()
    olds, news = _laid_out(before, redacted), _laid_out(after, redacted)
    old_left, new_left = _unmatched(olds, news)
    places: list[tuple[int, EventChange]] = []
    for old, new in _pairs(old_left, new_left, lambda one, other: one.text == other.text):
        places.append((new.place, EventChange("moved", new.event.author, old.event, new.event)))
    for alike in (_tell_of_the_same, _are_of_one_agent):
        places += [(new.place, _change(old, new)) for old, new in _pairs(old_left, new_left, alike)]
    places += [(old.place, EventChange("missing", old.event.author, old.event)) for old in old_left]
    places += [(new.place, EventChange("added", new.event.author, None, new.event)) for new in new_left]
    return EventDiff(tuple(change for _, change in sorted(places, key=itemgetter(0))), len(olds))


@dataclass(frozen=True, slots=True)
class _Event:
    """An event with what of it counts."""

    place: int
    event: AgentEvent
    branch: str | None
    facts: Facts
    text: str


def _laid_out(events: Iterable[AgentEvent], redacted: Redactor) -> list[_Event]:
    whole = [event for event in events_in(events, "diff_events()") if not event.is_partial]
    names = IdNames(whole)
    made: list[_Event] = []
    for place, event in enumerate(whole):
        facts = cast("dict[str, Any]", redacted(names.given_to(facts_of(event))))
        text = json.dumps([event.author, facts], sort_keys=True, ensure_ascii=False)
        made.append(_Event(place, event, names.of_branch(event.branch), facts, text))
    return made


def _unmatched(olds: Sequence[_Event], news: Sequence[_Event]) -> tuple[list[_Event], list[_Event]]:
    """The events of each that the other has not in the same order of their branch."""
    old_left: list[_Event] = []
    new_left: list[_Event] = []
    for branch in dict.fromkeys(each.branch for each in (*olds, *news)):
        one = [each for each in olds if each.branch == branch]
        other = [each for each in news if each.branch == branch]
        texts = [[each.text for each in side] for side in (one, other)]
        matcher = difflib.SequenceMatcher(None, *texts, autojunk=False)
        for tag, start, end, start_other, end_other in matcher.get_opcodes():
            if tag != "equal":
                old_left += one[start:end]
                new_left += other[start_other:end_other]
    return old_left, new_left


def _pairs(olds: list[T], news: list[T], alike: Callable[[T, T], bool]) -> Iterator[tuple[T, T]]:
    """Those that are alike, one of each; they are taken out."""
    for old in list(olds):
        new = next((each for each in news if alike(old, each)), None)
        if new is not None:
            olds.remove(old)
            news.remove(new)
            yield old, new


def _are_of_one_agent(old: _Event, new: _Event) -> bool:
    return old.event.author == new.event.author


def _tell_of_the_same(old: _Event, new: _Event) -> bool:
    """Whether both are, for example, an answer of one agent."""
    return _are_of_one_agent(old, new) and old.facts.keys() == new.facts.keys()


def _change(old: _Event, new: _Event) -> EventChange:
    names = dict.fromkeys([*old.facts, *new.facts])
    pairs = {name: (old.facts.get(name), new.facts.get(name)) for name in names}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    texts = changed.get("content")
    alike = None if texts is None else similarity(texts[0] or "", texts[1] or "")
    return EventChange("changed", new.event.author, old.event, new.event, changed, alike)


# --- recordings -----------------------------------------------------------------------------------


def diff_recordings(before: Recording, after: Recording) -> RecordingDiff:
    """What differs between two recordings: events, requests of models, calls of tools, errors of runs.

    Times, ids and tokens do not count, nor how many calls a branch made before it lost a race. Recordings of
    different releases of ADK, which word requests differently, are compared by what does not depend on that.

    Raises:
        ArgumentError: one of them is no recording.

    Example:
        >>> from adk_fluent.debug import Recording
        >>> diff_recordings(Recording(), Recording()).summary
        'No difference: the same 0 events.'
    """
    for each in (before, after):
        if not hasattr(each, "llm_interactions"):
            raise ArgumentError(
                f"diff_recordings() takes two recordings, not {each!r:.60}; Recording.load(path) reads one."
            )
    lost = [partial(has_lost, each) for each in (before, after)]
    releases = {each.versions.get("google-adk") for each in (before, after)}
    return RecordingDiff(
        diff_events(before.events, after.events),
        tuple(_requests(before, after, lost, alike=len(releases) == 1)),
        tuple(_tools(before.tool_interactions, after.tool_interactions, lost)),
        before.ir_hash == after.ir_hash,
        _errors(before, after),
    )


def _errors(before: Recording, after: Recording) -> dict[int, tuple[str, str]]:
    """Run → what it ended with; the message counts where both have kept it."""
    found: dict[int, tuple[str, str]] = {}
    for number, runs in enumerate(zip(before.runs, after.runs, strict=False), 1):
        errors = [run.error or Failure("") for run in runs]
        messages = {each.message for each in errors if each.message}
        if len({each.type for each in errors}) > 1 or len(messages) > 1:
            one, other = (f"{each.type}: {each.message}" if each.type else "" for each in errors)
            found[number] = one, other
    return found


def _heard(recording: Recording) -> list[LLMInteraction]:
    """The calls of models, without the answers that came too late for anybody to hear them."""
    unheard = recording.unheard
    return [
        replace(call, chunks=()) if call.chunks and call.chunks[-1].seq in unheard else call
        for call in recording.llm_interactions
    ]


def _requests(before: Recording, after: Recording, lost: _Lost, *, alike: bool) -> Iterator[CallChange]:
    defaults = [each.metadata.get("default_model") for each in (before, after)]

    def asked(*calls: LLMInteraction) -> list[Asked]:
        return [Asked(c.request, c.prompt, c.state, d) for c, d in zip(calls, defaults, strict=True)]

    def channels(old: LLMInteraction, new: LLMInteraction) -> dict[str, list[str]]:
        one, other = asked(old, new)
        found = changed_channels(one, other, worded_alike=alike)
        if lines := list(lines_between(_said(old), _said(new))):
            found["response"] = lines
        return found

    def same(old: LLMInteraction, new: LLMInteraction) -> bool:
        one, other = asked(old, new)
        return _said(old) == _said(new) and same_request(one, other, worded_alike=alike)

    yield from _calls(_heard(before), _heard(after), channels, same, lost)


def _said(call: LLMInteraction) -> str:
    whole = [chunk.response for chunk in call.chunks if not chunk.response.get("partial")]
    said = [json.dumps(each.get("content"), sort_keys=True, ensure_ascii=False) for each in whole]
    failed = [] if call.error is None else [f"{call.error.type}: {call.error.message}"]
    return call.response_content or "\n".join([*said, *failed])


def _tools(
    before: Sequence[ToolInteraction], after: Sequence[ToolInteraction], lost: _Lost
) -> Iterator[CallChange]:
    def channels(old: ToolInteraction, new: ToolInteraction) -> dict[str, list[str]]:
        pairs = {"args": (old.args, new.args), "result": (old.result or old.error, new.result or new.error)}
        found = {name: list(lines_between(f"{one}", f"{other}")) for name, (one, other) in pairs.items()}
        return {name: lines for name, lines in found.items() if lines}

    def same(old: ToolInteraction, new: ToolInteraction) -> bool:
        return (old.args, old.result, old.error) == (new.args, new.result, new.error)

    yield from _calls(before, after, channels, same, lost)


def _calls(
    before: Sequence[V],
    after: Sequence[V],
    channels: Callable[[V, V], Mapping[str, list[str]]],
    same: Callable[[V, V], bool],
    lost: _Lost,
) -> Iterator[CallChange]:
    """What differs between calls, agent by agent; which of equal ones came first does not count."""
    for key in dict.fromkeys(call.key for call in (*before, *after)):
        olds, news = ([call for call in calls if call.key == key] for calls in (before, after))
        list(_pairs(olds, news, same))  # those that are equal
        for old, new in zip(olds, news, strict=False):
            changed = channels(old, new)
            given_up = lost[0](old) and lost[1](new)  # whether it was answered by then is chance
            if not given_up or changed.keys() - {"response", "result"}:
                yield CallChange("changed", key, new.call, changed)
        gone, more = olds[len(news) :], news[len(olds) :]
        yield from (CallChange("missing", key, c.call) for c in gone if not (lost[0](c) or _is_remembered(c)))
        yield from (CallChange("added", key, c.call) for c in more if not (lost[1](c) or _is_remembered(c)))


def _is_remembered(call: LLMInteraction | ToolInteraction) -> bool:
    """Whether no model was asked: an agent that is compiled once remembers more than one compiled anew."""
    return isinstance(call, LLMInteraction) and call.remembered
