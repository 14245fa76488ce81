"""Ready-made shapes: plain expressions for what is written again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.patterns.choices import cascade, conditional
    from adk_fluent.patterns.gathering import chain, fan_out_merge, map_reduce
    from adk_fluent.patterns.rounds import debate, review_loop, supervised

__getattr__: Callable[[str], object] = lazy(__name__)

__all__ = [
    "cascade",
    "chain",
    "conditional",
    "debate",
    "fan_out_merge",
    "map_reduce",
    "review_loop",
    "supervised",
]
