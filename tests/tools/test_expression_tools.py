"""`T.agent`: an expression that a model calls like a function, inside the run of its caller."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, C, FanOut, Loop, Pipeline, Route, S, T, map_over
from adk_fluent.backends.events import RunResult, Usage
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import CompileError, ModelError, RunError, ToolError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import called, replies, seen, session_service, system
from tests.clock import without_pauses
from tests.tools.every import RESEARCH, half

CALL = call_tool("research", request="dig!")


def answer(text: str, tokens: int) -> LlmResponse:
    """An answer that says how many tokens it took."""
    used = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens, candidates_token_count=1)
    return LlmResponse(
        content=types.Content(role="model", parts=[types.Part(text=text)]), usage_metadata=used
    )


def once(*calls: Any, then: Any = "done") -> Any:
    """A script: these calls, then an answer, in each run."""
    return replies(lambda request: then if called(request) else calls[0])


BOSS = Agent("boss").tools(T.agent(RESEARCH))
SCRIPT: dict[str, Any] = {"boss": once(CALL), "digger": "gold", "teller": "It is gold."}


def results(run: RunResult[Any]) -> list[Any]:
    """The results of a run's tools."""
    return [response.result for event in run for response in event.tool_responses]


async def play(expression: Expr[Any], script: dict[str, Any] | None = None, **options: Any) -> RunResult[Any]:
    """Run with a script beside the usual one."""
    backend = mock_backend({**SCRIPT, **(script or {})}, default="ok")
    return await expression.run("hi", backend=backend, **cast(Any, {"state": {"topic": "x"}, **options}))


async def test_the_last_visible_answer_is_the_result() -> None:
    """The last agent that speaks to the user inside gives the result of the call."""
    run = await play(BOSS)
    assert results(run) == [{"result": "It is gold."}]
    assert run.text == "done"


async def test_an_expression_in_a_tool_sees_request_and_state_alone() -> None:
    """An expression in a tool sees only the request; its instruction is filled from the caller's state."""
    backend = mock_backend(SCRIPT)
    await BOSS.run("My secret is 7", backend=backend, state={"topic": "ores"})
    (asked,) = backend.calls["digger"]
    assert seen(asked) == "dig!"
    assert "ores" in system(asked)
    (told,) = backend.calls["teller"]
    assert "gold" in system(told)
    assert "secret" not in seen(told)


async def test_texts_inside_a_tool_stay_inside() -> None:
    """Neither the caller nor any later agent, in this turn or the next, is shown it; results they are."""
    backend = mock_backend({**SCRIPT, "digger": "inner words"}, default="ok")
    async with (BOSS >> Agent("last")).session(backend=backend, state={"topic": "x"}) as chat:
        await chat.send("one")
        await chat.send("two")
    for name in ("boss", "last"):
        for request in backend.calls[name]:
            assert "inner words" not in seen(request)
    assert "It is gold." in seen(backend.calls["last"][0])


async def test_its_events_are_part_of_the_run() -> None:
    """Events of an expression in a tool come between call and result, as internal events of its agents."""
    run = await play(BOSS)
    assert [(event.author, event.content, event.visibility) for event in run] == [
        ("boss", None, "user"),
        ("digger", "gold", "internal"),
        ("teller", "It is gold.", "internal"),
        ("boss", None, "user"),
        ("boss", "done", "user"),
    ]
    assert [event.author for event in run.visible] == ["boss"] * 3
    assert len({event.branch for event in run.by("digger") + run.by("teller")}) == 1


