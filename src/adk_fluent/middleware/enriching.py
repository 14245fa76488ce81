"""`otel_enrichment`: what adk-fluent knows, on the spans that ADK makes, and metrics that ADK has not."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Callable
from functools import cache, wraps
from time import perf_counter
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
)

from adk_fluent._tracebacks import in_logs
from adk_fluent.cost.prices import Tokens, tokens_of
from adk_fluent.errors import ArgumentError, sentence
from adk_fluent.middleware.protocol import Middleware
from adk_fluent.telemetry import names
from adk_fluent.telemetry.calls import cost_in_usd, estimated_cost

if TYPE_CHECKING:
    from decimal import Decimal

    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from opentelemetry.trace import Span

    from adk_fluent.middleware.hook_context import Context
    from adk_fluent.middleware.protocol import CallModel


logger: logging.Logger = logging.getLogger("adk_fluent.middleware")

P = ParamSpec("P")
T = TypeVar("T")


class Step(NamedTuple):
    """What is known of the step at hand.

    Attributes:
        pipeline: the name of the expression that runs.
        kind: what the step is: `agent`, `sequence`, `route`, ...
        visibility: who sees what it says.
    """

    pipeline: str
    kind: str
    visibility: str


_Spent: TypeAlias = "tuple[Tokens, Decimal | None]"


class _Run:
    """A run that is on; it is told how it ended, once."""

    momentary: ClassVar[bool] = True
    """Where a durable run goes on in a new history, what was measured until then is all that is lost."""

    def __init__(self) -> None:
        self.started = perf_counter()
        self.pipeline = ""

    def ended(self, error: BaseException | None = None) -> None:
        """Measure it."""
        if not self.pipeline:
            return
        from adk_fluent.telemetry.metrics import instruments

        measured, labels = instruments(), {"pipeline": self.pipeline}
        measured.duration.record((perf_counter() - self.started) * 1000, labels)
        if error is not None:
            measured.errors.add(1, {**labels, names.ERROR_TYPE: type(error).__name__})
        self.pipeline = ""

    run_failed = ended


def _lenient(
    method: Callable[Concatenate[OTelEnrichment, Context, P], T],
) -> Callable[Concatenate[OTelEnrichment, Context, P], T | None]:
    """The method, of which a failure is only logged."""

    @wraps(method)
    def tried(self: OTelEnrichment, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return method(self, ctx, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  # a span may be anybody's, and a run does not fail for it
            what = sentence(in_logs(error))
            logger.warning("%s: otel_enrichment() failed: %s The run goes on.", ctx.agent_name, what)
            return None

    return tried


class OTelEnrichment(Middleware):
    """Adds attributes to ADK's own spans, and metrics; see `otel_enrichment`."""

    _keeps_answers: ClassVar[bool] = True
    best_effort: ClassVar[bool] = True
    _passes_on: ClassVar[bool] = True
    _by_usage: ClassVar[bool] = True

    def __init__(self, pipeline_name: str | None = None, *, costs: bool = True) -> None:
        self._pipeline = pipeline_name
        self._costs = costs
        self._run = self.per_run(_Run)
        self._is_heard = False

    def idle(self) -> bool:
        """Whether the process has a provider neither of spans nor of metrics; one that it has stays."""
        if not self._is_heard:
            self._is_heard = _anybody_hears()()
        return not self._is_heard

    async def before_run(self, ctx: Context) -> None:
        """Name the pipeline on the span of the run, and take the time."""
        run = self._run(ctx)
        run.pipeline = self._named(ctx)
        if (span := _current()) is not None:
            span.set_attribute(names.PIPELINE, run.pipeline)

    async def after_run(self, ctx: Context) -> None:
        """Measure a run that went well.

        ADK also calls this when the reader of a run leaves it, while its generator is being closed: what that
        took says when the reader left, not how long the pipeline takes.
        """
        if not isinstance(sys.exc_info()[1], GeneratorExit):
            self._run(ctx).ended()

    async def on_run_error(self, ctx: Context, error: Exception) -> None:
        """Measure a run that failed."""
        self._run(ctx).ended(error)

    async def before_agent(self, ctx: Context, agent_name: str) -> None:
        """Say on the span of an agent what it is, and who sees what it says."""
        if (span := _current()) is None:
            return
        placed: Any = ctx
        step: Step = placed.step
        span.set_attributes(
            {
                names.PIPELINE: self._pipeline or step.pipeline,
                names.NODE_TYPE: step.kind,
                names.VISIBILITY: step.visibility,
            }
        )

    async def before_tool(self, ctx: Context, tool_name: str, args: dict[str, Any]) -> None:
        """Say on the span of a tool whose it is."""
        if (span := _current()) is not None:
            span.set_attributes({names.PIPELINE: self._named(ctx), names.TOOL_AGENT: ctx.agent_name})

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncGenerator[LlmResponse, None]:
        """Say on the span of a model call, which is current here alone, whose it is, and what it used."""
        span = self._introduced(ctx, request)
        used: LlmResponse | None = None
        spent: _Spent | None = None
        responses = call(request)
        try:
            async for response in responses:
                if response.usage_metadata is not None:
                    used = response
                    if span is not None:
                        spent = self._account(ctx, span, request, response)
                yield response
        finally:
            await responses.aclose()
            if used is not None:
                self._measure(ctx, request, used, spent)

    # --- what is said -----------------------------------------------------------------------------

    def _named(self, ctx: Context) -> str:
        if self._pipeline:
            return self._pipeline
        placed: Any = ctx
        return str(placed.pipeline)

    @_lenient
    def _introduced(self, ctx: Context, request: LlmRequest) -> Span | None:
        """The span of the call, which now says whose it is; `None` if nobody records one."""
        if (span := _current(of_model=True)) is None:
            return None
        said: dict[str, str | float] = {names.PIPELINE: self._named(ctx), names.AGENT_NAME: ctx.agent_name}
        if ctx.operation is not None:
            said[names.OPERATION] = ctx.operation
        if self._costs and (cost := estimated_cost(request)) is not None:
            said[names.COST_ESTIMATE] = cost
        span.set_attributes(said)
        return span

    @_lenient
    def _account(self, ctx: Context, span: Span, request: LlmRequest, response: LlmResponse) -> _Spent | None:
        """Say what a call used, while its span is open: ADK 2.x ends it at the last piece of the answer."""
        if not span.is_recording():
            return None
        tokens, cost = spent = self._spent(request, response)
        said = {names.INPUT_TOKENS: tokens.input_tokens, names.OUTPUT_TOKENS: tokens.output_tokens}
        span.set_attributes(said if cost is None else {**said, names.COST: float(cost)})
        return spent

    @_lenient
    def _measure(
        self, ctx: Context, request: LlmRequest, response: LlmResponse, spent: _Spent | None
    ) -> None:
        from adk_fluent.telemetry.metrics import are_heard, instruments

        if not are_heard():
            return
        tokens, cost = spent or self._spent(request, response)
        model = response.model_version or request.model or "unknown"
        labels = {"agent_name": ctx.agent_name, "model": model, "pipeline": self._named(ctx)}
        if cost is not None:
            instruments().cost.add(float(cost), labels)
        placed: Any = ctx
        if not placed.counts_tokens:
            instruments().tokens.add(tokens.input_tokens + tokens.output_tokens, labels)

    def _spent(self, request: LlmRequest, response: LlmResponse) -> _Spent:
        tokens = tokens_of(response.usage_metadata)
        cost = cost_in_usd((response.model_version, request.model), tokens) if self._costs else None
        return tokens, cost


