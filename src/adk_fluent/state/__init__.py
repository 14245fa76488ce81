"""Session state: its typed schemas, the `S` operations that change it, and its storable values.

`StateSchema` (in `schema`) declares keys and their types. The operations of `S` (in `operations`) are frozen
functions from the state to its changes; each declares its effects as data (`effects`), which `analysis`
interprets. `fidelity` refuses a value that a session store would not give back. The package
imports `ir` and nothing of ADK. Read `operations.base.StateOperation` first, then `delta.changes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_fluent._lazy import lazy
from adk_fluent.errors import SchemaCompositionError, StateKeyError, StateTypeError
from adk_fluent.ir.functions import declares
from adk_fluent.ir.state_keys import StateFieldRef

if TYPE_CHECKING:
    from collections.abc import Callable

    from adk_fluent.state.schema import StateSchema
    from adk_fluent.state.schema_fields import AppScoped, CapturedBy, SessionScoped, Temp, UserScoped

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
