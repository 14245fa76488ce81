"""A fresh check for each test: findings are cached on the tree, and many tests share one tree."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import pytest

from adk_fluent.contracts import report


@pytest.fixture(autouse=True)
def nothing_is_known_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No finding of another test is given again."""
    monkeypatch.setattr(report, "_found", WeakKeyDictionary[Any, Any]())
