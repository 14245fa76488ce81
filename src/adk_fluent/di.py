"""Dependency injection: objects that tools, callbacks and steps receive by name, and their lifetime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.backends.adk.api import close
    from adk_fluent.ir.resources import Resource

__all__ = ["Resource", "close"]

__getattr__: Callable[[str], object] = lazy(__name__)
