"""A pipeline cut at its execution boundaries against the same pipeline in one piece, and cut by hand."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Any, Literal

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent import Agent, Pipeline
from adk_fluent.backends import ADKBackend
from adk_fluent.distributed import DistributedBackend
from adk_fluent.expr.base import Expr
from benchmarks import by_hand
from benchmarks.by_hand import MODEL
from benchmarks.harness import Figure, compare, event_loop

ROUNDS = 51
SEGMENTS = 3
AGAINST = "the same pipeline in one piece"
BY_HAND = "an app for each, on plain ADK with JSON between"


def pipeline(serialization: Literal["json", "protobuf", "arrow"] | None) -> Expr[str]:
    """Three agents, each reading what the one before wrote; cut before each but the first, if at all."""
    steps: list[Expr[str]] = []
    for number in range(SEGMENTS):
        step = Agent(f"a{number}", MODEL).instruct(f"Go on from {{k{number}?}}.").writes(f"k{number + 1}")
        cut = number and serialization is not None
        steps.append(step.execution_boundary(serialization=serialization or "json") if cut else step)
    return Pipeline(*steps)


class Segment(BaseAgent):
    """Runs an agent as an app of its own: state and conversation go there as JSON, events come back so."""

    _runner: Runner = PrivateAttr()

    def behind(self, agent: BaseAgent) -> Segment:
        """Set the agent."""
        self._runner = by_hand.runner(agent)
        return self

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        run = [event for event in ctx.session.events if event.invocation_id == ctx.invocation_id]
        said = [event.model_dump(mode="json", exclude_none=True) for event in run if event.author != "user"]
        asked = ctx.user_content.model_dump(mode="json", exclude_none=True) if ctx.user_content else None
        data = json.dumps({"state": dict(ctx.session.state), "said": said, "asked": asked})
        async for back in self._there(data):
            event = Event.model_validate_json(back)
            event.invocation_id = ctx.invocation_id
            yield event

    async def _there(self, data: str) -> AsyncGenerator[str, None]:
        given: dict[str, Any] = json.loads(data)
        runner, session_id = self._runner, str(uuid.uuid4())
        session = await runner.session_service.create_session(
            app_name=runner.app_name, user_id=by_hand.USER, session_id=session_id, state=given["state"]
        )
        for event in given["said"]:
            await runner.session_service.append_event(session, Event.model_validate_json(json.dumps(event)))
        message = types.Content.model_validate_json(json.dumps(given["asked"]))
        events = runner.run_async(user_id=by_hand.USER, session_id=session_id, new_message=message)
        async for event in events:
            yield event.model_dump_json(exclude_none=True)
        await runner.session_service.delete_session(
            app_name=runner.app_name, user_id=by_hand.USER, session_id=session_id
        )


def cut_by_hand() -> Runner:
    """The pipeline with its later agents as apps of their own, as somebody writes it without adk-fluent."""
    whole = by_hand.agents(SEGMENTS)
    first, *others = whole.sub_agents
    for agent in whole.sub_agents:
        agent.parent_agent = None
    behind = [
        Segment(name=f"segment_{agent.name}").behind(by_hand.InOrder(name="part", sub_agents=[agent]))
        for agent in others
    ]
    return by_hand.runner(by_hand.InOrder(name="pipeline", sub_agents=[first, *behind]))


def figures() -> Iterator[Figure]:
    """Per segment: boundaries that a run in one process keeps to, then segments as apps behind bytes."""
    service = InMemorySessionService()
    with event_loop() as blocking:

        def run(expression: Expr[str], backend: ADKBackend) -> Callable[[], object]:
            return blocking(partial(expression.run, "go", backend=backend, session_service=service))

        whole = run(pipeline(None), ADKBackend())
        cuts: list[tuple[str, Callable[[], object]]] = [
            ("boundaries in one process", run(pipeline("json"), ADKBackend())),
            ("segments over JSON", run(pipeline("json"), DistributedBackend())),
            ("segments over protobuf", run(pipeline("protobuf"), DistributedBackend())),
            ("segments over Arrow", run(pipeline("arrow"), DistributedBackend())),
        ]
        for what, ours in cuts:
            yield compare(
                f"{SEGMENTS} {what}, each", ours, whole, rounds=ROUNDS, per=SEGMENTS, against=AGAINST
            )
        yield compare(
            f"{SEGMENTS} segments over JSON, each",
            run(pipeline("json"), DistributedBackend()),
            blocking(partial(by_hand.run, cut_by_hand())),
            rounds=ROUNDS,
            per=SEGMENTS,
            against=BY_HAND,
        )
