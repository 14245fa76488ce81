"""The values that a context spec works with: entries of a conversation, selections, and helper requests.

A spec selects from a conversation as plain entries. If it needs a helper model, it yields an `Ask` and
receives the answer, so everything except the call of the model is a pure function. The answer `None` means
that the call failed; then the operation leaves the selection as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from google.adk.models import BaseLlm
    from pydantic import BaseModel

USER: Final = "user"
"""The author of the user's messages, in ADK's events and here."""

Kind = Literal["event", "summary", "state"]

CountTokens = Callable[[str], int]
"""Counts the tokens of a text."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text at four characters each, rounded up.

    Four is the usual rule of thumb for English with the tokenizers of current models. If the number must be
    exact, pass your tokenizer as `count_tokens=`.

    >>> estimate_tokens("abcde")
    2
    """
    return -(-len(text) // 4)


@dataclass(frozen=True, slots=True)
class FileRef:
    """A part that is not text: an image, a file, code.

    Attributes:
        mime_type: its MIME type, such as `image/png`.
        at: the index of the event, and the index of the part in that event.
        name: the file's name; empty if it has none.
    """

    mime_type: str
    at: tuple[int, int]
    name: str = ""


@dataclass(frozen=True, slots=True)
class CallPart:
    """A part that is a model's call of a tool; `args` is JSON."""

    name: str
    args: str
    id: str
    at: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True)
class ResponsePart:
    """A part that is the result of a tool call; `result` is JSON."""

    name: str
    result: str
    id: str
    at: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event of a conversation, a summary of several events, or one state value beside them.

    Attributes:
        author: `user`, or the agent that wrote it; for a state value, its key.
        origin: the name that the user gave to that agent, if the same agent is used in several steps.
        text: its text, without the model's thoughts.
        kind: `event`; `summary` of several events; or `state`, a value shown beside the conversation.
        turn: the number of its turn; a turn is one user message and all events up to the next.
        timestamp: seconds since the epoch.
        invocation_id: the ID of its run.
        branch: its parallel branch, as ADK names it.
        files: its parts that are not text.
        function_calls: its tool calls.
        function_responses: its results of tools.
        tags: the labels in the event's metadata under `tags`.
        index: its position in the session.
        tier: its priority in a budget; entries of the lowest tier are left out first.
        compacted: True if a summary that ADK made covers it.
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
    function_calls: tuple[CallPart, ...] = ()
    function_responses: tuple[ResponsePart, ...] = ()
    tags: frozenset[str] = frozenset()
    index: int = -1
    tier: int = 0
    compacted: bool = False

    @property
    def is_user_message(self) -> bool:
        """True for a message of the user with text or files; a posted tool result does not start a turn."""
        return self.author == USER and bool(self.text or self.files)

    @property
    def is_tool_use(self) -> bool:
        """True if it holds a tool call, a result of one, or code that a model runs."""
        code = any(file.mime_type == CODE for file in self.files)
        return bool(self.function_calls or self.function_responses) or code

    @property
    def is_empty(self) -> bool:
        """True if it has no parts any more."""
        return not (self.text or self.files or self.function_calls or self.function_responses)

    @property
    def identity(self) -> tuple[str, int | str]:
        """A key that two versions of the same entry share."""
        return self.kind, self.index if self.kind == "event" else f"{self.author}: {self.text}"

    def by(self, names: Iterable[str]) -> bool:
        """True if one of these agents is its author, by the name of the agent or of its step."""
        return self.kind == "event" and bool({self.author, self.origin} & set(names))


Entries = tuple[Entry, ...]

