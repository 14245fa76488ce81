"""The operations of `S`: each is one frozen class, which declares everything about it.

A `TransformNode` runs an operation: a pure function from the state to its changes, with `None` for a removed
key. The operation also declares the keys that it reads, its effects on the state (see
`adk_fluent.state.effects`), the label of its step and its stored form.
"""

from __future__ import annotations

from adk_fluent.state.operations.base import OPERATIONS, Operation, StateOperation, changes_of
from adk_fluent.state.operations.conditions import (
    Branch,
    ConditionalTransform,
    Guard,
    Identity,
    Log,
    Require,
    Together,
    Validate,
)
from adk_fluent.state.operations.shapes import (
    Accumulate,
    Drop,
    Flatten,
    GroupBy,
    History,
    Pick,
    Rename,
    Unflatten,
    Zip,
)
from adk_fluent.state.operations.writes import Compute, Counter, Default, Fn, Merge, Set, TransformValue

__all__ = [
    "OPERATIONS",
    "Accumulate",
    "Branch",
    "Compute",
    "ConditionalTransform",
    "Counter",
    "Default",
    "Drop",
    "Flatten",
    "Fn",
    "GroupBy",
    "Guard",
    "History",
    "Identity",
    "Log",
    "Merge",
    "Operation",
    "Pick",
    "Rename",
    "Require",
    "Set",
    "StateOperation",
    "Together",
    "TransformValue",
    "Unflatten",
    "Validate",
    "Zip",
    "changes_of",
]
