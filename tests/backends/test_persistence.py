"""What is stored: state over turns on every session service, sessions, rewinding, and resuming elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent import Agent, FanOut, Pipeline, S, gate, map_over
from adk_fluent.backends.events import BEGINNING
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import SessionError
from adk_fluent.testing import call_tool, mock_backend
from tests import processes
from tests.backends.support import (
    SERVICES,
    close,
    play,
    raises_from,
    said,
    script,
    seen,
    session_service,
    speakers,
    system,
)
from tests.limits import last_words, line_with

A, B, C = Agent("a"), Agent("b"), Agent("c")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=SERVICES)
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseSessionService]:
    """Each of ADK's session services in turn."""
    made = session_service(request.param, tmp_path)
    yield made
    await close(made)


async def stored(service: BaseSessionService, session_id: str = "s") -> dict[str, Any]:
    """The state that the service really holds, without what is absent."""
    session = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id=session_id)
    assert session is not None
    return {key: value for key, value in session.state.items() if value is not None}


async def turns(service: BaseSessionService, *expressions: Any, state: Any = None) -> dict[str, Any]:
    """Run these expressions, one turn each, and give what is stored afterwards."""
    for index, expression in enumerate(expressions):
        start = {"state": state} if state and not index else {}
        await play(expression, session_id="s", session_service=service, **start)
    return await stored(service)


async def test_a_counter_counts_over_turns(service: BaseSessionService) -> None:
    """Three turns of a counter give three."""
    assert await turns(service, *[S.counter("n")] * 3) == {"n": 3}


