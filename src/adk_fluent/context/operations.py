"""What each `C` selection and filter does: pure functions from entries to entries.

Every function takes the entries, the `Scene`, and the parameters of its factory. Those of `EVENTS` see only
the conversation; those of `EVERYTHING` also the values shown beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import sqrt
from typing import Final

from adk_fluent.context.entries import Call, CountTokens, Entry, Response, Scene
from adk_fluent.context.rendering import line, tokens
from adk_fluent.errors import ContextError

Entries = tuple[Entry, ...]


# --- selection ------------------------------------------------------------------------------------


def default(entries: Entries, scene: Scene) -> Entries:
    return tuple(entry for entry in entries if not entry.compacted)


def none(entries: Entries, scene: Scene) -> Entries:
    return ()


def user_only(entries: Entries, scene: Scene) -> Entries:
    return tuple(entry for entry in entries if entry.is_user_message)


def user(entries: Entries, scene: Scene, strategy: str) -> Entries:
    said = user_only(entries, scene)
    has_current = any(entry.is_user_message for entry in scene.pinned)
    last = said[-1:] if not has_current else ()
    chosen = {"all": said, "first": said[:1], "last": last, "bookend": (*said[:1], *last)}[strategy]
    return tuple(dict.fromkeys(chosen))


def from_agents(entries: Entries, scene: Scene, names: tuple[str, ...]) -> Entries:
    return tuple(entry for entry in entries if entry.is_user_message or entry.by(names))


def exclude_agents(entries: Entries, scene: Scene, names: tuple[str, ...]) -> Entries:
    # A summary that ADK made may hold what an excluded agent said; the events it covers are here as well.
    return tuple(entry for entry in entries if entry.kind == "event" and not entry.by(names))


def window(entries: Entries, scene: Scene, n: int) -> Entries:
    return tuple(entry for entry in entries if entry.kind == "event" and entry.turn > scene.turn - n)


def from_agents_windowed(entries: Entries, scene: Scene, pairs: tuple[tuple[str, int], ...]) -> Entries:
    kept = {entry.index for entry in entries if entry.is_user_message}
    for name, n in pairs:
        mine = [entry for entry in entries if entry.by([name])]
        said = [entry.index for entry in mine if entry.text][-n:]
        kept |= {entry.index for entry in mine if said and entry.index >= said[0]}
    return tuple(entry for entry in entries if entry.kind == "event" and entry.index in kept)


def select(
    entries: Entries, scene: Scene, author: tuple[str, ...] | None, type: str | None, tag: str | None
) -> Entries:
    return tuple(
        entry
        for entry in entries
        if entry.kind == "event"
        and (author is None or entry.by(author))
        and (type is None or _TYPES[type](entry))
        and (tag is None or tag in entry.tags)
    )


_TYPES: Final[Mapping[str, Callable[[Entry], bool]]] = {
    "text": lambda entry: bool(entry.text),
    "tool_call": lambda entry: bool(entry.function_calls),
    "tool_response": lambda entry: bool(entry.function_responses),
    "file": lambda entry: bool(entry.files),
}
ENTRY_TYPES: Final = tuple(_TYPES)


# --- filtering ------------------------------------------------------------------------------------


def recent(entries: Entries, scene: Scene, half_life: float, min_weight: float) -> Entries:
    return tuple(e for e in entries if 0.5 ** ((scene.turn - e.turn) / half_life) >= min_weight)


def fresh(entries: Entries, scene: Scene, max_age: float) -> Entries:
    return tuple(entry for entry in entries if scene.now - entry.timestamp <= max_age)


def compact(entries: Entries, scene: Scene) -> Entries:
    results = {answer.id: answer.result for entry in entries for answer in entry.function_responses}
    calls = {call.id for entry in entries for call in entry.function_calls}
    done = results.keys() & calls
    merged: list[Entry] = []
    for entry in entries:
        small = _collapsed(entry, results, done)
        if small.is_empty:
            continue
        if merged and _adjoins(merged[-1], small):
            said = "\n".join(filter(None, (merged[-1].text, small.text)))
            merged[-1] = replace(merged[-1], text=said)
        else:
            merged.append(small)
    return tuple(merged)


def _collapsed(entry: Entry, results: Mapping[str, str], done: Iterable[str]) -> Entry:
    """The entry with each finished tool call, and its result, as one piece of text at the call."""
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
"""Texts whose word counts have at least this cosine say the same, for `dedup("semantic")`."""


def dedup(entries: Entries, scene: Scene, strategy: str) -> Entries:
    kept: list[Entry] = []
    seen: set[str] = set()
    alike = _Alike()
    for entry in entries:
        if entry.text and not entry.files and not entry.is_tool_use:
            said = entry.text if strategy == "exact" else " ".join(_words(entry.text)) or entry.text.strip()
            if said in seen or (strategy == "semantic" and alike.has(said)):
                continue
            seen.add(said)
            if strategy == "semantic":
                alike.add(said)
        kept.append(entry)
    return tuple(kept)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


class _Alike:
    """Texts that can be asked whether one of them has nearly the words of another text."""

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[int, int]]] = {}
        """Word → the texts that have it, and how often."""
        self._sizes: list[float] = []

    def has(self, text: str) -> bool:
        """Whether the word counts of a text and of one that was added have a cosine of at least `SIMILAR`."""
        counts = Counter(text.split())
        size = sqrt(sum(n * n for n in counts.values()))
        products: Counter[int] = Counter()
        for word, count in counts.items():
            for place, other in self._places.get(word, ()):
                products[place] += count * other
        return any(product >= SIMILAR * size * self._sizes[place] for place, product in products.items())

    def add(self, text: str) -> None:
        """Remember a text."""
        counts = Counter(text.split())
        for word, count in counts.items():
            self._places.setdefault(word, []).append((len(self._sizes), count))
        self._sizes.append(sqrt(sum(n * n for n in counts.values())))


def project(entries: Entries, scene: Scene, fields: tuple[str, ...]) -> Entries:
    left = (
        replace(
            entry,
            text=entry.text if "text" in fields else "",
            function_calls=entry.function_calls if "function_calls" in fields else (),
            function_responses=entry.function_responses if "function_responses" in fields else (),
            files=entry.files if "files" in fields else (),
        )
        for entry in entries
    )
    return tuple(entry for entry in left if not entry.is_empty)


FIELDS: Final = ("text", "function_calls", "function_responses", "files")


# --- constraints, also on what is shown beside the conversation -----------------------------------


def priority(entries: Entries, scene: Scene, tier: int) -> Entries:
    return tuple(replace(entry, tier=tier) for entry in entries)


def truncate(
    entries: Entries,
    scene: Scene,
    max_turns: int | None,
    max_tokens: int | None,
    strategy: str,
    count_tokens: CountTokens | None,
) -> Entries:
    if max_turns is not None:
        # The running turn is one of them, also while nothing of it is left to choose from.
        turns = sorted({scene.turn, *(entry.turn for entry in entries if entry.kind != "state")})
        ends = {"tail": turns[-max_turns:], "head": turns[:max_turns]}
        half = (max_turns + 1) // 2
        middle = turns if len(turns) <= max_turns else turns[:half] + turns[len(turns) - max_turns + half :]
        kept = set(ends.get(strategy, middle))
        entries = tuple(e for e in entries if e.kind == "state" or e.turn in kept)
    if max_tokens is not None:
        entries = fitted(entries, max_tokens, count_tokens or scene.count_tokens, strategy)
    return entries


def budget(
    entries: Entries, scene: Scene, max_tokens: int, overflow: str, count_tokens: CountTokens | None
) -> Entries:
    count = count_tokens or scene.count_tokens
    if overflow == "error" and (needed := tokens(entries, count)) > max_tokens:
        raise ContextError(
            f"Agent {scene.agent!r}: its context needs {needed} tokens, but C.budget({max_tokens}, "
            "overflow='error') allows no more. Select less, or let it truncate."
        )
    return fitted(entries, max_tokens, count)


def fit(entries: Entries, scene: Scene, max_tokens: int, count_tokens: CountTokens | None) -> Entries:
    count = count_tokens or scene.count_tokens
    for smaller in SHRINKING:
        entries = on_events(smaller, entries, scene)
        if tokens(entries, count) <= max_tokens:
            return entries
    return fitted(entries, max_tokens, count)


def _unchanged(entries: Entries, scene: Scene) -> Entries:
    return entries


def _without_repeats(entries: Entries, scene: Scene) -> Entries:
    return dedup(entries, scene, "normalized")


SHRINKING: Final = (_unchanged, compact, _without_repeats)
"""What is tried, one after another, to make a context fit before anything is left out."""


def on_events(fn: Callable[..., Entries], entries: Entries, scene: Scene, **params: object) -> Entries:
    """Apply a function of `EVENTS` to the conversation, leaving what is shown beside it."""
    shown = tuple(entry for entry in entries if entry.kind == "state")
    return shown + fn(tuple(entry for entry in entries if entry.kind != "state"), scene, **params)


def fitted(entries: Entries, limit: int, count: CountTokens, strategy: str = "tail") -> Entries:
    """What of `entries` fits into `limit` tokens.

    Of entries of the lowest tier, those go first that `strategy` gives up: the oldest for `tail`, the newest
    for `head`, the middle ones for `middle`; values of the state go last. A call and its result go together.
    A text that would not even fit alone is cut short, if a piece of it fits beside the rest.
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
    """Positions that must stay or go together: a tool call with its results."""
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


