"""What the tests of running share: short ways to run, models that hang, services that store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent.backends.adk.running.runner import shared_services
from adk_fluent.backends.events import AgentEvent, RunResult
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import MockBackend, mock_backend

CONFIRMATION = "adk_request_confirmation"
"""The function name under which ADK asks a person."""
ANYWAY = ExecutionConfig(contracts="log")
"""What begins a run that must fail, to see how it does."""
SERVICES = ("memory", "sqlite", "database")


@contextmanager
def raises_from(
    cause: type[BaseException], match: str | None = None
) -> Generator[pytest.ExceptionInfo[RunError]]:
    """A `RunError` is raised whose cause is of this type; its message says what the cause said."""
    with pytest.raises(RunError, match=match) as caught:
        yield caught
    assert isinstance(caught.value.__cause__, cause)


def session_service(kind: str, folder: Path) -> BaseSessionService:
    """A fresh session service: in memory, or on a file in `folder`."""
    if kind == "memory":
        return InMemorySessionService()
    if kind == "sqlite":
        return SqliteSessionService(str(folder / "sessions.db"))
    return DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'database.db'}")


async def close(service: BaseSessionService) -> None:
    """Give back what a session service holds open."""
    if isinstance(service, DatabaseSessionService):
        await service.db_engine.dispose()


class Hang:
    """A response that never ends, until it is cancelled or closed; give it to `mock_backend`.

    Attributes:
        started: set once a model call waits in it.
        ended: how the waits ended: `CancelledError` or `GeneratorExit`.
    """

    def __init__(self, *first: str) -> None:
        self.first = first
        self.started = asyncio.Event()
        self.ended: list[str] = []

    def __call__(self, request: LlmRequest) -> AsyncGenerator[str, None]:
        return self._chunks()

    async def _chunks(self) -> AsyncGenerator[str, None]:
        try:
            for piece in self.first:
                yield piece
            self.started.set()
            await asyncio.Event().wait()
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise


class Crowd:
    """Answers that are all held back, and how many of them were under way at once.

    Give `held` to the run that is looked at and `twin` to a second one, started right after it, that may have
    all its answers under way. When the twin has, the first has as many as it lets in; only then all go on.

    Attributes:
        most: how many of the answers of `held` were under way at once.
    """

    def __init__(self, size: int) -> None:
        self.most = 0
        self._inside = 0
        self._twin = asyncio.Barrier(size)
        self._open = asyncio.Event()

    async def held(self, request: LlmRequest) -> AsyncGenerator[str, None]:
        self._inside += 1
        self.most = max(self.most, self._inside)
        await self._open.wait()
        self._inside -= 1
        yield "done"

    async def twin(self, request: LlmRequest) -> AsyncGenerator[str, None]:
        await self._twin.wait()
        self._open.set()
        yield "done"


class PlainLlm(BaseLlm):
    """A model written by hand: `answer` makes the responses to each request."""

    _answer: Callable[[LlmRequest], AsyncGenerator[LlmResponse, None]] = PrivateAttr()

    @classmethod
    def of(cls, answer: Callable[[LlmRequest], AsyncGenerator[LlmResponse, None]]) -> PlainLlm:
        made = cls(model="plain")
        made._answer = answer
        return made

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async with aclosing(self._answer(llm_request)) as responses:
            async for response in responses:
                yield response


def reply(text: str, **fields: Any) -> LlmResponse:
    """A model's answer."""
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), **fields)


def failing(code: str = "SAFETY", message: str = "blocked") -> LlmResponse:
    """A model's answer that reports a failure instead of raising."""
    return LlmResponse(error_code=code, error_message=message)


async def play(
    expression: Expr[Any], responses: Mapping[str, Any] | None = None, prompt: str = "hi", **options: Any
) -> RunResult[Any]:
    """Run with scripted models; agents without a script say their own name."""
    return await expression.run(prompt, backend=script(responses), **options)


def script(responses: Mapping[str, Any] | None = None, **options: Any) -> MockBackend:
    """A mock backend in which agents without a script say `ok`; it keeps sessions where real runs do."""
    shared: dict[str, Any] = {"session_service": shared_services().session_service}
    return mock_backend(responses, default="ok", **{**shared, **options})


def said(events: list[AgentEvent]) -> list[tuple[str, str]]:
    """Who said what, in order."""
    return [(event.author, event.content) for event in events if event.content and not event.is_partial]


def speakers(events: list[AgentEvent]) -> list[str]:
    """Who said something, in order."""
    return [author for author, _ in said(events)]


def seen(request: LlmRequest) -> str:
    """All text of a request's contents, as one string."""
    return "\n".join(part.text or "" for content in request.contents for part in content.parts or [])


def system(request: LlmRequest) -> str:
    """The system instruction of a request."""
    config: Any = request.config
    return str(config.system_instruction or "")


def replies(answer: Callable[[LlmRequest], Any]) -> Callable[[LlmRequest], Any]:
    """A function of the request as a scripted response; it gives a lambda its type."""
    return answer


def called(request: LlmRequest) -> bool:
    """Whether a request brings the result of a tool call."""
    parts = [part for content in request.contents for part in content.parts or []]
    return any(part.function_response for part in parts)


def each(*functions: Callable[[Any], Any]) -> list[Callable[[Any], Any]]:
    """Functions of one argument, for parametrising; it gives lambdas their types."""
    return list(functions)


class Client:
    """A client of ADK's own runner that answers what a run asks, as `adk web` and others do."""

    def __init__(self, app: App) -> None:
        self._runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
        self._run: str | None = None

    @classmethod
    def of(cls, expression: Expr[Any], backend: MockBackend) -> Client:
        """A client of the app that an expression becomes."""
        return cls(backend.compile(expression.node).published())

    async def say(self, text: str) -> list[Event]:
        """The events of a new run."""
        events = await self._turn([types.Part(text=text)], None)
        self._run = events[0].invocation_id
        return events

    async def confirm(self, *requests: str, response: Mapping[str, Any] | None = None) -> list[Event]:
        """The events that follow when requests of the run are answered in one message, with yes if unsaid."""
        said = dict(response if response is not None else {"confirmed": True})
        answers = [types.FunctionResponse(id=id_, name=CONFIRMATION, response=said) for id_ in requests]
        return await self._turn([types.Part(function_response=answer) for answer in answers], self._run)

    async def _turn(self, parts: list[types.Part], run: str | None) -> list[Event]:
        message = types.Content(role="user", parts=parts)
        source: AsyncGenerator[Event, None] = self._runner.run_async(
            user_id="u", session_id="s", invocation_id=run, new_message=message
        )
        async with aclosing(source) as events:
            return [event async for event in events]


def requested(events: list[Event]) -> list[str]:
    """The ids of the confirmations that events ask for."""
    calls = [call for event in events for call in event.get_function_calls()]
    return [call.id for call in calls if call.name == CONFIRMATION and call.id]
