"""Visibility of steps: `user`, `internal` (only other agents see the text) or `zero_cost` (no text)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.analysis.visibility import infer_visibility
    from adk_fluent.backends.adk.api import VisibilityPlugin
    from adk_fluent.ir.annotations import Visibility

__all__ = ["Visibility", "VisibilityPlugin", "infer_visibility"]

__getattr__: Callable[[str], object] = lazy(__name__)
