from __future__ import annotations

from dataclasses import replace

import pytest

from adk_fluent import C
from adk_fluent.context.spec import Context
from adk_fluent.context.view import NOTHING, View
from tests import samples
from tests.context.talk import is_short

SOME = View(history="some", files=False)
ONLY_USER = SOME.__class__(history="some", authors=frozenset(), files=False)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (C.default(), View()),
        (C.default().as_contents(), View(as_contents=True)),
        (C.none(), NOTHING),
        (C.user_only(), ONLY_USER),
        (C.from_state("a", "b"), View("none", frozenset(), user=False, files=False, keys=("a", "b"))),
        (C.template("{b} {a?}"), View("none", frozenset(), user=False, files=False, keys=("a", "b"))),
        (C.notes("n"), View("none", frozenset(), user=False, files=False, keys=("n",))),
        (C.write_notes("n"), View()),
        (C.validate(is_short), View()),
        (C.from_agents("a"), View("some", frozenset({"a"}), files=False)),
        (C.exclude_agents("a"), View("some", None, frozenset({"a"}), files=False)),
        (C.window(2), View("some", files=False, turns=2)),
        (C.window(2).as_contents(), View("some", turns=2, as_contents=True)),
        (C.compact(), View("some", files=False)),
        (C.dedup(), View("some", files=False, unknown=True)),
        (C.user("first"), View("some", frozenset(), files=False, unknown=True)),
        (C.select(author="a"), View("some", frozenset({"a"}), user=False, files=False, unknown=True)),
        (C.select(author=["a", "user"]), View("some", frozenset({"a"}), files=False, unknown=True)),
        (C.from_agents_windowed(a=1), View("some", frozenset({"a"}), files=False, unknown=True)),
        (C.distill(into="x"), View("some", files=False, keys=("x",), unknown=True, made=True)),
        (C.extract(samples.Invoice, into="x"), C.distill(into="x").view()),
        # joined
        (C.default() + C.from_state("a"), View(keys=("a",))),
        (C.from_state("a") + C.window(1), View("some", files=False, keys=("a",), turns=1)),
        (C.from_agents("a") + C.from_agents("b"), View("some", frozenset({"a", "b"}), files=False)),
        (C.from_agents("a") + C.exclude_agents("a"), View("some", None, files=False)),
        (
            C.exclude_agents("a", "b") + C.exclude_agents("b"),
            View("some", None, frozenset({"b"}), files=False),
        ),
        (C.exclude_agents("a") + C.user_only(), View("some", None, frozenset({"a"}), files=False)),
        (
            C.from_agents("a", "b") | C.exclude_agents("b"),
            View("some", frozenset("ab"), frozenset("b"), files=False),
        ),
        (C.from_agents("a") | C.from_agents("b"), View("some", frozenset(), files=False)),
        (C.window(3) | C.window(1), View("some", files=False, turns=1)),
        (C.window(3) | C.none(), NOTHING),
        (C.window(1) | C.from_state("a"), View("some", files=False, keys=("a",), turns=1)),
        (C.window(1) + C.redact("x"), View("some", files=False, turns=1, unknown=True, message=False)),
        (C.redact("x") | C.none(), replace(NOTHING, message=False)),
        (C.when("k", C.none()), View(files=False, unknown=True)),
        (C.when("k", C.none()) + C.user_only(), View("some", frozenset(), files=False)),
        (C.when("k", C.window(1)) + C.user_only(), View("some", files=False, unknown=True)),
        (C.when("k", C.default()) + C.user_only(), View(files=False, unknown=True)),
        (C.when("k", C.default()) + C.default(), View()),
        (C.when("k", C.none()) + C.when("j", C.user_only()), View(files=False, unknown=True)),
    ],
    ids=lambda value: repr(value) if isinstance(value, Context) else "",
)
def test_what_a_spec_says_before_it_runs(spec: Context, expected: View) -> None:
    """The static facts of each spec."""
    assert spec.view() == expected


def test_whose_text_may_be_seen() -> None:
    """A view answers for an agent's text of the current turn."""
    assert [C.from_agents("a").view().may_see(name) for name in "ab"] == [True, False]
    assert [C.exclude_agents("a").view().may_see(name) for name in "ab"] == [False, True]
    assert [C.none().view().may_see(name) for name in "ab"] == [False, False]
    assert [C.default().view().may_see(name) for name in "ab"] == [True, True]


@pytest.mark.parametrize(
    ("spec", "untouched"),
    [
        (C.default(), True),
        (C.default() + C.from_state("a") + C.write_notes("n"), True),
        (C.validate(is_short) + C.priority(1), True),
        (C.default() | C.validate(is_short), True),
        (C.default() | C.from_state("a"), True),
        (C.window(99), False),
        (C.default() + C.redact("x"), False),
        (C.from_state("a"), False),
        (C.when("k", C.validate(is_short)), True),
        (C.when("k", C.none()), False),
        (C.when("k", C.default()) + C.none(), False),
        (C.when("k", C.default()) + C.default(), True),
    ],
    ids=lambda value: repr(value) if isinstance(value, Context) else "",
)
def test_what_is_left_to_adk(spec: Context, untouched: bool) -> None:
    """Only what never changes the conversation leaves it to ADK."""
    assert spec.is_untouched is untouched
