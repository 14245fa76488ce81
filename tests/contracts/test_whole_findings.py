"""Findings word for word: what was found about which agent, how bad it is, why, and what to do."""

from __future__ import annotations

import pytest

from tests.contracts.corpus.cases import Case
from tests.contracts.corpus.texts import CASES, text_of, texts, title

BOOK = texts()


@pytest.mark.parametrize("case", CASES, ids=title)
def test_the_whole_text_of_what_is_found(case: Case) -> None:
    """Severity, code, agent, key, message and hint of what is said of a pipeline are in the book."""
    assert text_of(case) == BOOK[title(case)]


def test_the_book_holds_the_corpus_and_no_more() -> None:
    """No text is left of a pipeline that is gone, and no two pipelines share one."""
    titles = [title(case) for case in CASES]
    assert sorted(titles) == sorted(BOOK)
