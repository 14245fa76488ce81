"""What single calls may take: a context filter, `C.capture`, a mark of visibility, attributes on a span."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from statistics import median
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService, Session
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from adk_fluent import Agent, C
from adk_fluent.analysis.visibility import outlet_of
from adk_fluent.backends.adk.running.visibility import event_visibility, marked
from adk_fluent.backends.adk.steps.llm_agent import FluentLlmAgent
from adk_fluent.middleware.enriching import OTelEnrichment, Step
from benchmarks.by_hand import MODEL, expression
from benchmarks.harness import Figure, event_loop, in_turn

ROUNDS = 101
EVENTS = 100
CALLS = 100


def said(author: str, text: str) -> Event:
    """An event that says something."""
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(author=author, invocation_id="i", content=content)


def conversation() -> list[Event]:
    """A user and two agents, in turn."""
    authors = ("user", "writer", "critic")
    return [said(authors[i % 3], f"message {i}: " + "word " * 20) for i in range(EVENTS)]


def context_of(agent: Any) -> InvocationContext:
    """An agent's run, in a session with that conversation."""
    session = Session(id="s", app_name="bench", user_id="user", events=conversation())
    service = InMemorySessionService()
    return InvocationContext(session_service=service, invocation_id="i", agent=agent, session=session)


class Here:
    """Where a hook is called, with nothing behind it."""

    agent_name = "writer"
    operation = None
    step = Step("pipeline", "agent", "user")
    counts_tokens = True


async def answer(request: LlmRequest, *, model: object = None) -> AsyncGenerator[LlmResponse, None]:
    """What a model says."""
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1000, candidates_token_count=100)
    yield LlmResponse(model_version="gemini-2.5-flash", usage_metadata=usage)


def enriching() -> Callable[[], Any]:
    """A model call on a span that is recorded, with what stands around it."""
    middleware: Any = OTelEnrichment("pipeline")
    tracer = TracerProvider().get_tracer("bench")
    contents = [event.content for event in conversation() if event.content is not None]
    request = LlmRequest(model="gemini-2.5-flash", contents=contents)

    async def call() -> None:
        with trace.use_span(tracer.start_span("generate_content gemini-2.5-flash"), end_on_exit=True):
            await middleware.before_agent(Here(), "writer")
            async with aclosing(middleware.around_model(Here(), request, answer)) as responses:
                async for _ in responses:
                    pass

    return call


def figures() -> Iterator[Figure]:
    """Each of them alone, as the specification limits it."""
    filtered = Agent("reader", MODEL).context(C.from_agents("writer")).build()
    assert isinstance(filtered, FluentLlmAgent)
    delivering = filtered.delivering
    assert delivering is not None
    capture_step = C.capture("said").build()
    reading, capturing = context_of(filtered), context_of(capture_step)
    outlet, events = outlet_of(expression(3).node), conversation()
    enriched = enriching()

    async def deliver() -> None:
        await delivering.deliver(reading)

    async def capture() -> None:
        async with aclosing(capture_step.run_async(capturing)) as given:
            async for _ in given:
                pass

    async def mark() -> None:
        for event in events:
            marked(event, event_visibility(event, outlet))

    async def enrich() -> None:
        for _ in range(CALLS):
            await enriched()

    rows = (
        (f"a context filter over {EVENTS} events", deliver, 1, 0.005),
        (f"C.capture after {EVENTS} events", capture, 1, 0.001),
        ("the mark of who sees an event", mark, EVENTS, 0.0001),
        ("attributes and metrics of a model call", enrich, CALLS, 0.0005),
    )
    with event_loop() as blocking:
        for what, run, per, target in rows:
            (times,) = in_turn([blocking(run)], ROUNDS)
            yield Figure(what=what, seconds=median(times) / per, target=target, of="seconds")
