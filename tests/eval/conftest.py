"""What tests of evaluation share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.gemini import Gemini, serve_models


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gemini]:
    """A server in Gemini's place; what it answers the test says."""
    with serve_models(Gemini({}), monkeypatch) as served:
        yield served
