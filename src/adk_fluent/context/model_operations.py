"""The `C` operations that ask a helper model: they yield an `Ask` and receive the answer."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, ClassVar, Final, Protocol, cast

from adk_fluent.context.entries import (
    Answer,
    Ask,
    Asking,
    CountTokens,
    Entries,
    Entry,
    Exchange,
    Rejected,
    Scene,
    Selecting,
    Selection,
    Shortening,
    show,
    text,
    tokens,
)
from adk_fluent.context.filters import EntryFilter
from adk_fluent.context.reduction import SHRINKING, fitted, on_events
from adk_fluent.context.sources import last_turns
from adk_fluent.context.spec import SELECTS
from adk_fluent.context.view import Expected, ExpectedRequest, Volume
from adk_fluent.errors import ContextError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyRead


class Embedder(Protocol):
    """An embedding model: it returns a vector for each text, or an awaitable of the vectors."""

    def embed(self, texts: list[str], /) -> Sequence[Sequence[float]] | Awaitable[Sequence[Sequence[float]]]:
        """Return the vectors of texts, in the order of the texts."""
        ...


class ModelOperation(EntryFilter):
    """Base of the operations that ask a helper model. If the call fails, the selection stays as it is."""

    __slots__ = ()

    @property
    def asks(self) -> bool:
        return True

    @property
    def writes_calls_as_text(self) -> bool:
        return True

    def asking(self, entries: Entries, scene: Scene) -> Asking:
        """Return the entries that it keeps, and the state keys to write with their values."""
        return (yield from self.shortened(entries, scene)), ()

    def shortened(self, entries: Entries, scene: Scene) -> Shortening:
        """Return the entries that it keeps, for an operation that writes no state."""
        yield from ()
        return entries

    def applied(self, given: Selection, scene: Scene) -> Selecting:
        entries, written = yield from self.asking(given.entries, scene)
        return replace(self.left(given, entries), writes=given.writes + written)

    def one_request(
        self, model: Any, prompt: str, tokens: float, answer: float | None
    ) -> tuple[ExpectedRequest]:
        """The one request of an estimate: a prompt and `tokens` of the conversation.

        The prompt counts four characters a token.
        """
        return (ExpectedRequest(f"C.{self.op}", model, len(prompt) / _CHARACTERS + tokens, answer),)


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
    """Replace the entries `old` by one summary, at the place of the first of them."""
    if not old:
        return entries
    answer = yield Ask(operation, model, f"{prompt or SUMMARIZE}\n\n{text(old)}")
    if not answer:
        return entries
    summary = replace(synthetic(old), kind="summary", text=str(answer).strip())
    gone = {id(entry) for entry in old[1:]}
    return tuple(summary if entry is old[0] else entry for entry in entries if id(entry) not in gone)


def synthetic(entries: Entries) -> Entry:
    """An empty entry to replace `entries`: it has their place, turn and time, and their highest tier."""
    first, last = entries[0], entries[-1]
    tier = max(entry.tier for entry in entries)
    return Entry(index=first.index, turn=last.turn, timestamp=last.timestamp, branch=first.branch, tier=tier)


def _squeezed(entries: Entries, limit: int, count: CountTokens, operation: str, model: Any) -> Shortening:
    """Summarize old entries: keep the newest ones that fit in half of `limit`, and one summary of the others.

    If the summary is too long, `fitted` shortens the result to `limit` tokens.
    """
    kept = {id(entry) for entry in fitted(entries, limit // 2, count)}
    old = tuple(entry for entry in entries if entry.kind != "state" and id(entry) not in kept)
    entries = yield from _summarized(entries, old, operation, model)
    return fitted(entries, limit, count)


@frozen
class Summarize(ModelOperation):
    """Replaces the selection, or a part of it, by a summary."""

    op: ClassVar[str] = "summarize"

    model: Any
    prompt: str | None
    scope: str

    def shortened(self, entries: Entries, scene: Scene) -> Shortening:
        old = tuple(entry for entry in entries if self._is_meant(entry, scene))
        return (yield from _summarized(entries, old, self.op, self.model, self.prompt))

    def expected(self, given: Volume, answer: float) -> Expected:
        # The number of earlier tool calls is not known before a run, so `tools` counts as no tokens.
        old = {"all": given.tokens, "earlier": given.earlier, "tools": 0.0}[self.scope]
        if old <= 0:
            return (), given
        requests = self.one_request(self.model, self.prompt or SUMMARIZE, old, answer)
        return requests, given._replace(tokens=given.tokens - old + answer, earlier=0.0)

    def _is_meant(self, entry: Entry, scene: Scene) -> bool:
        if entry.kind == "state":
            return False
        return {"all": True, "earlier": entry.turn < scene.turn, "tools": entry.is_tool_use}[self.scope]


@frozen
class Rolling(ModelOperation):
    """Keeps the last `n` turns and, with `summarize`, one summary of all turns before them."""

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
        left_out = max(0.0, given.turns - (self.n - 1))
        if left_out <= 0:
            return (), given
        old = given.earlier * left_out / given.turns
        remaining = given._replace(tokens=given.tokens - old, earlier=given.earlier - old)
        if not self.summarize:
            return (), remaining
        requests = self.one_request(self.model, SUMMARIZE, old, answer)
        return requests, remaining._replace(tokens=remaining.tokens + answer)


@frozen
class ManusCascade(ModelOperation):
    """Compacts, removes repetition, summarizes old entries, then truncates, until the selection fits."""

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
class Budget(ModelOperation):
    """Keeps at most `max_tokens` tokens: it leaves out or summarizes old entries, or raises an error."""

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


def _squeezing(of: ModelOperation, model: Any, limit: int, given: Volume, answer: float) -> Expected:
    """The expected request of `_squeezed`, and the size of the remaining conversation."""
    if given.tokens <= limit:
        return (), given
    requests = of.one_request(model, SUMMARIZE, given.tokens - limit // 2, answer)
    return requests, given._replace(tokens=min(limit // 2 + answer, limit))


# --- relevance ------------------------------------------------------------------------------------


@frozen
class Relevant(ModelOperation):
    """Keeps the `top_k` texts that help most to answer a question."""

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
        question = self._question(scene)
        texts = tuple(entry for entry in entries if entry.kind != "state" and entry.text)
        if not question or len(texts) <= self.top_k:
            return entries
        scores = yield from self._scores(question, texts)
        if scores is None:
            return entries
        best = sorted(range(len(texts)), key=lambda i: (-scores[i], -i))[: self.top_k]
        chosen = {id(texts[i]) for i in best}
        return tuple(entry for entry in entries if entry.kind == "state" or id(entry) in chosen)

    def expected(self, given: Volume, answer: float) -> Expected:
        if given.messages <= self.top_k:
            return (), given
        remaining = given._replace(
            tokens=given.tokens * self.top_k / given.messages, messages=float(self.top_k), earlier=0.0
        )
        tokens = given.tokens + given.question
        if self._embeds:
            return self.one_request(self.scorer, "", tokens, None), remaining
        if self.scorer is not None:
            return (), remaining
        return self.one_request(self.model, RELEVANT, tokens, _NUMBER * self.top_k), remaining

    def _question(self, scene: Scene) -> str:
        found = show(scene.state.get(self.query_key) or "") if self.query_key else ""
        return self.query or found or scene.message

    def _scores(self, question: str, texts: Entries) -> Generator[Exchange, Answer, Sequence[float] | None]:
        if self._embeds:
            return (yield from _by_embedding(question, texts, self.scorer))
        if self.scorer is not None:
            score = cast(Callable[[str, str], float], self.scorer)
            return [float(score(question, entry.text)) for entry in texts]
        return (yield from _by_model(question, texts, self.top_k, self.model))


def _by_model(
    question: str, texts: Entries, top_k: int, model: Any
) -> Generator[Exchange, Answer, Sequence[float] | None]:
    numbered = "\n".join(f"{i}. {text([entry])}" for i, entry in enumerate(texts, 1))
    prompt = f"{RELEVANT}list of at most {top_k} numbers.\n\nQuestion: {question}\n\n{numbered}"
    answer = yield Ask("relevant", model, prompt)
    if answer is None:
        return None
    numbers = [int(n) for n in re.findall(r"\d+", str(answer)) if len(n) <= _DIGITS]
    ranked = [n for n in dict.fromkeys(numbers) if 1 <= n <= len(texts)]
    if not ranked:
        yield Rejected("relevant", "the answer names no message")
        return None
    return [float(-ranked.index(i)) if i in ranked else float("-inf") for i in range(1, len(texts) + 1)]


_NUMBER: Final = 2
"""Tokens of one number in the model's answer, a list of numbers."""
_DIGITS: Final = 9
"""The most digits of a message's number; Python refuses to convert very long numbers."""


def _by_embedding(
    question: str, texts: Entries, model: Any
) -> Generator[Exchange, Answer, Sequence[float] | None]:
    vectors = yield Ask("relevant", model, texts=(question, *(entry.text for entry in texts)))
    if vectors is None:
        return None
    first, *others = [[float(x) for x in vector] for vector in vectors]
    if len(others) != len(texts):
        yield Rejected("relevant", f"it gave {len(others) + 1} vectors for {len(texts) + 1} texts")
        return None
    return [_cosine(first, other) for other in others]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    size = sqrt(sum(x * x for x in one) * sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=False)) / size if size else 0.0
