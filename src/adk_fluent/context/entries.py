"""The conversation as plain values: what a context spec selects from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

USER: Final = "user"
"""The author of the person's messages, in ADK's events and here."""

Kind = Literal["event", "summary", "state"]

CountTokens = Callable[[str], int]
"""How many tokens a text is."""


def estimate_tokens(text: str) -> int:
    """Tokens of a text, estimated at four characters each and rounded up.

    The four are the usual rule of thumb for English with the tokenizers of current models. Give a
    `count_tokens=` of your own where the number must be exact.

    >>> estimate_tokens("abcde")
    2
    """
    return -(-len(text) // 4)


@dataclass(frozen=True, slots=True)
class FileRef:
    """A part that is not text: an image, a file, code.

    Attributes:
        mime_type: what it is, such as `image/png`.
        at: index of the event and of the part in it, where the part itself is found.
        name: the file's name, where there is one.
    """

    mime_type: str
    at: tuple[int, int]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a model made; `args` is JSON."""

    name: str
    args: str
    id: str
    at: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True)
class Response:
    """What a tool gave; `result` is JSON."""

    name: str
    result: str
    id: str
    at: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing said or done in a conversation, or one value of the state shown beside it.

    Attributes:
        author: `user`, or the agent that it comes from; the key, for a value of the state.
        origin: the name the user gave to that agent, where it is used in several places.
        text: its text, without the model's thoughts.
        kind: `event`; `summary` of several events; or `state`, shown beside the conversation.
        turn: which turn it belongs to; a turn is one user message and every event up to the next.
        timestamp: seconds since the epoch.
        invocation_id: the run it belongs to.
        branch: the parallel branch it happened on.
        files: its parts that are not text.
        function_calls: tool calls.
        function_responses: results of tools.
        tags: the labels in the event's metadata under `tags`.
        index: its place in the session.
        tier: what survives a budget longest; higher tiers stay.
        compacted: whether a summary that ADK made covers it.
    """

    author: str = ""
    origin: str = ""
    text: str = ""
    kind: Kind = "event"
    turn: int = 0
    timestamp: float = 0.0
    invocation_id: str = ""
    branch: str | None = None
    files: tuple[FileRef, ...] = ()
    function_calls: tuple[Call, ...] = ()
    function_responses: tuple[Response, ...] = ()
    tags: frozenset[str] = frozenset()
    index: int = -1
    tier: int = 0
    compacted: bool = False

    @property
    def is_user_message(self) -> bool:
        """Whether the person says something new; a posted tool result continues the turn instead."""
        return self.author == USER and bool(self.text or self.files)

    @property
    def is_tool_use(self) -> bool:
        """Whether it holds a tool call, its result, or code that a model runs."""
        code = any(file.mime_type == CODE for file in self.files)
        return bool(self.function_calls or self.function_responses) or code

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of it."""
        return not (self.text or self.files or self.function_calls or self.function_responses)

    @property
    def identity(self) -> tuple[str, int | str]:
        """What is the same for two versions of it."""
        return self.kind, self.index if self.kind == "event" else f"{self.author}: {self.text}"

    def by(self, names: Iterable[str]) -> bool:
        """Whether one of these agents is its author, under its own or its derived name."""
        return self.kind == "event" and bool({self.author, self.origin} & set(names))


Entries = tuple[Entry, ...]

CODE: Final = "text/x-code"
"""The `mime_type` of code that a model runs, and of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a spec is evaluated on.

    Attributes:
        history: the conversation without what is always sent.
        pinned: what is always sent: the current user message, and the agent's tool use of this turn.
        turn: the number of the current turn.
        agent: the agent the context is for.
        now: seconds since the epoch.
        state: the session's state.
        count_tokens: how tokens are counted where a spec does not say.
        removed: whether a step may remove a key; such a key is missing though it holds `None`.
    """

    history: tuple[Entry, ...] = ()
    pinned: tuple[Entry, ...] = ()
    turn: int = 0
    agent: str = ""
    now: float = 0.0
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    count_tokens: CountTokens = estimate_tokens
    removed: Callable[[str], bool] = field(default=lambda key: False)

    @property
    def message(self) -> str:
        """The text of the current user message."""
        return next((entry.text for entry in self.pinned if entry.is_user_message), "")


@dataclass(frozen=True, slots=True)
class Selection:
    """What an agent sees.

    Attributes:
        entries: what is selected, values of the state first, then the conversation in order.
        pinned: what is sent whatever the spec says; see `split`.
        untouched: whether the conversation is seen as it is, so that ADK can assemble it.
        writes: state keys that the selection itself writes (`C.extract`, `C.distill`).
        files: the artifacts that are sent along.
    """

    entries: Entries = ()
    pinned: Entries = ()
    untouched: bool = False
    writes: tuple[tuple[str, Any], ...] = ()
    files: tuple[str, ...] = ()

    @property
    def shown(self) -> Entries:
        """The values shown beside the conversation."""
        return tuple(entry for entry in self.entries if entry.kind == "state")

    @property
    def conversation(self) -> Entries:
        """What is selected of the conversation."""
        return tuple(entry for entry in self.entries if entry.kind != "state")


def split(entries: Iterable[Entry], agent: str) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """`(history, pinned)`: what a spec selects from, and what is sent whatever it says.

    Pinned are the current user message, and the tool calls and results of `agent` in this turn; and, for a
    result that answers a call of an earlier turn, that call.
    """
    listed = tuple(entries)
    events = [entry for entry in listed if entry.kind == "event"]
    turn = max((entry.turn for entry in events), default=0)
    current = [entry for entry in events if entry.turn == turn]
    called = {call.id for entry in events if entry.author == agent for call in entry.function_calls}
    pinned = {
        entry.index
        for entry in current
        if entry.is_user_message
        or (entry.author == agent and entry.is_tool_use)
        or any(response.id in called for response in entry.function_responses)
    }
    answered = {r.id for entry in events if entry.index in pinned for r in entry.function_responses}
    pinned |= {e.index for e in events if any(call.id in answered for call in e.function_calls)}
    history = tuple(e for e in listed if e.kind != "event" or e.index not in pinned)
    return history, tuple(e for e in events if e.index in pinned)


def keep_pairs(before: Iterable[Entry], after: Iterable[Entry]) -> tuple[Entry, ...]:
    """`after`, without tool calls that lost their result on the way from `before`, and the reverse."""
    kept = tuple(after)
    had = _calls(before) & _responses(before)
    torn = had & (_calls(kept) ^ _responses(kept))
    if not torn:
        return kept
    trimmed = (
        replace(
            entry,
            function_calls=tuple(c for c in entry.function_calls if c.id not in torn),
            function_responses=tuple(r for r in entry.function_responses if r.id not in torn),
        )
        for entry in kept
    )
    return tuple(entry for entry in trimmed if not entry.is_empty)


def _calls(entries: Iterable[Entry]) -> set[str]:
    return {call.id for entry in entries for call in entry.function_calls}


def _responses(entries: Iterable[Entry]) -> set[str]:
    return {response.id for entry in entries for response in entry.function_responses}
