"""The artifact service of a run, as operations ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakValueDictionary

from google.adk.artifacts import BaseArtifactService
from google.adk.sessions import Session
from google.genai import types

from adk_fluent.artifacts.requests import (
    DeleteFile,
    File,
    LatestVersion,
    ListFiles,
    LoadFile,
    Mime,
    Request,
    SaveFile,
    Work,
)
from adk_fluent.backends.adk.artifacts.parts import to_file, to_part
from adk_fluent.backends.adk.artifacts.recorded import really_keeping
from adk_fluent.errors import ArtifactError, sentence, what_happened
from adk_fluent.spelling import did_you_mean

T = TypeVar("T")

_SAVING: Final[WeakValueDictionary[tuple[int, int], asyncio.Lock]] = WeakValueDictionary()
"""Service and event loop → what lets one save at a time pass.

ADK 1.x's file service gives two saves that run at the same time one number, and fails.
"""


class FilePlace(Protocol):
    """Where artifacts are: a run, or a session outside of one."""

    @property
    def session(self) -> Session: ...  # noqa: D102

    @property
    def artifact_service(self) -> BaseArtifactService | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Files:
    """The artifacts that a step, or an agent, can get at.

    Attributes:
        ctx: the run, or the session.
        who: who asks, for messages: `Step 'publish'`.
        saved: filename → the version that was saved last.
    """

    ctx: FilePlace
    who: str
    saved: dict[str, int] = field(default_factory=dict[str, int])

    async def do(self, work: Work) -> tuple[Mapping[str, Any], bool]:
        """Let an operation work; what it changes in the state, and whether it changed any artifact.

        Raises:
            ArtifactError: there is no artifact service, it failed, or an artifact is not there.
        """
        acted = False
        try:
            request = next(work)
            while True:
                acted = acted or isinstance(request, SaveFile | DeleteFile)
                request = work.send(await self.answer(request))
        except StopIteration as done:
            return done.value, acted

    async def answer(self, request: Request) -> Any:
        """What the service says to a request."""
        match request:
            case SaveFile():
                return await self._save(request)
            case LoadFile(filename, version):
                return to_file(await self.part(filename, version))
            case LatestVersion(filename):
                await self.part(filename)
                versions = await self._ask("list_versions", filename=filename)
                return max(versions)
            case ListFiles():
                return sorted(await self._ask("list_artifact_keys"))
            case DeleteFile(filename):
                return await self._ask("delete_artifact", filename=filename)

    async def part(self, filename: str, version: int | None = None) -> types.Part:
        """The content of an artifact, the latest version by default.

        Raises:
            ArtifactError: it is not there.
        """
        if (found := await self._found(filename, version)) is None:
            raise ArtifactError(f"{self.who} needs {await self._missing(filename, version)}")
        return found

    async def take_back(self, filename: str, undone: int) -> int | None:
        """Make the version before `undone` the latest; without one, remove the file.

        Returns:
            The number that the version has now; `None` if the file is gone.
        """
        versions: list[int] = await self._ask("list_versions", filename=filename)
        before = max((version for version in versions if version < undone), default=None)
        part = None if before is None else await self._found(filename, before)
        if part is None:
            if versions:
                await self._ask("delete_artifact", filename=filename)
            return None
        told = await self._ask("get_artifact_version", filename=filename, version=before)
        metadata = dict(told.custom_metadata) if told is not None else None
        return await self._ask(
            "save_artifact", filename=filename, artifact=part, custom_metadata=metadata or None
        )

    async def _save(self, request: SaveFile) -> int:
        lock = _SAVING.setdefault(
            (id(really_keeping(self._service())), id(asyncio.get_running_loop())), asyncio.Lock()
        )
        async with lock:
            version: int = await self._ask(
                "save_artifact",
                filename=request.filename,
                artifact=to_part(request.file),
                custom_metadata=dict(request.metadata) or None,
            )
        self.saved[request.filename] = version
        return version

    async def _found(self, filename: str, version: int | None) -> types.Part | None:
        found: types.Part | None = await self._ask("load_artifact", filename=filename, version=version)
        if found is None:
            found = await self._empty(filename, version)
        return None if found is None or _is_gone(found) else found

    async def _empty(self, filename: str, version: int | None) -> types.Part | None:
        """A file without content, of which ADK 1.x's memory service says that it is not there."""
        find = self._service().get_artifact_version
        try:
            told = await find(**self._place, filename=filename, version=version)
        except NotImplementedError:  # by the artifact service inside an AgentTool, in ADK 1.x
            return None
        mime = None if told is None else told.mime_type
        return to_part(File(b"", mime)) if mime and mime != Mime.BYTES else None

    async def _missing(self, filename: str, version: int | None) -> str:
        """What to say of an artifact that is not there: the end of a sentence, and what there is."""
        versions: list[int] = await self._ask("list_versions", filename=filename)
        if versions and version is not None:
            return f"version {version} of artifact {filename!r}, and there is version {_listed(versions)}."
        names: list[str] = await self._ask("list_artifact_keys")
        others = [name for name in names if name != filename]
        there = f"There is {_listed(others)}." if others else "There are no artifacts yet."
        hint = did_you_mean(filename, others) or f" {there}"
        return f"artifact {filename!r}, and there is none.{hint}"

    # --- the service ------------------------------------------------------------------------------

    @property
    def _place(self) -> dict[str, str]:
        session = self.ctx.session
        return {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}

    def _service(self) -> BaseArtifactService:
        service = self.ctx.artifact_service
        if service is None:
            raise no_service(self.who)
        return service

    async def _ask(self, method: str, **arguments: Any) -> Any:
        """What a method of the service gives.

        Raises:
            ArtifactError: there is no service, or it raised.
        """
        service = self._service()
        called: Callable[..., Awaitable[Any]] = getattr(service, method)
        try:
            return await called(**self._place, **arguments)
        except Exception as error:
            told = f" for {arguments['filename']!r}" if "filename" in arguments else ""
            kind = type(really_keeping(service)).__name__
            raise ArtifactError(
                f"{self.who}: {kind}.{method}{told} raised {sentence(what_happened(error))}"
            ) from error


def no_service(who: str) -> ArtifactError:
    """The error for a run without an artifact service; `who` needs one."""
    return ArtifactError(
        f"{who} needs an artifact service, and this Runner has none. Give it one: "
        "Runner(..., artifact_service=InMemoryArtifactService()), from google.adk.artifacts."
    )


def _is_gone(part: types.Part) -> bool:
    """Whether it is what ADK leaves in the place of an artifact that a rewind took back."""
    blob = part.inline_data
    return blob is not None and not blob.data and blob.mime_type == Mime.BYTES


def _listed(found: Sequence[object]) -> str:
    """`a`, `a and b`; of more than ten, ten and how many more there are."""
    shown = [repr(one) for one in found[:10]]
    if len(found) > 10:
        shown.append(f"{len(found) - 10} more")
    *most, last = shown
    return f"{', '.join(most)} and {last}" if most else last
