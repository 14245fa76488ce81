from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adk_fluent import A, C
from adk_fluent.context.entries import TEMPLATE, Ask, Entry, Exchange, Scene, Selection, text
from adk_fluent.context.selection import OPERATIONS, scene_of, selecting
from adk_fluent.context.spec import Context
from adk_fluent.context.view import ContextView
from adk_fluent.errors import ContextError, MissingKeyError
from tests import samples
from tests.context.every import SPECS, conversations, specs, states
from tests.context.talk import answer, call, entry, talk
from tests.sampling import every, examples

DOCS = Path(__file__).parents[2] / "docs" / "concepts"
PAGE, ARTIFACTS = ((DOCS / page).read_text() for page in ("context.md", "artifacts.md"))
State = dict[str, Any]
SIGNS = {"sum": "+", "pipe": "|"}


def walk(spec: Context) -> Iterator[Context]:
    """A spec and all inside it."""
    yield spec
    for part in spec.parts:
        yield from walk(part)


def classes(cls: type[Context] = Context) -> Iterator[type[Context]]:
    """Every class below `Context` that no other class is below."""
    for inner in cls.__subclasses__():
        if inner.__subclasses__():
            yield from classes(inner)
        else:
            yield inner


EXAMPLES: Mapping[type[Context], list[Context]] = {
    cls: [spec for spec in SPECS if type(spec) is cls] for cls in classes()
}
every_class = pytest.mark.parametrize("cls", EXAMPLES, ids=[cls.op for cls in EXAMPLES])
every_spec = pytest.mark.parametrize("spec", SPECS, ids=repr)


def told(question: Exchange) -> Any:
    """A usable answer of a helper model."""
    if not isinstance(question, Ask):
        return None
    if question.texts:
        return [[1.0, float(number)] for number, _ in enumerate(question.texts)]
    if question.schema is samples.Invoice:
        return samples.Invoice(number=1).model_dump_json()
    return "1, 2" if question.operation == "relevant" else question.prompt


@dataclasses.dataclass
class Run:
    """The selection of a spec, and its requests."""

    selection: Selection | None
    asked: list[Exchange]
    error: str = ""


def run(spec: Context, entries: list[Entry], state: Mapping[str, Any], *, failing: bool = False) -> Run:
    """Evaluate a spec for `me`; helper models answer, or all of them fail."""
    scene = scene_of(entries, agent="me", now=float(len(entries)), state=state)
    asked: list[Exchange] = []
    steps = selecting(spec, scene)
    try:
        question = next(steps)
        while True:
            asked.append(question)
            question = steps.send(None if failing else told(question))
    except StopIteration as done:
        return Run(done.value, asked)
    except (ContextError, MissingKeyError) as error:
        return Run(None, asked, str(error))


# --- each operation is declared once --------------------------------------------------------------


def test_every_class_is_an_operation() -> None:
    """The subclasses of `Context` are the operations, each with a unique name."""
    assert {cls.op: cls for cls in classes()} == dict(OPERATIONS)
    assert "" not in OPERATIONS


@every_class
def test_an_operation_is_a_frozen_value_with_examples(cls: type[Context]) -> None:
    """Each operation is a value of its fields, has a docstring, and has an example in these tests."""
    assert cls.__doc__
    assert "__dataclass_fields__" in vars(cls)
    assert EXAMPLES[cls]


@every_class
def test_an_operation_has_a_factory_and_is_documented(cls: type[Context]) -> None:
    """`C` or `A` has a factory, or there is a sign, of its name, and the page about that shows it."""
    if cls.op in SIGNS:
        assert f" {SIGNS[cls.op]} C." in PAGE
        return
    factories, page = {"C": (C, PAGE), "A": (A, ARTIFACTS)}[cls.namespace]
    assert callable(getattr(factories, cls.op))
    assert f"{cls.namespace}.{cls.op}(" in page


def test_every_factory_gives_an_operation() -> None:
    """`C` has nothing but operations, another name of one, and the two steps."""
    names = {name for name in vars(C) if not name.startswith("_")}
    assert {name for name, cls in OPERATIONS.items() if cls.namespace == "C"} - set(SIGNS) <= names
    assert names - set(OPERATIONS) == {"last_n_turns", "capture", "capture_turns"}


