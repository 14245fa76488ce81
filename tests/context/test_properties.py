from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adk_fluent import C
from adk_fluent.context.entries import Entry, block, estimate_tokens, keep_pairs, split, text, tokens
from adk_fluent.context.selection import Selection, select
from adk_fluent.context.spec import Context
from tests.context import every
from tests.context.every import WORDS

AGENTS = ("me", "writer", "critic")


def conversations() -> st.SearchStrategy[list[Entry]]:
    """Conversations of these agents."""
    return every.conversations(AGENTS)


SOURCES = st.sampled_from(
    [
        C.default(),
        C.none(),
        C.user_only(),
        C.window(1),
        C.window(2),
        C.from_agents("writer"),
        C.exclude_agents("writer"),
        C.from_state("k"),
        C.template("<{k}>"),
        C.user("bookend"),
        C.rolling(1),
        C.from_agents_windowed(critic=1),
    ]
)
FILTERS = st.sampled_from(
    [
        C.recent(half_life=1, min_weight=0.5),
        C.compact(),
        C.dedup("normalized"),
        C.truncate(max_turns=1),
        C.truncate(max_tokens=20, strategy="middle"),
        C.budget(25),
        C.fit(25),
        C.priority(2),
        C.redact("a"),
        C.fresh(3),
    ]
)


def _joined(inner: st.SearchStrategy[Context]) -> st.SearchStrategy[Context]:
    sums = st.tuples(inner, inner).map(lambda both: both[0] + both[1])
    return sums | st.tuples(inner, FILTERS).map(lambda both: both[0] | both[1])


SPECS = st.recursive(SOURCES | FILTERS, _joined, max_leaves=5)
STATE = {"k": "some value"}


def see(spec: Context, entries: list[Entry]) -> Selection:
    """The selection for the agent `me`."""
    return select(spec, entries, agent="me", now=float(len(entries)), state=STATE)


@given(SPECS, conversations())
def test_the_current_message_is_never_lost(spec: Context, entries: list[Entry]) -> None:
    """Whatever a spec says, the message of the user that began the turn is sent, and sent once."""
    selection = see(spec, entries)
    current = [e for e in entries if e.is_user_message][-1]
    assert [kept.index for kept in selection.pinned if kept.is_user_message] == [current.index]
    assert current.index not in {kept.index for kept in selection.conversation if kept.author == "user"}


@given(SPECS, conversations())
def test_pairs_are_never_torn(spec: Context, entries: list[Entry]) -> None:
    """A call whose result is known, and that result, are both seen or both not."""
    selection = see(spec, entries)
    seen = (*selection.conversation, *selection.pinned)
    had = {c.id for e in entries for c in e.function_calls} & {
        r.id for e in entries for r in e.function_responses
    }
    assert {c.id for e in seen for c in e.function_calls} & had == {
        r.id for e in seen for r in e.function_responses
    } & had


@given(SPECS, SPECS, SPECS, conversations())
def test_plus_is_associative(a: Context, b: Context, c: Context, entries: list[Entry]) -> None:
    """Parentheses in a sum change neither its value nor its selection."""
    assert (a + b) + c == a + (b + c)
    assert see((a + b) + c, entries) == see(a + (b + c), entries)


@given(SPECS, conversations())
def test_plus_is_idempotent(spec: Context, entries: list[Entry]) -> None:
    """A spec added to itself selects what it selects alone."""
    assert see(spec + spec, entries) == see(spec, entries)


@given(SPECS, FILTERS, FILTERS, conversations())
def test_pipe_is_associative(a: Context, f: Context, g: Context, entries: list[Entry]) -> None:
    """Parentheses in a pipe change neither its value nor its selection."""
    assert (a | f) | g == a | (f | g)
    assert see((a | f) | g, entries) == see(a | (f | g), entries)


