"""Options that pass through to ADK: planners, code executors, context caching."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.unsafe_local_code_executor import UnsafeLocalCodeExecutor
from google.adk.planners import BuiltInPlanner, PlanReActPlanner
from google.genai import types

from adk_fluent import Agent, C, S
from adk_fluent.config import ContextCacheConfig, ExecutionConfig
from adk_fluent.context.spec import Context
from adk_fluent.errors import ArgumentError
from adk_fluent.testing import mock_backend
from tests.backends.support import system
from tests.cli.gemini import Gemini, serve_models


async def test_a_built_in_planner() -> None:
    """The model is asked to think as the planner says."""
    planner = BuiltInPlanner(thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=64))
    backend = mock_backend({"a": "done"})
    await Agent("a").planner(planner).run("hi", backend=backend)
    thinking: Any = backend.calls["a"][0].config.thinking_config
    assert (thinking.include_thoughts, thinking.thinking_budget) == (True, 64)


async def test_a_planner_that_reasons_and_acts() -> None:
    """The instruction asks the model to plan; the plan is a thought, and the final text is the answer."""
    backend = mock_backend({"a": "/*PLANNING*/ think first /*FINAL_ANSWER*/ four"})
    run = await Agent("a").instruct("Add.").planner(PlanReActPlanner()).run("2+2?", backend=backend)
    assert "/*PLANNING*/" in system(backend.calls["a"][0])
    assert run.text.strip() == "four"


async def test_a_code_executor() -> None:
    """Code that the model writes is run, and its output is given back to the model."""
    executor: BaseCodeExecutor = UnsafeLocalCodeExecutor()
    backend = mock_backend({"a": ["```python\nprint(6 * 7)\n```", "It is 42."]})
    run = await Agent("a").code_executor(executor).run("6*7?", backend=backend)
    assert run.text == "It is 42."
    assert "42" in str(backend.calls["a"][1].contents)


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gemini]:
    """A server in Gemini's place, to which every request looks long."""
    with serve_models(Gemini({"a": "ok"}, prompt_tokens=5000, cached="a"), monkeypatch) as served:
        yield served


@pytest.mark.newest
@pytest.mark.parametrize("spec", [C.default(), C.none(), C.window(3).as_contents()], ids=repr)
async def test_a_context_that_the_provider_keeps(spec: Context, gemini: Gemini) -> None:
    """From the second turn on Gemini is not sent the instruction again, but told where it is kept."""
    config = ExecutionConfig(context_cache=ContextCacheConfig(min_tokens=0, ttl_seconds=600))
    pipeline = S.set(n=1) >> Agent("a", "gemini-2.5-flash").instruct("Be brief.").context(spec)
    async with pipeline.session(config=config) as chat:
        for _ in range(3):
            assert (await chat.send("hi")).text == "ok"
    kept = [body for path, body in gemini.requests if path.endswith("/cachedContents")]
    asked = [body for path, body in gemini.requests if ":generateContent" in path]
    assert [one["ttl"] for one in kept] == ["600s"]
    assert "Be brief." in str(kept[0]["systemInstruction"])
    assert [body.get("cachedContent") for body in asked] == [
        None,
        "cachedContents/kept",
        "cachedContents/kept",
    ]
    assert ["systemInstruction" in body for body in asked] == [True, False, False]


def test_context_caching() -> None:
    """The configuration becomes that of ADK's app, is part of its value, and is checked."""
    config = ExecutionConfig(context_cache=ContextCacheConfig(ttl_seconds=60, min_tokens=2048))
    app = Agent("a").to_app(config)
    assert app.context_cache_config is not None
    assert (app.context_cache_config.ttl_seconds, app.context_cache_config.min_tokens) == (60, 2048)
    assert app.context_cache_config.cache_intervals == 10
    assert Agent("a").to_app().context_cache_config is None
    assert config != ExecutionConfig()
    with pytest.raises(
        ArgumentError, match=r"ContextCacheConfig\(cache_intervals=101\): .* at least 1 and at most 100"
    ):
        ContextCacheConfig(cache_intervals=101)
    with pytest.raises(
        ArgumentError, match=r"ContextCacheConfig\(ttl_seconds=0\): it is a whole number, at least 1"
    ):
        ContextCacheConfig(ttl_seconds=0)
    with pytest.raises(
        ArgumentError, match=r"ExecutionConfig\(context_cache=5\): it is a ContextCacheConfig"
    ):
        ExecutionConfig(context_cache=5)  # pyright: ignore[reportArgumentType]  # the mistake
