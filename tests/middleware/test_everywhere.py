"""Middleware acts on every way to run, in every composite, inside tools, and after a pause."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner, Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, C, P, Route, S, gate, map_over, race
from adk_fluent.config import CompactionConfig, ExecutionConfig
from adk_fluent.errors import RunError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import (
    CallModel,
    CallTool,
    Context,
    Middleware,
    fallback_model,
    pii_filter,
    retry,
    token_budget,
)
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.backends.support import SERVICES, close, seen, session_service
from tests.context.talk import system

HI = types.Content(role="user", parts=[types.Part(text="hi")])


class Counts(Middleware):
    """Counts what it is called for: runs, and the calls of each agent's model and of each tool."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.ended: list[str] = []
        self.before: list[str] = []
        self.around: list[str] = []
        self.after: list[str] = []
        self.tools: list[str] = []
        self.operations: list[tuple[str, str | None]] = []

    async def before_run(self, ctx: Context) -> None:
        self.runs.append(ctx.agent_name)

    async def after_run(self, ctx: Context) -> None:
        self.ended.append(ctx.agent_name)

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        self.before.append(ctx.agent_name)
        self.operations.append((ctx.agent_name, ctx.operation))

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        self.around.append(ctx.agent_name)
        async for response in call(request):
            yield response

    async def after_model(self, ctx: Context, response: LlmResponse) -> None:
        if not response.partial:
            self.after.append(ctx.agent_name)

    async def around_tool(self, ctx: Context, tool_name: str, args: dict[str, Any], call: CallTool) -> Any:
        self.tools.append(tool_name)
        return await call(args)

    def seen(self) -> list[str]:
        """Whose models were asked, as all three hooks say alike."""
        assert self.before == self.around == self.after
        return sorted(self.before)


a, b, c = Agent("a"), Agent("b"), Agent("c")


async def streamed(expression: Expr[Any], backend: MockBackend) -> None:
    """Run it as a stream."""
    async with aclosing(expression.stream("hi", backend=backend)) as events:
        async for _ in events:
            pass


async def chatted(expression: Expr[Any], backend: MockBackend) -> None:
    """Run it as a turn of a conversation."""
    async with expression.session(backend=backend) as chat:
        await chat.send("hi")


ENTRIES: dict[str, Callable[[Expr[Any], MockBackend], Any]] = {
    "run": lambda expression, backend: expression.run("hi", backend=backend),
    "ask": lambda expression, backend: expression.ask_async("hi", backend=backend),
    "map": lambda expression, backend: expression.map(["hi"], backend=backend),
    "stream": streamed,
    "session": chatted,
}


@pytest.mark.parametrize("entry", ENTRIES)
async def test_every_terminal_runs_it(entry: str) -> None:
    """Whatever the terminal, it acts on each model call once, and on the run once."""
    counts = Counts()
    await ENTRIES[entry]((a >> b).middleware(counts), mock_backend(default="x"))
    assert counts.seen() == ["a", "b"]
    assert len(counts.runs) == len(counts.ended) == 1


@pytest.mark.parametrize("entry", ENTRIES)
async def test_the_option_of_every_terminal_attaches_it(entry: str) -> None:
    """`middleware=` acts for this run alone, on all of it."""
    counts, backend = Counts(), mock_backend(default="x")
    pipeline = a >> b
    calls: dict[str, Callable[[], Any]] = {
        "run": lambda: pipeline.run("hi", backend=backend, middleware=counts),
        "ask": lambda: pipeline.ask_async("hi", backend=backend, middleware=[counts]),
        "map": lambda: pipeline.map(["hi"], backend=backend, middleware=[counts]),
    }
    if entry in calls:
        await calls[entry]()
    elif entry == "stream":
        async with aclosing(pipeline.stream("hi", backend=backend, middleware=[counts])) as events:
            async for _ in events:
                pass
    else:
        async with pipeline.session(backend=backend, middleware=[counts]) as chat:
            await chat.send("hi")
            await chat.send("again")
        assert counts.seen() == ["a", "a", "b", "b"]
        return
    assert counts.seen() == ["a", "b"]
    await pipeline.run("hi", backend=backend)
    assert counts.seen() == ["a", "b"]


def test_the_waiting_terminal_runs_it() -> None:
    """`ask` outside a loop does, too."""
    counts = Counts()
    a.ask("hi", backend=mock_backend(default="x"), middleware=counts)
    assert counts.seen() == ["a"]


