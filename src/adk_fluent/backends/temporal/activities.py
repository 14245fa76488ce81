"""The activities of a worker: each really does one step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from adk_fluent.backends.adk.api import ADKBackend, Compiled, Services
from adk_fluent.backends.adk.durable import sessions
from adk_fluent.backends.adk.durable.failures import told_of
from adk_fluent.backends.adk.durable.steps import Json, Step, Table
from adk_fluent.backends.temporal.hands import ALONE, Hands
from adk_fluent.backends.temporal.sizes import begin, check_size, page
from adk_fluent.errors import EngineError, RunError
from adk_fluent.middleware.faults import is_passing

KINDS: Final = ("model", "tool", "function", "callback", "artifact", "remote")
_QUIET: Final = ApplicationErrorCategory.BENIGN
_LATER: Final = 1_000_000
"""What is added to the number of an attempt that runs alone, since those before it were counted apart."""
BATCH: float = 0.05
"""Seconds for which pieces of an answer are gathered before they are sent to the run."""

LATER: Final = timedelta(seconds=5)
"""After which a step is done again whose error was one of the engine."""


def steps(table: Table, client: Client, hands: Hands) -> list[Callable[..., Any]]:
    """One activity for each kind of step.

    Args:
        hands: what does them.
    """

    async def do(told: dict[str, Any], call: str) -> Any:
        step = Step(told["kind"], told["key"], told["agent"], told["data"])
        info = activity.info()
        key = (info.workflow_run_id, told.get("number") or info.activity_id)
        async with _alive(), _Pieces(client, call) as pieces:
            try:
                given = await hands.do(
                    key, lambda: table.perform(step, pieces.tell), alone=info.task_queue.endswith(ALONE)
                )
                check_size(given, f"What the {step.kind} {step.key!r} gave", "Keep it as an artifact.")
                return {"given": given, "pieces": pieces.rest(), "of": told["of"]}
            except asyncio.CancelledError:
                if _is_unwanted():
                    raise
                raise ApplicationError("Its worker has ended.", category=_QUIET) from None
            except Exception as error:
                raise _failure(error) from error

    def named(kind: str) -> Callable[..., Any]:
        async def run(told: dict[str, Any], call: str) -> Any:
            return await do(told, call)

        return activity.defn(name=kind)(run)

    return [named(kind) for kind in KINDS]


def _is_unwanted() -> bool:
    """Whether the run has cancelled this step; else its worker ends, or the run is over."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested


def _failure(error: Exception) -> ApplicationError:
    """An error as the run gets it.

    What the step raised is its result, and the engine does not try it again. An error of the engine or of a
    connection to it is none: the step is done again, later.
    """
    passing = isinstance(error, RPCError | EngineError)
    return ApplicationError(
        str(error),
        told_of(error),
        type=type(error).__name__,
        non_retryable=not passing,
        next_retry_delay=LATER if passing else None,
    )


def _session_failure(error: Exception) -> ApplicationError:
    """The same of a session service, whose database may be away for a while."""
    causes, cause = [error], error.__cause__
    while isinstance(cause, Exception):
        causes.append(cause)
        cause = cause.__cause__
    passing = any(is_passing(each) or _is_of_database(each) for each in causes)
    return ApplicationError(str(error), told_of(error), type=type(error).__name__, non_retryable=not passing)


def _is_of_database(error: Exception) -> bool:
    """Whether a database could not be reached, or was busy, by the names that DB-API 2.0 gives to that."""
    return any(kind.__name__ in ("OperationalError", "InterfaceError") for kind in type(error).__mro__)


@asynccontextmanager
async def _alive() -> AsyncGenerator[None]:
    """Tells Temporal that the step is being done, so that a dead worker is noticed soon."""
    limit = activity.info().heartbeat_timeout
    seconds = (limit.total_seconds() if limit else 5.0) / 4

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(seconds)

    task = asyncio.ensure_future(beat())
    try:
        yield
    finally:
        task.cancel()


class _Pieces:
    """Sends pieces of an answer to the run, in batches.

    Each batch says how many pieces came before it. What is not known to have arrived is sent again, at last
    with the result, which waits for nothing.
    """

    def __init__(self, client: Client, call: str) -> None:
        self._client, self._call = client, call
        self._first = 0
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Json] = []
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> _Pieces:
        return self

    async def tell(self, piece: Json) -> None:
        """Take a piece, from whatever loop."""
        if self._call:
            self._loop.call_soon_threadsafe(self._take, piece)

    def _take(self, piece: Json) -> None:
        self._waiting.append(piece)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.ensure_future(self._send_later())

    def rest(self) -> dict[str, Json] | None:
        """The pieces that may not have arrived, for the result; the whole answer is in it in any case."""
        with suppress(RunError):
            if self._waiting:
                check_size(self._waiting, "What is left", "")
                return {"attempt": _attempt(), "first": self._first, "pieces": self._waiting}
        return None

    async def _send_later(self) -> None:
        info = activity.info()
        assert info.workflow_id is not None
        handle = self._client.get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
        while self._waiting:
            await asyncio.sleep(BATCH)
            pieces = [*self._waiting]
            with suppress(RPCError):  # the run is over, or gets them with the next batch
                await handle.signal("pieces", args=[self._call, _attempt(), self._first, pieces])
                del self._waiting[: len(pieces)]
                self._first += len(pieces)

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if self._sender is not None:
            self._sender.cancel()


def _attempt() -> int:
    """The number of this attempt among all attempts at its step."""
    info = activity.info()
    return info.attempt + (_LATER if info.task_queue.endswith(ALONE) else 0)


def session_activity(
    compiled: Compiled, services: Callable[[], Services], hands: Hands
) -> Callable[..., Any]:
    """The activity that reads and writes stored sessions."""
    backend = ADKBackend()

    @activity.defn(name="session")
    async def session(asked: dict[str, Any]) -> Any:
        try:
            return await hands.plainly(_session(backend, compiled, services(), asked))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise _session_failure(error) from error

    return session


async def _session(
    backend: ADKBackend, compiled: Compiled, services: Services, asked: Mapping[str, Any]
) -> Json:
    given = {name: value for name, value in asked.items() if name != "do"}
    whose = {name: asked[name] for name in ("app_name", "user_id", "session_id")}
    assert services.session_service is not None
    match asked["do"]:
        case "open":
            opened = await sessions.opened(services, **given)
            return {**opened, **begin(opened["session"])}
        case "events":
            found = await services.session_service.get_session(**whose)
            told = {} if found is None else found.model_dump(mode="json", exclude_none=True)
            return page(told.get("events", []), asked["first"])
        case "save":
            return await sessions.saved(services, **given)
        case "load":
            found = await services.session_service.get_session(**whose)
            return found and begin(found.model_dump(mode="json", exclude_none=True))
        case "forget":
            return await services.session_service.delete_session(**whose)
        case _:
            given.pop("app_name")
            return await backend.rewind(compiled, **given, services=_all(services))


def _all(services: Services) -> dict[str, Any]:
    return {
        "session_service": services.session_service,
        "artifact_service": services.artifact_service,
        "memory_service": services.memory_service,
        "credential_service": services.credential_service,
    }
