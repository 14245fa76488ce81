"""The operations that save, load, list and delete artifacts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from adk_fluent.artifacts import asking as ask
from adk_fluent.artifacts.asking import File, Work
from adk_fluent.artifacts.content import KINDS, content_of, value_of
from adk_fluent.artifacts.formats import Unfit
from adk_fluent.artifacts.names import name_reads, named, used
from adk_fluent.artifacts.operations.base import (
    ArtifactOperation,
    Content,
    Filename,
    Key,
    Metadata,
    Mime,
    Pairs,
    VersionNumber,
    asking,
)
from adk_fluent.errors import ArtifactError
from adk_fluent.ir.files import ArtifactUse, Use
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.keys import KeyRead, KeyReads
from adk_fluent.ir.matching import StateView
from adk_fluent.state.effects import Effect, Needs, Writes
from adk_fluent.state.operations.base import value_at


def _filled(value: object, filename: str, mime: str | None, who: str, what: str) -> File:
    """A value as the content of a file.

    Raises:
        ArtifactError: it cannot be.
    """
    try:
        return content_of(value, filename, mime)
    except Unfit as error:
        raise ArtifactError(f"{who}: {what} {error}.") from error


def _read(file: File, decode: str, who: str, filename: str) -> Any:
    """What the state gets of a file.

    Raises:
        ArtifactError: it is not of that form.
    """
    try:
        return value_of(file, decode)
    except Unfit as error:
        raise ArtifactError(f"{who}: {filename!r} {error}.") from error


class _OfOne(ArtifactOperation):
    """Does something with one artifact."""

    use: ClassVar[Use] = "reads"
    filename: Filename

    def _reading(self) -> KeyReads:
        return name_reads(self.filename)

    def _using(self) -> Iterable[ArtifactUse]:
        return (used(self.use, self.filename),)


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
        who = asking(state, self.name)
        filename = named(self.filename, state, who)
        value = value_at(state, self.key, who)
        file = _filled(value, filename, self.mime, who, f"state key {self.key!r}")
        yield ask.Save(filename, file, dict(self.metadata))
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
    """Saves several state values, each as an artifact; nothing is saved unless all can be."""

    name: ClassVar[str] = "publish_many"
    pairs: Pairs

    def work(self, state: StateView) -> Work:
        who = asking(state, self.name)
        saves: list[ask.Save] = []
        for pattern, key in self.pairs:
            filename = named(pattern, state, who)
            value = value_at(state, key, who)
            saves.append(ask.Save(filename, _filled(value, filename, None, who, f"state key {key!r}")))
        for save in saves:  # noqa: UP028  # each is sent an answer, which a list cannot take
            yield save
        return {}

    def _reading(self) -> KeyReads:
        yield from name_reads(*(filename for filename, _ in self.pairs))
        yield from (KeyRead(key, "artifact") for _, key in self.pairs)

    def _doing(self) -> Iterable[Effect]:
        return (Needs(key) for _, key in self.pairs)

    def _using(self) -> Iterable[ArtifactUse]:
        return (used("saves", filename) for filename, _ in self.pairs)

    @property
    def wording(self) -> str:
        return f"publish {', '.join(filename for filename, _ in self.pairs)}"


@frozen
class Save(_OfOne):
    """Saves content that is known before the run as a new version of an artifact."""

    name: ClassVar[str] = "save"
    use: ClassVar[Use] = "saves"
    filename: Filename
    content: Content
    mime: Mime = None
    metadata: Metadata = ()

    def work(self, state: StateView) -> Work:
        who = asking(state, self.name)
        filename = named(self.filename, state, who)
        file = _filled(self.content, filename, self.mime, who, "the content")
        yield ask.Save(filename, file, dict(self.metadata))
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
        who = asking(state, self.name)
        filename = named(self.filename, state, who)
        file = yield ask.Load(filename, self.version)
        return {self.key: _read(file, self.decode, who, filename)}

    def _doing(self) -> Iterable[Effect]:
        return (Writes(self.key, KINDS.get(self.decode, str)),)

    @property
    def wording(self) -> str:
        return f"{self.name} {self.filename} into {self.key}"


@frozen
class Load(Snapshot):
    """Copies an artifact into the state key that is named after it."""

    name: ClassVar[str] = "load"


@frozen
class SnapshotMany(ArtifactOperation):
    """Copies several artifacts into the state; nothing is written unless all are there."""

    name: ClassVar[str] = "snapshot_many"
    pairs: Pairs

    def work(self, state: StateView) -> Work:
        who = asking(state, self.name)
        found: dict[str, Any] = {}
        for pattern, key in self.pairs:
            filename = named(pattern, state, who)
            found[key] = _read((yield ask.Load(filename)), "text", who, filename)
        return found

    def _reading(self) -> KeyReads:
        return name_reads(*(filename for filename, _ in self.pairs))

    def _doing(self) -> Iterable[Effect]:
        return (Writes(key, str) for _, key in self.pairs)

    def _using(self) -> Iterable[ArtifactUse]:
        return (used("reads", filename) for filename, _ in self.pairs)

    @property
    def wording(self) -> str:
        return f"snapshot {', '.join(filename for filename, _ in self.pairs)}"


# --- the rest -------------------------------------------------------------------------------------


@frozen
class List(ArtifactOperation):
    """Writes the names of all artifacts of the session and the user."""

    name: ClassVar[str] = "list"
    key: Key

    def work(self, state: StateView) -> Work:
        return {self.key: (yield ask.Names())}

    def _doing(self) -> Iterable[Effect]:
        return (Writes(self.key, list),)

    @property
    def wording(self) -> str:
        return f"list artifacts into {self.key}"


@frozen
class Version(_OfOne):
    """Writes the number of an artifact's latest version."""

    name: ClassVar[str] = "version"
    filename: Filename
    key: Key

    def work(self, state: StateView) -> Work:
        return {self.key: (yield ask.Latest(named(self.filename, state, asking(state, self.name))))}

    def _doing(self) -> Iterable[Effect]:
        return (Writes(self.key, int),)

    @property
    def wording(self) -> str:
        return f"version of {self.filename} into {self.key}"


@frozen
class Delete(_OfOne):
    """Deletes every version of an artifact; one that is not there is none."""

    name: ClassVar[str] = "delete"
    use: ClassVar[Use] = "deletes"
    filename: Filename

    def work(self, state: StateView) -> Work:
        yield ask.Delete(named(self.filename, state, asking(state, self.name)))
        return {}

    @property
    def wording(self) -> str:
        return f"delete {self.filename}"
