"""Providers, exporters and environment variables: set up once, and nothing of the application's undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adk_fluent.errors import install
from tests.telemetry.tracing import program


def test_the_metrics_have_what_adk_does_not_count() -> None:
    """Costs by agent and model, runs and failures by pipeline; tokens just where ADK itself counts none."""
    said = program("""
        from tests.telemetry.test_spans import model
        from adk_fluent.backends.adk.compat.private import counts_tokens
        config = ExecutionConfig(telemetry=TelemetryConfig(custom_exporters=[reader]))
        shop = (Agent("a", model(answer("x"))) >> Agent("b", model(answer("y")))).named("shop")
        for _ in range(3):
            asyncio.run(shop.run("hi", config=config))
        def fails(state):
            raise ValueError("no")
        broken = (Agent("a") >> S.fn(fails)).named("broken")
        for expression in (broken, Agent("c")):
            try:
                run(expression, {"c": KeyError()}, config=config)
            except ADKFluentError:
                pass
        said.update(measured(reader), counts=counts_tokens())
    """)

    def of_shop(metric: str) -> list[tuple[str, str, float]]:
        points = ((p, value) for p, value in said.get(metric, []) if p["pipeline"] == "shop")
        return [(p["agent_name"], p["model"], value) for p, value in points]

    cost = pytest.approx(3 * 0.00055)
    assert of_shop("adk_fluent.llm.cost") == [(name, "gemini-2.5-flash", cost) for name in "ab"]
    tokens = [] if said["counts"] else [(name, "gemini-2.5-flash", 3300) for name in "ab"]
    assert of_shop("adk_fluent.llm.tokens") == tokens
    assert ("gen_ai.client.token.usage" in said) is said["counts"]
    runs = {point["pipeline"]: count for point, count in said["adk_fluent.pipeline.duration"]}
    assert runs == {"shop": 3, "broken": 1, "c": 1}
    failed = [(point["pipeline"], point["error.type"]) for point, _ in said["adk_fluent.pipeline.errors"]]
    assert failed == [("broken", "StepError"), ("c", "KeyError")]


def test_findings_of_the_contract_check_are_counted_once() -> None:
    """Each error and warning is counted once, also of a pipeline that ran before without telemetry."""
    said = program("""
        observed = ExecutionConfig(telemetry=TelemetryConfig(custom_exporters=[reader]))
        wrong = (Agent("a") >> Agent("b").instruct("{kee}")).named("wrong")
        fresh = (Agent("a") >> Agent("b").instruct("{key}")).named("fresh")
        refused = (Agent("a") >> Agent("b").instruct("{kex}").strict()).named("refused")
        wrong.to_app()
        for expression in (wrong, fresh, refused) * 2:
            try:
                expression.to_app(observed)
            except ADKFluentError:
                pass
        said.update(measured(reader))
    """)
    found = said["adk_fluent.contracts.violations"]
    assert sorted((point["pipeline"], point["severity"], count) for point, count in found) == [
        ("fresh", "error", 1),
        ("refused", "error", 1),
        ("wrong", "error", 1),
    ]
    assert all(point["code"] for point, _ in found)


def test_findings_are_counted_where_the_application_measures() -> None:
    """A provider of the application's own gets them, without a `TelemetryConfig`."""
    said = program("""
        wrong = (Agent("a") >> Agent("b").instruct("{kee}")).named("wrong")
        wrong.to_app()
        metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
        for _ in range(2):
            wrong.to_app()
        said.update(measured(reader))
    """)
    ((point, count),) = said["adk_fluent.contracts.violations"]
    assert (point["pipeline"], point["severity"], count) == ("wrong", "error", 1)