def _uses(entry: Entry) -> tuple[Call | Response, ...]:
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
"""Stands where text was cut off."""


def _cut(entry: Entry, limit: int, count: CountTokens, *, from_start: bool) -> Entry | None:
    """The entry with as much of its text as fits, from its start or its end; `None` if nothing does."""
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


def redact(
    entries: Entries, scene: Scene, patterns: tuple[tuple[str, int], ...], replacement: str
) -> Entries:
    found = [re.compile(pattern, flags) for pattern, flags in patterns]

    def clean(text: str) -> str:
        for pattern in found:
            text = pattern.sub(lambda _: replacement, text)
        return text

    return tuple(
        replace(
            entry,
            text=clean(entry.text),
            function_calls=tuple(replace(call, args=clean(call.args)) for call in entry.function_calls),
            function_responses=tuple(replace(r, result=clean(r.result)) for r in entry.function_responses),
        )
        for entry in entries
    )


EVENTS: Final[Mapping[str, Callable[..., Entries]]] = {
    "default": default,
    "none": none,
    "user_only": user_only,
    "user": user,
    "from_agents": from_agents,
    "exclude_agents": exclude_agents,
    "window": window,
    "from_agents_windowed": from_agents_windowed,
    "select": select,
    "recent": recent,
    "fresh": fresh,
    "compact": compact,
    "dedup": dedup,
    "project": project,
}
EVERYTHING: Final[Mapping[str, Callable[..., Entries]]] = {
    "priority": priority,
    "truncate": truncate,
    "budget": budget,
    "fit": fit,
    "redact": redact,
}
