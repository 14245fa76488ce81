"""The sample of similar cases and of random examples that runs before each change.

`./dev test all`, and `./dev test` with the name of a file, run all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

_sampled = False


def begin(config: pytest.Config) -> None:
    """Take a sample where the run leaves out the cases marked `exhaustive`."""
    global _sampled  # decorators read it while modules are imported
    expression: str = config.getoption("markexpr") or ""
    _sampled = "not exhaustive" in expression


def every(n: int, cases: Iterable[Any], *, before_changes: int = 1) -> list[Any]:
    """All cases on the newest google-adk; of them the first and every n-th after it on older ones, too.

    Args:
        before_changes: of them, the first and every so many-th runs before each change on the newest one.
    """

    def marks(number: int) -> list[pytest.MarkDecorator]:
        if number % n == 0:
            return []
        return [pytest.mark.newest, *([pytest.mark.exhaustive] if number % before_changes else [])]

    return [pytest.param(case, marks=marks(number)) for number, case in enumerate(cases)]


def examples(count: int) -> int:
    """The number of random examples; before each change a third of them, at least three."""
    return max(count // 3, 3) if _sampled else count
