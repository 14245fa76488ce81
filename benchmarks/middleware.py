"""What middleware costs: ten agents whose model answers at once, with it and without."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from adk_fluent.middleware import CallModel, Context, Middleware, otel_enrichment
from benchmarks.by_hand import expression, run
from benchmarks.harness import Figure, compare, event_loop

ROUNDS = 201
STEPS = 10
ENRICHED = "otel_enrichment and marks"

Run = Callable[[], Coroutine[Any, Any, object]]


class Idle(Middleware):
    """Has no hook."""


class Watching(Middleware):
    """Has the hooks of a usual observer, which do nothing."""

    async def before_agent(self, ctx: Context, agent_name: str) -> None:
        """Nothing."""

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        """Nothing."""

    async def after_model(self, ctx: Context, response: LlmResponse) -> None:
        """Nothing."""


class Around(Middleware):
    """Passes on what the model answers."""

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """As without it."""
        async for response in call(request):
            yield response


def runner(*middleware: Middleware) -> Runner:
    """Ten agents on ADK's runner, without the plugin that marks events."""
    made = expression(STEPS).middleware(*middleware)
    return made.to_runner(session_service=InMemorySessionService())


def figures() -> Iterator[Figure]:
    """Each kind of middleware against none, per agent; then all of it with the plugin that marks events."""
    bare = runner()
    kinds = (
        ("no hook", Idle(), 1.01),
        ("three idle hooks", Watching(), 1.05),
        ("around_model", Around(), 1.05),
    )
    with event_loop() as blocking:
        for what, middleware, target in kinds:
            with_it = runner(middleware)
            yield compare(
                f"middleware with {what}, per agent",
                blocking(lambda with_it=with_it: run(with_it)),
                blocking(lambda: run(bare)),
                rounds=ROUNDS,
                per=STEPS,
                target=target,
            )
        stacks: tuple[tuple[str, tuple[Middleware, ...], float | None], ...] = (
            (f"{ENRICHED}, nobody records", (otel_enrichment(),), 1.05),
            ("all of them and marks", (Watching(), Around()), None),
        )
        for what, stack, target in stacks:
            yield stacked(blocking, what, stack, target, ROUNDS)
    yield recorded()


def stacked(
    blocking: Callable[[Run], Callable[[], object]],
    what: str,
    stack: tuple[Middleware, ...],
    target: float | None,
    rounds: int,
) -> Figure:
    """A stack and the plugin that marks events against neither."""
    app = expression(STEPS).middleware(*stack).to_app()
    agents = expression(STEPS).build()
    whole, plain = (
        Runner(app=each, session_service=InMemorySessionService(), auto_create_session=True)
        for each in (app, app.model_copy(update={"plugins": [], "root_agent": agents}))
    )
    return compare(
        f"{what}, per agent",
        blocking(lambda: run(whole)),
        blocking(lambda: run(plain)),
        rounds=rounds,
        per=STEPS,
        target=target,
    )


def recorded() -> Figure:
    """The enrichment where spans and metrics are recorded, on both sides: in a process of its own."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(_record, ROUNDS).result()


def _record(rounds: int) -> Figure:
    """The figure of a process that records."""
    trace.set_tracer_provider(TracerProvider())
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    with event_loop() as blocking:
        what = f"{ENRICHED}, recorded"
        return stacked(blocking, what, (otel_enrichment(),), 1.05, rounds)
