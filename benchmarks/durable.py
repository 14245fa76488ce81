"""Durable runs against Temporal workflows written by hand for the same steps, on the same server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from statistics import median
from time import perf_counter
from typing import Any, cast

from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.genai import types
from temporalio import activity, workflow
from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from adk_fluent import Agent
from adk_fluent.backends import TemporalBackend
from adk_fluent.backends.temporal.connecting import Address
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.backends.temporal.worker import working
from benchmarks.by_hand import InstantLlm
from benchmarks.harness import Figure, event_loop, in_turn

ROUNDS = 25
STEPS = 5
"""Model calls in a run, one after the other; each sees what was said before."""

QUEUE = "by-hand"
MODEL = InstantLlm(model="instant")


@activity.defn
async def ask(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask the model."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(1)

    task = asyncio.ensure_future(beat())
    try:
        given = LlmRequest.model_validate(request)
        answers = [answer async for answer in MODEL.generate_content_async(given)]
    finally:
        task.cancel()
    return [answer.model_dump(mode="json", exclude_none=True) for answer in answers]


@activity.defn
async def session(asked: dict[str, Any]) -> dict[str, Any]:
    """Open a session, or add to it."""
    name: dict[str, Any] = {"app_name": "bench", "user_id": "user", "session_id": asked["id"]}
    if "said" not in asked:
        await SESSIONS.create_session(**name)
        return {}
    found = await SESSIONS.get_session(**name)
    assert found is not None
    for author, content in asked["said"]:
        event = Event(author=author, invocation_id="run", content=types.Content.model_validate(content))
        await SESSIONS.append_event(found, event)
    return {}


SESSIONS = InMemorySessionService()


@workflow.defn(sandboxed=False)
class ByHand:
    """The same steps: a session, model calls that see what was said before, and a reader that is told."""

    def __init__(self) -> None:
        self._told: list[str] | None = None

    @workflow.run
    async def run(self, prompt: str) -> None:
        """All steps."""
        retry = RetryPolicy(maximum_attempts=5)
        limit = timedelta(seconds=30)
        mine = {"id": workflow.info().workflow_id}
        await workflow.execute_local_activity(session, mine, start_to_close_timeout=limit)
        said: list[tuple[str, dict[str, Any]]] = [("user", {"role": "user", "parts": [{"text": prompt}]})]
        for number in range(STEPS):
            request = LlmRequest(
                model="instant",
                contents=[types.Content.model_validate(content) for _, content in said],
                config=types.GenerateContentConfig(system_instruction=f"You are step_{number}. Go on."),
            )
            answers = await workflow.execute_activity(
                ask,
                request.model_dump(mode="json", exclude_none=True),
                start_to_close_timeout=timedelta(minutes=10),
                heartbeat_timeout=timedelta(seconds=5),
                retry_policy=retry,
            )
            said.append((f"step_{number}", LlmResponse.model_validate(answers[-1]).model_dump()["content"]))
        kept = {**mine, "said": said}
        await workflow.execute_local_activity(session, kept, start_to_close_timeout=limit)
        self._told = [content["parts"][0]["text"] for _, content in said]
        await workflow.wait_condition(workflow.all_handlers_finished)

    @workflow.update
    async def read(self) -> list[str]:
        """What was said, once all is."""
        await workflow.wait_condition(lambda: self._told is not None)
        return self._told or []


def pipeline() -> Any:
    """The same in one expression."""
    first, *rest = (Agent(f"step_{number}", MODEL).instruct("Go on.") for number in range(STEPS))
    for agent in rest:
        first = first >> agent
    return first


def figures() -> Iterator[Figure]:
    """One run after another, each alone."""
    with DevServer() as server, event_loop() as made:
        stack = AsyncExitStack()
        expression, address = pipeline(), Address(server.address)
        backend = TemporalBackend(server.address)

        async def start() -> None:
            client = await address.client()
            worker = Worker(
                client,
                task_queue=QUEUE,
                build_id=QUEUE,  # as ours: by default it is a hash of all imported modules
                workflows=[ByHand],
                activities=[ask, session],
                workflow_runner=UnsandboxedWorkflowRunner(),
            )
            await stack.enter_async_context(worker)
            await stack.enter_async_context(working(expression.node, address))

        async def by_hand() -> None:
            await _update(await address.client())

        made(start)()
        try:
            ours = made(lambda: expression.run("go", backend=backend))
            mine, theirs = in_turn((ours, made(by_hand)), ROUNDS, clock=perf_counter)
        finally:
            made(stack.aclose)()
    yield Figure(
        what=f"a durable run of {STEPS} model calls, per call",
        seconds=median(mine) / STEPS,
        against="a workflow by hand",
        reference=median(theirs) / STEPS,
        ratio=median(a / b for a, b in zip(mine, theirs, strict=True)),
        target=1.2,
    )


async def _update(client: Client) -> None:
    start = WithStartWorkflowOperation(
        ByHand.run,
        "go",
        id=str(uuid.uuid4()),
        task_queue=QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
    )
    said: list[str] = await cast(Any, client).execute_update_with_start_workflow(
        ByHand.read, start_workflow_operation=start
    )
    assert len(said) == STEPS + 1
