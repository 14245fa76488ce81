"""Live conversations on ADK's `run_live`: sequences hand over, and what cannot run live says so."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from google.adk import agents
from google.adk.agents import LlmAgent
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.models import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import Field, PrivateAttr

from adk_fluent import Agent, C, FanOut, Loop, Pipeline, Route, S, gate, map_over, race, tap, transfer
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import UnsupportedNodeError
from adk_fluent.expr.base import Expr
from tests.backends.support import reply
from tests.clock import still

DONE = types.FunctionCall(name="task_completed", args={})


def to(agent: str) -> types.FunctionCall:
    """The call by which a model hands over to another agent."""
    return types.FunctionCall(name="transfer_to_agent", args={"agent_name": agent})


class Line(BaseLlmConnection):
    """A live connection on which the model says its part, and waits for what each function returns."""

    def __init__(self, model: Live, script: list[Any]) -> None:
        self.model, self.script = model, script
        self.answered = asyncio.Event()

    async def send_history(self, history: list[types.Content]) -> None:
        self.model.heard += [part.text or "" for content in history for part in content.parts or []]

    async def send_content(self, content: types.Content) -> None:
        self.model.heard += [part.text or "" for part in content.parts or [] if part.text]
        if any(part.function_response for part in content.parts or []):
            self.answered.set()

    async def send_realtime(self, blob: Any) -> None:
        self.model.heard.append("a blob")

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        while self.script:
            said = self.script.pop(0)
            if isinstance(said, str):
                yield reply(said)
            else:
                call = types.Content(role="model", parts=[types.Part(function_call=said)])
                yield LlmResponse(content=call)
                await self.answered.wait()
                self.answered.clear()
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is open."""


class Live(BaseLlm):
    """A model for live conversations, with a script for each connection; in others it says `text`.

    Attributes:
        requests: what it was asked with, live or not.
        heard: what it was told.
        open: how many connections are open.
    """

    requests: list[LlmRequest] = Field(default_factory=list[LlmRequest])
    heard: list[str] = Field(default_factory=list[str])
    open: int = 0
    _scripts: list[list[Any]] = PrivateAttr(default_factory=list[list[Any]])

    @classmethod
    def of(cls, *scripts: list[Any]) -> Live:
        made = cls(model="live")
        made._scripts = [*scripts]
        return made

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncGenerator[BaseLlmConnection, None]:
        self.requests.append(llm_request)
        self.open += 1
        try:
            yield Line(self, list(self._scripts.pop(0)))
        finally:
            self.open -= 1

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(llm_request)
        yield reply("text")

    def tools(self, request: int = -1) -> list[str]:
        """The functions that it was given."""
        return [*self.requests[request].tools_dict]

    def instruction(self, request: int = -1) -> str:
        """The system instruction it was given."""
        config: Any = self.requests[request].config
        return str(config.system_instruction)


def speaker(name: str, *more: Any) -> Agent[str]:
    """An agent that says its name, then hands over."""
    return Agent(name, Live.of([f"{name} speaks", DONE], *more))


def model_of(agent: Agent[Any]) -> Live:
    """The model of an agent."""
    model: Any = agent.node.given["model"]
    return model


async def talk(runner: Runner, session: str = "s", until: str = "") -> list[str]:
    """What happens in a live conversation, a line for each event, until it ends by itself or with a line."""
    service, told = runner.session_service, list[str]()
    if await service.get_session(app_name=runner.app_name, user_id="u", session_id=session) is None:
        await service.create_session(app_name=runner.app_name, user_id="u", session_id=session)
    running = runner.run_live(user_id="u", session_id=session, live_request_queue=LiveRequestQueue())
    async with aclosing(running) as events:
        async for event in events:
            for part in (event.content.parts if event.content else None) or []:
                function = part.function_call or part.function_response
                told.append(f"{event.author}: {part.text or (function and function.name)}")
            if until and told[-1:] == [until]:
                break
    return told


def ours(expression: Expr[Any], until: str = "") -> list[str]:
    """What happens in a live conversation with an expression."""
    runner = expression.to_runner(session_service=InMemorySessionService())
    return still(talk(runner, until=until))


def plain(agent: BaseAgent) -> list[str]:
    """What happens in one with a native agent."""
    return still(talk(Runner(agent=agent, app_name="p", session_service=InMemorySessionService())))


