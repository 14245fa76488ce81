"""What is known of an expression before it runs, as facts: its steps, what each key holds, who hears whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.analysis.facts import Facts, analyse

__getattr__: Callable[[str], object] = lazy(__name__)

__all__ = ["Facts", "analyse"]
