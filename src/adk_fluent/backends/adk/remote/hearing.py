"""What a remote agent says, once: its pieces as they come, and its answer in the end.

Servers say things twice. A stream brings pieces, the whole message after them, and the same once more as the
result of the task; some send each piece with all that came before it. Here are plain values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

FAILED: Final = frozenset({"failed", "canceled", "rejected"})
"""The states in which a task has ended without a result."""


@dataclass(slots=True)
class Hearing:
    """What was heard so far.

    Attributes:
        said: the messages that are complete, in order: their text, and what else belongs to each.
        piece: what of the running message was given out in pieces.
        last: the last message that came in pieces, as far as it came.
        has_spoken: whether anything was given out.
        task: the ids of the task and of its conversation, as ADK notes them.
        state: the state of the task.
        is_refusing: whether it is told that a person does not agree.
    """

    said: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    piece: str = ""
    last: str = ""
    has_spoken: bool = False
    task: dict[str, Any] = field(default_factory=dict[str, Any])
    state: str = ""
    is_refusing: bool = False

    def note(self, task: dict[str, Any], state: str) -> None:
        """Take note of the task that is spoken of."""
        self.task |= task
        self.state = state or self.state

    def hear_piece(self, text: str, *, marked: bool = True) -> str:
        """Take in a piece of a message, and give what of it is new.

        Args:
            marked: whether the server says that it is a piece; if not, it may be the whole after its pieces.

        >>> hearing = Hearing()
        >>> [hearing.hear_piece(text, marked=False) for text in ("Hel", "lo", "Hello", "Hey")]
        ['Hel', 'lo', '', 'Hey']
        """
        self.has_spoken = self.has_spoken or bool(text)
        if not marked and text == self.piece:
            self.piece = ""
            return ""
        self.piece += text
        self.last = self.piece
        return text

    def hear(self, text: str, content: Any = None) -> str:
        """Take in a message, and give what of it is new.

        Args:
            content: what belongs to it.

        >>> hearing = Hearing()
        >>> [hearing.hear_piece("Hel"), hearing.hear("Hello"), hearing.hear("Hello"), hearing.said]
        ['Hel', 'lo', '', [('Hello', None)]]
        """
        if self.said and text.startswith(self.said[-1][0]):  # the same again, or grown
            self.said.pop()
        self.said.append((text, content))
        new = text[len(self.piece) :] if self.piece and text.startswith(self.piece) else ""
        self.piece = ""
        return new

    def end(self) -> None:
        """Take what came in pieces, and never whole, for a message."""
        if self.last and not self.said:
            self.said.append((self.last, None))


def state_in(metadata: Mapping[str, Any] | None) -> str:
    """The state of the task that ADK noted on an event, as version 0.3 of the protocol writes it.

    >>> state_in({"a2a:response": {"status": {"state": "TASK_STATE_INPUT_REQUIRED"}}})
    'input-required'
    """
    found = _noted(metadata, "status", "state")
    return str(getattr(found, "value", found) or "").lower().removeprefix("task_state_").replace("_", "-")


def is_echo(metadata: Mapping[str, Any] | None) -> bool:
    """Whether nothing was said yet in the task that ADK noted on an event, but what the caller said.

    >>> is_echo({"a2a:response": {"status": {"state": "submitted"}, "history": [{"role": "ROLE_USER"}]}})
    True
    """
    if state_in(metadata) not in ("submitted", "working") or _noted(metadata, "artifacts"):
        return False
    said: list[Any] = [*(_noted(metadata, "history") or ()), _noted(metadata, "status", "message")]
    role: Any = next((message.get("role") for message in reversed(said) if message), None)
    return str(getattr(role, "value", role)).lower() in ("user", "role_user")


def _noted(metadata: Mapping[str, Any] | None, *names: str) -> Any:
    """What ADK noted of a task under these names; enums are words in some releases, and enums in others."""
    found: Any = metadata
    for name in ("a2a:response", *names):
        found = cast("Mapping[str, Any]", found).get(name) if isinstance(found, Mapping) else None
    return found