def lines(*names: str) -> list[str]:
    """What happens when these agents speak and hand over, one after another."""
    return [line for n in names for line in (f"{n}: {n} speaks", *[f"{n}: task_completed"] * 2)]


# --- handing over ---------------------------------------------------------------------------------


def test_a_sequence_hands_over() -> None:
    """Each agent speaks on a connection of its own until it says that it is done; then the next one does."""
    assert ours(speaker("a") >> speaker("b") >> speaker("c")) == lines("a", "b", "c")


def test_a_sequence_does_what_adks_does() -> None:
    """The events, the functions and what the next model hears are those of ADK's `SequentialAgent`."""
    expression = (a := speaker("a")) >> (b := speaker("b"))
    models = [Live.of(["a speaks", DONE]), Live.of(["b speaks", DONE])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        sequential: Any = getattr(agents, "SequentialAgent")  # noqa: B009  # named, it would count as deprecated
        native = sequential(
            name="pair", sub_agents=[LlmAgent(name=n, model=m) for n, m in zip("ab", models, strict=True)]
        )
    assert ours(expression) == plain(native)
    for mine, theirs in zip((model_of(a), model_of(b)), models, strict=True):
        assert mine.tools() == theirs.tools() == ["task_completed"]
        assert mine.heard == theirs.heard
        assert "task_completed" in mine.instruction()
        assert "task_completed" in theirs.instruction()


def test_the_runner_of_adk_does_the_same() -> None:
    """An app of `to_app()` hands over on ADK's own runner, and so does an agent of `build()`."""
    for _ in range(2):
        app = (speaker("a") >> speaker("b")).to_app()
        runner = Runner(app=app, session_service=InMemorySessionService())
        assert still(talk(runner)) == lines("a", "b")
    assert plain((speaker("a") >> speaker("b")).build()) == lines("a", "b")


def test_steps_between_agents_do_their_work() -> None:
    """Transforms, taps and captures run between the agents, and state gets from one to the other."""
    seen: list[object] = []
    reader = Agent("b", Live.of([DONE])).instruct("Work on {draft}.").context(C.from_state("words"))
    ours(
        speaker("a").writes("text")
        >> S.rename(text="draft")
        >> S.compute(words=lambda state: len(state["draft"]))
        >> tap(lambda state: seen.append(state["words"]))
        >> reader
    )
    assert seen == [8]
    assert "Work on a speaks." in model_of(reader).instruction()
    assert "words" in model_of(reader).instruction()


def test_sequences_inside_sequences_hand_over() -> None:
    """An inner sequence is over when its last agent is done."""
    inner = Pipeline("inner", speaker("b"), Pipeline("innermost", speaker("c"), S.set(x=1)))
    assert ours(Pipeline("outer", speaker("a"), inner, speaker("d"))) == lines("a", "b", "c", "d")


def test_an_agent_hands_over_to_a_sequence() -> None:
    """A sequence that an agent delegates to runs live, too, under what the agent says to all."""
    b = speaker("b")
    boss = Agent("boss", Live.of([to("pair")])).global_instruct("Be kind.")
    told = ours(boss.delegate(Pipeline("pair", speaker("a"), b)), until="b: b speaks")
    assert told == [*["boss: transfer_to_agent"] * 2, *lines("a"), "b: b speaks"]
    assert "Be kind." in model_of(b).instruction()


def test_an_agent_that_got_the_word_back_hands_over() -> None:
    """An agent of a sequence can ask another one, and say that it is done when that one hands back."""
    expert = Agent("expert", Live.of(["expert speaks", to("a")])).describe("Knows.")
    asking = Agent("a", Live.of([to("expert")], ["a knows", DONE])).delegate(expert)
    assert ours(asking >> speaker("b"), until="a: task_completed")[-3:] == [
        "expert: transfer_to_agent",
        "a: a knows",
        "a: task_completed",
    ]
    assert [set(model_of(asking).tools(n)) for n in range(2)] == [{"task_completed", "transfer_to_agent"}] * 2


def test_a_function_of_that_name_stays_the_only_one() -> None:
    """An agent that has a function `task_completed` keeps its own."""

    def task_completed() -> str:
        """Say that all is well."""
        return "all is well"

    agent = speaker("a").tool(task_completed)
    assert ours(agent >> speaker("b")) == lines("a", "b")
    kept: Any = model_of(agent).requests[0].tools_dict["task_completed"]
    assert (kept.func.__name__, kept.func.__module__) == ("task_completed", __name__)
    assert "can take over" not in model_of(agent).instruction()


def test_other_runs_do_not_see_the_function() -> None:
    """After a live conversation, the same runner answers in text without it, and talks live again."""
    speakers = [speaker(name, [f"{name} speaks", DONE]) for name in "ab"]
    runner = (speakers[0] >> speakers[1]).to_runner(session_service=InMemorySessionService())
    message = types.Content(role="user", parts=[types.Part(text="hi")])

    async def all_ways() -> None:
        assert await talk(runner) == lines("a", "b")
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass
        assert await talk(runner) == lines("a", "b")

    still(all_ways())
    for agent in speakers:
        assert [model_of(agent).tools(n) for n in range(3)] == [["task_completed"], [], ["task_completed"]]
        assert "task_completed" not in model_of(agent).instruction(1)


def test_conversations_at_once_do_not_mix() -> None:
    """One runner holds several live conversations at the same time."""
    speakers = [speaker(name, *[[f"{name} speaks", DONE]] * 2) for name in "ab"]
    runner = (speakers[0] >> speakers[1]).to_runner(session_service=InMemorySessionService())

    async def at_once() -> list[list[str]]:
        return await asyncio.gather(*(talk(runner, session) for session in "xyz"))

    assert still(at_once()) == [lines("a", "b")] * 3
    assert [tools for agent in speakers for n in range(3) if (tools := model_of(agent).tools(n))] == [
        ["task_completed"]
    ] * 6


def test_who_hangs_up_closes_the_connection() -> None:
    """A caller who leaves closes the connection of the agent that speaks, and no other is opened."""
    a, b = speaker("a"), speaker("b")
    runner = (a >> b).to_runner(session_service=InMemorySessionService())

    async def leave() -> None:
        await runner.session_service.create_session(app_name=runner.app_name, user_id="u", session_id="s")
        running = runner.run_live(user_id="u", session_id="s", live_request_queue=LiveRequestQueue())
        async with aclosing(running) as events:
            await anext(events)
            assert model_of(a).open == 1

    still(leave())
    assert model_of(a).open == 0
    assert model_of(b).requests == []


# --- what cannot run live -------------------------------------------------------------------------

X, Y = speaker("x"), speaker("y")
OTHERS: list[tuple[str, Expr[Any]]] = [
    ("loop", Loop(X, Y, max_iterations=2)),
    ("parallel", FanOut(X, Y)),
    ("route", Route("k").eq(1, X).otherwise(Y)),
    ("fallback", X // Y),
    ("race", race(X, Y)),
    ("map", map_over("items", X)),
    ("timeout", X.timeout(60)),
    ("gate", gate(lambda state: True)),
    ("transfer", transfer("x")),
]
every_other = pytest.mark.parametrize(("kind", "other"), OTHERS, ids=[kind for kind, _ in OTHERS])


@every_other
def test_other_composites_say_so(kind: str, other: Expr[Any]) -> None:
    """What cannot run live is named with what to do, before anybody speaks, however deep it stands."""
    a, inner = speaker("a"), speaker("x")
    for expression in (other, a >> other >> inner, Pipeline("p", a, Pipeline("q", other, inner))):
        if kind == "transfer" and expression is other:
            continue
        with pytest.raises(UnsupportedNodeError) as caught:
            ours(expression)
        message = str(caught.value)
        assert f"' ({other.node.kind}) cannot run in a live conversation; agents can" in message
        assert "Leave out .timeout" in message if kind == "timeout" else "Use run() or stream()" in message
    assert model_of(a).requests == []


def test_an_agent_that_hands_over_to_another_composite_says_so() -> None:
    """The same holds where a model hands over to what cannot run live."""
    boss = Agent("boss", Live.of([to("desk")])).delegate(FanOut("desk", X, Y))
    with pytest.raises(UnsupportedNodeError, match=r"'desk' \(parallel\) cannot run in a live"):
        ours(boss)


def test_a_limit_for_the_whole_run_says_so() -> None:
    """A time limit in the configuration is named as what stands in the way."""
    runner = X.to_runner(ExecutionConfig(timeout_seconds=60), session_service=InMemorySessionService())
    with pytest.raises(UnsupportedNodeError, match=r"ExecutionConfig\(timeout_seconds=\)"):
        still(talk(runner))
