"""What adk-fluent says on the spans that ADK makes: the right attributes in the right place."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from adk_fluent import Agent, C, Route, S, map_over, race
from adk_fluent.adopt import adopt
from adk_fluent.config import ExecutionConfig, TelemetryConfig
from adk_fluent.errors import ArgumentError, ModelError
from adk_fluent.middleware import otel_enrichment
from adk_fluent.middleware.enriching import OTelEnrichment
from adk_fluent.telemetry import set_up
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Client, PlainLlm, called
from tests.telemetry.tracing import MODEL, Spans, answer, program

# ADK 2.x warns of how its own AgentTool hands plugins on.
pytestmark = pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")

ON = ExecutionConfig(telemetry=TelemetryConfig())


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """The spans of this test, on whatever provider this process has."""
    monkeypatch.setenv("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "false")
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "false")
    exporter = InMemorySpanExporter()
    set_up(TelemetryConfig(custom_exporters=[exporter]))
    yield Spans(exporter)
    exporter.shutdown()


def model(*answers: LlmResponse) -> PlainLlm:
    """A model that gives these answers, to each call the next, and the last again."""
    left = list(answers)

    async def give(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield left.pop(0) if len(left) > 1 else left[0]

    return PlainLlm.of(give)


def look() -> str:
    """Look."""
    return "seen"


async def test_an_agent_says_what_it_is_and_who_sees_it(spans: Spans) -> None:
    """The span of every agent and step has the pipeline, the kind of step and its visibility."""
    pipeline = Agent("clerk").writes("intent") >> Route("intent").eq(
        "book", Agent("booker") | Agent("mailer")
    )
    backend = mock_backend({"clerk": "book"}, default="ok")
    await pipeline.named("desk").run("hi", backend=backend, config=ON)
    kinds = {name: (said["node_type"], said["visibility"]) for name, said in spans.agents().items()}
    assert kinds == {
        "desk": ("sequence", "zero_cost"),
        "clerk": ("agent", "internal"),
        "route": ("route", "zero_cost"),
        "parallel": ("parallel", "zero_cost"),
        "booker": ("agent", "user"),
        "mailer": ("agent", "user"),
    }
    assert {said["pipeline"] for said in spans.agents().values()} == {"desk"}


class Holds(BaseAgent):
    """An agent written by hand that runs another one without having it below itself."""

    inner: LlmAgent

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.inner.run_async(ctx):
            yield event


async def test_what_a_native_agent_runs_is_part_of_the_pipeline(spans: Spans) -> None:
    """An agent that another one holds has the name of the pipeline, and is for whom that one is."""
    holder = Holds(name="holder", inner=LlmAgent(name="inner", model=model(answer("i"))))
    pipeline = (holder >> Agent("last")).named("desk")
    await pipeline.run("hi", backend=mock_backend(default="ok"), config=ON)
    said = spans.agents()
    assert {one["pipeline"] for one in [*said.values(), *spans.of("generate_content")]} == {"desk"}
    assert {name: one["visibility"] for name, one in said.items()} == {
        "desk": "zero_cost",
        "holder": "internal",
        "inner": "internal",
        "last": "user",
    }


@pytest.mark.newest
async def test_the_agents_of_a_workflow_are_part_of_it(spans: Spans) -> None:
    """Of an adopted graph, the spans say the name of the graph, and who sees what its agents say."""
    from google.adk.workflow import Workflow

    agents = [LlmAgent(name=name, model=model(answer(name))) for name in ("first", "second")]
    graph = Workflow(name="desk", edges=[cast(Any, ("START", *agents))])
    await adopt(graph).run("hi", config=ON)
    said = spans.agents()
    assert {one["pipeline"] for one in [*said.values(), *spans.of("generate_content")]} == {"desk"}
    assert {name: one["visibility"] for name, one in said.items()} == {"first": "internal", "second": "user"}


SHAPES: dict[str, Any] = {
    "sequence": Agent("a") >> S.set(x=1) >> Agent("b"),
    "parallel": Agent("a") | Agent("b"),
    "loop": (Agent("a") >> Agent("b")) * 2,
    "fallback": Agent("a") // Agent("b"),
    "race": race(Agent("a"), Agent("b")),
    "map": S.set(xs=[1, 2]) >> map_over("xs", Agent("a")),
    "route": S.set(k=1) >> Route("k").eq(1, Agent("a")),
    "delegate": Agent("a").delegate(Agent("b")),
    "timeout": Agent("a").timeout(60),
    "tool": Agent("a").tool(look),
    "agent in a tool": Agent("a").tool(AgentTool(Agent("inner", model(answer("i"))).build())),
}
RESPONSES: dict[str, Any] = {
    "tool": {"a": [call_tool("look"), "x"]},
    "agent in a tool": {"a": [call_tool("inner", request="r"), "x"]},
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_there_is_no_span_of_our_own(shape: str, spans: Spans) -> None:
    """A run makes the same spans, by name and number, with the enrichment and without it."""

    async def names(**options: Any) -> list[str]:
        spans.exporter.clear()
        backend = mock_backend(RESPONSES.get(shape), default="ok")
        await SHAPES[shape].run("hi", backend=backend, **options)
        return sorted(span.name for span in spans.all)

    plain = await names()
    assert plain
    assert spans.of("") == [{}] * len(plain)
    assert await names(config=ON) == plain
    assert all(spans.of("invoke_agent"))
    assert await names(middleware=otel_enrichment()) == plain
    assert all(spans.of("invoke_agent"))


async def test_a_model_call_says_whose_it_is_and_what_it_cost(spans: Spans) -> None:
    """The span of each model call, not that of its agent, has its own tokens and costs."""
    agent = Agent("a", model(answer("x", (1000, 100)), answer("y", (2_000_000, 0))))
    for _ in range(2):
        await agent.run("hi", config=ON)
    first, second = spans.of("generate_content")
    assert first["agent_name"] == "a"
    assert first["pipeline"] == "a"
    assert (first["actual_input_tokens"], first["actual_output_tokens"]) == (1000, 100)
    assert second["actual_input_tokens"] == 2_000_000
    assert 0 < first["cost_usd"] < second["cost_usd"]
    assert "cost_usd" not in spans.agents()["a"]


async def test_two_calls_in_one_agent_do_not_overwrite_each_other(spans: Spans) -> None:
    """An agent that calls a tool asks its model twice, and each span says its own."""

    async def give(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        call = types.Part(function_call=types.FunctionCall(name="look", args={}))
        content = None if called(request) else types.Content(role="model", parts=[call])
        yield answer("x", (20, 2)) if content is None else answer("", (10, 1), content=content)

    await Agent("a", PlainLlm.of(give)).tool(look).run("hi", config=ON)
    assert [each["actual_input_tokens"] for each in spans.of("generate_content")] == [10, 20]
    assert spans.of("execute_tool look") == [{"pipeline": "a", "tool_agent": "a"}]


async def test_a_streamed_call_is_told_once_and_whole(spans: Spans) -> None:
    """Of an answer in pieces, the span has the tokens of the last piece, though ADK ends it there."""

    async def pieces(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield answer("Hel", (10, 1), partial=True, finish_reason=None)
        yield answer("lo", (10, 2), partial=True)
        yield answer("Hello", (10, 2))

    events = [event async for event in Agent("a", PlainLlm.of(pieces)).stream("hi", config=ON)]
    assert [event.content for event in events] == ["Hel", "lo", "Hello"]
    (said,) = spans.of("generate_content")
    assert said["actual_output_tokens"] == 2


async def test_a_cost_estimate_is_there_though_the_call_fails(spans: Spans) -> None:
    """What a call costs at least is on its span before the model answers, and when it never does."""

    async def fail(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        request.model = MODEL
        raise ValueError("no")
        yield

    agent = Agent("a", PlainLlm.of(fail).model_copy(update={"model": MODEL})).instruct("word " * 400)
    with pytest.raises(ModelError):
        await agent.run("hi", config=ON)
    (said,) = spans.of("generate_content")
    assert said["cost_estimate_usd"] > 0
    assert "cost_usd" not in said


async def test_without_costs_there_are_none(spans: Spans) -> None:
    """`enable_cost_metrics=False` leaves prices alone; tokens are told all the same."""
    config = ExecutionConfig(telemetry=TelemetryConfig(enable_cost_metrics=False))
    await Agent("a", model(answer("x"))).run("hi", config=config)
    (said,) = spans.of("generate_content")
    assert said == {
        "pipeline": "a",
        "agent_name": "a",
        "actual_input_tokens": 1000,
        "actual_output_tokens": 100,
    }


async def test_an_agent_inside_a_tool_is_internal_and_of_the_same_pipeline(spans: Spans) -> None:
    """What an agent says inside a tool is for its caller, so it is internal, of the caller's pipeline."""
    inner = Agent("inner", model(answer("i"))) >> Agent("last", model(answer("l")))
    pipeline = Agent("outer").tool(AgentTool(inner.named("helper").build()))
    backend = mock_backend({"outer": [call_tool("helper", request="r"), "x"]}, default="ok")
    await pipeline.run("hi", backend=backend, config=ON)
    agents = spans.agents()
    assert {name: said["visibility"] for name, said in agents.items()} == {
        "outer": "user",
        "helper": "internal",
        "inner": "internal",
        "last": "internal",
    }
    assert {said["pipeline"] for said in agents.values()} == {"outer"}
    assert {said["agent_name"] for said in spans.of("generate_content")} == {"outer", "inner", "last"}
    assert [said["tool_agent"] for said in spans.of("execute_tool")] == ["outer"]