async def test_adjacent_transforms_lose_nothing(service: BaseSessionService) -> None:
    """Of several transforms in a row, every write is stored."""
    steps = (
        S.set(a=1, items=[1, 2], name="x")
        >> S.compute(b=lambda s: s["a"] + 1)
        >> S.counter("n", step=2)
        >> S.accumulate("name", into="names")
        >> S.history("name")
        >> S.merge("a", "b", into="joined")
        >> S.default(a=9, d="default")
        >> S.transform("items", lambda items: [*items, 3])
    )
    once = {"a": 1, "b": 2, "name": "x", "joined": "1\n2", "d": "default"}
    assert await turns(service, steps >> A) == once | {
        "n": 2, "items": [1, 2, 3], "names": ["x"], "name_history": ["x"]
    }  # fmt: skip
    assert await turns(service, steps >> A) == once | {
        "n": 4, "items": [1, 2, 3], "names": ["x", "x"], "name_history": ["x", "x"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("step", "left"),
    [
        (S.drop("x"), {"y": 2, "d": {"k": 1}}),
        (S.drop("x", "d"), {"y": 2}),
        (S.pick("y"), {"y": 2}),
        (S.pick("nothing"), {}),
        (S.rename(x="z"), {"z": 1, "y": 2, "d": {"k": 1}}),
        (S.rename(x="y", y="x"), {"x": 2, "y": 1, "d": {"k": 1}}),
        (S.drop("x") >> S.set(x=5), {"x": 5, "y": 2, "d": {"k": 1}}),
        (S.flatten("d"), {"x": 1, "y": 2, "d.k": 1}),
        (S.flatten("d") >> S.unflatten(), {"x": 1, "y": 2, "d": {"k": 1}}),
    ],
)
async def test_what_is_removed_stays_removed(service: BaseSessionService, step: Any, left: Any) -> None:
    """A removed key is absent in the turn that removes it, in the store, and in the next turn."""
    look: list[dict[str, Any]] = []

    def note(state: Any) -> None:
        look.append(dict(state))

    first = S.set(x=1, y=2, d={"k": 1})
    assert await turns(service, first, step.tap(note)) == left
    assert look == [left]
    await turns(service, Pipeline("p", note))
    assert look[1] == left


async def test_a_smaller_dict_replaces_a_larger_one(service: BaseSessionService) -> None:
    """Writing a dict stores that dict, without keys of the one before."""
    first = S.set(d={"x": 1, "y": {"z": 1, "w": 2}}, e={"x": 1})
    assert await turns(service, first, S.set(d={"x": 5, "y": {"z": 3}}, e={})) == {
        "d": {"x": 5, "y": {"z": 3}},
        "e": {},
    }


async def test_scopes_reach_as_far_as_they_say(service: BaseSessionService) -> None:
    """`user:` keys reach the user's other sessions, `app:` keys everybody's; `temp:` is never stored."""
    values = {"x": 1, "user:u": 2, "app:a": 3, "temp:t": 4}
    await play(S.set(**values), session_service=service, session_id="one", user_id="ann")
    for user, session, expected in (
        ("ann", "two", {"user:u": 2, "app:a": 3}),
        ("bob", "three", {"app:a": 3}),
        ("ann", "one", {"x": 1, "user:u": 2, "app:a": 3}),
    ):
        result = await play(A, session_service=service, session_id=session, user_id=user)
        assert result.state == expected


async def test_initial_state_of_every_scope(service: BaseSessionService) -> None:
    """`state=` may hold keys of every scope, for a new session and for one that exists."""
    values = {"x": 1, "user:u": 2, "app:a": 3, "temp:t": 4}
    look: list[dict[str, Any]] = []
    note = Pipeline("p", lambda s: look.append(dict(s)))
    for session_id in ("new", "new"):
        await play(note, session_service=service, session_id=session_id, state=values)
    assert look == [values, values]
    assert await stored(service, "new") == {"x": 1, "user:u": 2, "app:a": 3}


async def test_answers_are_stored(service: BaseSessionService) -> None:
    """What an agent writes is stored, and the next turn reads it and sees the conversation."""
    backend = script({"a": "blue"})
    await A.writes("colour").run("first", backend=backend, session_service=service, session_id="s")
    backend = script()
    await B.instruct("{colour}").run("second", backend=backend, session_service=service, session_id="s")
    assert "blue" in system(backend.calls["b"][0])
    assert "first" in seen(backend.calls["b"][0])


async def test_fan_outs_store_every_branch(service: BaseSessionService) -> None:
    """Branches that write at the same time lose nothing."""
    branches = [Pipeline(f"p{n}", S.set(**{f"k{n}": n}), S.counter(f"c{n}")) for n in range(5)]
    expected = {f"k{n}": n for n in range(5)} | {f"c{n}": 2 for n in range(5)}
    assert await turns(service, FanOut(*branches), FanOut(*branches)) == expected


async def test_maps_store_their_answers(service: BaseSessionService) -> None:
    """The answers of a map are stored, its item is not."""
    state = await turns(service, map_over("items", A), state={"items": [1, 2]})
    assert state == {"items": [1, 2], "results": ["ok", "ok"]}


async def test_gates_resume_from_every_service(service: BaseSessionService) -> None:
    """A paused run goes on from what the service holds, with a freshly compiled expression."""

    def expression() -> Any:
        inner = FanOut(Pipeline("l", A, gate(lambda s: True), B), Pipeline("r", S.counter("n")))
        return Pipeline("outer", S.set(x=1), inner, C)

    first = await play(expression(), session_service=service, session_id="s")
    assert speakers(first) == ["a"]
    result = await expression().resume(
        session_id="s", approvals={first.pending[0].id: True}, session_service=service, backend=script()
    )
    assert speakers(result) == ["b", "c"]
    assert result.state == {"x": 1, "n": 1}


async def test_rewinding_restores_the_state(service: BaseSessionService) -> None:
    """After rewinding to before a run, the state is what it was, and later runs go on from there."""
    expression = S.counter("n") >> A.writes("said")
    runs = [
        await play(expression, {"a": f"answer {n}"}, session_service=service, session_id="s")
        for n in range(3)
    ]
    await expression.rewind(
        session_id="s", before_invocation_id=runs[1].invocation_id, session_service=service
    )
    assert await stored(service) == {"n": 1, "said": "answer 0"}
    assert (await play(expression, session_service=service, session_id="s")).state == {"n": 2, "said": "ok"}


async def test_rewinding_removes_what_the_run_added(service: BaseSessionService) -> None:
    """A key that the undone run wrote first is absent afterwards, and its conversation is not seen again."""
    await play(A, session_service=service, session_id="s", prompt="kept")
    run = await play(S.set(new=1) >> A, session_service=service, session_id="s", prompt="undone")
    await A.rewind(session_id="s", before_invocation_id=run.invocation_id, session_service=service)
    assert await stored(service) == {}
    backend = script()
    await B.run("next", backend=backend, session_service=service, session_id="s")
    assert "kept" in seen(backend.calls["b"][0])
    assert "undone" not in seen(backend.calls["b"][0])


@pytest.mark.parametrize("creator", ["run", "session", "create_session"])
async def test_rewinding_keeps_what_a_session_began_with(creator: str, service: BaseSessionService) -> None:
    """Values that a session was created with are there after a rewind, also if runs have changed them."""
    start: dict[str, Any] = {"x": 1, "y": {"z": [1], "w": True}}
    on: dict[str, Any] = {"session_id": "s", "session_service": service}
    place = {"app_name": "adk_fluent_app", "user_id": "user", "session_id": "s"}
    changes = S.set(x=2, new=3) >> A
    given: dict[str, Any] = {}
    if creator == "create_session":
        await service.create_session(**place, state=start)
    else:
        given = {"state": start}
    if creator == "session":
        async with changes.session(**on, **given, backend=script()) as chat:
            first = await chat.send("hi")
    else:
        first = await play(changes, **on, **given)
    second = await play(S.set(x=4, y={"w": 1}) >> A, **on)
    assert await stored(service) == {"x": 4, "y": {"w": 1}, "new": 3}
    await A.rewind(before_invocation_id=second.invocation_id, **on)
    after = await stored(service)
    assert json.dumps(after, sort_keys=True) == json.dumps({**start, "x": 2, "new": 3}, sort_keys=True)
    third = await play(S.set(y=None) >> A, **on)
    await A.rewind(before_invocation_id=third.invocation_id, **on)
    assert await stored(service) == {**start, "x": 2, "new": 3}
    await A.rewind(before_invocation_id=first.invocation_id, **on)
    assert await stored(service) == start


async def test_a_rewind_leaves_what_other_sessions_share(service: BaseSessionService) -> None:
    """Keys of the user and of the app stay as they are, as in ADK; those of the session go back."""
    given: dict[str, Any] = {"x": 1, "user:u": 1, "app:a": 1}
    on: dict[str, Any] = {"session_id": "s", "session_service": service}
    run = await play(S.set(x=2, **{"user:u": 2, "app:a": 2}) >> A, state=given, **on)
    await A.rewind(before_invocation_id=run.invocation_id, **on)
    assert await stored(service) == {"x": 1, "user:u": 2, "app:a": 2}


async def test_rewinding_natively(service: BaseSessionService) -> None:
    """`rewind_async` of the Runner that `to_runner` makes gives the same; an unknown run is ADK's error."""
    runner = (S.set(x=2) >> A).to_runner(session_service=service)
    place: Any = {"user_id": "user", "session_id": "s"}
    await service.create_session(app_name=runner.app_name, **place, state={"x": 1})
    events = await play(S.set(x=2), session_service=service, session_id="s", app_name=runner.app_name)
    await runner.rewind_async(**place, rewind_before_invocation_id=events.invocation_id)
    session = await service.get_session(app_name=runner.app_name, **place)
    assert session is not None
    assert session.state == {"x": 1}
    with pytest.raises(ValueError, match="Invocation ID not found: nope"):
        await runner.rewind_async(**place, rewind_before_invocation_id="nope")


async def test_a_run_that_begins_at_the_same_time_undoes_nothing(service: BaseSessionService) -> None:
    """Of two first runs of a session that was created with state, neither writes that state again."""
    place: dict[str, Any] = {"app_name": "adk_fluent_app", "user_id": "user", "session_id": "s"}
    await service.create_session(**place, state={"x": 1})
    late = await service.get_session(**place)
    await play(S.set(x=2), session_service=service, session_id="s")
    note = Event(invocation_id="late", author="user", custom_metadata={BEGINNING: {"x": 1}})
    assert late is not None
    with suppress(ValueError):  # a store on disk refuses the late one
        await service.append_event(session=late, event=note)
    assert (await stored(service))["x"] == 2


async def test_rewinding_an_unknown_run() -> None:
    """A run that is not in the session is an error that lists those that are."""
    run = await play(A, session_id="rewind-known")
    with pytest.raises(
        SessionError, match=rf"'rewind-known' has no run 'nope'; it has \['{run.invocation_id}'\]"
    ):
        await A.rewind(session_id="rewind-known", before_invocation_id="nope")


async def test_rewinding_an_unknown_session() -> None:
    """A session that does not exist is an error that names it, the user and the app."""
    with pytest.raises(SessionError, match=r"no session 'nowhere' of user 'ann' in app 'shop'"):
        await A.rewind(session_id="nowhere", before_invocation_id="x", user_id="ann", app_name="shop")


# --- sessions -------------------------------------------------------------------------------------


async def test_a_session_is_created_when_missing(service: BaseSessionService) -> None:
    """Running in a session that does not exist yet creates it under the id given."""
    result = await play(A, session_id="fresh", session_service=service)
    assert result.session_id == "fresh"
    assert await stored(service, "fresh") == {}


async def test_each_run_without_an_id_has_its_own_session() -> None:
    """Without `session_id` two runs do not see each other, and the result says where each ran."""
    one, two = await play(S.counter("n")), await play(S.counter("n"))
    assert one.session_id != two.session_id
    assert (one.state, two.state) == ({"n": 1}, {"n": 1})
    assert (await play(S.counter("n"), session_id=one.session_id)).state == {"n": 2}


async def test_app_and_user_tell_sessions_apart() -> None:
    """The same id is another session for another user or app."""
    places: list[dict[str, Any]] = [
        {},
        {"user_id": "ann"},
        {"app_name": "shop"},
        {"user_id": "ann", "app_name": "shop"},
    ]
    for place in places:
        assert (await play(S.counter("n"), session_id="same-id", **place)).state == {"n": 1}
    for place in places:
        assert (await play(S.counter("n"), session_id="same-id", **place)).state == {"n": 2}


async def test_the_app_name_of_the_configuration() -> None:
    """`ExecutionConfig(app_name=)` is used, and `app_name=` goes before it."""
    service = InMemorySessionService()
    config = ExecutionConfig(app_name="configured")
    await play(A, config=config, session_service=service, session_id="s")
    await play(A, config=config, app_name="given", session_service=service, session_id="s")
    for app in ("configured", "given"):
        assert await service.get_session(app_name=app, user_id="user", session_id="s") is not None


async def test_a_conversation() -> None:
    """`session()` keeps one session over its turns: state, history and id."""
    expression = S.counter("n") >> A
    backend = script({"a": ["first", "second"]})
    async with expression.session(backend=backend) as chat:
        one = await chat.send("hello")
        two = await chat.send("and?")
    assert (one.text, two.text) == ("first", "second")
    assert (one.state["n"], two.state["n"]) == (1, 2)
    assert one.session_id == two.session_id == chat.session_id
    assert "hello" in seen(backend.calls["a"][1])
    assert "first" in seen(backend.calls["a"][1])


async def test_a_conversation_starts_with_state_once() -> None:
    """The initial state of a conversation is written before its first turn, not before each."""
    async with S.counter("n").session(state={"n": 5}) as chat:
        assert [(await chat.send("go")).state["n"] for _ in range(3)] == [6, 7, 8]


async def test_a_conversation_in_a_session_of_ones_own() -> None:
    """`session(session_id=)` goes on where another run left off."""
    first = await play(S.counter("n"))
    async with S.counter("n").session(session_id=first.session_id) as chat:
        assert (await chat.send("go")).state["n"] == 2


async def test_every_service_is_used() -> None:
    """Sessions, artifacts, memory and credentials go to the services given."""
    artifacts, memory, sessions = InMemoryArtifactService(), InMemoryMemoryService(), InMemorySessionService()
    got: dict[str, Any] = {}

    async def look(tool_context: ToolContext) -> str:
        """Use each service."""
        await tool_context.save_artifact("a.txt", types.Part(text="content"))
        context = tool_context._invocation_context  # pyright: ignore[reportPrivateUsage]  # to see what ADK got
        got.update(memory=context.memory_service, credentials=context.credential_service)
        return "done"

    credentials = InMemoryCredentialService()
    await play(
        A.tool(look),
        {"a": [call_tool("look"), "done"]},
        session_id="s",
        session_service=sessions,
        artifact_service=artifacts,
        memory_service=memory,
        credential_service=credentials,
    )
    assert got == {"memory": memory, "credentials": credentials}
    place: dict[str, Any] = {"app_name": "adk_fluent_app", "user_id": "user", "session_id": "s"}
    assert await artifacts.list_artifact_keys(**place) == ["a.txt"]
    assert await sessions.get_session(**place) is not None


async def test_services_of_the_backend_are_used() -> None:
    """A backend's own services are used unless the run gives others."""
    own, given = InMemorySessionService(), InMemorySessionService()
    backend = mock_backend(default="ok", session_service=own)
    await A.run("hi", backend=backend, session_id="s")
    await A.run("hi", backend=backend, session_id="t", session_service=given)
    place: dict[str, Any] = {"app_name": "adk_fluent_app", "user_id": "user"}
    assert [s.id for s in (await own.list_sessions(**place)).sessions] == ["s"]
    assert [s.id for s in (await given.list_sessions(**place)).sessions] == ["t"]


async def test_asking_leaves_no_session_behind() -> None:
    """`ask_async` and `map` delete the sessions that nobody can name; a service of one's own keeps them."""
    from adk_fluent.backends.adk.running.runner import shared_services

    shared = shared_services().session_service
    assert shared is not None
    await A.ask_async("hi", backend=script(), app_name="asking")
    await A.map(["hi"] * 3, backend=script(), app_name="asking")
    with raises_from(RuntimeError):
        await A.ask_async("hi", backend=script({"a": RuntimeError("no")}), app_name="asking")
    assert (await shared.list_sessions(app_name="asking", user_id="user")).sessions == []
    own = InMemorySessionService()
    await A.ask_async("hi", backend=script(), session_service=own)
    assert len((await own.list_sessions(app_name="adk_fluent_app", user_id="user")).sessions) == 1


# --- another process ------------------------------------------------------------------------------

PROGRAM = '''
import asyncio, json, os, signal, sys
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over
from adk_fluent.testing import call_tool, mock_backend

folder, answers = sys.argv[1], json.loads(sys.argv[2])

def expression(note):
    """The shapes that pause, each noting what really happens."""
    def pay(amount: int) -> str:
        """Pay."""
        note(f"paid {amount}")
        return "paid"

    before, a, b, c, after = map(Agent, ("before", "a", "b", "c", "after"))
    asks = gate(lambda s: True, message="go on?")
    paying = Agent("payer").tool(pay, require_confirmation=True)
    route = Route().when(lambda s: True, Pipeline("p", S.counter("n"), (asks >> a) // b))
    branches = FanOut("f", Pipeline("x", a, asks), Pipeline("y", paying, b), c)
    return {
        "gate": before >> S.counter("n") >> asks >> after,
        "tool": before >> S.counter("n") >> paying >> after,
        "nested": before >> Loop("l", route, max_iterations=1).timeout(60) >> after,
        "branches": before >> S.counter("n") >> branches >> after,
        "items": before >> S.counter("n") >> S.set(items=[1, 2]) >> map_over("items", asks >> a) >> after,
    }

def scripted(note):
    def answer(name):
        def respond(request):
            note(name)
            return f"from {name}"
        return respond

    def payer(request):
        done = any(p.function_response for c in request.contents for p in c.parts or [])
        note("payer again" if done else "payer")
        return "from payer" if done else call_tool("pay", amount=5)

    return mock_backend({**{n: answer(n) for n in ("before", "a", "b", "c", "after")}, "payer": payer})

async def run(shape, service):
    def note(text):
        with open(f"{folder}/{shape}.log", "a") as file:
            print(text, file=file, flush=True)

    pipeline, options = expression(note)[shape], dict(backend=scripted(note), session_service=service)
    if shape in answers:
        result = await pipeline.resume(session_id=shape, approvals=answers[shape], **options)
    else:
        result = await pipeline.run("hi", session_id=shape, state={"n": 10}, **options)
    return {"pending": [p.id for p in result.pending], "n": result.state["n"]}

async def main():
    service = SqliteSessionService(f"{folder}/sessions.db")
    found = {shape: await run(shape, service) for shape in expression(print)}
    print(json.dumps(found), flush=True)
    if not answers:
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
'''


def in_a_process(folder: Path, answers: object) -> tuple[int, dict[str, Any], dict[str, list[str]]]:
    """Run the program above: its exit code, what it printed, and what each shape has noted so far."""
    done = processes.run(PROGRAM, folder, json.dumps(answers))
    assert done.stdout, done.stderr
    logs = {path.stem: path.read_text().splitlines() for path in folder.glob("*.log")}
    return done.returncode, json.loads(done.stdout), logs


@pytest.fixture(scope="module")
def killed_and_resumed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What every shape did in a process that was killed while they waited, and in one that resumed them."""
    folder = tmp_path_factory.mktemp("processes")
    first = in_a_process(folder, {})
    answers = {shape: dict.fromkeys(found["pending"], True) for shape, found in first[1].items()}
    return first, in_a_process(folder, answers)


@pytest.mark.parametrize(
    ("shape", "waiting", "logged"),
    [
        ("gate", 1, ["before", "after"]),
        ("tool", 1, ["before", "payer", "paid 5", "payer again", "after"]),
        ("nested", 1, ["before", "a", "after"]),
        ("branches", 2, ["before", "a", "c", "payer", "paid 5", "payer again", "b", "after"]),
        ("items", 2, ["before", "a", "a", "after"]),
    ],
)
def test_a_killed_process_is_resumed_by_another(
    killed_and_resumed: Any, shape: str, waiting: int, logged: list[str]
) -> None:
    """A run that paused in a process which was killed goes on in another, and nothing is run twice."""
    (code, first, early), (second_code, second, log) = killed_and_resumed
    assert (code, second_code) == (-signal.SIGKILL, 0)
    assert len(first[shape]["pending"]) == waiting
    assert "after" not in early[shape]
    assert second[shape] == {"pending": [], "n": 11}
    assert log[shape][: len(early[shape])] == early[shape]
    assert sorted(log[shape]) == sorted(logged)
    assert log[shape][-1] == "after"


# Warnings are errors, but for what early releases of Python 3.12 say of the placeholders in ADK's SQL.
STRICT = ("-W", "error", "-W", "ignore:Binding:DeprecationWarning")

INTERRUPTED = """
import asyncio, sys
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from adk_fluent import Agent, S
from adk_fluent.testing import mock_backend

async def endless(request):
    print("waiting", flush=True)
    while True:  # a loop that never wakes misses a signal that comes just before it waits
        await asyncio.sleep(0.05)
    yield ""

expression = S.counter("n") >> Agent("a").writes("said") >> Agent("b")
backend = mock_backend({"a": "hello", "b": endless})
expression.ask("hi", backend=backend, session_service=SqliteSessionService(sys.argv[1]), session_id="s")
"""


async def test_interrupting_a_run_leaves_the_session_intact(tmp_path: Path) -> None:
    """Ctrl-C in the middle of `ask` ends the process at once, and what was done before is stored."""
    process = subprocess.Popen(
        [sys.executable, *STRICT, "-c", INTERRUPTED, str(tmp_path / "sessions.db")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert line_with("", process) == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, errors = last_words(process)
    assert process.returncode in (-signal.SIGINT, 1, 130)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "never" not in errors
    service = session_service("sqlite", tmp_path)
    assert await stored(service) == {"n": 1, "said": "hello"}
    again = await play(S.counter("n") >> A, session_service=service, session_id="s")
    assert again.state["n"] == 2
    assert said(again) == [("a", "ok")]
