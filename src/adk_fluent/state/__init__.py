"""State: typed schemas of it, transforms between agents, and what functions declare to read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy
from adk_fluent.errors import SchemaCompositionError, StateKeyError, StateTypeError
from adk_fluent.ir.fields import StateFieldRef
from adk_fluent.ir.functions import declares

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.state.markers import AppScoped, CapturedBy, SessionScoped, Temp, UserScoped
    from adk_fluent.state.schema import StateSchema

__all__ = [
    "AppScoped",
    "CapturedBy",
    "SchemaCompositionError",
    "SessionScoped",
    "StateFieldRef",
    "StateKeyError",
    "StateSchema",
    "StateTypeError",
    "Temp",
    "UserScoped",
    "declares",
]

__getattr__: Callable[[str], object] = lazy(__name__)