CODE: Final = "text/x-code"
"""The `mime_type` of code that a model runs, and of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The input of a spec: the conversation, the state and the time.

    Attributes:
        history: the conversation without the pinned entries; the spec selects from it.
        pinned: entries that are always sent: the current user message, and the agent's tool use of this turn.
        turn: the number of the current turn.
        agent: the agent whose context it is.
        now: the current time, in seconds since the epoch.
        state: the session's state.
        count_tokens: counts tokens, unless a spec has its own function.
        removed: returns True for a key that a step may remove. If such a key holds `None`, it is missing.
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
    """The result of a spec: everything that an agent's model receives of the conversation.

    Attributes:
        entries: the selected entries: state values first, then the conversation in order.
        pinned: entries that are always sent; see `split`.
        untouched: True if the conversation is unchanged, so that ADK can assemble it.
        writes: state keys that the spec writes with their values (`C.extract`, `C.distill`).
        files: names of the artifacts that are sent, too.
    """

    entries: Entries = ()
    pinned: Entries = ()
    untouched: bool = False
    writes: tuple[tuple[str, Any], ...] = ()
    files: tuple[str, ...] = ()

    @property
    def shown(self) -> Entries:
        """The selected state values."""
        return tuple(entry for entry in self.entries if entry.kind == "state")

    @property
    def conversation(self) -> Entries:
        """The selected entries of the conversation."""
        return tuple(entry for entry in self.entries if entry.kind != "state")


def split(entries: Iterable[Entry], agent: str) -> tuple[tuple[Entry, ...], tuple[Entry, ...]]:
    """Split a conversation in `(history, pinned)`: a spec selects from `history`; `pinned` is always sent.

    Pinned entries are the current user message, and the tool calls and results of `agent` in this turn. If
    one of these results answers a call of an earlier turn, that call is pinned, too: a provider refuses a
    result without its call.
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
    """Remove from `after` each tool call whose result is only in `before`, and each such result.

    A provider refuses a request with half a pair. A call that had no result in `before` stays.
    """
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


# --- entries as text ------------------------------------------------------------------------------

TAG: Final = "conversation_context"
"""The name of the XML element that holds the context inside an instruction."""

TEMPLATE: Final = ""
"""The author of an entry that a template made: its text has no label."""


def block(entries: Iterable[Entry]) -> str:
    """The text of entries in their element, for an instruction; empty for no entries.

    >>> print(block([Entry(author="user", text="Hello"), Entry(author="tone", kind="state", text="warm")]))
    <conversation_context>
    [user]: Hello
    [tone]: warm
    </conversation_context>
    """
    lines = text(entries)
    return f"<{TAG}>\n{lines}\n</{TAG}>" if lines else ""


def text(entries: Iterable[Entry]) -> str:
    """The text of entries, one line each, as in the block."""
    return "\n".join(line(entry) for entry in entries)


def line(entry: Entry) -> str:
    """The text of one entry: `[author]: text`, with tool use and files in words."""
    parts = [entry.text] if entry.text else []
    parts += [f"(calls {call.name}({call.args}))" for call in entry.function_calls]
    parts += [f"({answer.name} gave {answer.result})" for answer in entry.function_responses]
    parts += [f"({file.name or 'attached'}: {file.mime_type})" for file in entry.files]
    # A text that closes the element could end with words that the model takes for instructions.
    text = " ".join(parts).replace(f"</{TAG}", f"<\\/{TAG}")
    if entry.kind == "state" and entry.author == TEMPLATE:
        return text
    return f"[{'summary' if entry.kind == 'summary' else entry.author}]: {text}"


def show(value: object) -> str:
    """Write a state value as text: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def tokens(entries: Iterable[Entry], count: CountTokens) -> int:
    """Count the tokens of entries in the block, line ends included, without the element around them."""
    return sum(count(line(entry) + "\n") for entry in entries)


# --- requests to a helper model -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a helper model.

    Attributes:
        operation: the name of the `C` operation that asks.
        model: a model name or a `BaseLlm`; `None` is the agent's own model.
        prompt: the text of the request.
        schema: the pydantic model for the answer; `None` for an answer in text.
        texts: for an embedding model, the texts to embed; there is no prompt then.
    """

    operation: str
    model: str | BaseLlm | None
    prompt: str = ""
    schema: type[BaseModel] | None = None
    texts: tuple[str, ...] = ()


Answer = Any
"""A text; for an embedding model a list of vectors; `None` if the call failed."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The spec yields this if it cannot use an answer; then it continues as after a failed call."""

    operation: str
    reason: str


Exchange = Ask | Rejected
Result = tuple[Entries, tuple[tuple[str, Any], ...]]
"""The remaining entries, and the state keys to write with their values."""
Asking = Generator[Exchange, Answer, Result]
Shortening = Generator[Exchange, Answer, Entries]
Selecting = Generator[Exchange, Answer, Selection]
