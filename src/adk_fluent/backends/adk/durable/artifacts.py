"""Artifacts that are read and written as steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.genai import types

from adk_fluent.backends.adk.durable.steps import Json, Step, Table, Tell, Worker, do

_KEY = "service"


class DurableArtifacts(BaseArtifactService):
    """The artifact service of the worker."""

    def __init__(self, table: Table, services: Worker) -> None:
        self._table = table
        table.add("artifact", _KEY, _Caller(services))

    async def _do(self, method: str, **given: Any) -> Json:
        return await do(self._table, Step("artifact", _KEY, method, {"method": method, "given": given}))

    async def save_artifact(self, *, artifact: types.Part | dict[str, Any], **given: Any) -> int:
        """Keep a version."""
        part = artifact if isinstance(artifact, types.Part) else types.Part.model_validate(artifact)
        return await self._do(
            "save_artifact", artifact=part.model_dump(mode="json", exclude_none=True), **given
        )

    async def load_artifact(self, **given: Any) -> types.Part | None:
        """A version."""
        found = await self._do("load_artifact", **given)
        return None if found is None else types.Part.model_validate(found)

    async def list_artifact_keys(self, **given: Any) -> list[str]:
        """The names of all."""
        return await self._do("list_artifact_keys", **given)

    async def delete_artifact(self, **given: Any) -> None:
        """Delete all versions."""
        await self._do("delete_artifact", **given)

    async def list_versions(self, **given: Any) -> list[int]:
        """The versions of one."""
        return await self._do("list_versions", **given)

    async def list_artifact_versions(self, **given: Any) -> list[ArtifactVersion]:
        """What is known of the versions of one."""
        found = await self._do("list_artifact_versions", **given)
        return [ArtifactVersion.model_validate(one) for one in found]

    async def get_artifact_version(self, **given: Any) -> ArtifactVersion | None:
        """What is known of a version."""
        found = await self._do("get_artifact_version", **given)
        return None if found is None else ArtifactVersion.model_validate(found)


class _Caller:
    """Asks the real service."""

    def __init__(self, services: Worker) -> None:
        self._services = services

    async def __call__(self, data: Mapping[str, Json], tell: Tell) -> Json:
        """What it gives."""
        given = dict(data["given"])
        if "artifact" in given:
            given["artifact"] = types.Part.model_validate(given["artifact"])
        found: Any = await getattr(self._services().artifact_service, data["method"])(**given)
        if isinstance(found, list):
            return [_dumped(one) for one in cast("list[Any]", found)]
        return _dumped(found)


def _dumped(value: Any) -> Json:
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value
