"""The operations of `A`: each is one frozen class, which declares everything about it.

An `ArtifactNode` runs an operation. The operation declares the state keys that it reads, its effects on the
state, the artifacts that it uses, the label of its step and its stored form. When it runs, it yields requests
to the artifact service, so it touches no file itself.
"""

from __future__ import annotations

from adk_fluent.artifacts.operations import files
from adk_fluent.artifacts.operations.base import OPERATIONS, ArtifactOperation, ConditionalOperations, Stored

__all__ = ["OPERATIONS", "ArtifactOperation", "ConditionalOperations", "Stored", "files"]
