"""What tests of evaluation share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.gemini import Gemini, serve


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gemini]:
    """A server in Gemini's place; what it answers the test says."""
    with serve(Gemini({})) as served:
        monkeypatch.setenv("GOOGLE_API_KEY", "none")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", served.url)
        yield served
