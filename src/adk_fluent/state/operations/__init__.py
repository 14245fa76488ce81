"""The operations of `S`: each is one frozen class, which declares everything about it.

A `TransformNode` runs an operation: a pure function from the state to its changes, with `None` for a removed
key. The operation also declares the keys that it reads, its effects on the state (see
`adk_fluent.state.effects`), the label of its step and its stored form.
"""

from __future__ import annotations

from adk_fluent.state.operations import conditions, shapes, writes
from adk_fluent.state.operations.base import OPERATIONS, Operation, StateOperation, changes_of

__all__ = [
    "OPERATIONS",
    "Operation",
    "StateOperation",
    "changes_of",
    "conditions",
    "shapes",
    "writes",
]
