"""Fixtures of every test: no keys, no network beyond this machine, and repeatable random examples."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import socket
import tempfile
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

import certifi
import pytest
from google.genai import Client
from hypothesis import settings

from tests import dev_server, sampling, services
from tests.browser import browser, chromium
from tests.dev_server import temporal

__all__ = ["browser", "chromium", "temporal"]  # fixtures

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background with Ctrl-C ignored, and processes hand that on to those they
    # start: the tests that interrupt a program would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


_MODEL_SETTINGS = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_VERTEX_BASE_URL",
    "OPENAI_BASE_URL",
)
_THIS_MACHINE = frozenset({"", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::"})

_resolve = socket.getaddrinfo
_connect = socket.socket.connect


def guard_network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make looking up or dialling another machine raise; the list grows by each host that was tried."""
    attempts: list[str] = []

    def check(host: object) -> None:
        name = host.decode() if isinstance(host, bytes) else host
        if name is None or name in _THIS_MACHINE:
            return
        attempts.append(str(name))
        raise AssertionError(f"a test tried to reach {name!r}; tests may only use this machine")

    def getaddrinfo(host: bytes | str | None, *args: Any, **kwargs: Any) -> object:
        check(host)
        return _resolve(host, *args, **kwargs)

    def connect(self: socket.socket, address: tuple[str, int] | str | bytes) -> None:
        if isinstance(address, tuple):  # a path is a local socket
            check(address[0])
        _connect(self, address)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket.socket, "connect", connect)
    return attempts


@pytest.fixture(autouse=True)
def only_this_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test can reach a real model: no key is set, and a connection to another machine fails the test.

    The test fails at its end as well, since code under test may turn the error into an event.
    """
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    for name in _MODEL_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    attempts = guard_network(monkeypatch)
    yield
    assert not attempts, f"the test tried to reach {', '.join(sorted(set(attempts)))}"


_holding = WeakKeyDictionary[asyncio.AbstractEventLoop, list[object]]()


def _close_with_the_loop(self: Client) -> None:
    """Close a client of Gemini's when the loop in which it was made ends: ADK leaves that to the collector.

    A loop closes generators that stand still when it ends.
    """

    async def held() -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.aio.aclose()

    holding = held()
    with suppress(StopIteration):
        anext(holding).__await__().send(None)
    _holding.setdefault(asyncio.get_running_loop(), []).append(holding)


@pytest.fixture(autouse=True, scope="session")
def clients_are_closed() -> Iterator[None]:
    """No connection outlives its loop; else Python tells so in whichever test it collects garbage next."""
    make = cast(Any, Client).__init__

    def made(self: Client, **options: Any) -> None:
        make(self, **options)
        if asyncio.events._get_running_loop() is not None:
            _close_with_the_loop(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "__init__", made)
        yield


@pytest.fixture(autouse=True, scope="session")
def connections_end_with_their_loop() -> Iterator[None]:
    """Close the connections that a library leaves open at the end of a loop, for the same reason."""
    close = BaseSelectorEventLoop.close

    def ended(self: BaseSelectorEventLoop) -> None:
        if left := open_in(self):
            for each in left:
                each.abort()
            self.run_until_complete(asyncio.sleep(0))  # in which they are closed
        close(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseSelectorEventLoop, "close", ended)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Report what the tests of a file leave open there, not in whichever test the collector runs.

    No fixture can do that: what the fixtures and the log of a file's last test hold is let go only after all
    of them. What is still in use then, mostly modules and caches, need not be looked at again after every
    other file.
    """
    done = yield
    if nextitem is None or nextitem.path != item.path:
        dev_server.end_unless_used_by(nextitem)
        collected = pytest.CallInfo[None].from_call(lambda: collect_garbage(item.config), when="teardown")
        report = item.ihook.pytest_runtest_makereport(item=item, call=collected)
        if report.failed:
            item.ihook.pytest_runtest_logreport(report=report)
        gc.freeze()
    return done


def pytest_sessionfinish() -> None:
    """End what a run that was interrupted has left."""
    dev_server.end_unless_used_by(None)


def collect_garbage(config: pytest.Config) -> None:
    """Collect garbage until none is left, and raise the errors that Python reports meanwhile."""
    for _ in range(5):
        if not gc.collect():
            break
    plugin: Any = config.pluginmanager.get_plugin("unraisableexception")
    plugin.collect_unraisable(config)


def open_in(loop: asyncio.AbstractEventLoop) -> list[asyncio.WriteTransport]:
    """The open connections of a loop."""
    every: list[asyncio.WriteTransport] = [*cast(Any, loop)._transports.values()]
    return [each for each in every if not each.is_closing()]


TEMPORARY = "PYTEST_DEBUG_TEMPROOT"
"""The variable that says where pytest makes the folders of tests."""


def _put_folders_in_memory(config: pytest.Config) -> None:
    """Make the folders of tests in memory if there is room. They go with the run: `--basetemp` keeps them."""
    folder = tempfile.mkdtemp(prefix="adk-fluent-", dir=services.quick_place())
    os.environ[TEMPORARY] = folder

    def remove() -> None:
        del os.environ[TEMPORARY]
        shutil.rmtree(folder, ignore_errors=True)

    config.add_cleanup(remove)


AUTHORITIES = "SSL_CERT_FILE"
"""The variable that says which certificates a client of HTTP trusts."""
_LAST_LINE = "-----END CERTIFICATE-----"


def _trust_one_authority(config: pytest.Config) -> None:
    """Let clients read one certificate: all of them take 60 ms, and no test reaches another host."""
    before = os.environ.get(AUTHORITIES)
    first, end, _ = Path(before or certifi.where()).read_text(encoding="utf-8").partition(_LAST_LINE)
    file, name = tempfile.mkstemp(prefix="adk-fluent-", suffix=".pem")
    os.write(file, f"{first}{end}\n".encode())
    os.close(file)
    os.environ[AUTHORITIES] = name

    def restore() -> None:
        os.unlink(name)
        del os.environ[AUTHORITIES]
        if before:
            os.environ[AUTHORITIES] = before

    config.add_cleanup(restore)


def pytest_configure(config: pytest.Config) -> None:
    """Leave out, and name at the end, the tests that need a program which is not here.

    Some ask ADK's own models on servers of this machine, which the library's pytest plugin forbids.
    """
    # Its handler closes the stream that it was made with, unless that is the one in use, whenever anything
    # sets up logging again. So it must be made now, while pytest does not replace the streams.
    with suppress(ImportError):
        import_module("absl.logging")
    if not hasattr(config, "workerinput"):
        _trust_one_authority(config)
        if not (config.getoption("basetemp") or TEMPORARY in os.environ):
            _put_folders_in_memory(config)
    config.option.allow_real_models = True
    sampling.begin(config)
    settings.register_profile("ci", derandomize=True, deadline=None, max_examples=sampling.examples(100))
    settings.load_profile("ci")
    config.pluginmanager.register(services.NotRun(), "services")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without looking for garbage meanwhile: nothing of what is made here goes away again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the site first: its build takes longest alone, and the rest can run beside it."""
    items.sort(key=lambda item: "site" not in getattr(item, "fixturenames", ()))


def pytest_collection_finish() -> None:
    """Have the collector look at what tests make, and not each time at all of ADK, most of its work.

    It looks at that less often, too: what a file's tests leave is collected when the file ends.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