class Says(BaseLlm):
    """A model that always says one thing, after which it asks for what `tool` names once."""

    tool: str = ""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        answered = any(part.function_response for part in llm_request.contents[-1].parts or [])
        part = types.Part(text=f"{self.model} says")
        if self.tool and not answered:
            part = types.Part(function_call=types.FunctionCall(name=self.tool, args={"request": "go"}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def says(name: str, tool: str = "") -> Agent[str]:
    """An agent with such a model."""
    return Agent(name, Says(model=name, tool=tool))


async def natively(runner: Runner, *, create: bool = True) -> str:
    """What a native runner gives as the last text."""
    if create:
        await runner.session_service.create_session(app_name=runner.app_name, user_id="u", session_id="s")
    texts = [
        part.text
        async for event in runner.run_async(user_id="u", session_id="s", new_message=HI)
        for part in (event.content and event.content.parts) or []
        if part.text
    ]
    return texts[-1]


@pytest.mark.parametrize("kind", ["plain runner", "in memory runner", "to_runner", "option of to_app"])
async def test_native_runners_run_it(kind: str) -> None:
    """What `to_app` and `to_runner` give has the middleware with it."""
    counts = Counts()
    plain = says("a") >> says("b")
    pipeline = plain.middleware(counts)
    if kind == "to_runner":
        runner = pipeline.to_runner(session_service=InMemorySessionService())
    elif kind == "in memory runner":
        runner = InMemoryRunner(app=pipeline.to_app())
    else:
        app = plain.to_app(middleware=counts) if "option" in kind else pipeline.to_app()
        runner = Runner(app=app, session_service=InMemorySessionService())
    assert await natively(runner) == "b says"
    assert counts.seen() == ["a", "b"]
    assert len(counts.runs) == len(counts.ended) == 1


COMPOSITES: dict[str, tuple[Expr[Any], list[str]]] = {
    "sequence": (a >> b, ["a", "b"]),
    "parallel": (a | b | c, ["a", "b", "c"]),
    "loop": (a * 3, ["a", "a", "a"]),
    "fallback": (Agent("broken") // b, ["b"]),
    "route": (S.set(k="x") >> Route("k").eq("x", a).otherwise(b), ["a"]),
    "map_over": (S.set(k=["1", "2"]) >> map_over("k", a), ["a", "a"]),
    "delegate": (Agent("boss").delegate(b), ["b", "boss"]),
    "timeout": (a.timeout(30), ["a"]),
    "proceed_if": (a.proceed_if(lambda state: True), ["a"]),
}


@pytest.mark.parametrize("name", COMPOSITES)
async def test_it_acts_in_every_composite(name: str) -> None:
    """Attached around a composite, it acts on every call of every agent in it, once."""
    counts, (expression, seen) = Counts(), COMPOSITES[name]
    backend = mock_backend(
        {"broken": ValueError("no"), "boss": call_tool("transfer_to_agent", agent_name="b")}, default="x"
    )
    result = await expression.middleware(counts).run("hi", backend=backend)
    assert sorted(counts.after) == seen
    assert sorted(name for name in counts.before if name != "broken") == seen
    assert counts.before == counts.around
    assert result.text or name == "sequence"


async def test_it_acts_in_a_race() -> None:
    """Both runners of a race are asked through it."""
    counts = Counts()
    await race(a, b).middleware(counts).run("hi", backend=mock_backend(default="x"))
    assert set(counts.before) <= {"a", "b"}
    assert counts.before == counts.around


@pytest.mark.parametrize("inner", [a, a >> b, a | b, a * 2, a // b, S.set(k=["1"]) >> map_over("k", a)])
async def test_it_acts_on_its_part_alone(inner: Expr[Any]) -> None:
    """What stands beside the expression that has it is left alone, but for the run as a whole."""
    counts = Counts()
    whole = Agent("before") >> inner.middleware(counts) >> Agent("behind")
    await whole.run("hi", backend=mock_backend(default="x"))
    assert set(counts.seen()) <= {"a", "b"}
    assert "a" in counts.before
    assert len(counts.runs) == len(counts.ended) == 1


async def test_attached_twice_it_acts_once() -> None:
    """The same object, inside and around, is called once for each call, as the outer one."""
    counts = Counts()
    await (
        (a.middleware(counts) >> b)
        .middleware(counts, counts)
        .run("hi", backend=mock_backend(default="x"), middleware=counts)
    )
    assert counts.seen() == ["a", "b"]
    assert len(counts.runs) == 1


# --- agents inside tools --------------------------------------------------------------------------

INSIDE_A_TOOL = pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")
"""What ADK says of its own AgentTool."""


@INSIDE_A_TOOL
async def test_it_acts_on_agents_inside_tools() -> None:
    """An agent in an `AgentTool` is inside the agent that has the tool; the run is one run."""
    counts, other = Counts(), Counts()
    expert = AgentTool(says("expert").build())
    boss = says("boss", tool="expert").tool(expert).middleware(counts)
    assert await natively(InMemoryRunner(app=(boss >> says("b").middleware(other)).to_app())) == "b says"
    assert counts.seen() == ["boss", "boss", "expert"]
    assert counts.tools == ["expert"]
    assert len(counts.runs) == len(counts.ended) == 1
    assert other.seen() == ["b"]


@INSIDE_A_TOOL
async def test_an_agent_inside_a_tool_brings_its_own() -> None:
    """What the expression inside an `AgentTool` has acts on it alone, within that of the agent outside."""
    inner, outer = Counts(), Counts()
    expert = AgentTool((says("first") >> says("second")).named("expert").middleware(inner).build())
    boss = says("boss", tool="expert").tool(expert).middleware(outer)
    await natively(InMemoryRunner(app=boss.to_app()))
    assert inner.seen() == ["first", "second"]
    assert outer.seen() == ["boss", "boss", "first", "second"]
    assert len(inner.runs) == 1


@INSIDE_A_TOOL
async def test_it_acts_on_agents_inside_tools_with_scripted_models() -> None:
    """On a mock backend, too, where the models of such agents are scripted."""
    counts = Counts()
    expert = AgentTool(Agent("expert").build())
    boss = a.tool(expert).middleware(counts)
    backend = mock_backend({"a": [call_tool("expert", request="go"), "done"], "expert": "I know"})
    assert await boss.ask_async("hi", backend=backend) == "done"
    assert counts.seen() == ["a", "a", "expert"]


@INSIDE_A_TOOL
async def test_native_agents_inside_tools_are_seen() -> None:
    """An `LlmAgent` written by hand has all hooks, those around its model and its tools, too."""
    counts = Counts()

    def look(request: str) -> str:
        """Looks."""
        return request

    native = LlmAgent(name="expert", model=Says(model="expert", tool="look"), tools=[look])
    boss = says("boss", tool="expert").tool(AgentTool(native)).middleware(counts)
    await natively(InMemoryRunner(app=boss.to_app()))
    assert counts.seen() == ["boss", "boss", "expert", "expert"]
    assert counts.tools == ["expert", "look"]
    assert type(native.model) is Says  # it is as it was


@INSIDE_A_TOOL
async def test_native_agents_inside_tools_are_asked_again_and_others_in_their_place() -> None:
    """Built-ins that stand around a model do so in a native agent, and in one that it hands over to."""
    down = ConnectionError("down")
    deputy = LlmAgent(name="deputy", model="m")
    expert = LlmAgent(name="expert", model="m", sub_agents=[deputy])
    boss = a.tool(AgentTool(expert)).middleware(fallback_model("other"), retry(2, backoff_base=0))
    backend = mock_backend(
        {
            "a": [call_tool("expert", request="go"), "done"],
            "expert": [down, call_tool("transfer_to_agent", agent_name="deputy")],
            "deputy": down,
            "other": "I know",
        }
    )
    result = await boss.run("hi", backend=backend)
    assert result[1].tool_responses[0].result == {"result": "I know"}
    assert {name: len(asked) for name, asked in backend.calls.items()} == {
        "a": 2,
        "expert": 2,
        "deputy": 2,
        "other": 1,
    }


class Embedder:
    """An embedding model, which notes what it is sent."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return [[1.0, float(number)] for number in range(len(texts))]


async def test_embeddings_pass_the_stack() -> None:
    """An embedding model is asked through all hooks, and is shown what a filter leaves."""
    counts, embedder, budget = Counts(), Embedder(), token_budget(500)
    reader = b.context(C.relevant(scorer=cast(Any, embedder), top_k=1))
    pipeline = (a >> c >> reader).middleware(budget, pii_filter(reversible=True), counts)
    backend = mock_backend({"a": "I am ann@example.org", "b": "told", "c": "words"})
    assert await pipeline.ask_async("Ask bob@example.org", backend=backend) == "told"
    assert counts.operations == [("a", None), ("c", None), ("b", "relevant"), ("b", None)]
    assert counts.around == ["a", "c", "b", "b"]
    assert embedder.texts == ["Ask [EMAIL_1]", "I am [EMAIL_2]", "words"]


async def test_an_embedding_is_asked_again() -> None:
    """What stands around a model call does so for an embedding, too."""

    class Flaky(Embedder):
        def embed(self, texts: list[str]) -> list[list[float]]:
            found = super().embed(texts)
            if len(self.texts) == len(texts):
                raise ConnectionError("down")
            return found

    flaky = Flaky()
    reader = b.context(C.relevant(scorer=cast(Any, flaky), top_k=1)).middleware(retry(backoff_base=0))
    await (a >> c >> reader).run("hi", backend=mock_backend(default="words"))
    assert flaky.texts == ["hi", "words", "words"] * 2


@pytest.mark.parametrize("reversible", [True, False])
async def test_summaries_that_adk_writes_pass_no_hook(reversible: bool) -> None:
    """They are made of what is stored, so what a filter takes out of that is not in them."""
    counts, service = Counts(), InMemorySessionService()
    backend = mock_backend({"a": "ok"}, session_service=service)
    config = ExecutionConfig(compaction=CompactionConfig(interval=1, overlap=0))
    agent = a.middleware(counts, pii_filter(reversible=reversible))
    await agent.run("I am ann@example.org", backend=backend, config=config, session_id="s")
    asked, summary = (seen(request) for request in backend.calls["a"])
    assert counts.seen() == ["a"]
    assert "ann@example.org" not in asked
    assert ("ann@example.org" in summary) is reversible


async def test_what_is_called_live() -> None:
    """Hooks around the run, the agent, its events and tools are called; none around its model."""

    class Hears(Counts):
        def __init__(self) -> None:
            super().__init__()
            self.agents: list[str] = []
            self.events: list[str] = []

        async def before_agent(self, ctx: Context, agent_name: str) -> None:
            assert ctx.live
            self.agents.append(agent_name)

        async def on_event(self, ctx: Context, event: Any) -> None:
            self.events.append(event.content or "")

    hears = Hears()
    backend = mock_backend({"a": [call_tool("pay", amount=2), "well"]})
    async with a.tool(pay).middleware(hears).live(backend=backend, modality="text") as live:
        await live.send("hi")
        async for event in live:
            if event.turn_complete:
                break
    assert (hears.runs, hears.agents, hears.around, hears.after) == (["a"], ["a"], [], [])
    assert hears.tools == ["pay"]
    assert "well" in hears.events
    assert len(hears.before) <= 1  # from ADK 2.x on, when the connection opens


# --- after a pause --------------------------------------------------------------------------------


def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


@pytest.mark.parametrize("kind", SERVICES)
async def test_it_acts_after_a_resume(kind: str, tmp_path: Path) -> None:
    """A run that waited for a person goes on with it, its approved tool included, also after a restart."""
    service = session_service(kind, tmp_path)
    backend = mock_backend({"a": [call_tool("pay", amount=5), "done"], "b": "bye"}, session_service=service)
    counts = Counts()
    pipeline = (a.tool(pay, require_confirmation=True) >> b).middleware(counts)
    result = await pipeline.run("hi", backend=backend, session_id="s")
    (asked,) = result.pending
    assert counts.seen() == ["a"]
    counts.tools.clear()
    if kind != "memory":
        await close(service)
        service = session_service(kind, tmp_path)
        backend = mock_backend({"a": "done", "b": "bye"}, session_service=service)
    result = await pipeline.resume(session_id="s", approvals={asked.id: True}, backend=backend)
    assert result.text == "bye"
    assert counts.seen() == ["a", "a", "b"]
    assert counts.tools == ["pay"]
    assert len(counts.runs) == 2
    await close(service)


async def test_resume_takes_it_as_an_option() -> None:
    """`resume(middleware=)` acts on the rest of the run."""
    counts, backend = Counts(), mock_backend(default="x")
    pipeline = a >> gate(lambda state: True, message="Go on?") >> b
    result = await pipeline.run("hi", backend=backend)
    approvals = {result.pending[0].id: True}
    await pipeline.resume(
        session_id=result.session_id, approvals=approvals, backend=backend, middleware=[counts]
    )
    assert counts.seen() == ["b"]


# --- helper models --------------------------------------------------------------------------------


class Order(BaseModel):
    """What somebody orders."""

    item: str


HELPED: dict[str, tuple[Agent[Any], Any]] = {
    "summarize": (b.context(C.summarize()), "short"),
    "relevant": (b.context(C.relevant(query="tea", top_k=1)), "1"),
    "extract": (b.context(C.extract(Order, into="order")), '{"item": "tea"}'),
    "distill": (b.context(C.distill(into="facts")), "one"),
    "compress": (b.instruct(P.task("Say it.") | P.compress()), "Say"),
    "adapt": (b.instruct(P.task("Say it.") | P.adapt(audience="children")), "Say"),
}


@pytest.mark.parametrize("operation", HELPED)
async def test_what_context_and_prompts_ask_a_model_passes_it(operation: str) -> None:
    """A helper's call is seen by every model hook as its agent's, and `ctx.operation` says what it is for."""
    counts, (agent, answer) = Counts(), HELPED[operation]
    backend = mock_backend({f"b:{operation}": answer}, default="x")
    await (a >> c >> agent).middleware(counts).run("hi", backend=backend)
    assert counts.operations == [("a", None), ("c", None), ("b", operation), ("b", None)]
    assert counts.seen() == ["a", "b", "b", "c"]


class Helps(Middleware):
    """Answers, mends or refuses what helpers ask."""

    def __init__(self, hook: str) -> None:
        self.hook = hook

    async def before_model(self, ctx: Context, request: LlmRequest) -> str | None:
        if ctx.operation and self.hook == "before_model":
            ctx.state["asked"] = ctx.operation
            return "answered"
        if ctx.operation and self.hook == "refuse":
            raise RunError("No helpers today.")
        return None

    async def after_model(self, ctx: Context, response: LlmResponse) -> str | None:
        return "changed" if ctx.operation and self.hook == "after_model" else None

    async def on_model_error(self, ctx: Context, request: LlmRequest, error: Exception) -> str | None:
        return "mended" if ctx.operation and self.hook == "on_model_error" else None

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        other = "other" if ctx.operation and self.hook == "around_model" else None
        async for response in call(request, model=other):
            yield response


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("before_model", "answered"),
        ("after_model", "changed"),
        ("on_model_error", "mended"),
        ("around_model", "by another"),
    ],
)
async def test_a_helper_can_be_answered_for(hook: str, said: str) -> None:
    """What a hook makes of a helper's call is what the agent gets in its context."""
    script: Any = ValueError("no") if hook == "on_model_error" else "short"
    backend = mock_backend({"b:summarize": script, "other": "by another"}, default="x")
    pipeline = (a >> b.context(C.summarize())).middleware(Helps(hook))
    result = await pipeline.run("hi", backend=backend)
    assert said in system(backend.calls["b"][0])
    assert result.state.get("asked") == ("summarize" if hook == "before_model" else None)


class AnswersHelpers(BasePlugin):
    """A plugin that answers what helpers ask."""

    def __init__(self, answer: str) -> None:
        super().__init__(name="answers_helpers")
        self.answer = answer

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        if getattr(callback_context, "operation", None) is None:
            return None
        part = types.Part(text=self.answer)
        return LlmResponse(content=types.Content(role="model", parts=[part]))


@pytest.mark.parametrize("operation", HELPED)
async def test_a_plugins_answer_to_a_helper_call_is_used_instead_of_asking_the_model(operation: str) -> None:
    """What a plugin answers to a helper's call reaches the agent, and no helper model is asked."""
    agent, answer = HELPED[operation]
    asked, spared = mock_backend({f"b:{operation}": answer}, default="x"), mock_backend(default="x")
    first = await (a >> c >> agent).run("hi", backend=asked)
    second = await (a >> c >> agent).run("hi", backend=spared, middleware=AnswersHelpers(answer))
    assert f"b:{operation}" in asked.calls
    assert f"b:{operation}" not in spared.calls
    assert system(spared.calls["b"][0]) == system(asked.calls["b"][0])
    assert second.state == first.state


async def test_a_refusal_around_a_helper_stops_the_run() -> None:
    """A helper that fails leaves the context as it is; a middleware that refuses it stops the run."""
    pipeline = (a >> b.context(C.summarize())).middleware(Helps("refuse"))
    with pytest.raises(RunError, match="No helpers today"):
        await pipeline.run("hi", backend=mock_backend({"b:summarize": "s"}, default="x"))
