"""The operations that save, load, list and delete artifacts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from adk_fluent.artifacts import requests
from adk_fluent.artifacts.filenames import name_reads, resolved_name, use_of
from adk_fluent.artifacts.formats import KINDS, Unfit, content_of, value_of
from adk_fluent.artifacts.operations.base import (
    ArtifactOperation,
    Content,
    Filename,
    Key,
    Metadata,
    Mime,
    Pairs,
    VersionNumber,
    operation_at,
)
from adk_fluent.artifacts.requests import File, Work
from adk_fluent.errors import ArtifactError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import ArtifactUse, KeyRead, KeyReads, Use
from adk_fluent.ir.predicates import StateView
from adk_fluent.state.effects import Effect, Needs, Writes
from adk_fluent.state.operations.base import value_at


def _filled(value: object, filename: str, mime: str | None, who: str, what: str) -> File:
    """Convert a value to the content of a file.

    Raises:
        ArtifactError: the value cannot be written as that type; `who` and `what` start the message.
    """
    try:
        return content_of(value, filename, mime)
    except Unfit as error:
        raise ArtifactError(f"{who}: {what} {error}.") from error


def _read(file: File, decode: str, who: str, filename: str) -> Any:
    """Convert the content of a file to a state value.

    Raises:
        ArtifactError: the content does not have the form `decode`.
    """
    try:
        return value_of(file, decode)
    except Unfit as error:
        raise ArtifactError(f"{who}: {filename!r} {error}.") from error


class _OfOne(ArtifactOperation):
    """Base of the operations on one artifact."""

    use: ClassVar[Use] = "reads"
    filename: Filename

    def _reading(self) -> KeyReads:
        return name_reads(self.filename)

    def _using(self) -> Iterable[ArtifactUse]:
        return (use_of(self.use, self.filename),)


# --- saving ---------------------------------------------------------------------------------------


@frozen
class Publish(_OfOne):
    """Saves a state value as a new version of an artifact."""

    name: ClassVar[str] = "publish"
    use: ClassVar[Use] = "saves"
    filename: Filename
    key: Key
    mime: Mime = None
    metadata: Metadata = ()

    def work(self, state: StateView) -> Work:
        who = operation_at(state, self.name)
        filename = resolved_name(self.filename, state, who)
        value = value_at(state, self.key, who)
        file = _filled(value, filename, self.mime, who, f"state key {self.key!r}")
        yield requests.SaveFile(filename, file, dict(self.metadata))
        return {}

    def _reading(self) -> KeyReads:
        yield from super()._reading()
        yield KeyRead(self.key, "artifact")

    def _doing(self) -> Iterable[Effect]:
        return (Needs(self.key),)

    @property
    def wording(self) -> str:
        return f"publish {self.filename} from {self.key}"


@frozen
class PublishMany(ArtifactOperation):
    """Saves several state values, each as an artifact; it saves none if one of them cannot be saved."""

    name: ClassVar[str] = "publish_many"
    pairs: Pairs

    def work(self, state: StateView) -> Work:
        who = operation_at(state, self.name)
        saves: list[requests.SaveFile] = []
        for pattern, key in self.pairs:
            filename = resolved_name(pattern, state, who)
            value = value_at(state, key, who)
            file = _filled(value, filename, None, who, f"state key {key!r}")
            saves.append(requests.SaveFile(filename, file))
        for save in saves:  # noqa: UP028  # each receives an answer, which a list cannot take
            yield save
        return {}

    def _reading(self) -> KeyReads:
        yield from name_reads(*(filename for filename, _ in self.pairs))
        yield from (KeyRead(key, "artifact") for _, key in self.pairs)

    def _doing(self) -> Iterable[Effect]:
        return (Needs(key) for _, key in self.pairs)

    def _using(self) -> Iterable[ArtifactUse]:
        return (use_of("saves", filename) for filename, _ in self.pairs)

    @property
    def wording(self) -> str:
        return f"publish {', '.join(filename for filename, _ in self.pairs)}"


@frozen
class Save(_OfOne):
    """Saves constant content as a new version of an artifact."""

    name: ClassVar[str] = "save"
    use: ClassVar[Use] = "saves"
    filename: Filename
    content: Content
    mime: Mime = None
    metadata: Metadata = ()

    def work(self, state: StateView) -> Work:
        who = operation_at(state, self.name)
        filename = resolved_name(self.filename, state, who)
        file = _filled(self.content, filename, self.mime, who, "the content")
        yield requests.SaveFile(filename, file, dict(self.metadata))
        return {}

    @property
    def wording(self) -> str:
        return f"save {self.filename}"


# --- loading --------------------------------------------------------------------------------------


@frozen
class Snapshot(_OfOne):
    """Copies an artifact into the state."""

    name: ClassVar[str] = "snapshot"
    filename: Filename
    key: Key
    version: VersionNumber = None
    decode: str = "text"

    def work(self, state: StateView) -> Work:
        who = operation_at(state, self.name)
        filename = resolved_name(self.filename, state, who)
        file = yield requests.LoadFile(filename, self.version)
        return {self.key: _read(file, self.decode, who, filename)}

    def _doing(self) -> Iterable[Effect]:
        return (Writes(self.key, KINDS.get(self.decode, str)),)

    @property
    def wording(self) -> str:
        return f"{self.name} {self.filename} into {self.key}"


@frozen
class Load(Snapshot):
    """Copies an artifact into the state key with the artifact's name."""

    name: ClassVar[str] = "load"


