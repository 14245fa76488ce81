"""Which of many like cases are run again on each older google-adk and on the oldest Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every(n: int, cases: Iterable[Any]) -> list[Any]:
    """All cases on the newest google-adk; of them the first and every n-th after it on older ones too."""
    return [
        pytest.param(case, marks=pytest.mark.newest if number % n else ())
        for number, case in enumerate(cases)
    ]
