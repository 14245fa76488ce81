"""`ExecutionConfig`: every field, through our own runs and through native ADK objects."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.apps.app import App
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent import Agent, FanOut, Pipeline, S, gate
from adk_fluent.backends.adk.steps.scripted import Script, ScriptedLlm
from adk_fluent.config import CompactionConfig, ContextCacheConfig, ExecutionConfig
from adk_fluent.errors import AgentTimeoutError, ArgumentError, RunError
from tests.backends.support import Hang, play, script, speakers
from tests.clock import without_pauses

A, B = Agent("a"), Agent("b")
PLACE: dict[str, Any] = {"user_id": "u", "session_id": "s"}


def own(name: str, *responses: Any) -> Agent[str]:
    """An agent with a scripted model of its own, for native runs."""
    return Agent(name, ScriptedLlm.of(Script(name, list(responses), "repeat", []), merge_state=False))


def message(text: str = "hi") -> types.Content:
    """A user message."""
    return types.Content(role="user", parts=[types.Part(text=text)])


async def native(runner: Runner, **options: Any) -> list[Any]:
    """The events of a native runner, in a session that need not exist."""
    return [event async for event in runner.run_async(**PLACE, new_message=message(), **options)]


async def plain_runner(app: App) -> Runner:
    """ADK's own runner for an app, with a session."""
    service = InMemorySessionService()
    await service.create_session(app_name=app.name, **PLACE)
    return Runner(app=app, session_service=service)


# --- max_llm_calls --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression", [A * 3, (A >> A) >> A, FanOut(A, A, A), Pipeline("p", A, A * 2)], ids=repr
)
async def test_the_limit_of_model_calls(expression: Any) -> None:
    """As many calls as allowed happen in one run, over all its agents and branches; the next one raises."""
    backend = script()
    with pytest.raises(RunError, match="max_llm_calls"):
        await expression.run("hi", backend=backend, config=ExecutionConfig(max_llm_calls=2))
    assert len(backend.calls["a"]) == 2
    assert len(await play(expression, config=ExecutionConfig(max_llm_calls=3))) == 3


async def test_the_limit_is_for_each_run() -> None:
    """The next run of the same session may call as often again."""
    config = ExecutionConfig(max_llm_calls=1)
    for _ in range(2):
        assert speakers(await play(A, config=config, session_id="limit")) == ["a"]


async def test_the_limit_in_a_native_runner() -> None:
    """The runner of `to_runner` knows the limit, and a `RunConfig` of the caller goes before it."""
    runner = (own("a", "ok") * 3).to_runner(ExecutionConfig(max_llm_calls=2))
    with pytest.raises(RunError, match="max_llm_calls"):
        await native(runner)


# --- timeout_seconds ------------------------------------------------------------------------------


@pytest.mark.parametrize("expression", [A, A >> B, A | B, Pipeline("p", B, A.timeout(60))], ids=repr)
@without_pauses
async def test_the_time_limit(expression: Any) -> None:
    """A run that takes longer raises our error, whatever its root is, and its model call is cancelled."""
    hang = Hang()
    with pytest.raises(AgentTimeoutError, match=r"did not finish within 0\.01 seconds"):
        await play(expression, {"a": hang}, config=ExecutionConfig(timeout_seconds=0.01))
    assert hang.ended == ["CancelledError"]


@without_pauses
async def test_the_time_limit_of_a_stream() -> None:
    """A stream is limited as well."""
    hang = Hang("piece")
    with pytest.raises(AgentTimeoutError):
        async for _ in A.stream(
            "hi", backend=script({"a": hang}), config=ExecutionConfig(timeout_seconds=0.01)
        ):
            pass
    assert len(hang.ended) == 1


async def test_the_time_limit_leaves_the_answer_alone() -> None:
    """A run in time gives what it gives without a limit: events, text, parsed output."""
    limited = await play(A >> B, config=ExecutionConfig(timeout_seconds=60))
    assert [(e.author, e.content) for e in limited] == [("a", "ok"), ("b", "ok")]


@without_pauses
async def test_the_time_limit_in_native_apps() -> None:
    """`to_app` and `to_runner` carry the limit with them."""
    config = ExecutionConfig(timeout_seconds=0.01)
    with pytest.raises(AgentTimeoutError):
        await native(await plain_runner(own("a", Hang()).to_app(config)))
    with pytest.raises(AgentTimeoutError):
        await native(own("a", Hang()).to_runner(config))


# --- streaming_mode -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "run", "stream"), [(None, 1, 3), ("none", 1, 1), ("sse", 3, 3)], ids=["unset", "none", "sse"]
)
async def test_streaming(mode: Any, run: int, stream: int) -> None:
    """Unset, `stream` streams and `run` does not; otherwise both do what the configuration says."""
    config = ExecutionConfig(streaming_mode=mode)
    assert len(await play(A, {"a": "two words"}, config=config)) == run
    events = [e async for e in A.stream("hi", backend=script({"a": "two words"}), config=config)]
    assert len(events) == stream
    assert [e.content for e in events if not e.is_partial] == ["two words"]


