"""A bar that shows how far a suite has come."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

_WIDTH: Final = 30


def bar(name: str) -> Callable[[int, int], None]:
    """What draws the bar of a suite on the standard error output; nothing where that is no terminal."""

    def draw(done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        full = _WIDTH * done // total
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{name}  {'█' * full}{'░' * (_WIDTH - full)}  {done}/{total}{end}")
        sys.stderr.flush()

    return draw
