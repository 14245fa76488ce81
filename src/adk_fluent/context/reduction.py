"""Functions that make a selection smaller: compaction, removal of repeated texts, and fitting to a limit.

`fitted` leaves out whole groups of entries until the rest fits. A tool call and its results are one group,
because a provider refuses half a pair. It removes groups of the lowest tier first, then in the order of the
strategy. Only a text that exceeds the limit alone is cut. The simple way, to cut the joined text at the
limit, would tear pairs and lose state values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import sqrt
from typing import Final

from adk_fluent.context.entries import (
    CallPart,
    CountTokens,
    Entries,
    Entry,
    ResponsePart,
    Scene,
    line,
    tokens,
)

Narrowing = Callable[[Entries, Scene], Entries]


def on_events(narrow: Narrowing, entries: Entries, scene: Scene) -> Entries:
    """Apply `narrow` to the conversation, and keep the state values beside it."""
    shown = tuple(entry for entry in entries if entry.kind == "state")
    return shown + narrow(tuple(entry for entry in entries if entry.kind != "state"), scene)


def compacted(entries: Entries, scene: Scene) -> Entries:
    """Join adjacent texts of one author, and write each finished tool call and its result in one line."""
    results = {answer.id: answer.result for entry in entries for answer in entry.function_responses}
    calls = {call.id for entry in entries for call in entry.function_calls}
    done = results.keys() & calls
    merged: list[Entry] = []
    for entry in entries:
        small = _collapsed(entry, results, done)
        if small.is_empty:
            continue
        if merged and _adjoins(merged[-1], small):
            joined = "\n".join(filter(None, (merged[-1].text, small.text)))
            merged[-1] = replace(merged[-1], text=joined)
        else:
            merged.append(small)
    return tuple(merged)


def _collapsed(entry: Entry, results: Mapping[str, str], done: Iterable[str]) -> Entry:
    """Replace each finished tool call in an entry by one line of text, which includes the result."""
    finished = [call for call in entry.function_calls if call.id in done]
    lines = [f"({call.name}({call.args}) gave {results[call.id]})" for call in finished]
    return replace(
        entry,
        text="\n".join(filter(None, [entry.text, *lines])),
        function_calls=tuple(call for call in entry.function_calls if call.id not in done),
        function_responses=tuple(r for r in entry.function_responses if r.id not in done),
    )


def _adjoins(first: Entry, second: Entry) -> bool:
    plain = not (first.files or second.files or first.is_tool_use or second.is_tool_use)
    same = first.kind == second.kind == "event" and first.author == second.author
    return plain and same and first.branch == second.branch and first.turn == second.turn


SIMILAR: Final = 0.85
"""The least cosine between the word counts of two texts that `dedup("semantic")` takes for the same."""


def once(entries: Entries, strategy: str) -> Entries:
    """Keep each text once, at its first place."""
    kept: list[Entry] = []
    seen: set[str] = set()
    alike = _Alike()
    for entry in entries:
        if entry.text and not entry.files and not entry.is_tool_use:
            words = entry.text if strategy == "exact" else " ".join(_words(entry.text)) or entry.text.strip()
            if words in seen or (strategy == "semantic" and alike.has(words)):
                continue
            seen.add(words)
            if strategy == "semantic":
                alike.add(words)
        kept.append(entry)
    return tuple(kept)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


class _Alike:
    """An index of texts that finds one with nearly the same words as another text."""

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[int, int]]] = {}
        """Word → the indexes of the texts that have it, with the counts."""
        self._sizes: list[float] = []

    def has(self, text: str) -> bool:
        """True if an added text and this text have word counts with a cosine of at least `SIMILAR`."""
        counts = Counter(text.split())
        size = sqrt(sum(n * n for n in counts.values()))
        products: Counter[int] = Counter()
        for word, count in counts.items():
            for place, other in self._places.get(word, ()):
                products[place] += count * other
        return any(product >= SIMILAR * size * self._sizes[place] for place, product in products.items())

    def add(self, text: str) -> None:
        """Add a text to the index."""
        counts = Counter(text.split())
        for word, count in counts.items():
            self._places.setdefault(word, []).append((len(self._sizes), count))
        self._sizes.append(sqrt(sum(n * n for n in counts.values())))


def _unchanged(entries: Entries, scene: Scene) -> Entries:
    return entries


def _without_repeats(entries: Entries, scene: Scene) -> Entries:
    return once(entries, "normalized")


SHRINKING: Final[tuple[Narrowing, ...]] = (_unchanged, compacted, _without_repeats)
"""The steps to try, one after another, before entries are left out."""


def fitted(entries: Entries, limit: int, count: CountTokens, strategy: str = "tail") -> Entries:
    """Leave out entries until the rest has at most `limit` tokens.

    It leaves out entries of the lowest tier first. Among these, `strategy` decides: `tail` leaves out the
    oldest, `head` the newest, and `middle` those in the middle; state values are last. A tool call and its
    results go together. A text that exceeds the limit alone is cut, if a part of it fits beside the rest.
    """
    costs = [count(line(entry) + "\n") for entry in entries]
    total = sum(costs)
    dropped: set[int] = set()
    for group in sorted(_groups(entries), key=_sacrifice(entries, strategy)):
        if total <= limit:
            break
        dropped.update(group)
        total -= sum(costs[position] for position in group)
        if total <= limit and len(group) == 1 and costs[group[0]] > limit:
            (position,) = group
            piece = _cut(entries[position], limit - total, count, from_start=strategy == "head")
            if piece is not None:
                return tuple(
                    piece if i == position else entry
                    for i, entry in enumerate(entries)
                    if i == position or i not in dropped
                )
    return tuple(entry for i, entry in enumerate(entries) if i not in dropped)


def _groups(entries: Entries) -> list[tuple[int, ...]]:
    """The positions of entries in groups that stay or go together: a tool call with its results."""
    owner: dict[str, int] = {}
    groups: dict[int, list[int]] = {}
    for position, entry in enumerate(entries):
        linked = [owner[i] for i in (x.id for x in _uses(entry)) if i in owner]
        first = min(linked, default=position)
        for other in {*linked} - {first}:
            groups[first] += groups.pop(other)
            owner = {key: first if at == other else at for key, at in owner.items()}
        groups.setdefault(first, []).append(position)
        owner |= {use.id: first for use in _uses(entry) if use.id}
    return [tuple(sorted(group)) for group in groups.values()]


def _uses(entry: Entry) -> tuple[CallPart | ResponsePart, ...]:
    return (*entry.function_calls, *entry.function_responses)


def _sacrifice(entries: Entries, strategy: str) -> Callable[[tuple[int, ...]], tuple[int, bool, float]]:
    middle = (len(entries) - 1) / 2
    orders: dict[str, Callable[[int], float]] = {
        "tail": lambda position: position,
        "head": lambda position: -position,
        "middle": lambda position: abs(position - middle),
    }

    def order(group: tuple[int, ...]) -> tuple[int, bool, float]:
        first = entries[group[0]]
        return max(entries[i].tier for i in group), first.kind == "state", orders[strategy](group[0])

    return order


CUT: Final = "[...]"
"""The mark where text was cut off."""


def _cut(entry: Entry, limit: int, count: CountTokens, *, from_start: bool) -> Entry | None:
    """The entry with the longest start or end of its text that fits; `None` if none fits."""
    if not entry.text or entry.files or entry.is_tool_use:
        return None

    def piece(size: int) -> Entry:
        text = entry.text[:size] + CUT if from_start else CUT + entry.text[len(entry.text) - size :]
        return replace(entry, text=text)

    low, high = 0, len(entry.text) - 1
    while low < high:
        size = (low + high + 1) // 2
        low, high = (size, high) if tokens([piece(size)], count) <= limit else (low, size - 1)
    return piece(low) if low > 0 and tokens([piece(low)], count) <= limit else None
