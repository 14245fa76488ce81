"""`tool_approval`: a person is asked before a tool runs, wherever it stands, and whenever they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from google.adk.tools.agent_tool import AgentTool

from adk_fluent import Agent, FanOut, Route, T
from adk_fluent.errors import ArgumentError, ExpressionError, RunError, UnsupportedNodeError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import tool_approval
from adk_fluent.testing import call_tool, mock_backend
from adk_fluent.tools.spec import Tool
from tests.backends.support import Client, requested, script, session_service

SENT: list[str] = []


def send(to: str) -> str:
    """Send a letter."""
    SENT.append(to)
    return f"sent to {to}"


def look(word: str) -> str:
    """Look a word up."""
    return f"{word} found"


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    """Each test begins with nothing sent."""
    SENT.clear()


CLERK = Agent("clerk").tools(send, look)
ASKS = [tool_approval(["send"])]
SAYS: dict[str, Any] = {"clerk": [call_tool("send", to="ann"), "done"], "before": "first", "after": "last"}
BEFORE, AFTER = Agent("before"), Agent("after")


@pytest.mark.parametrize("around", [T.timeout(send, 5), T.retry(send), T.cache(send)], ids=str)
async def test_what_is_around_a_tool_is_no_way_past_it(around: Tool) -> None:
    """A tool with something around its calls asks as well, and is then called as it is."""
    clerk = Agent("clerk").tools(around).middleware(*ASKS)
    backend = mock_backend(SAYS)
    result = await clerk.run("go", backend=backend)
    (asked,) = result.pending
    assert SENT == []
    approvals = {asked.id: True}
    done = await clerk.resume(session_id=result.session_id, approvals=approvals, backend=backend)
    assert (done.text, SENT) == ("done", ["ann"])


@pytest.mark.parametrize("approved", [True, False])
async def test_a_restart_between_question_and_answer(approved: bool, tmp_path: Path) -> None:
    """The run stops before the tool; another process goes on with the answer from the stored session."""
    pipeline = (BEFORE >> CLERK >> AFTER).middleware(*ASKS)
    first = mock_backend(SAYS, session_service=session_service("sqlite", tmp_path))
    result = await pipeline.run("go", session_id="s", backend=first)
    (asked,) = result.pending
    assert (asked.agent, asked.message, SENT) == ("clerk", 'Run send(to="ann")?', [])
    assert not first.calls.get("after")

    says = {**SAYS, "clerk": "done"}
    again = mock_backend(says, session_service=session_service("sqlite", tmp_path))
    afresh = (BEFORE >> CLERK >> AFTER).middleware(tool_approval(["send"]))
    done = await afresh.resume(session_id="s", approvals={asked.id: approved}, backend=again)
    assert (done.text, SENT) == ("last", ["ann"] if approved else [])
    assert not again.calls.get("before")
    answer = again.calls["clerk"][0].contents[-1].parts
    assert answer is not None
    assert answer[0].function_response is not None
    told = str(answer[0].function_response.response)
    assert ("sent to ann" in told) == approved
    assert ("rejected" in told) != approved


async def test_other_tools_run_at_once() -> None:
    """Only the tools that are named wait for a person."""
    backend = script({"clerk": [call_tool("look", word="x"), "found it"]})
    result = await CLERK.middleware(*ASKS).run("go", backend=backend)
    assert (result.text, result.pending) == ("found it", [])


SHAPES: dict[str, Expr[Any]] = {
    "sequence": BEFORE >> CLERK >> AFTER,
    "parallel": FanOut(BEFORE, CLERK) >> AFTER,
    "loop": CLERK * 1 >> AFTER,
    "fallback": (CLERK // BEFORE) >> AFTER,
    "route": BEFORE.writes("x") >> Route("x").eq("first", CLERK) >> AFTER,
}


@pytest.mark.parametrize("shape", list(SHAPES))
async def test_inside_every_shape(shape: str) -> None:
    """What follows in any composite waits for the answer, then runs once."""
    backend = script(SAYS)
    pipeline = SHAPES[shape].middleware(*ASKS)
    result = await pipeline.run("go", backend=backend)
    (asked,) = result.pending
    assert not backend.calls.get("after")
    done = await pipeline.resume(session_id=result.session_id, approvals={asked.id: True}, backend=backend)
    assert (done.text, SENT, len(backend.calls["after"])) == ("last", ["ann"], 1)


async def test_on_adks_own_runner() -> None:
    """`to_app()` brings it along: any client of ADK's that answers confirmations works."""
    client = Client.of(CLERK.middleware(*ASKS), script(SAYS))
    (request,) = requested(await client.say("go"))
    assert SENT == []
    await client.confirm(request)
    assert SENT == ["ann"]