def test_the_providers_of_the_application_stay() -> None:
    """A provider that the host set is kept, gets the exporters once, and nothing is warned of."""
    said = program("""
        host = TracerProvider()
        kept = InMemorySpanExporter()
        host.add_span_processor(SimpleSpanProcessor(kept))
        trace.set_tracer_provider(host)
        meters = MeterProvider(metric_readers=[reader])
        metrics.set_meter_provider(meters)
        config = ExecutionConfig(telemetry=TelemetryConfig(custom_exporters=[spans]))
        for _ in range(2):
            run(Agent("a"), config=config)
            run(Agent("b"), config=ExecutionConfig(telemetry=TelemetryConfig(custom_exporters=[spans])))
        said["same"] = [trace.get_tracer_provider() is host, metrics.get_meter_provider() is meters]
        said["spans"] = [len(spans.get_finished_spans()), len(kept.get_finished_spans())]
        said["unique"] = len({s.context.span_id for s in spans.get_finished_spans()})
        said["names"] = sorted(measured(reader))
    """)
    assert said["same"] == [True, True]
    ours, theirs = said["spans"]
    assert ours == theirs == said["unique"] > 0
    assert "adk_fluent.pipeline.duration" in said["names"]
    assert "verrid" not in said["stderr"]  # OpenTelemetry warns of a provider that is set twice


def test_without_an_exporter_no_provider_is_set() -> None:
    """A configuration that exports nothing sets no provider, so that the application still can."""
    said = program("""
        run(Agent("a"), config=ExecutionConfig(telemetry=TelemetryConfig()))
        said["unset"] = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        trace.set_tracer_provider(TracerProvider())
        said["set"] = isinstance(trace.get_tracer_provider(), TracerProvider)
    """)
    assert said["unset"]
    assert said["set"]


@pytest.mark.newest
def test_a_provider_that_takes_no_exporter_is_named() -> None:
    """Exporters that cannot be attached are one clear line before anything runs."""
    said = program("""
        from opentelemetry.trace import NoOpTracerProvider
        trace.set_tracer_provider(NoOpTracerProvider())
        metrics.set_meter_provider(MeterProvider())
        for key, exporter in (("spans", spans), ("metrics", reader)):
            telemetry = TelemetryConfig(custom_exporters=[exporter])
            try:
                run(Agent("a"), config=ExecutionConfig(telemetry=telemetry))
            except ADKFluentError as error:
                said[key] = [type(error).__name__, str(error)]
    """)
    assert said["spans"] == [
        "TelemetryError",
        "TelemetryConfig: this process traces with a NoOpTracerProvider, which takes no further exporter. "
        "Give it the exporter where the application makes it, and leave it out here.",
    ]
    assert said["metrics"][0] == "TelemetryError"
    assert "measures with a MeterProvider" in said["metrics"][1]


