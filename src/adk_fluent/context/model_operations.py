"""The `C` operations that ask a model, as generators: they yield an `Ask` and are sent the answer.

So everything but the model call itself is a pure function. An answer of `None` means that the call failed;
the operation then leaves the selection as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent.context.entries import CountTokens, Entry, Scene
from adk_fluent.context.operations import SHRINKING, Entries, fitted, on_events, window
from adk_fluent.context.rendering import show, text, tokens

if TYPE_CHECKING:
    from google.adk.models import BaseLlm
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to a helper model.

    Attributes:
        operation: the `C` operation that asks.
        model: a model name or a `BaseLlm`; `None` is the agent's own.
        prompt: what is asked.
        schema: the pydantic model the answer is parsed as, if it is not text.
        texts: texts to embed instead, for an embedding model.
    """

    operation: str
    model: str | BaseLlm | None
    prompt: str = ""
    schema: type[BaseModel] | None = None
    texts: tuple[str, ...] = ()


Answer = Any
"""Text; a list of vectors for texts to embed; `None` when the call failed."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Yielded when an answer cannot be used; what follows is the same as for a failed call."""

    operation: str
    reason: str


Step = Ask | Rejected
Result = tuple[Entries, tuple[tuple[str, Any], ...]]
"""The entries that are left, and the state keys to write."""
Asking = Generator[Step, Answer, Result]

SUMMARIZE: Final = (
    "Summarize the conversation below for an agent that continues it. Keep names, numbers, decisions and "
    "open questions; leave out greetings and repetition. Answer with the summary alone."
)
DISTILL: Final = (
    "List the facts that the conversation below establishes, one per line, each understandable by itself. "
    "Leave out everything that is not a fact. Answer with the list alone."
)
EXTRACT: Final = (
    "Extract the data that the conversation below holds. Answer with JSON of this schema alone:\n"
)
RELEVANT: Final = "Which of the numbered messages below help most to answer the question? Answer with a JSON "


def summarize(entries: Entries, scene: Scene, model: Any, prompt: str | None, scope: str) -> Asking:
    old = tuple(entry for entry in entries if _in_scope(entry, scene, scope))
    return (yield from _summarized(entries, old, "summarize", model, prompt)), ()


def _in_scope(entry: Entry, scene: Scene, scope: str) -> bool:
    if entry.kind == "state":
        return False
    return {"all": True, "earlier": entry.turn < scene.turn, "tools": entry.is_tool_use}[scope]


def _summarized(
    entries: Entries, old: Entries, operation: str, model: Any, prompt: str | None = None
) -> Generator[Step, Answer, Entries]:
    """The entries with `old` replaced, where the first of them stood, by one summary."""
    if not old:
        return entries
    answer = yield Ask(operation, model, f"{prompt or SUMMARIZE}\n\n{text(old)}")
    if not answer:
        return entries
    made = replace(_synthetic(old), kind="summary", text=str(answer).strip())
    gone = {id(entry) for entry in old[1:]}
    return tuple(made if entry is old[0] else entry for entry in entries if id(entry) not in gone)


def _synthetic(entries: Entries) -> Entry:
    """An empty entry that stands where `entries` stood."""
    first, last = entries[0], entries[-1]
    tier = max(entry.tier for entry in entries)
    return Entry(index=first.index, turn=last.turn, timestamp=last.timestamp, branch=first.branch, tier=tier)


def rolling(entries: Entries, scene: Scene, n: int, summarize: bool, model: Any) -> Asking:
    kept = window(entries, scene, n)
    shown = tuple(entry for entry in entries if entry.kind == "state")
    if not summarize:
        return shown + kept, ()
    old = tuple(e for e in entries if e.kind != "state" and not e.compacted and e.turn <= scene.turn - n)
    return shown + (yield from _summarized(old + kept, old, "rolling", model)), ()


def manus_cascade(
    entries: Entries, scene: Scene, budget: int, model: Any, count_tokens: CountTokens | None
) -> Asking:
    count = count_tokens or scene.count_tokens
    for smaller in SHRINKING:
        entries = on_events(smaller, entries, scene)
        if tokens(entries, count) <= budget:
            return entries, ()
    return (yield from _squeezed(entries, budget, count, "manus_cascade", model)), ()


def budget_by_summary(
    entries: Entries, scene: Scene, max_tokens: int, model: Any, count_tokens: CountTokens | None
) -> Asking:
    count = count_tokens or scene.count_tokens
    if tokens(entries, count) <= max_tokens:
        return entries, ()
    return (yield from _squeezed(entries, max_tokens, count, "budget", model)), ()


