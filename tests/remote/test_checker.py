"""An independent checker of A2A servers, which others wrote, finds ours to keep the protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent
from adk_fluent.a2a import AuthConfig
from adk_fluent.serve import A2AServer
from adk_fluent.testing import mock_backend
from tests.limits import within_limit

pytestmark = pytest.mark.newest

CONTRACT = """
version: 1
agent:
  url: {url}
  timeout: 30.0
{headers}
scenarios:
- name: pays
  message: Pay.
"""


async def checked(server: A2AServer, folder: Path, headers: str = "") -> Any:
    """What the checker says of a server."""
    contract = folder / "contract.yaml"
    contract.write_text(CONTRACT.format(url=server.url, headers=headers))
    command = [str(Path(sys.executable).with_name("a2a-proof")), "run", str(contract), "--format", "json"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await within_limit(process.communicate())
    return json.loads(told)


async def test_a_checker_that_others_wrote_passes_it(tmp_path: Path) -> None:
    """The task goes from submitted to completed, with the answer, over the protocol as others read it."""
    async with A2AServer(Agent("clerk"), backend=mock_backend({"clerk": "Paid."})) as server:
        told = await checked(server, tmp_path)
    (turn,) = told["scenarios"][0]["trials"][0]["turns"]
    assert told["passed"]
    assert turn["states"] == ["submitted", "working", "completed"]
    assert turn["text"] == "Paid."


async def test_a_checker_without_the_token_gets_nothing(tmp_path: Path) -> None:
    """The door is as shut to it as to anybody."""
    backend = mock_backend({"clerk": "Paid."})
    async with A2AServer(Agent("clerk"), auth=AuthConfig(token="t"), backend=backend) as server:
        told = await checked(server, tmp_path)
    assert not told["passed"]
    assert "clerk" not in backend.calls