@pytest.mark.parametrize(
    "environment",
    [{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, {}],
    ids=["by variable", "to cloud"],
)
def test_a_missing_exporter_is_one_clear_line(environment: dict[str, str]) -> None:
    """Where the package that exports is not installed, the error says what to install."""
    said = program(
        """
        import sys
        for name in ("trace_exporter", "metric_exporter"):
            sys.modules[f"opentelemetry.exporter.otlp.proto.http.{name}"] = None
        cloud = not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        try:
            run(Agent("a"), config=ExecutionConfig(telemetry=TelemetryConfig(trace_to_cloud=cloud)))
        except ADKFluentError as error:
            said["error"] = [type(error).__name__, str(error)]
        """,
        **environment,
    )
    kind, text = said["error"]
    assert kind == "MissingExtraError"
    assert text.endswith("needs an exporter that is not installed: " + install("otel"))
    assert "\n" not in text


@pytest.mark.newest
def test_the_variables_of_opentelemetry_name_an_exporter() -> None:
    """With `OTEL_EXPORTER_OTLP_ENDPOINT`, spans and metrics are sent there, and nothing else need be said."""
    said = program(
        """
        import threading
        from http.server import BaseHTTPRequestHandler, HTTPServer
        paths = set()
        class Collector(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                paths.add(self.path)
                self.send_response(200)
                self.end_headers()
            def log_message(self, *args):
                pass
        server = HTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
        run(Agent("a"), config=ExecutionConfig(telemetry=TelemetryConfig()))
        trace.get_tracer_provider().force_flush()
        metrics.get_meter_provider().force_flush()
        server.shutdown()
        said["paths"] = sorted(paths)
        """
    )
    assert said["paths"] == ["/v1/metrics", "/v1/traces"]


@pytest.mark.newest
def test_spans_can_go_to_the_cloud(tmp_path: Path) -> None:
    """`trace_to_cloud` hands spans to Google's collector with the credentials at hand, or says what to do."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": "shop",
        "private_key": pem.decode(),
        "client_email": "shop@example.com",
        "token_uri": "http://127.0.0.1:9/token",
    }
    (tmp_path / "key.json").write_text(json.dumps(account))
    text = """
        from google.adk.agents import BaseAgent
        try:
            Agent("a").to_app(ExecutionConfig(telemetry=TelemetryConfig(trace_to_cloud=True)))
        except ADKFluentError as error:
            said["error"] = str(error)
        else:
            provider = trace.get_tracer_provider()
            said["to"] = [
                vars(processor).get("_batch_processor", processor)._exporter._endpoint
                for processor in provider._active_span_processor._span_processors
            ]
    """
    assert program(text, GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "key.json"))["to"] == [
        "https://telemetry.googleapis.com/v1/traces"
    ]
    nothing = {"HOME": str(tmp_path), "NO_GCE_CHECK": "true", "CLOUDSDK_CONFIG": str(tmp_path)}
    told = program(text, GOOGLE_APPLICATION_CREDENTIALS="", **nothing)["error"]
    assert told.startswith("TelemetryConfig(trace_to_cloud=True): there are no Google credentials; run ")
    assert "\n" not in told


def test_what_is_said_is_captured_only_where_it_is_asked_for() -> None:
    """Words are on no span unless `capture_content`, and variables of the application win."""
    text = """
        wanted = os.environ.pop("WANTED") == "yes"
        telemetry = TelemetryConfig(capture_content=wanted, custom_exporters=[spans])
        config = ExecutionConfig(telemetry=telemetry)
        run(Agent("a"), {"a": "Grey-whale."}, prompt="Which-animal?", config=config)
        told = " ".join(span.to_json() for span in spans.get_finished_spans())
        said["told"] = ["Which-animal?" in told, "Grey-whale." in told]
    """
    assert program(text, WANTED="no")["told"] == [False, False]
    assert program(text, WANTED="yes")["told"] == [True, True]
    modes = {
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "NO_CONTENT",
        "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "false",
    }
    assert program(text, WANTED="yes", **modes)["told"] == [False, False]


@pytest.mark.newest
def test_of_two_configurations_the_one_that_captures_nothing_is_kept_to() -> None:
    """A pipeline that wants nothing captured gets that, whatever another one asked for before."""
    said = program("""
        for name, wanted in (("first", True), ("second", False)):
            telemetry = TelemetryConfig(capture_content=wanted, custom_exporters=[spans])
            run(Agent(name), {name: f"{name} words"}, config=ExecutionConfig(telemetry=telemetry))
        told = " ".join(span.to_json() for span in spans.get_finished_spans())
        said["told"] = ["first words" in told, "second words" in told]
    """)
    assert said["told"] == [True, False]


@pytest.mark.newest
def test_prices_that_are_not_installed_cost_no_run() -> None:
    """Without the package of prices, a run goes on without costs, and one log line says what to install."""
    said = program("""
        import logging, sys
        logging.basicConfig()
        sys.modules["genai_prices"] = sys.modules["genai_prices.data_snapshot"] = None
        from tests.telemetry.test_spans import model
        config = ExecutionConfig(telemetry=TelemetryConfig(custom_exporters=[spans]))
        for _ in range(2):
            asyncio.run(Agent("a", model(answer("x"))).run("hi", config=config))
        said["costs"] = ["adk_fluent.cost_usd" in (s.attributes or {}) for s in spans.get_finished_spans()]
    """)
    assert not any(said["costs"])
    assert said["stderr"].count("no costs are measured: ") == 1
    assert install("cost") in said["stderr"]
