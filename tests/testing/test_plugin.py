"""The pytest plugin: fixtures, differences in words, and no real model by accident."""

from __future__ import annotations

from importlib import import_module

import pytest

from adk_fluent import Agent
from adk_fluent.testing import AgentHarness, mock_backend

# What the inner runs use is imported before: they forget what they import themselves, and others would not.
MODULES = (
    "adk_fluent.debug.rendering",
    "adk_fluent.eval.adk_services",
    "adk_fluent.eval.running",
)
USED = (Agent, AgentHarness, mock_backend, *map(import_module, MODULES))

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.newest

FIXTURES = """
import asyncio
from adk_fluent import Agent

def test_mock(fluent_mock):
    backend = fluent_mock({"a": "Hello."})
    assert asyncio.run(Agent("a").ask_async("hi", backend=backend)) == "Hello."

def test_harness(fluent_harness):
    response = asyncio.run(fluent_harness(Agent("a").writes("x"), {"a": "Hello."}).send("hi"))
    assert (response.final_text, response.state) == ("Hello.", {"x": "Hello."})
"""

DIFFERENT = """
import asyncio
from adk_fluent import Agent

def run(fluent_mock, text, prompt):
    backend = fluent_mock({"a": text})
    return asyncio.run(Agent("a").run(prompt, backend=backend)), backend.calls["a"][0]

def test_events(fluent_mock):
    assert run(fluent_mock, "Helo.", "hi")[0] == run(fluent_mock, "Hello.", "hi")[0]

def test_requests(fluent_mock):
    assert run(fluent_mock, "x", "hi")[1] == run(fluent_mock, "x", "ho")[1]
"""

REAL = """
import asyncio, pytest
from google.adk.models import Gemini
from adk_fluent import Agent

class Fake(Gemini):
    async def generate_content_async(self, llm_request, stream=False):
        from google.adk.models.llm_response import LlmResponse
        from google.genai import types
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="real")]))

Fake.__module__ = "google.adk.models.fake"

def ask():
    return asyncio.run(Agent("a", Fake(model="gemini-x")).ask_async("hi"))

def test_plain():
    assert ask() == "real"

@pytest.mark.real_model
def test_marked():
    assert ask() == "real"

def test_fallback():
    either = Agent("a", Fake(model="gemini-x")) // Agent("b", Fake(model="y"))
    assert asyncio.run(either.ask_async("hi")) == "real"
"""

NATIVE = """
import asyncio
import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.models import Gemini, LlmResponse
from google.adk.models.base_llm import BaseLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from adk_fluent import Agent
from adk_fluent.adopt import adopt
from adk_fluent.cost import ModelCandidate
from adk_fluent.errors import RealModelError
from adk_fluent.middleware import fallback_model
from adk_fluent.testing import mock_backend

def says(*parts):
    return LlmResponse(content=types.Content(role="model", parts=list(parts)))

class Fake(Gemini):
    async def generate_content_async(self, llm_request, stream=False):
        yield says(types.Part(text="real"))

Fake.__module__ = "google.adk.models.fake"

class Down(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        raise ConnectionError("down")
        yield

class Asks(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        call = types.FunctionCall(name="native", args={"request": "go"})
        asked = any(part.function_response for part in llm_request.contents[-1].parts)
        yield says(types.Part(text="done") if asked else types.Part(function_call=call))

class Holder(BaseAgent):
    inner: LlmAgent

    async def _run_async_impl(self, ctx):
        async for event in self.inner.run_async(ctx):
            yield event

def native(**fields):
    return LlmAgent(name="native", model=Fake(model="gemini-x"), **fields)

EXPRESSIONS = {
    "step": lambda: native() >> Agent("b", Down(model="d")),
    "adopted": lambda: adopt(native()),
    "held": lambda: adopt(Holder(name="holder", inner=native())),
    "in a tool": lambda: Agent("a", Asks(model="x")).tool(AgentTool(native())),
    "another": lambda: Agent("native", Down(model="d")).middleware(fallback_model(Fake(model="gemini-x"))),
    "chosen": lambda: Agent("native").model_select("cost_optimized", candidates=[ModelCandidate("gemini-x")]),
}

@pytest.fixture(autouse=True)
def named(monkeypatch):
    from google.adk.models import LLMRegistry
    monkeypatch.setattr(LLMRegistry, "new_llm", lambda name: Fake(model=name))

@pytest.mark.parametrize("where", EXPRESSIONS)
def test_forbidden(where):
    with pytest.raises(RealModelError, match="Agent 'native' would ask the real model 'gemini-x'"):
        asyncio.run(EXPRESSIONS[where]().run("hi"))
    with pytest.raises(Exception, match="Agent 'native' would ask the real model 'gemini-x'"):
        asyncio.run(InMemoryRunner(app=EXPRESSIONS[where]().to_app()).run_debug("hi", quiet=True))

@pytest.mark.real_model
@pytest.mark.parametrize("where", ["held", "another", "chosen"])
def test_allowed(where):
    assert EXPRESSIONS[where]().ask("hi") == "real"

def test_answered_by_its_own_callback():
    held = native(before_model_callback=lambda callback_context, llm_request: says(types.Part(text="mine")))
    assert adopt(Holder(name="holder", inner=held)).ask("hi") == "mine"

def test_scripted():
    backend = mock_backend({"native": "script"})
    assert adopt(Holder(name="holder", inner=native())).ask("hi", backend=backend) == "script"
"""

