"""`adk-fluent worker`: a process of its own that works on runs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from adk_fluent.cli.main import main
from tests.dev_server import new_namespace
from tests.limits import LIMIT, in_thread, last_words

if TYPE_CHECKING:
    from adk_fluent.backends.temporal.server import DevServer

pytestmark = pytest.mark.newest

PROGRAM = """
from adk_fluent import Agent
from adk_fluent.backends.adk.steps.scripted import Script, ScriptedLlm

model = ScriptedLlm.of(Script("a", "Hello.", "repeat", []), merge_state=False)
pipeline = Agent("a", model)
"""


@contextmanager
def collecting() -> Generator[tuple[str, set[str]]]:
    """A collector of OpenTelemetry: its address, and what came, by path."""
    paths: set[str] = set()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.add(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        thread.join(LIMIT)
        server.server_close()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program with a pipeline."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


async def said(stream: IO[str] | None) -> str:
    """The next line that a process writes."""
    assert stream is not None
    return await in_thread(stream.readline)


async def working(worker: subprocess.Popen[str], on: str = "a@") -> None:
    """Wait until a worker says that it works."""
    line = await said(worker.stdout)
    assert line.startswith(f"Working on {on}"), (line, last_words(worker))


async def ended(worker: subprocess.Popen[str]) -> tuple[str, str]:
    """What else a worker writes until it ends."""
    return await in_thread(lambda: last_words(worker), limit=2 * LIMIT + 1)


@contextmanager
def dying(*processes: subprocess.Popen[str]) -> Generator[None]:
    """Whatever happens inside, the processes have ended after it."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate(timeout=LIMIT)  # which closes its streams as well


async def test_a_worker_speaks_tls(tmp_path: Path, program: Path, temporal: DevServer) -> None:
    """With the certificates of both sides, and tells its spans to a collector."""
    from temporalio.client import TLSConfig

    from adk_fluent.backends import TemporalBackend
    from adk_fluent.cli.target import load
    from tests.backends.temporal.encryption import certificate_in, encrypted

    cert, key = certificate_in(tmp_path)
    expression = load(str(program)).expression
    assert expression is not None
    with collecting() as (collector, paths):
        async with encrypted(temporal.port, (cert, key), mutual=True) as address:
            options = {
                "--address": address,
                "--tls-ca-path": str(cert),
                "--tls-cert-path": str(cert),
                "--tls-key-path": str(key),
                "--tls-server-name": "localhost",
            }
            command = [sys.executable, "-m", "adk_fluent", "worker", str(program), "--telemetry"]
            worker = subprocess.Popen(
                [*command, *(word for pair in options.items() for word in pair)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector},
            )
            with dying(worker):
                await working(worker)
                tls = TLSConfig(cert.read_bytes(), "localhost", cert.read_bytes(), key.read_bytes())
                backend = TemporalBackend(address, tls=tls, worker_timeout=LIMIT)
                result = await expression.run("hi", backend=backend)
                worker.send_signal(signal.SIGTERM)
                await ended(worker)
    assert result.text == "Hello."
    assert set(paths) == {"/v1/traces", "/v1/metrics"}


BLOCKING = """
import threading
from adk_fluent import Agent, Route

def blocks(state):
    print("It blocks.", flush=True)
    threading.Event().wait()

pipeline = Route("x").when(blocks, Agent("a")).otherwise(Agent("b"))
"""


