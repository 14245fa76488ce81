"""The `C` operations that narrow or change a selection without a model."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from adk_fluent.context.entries import CountTokens, Entries, Entry, Scene, Selection, keep_pairs, tokens
from adk_fluent.context.reduction import SHRINKING, compacted, fitted, on_events, once
from adk_fluent.context.spec import Context
from adk_fluent.context.view import ContextView
from adk_fluent.ir.frozen import frozen

if TYPE_CHECKING:
    from adk_fluent.context.entries import Selecting


class EntryFilter(Context):
    """Base of the operations that keep some entries of a selection, or changed versions of them."""

    __slots__ = ()

    neutral: ClassVar[bool] = False
    """True if the conversation stays as it is."""
    everything: ClassVar[bool] = False
    """True if it also filters the state values beside the conversation."""
    tears: ClassVar[bool] = False
    """True if it may keep tool calls without their results, or results without their calls."""

    @property
    def is_untouched(self) -> bool:
        return self.neutral

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        """Return the entries that it keeps."""
        return entries

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        yield from ()
        if self.everything:
            return self.left(given, self.kept(given.entries, scene))
        return self.left(given, on_events(self.kept, given.entries, scene))

    def left(self, given: Selection, entries: Entries) -> Selection:
        """The given selection with only these entries; tool calls and results stay in pairs."""
        if not self.tears:
            entries = keep_pairs(given.entries, entries)
        return replace(given, entries=entries, untouched=given.untouched and self.neutral)

    def view_after(self, given: ContextView) -> ContextView:
        return given if self.neutral else given.some(unknown=True)


@frozen
class RecentTurns(EntryFilter):
    """Keeps turns whose weight is at least `min_weight`; the weight halves every `half_life` turns."""

    op: ClassVar[str] = "recent"

    half_life: float
    min_weight: float

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return tuple(e for e in entries if 0.5 ** ((scene.turn - e.turn) / self.half_life) >= self.min_weight)


@frozen
class Fresh(EntryFilter):
    """Keeps events that are at most `max_age` seconds old."""

    op: ClassVar[str] = "fresh"

    max_age: float

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return tuple(entry for entry in entries if scene.now - entry.timestamp <= self.max_age)


@frozen
class Compact(EntryFilter):
    """Joins adjacent texts of one author, and writes each finished tool call and its result in one line."""

    op: ClassVar[str] = "compact"

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return compacted(entries, scene)

    @property
    def writes_calls_as_text(self) -> bool:
        return True

    def view_after(self, given: ContextView) -> ContextView:
        return given.some()  # it keeps every text, in another shape


@frozen
class Dedup(EntryFilter):
    """Keeps each text once."""

    op: ClassVar[str] = "dedup"

    strategy: str

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return once(entries, self.strategy)


FIELDS: Final = ("text", "function_calls", "function_responses", "files")
"""The parts of an event."""


@frozen
class Project(EntryFilter):
    """Keeps only some parts of each event, such as its text."""

    op: ClassVar[str] = "project"
    spread: ClassVar[str] = "fields"
    tears: ClassVar[bool] = True

    fields: tuple[str, ...]

    @property
    def drops_calls(self) -> bool:
        return "function_calls" not in self.fields

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        left = (
            replace(
                entry,
                text=entry.text if "text" in self.fields else "",
                function_calls=entry.function_calls if "function_calls" in self.fields else (),
                function_responses=entry.function_responses if "function_responses" in self.fields else (),
                files=entry.files if "files" in self.fields else (),
            )
            for entry in entries
        )
        return tuple(entry for entry in left if not entry.is_empty)


# --- limits, which also count the state values beside the conversation ----------------------------


@frozen
class Priority(EntryFilter):
    """Sets the tier of all selected entries; a budget leaves out entries of the lowest tier first."""

    op: ClassVar[str] = "priority"
    everything: ClassVar[bool] = True
    neutral: ClassVar[bool] = True

    tier: int

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        return tuple(replace(entry, tier=self.tier) for entry in entries)


@frozen
class Truncate(EntryFilter):
    """Keeps at most `max_turns` turns, `max_tokens` tokens, or both."""

    op: ClassVar[str] = "truncate"
    everything: ClassVar[bool] = True

    max_turns: int | None
    max_tokens: int | None
    strategy: str
    count_tokens: CountTokens | None

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        if self.max_turns is not None:
            kept = self._turns(entries, scene, self.max_turns)
            entries = tuple(e for e in entries if e.kind == "state" or e.turn in kept)
        if self.max_tokens is not None:
            entries = fitted(entries, self.max_tokens, self.count_tokens or scene.count_tokens, self.strategy)
        return entries

    def _turns(self, entries: Entries, scene: Scene, most: int) -> set[int]:
        # The current turn counts as one of them, even if none of its events is left to select.
        turns = sorted({scene.turn, *(entry.turn for entry in entries if entry.kind != "state")})
        ends = {"tail": turns[-most:], "head": turns[:most]}
        half = (most + 1) // 2
        middle = turns if len(turns) <= most else turns[:half] + turns[len(turns) - most + half :]
        return set(ends.get(self.strategy, middle))


@frozen
class Fit(EntryFilter):
    """Compacts, removes repetition, then truncates, until the selection has at most `max_tokens` tokens."""

    op: ClassVar[str] = "fit"
    everything: ClassVar[bool] = True

    max_tokens: int
    count_tokens: CountTokens | None

    @property
    def writes_calls_as_text(self) -> bool:
        return True

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        count = self.count_tokens or scene.count_tokens
        for smaller in SHRINKING:
            entries = on_events(smaller, entries, scene)
            if tokens(entries, count) <= self.max_tokens:
                return entries
        return fitted(entries, self.max_tokens, count)


@frozen
class Redact(EntryFilter):
    """Replaces every match of regular expressions, also in the current user message."""

    op: ClassVar[str] = "redact"
    everything: ClassVar[bool] = True

    patterns: tuple[tuple[str, int], ...]
    replacement: str

    def kept(self, entries: Entries, scene: Scene) -> Entries:
        found = [re.compile(pattern, flags) for pattern, flags in self.patterns]

        def clean(text: str) -> str:
            for pattern in found:
                text = pattern.sub(lambda _: self.replacement, text)
            return text

        return tuple(
            replace(
                entry,
                text=clean(entry.text),
                function_calls=tuple(replace(call, args=clean(call.args)) for call in entry.function_calls),
                function_responses=tuple(
                    replace(response, result=clean(response.result)) for response in entry.function_responses
                ),
            )
            for entry in entries
        )

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        chosen = yield from EntryFilter.applied(self, given, scene)
        pinned = zip(self.kept(given.pinned, scene), given.pinned, strict=True)
        return replace(chosen, pinned=tuple(_as_called(new, old) for new, old in pinned))

    def view_after(self, given: ContextView) -> ContextView:
        return replace(given.some(unknown=True), message=False)

    def _arguments(self) -> list[str]:
        return [*(repr(pattern) for pattern, _ in self.patterns), f"replacement={self.replacement!r}"]


def _as_called(new: Entry, old: Entry) -> Entry:
    """Restore the agent's own tool calls, because providers check them against their signatures."""
    return replace(new, function_calls=old.function_calls)