async def test_it_acts_on_every_way_of_running(spans: Spans) -> None:
    """`run`, `ask_async`, `stream`, `map`, a session, `to_runner` and an `App` in ADK's runner tell."""
    agent = Agent("a", model(answer("x"))).middleware(otel_enrichment("shop"))
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    native: dict[str, Any] = {"user_id": "u", "session_id": "s", "new_message": message}

    async def conversation() -> None:
        async with agent.session() as chat:
            await chat.send("hi")

    async def events(runner: Runner) -> None:
        async for _ in runner.run_async(**native):
            pass

    async def stream() -> None:
        async for _ in agent.stream("hi"):
            pass

    service = InMemorySessionService()
    plain = Runner(app=agent.to_app(), session_service=service, auto_create_session=True)
    whole: dict[str, Any] = {"pipeline": "shop", "agent_name": "a"}
    for way in (
        lambda: agent.run("hi"),
        lambda: agent.ask_async("hi"),
        stream,
        lambda: agent.map(["hi"]),
        conversation,
        lambda: events(agent.to_runner()),
        lambda: events(plain),
    ):
        spans.exporter.clear()
        await way()
        assert spans.agents() == {"a": {"pipeline": "shop", "node_type": "agent", "visibility": "user"}}
        (said,) = spans.of("generate_content")
        assert whole.items() <= said.items()
        assert [span for span in spans.of("invocation", "invoke_workflow") if span] == [{"pipeline": "shop"}]