# --- what it says of itself is what happens -------------------------------------------------------

SAID = [(author, f"{author} {n} " + "word " * 30) for n in range(9) for author in ("user", "a", "b")]
LONG = [entry("a", index=-1, function_calls=(call("tool", "1"),)), *talk(*SAID)]


@every_spec
def test_declared_model_requests_happen(spec: Context) -> None:
    """A spec that says it asks a model does so for some conversation."""
    state = {"vip": True, "user:tier": "v1", "q": "?", "a": "1", "n": "notes"}
    asked = any(run(spec, LONG[:end], state).asked for end in range(len(LONG), 0, -1))
    assert asked == spec.asks


@given(specs, conversations(), states)
def test_undeclared_model_requests_do_not_happen(spec: Context, entries: list[Entry], state: State) -> None:
    """A spec that does not say that it asks a model never does."""
    assert spec.asks or not run(spec, entries, state).asked


@given(specs, conversations(), states, states, st.booleans())
def test_no_other_key_changes_the_outcome(
    spec: Context, entries: list[Entry], state: State, other: State, failing: bool
) -> None:
    """States that agree on the keys a spec reads give the same selection, questions and errors."""
    assume(spec.access.reads_known)
    kept = {key: value for key, value in state.items() if key in spec.access.reads}
    alike = {key: value for key, value in other.items() if key not in spec.access.reads} | kept
    assert run(spec, entries, state, failing=failing) == run(spec, entries, alike, failing=failing)


@given(specs)
def test_its_reads_and_its_access_agree(spec: Context) -> None:
    """The keys that it names one by one, and all of them together, are the same."""
    assert {read.key for read in spec.key_reads()} == spec.access.reads
    assert {key for part in walk(spec) for key in part.own_writes} == spec.access.writes


@given(specs, conversations(), states)
def test_only_a_key_that_is_needed_stops_it(spec: Context, entries: list[Entry], state: State) -> None:
    """A missing key is an error only where it is shown and was not called optional."""
    error = run(spec, entries, state).error
    if "needs state key" in error:
        missing = [read for read in spec.key_reads() if f"needs state key {read.key!r} " in error]
        assert any(read.via == "context" and read.level != "optional" for read in missing)


@given(specs, states)
def test_decided_conditions_keep_to_the_declared_ways(spec: Context, state: dict[str, Any]) -> None:
    """After its conditions are decided, a spec is in one of its declared `ways`, or vanishes if it may."""
    left = spec.resolved(state)
    assert left is not None or spec.may_vanish
    assert left is None or left.is_selection in spec.ways
    assert not spec.always_selects or (left is not None and left.is_selection)


@dataclasses.dataclass(frozen=True)
class Held:
    """A spec and a conversation, with what the spec says of itself and what there is to select."""

    spec: Context
    entries: list[Entry]

    @cached_property
    def view(self) -> ContextView:
        """The view that the spec declares."""
        return self.spec.view()

    @cached_property
    def scene(self) -> Scene:
        """The conversation as it is before the spec selects from it."""
        return scene_of(self.entries, agent="me", now=0)


def hold_what_is_shown(held: Held, chosen: Selection) -> None:
    """No text, turn, key or tool call is seen that the view rules out, also inside what a model made."""
    spec, entries, seen = held.spec, held.entries, held.view
    turn = max(entry.turn for entry in entries)
    for said in chosen.conversation:
        assert seen.history != "none"
        assert seen.turns is None or said.turn > turn - seen.turns
        if said.kind == "event" and said.author == "user":
            assert seen.user
        elif said.kind == "event":
            assert seen.authors is None or said.author in seen.authors
            assert said.author not in seen.excluded
    assert not spec.drops_calls or "tool({})" not in text(chosen.entries)
    for value in chosen.shown:
        for said in entries if value.author in spec.extracted_keys else ():
            if said.text.startswith(("t", "A-", "B-")) and said.author != "me" and said.text in value.text:
                assert seen.may_see(said.author)
                assert seen.turns is None or said.turn > turn - seen.turns
    assert not seen.message or chosen.pinned == held.scene.pinned
    assert {entry.author for entry in chosen.shown} <= {*seen.keys, TEMPLATE}