async def test_its_tokens_are_counted_under_its_own_name() -> None:
    """Usage is per agent, and counted once."""
    run = await play(BOSS, {"digger": answer("gold", 30), "boss": once(CALL, then=answer("done", 5))})
    used = {agent: usage for (agent, _), usage in run.usage.items()}
    assert used["digger"] == Usage(1, 30, 1)
    assert used["boss"].calls == 2


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_writes_inside_a_tool_land_once(kind: str, tmp_path: Path) -> None:
    """A write inside a tool is present for later calls and agents, and after a restart, exactly once."""
    work = (S.counter("count") >> Agent("w").writes("user:w")).named("work")

    def look(tool_context: Any) -> str:
        """Look at the state."""
        return f"{tool_context.state['count']} {tool_context.state['user:w']}"

    expression = Agent("boss").instruct("{count?}").tools(T.agent(work) | T.fn(look)) >> Agent("b").instruct(
        "{count}"
    )
    script = {"boss": [call_tool("work", request="x"), call_tool("look"), "done"], "w": "hey"}
    service = session_service(kind, tmp_path)
    backend = mock_backend(script, default="ok", session_service=service)
    run = await expression.run("hi", backend=backend, session_id="s")
    assert results(run)[1] == {"result": "1 hey"}
    assert run.state == {"count": 1, "user:w": "hey"}
    assert "1" in system(backend.calls["b"][0])
    stored = await session_service(kind, tmp_path).get_session(
        app_name="adk_fluent_app", user_id="user", session_id="s"
    )
    if kind == "sqlite":
        assert stored is not None
        assert stored.state == {"count": 1, "user:w": "hey"}
        assert not any("gold" in str(event.content) for event in stored.events)


async def test_two_calls_at_once() -> None:
    """Two expressions called in one answer run side by side, each with its own conversation."""
    tools = [T.agent(Agent(name).writes(f"said_{name}")) for name in ("x", "y")]
    calls = types.Content(
        role="model",
        parts=[
            types.Part(function_call=types.FunctionCall(name=name, args={"request": f"for {name}"}))
            for name in ("x", "y")
        ],
    )
    backend = mock_backend({"boss": once(calls), "x": "of x", "y": "of y"})
    run = await Agent("boss").tools(*tools).run("hi", backend=backend)
    assert results(run) == [{"result": "of x"}, {"result": "of y"}]
    assert run.state == {"said_x": "of x", "said_y": "of y"}
    assert [seen(backend.calls[name][0]) for name in ("x", "y")] == ["for x", "for y"]


class Bill(BaseModel):
    total: float


async def test_shapes_of_what_goes_in_and_out() -> None:
    """An agent with `.accepts` is called with these fields; one that `.returns` gives its type as JSON."""
    clerk = Agent("clerk").describe("Makes bills.").accepts(Bill).returns(Bill)
    backend = mock_backend({"boss": once(call_tool("clerk", total=3)), "clerk": {"total": 4}})
    run = await Agent("boss").tools(T.agent(clerk)).run("hi", backend=backend)
    assert results(run) == [{"total": 4.0}]
    assert seen(backend.calls["clerk"][0]) == '{"total":3.0}'
    tools: Any = backend.calls["boss"][0].config.tools
    assert tools[0].function_declarations[0].description == "Makes bills."


async def test_an_agent_inside_an_agent() -> None:
    """Expressions that are tools may have such tools themselves."""
    outer = Agent("outer").tools(T.agent(BOSS))
    run = await play(outer, {"outer": once(call_tool("boss", request="go"))})
    assert [event.author for event in run] == [
        "outer",
        "boss",
        "digger",
        "teller",
        "boss",
        "boss",
        "outer",
        "outer",
    ]
    assert run.state == {"topic": "x", "found": "gold"}


async def test_of_one_name_with_an_agent_around() -> None:
    """An agent that is a tool here and a step there is heard only as a step."""
    helper = Agent("helper")
    expression = Agent("boss").tools(T.agent(helper)) >> helper
    run = await play(
        expression, {"boss": once(call_tool("helper", request="x")), "helper": ["inside", "outside"]}
    )
    assert [(event.content, event.visibility) for event in run.by("helper")] == [
        ("inside", "internal"),
        ("outside", "user"),
    ]
    assert run.text == "outside"