EVALUATION = """
import asyncio
import pytest
from adk_fluent import Agent
from adk_fluent.eval import FluentCase, FluentEvalSuite
from adk_fluent.testing import mock_backend

def test_judge():
    case = FluentCase("x", reference_response="y")
    suite = FluentEvalSuite(Agent("a"), [case], metrics=["final_response_match_v2"])
    report = asyncio.run(suite.run(backend=mock_backend({"a": "ok"}), engine="light"))
    assert report.passed, report.summary
"""


def run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    """The outcome of some tests under the plugin, in this process."""
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess(
        "-p", "adk_fluent.testing.plugin", "-p", "no:asyncio", "-p", "no:cacheprovider", "-q", *options
    )


def test_fixtures(pytester: pytest.Pytester) -> None:
    """`fluent_mock` gives a scripted backend, `fluent_harness` a conversation with a scripted expression."""
    assert run(pytester, FIXTURES).parseoutcomes() == {"passed": 2}


def test_differences_are_shown_in_words(pytester: pytest.Pytester) -> None:
    """Where events or requests are not equal, the failure says which agent, or channel, and how."""
    outcome = run(pytester, DIFFERENT)
    outcome.assert_outcomes(failed=2)
    text = outcome.stdout.str()
    for line in ("the events differ", "~ a: content changed (91% alike)", "- Helo.", "+ Hello."):
        assert line in text
    for line in ("the requests differ", "history:", "- user: hi", "+ user: ho"):
        assert line in text


def test_real_models_are_forbidden(pytester: pytest.Pytester) -> None:
    """A real model raises an error that names the agent and what to do, which no fallback catches."""
    outcome = run(pytester, REAL)
    outcome.assert_outcomes(passed=1, failed=2)
    assert "Agent 'a' would ask the real model 'gemini-x'" in outcome.stdout.str()
    assert "@pytest.mark.real_model" in outcome.stdout.str()


def test_real_models_can_be_allowed(pytester: pytest.Pytester) -> None:
    """`--allow-real-models` lets all tests ask them."""
    assert run(pytester, REAL, "--allow-real-models").parseoutcomes() == {"passed": 3}


def test_judges_that_are_real_models_are_forbidden(pytester: pytest.Pytester) -> None:
    """An evaluation in a test asks none either: what it could not judge has not passed, and says why."""
    outcome = run(pytester, EVALUATION)
    outcome.assert_outcomes(failed=1)
    assert "RealModelError: Its judge would ask the real model 'gemini-2.5-flash'" in outcome.stdout.str()


def test_real_models_of_native_agents_are_forbidden(pytester: pytest.Pytester) -> None:
    """Wherever an agent of ADK's own stands, and where a middleware or a choice of models asks another."""
    assert run(pytester, NATIVE, "-W", "ignore::DeprecationWarning").parseoutcomes() == {"passed": 11}
