"""Names that are imported when they are first used."""

from __future__ import annotations

import pytest

import adk_fluent.cost
from adk_fluent._lazy import lazy
from adk_fluent.cost import Tokens


def test_names_are_found_whoever_loaded_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every loader gives the source: pytest's own, which loads packages that bring a plugin, does not."""
    spec = adk_fluent.cost.__spec__
    assert spec is not None
    monkeypatch.setattr(spec, "loader", object())
    assert lazy("adk_fluent.cost")("Tokens") is Tokens
