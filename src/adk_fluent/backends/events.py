"""What a run gives back, the same for every backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Never, Protocol, TypeVar, cast

from adk_fluent.analysis.visibility import STANDS_IN
from adk_fluent.cost.prices import Tokens, cost_of
from adk_fluent.errors import ADKFluentError, ArgumentError, MissingExtraError, MissingKeyError
from adk_fluent.ir.annotations import Visibility
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.genai.types import Part

T_co = TypeVar("T_co", covariant=True)

DISCARDS: Final = "adk_fluent.discards"
"""Metadata of an event that withdraws the answers of earlier ones, listed by event id."""

PREFACE: Final = "adk_fluent.preface"
"""Metadata of an answer: ids of earlier events of its author whose words begin it."""

BEGINNING: Final = "adk_fluent.beginning"
"""Metadata of the first event of a session that was created with state: that state."""

RAISED: Final = "adk_fluent.raised"
"""Metadata of an event that reports an exception, which ADK raises unless it runs the agent again."""


@dataclass(frozen=True, slots=True)
class ToolCallInfo:
    """A tool call that a model made."""

    tool_name: str
    args: dict[str, Any]
    call_id: str


@dataclass(frozen=True, slots=True)
class ToolResponseInfo:
    """What a tool call gave."""

    tool_name: str
    result: Any
    call_id: str


class Spent(NamedTuple):
    """One model call, as far as its cost depends on it.

    Attributes:
        model: the name of the model.
        tokens: what it used.
        cost: what it cost in USD, as text, where the agent itself gave the price.
    """

    model: str
    tokens: Tokens
    cost: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What an agent used of one model.

    Attributes:
        calls: model calls that reported usage.
        input_tokens: tokens of the requests, with what tools added to them.
        output_tokens: tokens of the answers, thoughts included.
        cached_tokens: those of `input_tokens` that the provider had cached.
        spent: the calls one by one.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    spent: tuple[Spent, ...] = field(default=(), repr=False, compare=False)

    @property
    def cost(self) -> Decimal | None:
        """What the calls cost in USD, or `None` if a price is not known; never 0 for that.

        Prices are those of now: of a `ModelCandidate`, of `adk_fluent.cost.register_price`, or of the data
        set of `adk_fluent[cost]`. Only text is priced: images, audio and what a provider asks for searches
        are not.

        >>> Usage(1, 1000, 200, spent=(Spent("gemini-2.5-flash", Tokens(1000, 200)),)).cost
        Decimal('0.0008')
        """
        if len(self.spent) < self.calls:
            return None
        total = Decimal(0)
        for call in self.spent:
            cost = _cost(call)
            if cost is None:
                return None
            total += cost
        return total

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def to_dict(self) -> dict[str, int]:
        """The numbers; what they cost depends on the prices of the day."""
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
        }

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.spent + other.spent,
        )


def _cost(call: Spent) -> Decimal | None:
    if call.cost is not None:
        return Decimal(call.cost)
    try:
        return cost_of(call.model, call.tokens)
    except MissingExtraError:
        return None


Awaited = Literal["approval", "result", "credential", "input"]
"""What a run can wait for: a person's approval, what a long-running tool gives, a credential, or input."""

_IN_WORDS: Final[Mapping[Awaited, str]] = {
    "approval": "approval",
    "result": "a result",
    "credential": "a credential",
    "input": "input",
}
_FORMS: Final[Mapping[Awaited, str]] = {
    "approval": "True, False or a payload that approves",
    "result": "what the tool gave: text, or anything else that is JSON",
    "credential": "the key, the token or the address that the sign-in ended at, as text, or ADK's "
    "AuthCredential or AuthConfig",
    "input": "text, or anything else that is JSON",
}


@dataclass(frozen=True, slots=True)
class Pending:
    """What a run waits for: a question that somebody outside it answers.

    Attributes:
        id: what `resume(answers={id: ...})` refers to.
        agent: the gate, or the agent that asks or whose tool does.
        message: what is asked, in words.
        payload: what it is about. For a tool its `name` and `args`, and the `response` that a long-running
            one gave so far; for a credential its `type` and the `url` to sign in at; for input the
            `payload` and the `schema` of the answer, if there are any; for a gate nothing.
        kind: what is awaited: `"approval"`, `"result"` of a long-running tool, `"credential"` or `"input"`.
    """

    id: str
    agent: str
    message: str
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kind: Awaited = "approval"

    @property
    def awaited(self) -> str:
        """What the agent waits for, in words.

        >>> Pending("1", "desk", "Which city?", kind="input").awaited
        'input'
        """
        return _IN_WORDS[self.kind]

    @property
    def form(self) -> str:
        """The form of the answer, in words.

        >>> Pending("1", "gate", "Refund 250 EUR?").form
        'True, False or a payload that approves'
        """
        schema = self.payload.get("schema") if self.kind == "input" else None
        return f"what fits {json.dumps(schema, default=repr)}" if schema else _FORMS[self.kind]


