"""Servers of others that some tests start: where they are, and which tests cannot run without them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.limits import LIMIT, last_words, line_with

_PUBSUB = Path("/usr/lib/google-cloud-sdk/platform/pubsub-emulator/bin")


def quick_place() -> Path | None:
    """A place in memory where there is room for it, since databases mostly wait for their disk."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2**30
    return memory if roomy else None


@contextmanager
def quick_folder() -> Generator[Path, None, None]:
    """A folder there."""
    with tempfile.TemporaryDirectory(prefix="adk-fluent-", dir=quick_place()) as folder:
        yield Path(folder)


def program(name: str) -> str | None:
    """The path of a program, if it is on this machine."""
    if found := shutil.which(name):
        return found
    # Debian keeps PostgreSQL's off the path, and Google its emulator.
    places = [*sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), _PUBSUB / name]
    return next((str(path) for path in places if path.exists()), None)


class NotRun:
    """Leaves out tests marked `needs(program)` where the program is missing, and names them at the end."""

    def __init__(self) -> None:
        self._missing: dict[str, set[str]] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what cannot run."""
        lacking = {item: missing for item in items if (missing := _lacking(item))}
        for item, missing in lacking.items():
            self._missing.setdefault(missing, set()).add(item.nodeid)
        config.hook.pytest_deselected(items=list(lacking))
        items[:] = [item for item in items if item not in lacking]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that started this one, with `-n`."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["not_run"] = {name: sorted(tests) for name, tests in self._missing.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Hear what a process that this one started left out."""
        for name, tests in getattr(node, "workeroutput", {}).get("not_run", {}).items():
            self._missing.setdefault(name, set()).update(tests)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what was left out."""
        for name, tests in sorted(self._missing.items()):
            terminalreporter.write_line(f"not run, {name} is not installed: {', '.join(sorted(tests))}")


def _lacking(item: pytest.Item) -> str | None:
    """The first program that a test needs and this machine has not."""
    needed = (mark.args[0] for mark in item.iter_markers("needs"))
    return next((name for name in needed if program(name) is None), None)


async def cancelled_after(steps: int, work: Coroutine[Any, Any, object]) -> None:
    """Cancel some work after so many steps of the loop, unless it is done; it must end by that."""
    task = asyncio.ensure_future(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    if not task.done():
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(end, asyncio.CancelledError), steps


def free_port() -> int:
    """A port on which no process listens, reserved while a connection from it ends.

    That takes Linux a minute, and a server that says so (`SO_REUSEADDR`) may listen there meanwhile.
    """
    with socket.create_server(("127.0.0.1", 0)) as held:
        with socket.create_connection(held.getsockname()):
            held.accept()[0].close()
        return held.getsockname()[1]


@contextmanager
def _running(name: str, *options: str, ready: str) -> Generator[None]:
    """A server that has said that it is ready; it ends with the block."""
    found = program(name)
    assert found is not None
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen([found, *options], **streams)
    try:
        line_with(ready, server)
        # A server that writes much, as Pub/Sub's does of every reader that leaves, waits until it is read.
        reading = threading.Thread(target=deque, args=(server.stdout, 0), daemon=True)
        reading.start()
        try:
            yield
        finally:
            server.terminate()
            reading.join(LIMIT)
    finally:
        server.kill()
        server.communicate(timeout=LIMIT)


@contextmanager
def redis_server(folder: Path) -> Generator[str]:
    """The URL of a Redis server of our own on a free port of this machine; it ends with the block."""
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with _running("redis-server", *options, ready="Ready to accept connections"):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def nats_server(folder: Path) -> Generator[str]:
    """The URL of a NATS server with JetStream, on a free port of this machine; it ends with the block."""
    port = free_port()
    options = ["-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(folder)]
    with _running("nats-server", *options, ready="Server is ready"):
        yield f"nats://127.0.0.1:{port}"


@contextmanager
def pubsub_emulator() -> Generator[str]:
    """The address of Google's emulator of Pub/Sub, on a free port of this machine; it ends with the block."""
    port = free_port()
    options = ["--host=127.0.0.1", f"--port={port}"]
    with _running("cloud-pubsub-emulator", *options, ready="Server started"):
        yield f"127.0.0.1:{port}"


@contextmanager
def rabbitmq_server() -> Generator[str]:
    """The URL of a RabbitMQ server on free ports of this machine; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="rabbitmq-", ignore_cleanup_errors=True) as folder:
        yield from _rabbitmq(Path(folder))


def _rabbitmq(folder: Path) -> Generator[str]:
    port = free_port()
    assert program("rabbitmq-server") is not None
    inner = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # Debian's own script runs it as a user that no test ends
    found = inner if Path(inner).exists() else program("rabbitmq-server")
    mapper = program("epmd")  # Erlang's directory of names; what the server starts itself would outlive it
    assert found is not None
    assert mapper is not None
    names = str(free_port())
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
    environment = {
        **os.environ,
        "HOME": str(folder),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_NODENAME": f"test{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "ERL_CRASH_DUMP": str(folder / "crash"),
        "RABBITMQ_FEATURE_FLAGS_FILE": str(folder / "flags"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": names,
    }
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    directory = subprocess.Popen([mapper, "-address", "127.0.0.1", "-port", names])
    server = subprocess.Popen([found], env=environment, start_new_session=True, **streams)
    try:
        line_with("completed with", server)
        yield f"amqp://guest:guest@127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            last_words(server)
        finally:
            directory.terminate()
            directory.wait(LIMIT)
