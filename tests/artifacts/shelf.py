"""A store of files as plain values, by which operations work without ADK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adk_fluent.artifacts.operations import ArtifactOperation
from adk_fluent.artifacts.requests import (
    DeleteFile,
    File,
    LatestVersion,
    ListFiles,
    LoadFile,
    Request,
    SaveFile,
)
from adk_fluent.errors import ArtifactError
from adk_fluent.state.delta import ReadOnlyState, without_unchanged


@dataclass
class Shelf:
    """Files with their versions, and the requests that were made."""

    files: dict[str, list[File]] = field(default_factory=dict[str, list[File]])
    asked: list[Request] = field(default_factory=list[Request])

    def do(self, operation: ArtifactOperation, state: Mapping[str, Any]) -> dict[str, Any]:
        """The changes of a state by an operation."""
        view = ReadOnlyState(state)
        work = operation.work(view)
        try:
            request = next(work)
            while True:
                self.asked.append(request)
                request = work.send(self.answer(request))
        except StopIteration as done:
            return without_unchanged(done.value, view)

    def answer(self, request: Request) -> Any:
        match request:
            case SaveFile(filename, file):
                versions = self.files.setdefault(filename, [])
                versions.append(file)
                return len(versions) - 1
            case LoadFile(filename, version):
                return self.versions(filename)[-1 if version is None else version]
            case LatestVersion(filename):
                return len(self.versions(filename)) - 1
            case ListFiles():
                return sorted(self.files)
            case DeleteFile(filename):
                self.files.pop(filename, None)

    def versions(self, filename: str) -> list[File]:
        if filename not in self.files:
            raise ArtifactError(f"there is no {filename}")
        return self.files[filename]
