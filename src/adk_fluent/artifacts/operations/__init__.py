"""The `A` operations: one frozen class each, which says everything about it.

An operation is what an `ArtifactNode` runs. It says which state keys it reads, its effects on what is known
about the state, what it does with which artifacts, what a step of it is called and how it is stored; and at
work it yields what it asks of the artifact service, so that it touches no file itself.
"""

from __future__ import annotations

from adk_fluent.artifacts.operations.base import OPERATIONS, ArtifactOperation, Stored
from adk_fluent.artifacts.operations.choosing import When
from adk_fluent.artifacts.operations.files import (
    Delete,
    List,
    Load,
    Publish,
    PublishMany,
    Save,
    Snapshot,
    SnapshotMany,
    Version,
)
from adk_fluent.artifacts.operations.values import AsCsv, AsJson, AsText, FromCsv, FromJson, FromMarkdown

__all__ = [
    "OPERATIONS",
    "ArtifactOperation",
    "AsCsv",
    "AsJson",
    "AsText",
    "Delete",
    "FromCsv",
    "FromJson",
    "FromMarkdown",
    "List",
    "Load",
    "Publish",
    "PublishMany",
    "Save",
    "Snapshot",
    "SnapshotMany",
    "Stored",
    "Version",
    "When",
]