@frozen
class SnapshotMany(ArtifactOperation):
    """Copies several artifacts into the state; it writes none if one of them is missing."""

    name: ClassVar[str] = "snapshot_many"
    pairs: Pairs

    def work(self, state: StateView) -> Work:
        who = operation_at(state, self.name)
        found: dict[str, Any] = {}
        for pattern, key in self.pairs:
            filename = resolved_name(pattern, state, who)
            found[key] = _read((yield requests.LoadFile(filename)), "text", who, filename)
        return found

    def _reading(self) -> KeyReads:
        return name_reads(*(filename for filename, _ in self.pairs))

    def _doing(self) -> Iterable[Effect]:
        return (Writes(key, str) for _, key in self.pairs)

    def _using(self) -> Iterable[ArtifactUse]:
        return (use_of("reads", filename) for filename, _ in self.pairs)

    @property
    def wording(self) -> str:
        return f"snapshot {', '.join(filename for filename, _ in self.pairs)}"


# --- the rest -------------------------------------------------------------------------------------


@frozen
class List(ArtifactOperation):
    """Writes the names of all artifacts of the session and of the user to a state key."""

    name: ClassVar[str] = "list"
    key: Key

    def work(self, state: StateView) -> Work:
        return {self.key: (yield requests.ListFiles())}

    def _doing(self) -> Iterable[Effect]:
        return (Writes(self.key, list),)

    @property
    def wording(self) -> str:
        return f"list artifacts into {self.key}"


@frozen
class Version(_OfOne):
    """Writes the number of an artifact's latest version to a state key."""

    name: ClassVar[str] = "version"
    filename: Filename
    key: Key

    def work(self, state: StateView) -> Work:
        filename = resolved_name(self.filename, state, operation_at(state, self.name))
        return {self.key: (yield requests.LatestVersion(filename))}

    def _doing(self) -> Iterable[Effect]:
        return (Writes(self.key, int),)

    @property
    def wording(self) -> str:
        return f"version of {self.filename} into {self.key}"


@frozen
class Delete(_OfOne):
    """Deletes every version of an artifact; a missing artifact is no error."""

    name: ClassVar[str] = "delete"
    use: ClassVar[Use] = "deletes"
    filename: Filename

    def work(self, state: StateView) -> Work:
        yield requests.DeleteFile(resolved_name(self.filename, state, operation_at(state, self.name)))
        return {}

    @property
    def wording(self) -> str:
        return f"delete {self.filename}"