@pytest.mark.parametrize("per_run", [True, False])
async def test_in_a_live_conversation_nobody_can_be_waited_for(per_run: bool) -> None:
    """It is refused before anything is said, wherever the middleware was given."""
    clerk, options = (CLERK, {"middleware": ASKS}) if per_run else (CLERK.middleware(*ASKS), {})
    with pytest.raises(UnsupportedNodeError, match=r"'clerk' asks a person before a call \(tool_approval\)"):
        async with clerk.live(backend=mock_backend(SAYS), modality="text", **cast(Any, options)):
            pass


async def test_a_tool_that_asks_by_itself_is_asked_for_once() -> None:
    """One question is enough, whoever asks it."""
    clerk = Agent("clerk").tool(send, require_confirmation=True).middleware(*ASKS)
    backend = script(SAYS)
    result = await clerk.run("go", backend=backend)
    (asked,) = result.pending
    done = await clerk.resume(session_id=result.session_id, approvals={asked.id: True}, backend=backend)
    assert (done.pending, done.text, SENT) == ([], "done", ["ann"])


async def test_names_that_no_tool_has() -> None:
    """A name that nobody in the expression has is an error that gives the nearest one."""
    wrong = (BEFORE >> CLERK).middleware(tool_approval(["sent"]))
    report = wrong.check()
    assert [issue.code for issue in report.errors] == ["unknown-tool"]
    with pytest.raises(ExpressionError, match=r"tool_approval for 'sent', .* Did you mean 'send'\?"):
        await wrong.run("go", backend=script(SAYS))
    with pytest.raises(ExpressionError, match=r"for 'send', .* It has no tools\."):
        await BEFORE.middleware(*ASKS).run("go", backend=script(SAYS))
    assert CLERK.middleware(*ASKS).check().ok


async def test_names_among_tools_that_are_not_known_yet() -> None:
    """Where an agent has a toolset nobody knows the names, and nothing is said."""

    class Toolset:
        async def get_tools(self) -> list[Any]:
            return []

    tools: Any = Toolset()
    report = Agent("a").tools(tools).middleware(*ASKS).check()
    assert "unknown-tool" not in [issue.code for issue in report.issues]


@pytest.mark.parametrize("wrong", [[], "send", None, [3], [""], 5])
def test_wrong_arguments(wrong: Any) -> None:
    """What is no collection of names is one clear line."""
    with pytest.raises(ArgumentError, match=r"^tool_approval\(tools=\) takes names of tools, such as tools="):
        tool_approval(wrong)


# AgentTool of newer ADKs hands plugins to its runner in a way that ADK itself deprecates.
@pytest.mark.filterwarnings("ignore:The `plugins` argument:DeprecationWarning")
async def test_an_agent_inside_a_native_tool() -> None:
    """ADK's `AgentTool` asks like any tool; what its agent would ask is refused, not lost."""
    helper = Agent("helper").describe("Helps.").tools(send)
    boss = Agent("boss").tool(AgentTool(helper.build()))
    says = {"boss": [call_tool("helper", request="go"), "done"], "helper": [call_tool("send", to="ann"), "x"]}
    backend = mock_backend(says)
    asking = boss.middleware(tool_approval(["helper"]))
    result = await asking.run("go", backend=backend)
    (asked,) = result.pending
    assert (asked.message, SENT) == ('Run helper(request="go")?', [])
    approvals = {asked.id: True}
    done = await asking.resume(session_id=result.session_id, approvals=approvals, backend=backend)
    assert (done.text, SENT) == ("done", ["ann"])
    SENT.clear()
    with pytest.raises(RunError, match=r"'helper' calls 'send', which a person must approve") as caught:
        await boss.middleware(*ASKS).run("go", backend=mock_backend(says))
    assert "Name the tool around 'helper'" in str(caught.value)
    assert SENT == []
