"""Segments in this process: what a user sees of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from google.adk.runners import InMemoryRunner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from adk_fluent import Agent, FanOut, S, gate
from adk_fluent.backends.events import RunResult
from adk_fluent.config import ExecutionConfig
from adk_fluent.distributed import DistributedBackend, split
from adk_fluent.errors import AgentTimeoutError, BoundaryError, SerializationError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import AgentNode
from adk_fluent.middleware import Context, Middleware
from adk_fluent.state import declares
from adk_fluent.testing import MockBackend, call_tool, mock_backend
from tests.backends.support import Hang, system
from tests.backends.test_waiting import GIVEN, KEY, B, Mail, all_kinds, desk, every_kind
from tests.sampling import every

clerk = Agent("clerk").instruct("Classify.").writes("intent")
heavy = Agent("heavy").instruct("Do {intent}.").writes("result").execution_boundary()
mail = Agent("mail").instruct("Tell {result}.").reads("result").execution_boundary()
pipeline = clerk >> heavy >> mail


def backends(script: Mapping[str, Any]) -> list[tuple[MockBackend, Any]]:
    """A script, and what runs it: one app with boundaries in it, and segments."""
    whole, parts = mock_backend(script), mock_backend(script)
    return [(whole, whole), (parts, DistributedBackend(parts))]


async def test_a_plain_run_goes_across_boundaries() -> None:
    """`.run()` needs nothing else: it runs across them in one process."""
    result = await pipeline.run("Go", backend=mock_backend({"clerk": "a", "heavy": "b", "mail": "c"}))
    assert (result.text, dict(result.state)) == ("c", {"intent": "a", "result": "b"})


async def test_what_cannot_cross_stops_a_run_at_the_boundary() -> None:
    """A value that is no data is one clear line, in one process as in several; nothing behind it has run."""
    made = S.set(intent={1}) >> heavy
    for script, backend in backends({"heavy": "b"}):
        with pytest.raises(
            SerializationError, match="'intent' cannot cross the execution boundary of 'heavy'"
        ):
            await made.run("Go", backend=backend)
        assert not script.calls


async def test_temporary_keys_do_not_cross() -> None:
    """They are gone behind a boundary, wherever it runs; before it they were there."""
    before = Agent("before").instruct("{temp:note}")
    after = Agent("after").instruct("[{temp:note?}]").execution_boundary()
    made = S.set(**{"temp:note": "n"}) >> before >> after
    for script, backend in backends({"before": "1", "after": "2"}):
        await made.run("Go", backend=backend)
        shown = {name: system(script.calls[name][0]) for name in script.calls}
        assert shown["before"].startswith("n")
        assert shown["after"].startswith("[]")


@declares(reads=[], writes=["note"])
def nothing(state: Mapping[str, Any]) -> dict[str, None]:
    """Removes a key that it does not look at."""
    return {"note": None}


@declares(reads=[])
def unknown(state: Mapping[str, Any]) -> dict[str, None]:
    """Removes a key that it does not name."""
    return {"note": None}


REMOVALS: list[Callable[[], Expr[Any]]] = [
    lambda: S.drop("note"),
    lambda: S.set(note=None),
    lambda: S.set(more=1) + S.drop("note"),
    lambda: S.set(more=1) | (S.set(other=2) + S.drop("note")),
    lambda: S.fn(nothing),
    lambda: S.fn(unknown),
    lambda: FanOut(S.fn(unknown), S.set(more=1)),
]


@pytest.mark.parametrize("removal", every(2, REMOVALS))
async def test_what_a_segment_removes_is_gone(removal: Callable[[], Expr[Any]]) -> None:
    """A key that a segment removes without a look at it is gone from the session, wherever it runs."""
    made = S.set(note="n") >> removal().execution_boundary()
    states = [dict((await made.run("Go", backend=backend)).state) for _, backend in backends({})]
    assert "note" not in states[0]
    assert states[0] == states[1]


@declares(reads=["result"])
def always(state: Mapping[str, Any]) -> bool:
    """A condition."""
    return True


async def test_a_segment_waits_for_a_person_and_goes_on() -> None:
    """Confirmations and gates in segments are answered as anywhere; nothing that is done is done again."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    worker = heavy.tool(pay, require_confirmation=True)
    made = clerk >> worker >> gate(always, message="Tell them?") >> mail
    script = {"clerk": "a", "heavy": [call_tool("pay", amount=3), "b"], "mail": "c"}
    seen: list[list[Any]] = []
    for mock, backend in backends(script):
        paid.clear()
        result: RunResult[Any] = await made.run("Go", backend=backend)
        asked = [result.pending[0].message]
        while result.pending:
            approvals = {result.pending[0].id: True}
            result = await made.resume(session_id=result.session_id, approvals=approvals, backend=backend)
            asked += [pending.message for pending in result.pending]
        calls = {name: len(requests) for name, requests in mock.calls.items()}
        seen.append([asked, list(paid), calls, result.text, dict(result.state)])
    assert seen[0] == seen[1]
    assert seen[1][:2] == [["Run pay(amount=3)?", "Tell them?"], [3]]


