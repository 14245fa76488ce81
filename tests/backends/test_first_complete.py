"""`FanOut(merge=)`: the first branch to complete wins, and the others end at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.tool_context import ToolContext

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, race, tap
from adk_fluent.errors import ArgumentError, MockError, RunError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import walk
from adk_fluent.testing import call_tool
from tests.backends.support import (
    Client,
    Hang,
    called,
    close,
    failing,
    play,
    replies,
    requested,
    said,
    script,
    seen,
    session_service,
    speakers,
)
from tests.backends.test_race import after

A, B, C = Agent("a"), Agent("b"), Agent("c")
EITHER = FanOut(A, B, name="either", merge="first_complete")


async def test_the_first_to_complete_ends_the_others() -> None:
    """The fan-out is over with the first branch that completes, and the others' model calls are cancelled."""
    slow = Hang()
    result = await play(EITHER, {"a": slow, "b": after(slow, text="won")})
    assert said(result) == [("b", "won")]
    assert result.text == "won"
    assert slow.ended == ["CancelledError"]


async def test_nothing_of_a_loser_lands_any_more() -> None:
    """What a loser had stored stays; what it would have stored after the end does not come."""
    slow = Hang()
    loser = Pipeline("loser", S.set(early=1), A.writes("late"), S.set(later=1))
    result = await play(FanOut(loser, B, merge="first_complete"), {"a": slow, "b": after(slow)})
    assert result.state == {"early": 1}


async def test_what_a_loser_had_not_given_out_is_not_seen_in_the_run() -> None:
    """A value that a loser's tool set, whose event never came, is not there for the next step."""
    inside, winner = asyncio.Event(), asyncio.Event()

    async def mark(tool_context: ToolContext) -> str:
        """Mark."""
        tool_context.state["marked"] = 1
        inside.set()
        await asyncio.Event().wait()
        return ""

    async def last(request: LlmRequest) -> AsyncIterator[str]:
        await inside.wait()
        winner.set()
        yield "won"

    marker = FanOut(A.tool(mark), B, merge="first_complete")
    result = await play(
        marker >> S.compute(saw=lambda state: state.get("marked", "nothing")),
        {"a": call_tool("mark"), "b": last},
    )
    assert winner.is_set()
    assert result.state == {"saw": "nothing"}


async def test_the_words_of_a_loser_are_no_answer() -> None:
    """A loser that had spoken before it lost is withdrawn: `.text` is the winner's."""
    slow = Hang()
    loser = Pipeline("loser", Agent("talker"), A)

    async def answer(request: LlmRequest) -> AsyncIterator[str]:
        await slow.started.wait()
        yield "first"

    either = FanOut(B, loser, name="either", merge="first_complete").transparent()
    result = await play(either, {"a": slow, "b": answer, "talker": "I think"})
    assert speakers(result) == ["talker", "b"]
    assert result.text == "first"
    assert [event.author for event in result.visible if event.content] == ["b"]
    lost = [event.metadata["adk_fluent.lost"] for event in result if "adk_fluent.lost" in event.metadata]
    assert lost == [["loser"]]


async def test_pieces_come_while_all_run() -> None:
    """`stream` gives pieces of every branch as they are generated, before anything is decided."""
    slow, told = Hang("one ", "two "), list[tuple[str, str | None]]()

    backend = script({"a": slow, "b": after(slow, text="won")})
    async with aclosing(EITHER.stream("hi", backend=backend)) as events:
        async for event in events:
            told.append((event.author, event.content))
    assert told[:2] == [("a", "one "), ("a", "two ")]
    assert told[-1] == ("b", "won")


async def test_a_failed_branch_does_not_win() -> None:
    """A branch that raises, or reports an error, is passed over, and nothing of the error is left."""
    either = FanOut(A, B, C, merge="first_complete")
    result = await play(either, {"a": RuntimeError("no"), "b": failing(), "c": "fine"})
    assert said(result) == [("c", "fine")]
    assert [event.error for event in result if event.error] == []