async def test_a_worker_that_is_told_twice_leaves(tmp_path: Path) -> None:
    """A predicate that never comes back is left, and so is the server that ends with it."""
    from adk_fluent.backends import TemporalBackend
    from adk_fluent.backends.temporal.server import free_port
    from adk_fluent.cli.target import load

    # Of two modules of one name only the first can be imported, and a function that cannot has another hash.
    program, port = tmp_path / "blocking.py", free_port()
    program.write_text(BLOCKING)
    expression = load(str(program)).expression
    assert expression is not None
    command = [sys.executable, "-m", "adk_fluent", "worker", str(program), "--dev"]
    worker = subprocess.Popen(
        [*command, "--address", f"127.0.0.1:{port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    with dying(worker):
        await working(worker, "")
        backend = TemporalBackend(f"127.0.0.1:{port}", worker_timeout=LIMIT)
        run = asyncio.ensure_future(expression.run("hi", state={"x": 1}, backend=backend))
        blocks = asyncio.ensure_future(said(worker.stdout))
        await asyncio.wait([run, blocks], return_when=asyncio.FIRST_COMPLETED)
        assert not run.done(), run
        assert await blocks == "It blocks.\n"
        worker.send_signal(signal.SIGINT)
        while await said(worker.stderr) != "Finishing what is begun.\n":
            assert worker.poll() is None
        run.cancel()  # while there is a server to tell it
        await asyncio.gather(run, return_exceptions=True)
        worker.send_signal(signal.SIGTERM)
        _, errors = await ended(worker)
    assert worker.returncode == 1
    assert errors.endswith("Left what did not come to its end: others do it again.\n")
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_worker_shows_its_key(tmp_path: Path, program: Path, temporal: DevServer) -> None:
    """The variable of Temporal's own command line, in the namespace that is named; without it, one line."""
    from temporalio.client import TLSConfig

    from adk_fluent.backends import TemporalBackend
    from adk_fluent.cli.target import load
    from tests.backends.temporal.encryption import certificate_in
    from tests.backends.temporal.gateway import gateway

    cert, key = certificate_in(tmp_path)
    expression = load(str(program)).expression
    assert expression is not None
    mine = await new_namespace(temporal.address)
    async with gateway(temporal.port, (cert, key), "k3y") as (address, passed):
        command = [sys.executable, "-m", "adk_fluent", "worker", str(program), "--address", address]
        command += ["--namespace", mine, "--tls-ca-path", str(cert), "--tls-server-name", "localhost"]
        keys = {"with": "k3y", "without": ""}
        workers = {
            how: subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "TEMPORAL_API_KEY": value},
            )
            for how, value in keys.items()
        }
        with dying(*workers.values()):
            await working(workers["with"])
            tls = TLSConfig(cert.read_bytes(), "localhost")
            backend = TemporalBackend(address, tls=tls, namespace=mine, api_key="k3y", worker_timeout=LIMIT)
            assert (await expression.run("hi", backend=backend)).text == "Hello."
            workers["with"].send_signal(signal.SIGTERM)
            await ended(workers["with"])
            _, complaint = await ended(workers["without"])
    assert ("PollActivityTaskQueue", mine) in passed
    assert workers["without"].returncode == 1
    assert complaint.startswith(
        f"adk-fluent: The Temporal server at {address} refused: Request unauthorized."
    )
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tls-cert-path", "c.pem"], "--tls-cert-path and --tls-key-path go together"),
        (["--tls-ca-path", "nowhere.pem"], "--tls-ca-path nowhere.pem: No such file"),
        (["--dev", "--tls"], "--dev starts a server without TLS"),
        (["--dev", "--namespace", "mine"], "--dev starts a server without TLS"),
        (["--dev", "--dir", "/dev/null"], "--dir /dev/null: File exists."),
        (["--session-db", "nowhere/s.db"], "--session-db nowhere/s.db: there is no folder nowhere"),
        (["--telemetry"], "set it, as to http://127.0.0.1:4318"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str],
    said: str,
    program: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line says which."""
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    assert main(["worker", str(program), *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


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
    with dying(worker):
        await working(worker)
        expression = load(str(program)).expression
        assert expression is not None
        backend = TemporalBackend(address, worker_timeout=LIMIT)
        assert (await expression.run("hi", backend=backend)).text == "Hello."
        worker.send_signal(signal.SIGTERM)
        out, errors = await ended(worker)
    assert (worker.returncode, out, errors) == (0, "", "Finishing what is begun.\n")
    assert {path.name for path in (tmp_path / ".adk-fluent").iterdir()} >= {"sessions.db", "dev-server.db"}


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