async def test_streaming_in_a_native_runner() -> None:
    """The runner of `to_runner` streams when the configuration says so."""
    assert len(await native(own("a", "two words").to_runner(ExecutionConfig(streaming_mode="sse")))) == 3
    assert len(await native(own("a", "two words").to_runner())) == 1


# --- resumable ------------------------------------------------------------------------------------


def resumable(app: App) -> bool:
    """Whether ADK may pause and resume runs of an app."""
    return app.resumability_config is not None and app.resumability_config.is_resumable


def asking() -> str:
    """Ask."""
    return "asked"


@pytest.mark.parametrize(
    ("expression", "unset"),
    [
        (A >> B, False),
        (A >> gate(lambda s: True), True),
        (Pipeline("p", FanOut(A, B // Pipeline("q", gate(lambda s: False)))), True),
        (A.tool(asking), False),
        (A.tool(asking, require_confirmation=True), True),
        (A.tool(asking, require_confirmation=lambda: False), True),
        (Agent("boss").delegate(A.tool(asking, require_confirmation=True)), True),
    ],
)
def test_resumable_when_it_may_pause(expression: Any, unset: bool) -> None:
    """Unset, an app is resumable when its expression can pause; otherwise as the configuration says."""
    assert resumable(expression.to_app()) is unset
    assert resumable(expression.to_app(ExecutionConfig(resumable=True))) is True
    assert resumable(expression.to_app(ExecutionConfig(resumable=False))) is False


async def test_a_resumable_run_gives_the_same() -> None:
    """Checkpoints add events without content, and change neither answers nor state."""
    expression = S.set(x=1) >> (A | B) >> Pipeline("p", A, S.counter("n")) * 2
    plain, checked = [await play(expression, config=ExecutionConfig(resumable=r)) for r in (False, True)]
    assert checked.state == plain.state
    assert sorted(speakers(checked)) == sorted(speakers(plain))
    assert any(event.agent_state is not None for event in checked)
    assert any(event.end_of_agent for event in checked)


async def test_a_gate_in_a_native_runner() -> None:
    """A paused run goes on with ADK's own message: a response to its confirmation request."""
    runner = (own("a", "draft") >> gate(lambda s: True) >> own("b", "sent")).to_runner()
    events = await native(runner)
    (call,) = [call for event in events for call in event.get_function_calls()]
    assert call.name == "adk_request_confirmation"
    response = types.FunctionResponse(id=call.id, name=call.name, response={"confirmed": True})
    reply = types.Content(role="user", parts=[types.Part(function_response=response)])
    later = [
        event
        async for event in runner.run_async(**PLACE, new_message=reply, invocation_id=events[0].invocation_id)
    ]
    texts = [p.text for e in later for p in (e.content.parts if e.content else None) or [] if p.text]
    assert texts == ["sent"]


# --- compaction -----------------------------------------------------------------------------------


def summaries(events: list[Any]) -> list[Any]:
    """The summaries that ADK stored."""
    return [event.actions.compaction for event in events if event.actions.compaction]


@pytest.mark.parametrize("expression", [A, Pipeline("p", S.counter("n"), A)], ids=repr)
async def test_compaction(expression: Any) -> None:
    """After as many runs as the interval says, ADK stores a summary, made by a model of the expression."""
    service, backend = InMemorySessionService(), script({"a": "words"})
    config = ExecutionConfig(compaction=CompactionConfig(interval=2, overlap=0))
    for _ in range(2):
        await expression.run("hi", backend=backend, config=config, session_service=service, session_id="s")
    session = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    assert session is not None
    (summary,) = summaries(session.events)
    assert summary.compacted_content.parts[0].text == "words"
    assert len(backend.calls["a"]) == 3


async def test_no_compaction_by_default() -> None:
    """Without a configuration nothing is summarised."""
    service, backend = InMemorySessionService(), script()
    for _ in range(3):
        await A.run("hi", backend=backend, session_service=service, session_id="s")
    session = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    assert session is not None
    assert summaries(session.events) == []


async def test_compaction_in_a_native_app() -> None:
    """The app of `to_app` summarises on ADK's own runner."""
    config = ExecutionConfig(compaction=CompactionConfig(interval=2, overlap=0))
    runner = await plain_runner(Pipeline("p", own("a", "words")).to_app(config))
    for _ in range(2):
        await native(runner)
    session = await runner.session_service.get_session(app_name=runner.app_name, **PLACE)
    assert session is not None
    assert len(summaries(session.events)) == 1


# --- custom_metadata, app_name --------------------------------------------------------------------


async def test_metadata_is_on_every_event() -> None:
    """Custom metadata is on each event, through `run`, `stream` and a native runner."""
    config = ExecutionConfig(custom_metadata={"tenant": "x", "n": 1})
    wanted = {"tenant": "x", "n": 1}
    result = await play(S.set(x=1) >> A >> B, config=config)
    assert [{k: e.metadata.get(k) for k in wanted} for e in result] == [wanted] * 3
    async for event in A.stream("hi", backend=script(), config=config):
        assert {k: event.metadata.get(k) for k in wanted} == wanted
    for native_event in await native((own("a", "ok") >> S.set(x=1)).to_runner(config)):
        metadata: dict[str, Any] = native_event.custom_metadata
        assert {k: metadata.get(k) for k in wanted} == wanted


async def test_metadata_stays_after_a_pause() -> None:
    """The events of a resumed run carry it too."""
    config = ExecutionConfig(custom_metadata={"tenant": "x"})
    expression = A >> gate(lambda s: True) >> B
    first = await play(expression, config=config)
    result = await expression.resume(
        session_id=first.session_id, approvals={first.pending[0].id: True}, config=config, backend=script()
    )
    assert {event.metadata.get("tenant") for event in [*first, *result]} == {"x"}


def test_the_app_has_the_name() -> None:
    """The native app and runner are called what the configuration says."""
    config = ExecutionConfig(app_name="shop")
    assert A.to_app(config).name == "shop"
    assert A.to_runner(config).app_name == "shop"


# --- wrong values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {"app_name": "not a name"},
        {"app_name": "user"},
        {"app_name": ""},
        {"app_name": 3},
        {"max_llm_calls": 0},
        {"max_llm_calls": -1},
        {"max_llm_calls": 1.5},
        {"max_llm_calls": True},
        {"max_llm_calls": "3"},
        {"timeout_seconds": 0},
        {"timeout_seconds": -1},
        {"timeout_seconds": "3"},
        {"timeout_seconds": float("nan")},
        {"timeout_seconds": float("inf")},
        {"streaming_mode": "websocket"},
        {"resumable": "yes"},
        {"compaction": {"interval": 3}},
        {"custom_metadata": [1]},
        {"custom_metadata": {"key": object()}},
    ],
    ids=lambda options: "-".join(options),
)
def test_wrong_values_are_refused(values: Any) -> None:
    """A value that could not work is an error that names the field, when the configuration is made."""
    (name,) = values
    with pytest.raises(ArgumentError, match=rf"ExecutionConfig\({name}="):
        ExecutionConfig(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"interval": 0},
        {"overlap": -1},
        {"interval": "3"},
        {"token_threshold": 3},
        {"event_retention_size": 3},
        {"token_threshold": 0, "event_retention_size": 3},
        {"token_threshold": 3, "event_retention_size": -1},
    ],
    ids=lambda options: "-".join(options),
)
def test_wrong_compaction_is_refused(values: Any) -> None:
    """So is one for compaction."""
    with pytest.raises(ArgumentError, match="CompactionConfig"):
        CompactionConfig(**values)