async def test_a_question_of_the_context_is_not_taken_for_the_agents_answer(spans: Spans) -> None:
    """Tokens of a helper model are not written on the span of the agent."""
    reader = Agent("b", model(answer("done"))).context(C.summarize(model=model(answer("short", (5, 5)))))
    await (Agent("a", model(answer("long"))) >> reader).run("hi", config=ON)
    assert set(spans.agents()["b"]) == {"pipeline", "node_type", "visibility"}
    assert [said["actual_input_tokens"] for said in spans.of("generate_content")] == [1000, 1000]


async def test_no_state_and_no_words_reach_the_attributes(spans: Spans) -> None:
    """What is said, kept in state or given to tools is on no span, in attributes or events."""

    def send(token: str) -> str:
        """Send."""
        return f"sent {token}"

    agent = Agent("a").instruct("Use {key}.").tool(send)
    backend = mock_backend({"a": [call_tool("send", token="s3cret-1"), "s3cret-2"]})
    await agent.run("s3cret-3", state={"key": "s3cret-4"}, backend=backend, config=ON)
    told = " ".join(span.to_json() for span in spans.all)
    assert "execute_tool send" in told
    assert "s3cret" not in told


async def test_what_cannot_be_said_stops_no_run(
    spans: Spans, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure beside a model call is logged, and the answer arrives; a failure of the model is its own."""

    def fails(request: object) -> float:
        raise ValueError("odd")

    monkeypatch.setattr("adk_fluent.middleware.enriching.estimated_cost", fails)
    agent = Agent("a", model(answer("x"))).middleware(otel_enrichment())
    assert await agent.ask_async("hi") == "x"
    pattern = r"a: otel_enrichment\(\) failed: ValueError at test_spans\.py:\d+\. The run goes on\."
    assert any(re.fullmatch(pattern, message) for message in caplog.messages)
    with pytest.raises(ModelError, match="down"):
        await agent.run("hi", backend=mock_backend({"a": ConnectionError("down")}))


def test_it_is_idle_where_nobody_hears() -> None:
    """No hook is called before there is a provider of spans or metrics; then the next run is told."""
    said = program("""
        from unittest.mock import patch
        from adk_fluent.middleware.enriching import OTelEnrichment
        called, hooks = [], ("before_run", "before_agent", "around_model", "after_run")
        def noting(name, plain):
            def noted(self, *given):
                called.append(name)
                return plain(self, *given)
            return noted
        shop = (Agent("a").middleware(otel_enrichment("shop")))
        for name in hooks:
            setattr(OTelEnrichment, name, noting(name, getattr(OTelEnrichment, name)))
        run(shop)
        said["before"] = list(called)
        metrics.set_meter_provider(MeterProvider([reader]))
        run(shop)
        said.update(after=called, runs=measured(reader)["adk_fluent.pipeline.duration"])
    """)
    assert said["before"] == []
    assert {"before_run", "around_model", "after_run"} <= set(said["after"])
    assert said["runs"] == [[{"pipeline": "shop"}, 1]]


class Measured:
    """An instrument that notes what it is given."""

    def __init__(self) -> None:
        self.noted: list[dict[str, str]] = []

    def add(self, amount: float, labels: dict[str, str]) -> None:
        self.noted.append(labels)

    record = add


@pytest.mark.parametrize("way", ["run", "runner", "native"])
async def test_runs_that_fail_are_counted_once(
    way: str, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On ADK's own runner, too, on every ADK; what a fallback catches is no failure; each run has a time."""
    errors, duration = Measured(), Measured()
    found = SimpleNamespace(errors=errors, duration=duration, cost=Measured(), tokens=Measured())
    monkeypatch.setattr("adk_fluent.telemetry.metrics.instruments", lambda: found)
    backend = mock_backend({"a": ConnectionError("down")}, default="ok")

    async def play(expression: Any) -> None:
        if way == "run":
            await expression.run("hi", backend=backend)
        elif way == "native":
            await Client.of(expression, backend).say("hi")
        else:
            runner = backend.compile(expression.node).runner(backend.services())
            message = types.Content(role="user", parts=[types.Part(text="hi")])
            async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
                pass

    a, b, shop = Agent("a"), Agent("b"), otel_enrichment("shop")
    for failing in (a.middleware(shop), b.middleware(shop) >> a):
        with pytest.raises((ModelError, ConnectionError)):
            await play(failing)
    await play((a // b).middleware(shop))
    assert errors.noted == [{"pipeline": "shop", "error.type": "ConnectionError"}] * 2
    assert duration.noted == [{"pipeline": "shop"}] * 3


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("way", ["stream", "runner", "native"])
async def test_runs_that_the_reader_left_have_no_duration(
    way: str, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose reader disconnects is not measured, neither at its first event nor at its last."""
    duration, pipeline = Measured(), (Agent("a") >> Agent("b")).middleware(OTelEnrichment("shop"))
    found = SimpleNamespace(errors=Measured(), duration=duration, cost=Measured(), tokens=Measured())
    monkeypatch.setattr("adk_fluent.telemetry.metrics.instruments", lambda: found)
    monkeypatch.setattr(OTelEnrichment, "idle", Mock(return_value=False))
    backend, message = mock_backend(default="ok"), types.Content(role="user", parts=[types.Part(text="hi")])
    for left_at in ("a", "b"):
        if way == "stream":
            events: Any = pipeline.stream("hi", backend=backend)
        elif way == "runner":
            runner = backend.compile(pipeline.node).runner(backend.services())
            events = runner.run_async(user_id="u", session_id=left_at, new_message=message)
        else:
            app, service = backend.compile(pipeline.node).published(), InMemorySessionService()
            runner = Runner(app=app, session_service=service, auto_create_session=True)
            events = runner.run_async(user_id="u", session_id="s", new_message=message)
        async with aclosing(events):
            async for event in events:
                if leaves and event.author == left_at:
                    break
    assert len(duration.noted) == (0 if leaves else 2)


@pytest.mark.parametrize("name", ["", "  ", 3])
def test_a_pipeline_name_is_text(name: Any) -> None:
    """`otel_enrichment` takes a name that can be read."""
    with pytest.raises(ArgumentError, match="takes the name of a pipeline"):
        otel_enrichment(name)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"trace_to_cloud": 1}, "trace_to_cloud=1"),
        ({"capture_content": "yes"}, "it is True or False"),
        ({"custom_exporters": InMemorySpanExporter()}, "it is a list of exporters"),
        ({"custom_exporters": [InMemorySpanExporter]}, "is no exporter"),
        ({"custom_exporters": ["console"]}, "'console' is no exporter"),
    ],
)
def test_a_wrong_configuration_is_refused(fields: dict[str, Any], match: str) -> None:
    """A `TelemetryConfig` says which of its values is wrong, and what it takes."""
    with pytest.raises(ArgumentError, match=match):
        TelemetryConfig(**fields)


def test_only_a_telemetry_config_is_taken() -> None:
    """`ExecutionConfig(telemetry=)` refuses anything else."""
    with pytest.raises(ArgumentError, match="it is a TelemetryConfig"):
        ExecutionConfig(telemetry=True)  # pyright: ignore[reportArgumentType]  # the mistake under test
