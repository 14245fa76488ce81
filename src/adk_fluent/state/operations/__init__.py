"""The `S` operations: one frozen class each, which says everything about it.

An operation is what a `TransformNode` runs: a pure function from the state to the changes that it makes
there, `None` for a key that goes. Beside that it says which keys it reads and how, its effects on what is
known about the state (see `adk_fluent.state.effects`), what a step of it is called, and how it is stored.
"""

from __future__ import annotations

from adk_fluent.state.operations.base import OPERATIONS, Operation, StateOperation, changes_of
from adk_fluent.state.operations.checking import Guard, Identity, Log, Require, Validate
from adk_fluent.state.operations.choosing import Branch, Together, When
from adk_fluent.state.operations.keys import Drop, Flatten, Pick, Rename, Unflatten
from adk_fluent.state.operations.lists import Accumulate, GroupBy, History, Zip
from adk_fluent.state.operations.values import Compute, Counter, Default, Fn, Merge, Set, Transform

__all__ = [
    "OPERATIONS",
    "Accumulate",
    "Branch",
    "Compute",
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
    "Transform",
    "Unflatten",
    "Validate",
    "When",
    "Zip",
    "changes_of",
]
