"""`cache`: the same request is answered once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from adk_fluent._tracebacks import in_logs
from adk_fluent.cost.prices import CACHED, COST, COUNTED
from adk_fluent.middleware.arguments import positive
from adk_fluent.middleware.flights import Flight, Flights
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.keeping import Keeping, Shared
from adk_fluent.middleware.messages import problem_in
from adk_fluent.middleware.protocol import CallModel, Middleware
from adk_fluent.middleware.stores import MemoryStore, Store, StoreError, store_of

if TYPE_CHECKING:
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse

logger: logging.Logger = logging.getLogger("adk_fluent.middleware")

FORMAT: Final = 1
"""The version of what is stored; an entry of another one is not read."""


def cache(store: str | os.PathLike[str] = "memory", ttl: float | None = None) -> Cache:
    """Answer a request that was answered before from a store, without asking the model.

    A request is the same if everything that is sent is: model, messages with their images, instruction,
    tools, schema and every option. A streamed answer is replayed as the same pieces, and only where the run
    streams. Kept are whole answers only: no errors, nothing that broke off. Which responses came from the
    store is said by `custom_metadata["adk_fluent.cached"]` of their events; they report 0 tokens, since none
    were used.

    Runs that ask the same at the same time, on one event loop, wait for one call, and each gets its answer as
    if it had been stored. If the run that made the call is cancelled or left, another one of them makes it;
    if the call fails, each of the others makes its own.

    Runs on `mock_backend` and other backends without a model never touch the store: each such backend has one
    of its own, in memory, for as long as it lives. `mock_backend(stores="real")` is for tests of the store.

    Evaluations bypass it, since a stored answer would hide that answers vary.

    A store that cannot be reached is reported on the logger `adk_fluent.middleware`, and the model is asked.

    Args:
        store: `memory` (1,024 answers of this process), a folder (extra `diskcache`; a gigabyte, for all
            processes), or a URL such as `redis://localhost:6379/0` (extra `redis`). Entries are JSON, and
            reading them runs no code.
        ttl: seconds that an answer is kept; by default for as long as there is room.

    Raises:
        ArgumentError: there is no such store, or `ttl` is not positive.
        MissingExtraError: the package that the store needs is not installed.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> agent, backend = Agent("a").middleware(cache()), mock_backend({"a": ["first", "second"]})
        >>> [asyncio.run(agent.ask_async(prompt, backend=backend)) for prompt in ("Hi", "Hi", "Ho")]
        ['first', 'first', 'second']
    """
    return Cache(store, ttl)


_bypassed: ContextVar[list[Cache] | None] = ContextVar("adk_fluent_bypassed", default=None)


@contextmanager
def bypassed() -> Generator[list[Cache]]:
    """Have every cache pass requests on, and touch no store; gives those that did."""
    found: list[Cache] = []
    token = _bypassed.set(found)
    try:
        yield found
    finally:
        _bypassed.reset(token)


@dataclass
class _Answers:
    """Where answers are kept, those that are under way, and how many were found."""

    store: Store
    flights: Flights = field(default_factory=Flights)
    hits: int = 0
    misses: int = 0


def _in_memory() -> _Answers:
    return _Answers(MemoryStore())


class Cache(Middleware):
    """What `cache()` makes."""

    _keeps_answers: ClassVar[bool] = True
    remembers: ClassVar[bool] = True

    def __init__(self, store: str | os.PathLike[str], ttl: float | None) -> None:
        self._ttl = None if ttl is None else positive(ttl, "cache(ttl=)")
        self._store: Store = store_of(store)
        self._kept: Shared[_Answers] = Shared(partial(_Answers, self._store), _in_memory)

    @property
    def hits(self) -> int:
        """How many requests were answered from the store."""
        return self._kept.current.hits

    @property
    def misses(self) -> int:
        """How many were not."""
        return self._kept.current.misses

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse | Mapping[str, Any]]:
        """Replay the answer that is stored, or ask and store."""
        passed = _bypassed.get()
        if passed is not None:
            passed.append(self)
            async for response in call(request):
                yield response
            return
        kept = self._kept(ctx)
        key = key_of(request, streaming=ctx.streaming)
        if key is None:
            kept.misses += 1
            async for response in call(request):
                yield response
            return
        with _waiting(ctx):
            found = await kept.flights.answer(key)
        if found is None:
            with kept.flights.leading(key) as flight:
                found = await self._read(ctx, kept.store, key)
                if found is None:
                    kept.misses += 1
                    answer: list[LlmResponse] = []
                    async for response in call(request):
                        answer.append(response)
                        flight.offer()
                        yield response
                        flight.taken()
                    await self._keep(ctx, kept.store, key, answer, flight)
                    return
                flight.land(found)
        kept.hits += 1
        for value in [*cast(Keeping, ctx).values("run").values()]:  # a recorder wants to know it
            if (tell := getattr(value, "answer_found", None)) is not None:
                tell(ctx, request, found)
        for response in found:
            yield response

    async def close(self) -> None:
        """Close the store; the next run opens it again."""
        await self._store.close()

    async def _read(self, ctx: Context, store: Store, key: str) -> list[Mapping[str, Any]] | None:
        try:
            text = await store.get(key)
            return None if text is None else _replay(text)
        except Exception as error:  # noqa: BLE001  # a store may raise anything, and the model can be asked
            _warn(ctx, "could not be read", error)
            return None

    async def _keep(
        self, ctx: Context, store: Store, key: str, answer: list[LlmResponse], flight: Flight
    ) -> None:
        if not _is_whole(answer):
            return flight.land(None)
        try:
            entry = [json.loads(response.model_dump_json(exclude_none=True)) for response in answer]
            flight.land([_unspent(response) for response in entry])
            await store.set(key, json.dumps({"format": FORMAT, "responses": entry}), self._ttl)
        except Exception as error:  # noqa: BLE001  # a store may raise anything, and the answer is there
            _warn(ctx, "could not be written", error)
        return None


def _waiting(ctx: Context) -> AbstractContextManager[None]:
    """Within, one waits for another call; what counts what goes on in the run, in a replay, knows it."""
    kept = [*cast(Keeping, ctx).values("run").values()]
    counting = (each for each in (getattr(value, "afoot", None) for value in kept) if each is not None)
    found = next(counting, None)
    return nullcontext() if found is None else found.waiting()


def _warn(ctx: Context, what: str, error: Exception) -> None:
    said = str(error) if isinstance(error, StoreError) else in_logs(error)
    logger.warning("%s: the store of cache() %s: %s", ctx.agent_name, what, said)


def _is_whole(answer: list[LlmResponse]) -> bool:
    """Whether an answer is one to give again: it ended, and was no error."""
    if not answer or answer[-1].partial:
        return False
    return not any(
        problem_in(response) or response.error_code or response.error_message or response.interrupted
        for response in answer
    )


def _replay(text: str) -> list[Mapping[str, Any]] | None:
    """The fields of the responses in an entry; `None` for one of another format."""
    entry = json.loads(text)
    if not isinstance(entry, dict) or cast("dict[str, Any]", entry).get("format") != FORMAT:
        return None
    responses = cast("dict[str, Any]", entry)["responses"]
    return [_unspent(response) for response in responses]


_COSTS: Final = (COST, COUNTED)
_NOTHING_USED: Final = {"prompt_token_count": 0, "candidates_token_count": 0, "total_token_count": 0}


def _unspent(response: dict[str, Any]) -> dict[str, Any]:
    """The response without what its call used, and with a note that it is a replay.

    A whole one reports that nothing was used: ADK logs a warning for each answer that reports no usage.
    """
    kept = {name: value for name, value in response.items() if name != "usage_metadata"}
    if not kept.get("partial"):
        kept["usage_metadata"] = _NOTHING_USED
    metadata: Mapping[str, Any] = kept.get("custom_metadata") or {}
    said = {name: value for name, value in metadata.items() if name not in _COSTS}
    return {**kept, "custom_metadata": {**said, CACHED: True}}


# --- keys -----------------------------------------------------------------------------------------


_SENT: Final = ("model", "contents", "config", "previous_interaction_id", "service_tier")
"""What of a request reaches the model."""


class _NotSame(Exception):
    """A value of which nobody can say whether another one is the same."""


def key_of(request: LlmRequest, *, streaming: bool = False) -> str | None:
    """The key of a request: a hash of all that is sent; `None` if it holds what has no stable text.

    Two requests have one key if and only if they are the same, to the last option; a whole answer and a
    streamed one have keys of their own.
    """
    try:
        sent = {name: _plain(getattr(request, name, None)) for name in _SENT}
    except _NotSame:
        return None
    text = json.dumps([FORMAT, streaming, sent], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    """A value as JSON that differs where the value does."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if isinstance(value, Mapping):
        given = cast("Mapping[Any, Any]", value)
        return {"mapping": [[_plain(key), _plain(item)] for key, item in given.items()]}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    fields: Any = getattr(cast(Any, type(value)), "model_fields", None)
    if isinstance(fields, Mapping):
        names = cast("Mapping[str, Any]", fields)
        return {name: _plain(item) for name in names if (item := getattr(value, name)) is not None}
    schema = getattr(cast(object, value), "model_json_schema", None)
    if schema is not None:
        return {"class": f"{value.__module__}:{value.__qualname__}", "schema": _plain(schema())}
    raise _NotSame