def _squeezed(
    entries: Entries, limit: int, count: CountTokens, operation: str, model: Any
) -> Generator[Step, Answer, Entries]:
    """The newest entries that fit into half the tokens, what is older summarized; cut if that is too long."""
    kept = {id(entry) for entry in fitted(entries, limit // 2, count)}
    old = tuple(entry for entry in entries if entry.kind != "state" and id(entry) not in kept)
    entries = yield from _summarized(entries, old, operation, model)
    return fitted(entries, limit, count)


# --- relevance ------------------------------------------------------------------------------------


def relevant(
    entries: Entries,
    scene: Scene,
    query: str | None,
    query_key: str | None,
    top_k: int,
    scorer: Any,
    model: Any,
) -> Asking:
    asked = query or (show(scene.state.get(query_key) or "") if query_key else "") or scene.message
    said = tuple(entry for entry in entries if entry.kind != "state" and entry.text)
    if not asked or len(said) <= top_k:
        return entries, ()
    if isinstance(scorer, str) or hasattr(scorer, "embed"):
        scores = yield from _by_embedding(asked, said, scorer)
    elif scorer is not None:
        scores = [float(cast(Callable[[str, str], float], scorer)(asked, entry.text)) for entry in said]
    else:
        scores = yield from _by_model(asked, said, top_k, model)
    if scores is None:
        return entries, ()
    best = sorted(range(len(said)), key=lambda i: (-scores[i], -i))[:top_k]
    chosen = {id(said[i]) for i in best}
    return tuple(entry for entry in entries if entry.kind == "state" or id(entry) in chosen), ()


def _by_model(
    asked: str, said: Entries, top_k: int, model: Any
) -> Generator[Step, Answer, Sequence[float] | None]:
    numbered = "\n".join(f"{i}. {text([entry])}" for i, entry in enumerate(said, 1))
    prompt = f"{RELEVANT}list of at most {top_k} numbers.\n\nQuestion: {asked}\n\n{numbered}"
    answer = yield Ask("relevant", model, prompt)
    if answer is None:
        return None
    numbers = [int(n) for n in re.findall(r"\d+", str(answer)) if len(n) <= _DIGITS]
    ranked = [n for n in dict.fromkeys(numbers) if 1 <= n <= len(said)]
    if not ranked:
        yield Rejected("relevant", f"the answer {answer!r:.40} names no message")
        return None
    return [float(-ranked.index(i)) if i in ranked else float("-inf") for i in range(1, len(said) + 1)]


_DIGITS: Final = 9
"""No message has a longer number, and Python refuses to read very long ones."""


def _by_embedding(asked: str, said: Entries, model: Any) -> Generator[Step, Answer, Sequence[float] | None]:
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


# --- extraction -----------------------------------------------------------------------------------


def extract(entries: Entries, scene: Scene, schema: type[BaseModel], into: str, model: Any) -> Asking:
    from pydantic import ValidationError

    said = tuple(entry for entry in entries if entry.kind != "state")
    if not said:
        return entries, ()
    shape = json.dumps(schema.model_json_schema(), sort_keys=True)
    answer = yield Ask("extract", model, f"{EXTRACT}{shape}\n\n{text(said)}", schema)
    if answer is None:
        return entries, ()
    try:
        found = schema.model_validate_json(_unfenced(str(answer)))
    except ValidationError as error:
        yield Rejected("extract", f"the answer does not fit {schema.__name__}: {error.errors()[0]['msg']}")
        return entries, ()
    return _replaced(entries, said, into, found.model_dump(mode="json"))


def distill(entries: Entries, scene: Scene, into: str, model: Any) -> Asking:
    said = tuple(entry for entry in entries if entry.kind != "state")
    if not said:
        return entries, ()
    answer = yield Ask("distill", model, f"{DISTILL}\n\n{text(said)}")
    return _replaced(entries, said, into, str(answer).strip()) if answer else (entries, ())


def _replaced(entries: Entries, said: Entries, into: str, value: object) -> Result:
    """What was found stands for what it was found in, and is written to state."""
    made = replace(_synthetic(said), kind="state", author=into, text=show(value))
    return (*(entry for entry in entries if entry.kind == "state"), made), ((into, value),)


def _unfenced(answer: str) -> str:
    inside, closing, _ = answer.partition("```")[2].partition("```")
    return inside.removeprefix("json").strip() if closing else answer


ASKING: Final[Mapping[str, Callable[..., Asking]]] = {
    "summarize": summarize,
    "rolling": rolling,
    "manus_cascade": manus_cascade,
    "budget_by_summary": budget_by_summary,
    "relevant": relevant,
    "extract": extract,
    "distill": distill,
}
