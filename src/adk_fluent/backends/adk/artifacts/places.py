"""Where an artifact service keeps its files, in words that another process can be told."""

from __future__ import annotations

from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from google.adk.artifacts import BaseArtifactService, FileArtifactService, InMemoryArtifactService

from adk_fluent.errors import ArgumentError, BackendError

_BUCKET: Final = "gs://"


class NoPlace(BaseArtifactService):
    """Keeps nothing: what one process has in its memory, the others would not find.

    Args:
        why: what whoever uses it is told, as a `BackendError`.
    """

    def __init__(self, why: str) -> None:
        self._why = why

    def _refuse(self) -> NoReturn:
        raise BackendError(self._why)

    async def save_artifact(self, **asked: Any) -> NoReturn:
        """Refuse."""
        self._refuse()

    async def load_artifact(self, **asked: Any) -> NoReturn:
        """Refuse."""
        self._refuse()

    async def delete_artifact(self, **asked: Any) -> NoReturn:
        """Refuse."""
        self._refuse()

    async def list_artifact_keys(self, **asked: Any) -> NoReturn:
        """Refuse."""
        self._refuse()

    async def list_versions(self, **asked: Any) -> NoReturn:
        """Refuse."""
        self._refuse()

    async def list_artifact_versions(self, **asked: Any) -> NoReturn:
        """Refuse."""
        self._refuse()

    async def get_artifact_version(self, **asked: Any) -> NoReturn:
        """Refuse."""
        self._refuse()


def is_shared(service: BaseArtifactService | None) -> bool:
    """Whether what one process keeps there, another one can find."""
    return service is not None and not isinstance(service, InMemoryArtifactService | NoPlace)


def place_of(service: BaseArtifactService | None) -> str | None:
    """The folder, or the `gs://` bucket, of an artifact service; `None` where there is no word for it."""
    if isinstance(service, FileArtifactService):
        return str(service.root_dir)
    bucket: object = getattr(service, "bucket_name", None)
    return f"{_BUCKET}{bucket}" if isinstance(bucket, str) else None


def artifacts_at(place: str) -> BaseArtifactService:
    """The artifact service of a folder, or of a `gs://` bucket.

    Raises:
        ArgumentError: it is neither.
    """
    if place.startswith(_BUCKET):
        from google.adk.artifacts import GcsArtifactService

        return GcsArtifactService(bucket_name=urlsplit(place).netloc)
    if "://" in place or not place:
        raise ArgumentError(f"Artifacts are kept in a folder or in gs://bucket, not {place!r}.")
    return FileArtifactService(root_dir=place)
