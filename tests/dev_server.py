"""Temporal's server for development: one for the tests of a process that do not end it or count its runs.

It ends with the last of several files that use it: a server without work takes a thirtieth of a core.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.services import quick_folder

if TYPE_CHECKING:
    from adk_fluent.backends.temporal.server import DevServer


_running = ExitStack()
_servers: list[DevServer] = []


@pytest.fixture(scope="module")
def temporal() -> DevServer:
    """Temporal's server, on a file."""
    from adk_fluent.backends.temporal.server import DevServer

    if not _servers:
        folder = _running.enter_context(quick_folder())
        _servers.append(_running.enter_context(DevServer(folder / "runs.db")))
        _running.callback(_servers.clear)
    return _servers[0]


def end_unless_used_by(following: pytest.Item | None) -> None:
    """End the server, unless the test that follows uses it."""
    if "temporal" not in getattr(following, "fixturenames", ()):
        _running.close()


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
