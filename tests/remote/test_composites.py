"""A remote agent inside every composite: it does there what any agent does, fails, and is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from adk_fluent import Agent, Loop, RemoteAgent, Route, S, T, gate, map_over, race, tap, transfer
from adk_fluent.a2a import RetryConfig
from adk_fluent.errors import RemoteError, StateGuardError
from adk_fluent.expr.base import Expr
from adk_fluent.state import declares
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.remote.others import Says, listening, plain, says

Far = RemoteAgent[str]
NOWHERE = "http://127.0.0.1:1"
NEAR = Agent("near").writes("out")


@declares(reads=[])
def always(state: Mapping[str, Any]) -> bool:
    """A condition."""
    return True


@declares(reads=["out"])
def has_answer(state: Mapping[str, Any]) -> bool:
    """A condition."""
    return "out" in state


def script(**more: Any) -> MockBackend:
    """The answers of the agents here; remote agents are asked over the network unless `more` has them."""
    boss = [call_tool("transfer_to_agent", agent_name="far"), "told"]
    caller = [call_tool("far", request="Pay."), "told"]
    given = {"a": "A.", "b": "B.", "c": "C.", "bad": ConnectionError("lost"), "boss": boss, "caller": caller}
    return mock_backend({**given, **more}, remotes="scripted" if "far" in more else "real")


COMPOSITES: dict[str, Callable[[Far], Expr[Any]]] = {
    "sequence": lambda far: Agent("a") >> far >> Agent("b").instruct("Tell {out}."),
    "fan_out": lambda far: (far | Agent("b").writes("b")) >> Agent("c").instruct("Tell {out} and {b}."),
    "first_complete": lambda far: (far | Agent("bad")).merge("first_complete"),
    "fallback": lambda far: far // Agent("b").writes("out"),
    "fallback_to": lambda far: Agent("bad") // far,
    "route": lambda far: S.set(kind="a") >> Route("kind").eq("a", far).otherwise(Agent("b")),
    "loop": lambda far: Loop(far, Agent("b").instruct("Judge {out}."), max_iterations=2),
    "loop_alone": lambda far: far * 2,
    "until": lambda far: Loop(far, max_iterations=3).until(has_answer),
    "map_over": lambda far: (
        S.set(items=["x", "y"]) >> map_over("items", far.reads("item"), output_key="outs")
    ),
    "race": lambda far: race(far, Agent("bad")),
    "gate_before": lambda far: Agent("b") >> gate(always, message="Pay?") >> far,
    "gate_behind": lambda far: far >> gate(always, message="Tell?") >> Agent("b").instruct("Tell {out}."),
    "timeout": lambda far: far.timeout(60),
    "skipped": lambda far: Agent("a") >> far.proceed_if(declares(reads=["x"])(lambda state: "x" in state)),
    "delegate": lambda far: Agent("boss").delegate(far),
    "tool": lambda far: Agent("caller").tools(T.agent(far)),
    "transfer": lambda far: transfer("far", condition=always) >> Agent("b") >> far,
    "tap": lambda far: far >> tap(lambda state: None),
}


async def outcome(made: Expr[Any], backend: MockBackend) -> tuple[str, dict[str, Any], list[tuple[str, str]]]:
    """The answer of a run whose questions are all agreed to, its state, and who said what."""
    result = await made.run("hi", backend=backend)
    said = [(event.author, str(event.content)) for event in result if event.content]
    while result.pending:
        approvals = {result.pending[0].id: True}
        result = await made.resume(session_id=result.session_id, approvals=approvals, backend=backend)
        said += [(event.author, str(event.content)) for event in result if event.content]
    return result.text, dict(result.state), sorted(said)  # side by side, in any order


@pytest.mark.parametrize("name", COMPOSITES)
async def test_a_remote_agent_does_in_every_composite_what_a_scripted_one_does(name: str) -> None:
    """Answer, state and what is said are those of an agent here with the same words; so are the calls."""
    make, clerk, scripted = COMPOSITES[name], says("Paid."), script(far="Paid.")
    async with listening(plain(clerk)) as url:
        real = await outcome(make(RemoteAgent("far", endpoint=url).writes("out")), script())
    assert real == await outcome(make(RemoteAgent("far", endpoint=NOWHERE).writes("out")), scripted)
    assert isinstance(clerk.model, Says)
    assert len(clerk.model.asked) == len(scripted.calls.get("far", ()))


@pytest.mark.newest  # nothing is sent
@pytest.mark.parametrize("name", COMPOSITES)
async def test_its_fallback_runs_in_every_composite(name: str) -> None:
    """A dead endpoint is tried as often as was said; then the fallback answers in its place."""
    far = RemoteAgent(
        "far", endpoint=NOWHERE, retry=RetryConfig(2, 0.0), fallback=Agent("near").writes("out")
    )
    made = COMPOSITES[name](far.writes("out"))
    real = await outcome(made, script(near="By hand."))
    assert real == await outcome(made, script(near="By hand.", far=ConnectionError("dead")))
    if name != "skipped":
        assert real[1]["out"] == "By hand."


CATCH = ("first_complete", "fallback", "skipped")
"""Where another branch answers, or it is not asked."""


@pytest.mark.newest
@pytest.mark.parametrize("name", [name for name in COMPOSITES if name not in CATCH])
async def test_its_failure_stops_every_other_composite(name: str) -> None:
    """Without a fallback the error names the agent, where it is, and how often it was tried."""
    made = COMPOSITES[name](RemoteAgent("far", endpoint=NOWHERE, retry=RetryConfig(2, 0.0)).writes("out"))
    with pytest.raises(RemoteError, match=r"'far' at http://127.0.0.1:1: .*ConnectError.*tried 2 times"):
        await outcome(made, script())


# --- cancellation ---------------------------------------------------------------------------------

Other = Expr[Any]
LEFT: dict[str, Callable[[Far, Other], Expr[Any]]] = {
    "race": lambda far, other: race(far, other),
    "first_complete": lambda far, other: (far | other).merge("first_complete"),
    "fan_out": lambda far, other: far | (other >> S.require("missing")),
    "map_over": lambda far, other: (
        S.set(items=["x"]) >> map_over("items", far | (other >> S.require("missing")), output_key="outs")
    ),
    "fallback": lambda far, other: race(far // Agent("b"), other),
    "loop": lambda far, other: race(far * 2, other),
    "timeout": lambda far, other: race(far.timeout(60), other),
    "route": lambda far, other: race(Route("kind").when(always, far), other),
    "delegate": lambda far, other: race(Agent("boss").delegate(far), other),
    "tool": lambda far, other: race(Agent("caller").tools(T.agent(far)), other),
}


@asynccontextmanager
async def endless() -> AsyncGenerator[tuple[str, asyncio.Event, asyncio.Event], None]:
    """A server that never answers: its URL, when it is asked, and when it is left."""
    began, ended = asyncio.Event(), asyncio.Event()

    class Endless(Says):
        async def generate_content_async(
            self, llm_request: Any, stream: bool = False
        ) -> AsyncGenerator[Any, None]:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            yield

    clerk = says()
    clerk.model = Endless()
    async with listening(plain(clerk)) as url:
        yield url, began, ended


@pytest.mark.newest  # ADK's servers do not cancel before
@pytest.mark.parametrize("name", LEFT)
async def test_whoever_is_not_waited_for_any_more_is_cancelled_at_its_server(name: str) -> None:
    """A branch that loses, or stands beside one that fails, stops there too, even before it says a word."""
    async with endless() as (url, began, ended):

        @declares(reads=[], writes=["won"])
        async def other(state: Mapping[str, Any]) -> dict[str, bool]:
            await began.wait()
            return {"won": True}

        made = LEFT[name](RemoteAgent("far", endpoint=url), S.fn(other))
        try:
            assert (await made.run("hi", backend=script())).state["won"]
        except StateGuardError:
            assert name in ("fan_out", "map_over")
        await ended.wait()