def call_text(payload: Mapping[str, Any]) -> str:
    """The call of a tool as a person can read it.

    >>> call_text({"name": "pay", "args": {"to": "Ann", "amount": 5}})
    'pay(to="Ann", amount=5)'
    """
    args: Mapping[str, Any] = payload.get("args") or {}
    shown = (f"{name}={json.dumps(value, ensure_ascii=False, default=repr)}" for name, value in args.items())
    return f"{payload.get('name') or 'a tool'}({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One thing that happened in a run.

    Attributes:
        author: the agent or step it came from.
        content: its text, without the model's thoughts; `None` if it has none.
        parts: content that is not text: images, audio, files, code.
        state_delta: state keys it wrote.
        artifact_delta: artifact name → new version.
        transfer_to: the agent it hands over to.
        is_final: whether it can be an answer: whole, with content, and no tool call or its result.
        is_partial: whether it is a piece of an answer that follows whole later.
        metadata: ADK's `custom_metadata`.
        timestamp: seconds since the epoch.
        branch: the parallel branch it happened on.
        usage: tokens it reports, with the model's name in `model`.
        error: what went wrong, for an event that reports a failure.
        visibility: who should see it: the `user`, only other agents (`internal`), or nobody, since its author
            says nothing (`zero_cost`). What asks a person is always for the user.
        session_id: the session it happened in.
        input_transcription: in a live conversation, what the user said.
        output_transcription: in a live conversation, what the model says aloud, in words.
        turn_complete: whether the model has said all it has to say for now.
        interrupted: whether the user spoke, so that the model stopped.
        raw: ADK's own event.
    """

    author: str
    content: str | None = None
    state_delta: dict[str, Any] = field(default_factory=dict[str, Any])
    artifact_delta: dict[str, int] = field(default_factory=dict[str, int])
    transfer_to: str | None = None
    escalate: bool = False
    tool_calls: list[ToolCallInfo] = field(default_factory=list[ToolCallInfo])
    tool_responses: list[ToolResponseInfo] = field(default_factory=list[ToolResponseInfo])
    is_final: bool = False
    is_partial: bool = False
    end_of_agent: bool = False
    agent_state: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    timestamp: float = 0.0
    id: str = ""
    invocation_id: str = ""
    parts: tuple[Part, ...] = ()
    branch: str | None = None
    model: str | None = None
    usage: Usage | None = None
    error: str | None = None
    pending: tuple[Pending, ...] = ()
    visibility: Visibility = "user"
    session_id: str = ""
    input_transcription: str | None = None
    output_transcription: str | None = None
    turn_complete: bool = False
    interrupted: bool = False
    raw: Event | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """All of it but `raw`, as JSON can hold it, with the same keys in the same order for every event.

        Bytes become text in base64; what JSON has no form for becomes its `repr`.

        >>> said = AgentEvent("a", "Hello.", state_delta={"k": {1, 2}}).to_dict()
        >>> said["author"], said["content"], said["state_delta"], "raw" in said
        ('a', 'Hello.', {'k': [1, 2]}, False)
        """
        from pydantic_core import to_jsonable_python

        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "raw"}
        if self.usage is not None:
            values["usage"] = self.usage.to_dict()
        values["parts"] = [part.model_dump(mode="json", exclude_none=True) for part in self.parts]
        return to_jsonable_python(values, bytes_mode="base64", inf_nan_mode="null", fallback=repr)

    def to_json(self) -> str:
        """`to_dict` as one line of JSON.

        >>> AgentEvent("a", "Hello.").to_json()[:35]
        '{"author": "a", "content": "Hello."'
        """
        return json.dumps(self.to_dict(), ensure_ascii=False)


def _cut(text: str) -> str:
    """A text in quotes, with an ellipsis where it is cut."""
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


def events_in(given: Iterable[AgentEvent], where: str) -> list[AgentEvent]:
    """The events that a caller gives.

    Raises:
        ArgumentError: it is something else; the message begins with `where`.
    """
    found: list[object] = [*given] if isinstance(given, Iterable) else [given]  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not type-check
    wrong = [each for each in found if not isinstance(each, AgentEvent)]
    if wrong:
        raise ArgumentError(f"{where} takes the events of a run, such as its result, not {given!r:.60}.")
    return cast("list[AgentEvent]", found)


def answers(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    """The events that carry an answer to the user: whole text, and not withdrawn by a later fallback.

    Where nobody visible spoke, since the steps that would have were skipped (`.proceed_if`), the events of
    those who spoke before them.
    """
    said = [e for e in standing(events) if e.is_final and e.content and not e.is_partial]
    seen = [e for e in said if e.visibility == "user"]
    return seen or [e for e in said if e.metadata.get(STANDS_IN)]


def whole(answer: AgentEvent, events: Iterable[AgentEvent]) -> str:
    """The text of an answer, with what its author said in front of it beside calls of tools, if that counts.

    Args:
        events: those of the run.
    """
    preface = answer.metadata.get(PREFACE)
    said = {event.id: event.content or "" for event in events} if preface else {}
    return "".join((*(said.get(key, "") for key in preface or ()), answer.content or ""))


def standing(events: Iterable[AgentEvent]) -> list[AgentEvent]:
    """The events without those that a later fallback withdrew."""
    listed = list(events)
    discarded = {key for event in listed for key in event.metadata.get(DISCARDS, ())}
    return [e for e in listed if e.id not in discarded] if discarded else listed


def uncaught(events: Iterable[AgentEvent]) -> AgentEvent | None:
    """The first event that reports a failure which nothing caught, if there is one.

    One that reports an exception does not count: where nothing caught that, the run raises it.
    """
    failed = (event for event in standing(events) if event.error and not event.is_partial)
    return next((event for event in failed if RAISED not in event.metadata), None)


def blanked(event: AgentEvent) -> AgentEvent:
    """The event without what it says; what it did to state, artifacts and the run stays."""
    raw = None if event.raw is None else without_words(event.raw)
    return replace(
        event,
        content=None,
        parts=(),
        tool_calls=[],
        tool_responses=[],
        input_transcription=None,
        output_transcription=None,
        raw=raw,
    )


def is_in_tool(branch: str | None) -> bool:
    """Whether a branch is that of an agent inside a tool, which is told as `caller.tool@call`."""
    return "@" in (branch or "")


def without_words(event: Event) -> Event:
    """A copy of an ADK event without what it says."""
    known = type(event).model_fields
    return event.model_copy(update={name: None for name in _WORDS if name in known})


_WORDS: Final = (
    *("content", "output", "grounding_metadata", "citation_metadata", "logprobs_result"),
    *("input_transcription", "output_transcription"),
)
"""The fields of an ADK event that hold words, whichever the installed ADK has."""


def final_text(events: Iterable[AgentEvent]) -> str:
    """The text of the last answer to the user among `events`, or an empty string.

    Events that only change state never count, nor do answers meant for other agents.

    >>> said = AgentEvent("a", "Hello.", is_final=True)
    >>> final_text([said, AgentEvent("s", state_delta={"k": 1}, is_final=True)])
    'Hello.'
    """
    listed: list[Any] = list(events) if isinstance(events, Iterable) else [events]  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
    for one in listed:
        if not isinstance(one, AgentEvent):
            told = f"final_text() takes the events of a run, such as its result, not {type(one).__name__}."
            raise ArgumentError(told)
    found = answers(listed)
    return whole(found[-1], listed) if found else ""


SAYS: Final = "adk_fluent.says"
"""Metadata of an event without content: what it says to the user, though not to other agents."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What `.output` gave, so that it is known where the types of the expression are not.

    Attributes:
        value: the answer.
        error: what was raised in its place.
    """

    value: Any = None
    error: ADKFluentError | None = None

    @classmethod
    def of(cls, ask: Callable[[], Any]) -> Settled:
        """What a call gives or raises."""
        try:
            return cls(ask())
        except ADKFluentError as error:
            return cls(error=error)

    def get(self) -> Any:
        """The same again."""
        if self.error is not None:
            raise self.error
        return self.value


class AnswerParser(Protocol):
    """Makes the answer of a run from its events."""

    def output(self, events: Iterable[AgentEvent]) -> Any:
        """The answer, as the type that its agent returns.

        Raises:
            AnswerError: it is not what its agent promised, or there is none.
        """
        ...


_MOST_KEYS: Final = 10
"""Most keys that an error message lists."""


class StateAfter(dict[str, Any]):
    """The state after a run: a dict that names what it holds when a key is absent.

    >>> StateAfter(answer=42)["anser"]
    Traceback (most recent call last):
    adk_fluent.errors.MissingKeyError: The state after the run has no 'anser'. Did you mean 'answer'?
    """

    def __missing__(self, key: object) -> Never:
        names = ", ".join(map(repr, list(self)[:_MOST_KEYS])) + ", …" * (len(self) > _MOST_KEYS)
        held = f" It has {names}." if self else " It is empty."
        near = did_you_mean(key, self) if isinstance(key, str) else ""
        raise MissingKeyError(f"The state after the run has no {key!r}.{near or held}")


class RunResult(list[AgentEvent], Generic[T_co]):
    """The events of a run, with what is usually wanted of them.

    It can be pickled and copied whole, ADK's own events (`.raw`) with it. A type that the answer is parsed
    into must be one that pickle finds by its name.

    Args:
        earlier: what happened in the same run before it waited, and was resumed with these events.
        parse: makes `output` from the events; by default it is their text.
        untold: agent, model and usage of each model call that no event tells.

    Attributes:
        state: the session's state after the run; absent keys are left out. `state["key"]` raises
            `MissingKeyError`, a `KeyError`, with the nearest key.
        session_id: the session it ran in; give it to the next `run` to go on.
    """

    def __init__(
        self,
        events: Iterable[AgentEvent] = (),
        *,
        state: Mapping[str, Any] | None = None,
        session_id: str = "",
        origins: Mapping[str, str] | None = None,
        parse: AnswerParser | None = None,
        pending: Iterable[Pending] | None = None,
        earlier: Iterable[AgentEvent] = (),
        untold: Iterable[tuple[str, str, Usage]] = (),
    ) -> None:
        super().__init__(events)
        self.state: dict[str, Any] = StateAfter({k: v for k, v in (state or {}).items() if v is not None})
        self.session_id = session_id
        self._origins = dict(origins or {})
        self._parse = parse
        self._settled: Settled | None = None
        self._pending = None if pending is None else tuple(pending)
        self._earlier = tuple(earlier)
        self._untold = tuple(untold)

    def __repr__(self) -> str:
        waits = f", {len(self.pending)} pending" if self.pending else ""
        state = f", state={list(self.state)}" if self.state else ""
        return f"<RunResult of {len(self)} events, text={_cut(self.text)}{state}{waits}>"

    @property
    def text(self) -> str:
        """The text of the last answer to the user; empty when there was none, and while the run waits.

        Since ADK 2.4, words that its agent said before, beside calls of tools, begin it: ADK stores them so.
        What agents say to each other does not count. Where the steps that would have answered were skipped
        (`.proceed_if`), the last answer before them does, unless its agent is hidden by `.hide()`. After
        `resume`, what was said before the run waited counts as well.
        """
        return final_text(self._whole_run)

    @property
    def _whole_run(self) -> tuple[AgentEvent, ...]:
        """The events of the whole run; none while it waits, since the last answer is still to come."""
        return () if self.pending else (*self._earlier, *self)

    @property
    def visible(self) -> list[AgentEvent]:
        """The events that the user should see, without what a later fallback withdrew."""
        return [event for event in standing(self) if event.visibility == "user"]

    @property
    def output(self) -> T_co:
        """The answer as the type that the answering agent `returns`, or its text.

        Without an answer it is empty text, or `None` where a type `T | None` is promised.

        Raises:
            AnswerError: the answer is not what the agent promised, or there is none though it promised a
                type; the message says why.
        """
        if self._settled is not None:
            return self._settled.get()
        if self._parse is None:
            return cast(T_co, self.text)
        return self._parse.output(self._whole_run)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy needs, without what parses answers: that leads to all of the compiled expression."""
        state = {name: value for name, value in vars(self).items() if name != "__orig_class__"}
        settled = self._settled or Settled.of(lambda: self.output)
        return {**state, "_parse": None, "_settled": settled}

    @property
    def invocation_id(self) -> str:
        """The run itself; `rewind(before_invocation_id=)` goes back to before it."""
        return self[-1].invocation_id if self else ""

    @property
    def pending(self) -> list[Pending]:
        """What the run waits for; empty when it ended."""
        if self._pending is not None:
            return list(self._pending)
        return list({pending.id: pending for event in self for pending in event.pending}.values())

    @property
    def usage(self) -> dict[tuple[str, str], Usage]:
        """Tokens used and what they cost, by agent and model.

        All that was spent is in it: also by branches that lost or were cancelled, attempts that failed after
        they reported usage, helper models, agents inside tools, and fallback models. Not in it is what
        agents of ADK's own use inside tools of ADK's own, and on durable engines what no event tells.
        """
        total: dict[tuple[str, str], Usage] = {}
        for author, model, usage in self._untold:
            key = (self.origin(author), model)
            total[key] = total.get(key, Usage()) + usage
        for event in self:
            if event.usage is not None and not event.is_partial:
                key = (self.origin(event.author), event.model or "")
                total[key] = total.get(key, Usage()) + event.usage
        return total

    def _repr_html_(self) -> str:
        """As a notebook shows it: the answer, what happened, and the state after it."""
        from adk_fluent.backends.tables import run_tables

        return run_tables(self)

    def origin(self, author: str) -> str:
        """The name the user gave to the agent that runs as `author`."""
        return self._origins.get(author, author)

    def by(self, author: str) -> list[AgentEvent]:
        """The events of one agent, of every place where it is used."""
        return [e for e in self if e.author == author or self.origin(e.author) == author]