def _current(*, of_model: bool = False) -> Span | None:
    """The span that is current, if anybody records it.

    Args:
        of_model: whether it must be that of a model call. Where another library makes that span, what is
            current is the agent's, which several calls would write over.
    """
    span = _spans()()
    if not span.is_recording():
        return None
    name: str = getattr(span, "name", "")
    return span if not of_model or name.startswith(("generate_content", "call_llm")) else None


@cache
def _anybody_hears() -> Callable[[], bool]:
    """What says whether spans or metrics go anywhere."""
    from adk_fluent.telemetry import metrics, spans

    return lambda: spans.are_heard() or metrics.are_heard()


@cache
def _spans() -> Callable[[], Span]:
    """What gives the current span; OpenTelemetry is imported when somebody runs."""
    from opentelemetry.trace import get_current_span

    return get_current_span


def otel_enrichment(pipeline_name: str | None = None) -> Middleware:
    """Adds what adk-fluent knows to the spans that ADK makes; it makes none of its own.

    The names are in `adk_fluent.telemetry.ATTRIBUTES` and `METRICS`. It also measures runs, and what model
    calls cost; put it last, next to the model, so that what a cache answers costs nothing.

    Args:
        pipeline_name: what the pipeline is called there; by default as the expression is.

    Raises:
        ArgumentError: the name is no text.

    Example:
        >>> from adk_fluent import Agent
        >>> pipeline = (Agent("draft") >> Agent("edit")).middleware(otel_enrichment("letters"))
    """
    if pipeline_name is not None and not (isinstance(pipeline_name, str) and pipeline_name.strip()):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ArgumentError(f"otel_enrichment({pipeline_name!r:.40}) takes the name of a pipeline.")
    return OTelEnrichment(pipeline_name)
