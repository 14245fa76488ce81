"""The operations that save, load, list and delete artifacts, and those that convert a value in the state.

`as_json`, `from_json` and the like replace a state value by another form of it, before it is saved or after
it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from adk_fluent.artifacts import formats, requests
from adk_fluent.artifacts.operations.base import ArtifactOperation, operation_at
from adk_fluent.artifacts.requests import File, Work, name_reads, resolved_name, use_of
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
        return formats.content_of(value, filename, mime)
    except formats.Unfit as error:
        raise ArtifactError(f"{who}: {what} {error}.") from error


def _read(file: File, decode: str, who: str, filename: str) -> Any:
    """Convert the content of a file to a state value.

    Raises:
        ArtifactError: the content does not have the form `decode`.
    """
    try:
        return formats.value_of(file, decode)
    except formats.Unfit as error:
        raise ArtifactError(f"{who}: {filename!r} {error}.") from error


class _OfOne(ArtifactOperation):
    """Base of the operations on one artifact."""

    use: ClassVar[Use] = "reads"
    filename: str

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
    filename: str
    key: str
    mime: str | None = None
    metadata: tuple[tuple[str, Any], ...] = ()

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
    pairs: tuple[tuple[str, str], ...]

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
    filename: str
    content: Any
    mime: str | None = None
    metadata: tuple[tuple[str, Any], ...] = ()

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
    filename: str
    key: str
    version: int | None = None
    decode: str = "text"

    def work(self, state: StateView) -> Work:
        who = operation_at(state, self.name)
        filename = resolved_name(self.filename, state, who)
        file = yield requests.LoadFile(filename, self.version)
        return {self.key: _read(file, self.decode, who, filename)}

    def _doing(self) -> Iterable[Effect]:
        return (Writes(self.key, formats.KINDS.get(self.decode, str)),)

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
    pairs: tuple[tuple[str, str], ...]

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
    key: str

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
    filename: str
    key: str

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
    filename: str

    def work(self, state: StateView) -> Work:
        yield requests.DeleteFile(resolved_name(self.filename, state, operation_at(state, self.name)))
        return {}

    @property
    def wording(self) -> str:
        return f"delete {self.filename}"


# --- operations that convert a state value ---------------------------------------------------------


class _InPlace(ArtifactOperation):
    """Replaces the value at a key by another form of it."""

    takes: ClassVar[object] = None
    """The type that the value must have; `None` for any type."""
    gives: ClassVar[object] = str
    """The type of the new value; `None` if only a run shows it."""
    key: str

    def converted(self, value: Any) -> object:
        """Convert the value.

        Raises:
            Unfit: the value has the wrong shape.
        """
        return value

    def work(self, state: StateView) -> Work:
        yield from ()
        value = value_at(state, self.key, operation_at(state, self.name))
        try:
            return {self.key: self.converted(value)}
        except formats.Unfit as error:
            who = operation_at(state, f"{self.name}({self.key!r})")
            raise ArtifactError(f"{who}: the value {error}.") from error

    def _reading(self) -> KeyReads:
        yield KeyRead(self.key, "artifact", type=self.takes)

    def _doing(self) -> Iterable[Effect]:
        return (Needs(self.key), Writes(self.key, self.gives, (self.key,)))

    @property
    def wording(self) -> str:
        return f"{self.key} {self.name.replace('_', ' ')}"


def _of_text(value: object, convert: Callable[[str], object]) -> object:
    if not isinstance(value, str):
        raise formats.Unfit(f"is no text but {type(value).__name__} {value!r:.40}")
    return convert(value)


@frozen
class AsJson(_InPlace):
    """Replaces a value by JSON text."""

    name: ClassVar[str] = "as_json"
    key: str

    def converted(self, value: Any) -> object:
        return formats.to_json(value)


@frozen
class AsCsv(_InPlace):
    """Replaces a list of dicts by CSV text."""

    name: ClassVar[str] = "as_csv"
    takes: ClassVar[object] = list
    key: str

    def converted(self, value: Any) -> object:
        return formats.to_csv(value)


@frozen
class AsText(_InPlace):
    """Replaces a value by plain text."""

    name: ClassVar[str] = "as_text"
    key: str

    def converted(self, value: Any) -> object:
        return formats.to_text(value)


@frozen
class FromJson(_InPlace):
    """Replaces JSON text by the value that it holds."""

    name: ClassVar[str] = "from_json"
    takes: ClassVar[object] = str
    gives: ClassVar[object] = None
    key: str

    def converted(self, value: Any) -> object:
        return _of_text(value, formats.from_json)


@frozen
class FromCsv(_InPlace):
    """Replaces CSV text by a list of dicts."""

    name: ClassVar[str] = "from_csv"
    takes: ClassVar[object] = str
    gives: ClassVar[object] = list
    key: str

    def converted(self, value: Any) -> object:
        return _of_text(value, formats.from_csv)


@frozen
class FromMarkdown(_InPlace):
    """Replaces Markdown text by a dict of its sections."""

    name: ClassVar[str] = "from_markdown"
    takes: ClassVar[object] = str
    gives: ClassVar[object] = dict
    key: str

    def converted(self, value: Any) -> object:
        return _of_text(value, formats.from_markdown)