@pytest.mark.parametrize("shape", ["at once", "in turn"])
async def test_a_segment_waits_for_every_kind_and_is_answered_one_by_one(shape: str) -> None:
    """What was answered stays answered, what was not waits on, and the segment behind runs after the last."""
    in_turn = desk() >> Mail(KEY).reader("mail") >> gate(lambda s: True, message="Go?") >> Agent("last")
    inside: Expr[Any] = {"at once": all_kinds(), "in turn": in_turn}[shape].named("part")
    made = clerk >> inside.execution_boundary() >> B
    seen: list[Any] = []
    for mock in (mock_backend({}, default=every_kind), mock_backend({}, default=every_kind)):
        backend: Any = DistributedBackend(mock) if seen else mock
        result: RunResult[Any] = await made.run("Go", backend=backend)
        rounds = 0
        while result.pending:
            rounds += 1
            answers = {result.pending[0].id: GIVEN[result.pending[0].kind]}
            result = await made.resume(session_id=result.session_id, answers=answers, backend=backend)
        calls = {name: len(requests) for name, requests in mock.calls.items()}
        seen.append((rounds, calls, result.text))
    assert seen[0] == seen[1]
    assert seen[1][::2] == ({"at once": 4, "in turn": 3}[shape], "ok")


async def test_pieces_of_answers_arrive_as_they_are_made() -> None:
    """A stream gives the pieces of an answer of a segment, and then the whole, once."""
    for _, backend in backends({"clerk": "a", "heavy": "b", "mail": "one two"}):
        events = [event async for event in pipeline.stream("Go", backend=backend) if event.author == "mail"]
        assert [event.content for event in events if event.is_final] == ["one two"]
        assert events[0].is_partial


async def test_a_conversation_goes_on_over_turns() -> None:
    """A segment hears of earlier turns what its agents are shown, as in one piece."""
    for mock, backend in backends({"clerk": "a", "heavy": ["b1", "b2"], "mail": "c"}):
        async with pipeline.session(backend=backend) as chat:
            await chat.send("one")
            await chat.send("two")
        asked = str(mock.calls["heavy"][1].contents)
        assert "one" in asked
        assert "b1" in asked


async def test_a_time_limit_holds_across_segments() -> None:
    """`timeout_seconds` of a configuration stops a run wherever it is."""
    config = ExecutionConfig(timeout_seconds=0.05)
    for _, backend in backends({"clerk": "a", "heavy": Hang()}):
        with pytest.raises(AgentTimeoutError):
            await pipeline.run("Go", backend=backend, config=config)


async def test_what_cannot_be_cut_is_refused_before_anything_runs() -> None:
    """In one process the boundary is left out, with a warning of the check; segments refuse it by name."""
    made = (clerk >> heavy) * 2
    script = mock_backend({"clerk": "a", "heavy": "b"})
    assert [issue.code for issue in made.check().warnings] == ["boundary-uncuttable"]
    assert (await made.run("Go", backend=script)).text == "b"
    with pytest.raises(BoundaryError, match="inside the loop"):
        await made.run("Go", backend=DistributedBackend(mock_backend({"clerk": "a", "heavy": "b"})))


async def test_a_segment_runs_and_resumes_by_itself() -> None:
    """Its app runs on ADK's own runner, given its inputs as state, and its expression pauses and resumes."""
    _, second, _ = split(pipeline)
    app = second.app
    agent: Any = app.root_agent
    agent.sub_agents[0].model = mock_backend({"heavy": "b"}).model_for(AgentNode(name="heavy"), "heavy")
    runner = InMemoryRunner(app=app)
    session = await runner.session_service.create_session(
        app_name=app.name, user_id="u", state={"intent": "refund"}
    )
    said = types.Content(role="user", parts=[types.Part(text="Go")])
    events = [e async for e in runner.run_async(user_id="u", session_id=session.id, new_message=said)]
    assert [e.actions.state_delta for e in events if e.content] == [{"result": "b"}]

    alone: Expr[Any] = split(clerk >> heavy >> gate(always, message="On?"))[1].expression
    backend = mock_backend({"heavy": "b"})
    paused = await alone.run("Go", state={"intent": "x"}, backend=backend)
    approvals = {paused.pending[0].id: True}
    done = await alone.resume(session_id=paused.session_id, approvals=approvals, backend=backend)
    assert done.state["result"] == "b"


class Heard(Middleware):
    """Notes which agents begin and end."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def before_agent(self, ctx: Context, agent_name: str) -> None:
        self.names.append(f"{agent_name} begins")

    async def after_agent(self, ctx: Context, agent_name: str) -> None:
        self.names.append(f"{agent_name} ends")


async def test_hooks_hear_of_the_agents_of_the_user_alone() -> None:
    """What stands for a segment is nobody's agent: hooks hear of each agent once, wherever it runs."""
    told: list[list[str]] = []
    for _, backend in backends({"clerk": "a", "heavy": "b", "mail": "c"}):
        heard = Heard()
        await (clerk >> heavy >> mail).middleware(heard).run("Go", backend=backend)
        told.append([name for name in heard.names if not name.startswith("to_")])
    assert Counter(told[0]) == Counter(told[1])


async def test_stored_events_are_those_of_a_run_in_one_piece() -> None:
    """A session keeps no marks of who should see an event, which are put on copies on their way out."""
    for _, backend in backends({"clerk": "a", "heavy": "b", "mail": "c"}):
        sessions = InMemorySessionService()
        result = await pipeline.run("Go", backend=backend, session_service=sessions)
        stored = await sessions.get_session(
            app_name="adk_fluent_app", user_id="user", session_id=result.session_id
        )
        assert stored is not None
        assert [event.custom_metadata for event in stored.events if event.content] == [None] * 4
