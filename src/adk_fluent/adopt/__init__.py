"""Projects in plain ADK: their agents as expressions, and expressions as source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.adopt.adopting import adopt, config_of
    from adk_fluent.adopt.source import to_source

__all__ = ["adopt", "config_of", "to_source"]

__getattr__: Callable[[str], object] = lazy(__name__)
