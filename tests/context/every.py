"""Specs of every kind, with every parameter given and left out, as the tests of context share them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

from adk_fluent import A, C
from adk_fluent.context.entries import Entry
from adk_fluent.context.spec import Context
from adk_fluent.ir import declares
from tests import samples
from tests.context.talk import answer, call, entry, is_short


@declares(reads=["vip", "user:tier"])
def is_vip(state: Mapping[str, Any]) -> bool:
    """A condition that says what it reads."""
    return bool(state.get("vip")) and state.get("user:tier") != "v0"


def overlap(query: str, text: str) -> float:
    """A scorer that can be stored by its name."""
    return float(len(set(query.split()) & set(text.split())))


def words(text: str) -> int:
    """A counter of tokens that can be stored by its name."""
    return len(text.split())


def is_plain(text: str) -> bool:
    """A check of a text that most pass."""
    return "</" not in text


SPECS: Final[tuple[Context, ...]] = (
    C.default(),
    C.none(),
    C.user_only(),
    C.from_state("a"),
    C.from_state("a", "user:b"),
    C.from_agents("a"),
    C.from_agents("a", "b"),
    C.exclude_agents("a"),
    C.window(3),
    C.last_n_turns(2),
    C.template("It is {a} {b?}"),
    C.template("Nothing is read here."),
    C.select(author="a", type="text", tag="x"),
    C.select(author=["a", "user"]),
    C.select(),
    C.recent(half_life=3, min_weight=0.5),
    C.recent(),
    C.compact(),
    C.dedup(),
    C.dedup("normalized"),
    C.dedup("semantic"),
    C.truncate(max_turns=2, max_tokens=9, strategy="middle"),
    C.truncate(max_turns=1, strategy="head"),
    C.truncate(max_tokens=9, count_tokens=words),
    C.project("text", "files"),
    C.project("function_calls", "function_responses"),
    C.budget(100),
    C.budget(100, overflow="error", count_tokens=words),
    C.budget(100, "summarize", model="m"),
    C.priority(2),
    C.fit(100),
    C.fit(100, count_tokens=words),
    C.fresh(60),
    C.fresh(0.5),
    C.redact(r"\d+", replacement="#"),
    C.redact("a", re.compile("b", re.IGNORECASE)),
    C.summarize(),
    C.summarize(model="m", prompt="p", scope="earlier"),
    C.summarize(scope="tools"),
    C.relevant(),
    C.relevant(query="q", top_k=2, model="m"),
    C.relevant(query_key="q", scorer=overlap),
    C.relevant(scorer="text-embedding-004"),
    C.extract(samples.Invoice, into="x"),
    C.extract(samples.Invoice, into="user:x", model="m"),
    C.distill(into="x"),
    C.distill(into="x", model="m"),
    C.rolling(2),
    C.rolling(2, summarize=True, model="m"),
    C.from_agents_windowed(a=1, b=2),
    C.user(),
    C.user("first"),
    C.user("last"),
    C.user("bookend"),
    C.manus_cascade(100),
    C.manus_cascade(100, model="m", count_tokens=words),
    C.notes("n"),
    C.write_notes("n"),
    C.write_notes("n", "replace"),
    C.validate(is_short),
    C.validate(is_short, is_plain),
    C.when("vip", C.window(1)),
    C.when(samples.is_done, C.none()),
    C.when(is_vip, C.from_state("a")),
    C.when("vip", C.when("user:tier", C.notes("n") | C.budget(9))),
    # how they are delivered, and joined
    C.default().as_contents(),
    C.window(3).as_contents(),
    C.when("vip", C.window(1).as_contents()),
    C.when("vip", C.window(1)).as_contents(),
    C.window(3) + C.from_state("a"),
    C.window(3).as_contents() + C.from_state("a"),
    (C.window(3) + C.from_state("a")).as_contents(),
    C.window(3) | C.dedup() | C.budget(100),
    (C.window(3) | C.dedup()).as_contents(),
    C.user_only() + (C.from_agents("a") | C.compact()) + C.redact("x"),
    C.none() + (C.window(2) | C.dedup()).as_contents(),
    (C.user_only() + C.from_agents("a")) | C.distill(into="facts") | C.write_notes("n"),
    C.when("vip", C.default()) + C.when("user:tier", C.none()) + C.template("{a}"),
    A.for_llm("cat.png"),
    C.none() + A.for_llm("user:cv.md"),
    C.when("vip", A.for_llm("cat.png")),
    (C.window(1) | A.for_llm("a.md")) + (C.none() | A.for_llm("b.md")),
)
"""Specs of every operation."""


# --- at random ------------------------------------------------------------------------------------

WORDS = st.text(st.sampled_from("ab c1\n"), max_size=30)


@st.composite
def conversations(draw: st.DrawFn, agents: tuple[str, ...] = ("me", "a", "b")) -> list[Entry]:
    """Conversations of some turns, with tool calls, most of them answered."""
    entries: list[Entry] = []
    for turn in range(1, draw(st.integers(1, 4)) + 1):
        entries.append(_said("user", f"q{turn} " + draw(WORDS), turn, len(entries)))
        for author in draw(st.lists(st.sampled_from(agents), max_size=4)):
            if draw(st.booleans()):
                entries.append(_said(author, f"t{len(entries)} " + draw(WORDS), turn, len(entries)))
                continue
            key = f"id{len(entries)}"
            said = _said(author, draw(WORDS), turn, len(entries), function_calls=(call("tool", key),))
            entries.append(said)
            if draw(st.integers(0, 4)):
                given_back = (answer("tool", key, f'"{draw(WORDS)}"'),)
                entries.append(_said(author, "", turn, len(entries), function_responses=given_back))
    return entries


def _said(author: str, text: str, turn: int, index: int, **fields: Any) -> Entry:
    return entry(author, text, turn=turn, index=index, timestamp=float(index), **fields)


KEYS: Final = ("a", "b", "user:b", "n", "q", "vip", "user:tier", "x", "user:x", "other")
"""The state keys that `SPECS` read and write, and one that they do not."""

states = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["v0", "v1", "", 3]))


def _composed(inner: st.SearchStrategy[Context]) -> st.SearchStrategy[Context]:
    pairs = st.tuples(inner, inner)
    conditions = st.sampled_from(["vip", "n", is_vip])
    return (
        pairs.map(lambda both: both[0] + both[1])
        | pairs.map(lambda both: both[0] | both[1])
        | st.tuples(conditions, inner).map(lambda both: C.when(both[0], both[1]))
    )


specs = st.recursive(st.sampled_from(SPECS), _composed, max_leaves=5)
"""Specs of every operation, joined in every way."""
