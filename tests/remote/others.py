"""A2A servers that are plain ADK, with nothing of ours in them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from inspect import signature
from typing import Any, cast

import uvicorn
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import PrivateAttr
from starlette.types import ASGIApp

from adk_fluent import Agent
from adk_fluent.a2a.protocol import sdk
from adk_fluent.a2a.protocol.card_json import card_json


class Says(BaseLlm):
    """A model that says the same words each time, and keeps what it was asked."""

    model: str = "says"
    pieces: tuple[str, ...] = ("Hel", "lo")
    error: str = ""
    _asked: list[LlmRequest] = PrivateAttr(default_factory=list[LlmRequest])
    _gate: asyncio.Event | None = PrivateAttr(default=None)
    _left: list[str] = PrivateAttr(default_factory=list[str])

    @property
    def asked(self) -> list[LlmRequest]:
        return self._asked

    @property
    def left(self) -> list[str]:
        """How calls that were not finished ended."""
        return self._left

    def wait_for(self, gate: asyncio.Event) -> None:
        """Say the first piece, and go on when `gate` opens."""
        self._gate = gate

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._asked.append(llm_request)
        if self.error:
            raise ValueError(self.error)
        try:
            for piece in self.pieces if stream else ():
                yield _response(piece, partial=True)
                if self._gate is not None:
                    await self._gate.wait()
            if self._gate is not None:
                await self._gate.wait()
        except asyncio.CancelledError:
            self._left.append("cancelled")
            raise
        yield _response("".join(self.pieces))


def _response(text: str, **fields: Any) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), **fields)


def says(*pieces: str, name: str = "clerk", **fields: Any) -> LlmAgent:
    """An agent that says these words."""
    return LlmAgent(name=name, description="Answers.", model=Says(pieces=pieces or ("Hel", "lo"), **fields))


def words(request: LlmRequest) -> list[str]:
    """The texts and files that a model was shown."""
    return [
        part.text or ((part.inline_data and part.inline_data.data) or b"").decode()
        for content in request.contents
        for part in content.parts or []
        if part.text or part.inline_data
    ]


@asynccontextmanager
async def listening(make: Callable[[int], ASGIApp]) -> AsyncGenerator[str, None]:
    """Serve an app on a free port; its URL."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        logger = logging.getLogger("google_adk")
        level = logger.level
        app = make(port)
        logger.setLevel(level)  # older releases of ADK set it when they make a server, for the whole process
        config = uvicorn.Config(app, log_config=None, log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        running = asyncio.ensure_future(cast(Any, server)._serve([sock]))  # without the signals of a process
        try:
            while not server.started:
                assert not running.done(), running
                await asyncio.sleep(0.002)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await running


def plain(agent: BaseAgent, *, streaming: bool = False, newer: bool = False, **options: Any) -> Any:
    """What makes ADK's own server of an agent.

    Args:
        streaming: whether it sends answers in pieces; ADK does not by itself.
        newer: whether it is ADK's newer executor, which clients can ask for.
    """
    from google.adk.a2a.utils.agent_to_a2a import to_a2a

    if "agent_executor_factory" not in signature(to_a2a).parameters:
        return _older(agent, streaming=streaming)

    from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
    from google.adk.a2a.executor.config import A2aAgentExecutorConfig

    def executor(runner: Runner) -> A2aAgentExecutor:
        chosen: dict[str, Any] = {"request_converter": _asking_for_pieces} if streaming else {}
        return A2aAgentExecutor(
            runner=runner, config=A2aAgentExecutorConfig(**chosen), force_new_version=newer
        )

    def make(port: int) -> Any:
        if streaming and not sdk.is_newer():
            options["agent_card"] = _streaming_card(agent, port)
        return to_a2a(agent, host="127.0.0.1", port=port, agent_executor_factory=executor, **options)

    return make


def _asking_for_pieces(context: Any, convert: Any) -> Any:
    from google.adk.a2a.converters.request_converter import convert_a2a_request_to_agent_run_request

    made: Any = convert_a2a_request_to_agent_run_request(context, convert)
    run_config = RunConfig(streaming_mode=cast(Any, "sse"))
    made.run_config = run_config
    return made


def _older(agent: BaseAgent, *, streaming: bool) -> Any:
    """The server of a release of ADK whose `to_a2a` takes no executor; its cards say that nothing streams."""
    apps: Any = import_module("a2a.server.apps")
    executors: Any = import_module("google.adk.a2a.executor.a2a_agent_executor")
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.tasks import InMemoryTaskStore
    from google.adk.a2a.utils.agent_to_a2a import to_a2a

    def make(port: int) -> Any:
        if not streaming:
            return to_a2a(agent, host="127.0.0.1", port=port)
        runner = Runner(app_name=agent.name, agent=agent, session_service=InMemorySessionService())
        config = executors.A2aAgentExecutorConfig(request_converter=_asking_for_pieces)
        handler: Any = DefaultRequestHandler
        executor = executors.A2aAgentExecutor(runner=runner, config=config)
        made = handler(agent_executor=executor, task_store=InMemoryTaskStore())
        card = _streaming_card(agent, port)
        return apps.A2AStarletteApplication(agent_card=card, http_handler=made).build()

    return make


def _streaming_card(agent: BaseAgent, port: int) -> Any:
    return sdk.card_of(card_json(Agent(agent.name).node, f"http://127.0.0.1:{port}/"))
