from __future__ import annotations

from dataclasses import replace

import pytest

from adk_fluent import C
from adk_fluent.context.spec import Context
from adk_fluent.context.view import NOTHING, ContextView
from tests import samples
from tests.context.talk import is_short

SOME = ContextView(history="some", files=False)
ONLY_USER = SOME.__class__(history="some", authors=frozenset(), files=False)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (C.default(), ContextView()),
        (C.default().as_contents(), ContextView(as_contents=True)),
        (C.none(), NOTHING),
        (C.user_only(), ONLY_USER),
        (C.from_state("a", "b"), ContextView("none", frozenset(), user=False, files=False, keys=("a", "b"))),
        (C.template("{b} {a?}"), ContextView("none", frozenset(), user=False, files=False, keys=("a", "b"))),
        (C.notes("n"), ContextView("none", frozenset(), user=False, files=False, keys=("n",))),
        (C.write_notes("n"), ContextView()),
        (C.validate(is_short), ContextView()),
        (C.from_agents("a"), ContextView("some", frozenset({"a"}), files=False)),
        (C.exclude_agents("a"), ContextView("some", None, frozenset({"a"}), files=False)),
        (C.window(2), ContextView("some", files=False, turns=2)),
        (C.window(2).as_contents(), ContextView("some", turns=2, as_contents=True)),
        (C.compact(), ContextView("some", files=False)),
        (C.dedup(), ContextView("some", files=False, unknown=True)),
        (C.user("first"), ContextView("some", frozenset(), files=False, unknown=True)),
        (C.select(author="a"), ContextView("some", frozenset({"a"}), user=False, files=False, unknown=True)),
        (C.select(author=["a", "user"]), ContextView("some", frozenset({"a"}), files=False, unknown=True)),
        (C.from_agents_windowed(a=1), ContextView("some", frozenset({"a"}), files=False, unknown=True)),
        (
            C.distill(into="x"),
            ContextView("some", files=False, keys=("x",), unknown=True, holds_model_text=True),
        ),
        (C.extract(samples.Invoice, into="x"), C.distill(into="x").view()),
        # joined
        (C.default() + C.from_state("a"), ContextView(keys=("a",))),
        (C.from_state("a") + C.window(1), ContextView("some", files=False, keys=("a",), turns=1)),
        (C.from_agents("a") + C.from_agents("b"), ContextView("some", frozenset({"a", "b"}), files=False)),
        (C.from_agents("a") + C.exclude_agents("a"), ContextView("some", None, files=False)),
        (
            C.exclude_agents("a", "b") + C.exclude_agents("b"),
            ContextView("some", None, frozenset({"b"}), files=False),
        ),
        (C.exclude_agents("a") + C.user_only(), ContextView("some", None, frozenset({"a"}), files=False)),
        (
            C.from_agents("a", "b") | C.exclude_agents("b"),
            ContextView("some", frozenset("ab"), frozenset("b"), files=False),
        ),
        (C.from_agents("a") | C.from_agents("b"), ContextView("some", frozenset(), files=False)),
        (C.window(3) | C.window(1), ContextView("some", files=False, turns=1)),
        (C.window(3) | C.none(), NOTHING),
        (C.window(1) | C.from_state("a"), ContextView("some", files=False, keys=("a",), turns=1)),
        (C.window(1) + C.redact("x"), ContextView("some", files=False, turns=1, unknown=True, message=False)),
        (C.redact("x") | C.none(), replace(NOTHING, message=False)),
        (C.when("k", C.none()), ContextView(files=False, unknown=True)),
        (C.when("k", C.none()) + C.user_only(), ContextView("some", frozenset(), files=False)),
        (C.when("k", C.window(1)) + C.user_only(), ContextView("some", files=False, unknown=True)),
        (C.when("k", C.default()) + C.user_only(), ContextView(files=False, unknown=True)),
        (C.when("k", C.default()) + C.default(), ContextView()),
        (C.when("k", C.none()) + C.when("j", C.user_only()), ContextView(files=False, unknown=True)),
    ],
    ids=lambda value: repr(value) if isinstance(value, Context) else "",
)
def test_static_facts_of_specs(spec: Context, expected: ContextView) -> None:
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
def test_specs_that_leave_the_conversation_to_adk(spec: Context, untouched: bool) -> None:
    """Only what never changes the conversation leaves it to ADK."""
    assert spec.is_untouched is untouched
