"""`adk-fluent worker`: a process of its own that works on runs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adk_fluent.cli.main import main

pytestmark = pytest.mark.newest

PROGRAM = """
from adk_fluent import Agent
from adk_fluent.backends.adk.steps.scripted import Script, ScriptedLlm

model = ScriptedLlm.of(Script("a", "Hello.", "repeat", []), merge_state=False)
pipeline = Agent("a", model)
"""


async def test_a_worker_with_a_server_of_its_own(tmp_path: Path) -> None:
    """`--dev` starts a server and a worker; a run of the same expression is done; SIGTERM ends both."""
    from adk_fluent.backends import TemporalBackend
    from adk_fluent.backends.temporal.server import free_port
    from adk_fluent.cli.target import load

    program, address = tmp_path / "program.py", f"127.0.0.1:{free_port()}"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "adk_fluent", "worker", str(program), "--dev", "--address", address]
    worker = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert worker.stdout is not None
        line = await asyncio.to_thread(worker.stdout.readline)
        assert line.startswith("Working on a@"), worker.communicate()
        expression = load(str(program)).expression
        assert expression is not None
        assert (await expression.run("hi", backend=TemporalBackend(address))).text == "Hello."
        worker.send_signal(signal.SIGTERM)
        out, errors = await asyncio.to_thread(worker.communicate)
    finally:
        worker.kill()
        worker.wait()
    assert (worker.returncode, out, errors) == (0, "", "Finishing what is begun.\n")
    assert {path.name for path in (tmp_path / ".adk-fluent").iterdir()} >= {"sessions.db", "temporal.db"}


def test_a_server_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says so."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert main(["worker", str(program), "--address", "127.0.0.1:9"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("adk-fluent: No Temporal server answers at 127.0.0.1:9: nobody listens there.")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "made",
    ["Agent('a').build()", "Agent('a').to_app()", "LlmAgent(name='a')"],
    ids=["built of an expression", "its app", "made with ADK alone"],
)
def test_native_agents_are_worked_on(made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What other commands take, this one takes as well."""
    program = tmp_path / "program.py"
    program.write_text(
        f"from google.adk.agents import LlmAgent\nfrom adk_fluent import Agent\nroot_agent = {made}\n"
    )
    assert main(["worker", str(program), "--address", "127.0.0.1:9"]) == 1
    assert "No Temporal server answers" in capsys.readouterr().err