@given(SOURCES, SOURCES, conversations())
def test_a_sum_selects_what_either_selects(a: Context, b: Context, entries: list[Entry]) -> None:
    """A union has every event that one of its sides has, and no other."""
    either = {e.index for e in (*see(a, entries).conversation, *see(b, entries).conversation)}
    assert {e.index for e in see(a + b, entries).conversation} == either


@given(SOURCES, FILTERS, conversations())
def test_a_filter_adds_nothing(source: Context, chain: Context, entries: list[Entry]) -> None:
    """Every event that leaves a pipe was in what entered it."""
    before = {e.index for e in see(source, entries).conversation}
    assert {e.index for e in see(source | chain, entries).conversation} <= before


@given(SPECS, conversations(), st.integers(1, 200))
def test_budgets_are_never_exceeded(spec: Context, entries: list[Entry], limit: int) -> None:
    """A budget, a fit or a truncation leaves at most its number of tokens."""
    for last in (C.budget(limit), C.fit(limit), C.truncate(max_tokens=limit), C.manus_cascade(limit)):
        selection = see(spec | last, entries)
        assert tokens(selection.entries, estimate_tokens) <= limit
        assert estimate_tokens(text(selection.entries)) <= limit


@given(SPECS, conversations())
def test_a_generous_budget_changes_nothing(spec: Context, entries: list[Entry]) -> None:
    """A selection that fits stays unchanged."""
    assert see(spec | C.budget(10**9), entries).entries == see(spec, entries).entries


@given(SPECS, conversations())
def test_redaction_leaves_no_trace(spec: Context, entries: list[Entry]) -> None:
    """After `redact` nothing that is sent of the conversation or the state matches the pattern."""
    selection = see(spec | C.redact("[ab]", replacement="#"), entries)
    shown = text((*selection.entries, *selection.pinned))
    for name in (*AGENTS, "tool", "calls", "gave", "summary"):
        shown = shown.replace(name, "")
    assert not {"a", "b"} & set(shown.replace("attached", ""))


@given(SPECS, conversations())
def test_the_order_of_the_conversation_stays(spec: Context, entries: list[Entry]) -> None:
    """Selected entries are in the order of the conversation."""
    order = [e.index for e in see(spec, entries).conversation]
    assert order == sorted(order)


@given(SPECS, conversations())
def test_selecting_is_pure(spec: Context, entries: list[Entry]) -> None:
    """The same conversation gives the same selection, and stays as it was."""
    before = list(entries)
    assert see(spec, entries) == see(spec, entries)
    assert entries == before


@given(SPECS, conversations())
def test_static_facts_hold(spec: Context, entries: list[Entry]) -> None:
    """No text is seen that the view of a spec rules out, and none is missing that it promises."""
    facts = spec.view()
    selection = see(spec, entries)
    seen = selection.conversation
    turn = max(e.turn for e in entries)
    for kept in seen:
        assert facts.history != "none"
        if kept.author == "user":
            assert facts.user
        else:
            assert facts.authors is None or kept.author in facts.authors
            assert kept.author not in facts.excluded
        assert facts.turns is None or kept.turn > turn - facts.turns
    if not facts.unknown:
        whole = text(seen)
        history, _ = split(entries, "me")
        for said in history:
            visible = facts.may_see(said.author) if said.author != "user" else facts.user
            within = facts.turns is None or said.turn > turn - facts.turns
            if visible and within and said.text and facts.history != "none":
                assert said.text in whole


@given(conversations(), st.data())
def test_keep_pairs_only_takes_away(entries: list[Entry], data: st.DataObject) -> None:
    """Restoring pairs never adds an entry."""
    some = [e for e in entries if data.draw(st.booleans())]
    kept = keep_pairs(entries, some)
    assert {e.index for e in kept} <= {e.index for e in some}


@given(st.lists(WORDS | st.just("</conversation_context>"), max_size=5))
def test_a_block_is_closed_once(said: list[str]) -> None:
    """No text can open or close the element of the block a second time."""
    shown = block(Entry(author="a", text=words) for words in said)
    assert shown.count("</conversation_context>") == bool(said)
