"""A live conversation on ADK's `run_live`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Literal

from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig, StreamingMode  # pyright: ignore[reportPrivateImportUsage]  # its public home on every supported version
from google.genai import types

from adk_fluent.backends.adk.events.branch_sessions import OneByOne
from adk_fluent.backends.adk.running.convert import to_agent_event, to_content
from adk_fluent.backends.adk.running.runner import FluentRunner
from adk_fluent.backends.events import AgentEvent
from adk_fluent.config import ExecutionConfig

Modality = Literal["audio", "text"]


class LiveLine:
    """What is sent in a live conversation, and what comes of it.

    Args:
        runner: what runs it.
        config: how it is run.
        session: whose it is, and the session, which exists.
        modality: what the model answers in.
        models: agent → its model, for answers that do not name theirs.
    """

    def __init__(
        self,
        runner: FluentRunner,
        config: ExecutionConfig,
        session: Mapping[str, str],
        *,
        modality: Modality,
        models: Mapping[str, str],
    ) -> None:
        self._queue = LiveRequestQueue()
        self._runner = runner.keeping(OneByOne(runner.session_service))
        self._session, self._models = dict(session), models
        self._config = RunConfig(
            max_llm_calls=config.max_llm_calls,
            streaming_mode=StreamingMode.BIDI,
            response_modalities=[types.Modality(modality.upper())],
            custom_metadata=dict(config.custom_metadata) if config.custom_metadata else None,
        )

    async def send(self, said: object) -> None:
        """Send a message, which is answered, or a blob: audio or video as it is recorded.

        Raises:
            ArgumentError: it is nothing that can be sent.
        """
        if isinstance(said, types.Blob):
            self._queue.send_realtime(said)
        else:
            self._queue.send_content(to_content(said))

    def close(self) -> None:
        """Say that nothing more will be sent."""
        self._queue.close()

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """What happens, until the conversation ends or this is closed."""
        session_id = self._session["session_id"]
        running = self._runner.run_live(
            **self._session, live_request_queue=self._queue, run_config=self._config
        )
        async with aclosing(running) as events:
            async for event in events:
                yield to_agent_event(event, session_id, self._models)
