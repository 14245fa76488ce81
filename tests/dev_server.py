"""Temporal's server for development: one for the tests of a process that do not end it or count its runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.services import quick_folder

if TYPE_CHECKING:
    from adk_fluent.backends.temporal.server import DevServer


@pytest.fixture(scope="session")
def temporal() -> Iterator[DevServer]:
    """Temporal's server, on a file."""
    from adk_fluent.backends.temporal.server import DevServer

    with quick_folder() as folder, DevServer(folder / "runs.db") as server:
        yield server


async def new_namespace(address: str) -> str:
    """A new namespace of the server: no other test's runs are in it."""
    from google.protobuf.duration_pb2 import Duration
    from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest

    from adk_fluent.backends.temporal.connecting import Address

    name = f"test-{uuid.uuid4()}"
    client = await Address(address).client()
    kept = Duration(seconds=24 * 60 * 60)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=kept)
    )
    return name