def hold_what_is_sure(held: Held, chosen: Selection) -> None:
    """If the view is not `unknown`, every text that it shows is selected."""
    seen = held.view
    if seen.unknown or seen.history == "none":
        return
    whole, turn = text(chosen.conversation), max(entry.turn for entry in held.entries)
    added = any(part.op == "sum" for part in walk(held.spec))  # then it speaks of the current turn
    turns = 1 if added else seen.turns or turn
    for said in held.scene.history:
        visible = seen.user if said.author == "user" else seen.may_see(said.author)
        if visible and said.turn > turn - turns:
            assert said.text in whole


def hold_what_is_untouched(held: Held, chosen: Selection) -> None:
    """A conversation that is declared as untouched is left to ADK."""
    if held.spec.is_untouched:
        assert chosen.untouched
        events = [entry.index for entry in chosen.conversation if entry.kind == "event"]
        assert events == [entry.index for entry in held.scene.history]


def hold_what_is_written(held: Held, chosen: Selection, state: State) -> None:
    """A spec writes only declared keys, and the sure ones whenever there is something to write."""
    spec = held.spec
    written = {key for key, _ in chosen.writes}
    left = spec.resolved(state)
    noted = left.noted(state, "Noted.").keys() if left else set[str]()
    assert written <= spec.extracted_keys
    assert written | noted <= spec.access.writes
    anything = bool(held.scene.history)
    assert spec.surely_written(anything=anything) <= written | noted


def hold(spec: Context, entries: list[Entry], *states: State, failing: bool = False) -> None:
    """Hold what a spec says against what comes of it in each of these states."""
    held = Held(spec, entries)
    for state in states:
        chosen = run(spec, entries, state, failing=failing).selection
        if chosen is None:
            continue
        hold_what_is_shown(held, chosen)
        hold_what_is_sure(held, chosen)
        hold_what_is_untouched(held, chosen)
        if not failing:
            hold_what_is_written(held, chosen, state)


@settings(max_examples=examples(300))
@given(specs, conversations(), states, st.booleans())
def test_a_spec_keeps_to_its_declaration(
    spec: Context, entries: list[Entry], state: State, failing: bool
) -> None:
    """Whatever a spec shows, leaves alone and writes in a conversation is what it says beforehand."""
    hold(spec, entries, state, failing=failing)


CALLS = [
    entry("a", turn=2, index=7, function_calls=(call("tool", "2"),)),
    entry("a", turn=2, index=8, function_responses=(answer("tool", "2"),)),
]
SECOND = [("user", "U-2"), ("a", "A-2"), ("b", "B-2")]
SHORT = [
    *talk(("user", "U-1"), ("a", "A-1"), ("b", "B-1"), ("me", "M-1")),
    *(entry(author, text, turn=2, index=at) for at, (author, text) in enumerate(SECOND, 4)),
    *CALLS,
    entry("user", "U-3", turn=3, index=9),
    entry("b", "B-3", turn=3, index=10),
]
"""Three turns, in which every agent speaks and one uses a tool."""
SOME_STATES: list[State] = [{}, {"vip": "v1", "user:tier": "v1", "a": "A", "user:b": "B", "n": "N", "q": "Q"}]


@pytest.mark.parametrize("spec", every(10, SPECS, before_changes=8), ids=repr)
def test_two_joined_specs_keep_to_their_declaration(spec: Context) -> None:
    """Two operations joined by `|` or `+`, with or without a condition, show what they declare."""
    for other in SPECS:
        for first in (spec, C.when("vip", spec)):
            for both in (first | other, first + other):
                hold(both, SHORT, *SOME_STATES)


@given(specs, conversations(), states)
def test_selected_entries_are_sent_once(spec: Context, entries: list[Entry], state: State) -> None:
    """Selected entries are in the block or among the messages; state values are always in the block."""
    chosen = run(spec, entries, state).selection
    if chosen is None:
        return
    block, messages = spec.delivered(chosen)
    assert sorted((*block, *messages), key=chosen.entries.index) == list(chosen.entries)
    assert bool(messages) == (spec.contents and bool(chosen.conversation))
    assert all(entry.kind != "state" for entry in messages)