async def test_an_error_that_a_branch_catches_itself_is_none() -> None:
    """A fallback inside a branch catches what fails there, and the branch can win."""
    slow = Hang()
    either = FanOut(A // C, B, merge="first_complete")
    result = await play(either, {"a": failing(), "c": after(slow, text="caught"), "b": slow})
    assert result.text == "caught"


async def test_all_failing_names_each() -> None:
    """Where no branch completes the error names every branch with what went wrong in it."""
    with pytest.raises(RunError) as caught:
        await play(EITHER, {"a": ValueError("bad day"), "b": failing("SAFETY", "blocked")})
    assert str(caught.value) == (
        "'either' (first_complete): none of its branches completed: 'a': ValueError: bad day; "
        "'b': SAFETY: blocked. Give it one that cannot fail, or a fallback with //."
    )
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_fallback_catches_that_all_failed() -> None:
    """What follows `//` runs when no branch completed."""
    assert (await play(EITHER // C, {"a": ValueError("x"), "b": failing()})).text == "ok"


async def test_a_wrong_script_is_told() -> None:
    """A test's script that is exhausted is no branch that loses."""
    backend = script({"a": Hang(), "b": []})
    with pytest.raises(MockError):
        await EITHER.run("hi", backend=backend)


async def test_cancelling_cancels_every_branch() -> None:
    """Cancelling the run cancels all model calls."""
    hangs = [Hang(), Hang()]
    task = asyncio.ensure_future(play(EITHER, {"a": hangs[0], "b": hangs[1]}))
    for hang in hangs:
        await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [hang.ended for hang in hangs] == [["CancelledError"]] * 2


async def test_the_next_step_sees_the_winner() -> None:
    """State and words of the winner are there for what follows."""
    slow = Hang()
    either = FanOut(A.writes("x"), B.writes("x"), merge="first_complete")
    backend = script({"a": slow, "b": after(slow, text="from b")})
    await (either >> C.instruct("Use {x}.")).run("hi", backend=backend)
    assert "from b" in seen(backend.calls["c"][0])


# --- inside composites ----------------------------------------------------------------------------


def _won(name: str) -> Expr[Any]:
    return FanOut(Agent(f"slow_{name}"), Agent(f"quick_{name}").writes(name), merge="first_complete")


INSIDE: dict[str, Expr[Any]] = {
    "sequence": S.set(n=1) >> _won("x"),
    "parallel": _won("x") | _won("y"),
    "loop": Loop(_won("x"), max_iterations=2),
    "route": S.set(go=1) >> Route("go").eq(1, _won("x")),
    "fallback": Agent("bad") // _won("x"),
    "race": race(_won("x"), Agent("slow_other")),
    "map": S.set(items=[1, 2]) >> map_over("items", _won("x")),
    "timeout": _won("x").timeout(100),
    "itself": FanOut(_won("x"), Agent("slow_other"), merge="first_complete"),
    "delegate": Agent("boss").delegate(Pipeline("desk", _won("x"))),
}


@pytest.mark.parametrize("kind", INSIDE)
async def test_inside_every_composite(kind: str) -> None:
    """It works wherever it stands: the quick branch wins and the slow one is cancelled."""
    expression, hangs = INSIDE[kind], list[Hang]()

    def slow(request: LlmRequest) -> Any:
        hangs.append(Hang())
        return hangs[-1](request)

    scripts: dict[str, Any] = {
        **dict.fromkeys(("slow_x", "slow_y", "slow_other"), slow),
        **{"quick_x": "X", "quick_y": "Y", "bad": failing()},
        "boss": call_tool("transfer_to_agent", agent_name="desk"),
    }
    agents = {node.name for node in walk(expression.node)}
    result = await play(expression, {name: answer for name, answer in scripts.items() if name in agents})
    assert "X" in [text for _, text in said(result)]
    assert all(hang.ended in ([], ["CancelledError"], ["GeneratorExit"]) for hang in hangs)
    assert not any(author.startswith("slow") for author in speakers(result))


# --- pausing --------------------------------------------------------------------------------------

ASKING = Pipeline("asking", A, gate(lambda state: True, message="Go?"), C)


async def test_a_question_waits_for_the_others() -> None:
    """A branch asks a person only when no other can win: one that completes later wins, unasked."""
    reached = asyncio.Event()
    asking = Pipeline("asking", A, tap(lambda state: reached.set()), gate(lambda state: True))

    async def late(request: LlmRequest) -> AsyncIterator[str]:
        await reached.wait()
        yield "b won"

    result = await play(FanOut(asking, B, merge="first_complete"), {"b": late})
    assert (result.text, result.pending) == ("b won", [])


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_the_branch_that_asks_goes_on_alone(kind: str, tmp_path: Path) -> None:
    """Where the others failed the question is asked, and after the answer only that branch goes on."""
    service = session_service(kind, tmp_path)
    expression = Pipeline("p", FanOut(ASKING, B, name="either", merge="first_complete"), Agent("last"))
    backend = script({"b": ValueError("no")}, session_service=service)
    result = await expression.run("hi", backend=backend, session_id="s")
    (pending,) = result.pending
    after_answer = await expression.resume(
        session_id="s", approvals={pending.id: True}, backend=script(session_service=service)
    )
    assert speakers(after_answer) == ["c", "last"]
    assert after_answer.pending == []
    await close(service)


async def test_on_adks_own_runner() -> None:
    """An app of `to_app()` decides, asks and goes on by ADK's own runner."""
    backend = script({"b": ValueError("no")})
    client = Client.of(FanOut(ASKING, B, name="either", merge="first_complete") >> Agent("last"), backend)
    (request,) = requested(await client.say("hi"))
    authors = [event.author for event in await client.confirm(request) if event.content]
    assert authors == ["c", "last"]


async def test_a_tool_that_asks() -> None:
    """A tool that needs a confirmation waits for the other branches likewise."""
    ran: list[str] = []

    def pay() -> str:
        """Pay."""
        ran.append("paid")
        return "paid"

    asking = A.tool(pay, require_confirmation=True)
    answer = replies(lambda request: "done" if called(request) else call_tool("pay"))
    backend = script({"a": answer, "b": failing()})
    client = Client.of(FanOut(asking, B, name="either", merge="first_complete"), backend)
    (request,) = requested(await client.say("hi"))
    assert ran == []
    await client.confirm(request)
    assert ran == ["paid"]


# --- saying it ------------------------------------------------------------------------------------


def test_ways_to_say_it() -> None:
    """The constructor, a builder and a method of `a | b` say the same."""
    by_hand = FanOut("either", merge="first_complete").branch(A).branch(B)
    assert by_hand == EITHER == FanOut("either").branch(A).branch(B).merge("first_complete")
    assert (A | B).merge("first_complete") == FanOut(A, B, merge="first_complete")
    nested = (A | B).merge("first_complete") | C
    assert [child.kind for child in nested.node.children] == ["parallel", "agent"]
    with pytest.raises(ArgumentError, match="'wait_all', 'first_complete', 'interleave', not 'fastest'"):
        (A | B).merge("fastest")  # pyright: ignore[reportArgumentType]  # the point


async def test_interleave_gives_events_as_they_come() -> None:
    """`interleave` passes on what the quick branch says while the slow one still runs, and waits for both."""
    slow, told = asyncio.Event(), list[str]()

    async def late(request: LlmRequest) -> AsyncIterator[str]:
        await slow.wait()
        yield "late"

    backend = script({"a": late, "b": "early"})
    async with aclosing(FanOut(A, B, merge="interleave").stream("hi", backend=backend)) as events:
        async for event in events:
            if event.is_final:
                told.append(event.author)
                slow.set()
    assert told == ["b", "a"]


async def test_callbacks_of_a_loser_write_nothing() -> None:
    """What the callback of a cancelled agent writes on its way out does not reach the session."""
    slow = Hang()

    def after_agent(callback_context: CallbackContext) -> None:
        callback_context.state["too_late"] = 1

    either = FanOut(A.after_agent(after_agent), B, merge="first_complete")
    assert (await play(either, {"a": slow, "b": after(slow)})).state == {}
