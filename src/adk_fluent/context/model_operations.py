"""The `C` operations that ask a model: they yield an `Ask` and are sent the answer."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, ClassVar, Final, Protocol, cast

from adk_fluent.context.asking import (
    Answer,
    Ask,
    Asking,
    Exchange,
    Expected,
    Question,
    Rejected,
    Selecting,
    Shortening,
    Volume,
)
from adk_fluent.context.entries import CountTokens, Entries, Entry, Scene, Selection
from adk_fluent.context.filters import Filter
from adk_fluent.context.fitting import SHRINKING, fitted, on_events
from adk_fluent.context.rendering import show, text, tokens
from adk_fluent.context.sources import last_turns
from adk_fluent.context.spec import SELECTS
from adk_fluent.errors import ContextError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyRead


class Embedder(Protocol):
    """An embedding model: a vector for each text, at once or to be awaited."""

    def embed(self, texts: list[str], /) -> Sequence[Sequence[float]] | Awaitable[Sequence[Sequence[float]]]:
        """The vectors of some texts, in their order."""
        ...


class Asked(Filter):
    """Leaves what a model says; an answer of `None`, for a failed call, leaves the selection as it is."""

    __slots__ = ()

    @property
    def asks(self) -> bool:
        return True

    @property
    def tells_calls(self) -> bool:
        return True

    def asking(self, entries: Entries, scene: Scene) -> Asking:
        """What is kept of some entries, and what is written to state."""
        return (yield from self.shortened(entries, scene)), ()

    def shortened(self, entries: Entries, scene: Scene) -> Shortening:
        """What is kept of some entries, where nothing is written."""
        yield from ()
        return entries

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        entries, written = yield from self.asking(given.entries, scene)
        return replace(self.left(given, entries), writes=given.writes + written)

    def asked_once(self, model: Any, prompt: str, tokens: float, answer: float | None) -> tuple[Question]:
        """One question: a prompt with so many tokens of the conversation, at four characters a token."""
        return (Question(f"C.{self.op}", model, len(prompt) / _CHARACTERS + tokens, answer),)


_CHARACTERS: Final = 4
"""Characters per token of the prompts below, which are English."""

SUMMARIZE: Final = (
    "Summarize the conversation below for an agent that continues it. Keep names, numbers, decisions and "
    "open questions; leave out greetings and repetition. Answer with the summary alone."
)
RELEVANT: Final = "Which of the numbered messages below help most to answer the question? Answer with a JSON "


def _summarized(
    entries: Entries, old: Entries, operation: str, model: Any, prompt: str | None = None
) -> Shortening:
    """The entries with `old` replaced, where the first of them stood, by one summary."""
    if not old:
        return entries
    answer = yield Ask(operation, model, f"{prompt or SUMMARIZE}\n\n{text(old)}")
    if not answer:
        return entries
    made = replace(synthetic(old), kind="summary", text=str(answer).strip())
    gone = {id(entry) for entry in old[1:]}
    return tuple(made if entry is old[0] else entry for entry in entries if id(entry) not in gone)


def synthetic(entries: Entries) -> Entry:
    """An empty entry that stands where `entries` stood."""
    first, last = entries[0], entries[-1]
    tier = max(entry.tier for entry in entries)
    return Entry(index=first.index, turn=last.turn, timestamp=last.timestamp, branch=first.branch, tier=tier)


def _squeezed(entries: Entries, limit: int, count: CountTokens, operation: str, model: Any) -> Shortening:
    """The newest entries that fit into half the tokens, what is older summarized; cut if that is too long."""
    kept = {id(entry) for entry in fitted(entries, limit // 2, count)}
    old = tuple(entry for entry in entries if entry.kind != "state" and id(entry) not in kept)
    entries = yield from _summarized(entries, old, operation, model)
    return fitted(entries, limit, count)


@frozen
class Summarize(Asked):
    """A summary in place of what is selected, or of a part of it."""

    op: ClassVar[str] = "summarize"

    model: Any
    prompt: str | None
    scope: str

    def shortened(self, entries: Entries, scene: Scene) -> Shortening:
        old = tuple(entry for entry in entries if self._is_meant(entry, scene))
        return (yield from _summarized(entries, old, self.op, self.model, self.prompt))

    def expected(self, given: Volume, answer: float) -> Expected:
        # How often tools were called before, nobody can foresee.
        old = {"all": given.tokens, "earlier": given.earlier, "tools": 0.0}[self.scope]
        if old <= 0:
            return (), given
        asked = self.asked_once(self.model, self.prompt or SUMMARIZE, old, answer)
        return asked, given._replace(tokens=given.tokens - old + answer, earlier=0.0)

    def _is_meant(self, entry: Entry, scene: Scene) -> bool:
        if entry.kind == "state":
            return False
        return {"all": True, "earlier": entry.turn < scene.turn, "tools": entry.is_tool_use}[self.scope]


@frozen
class Rolling(Asked):
    """The last turns, and perhaps one summary of all before them."""

    op: ClassVar[str] = "rolling"

    n: int
    summarize: bool
    model: Any

    @property
    def ways(self) -> frozenset[bool]:
        return SELECTS

    @property
    def asks(self) -> bool:
        return self.summarize

    def shortened(self, entries: Entries, scene: Scene) -> Shortening:
        kept = last_turns(entries, scene, self.n)
        shown = tuple(entry for entry in entries if entry.kind == "state")
        if not self.summarize:
            return shown + kept
        past = scene.turn - self.n
        old = tuple(e for e in entries if e.kind != "state" and not e.compacted and e.turn <= past)
        return shown + (yield from _summarized(old + kept, old, self.op, self.model))

    def expected(self, given: Volume, answer: float) -> Expected:
        gone = max(0.0, given.turns - (self.n - 1))
        if gone <= 0:
            return (), given
        old = given.earlier * gone / given.turns
        left = given._replace(tokens=given.tokens - old, earlier=given.earlier - old)
        if not self.summarize:
            return (), left
        asked = self.asked_once(self.model, SUMMARIZE, old, answer)
        return asked, left._replace(tokens=left.tokens + answer)


@frozen
class ManusCascade(Asked):
    """Compacts, drops repetition, summarizes what is older, then truncates, until it fits."""

    op: ClassVar[str] = "manus_cascade"

    budget: int
    model: Any
    count_tokens: CountTokens | None

    def shortened(self, entries: Entries, scene: Scene) -> Shortening:
        count = self.count_tokens or scene.count_tokens
        for smaller in SHRINKING:
            entries = on_events(smaller, entries, scene)
            if tokens(entries, count) <= self.budget:
                return entries
        return (yield from _squeezed(entries, self.budget, count, self.op, self.model))

    def expected(self, given: Volume, answer: float) -> Expected:
        return _squeezing(self, self.model, self.budget, given, answer)


@frozen
class Budget(Asked):
    """At most so many tokens: the oldest goes, or is summarized, or it is an error."""

    op: ClassVar[str] = "budget"

    max_tokens: int
    overflow: str
    model: Any
    count_tokens: CountTokens | None

    @property
    def asks(self) -> bool:
        return self.overflow == "summarize"

    def shortened(self, entries: Entries, scene: Scene) -> Shortening:
        count = self.count_tokens or scene.count_tokens
        needed = tokens(entries, count)
        if needed <= self.max_tokens:
            return entries
        if self.overflow == "error":
            raise ContextError(
                f"Agent {scene.agent!r}: its context needs {needed} tokens, but C.budget({self.max_tokens}, "
                "overflow='error') allows no more. Select less, or let it truncate."
            )
        if self.overflow == "summarize":
            return (yield from _squeezed(entries, self.max_tokens, count, self.op, self.model))
        return fitted(entries, self.max_tokens, count)

    def expected(self, given: Volume, answer: float) -> Expected:
        if self.overflow == "summarize":
            return _squeezing(self, self.model, self.max_tokens, given, answer)
        return (), given._replace(tokens=min(given.tokens, self.max_tokens))


def _squeezing(of: Asked, model: Any, limit: int, given: Volume, answer: float) -> Expected:
    """What `_squeezed` is expected to ask and to leave."""
    if given.tokens <= limit:
        return (), given
    asked = of.asked_once(model, SUMMARIZE, given.tokens - limit // 2, answer)
    return asked, given._replace(tokens=min(limit // 2 + answer, limit))


# --- relevance ------------------------------------------------------------------------------------


@frozen
class Relevant(Asked):
    """The texts that bear most on a question."""

    op: ClassVar[str] = "relevant"

    query: str | None
    query_key: str | None
    top_k: int
    scorer: Callable[[str, str], float] | str | Embedder | None
    model: Any

    @property
    def asks(self) -> bool:
        return self.scorer is None or self._embeds

    @property
    def _embeds(self) -> bool:
        return isinstance(self.scorer, str) or hasattr(self.scorer, "embed")

    def own_reads(self) -> tuple[KeyRead, ...]:
        return () if self.query_key is None else (KeyRead(self.query_key, "function", "tolerant"),)

    def shortened(self, entries: Entries, scene: Scene) -> Shortening:
        asked = self._question(scene)
        said = tuple(entry for entry in entries if entry.kind != "state" and entry.text)
        if not asked or len(said) <= self.top_k:
            return entries
        scores = yield from self._scores(asked, said)
        if scores is None:
            return entries
        best = sorted(range(len(said)), key=lambda i: (-scores[i], -i))[: self.top_k]
        chosen = {id(said[i]) for i in best}
        return tuple(entry for entry in entries if entry.kind == "state" or id(entry) in chosen)

    def expected(self, given: Volume, answer: float) -> Expected:
        if given.messages <= self.top_k:
            return (), given
        left = given._replace(
            tokens=given.tokens * self.top_k / given.messages, messages=float(self.top_k), earlier=0.0
        )
        tokens = given.tokens + given.question
        if self._embeds:
            return self.asked_once(self.scorer, "", tokens, None), left
        if self.scorer is not None:
            return (), left
        return self.asked_once(self.model, RELEVANT, tokens, _NUMBER * self.top_k), left

    def _question(self, scene: Scene) -> str:
        found = show(scene.state.get(self.query_key) or "") if self.query_key else ""
        return self.query or found or scene.message

    def _scores(self, asked: str, said: Entries) -> Generator[Exchange, Answer, Sequence[float] | None]:
        if self._embeds:
            return (yield from _by_embedding(asked, said, self.scorer))
        if self.scorer is not None:
            score = cast(Callable[[str, str], float], self.scorer)
            return [float(score(asked, entry.text)) for entry in said]
        return (yield from _by_model(asked, said, self.top_k, self.model))


def _by_model(
    asked: str, said: Entries, top_k: int, model: Any
) -> Generator[Exchange, Answer, Sequence[float] | None]:
    numbered = "\n".join(f"{i}. {text([entry])}" for i, entry in enumerate(said, 1))
    prompt = f"{RELEVANT}list of at most {top_k} numbers.\n\nQuestion: {asked}\n\n{numbered}"
    answer = yield Ask("relevant", model, prompt)
    if answer is None:
        return None
    numbers = [int(n) for n in re.findall(r"\d+", str(answer)) if len(n) <= _DIGITS]
    ranked = [n for n in dict.fromkeys(numbers) if 1 <= n <= len(said)]
    if not ranked:
        yield Rejected("relevant", "the answer names no message")
        return None
    return [float(-ranked.index(i)) if i in ranked else float("-inf") for i in range(1, len(said) + 1)]


_NUMBER: Final = 2
"""Tokens of a number in a list."""
_DIGITS: Final = 9
"""No message has a longer number, and Python refuses to read very long ones."""


def _by_embedding(
    asked: str, said: Entries, model: Any
) -> Generator[Exchange, Answer, Sequence[float] | None]:
    vectors = yield Ask("relevant", model, texts=(asked, *(entry.text for entry in said)))
    if vectors is None:
        return None
    first, *others = [[float(x) for x in vector] for vector in vectors]
    if len(others) != len(said):
        yield Rejected("relevant", f"it gave {len(others) + 1} vectors for {len(said) + 1} texts")
        return None
    return [_cosine(first, other) for other in others]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    size = sqrt(sum(x * x for x in one) * sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=False)) / size if size else 0.0