@pytest.mark.parametrize("config", [{"max_llm_calls": 3}, "sse", 3])
async def test_a_configuration_is_an_execution_config(config: Any) -> None:
    """`config=` takes an `ExecutionConfig`."""
    with pytest.raises(ArgumentError, match="ExecutionConfig"):
        await play(A, config=config)
    with pytest.raises(ArgumentError, match="ExecutionConfig"):
        A.to_app(config)


def test_configurations_are_values() -> None:
    """Equal configurations are equal and hash alike; others differ."""
    one, two = (ExecutionConfig(custom_metadata={"k": [1]}, streaming_mode="sse") for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != ExecutionConfig(custom_metadata={"k": [1]}, streaming_mode="none")


def test_a_run_in_both_directions_is_a_live_conversation() -> None:
    """ADK's third streaming mode is refused with the method to take."""
    mode: Any = "bidi"
    with pytest.raises(
        ArgumentError, match=r"streaming_mode='bidi'.*begin a live conversation with \.live\(\)"
    ):
        ExecutionConfig(streaming_mode=mode)


def test_a_context_cache_of_adk_is_taken() -> None:
    """ADK's own `ContextCacheConfig` stands wherever ours does, with the same settings."""
    from google.adk.agents.context_cache_config import ContextCacheConfig as AdkContextCacheConfig

    given = AdkContextCacheConfig(cache_intervals=3, ttl_seconds=60, min_tokens=5)
    ours = ContextCacheConfig(cache_intervals=3, ttl_seconds=60, min_tokens=5)
    config = ExecutionConfig(context_cache=given)
    assert config == ExecutionConfig(context_cache=ours)
    assert Agent("a").to_app(config).context_cache_config == given


@pytest.mark.newest
def test_http_options_of_a_context_cache_are_refused() -> None:
    """What ours cannot hold is refused, not lost."""
    from google.adk.agents.context_cache_config import ContextCacheConfig as AdkContextCacheConfig

    given = AdkContextCacheConfig(create_http_options={"timeout": 1})  # pyright: ignore[reportArgumentType]  # pydantic converts it
    with pytest.raises(ArgumentError, match="create_http_options"):
        ExecutionConfig(context_cache=given)
