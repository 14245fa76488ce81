"""What differs between two runs: by structure, not by lines of text."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

from adk_fluent._redaction import Redactor
from adk_fluent.backends.events import AgentEvent, events_in
from adk_fluent.debug.lanes import has_lost
from adk_fluent.debug.requests import Asked, changed_channels, lines_between, same_request
from adk_fluent.debug.values import Failure, LLMInteraction, ToolInteraction
from adk_fluent.errors import ArgumentError

if TYPE_CHECKING:
    from adk_fluent.debug.recording import Recording

Kind: TypeAlias = Literal["changed", "moved", "missing", "added"]

_COMPARED: Final = ("content", "parts", "state_delta", "artifact_delta", "transfer_to", "escalate", "error")
"""Fields of an event that are compared as they are."""

_ID: Final = 16
"""Characters of the shortest id that is made up; others are words, such as the name of a session."""

Facts = Mapping[str, Any]
V = TypeVar("V", LLMInteraction, ToolInteraction)
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
    changes = [*_moved(old_left, new_left), *_changed(old_left, new_left)]
    changes += [_Placed(old.place, EventChange("missing", old.event.author, old.event)) for old in old_left]
    changes += [
        _Placed(new.place, EventChange("added", new.event.author, None, new.event)) for new in new_left
    ]
    changes.sort(key=lambda change: change.place)
    return EventDiff(tuple(change.change for change in changes), len(olds))


@dataclass(frozen=True, slots=True)
class _Event:
    """An event with what of it counts."""

    place: int
    event: AgentEvent
    branch: str | None
    facts: Facts
    text: str


@dataclass(frozen=True, slots=True)
class _Placed:
    """A change, and where it is."""

    place: int
    change: EventChange


def _laid_out(events: Iterable[AgentEvent], redacted: Redactor) -> list[_Event]:
    whole = [event for event in events_in(events, "diff_events()") if not event.is_partial]
    names = _Names(whole)
    made: list[_Event] = []
    for place, event in enumerate(whole):
        facts = cast("dict[str, Any]", redacted(names.given_to(_facts(event))))
        text = json.dumps([event.author, facts], sort_keys=True, ensure_ascii=False)
        made.append(_Event(place, event, names.of_branch(event.branch), facts, text))
    return made


def _facts(event: AgentEvent) -> dict[str, Any]:
    """What of an event counts, as JSON."""
    data = event.to_dict()
    facts: dict[str, Any] = {name: data[name] for name in _COMPARED if data[name]}
    calls = [{"name": call["tool_name"], "args": call["args"]} for call in data["tool_calls"]]
    results = [{"name": each["tool_name"], "result": each["result"]} for each in data["tool_responses"]]
    asked = [{"agent": e["agent"], "message": e["message"], "payload": e["payload"]} for e in data["pending"]]
    more = {"tool_calls": calls, "tool_responses": results, "pending": asked}
    return facts | {name: value for name, value in more.items() if value}


class _Names:
    """Gives the ids of a run names that are the same in every run: the order in which they occur."""

    def __init__(self, events: Iterable[AgentEvent]) -> None:
        self._names: dict[str, str] = {}
        for event in events:
            for call in (*event.tool_calls, *event.tool_responses):
                self._name(call.call_id, "call")
            for asked in event.pending:
                self._name(asked.id, "approval")
            self._name(event.invocation_id, "run")
            self._name(event.session_id, "session")
            self._name(event.id, "event")

    def _name(self, key: str, kind: str) -> None:
        if len(key) >= _ID:
            self._names.setdefault(key, f"<{kind} {len(self._names) + 1}>")

    def of_branch(self, branch: str | None) -> str | None:
        """The branch, with the names of the calls inside which its agents run: `child@<id of the call>`."""
        parts = [part.partition("@") for part in (branch or "").split(".")]
        return ".".join(agent + at + self.given_to(key) for agent, at, key in parts) if branch else None

    def given_to(self, value: Any) -> Any:
        """The value, with names in the place of ids."""
        if isinstance(value, str):
            return self._names.get(value, value)
        if isinstance(value, list):
            return [self.given_to(item) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            return {key: self.given_to(item) for key, item in cast("dict[str, Any]", value).items()}
        return value


def _unmatched(olds: Sequence[_Event], news: Sequence[_Event]) -> tuple[list[_Event], list[_Event]]:
    """The events of each that the other has not in the same order of their branch."""
    old_left: list[_Event] = []
    new_left: list[_Event] = []
    for branch in dict.fromkeys(each.branch for each in (*olds, *news)):
        one = [each for each in olds if each.branch == branch]
        other = [each for each in news if each.branch == branch]
        matcher = difflib.SequenceMatcher(
            None, [each.text for each in one], [each.text for each in other], autojunk=False
        )
        for tag, start, end, start_other, end_other in matcher.get_opcodes():
            if tag != "equal":
                old_left += one[start:end]
                new_left += other[start_other:end_other]
    return old_left, new_left


def _moved(olds: list[_Event], news: list[_Event]) -> Iterator[_Placed]:
    """Those that are in both, in another place; they are taken out."""
    for old in list(olds):
        new = next((each for each in news if each.text == old.text), None)
        if new is not None:
            olds.remove(old)
            news.remove(new)
            yield _Placed(new.place, EventChange("moved", new.event.author, old.event, new.event))


def _changed(olds: list[_Event], news: list[_Event]) -> Iterator[_Placed]:
    """Those of one agent that are in both with other contents; they are taken out."""
    for alike in (True, False):  # first those that tell of the same, such as an answer each
        for old in list(olds):
            of_agent = [each for each in news if each.event.author == old.event.author]
            if alike:
                of_agent = [each for each in of_agent if each.facts.keys() == old.facts.keys()]
            if of_agent:
                olds.remove(old)
                news.remove(of_agent[0])
                yield _Placed(of_agent[0].place, _change(old, of_agent[0]))


def _change(old: _Event, new: _Event) -> EventChange:
    names = dict.fromkeys([*old.facts, *new.facts])
    pairs = {name: (old.facts.get(name), new.facts.get(name)) for name in names}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    texts = changed.get("content")
    alike = None if texts is None else similarity(texts[0] or "", texts[1] or "")
    return EventChange("changed", new.event.author, old.event, new.event, changed, alike)


def similarity(one: str, other: str) -> float:
    """How much of two texts is alike, from 0 to 1: twice the matching characters over all of them.

    The measure of Ratcliff and Obershelp, as `difflib.SequenceMatcher.ratio` computes it; beyond 2,000
    characters words are compared, and beyond 2,000 words no longer their order.

    >>> similarity("Hello.", "Helo."), similarity("", "")
    (0.9090909090909091, 1.0)
    """
    long = max(len(one), len(other)) > 2000
    texts = (one.split(), other.split()) if long else (one, other)
    matcher = difflib.SequenceMatcher(None, *texts, autojunk=False)
    return matcher.quick_ratio() if max(map(len, texts)) > 2000 else matcher.ratio()


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
    alike = len(releases) == 1
    return RecordingDiff(
        diff_events(before.events, after.events),
        tuple(_requests(before, after, lost, alike=alike)),
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

    def asked(*calls: LLMInteraction) -> Iterator[Asked]:
        for call, default in zip(calls, defaults, strict=True):
            yield Asked(call.request, call.prompt, call.state, default)

    def channels(old: LLMInteraction, new: LLMInteraction) -> dict[str, list[str]]:
        one, other = asked(old, new)
        found = changed_channels(one, other, worded_alike=alike)
        if lines := list(lines_between(_said(old), _said(new))):
            found["response"] = lines
        return found

    def same(old: LLMInteraction, new: LLMInteraction) -> bool:
        one, other = asked(old, new)
        return _said(old) == _said(new) and same_request(one, other, worded_alike=alike)

    heard = [_heard(each) for each in (before, after)]
    for key in dict.fromkeys(call.key for calls in heard for call in calls):
        olds, news = ([call for call in calls if call.key == key] for calls in heard)
        yield from _calls(key, olds, news, channels, same, lost)


def _said(call: LLMInteraction) -> str:
    whole = [chunk.response for chunk in call.chunks if not chunk.response.get("partial")]
    said = [json.dumps(each.get("content"), sort_keys=True, ensure_ascii=False) for each in whole]
    failed = [] if call.error is None else [f"{call.error.type}: {call.error.message}"]
    return call.response_content or "\n".join([*said, *failed])


def _tools(
    before: Sequence[ToolInteraction], after: Sequence[ToolInteraction], lost: _Lost
) -> Iterator[CallChange]:
    def channels(old: ToolInteraction, new: ToolInteraction) -> dict[str, list[str]]:
        pairs = {
            "args": (old.args, new.args),
            "result": (old.result or old.error, new.result or new.error),
        }
        found = {name: list(lines_between(f"{one}", f"{other}")) for name, (one, other) in pairs.items()}
        return {name: lines for name, lines in found.items() if lines}

    def same(old: ToolInteraction, new: ToolInteraction) -> bool:
        return (old.args, old.result, old.error) == (new.args, new.result, new.error)

    for key in dict.fromkeys(call.key for call in (*before, *after)):
        olds, news = ([call for call in calls if call.key == key] for calls in (before, after))
        yield from _calls(key, olds, news, channels, same, lost)


def _calls(
    key: str,
    olds: list[V],
    news: list[V],
    channels: Callable[[V, V], Mapping[str, list[str]]],
    same: Callable[[V, V], bool],
    lost: _Lost,
) -> Iterator[CallChange]:
    """What differs between the calls of one agent or tool; which of equal ones came first does not count."""
    for old in list(olds):
        found = next((new for new in news if same(old, new)), None)
        if found is not None:
            olds.remove(old)
            news.remove(found)
    for old, new in zip(olds, news, strict=False):
        changed = channels(old, new)
        given_up = lost[0](old) and lost[1](new)
        if not given_up or changed.keys() - {
            "response",
            "result",
        }:  # whether it was answered by then is chance
            yield CallChange("changed", key, new.call, changed)
    for old in olds[len(news) :]:
        if not (lost[0](old) or _is_remembered(old)):
            yield CallChange("missing", key, old.call)
    for new in news[len(olds) :]:
        if not (lost[1](new) or _is_remembered(new)):
            yield CallChange("added", key, new.call)


def _is_remembered(call: LLMInteraction | ToolInteraction) -> bool:
    """Whether no model was asked: an agent that is compiled once remembers more than one compiled anew."""
    return isinstance(call, LLMInteraction) and call.remembered