# --- failures -------------------------------------------------------------------------------------


async def test_errors_name_the_agent_inside() -> None:
    """An error inside names the agent that failed."""
    blocked = LlmResponse(error_code="SAFETY", error_message="blocked")
    with pytest.raises(RunError, match="'digger' gave no answer but an error: SAFETY: blocked"):
        await play(BOSS, {"digger": blocked})
    with pytest.raises(ModelError, match=r"'digger' got no answer from its model .*ValueError: boom"):
        await play(BOSS, {"digger": ValueError("boom")})


async def test_a_failure_that_is_caught() -> None:
    """The run continues if a fallback inside, a second attempt, or a callback handles the failure."""
    blocked = LlmResponse(error_code="SAFETY", error_message="blocked")
    safe = (Agent("risky") // Agent("safe")).named("research")
    run = await play(Agent("boss").tools(T.agent(safe)), {"risky": blocked, "safe": "fine"})
    assert results(run) == [{"result": "fine"}]
    again = Agent("boss").tools(T.retry(T.agent(RESEARCH), 2, backoff_base=0, on=(RunError,)))
    run = await play(again, {"digger": [blocked, "gold"]})
    assert (results(run), run.text) == ([{"result": "It is gold."}], "done")

    def excuse(tool: Any, args: Any, tool_context: Any, error: Any) -> dict[str, str]:
        return {"error": "not now"}

    run = await play(BOSS.on_tool_error(excuse), {"digger": blocked})
    assert (results(run), run.text) == ([{"error": "not now"}], "done")


async def test_tokens_of_a_failure_are_reported() -> None:
    """The tokens of a failed expression in a tool reach the caller's stream."""
    expression, heard = BOSS, list[str]()
    backend = mock_backend({**SCRIPT, "teller": ValueError("boom")})

    async def listen() -> None:
        async with aclosing(expression.stream("hi", backend=backend, state={"topic": "x"})) as events:
            async for event in events:
                heard.append(event.author)

    with pytest.raises(ModelError):
        await listen()
    assert heard[:2] == ["boss", "digger"]  # ADK 2 adds an event


async def test_a_person_cannot_be_asked_inside() -> None:
    """A problem that only a run shows, such as a tool that lets another function ask, is one clear error."""

    def really(tool_context: Any) -> None:
        tool_context.request_confirmation(hint="Really?")

    def ask(tool_context: Any) -> dict[str, str]:
        """Ask."""
        really(tool_context)
        return {"status": "asked"}

    asking = Agent("asker").tool(ask)
    with pytest.raises(CompileError, match="boss has agents as a tool of which 'asker' may wait"):
        Agent("boss").tools(T.agent(Agent("asker").tool(really))).build()
    with pytest.raises(ToolError, match=r"Agent 'asker' stops for a person, and inside the tool 'asker'"):
        await play(
            Agent("boss").tools(T.agent(asking)),
            {"boss": once(call_tool("asker", request="x")), "asker": call_tool("ask")},
        )


async def test_the_limit_of_model_calls_holds_for_both() -> None:
    """Calls inside count towards the run's limit."""
    with pytest.raises(Exception, match="limit of `3`"):
        await play(BOSS, config=ExecutionConfig(max_llm_calls=3))
    assert (await play(BOSS, config=ExecutionConfig(max_llm_calls=4))).text == "done"


@without_pauses
async def test_a_time_limit_holds_inside() -> None:
    """`T.timeout` gives up an expression, too."""
    from tests.backends.support import Hang

    hang = Hang()
    with pytest.raises(ToolError, match="'boss': its tool 'research' raised TimeoutError"):
        await play(Agent("boss").tools(T.timeout(T.agent(RESEARCH), 0.2)), {"teller": hang})
    assert hang.ended


async def test_a_confirmation_is_asked_before_the_call() -> None:
    """`T.confirm` asks before the expression is called, and then the run calls it."""
    expression = Agent("boss").tools(T.confirm(T.agent(RESEARCH))) >> Agent("b")
    backend = mock_backend(SCRIPT, default="bye")
    first = await expression.run("hi", backend=backend, state={"topic": "x"})
    assert first.pending[0].message == 'Run research(request="dig!")?'
    assert "digger" not in backend.calls
    rest = await expression.resume(
        session_id=first.session_id, approvals={first.pending[0].id: True}, backend=backend
    )
    assert (results(rest), rest.text) == ([{"result": "It is gold."}], "bye")


# --- plugins, native, everywhere ------------------------------------------------------------------


class Hooks(BasePlugin):
    """Notes what it hears."""

    def __init__(self) -> None:
        super().__init__(name="hooks")
        self.log: list[str] = []

    async def before_run_callback(self, **given: Any) -> None:
        self.log.append("run")

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        self.log.append(f"agent {agent.name}")

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        self.log.append(f"model {callback_context.agent_name}")

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        self.log.append(f"event {event.author}")


async def test_plugins_get_every_event_once() -> None:
    """On ADK's own runner a plugin hears of the agents inside, and of each event once."""
    hooks = Hooks()
    backend = mock_backend(SCRIPT)
    app = backend.compile(BOSS.node, state=None).published()
    app = app.model_copy(update={"plugins": [hooks, *app.plugins]})
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    options: Any = {"user_id": "u", "session_id": "s", "new_message": message, "state_delta": {"topic": "x"}}
    events = [event async for event in runner.run_async(**options)]
    assert hooks.log.count("run") == 1
    assert [word for word in hooks.log if word.startswith("model")] == [
        "model boss", "model digger", "model teller", "model boss",
    ]  # fmt: skip
    assert hooks.log.count("event digger") == hooks.log.count("event teller") == 1
    assert [event.author for event in events] == ["boss", "digger", "teller", "boss", "boss"]
    assert {(event.custom_metadata or {})["adk_fluent.visibility"] for event in events[1:3]} == {"internal"}


A = Agent("a").tools(T.agent(RESEARCH))
PLACES: dict[str, Expr[Any]] = {
    "a step": Agent("z") >> A,
    "a branch": FanOut(A, Agent("z")),
    "a loop": Loop("l", A, max_iterations=1),
    "a fallback": A // Agent("z"),
    "a route": Route("k").eq("x", Agent("z")).otherwise(A),
    "a time limit": A.timeout(60),
    "an item": map_over("items", A),
    "its own context": Pipeline(Agent("z"), A.context(C.none())),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_wherever_the_caller_stands(place: Expr[Any]) -> None:
    """Answer, state and tokens of an expression in a tool arrive in every composite."""
    run = await play(place, {"a": once(CALL)}, state={"topic": "x", "items": [1]})
    assert results(run) == [{"result": "It is gold."}]
    assert run.state["found"] == "gold"
    assert len(run.by("digger")) == 1


WRAPPERS: list[Callable[[Any], Any]] = [
    lambda tool: tool,
    T.retry,
    lambda tool: T.transform(tool, post=str),
]


@pytest.mark.parametrize("wrap", WRAPPERS)
async def test_whatever_is_around_it(wrap: Callable[[Any], Any]) -> None:
    """Events of an expression in a tool pass through wrappers around the tool."""
    run = await play(Agent("boss").tools(wrap(T.agent(RESEARCH)) | T.fn(half)))
    assert [event.author for event in run][1:3] == ["digger", "teller"]


async def test_its_model_is_that_of_its_caller() -> None:
    """An agent inside that names no model has that of the caller, as a sub-agent would."""
    backend = mock_backend(SCRIPT)
    await (
        Agent("boss", "gemini-2.5-pro")
        .tools(T.agent(RESEARCH))
        .run("x", backend=backend, state={"topic": "x"})
    )
    assert backend.calls["digger"][0].model == "gemini-2.5-pro"
