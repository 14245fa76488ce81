"""Placeholders: no value is left, none is lost, and streams say the same as whole texts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_fluent.errors import MiddlewareError
from adk_fluent.middleware.detecting import Span, find_personal_data
from adk_fluent.middleware.filtering import Filter
from adk_fluent.middleware.placeholders import Vault

words = st.sampled_from(
    [
        "ann@example.org",
        "bob@example.org",
        "4111 1111 1111 1111",
        "+49 30 1234567",
        "hello",
        "[EMAIL_1]",
        "[",
        "]",
        "[EMA",
        "IL_2]",
        "[PHONE_1]",
        ", ",
        "\n",
        "é",
    ]
)
texts = st.lists(words, max_size=12).map(" ".join)


@given(st.lists(texts, max_size=5))
def test_back_and_forth(conversation: list[str]) -> None:
    """Every text of a conversation comes back as it was, and none holds personal data while it is hidden."""
    vault = Vault(find_personal_data)
    hidden = [vault.hide(text) for text in conversation]
    for text, secret in zip(conversation, hidden, strict=True):
        assert not find_personal_data(secret)
        if not re.search(r"\[(EMAIL|PHONE)_\d\]", text):
            assert vault.restore(secret) == text


@given(texts)
def test_a_placeholder_that_somebody_wrote_stays(text: str) -> None:
    """Text that looks like a placeholder is never taken for one in the same text."""
    vault = Vault(find_personal_data)
    assert vault.restore(vault.hide(text)) == text


@given(texts, st.lists(st.integers(1, 7), min_size=1))
def test_a_stream_says_what_the_whole_says(text: str, sizes: list[int]) -> None:
    """However a text is cut, also inside a placeholder, its pieces restore to what the whole restores to."""
    vault = Vault(find_personal_data)
    hidden = vault.hide(text + " ann@example.org")
    stream, said, at = vault.stream(), "", 0
    while at < len(hidden):
        size = sizes[at % len(sizes)]
        said += stream.feed(hidden[at : at + size])
        at += size
    assert said + stream.flush() == vault.restore(hidden)


def test_a_stream_is_held_back_no_more_than_needed() -> None:
    """Text without a bracket is said at once; an opened one that becomes no placeholder soon is said too."""
    stream = Vault(find_personal_data).stream()
    assert [stream.feed("hello "), stream.feed("[1] and ["), stream.feed("see"), stream.feed("A" * 60)] == [
        "hello ",
        "[1] and ",
        "[see",
        "A" * 60,
    ]


def test_the_same_value_gets_the_same_placeholder() -> None:
    """A value keeps its placeholder over several texts; another of its kind gets the next number."""
    vault = Vault(find_personal_data)
    assert vault.hide("ann@example.org") == "[EMAIL_1]"
    assert vault.hide("bob@example.org and ann@example.org") == "[EMAIL_2] and [EMAIL_1]"
    assert len(vault) == 2


def test_hiding_twice_changes_nothing() -> None:
    """What is hidden already stays as it is, and can still be restored."""
    vault = Vault(find_personal_data)
    once = vault.hide("ann@example.org")
    assert vault.hide(once) == once
    assert vault.restore(once) == "ann@example.org"


def test_json_values() -> None:
    """Texts are replaced however deep they stand, a card number that is a number too; the rest is kept."""
    vault = Vault(find_personal_data)
    hiding = Filter(vault.hide, numbers=True)
    value: dict[str, Any] = {
        "to": ["ann@example.org", {"card": 4111111111111111}],
        "n": 12345678901,
        "ok": True,
        "none": None,
    }
    assert hiding.data(value) == {
        "to": ["[EMAIL_1]", {"card": "[CREDIT_CARD_1]"}],
        "n": 12345678901,
        "ok": True,
        "none": None,
    }
    plain = {"a": [1, "x"]}
    assert hiding.data(plain) is plain
    assert Filter(vault.restore).data({"args": ["[EMAIL_1]"]}) == {"args": ["ann@example.org"]}


def test_a_detector_of_ones_own() -> None:
    """A detector's kinds name the placeholders; spans that overlap count as one."""

    def names(text: str) -> list[Span]:
        spans = [(m.start(), m.end(), "person name") for m in re.finditer("Ann( Smith)?", text)]
        return [*spans, *((start + 1, end, "x") for start, end, _ in spans)]

    vault = Vault(names)
    assert vault.hide("Ann Smith met Ann.") == "[PERSON_NAME_1] met [PERSON_NAME_2]."
    assert vault.restore("[PERSON_NAME_1]?") == "Ann Smith?"


@pytest.mark.parametrize(
    "wrong", [[(0, 99, "X")], [(3, 1, "X")], [(0, 1)], ["text"], 5, [(0, 1, 2)], [(-1, 1, "X")]]
)
def test_a_detector_that_errs_is_named(wrong: Any) -> None:
    """Spans that are none, or lie outside the text, are one clear line."""
    vault = Vault(lambda text: wrong)
    with pytest.raises(MiddlewareError, match="The detector of pii_filter gave"):
        vault.hide("text")
