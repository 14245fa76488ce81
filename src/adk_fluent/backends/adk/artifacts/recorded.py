"""Artifacts of a run that is recorded, and again in its replay."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from google.adk.agents.invocation_context import InvocationContext
from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.genai import types

from adk_fluent.backends.adk.compat import private
from adk_fluent.backends.adk.events.parts import parts_from

Json = Mapping[str, Any]
Found = Callable[[str, int, "Json | None"], None]

MOST_VERSIONS: Final = 1_000
"""The highest version of an artifact that a replay restores; it counts from 0, as ADK's services do."""

_saving: ContextVar[list[tuple[str, int, Json]] | None] = ContextVar("adk_fluent_saving", default=None)


class NotedArtifacts(BaseArtifactService):
    """The artifact service of a run that is recorded; it reports each version that was there before.

    Args:
        below: the service that really keeps the artifacts.
        place: the app, the user and the session of the run; artifacts of others are not reported.
        found: called with the name and the number of a version, and its content if the run loads it.
    """

    def __init__(self, below: BaseArtifactService, place: Mapping[str, str], found: Found) -> None:
        self.below: BaseArtifactService = below
        self._place, self._found = place, found
        self._own: set[tuple[str, int]] = set()
        self._latest: dict[str, int] = {}

    async def save_artifact(self, *, filename: str, artifact: Any, **asked: Any) -> int:
        """Save a version, and note it for the tool that is at work."""
        version = await self.below.save_artifact(filename=filename, artifact=artifact, **asked)
        if self._is_here(filename, asked):
            if filename not in self._latest and version > 0:
                self._note(filename, version - 1)
            self._own.add((filename, version))
            self._latest[filename] = version
            if (saved := _saving.get()) is not None:
                saved.append((filename, version, _json(artifact)))
        return version

    async def load_artifact(
        self, *, filename: str, version: int | None = None, **asked: Any
    ) -> types.Part | None:
        """Load a version, and report it."""
        part = await self.below.load_artifact(filename=filename, version=version, **asked)
        if part is not None and self._is_here(filename, asked):
            if version is None and filename not in self._latest:
                versions = await self.below.list_versions(filename=filename, **asked)
                self._latest[filename] = max(versions, default=0)
            self._note(filename, self._latest[filename] if version is None else version, part)
        return part

    async def list_artifact_keys(self, **asked: Any) -> list[str]:
        """List the names, and report them."""
        names = await self.below.list_artifact_keys(**asked)
        for name in names:
            if self._is_here(name, asked) and name not in self._latest:
                self._found(name, 0, None)
        return names

    async def delete_artifact(self, *, filename: str, **asked: Any) -> None:
        """Delete all versions; those that are saved afterwards count from the start."""
        await self.below.delete_artifact(filename=filename, **asked)
        self._latest.pop(filename, None)

    async def list_versions(self, *, filename: str, **asked: Any) -> list[int]:
        """List the versions of an artifact, and report the last one."""
        versions = await self.below.list_versions(filename=filename, **asked)
        self._report(filename, versions, asked)
        return versions

    async def list_artifact_versions(self, *, filename: str, **asked: Any) -> list[ArtifactVersion]:
        """Describe the versions of an artifact, and report the last one."""
        versions = await self.below.list_artifact_versions(filename=filename, **asked)
        self._report(filename, [each.version for each in versions], asked)
        return versions

    async def get_artifact_version(self, *, filename: str, **asked: Any) -> ArtifactVersion | None:
        """Describe a version, and report it."""
        found = await self.below.get_artifact_version(filename=filename, **asked)
        self._report(filename, [] if found is None else [found.version], asked)
        return found

    def _is_here(self, filename: str, asked: Mapping[str, Any]) -> bool:
        """Whether an artifact is of the session, or of its user."""
        of_user = filename.startswith("user:")
        return all(
            asked.get(key) == value for key, value in self._place.items() if key in _USER or not of_user
        )

    def _report(self, filename: str, versions: list[int], asked: Mapping[str, Any]) -> None:
        if versions and self._is_here(filename, asked):
            self._note(filename, max(versions))

    def _note(self, filename: str, version: int, part: types.Part | None = None) -> None:
        if (filename, version) not in self._own:
            self._found(filename, version, None if part is None else _json(part))


_USER: Final = ("app_name", "user_id")


def note_artifacts(ctx: InvocationContext, found: Found) -> None:
    """Report what a run finds in its artifact service; see `NotedArtifacts`."""
    if ctx.artifact_service is not None:
        ctx.artifact_service = NotedArtifacts(ctx.artifact_service, _place(ctx), found)


@contextmanager
def saves(note: Callable[[list[tuple[str, int, Json]]], None]) -> Generator[None]:
    """Report the artifacts that are saved within, however it ends: name, version and content, in order."""
    saved: list[tuple[str, int, Json]] = []
    token = _saving.set(saved)
    try:
        yield
    finally:
        _saving.reset(token)
        note(saved)


def really_keeping(service: BaseArtifactService | None) -> BaseArtifactService | None:
    """The service that really keeps the artifacts of a run."""
    while isinstance(service, NotedArtifacts):
        service = service.below
    return service


async def put_artifact(
    native: Any, filename: str, version: int, content: Callable[[int], Json | None]
) -> None:
    """Let a version of an artifact be there, and those before it, unless they are.

    Args:
        native: ADK's context of a call whose tool saved it; or the run, before which it was there.
        content: the content of a version; `None` if it was not recorded.
    """
    ctx = private.invocation(native)
    service = ctx.artifact_service if ctx is not native else really_keeping(ctx.artifact_service)
    if service is None:
        return
    place: Any = _place(ctx)
    there = await service.list_versions(filename=filename, **place)
    for number in range(max(there, default=-1) + 1, version + 1):
        known = content(number) or {"text": _UNREAD.format(filename=filename, version=number)}
        await service.save_artifact(filename=filename, artifact=parts_from([known])[0], **place)


def check_artifact(version: int, part: Json | None) -> None:
    """Refuse what a replay cannot restore.

    Raises:
        ValueError: it is no artifact of ADK's, or its number is none that a service counts to.
    """
    if version > MOST_VERSIONS:
        raise ValueError(
            f"it has the number {version}, and a replay restores versions from 0 to {MOST_VERSIONS}"
        )
    parts_from([] if part is None else [part])


_UNREAD: Final = "[{filename}, version {version}, is not in the recording: the recorded run did not load it]"


def _place(ctx: InvocationContext) -> dict[str, str]:
    session = ctx.session
    return {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}


def _json(part: Any) -> Json:
    """The content of an artifact; newer ADKs take it as JSON, too."""
    if not isinstance(part, types.Part):
        part = types.Part.model_validate(part)
    return part.model_dump(mode="json", exclude_none=True)
