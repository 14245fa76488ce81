"""Entries as text: the block that an instruction ends with, and what its tokens are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from adk_fluent.context.entries import CountTokens, Entry

TAG: Final = "conversation_context"
"""The element that holds the context inside an instruction."""

TEMPLATE: Final = ""
"""The author of an entry that a template made: it is shown without a label."""


def block(entries: Iterable[Entry]) -> str:
    """The context as an instruction carries it; empty for no entries.

    >>> print(block([Entry(author="user", text="Hello"), Entry(author="tone", kind="state", text="warm")]))
    <conversation_context>
    [user]: Hello
    [tone]: warm
    </conversation_context>
    """
    lines = text(entries)
    return f"<{TAG}>\n{lines}\n</{TAG}>" if lines else ""


def text(entries: Iterable[Entry]) -> str:
    """Entries one under the other, as in the block."""
    return "\n".join(line(entry) for entry in entries)


def line(entry: Entry) -> str:
    """One entry: `[author]: text`, tool use and files in words."""
    said = [entry.text] if entry.text else []
    said += [f"(calls {call.name}({call.args}))" for call in entry.function_calls]
    said += [f"({answer.name} gave {answer.result})" for answer in entry.function_responses]
    said += [f"({file.name or 'attached'}: {file.mime_type})" for file in entry.files]
    # Text that closes the element itself could pass for instructions that follow it.
    shown = " ".join(said).replace(f"</{TAG}", f"<\\/{TAG}")
    if entry.kind == "state" and entry.author == TEMPLATE:
        return shown
    return f"[{'summary' if entry.kind == 'summary' else entry.author}]: {shown}"


def show(value: object) -> str:
    """A value of the state as text: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def tokens(entries: Iterable[Entry], count: CountTokens) -> int:
    """Tokens of entries in the block, line ends included, without the element around them."""
    return sum(count(line(entry) + "\n") for entry in entries)
