"""Recordings of runs with a past: artifacts that were there, earlier turns, caches that were filled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.genai.types import Blob, Part

from adk_fluent import A, Agent, C, FanOut, S, T, gate
from adk_fluent.debug import Recorder, Recording, ReplayerBackend, diff_recordings
from adk_fluent.errors import RecordingError, ReplayError
from adk_fluent.eval import FluentEvalSuite
from adk_fluent.middleware import cache
from adk_fluent.testing import call_tool, mock_backend

NOTE = "note.txt"


async def save(text: str, tool_context: Any) -> str:
    """Save a note."""
    await tool_context.save_artifact(NOTE, Part(text=text))
    return "saved"


async def save_and_fail(text: str, tool_context: Any) -> str:
    """Save a note, and fail."""
    await save(text, tool_context)
    raise ValueError("the disk is full")


async def load(tool_context: Any) -> str:
    """Load the note."""
    part = await tool_context.load_artifact(NOTE)
    return "" if part is None else part.text


async def recorded(
    expression: Any,
    script: Mapping[str, Any],
    *,
    turns: int = 1,
    before: Iterable[tuple[str, Part]] = (),
) -> Recording:
    """A recording of turns in a session that has these artifacts, as it is read from its file."""
    tape, backend, service = Recorder(), mock_backend(script), InMemoryArtifactService()
    place: Any = {"app_name": "adk_fluent_app", "user_id": "user", "session_id": "s"}
    for filename, part in before:
        await service.save_artifact(**place, filename=filename, artifact=part)
    for turn in range(turns):
        await tape.install(expression).run(
            f"turn {turn}", backend=backend, session_id="s", artifact_service=service
        )
    return Recording.from_json(tape.get_recording().to_json())


def saving(text: str) -> Any:
    """A call of a tool that saves a note, and what is said then."""
    return [call_tool("save", text=text), "done"]


OLD = [
    (NOTE, Part(text="old")),
    (NOTE, Part(text="new")),
    ("user:face.png", Part(inline_data=Blob(data=b"\0\1\xff", mime_type="image/png"))),
]
READER = Agent("reader").instruct("Read {artifact.note.txt}.")
SAVED: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "an instruction": (Agent("a").tool(save) >> READER, {"a": saving("x"), "reader": "read"}),
    "an operation": (
        Agent("a").tool(save) >> A.snapshot(NOTE, into_key="n") >> Agent("b").instruct("{n}"),
        {"a": saving("x"), "b": "read"},
    ),
    "two at once": (
        FanOut(Agent("a").tool(save), Agent("b").tool(save)) >> READER.context(C.none()),
        {"a": saving("x"), "b": saving("y"), "reader": "read"},
    ),
    "a tool that fails": (
        Agent("a").tool(save_and_fail) // READER,
        {"a": call_tool("save_and_fail", text="x"), "reader": "read"},
    ),
    "an agent as tool": (
        Agent("a").tools(T.agent(Agent("inner").tool(save))) >> READER,
        {"a": [call_tool("inner", request="go"), "done"], "inner": saving("x"), "reader": "read"},
    ),
    "a model": (
        Agent("a").tools(A.tool.save()) >> READER,
        {"a": [call_tool("save_artifact", filename=NOTE, content="x"), "done"], "reader": "read"},
    ),
    "a step": (
        Agent("a").writes("n") >> A.publish(NOTE, from_key="n") >> Agent("b").tool(load),
        {"a": "x", "b": [call_tool("load"), "done"]},
    ),
}
THERE: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "an instruction": (READER, {"reader": "read"}),
    "a version": (
        A.snapshot(NOTE, into_key="n", version=0) >> A.version(NOTE, "v") >> Agent("b").instruct("{n} {v}"),
        {"b": "read"},
    ),
    "all names": (A.list("all") >> Agent("b").instruct("{all}"), {"b": "read"}),
    "an image": (Agent("b").context(C.default() + A.for_llm("user:face.png")), {"b": "seen"}),
    "a deleted one": (
        A.load(NOTE) >> A.delete(NOTE) >> Agent("b").instruct("{artifact.note.txt?}"),
        {"b": "ok"},
    ),
    "a model": (
        Agent("b").tools(A.tool.load()),
        {"b": [call_tool("load_artifacts", artifact_names=[NOTE]), "read"]},
    ),
    "a new version": (
        Agent("a").instruct("{artifact.note.txt}").tool(save) >> A.version(NOTE, "v"),
        {"a": [*saving("x"), *saving("y")]},
    ),
}


@pytest.mark.parametrize("name", SAVED)
async def test_a_replay_has_what_was_saved(name: str) -> None:
    """What a tool, a model or a step saved is there in a replay for all that read it."""
    expression, script = SAVED[name]
    recording = await recorded(expression, script)
    again = await recording.replay(expression)
    assert str(diff_recordings(recording, again)).startswith("No difference")
    assert recording.saved_artifacts() == again.saved_artifacts()


@pytest.mark.parametrize("name", THERE)
async def test_a_replay_has_the_artifacts_that_were_there(name: str) -> None:
    """A recording holds the artifacts of the session and of its user that a run came upon, in each turn."""
    expression, script = THERE[name]
    recording = await recorded(
        expression, script, before=OLD, turns=1 if name in ("a deleted one", "a model") else 2
    )
    again = await recording.replay(expression)
    assert str(diff_recordings(recording, again)).startswith("No difference")
    assert not diff_recordings(recording, await again.replay(expression))


async def test_an_artifact_that_was_not_loaded_says_so() -> None:
    """A changed pipeline that loads another version reads that the recording has no content of it."""
    recording = await recorded(A.load(NOTE) >> Agent("b").instruct("{note}"), {"b": "read"}, before=OLD)
    backend = ReplayerBackend(recording, "skip")
    await (A.snapshot(NOTE, into_key="note", version=0) >> Agent("b").instruct("{note}")).run(
        "turn 0", backend=backend
    )
    (mismatch,) = backend.mismatches
    assert "note.txt, version 0, is not in the recording" in str(mismatch)


async def test_a_number_that_no_replay_counts_to_is_refused() -> None:
    """A service that numbers versions in its own way cannot be replayed, and the replay says so at once."""
    recording = await recorded(READER, {"reader": "read"}, before=OLD)
    text = recording.to_json().replace('"version": 1,\n', '"version": 1700000000,\n')
    with pytest.raises(RecordingError, match=r"note\.txt.*has the number 1700000000"):
        await Recording.from_json(text).replay(READER)


async def test_words_of_artifacts_are_content() -> None:
    """Without its content a recording has no content of artifacts; a secret in one is taken out."""
    for tape, held in (Recorder(capture_content=False), None), (Recorder(), {"text": "password=[redacted]"}):
        script = {"a": saving("password=hunter22x"), "reader": "read"}
        await tape.install(SAVED["an instruction"][0]).run("Hi", backend=mock_backend(script))
        ((artifact,),) = [call.artifacts for call in tape.get_recording().tool_interactions]
        assert artifact.part == held


async def test_a_case_saves_what_tools_saved() -> None:
    """In an evaluation, too, a tool saves what it saved; artifacts that were there before are refused."""
    expression, script = SAVED["an instruction"]
    recording = await recorded(expression, script)
    suite = FluentEvalSuite(expression, [recording.to_case()], metrics=["response_match_score"])
    report = await suite.run(backend=lambda: mock_backend(script), engine="light")
    assert report.passed, str(report)
    there = await recorded(*THERE["an instruction"], before=OLD)
    with pytest.raises(RecordingError, match=r"uses artifact 'note\.txt', which was there before"):
        there.to_case()


ECHO = Agent("a").writes("x") >> Agent("b").instruct("{x} {y?}")
ECHOES = {name: [f"{turn}{name}" for turn in range(4)] for name in "ab"}


async def same(recording: Recording, expression: Any, earlier: list[int]) -> Recording:
    """A recording as it is read from its file; replayed, and the replay again, it is equal."""
    recording = Recording.from_json(recording.to_json())
    again = await recording.replay(expression)
    for other in again, await again.replay(expression):
        assert str(diff_recordings(recording, other)).startswith("No difference")
        assert other.state_snapshots[-1] == recording.state_snapshots[-1]
        assert [len(run.earlier) for run in other.runs] == earlier
    return recording


async def test_a_recording_begins_in_the_middle_of_a_session() -> None:
    """It holds the turns before, also those between recorded ones, and a replay starts from them."""
    tape, backend = Recorder(), mock_backend(ECHOES)
    watched = tape.install(ECHO)
    await ECHO.run("0", backend=backend, session_id="s", state={"y": "Y", "user:z": 3})
    await watched.run("1", backend=backend, session_id="s")
    recording = await same(tape.get_recording(), ECHO, [3])
    result = await ECHO.run("1", backend=ReplayerBackend(recording))
    assert (result.text, result.state) == ("1b", {"x": "1a", "y": "Y", "user:z": 3})
    assert (await recording.resume(ECHO, at="a", backend=mock_backend({"b": "other"}))).text == "other"
    with pytest.raises(RecordingError, match=r"Run 1 .* had 3 events before"):
        recording.to_case()
    await ECHO.run("2", backend=backend, session_id="s")
    await watched.run("3", backend=backend, session_id="s")
    await same(tape.get_recording(), ECHO, [3, 3])


async def test_a_recording_begins_after_clear() -> None:
    """A recorder that is cleared begins a new recording in the session that goes on."""
    tape, backend = Recorder(), mock_backend(ECHOES)
    async with tape.install(ECHO).session(backend=backend) as session:
        await session.send("0")
        tape.clear()
        await session.send("1")
        await session.send("2")
    await same(tape.get_recording(), ECHO, [3, 0])


async def test_a_recording_begins_with_an_answer() -> None:
    """The question that a person answers may have been asked before the recording begins."""
    pipeline = Agent("a") >> gate(lambda s: True, message="Go on?", into="ok") >> Agent("b")
    tape, backend = Recorder(), mock_backend(ECHOES)
    (asked,) = (await pipeline.run("0", backend=backend, session_id="s")).pending
    await tape.install(pipeline).resume(session_id="s", approvals={asked.id: {"by": 1}}, backend=backend)
    recording = tape.get_recording()
    await same(recording, pipeline, [len(recording.runs[0].earlier)])


async def test_a_run_that_was_undone_is_undone_in_a_replay() -> None:
    """A rewind between recorded runs takes back what the first of them did, in a replay, too."""
    tape, backend = Recorder(), mock_backend(ECHOES)
    watched = tape.install(ECHO)
    await watched.run("0", backend=backend, session_id="s")
    first = await watched.run("1", backend=backend, session_id="s")
    await watched.rewind(session_id="s", before_invocation_id=first.invocation_id, backend=backend)
    await watched.run("2", backend=backend, session_id="s")
    await same(tape.get_recording(), ECHO, [0, 0, 1])


async def test_earlier_words_are_content() -> None:
    """Without its content, or its state, a recording has none of earlier turns; secrets are taken out."""
    for content, held in (False, []), (True, ["api_key=[redacted]"]):
        tape, backend = Recorder(capture_content=content, capture_state=False), mock_backend(ECHOES)
        await ECHO.run("api_key=hunter22x", backend=backend, session_id="s", state={"y": "Y"})
        await tape.install(ECHO).run("1", backend=backend, session_id="s")
        (run,) = tape.get_recording().runs
        assert [each["content"]["parts"][0]["text"] for each in run.earlier][:1] == held
        assert not any(each["actions"].get("state_delta") for each in run.earlier)


def slowly(request: object) -> AsyncIterator[str]:
    """An answer of several pieces, between which others have their turn."""

    async def answer() -> AsyncIterator[str]:
        for piece in range(9):
            await asyncio.sleep(0)
            yield f"{piece} "

    return answer()


async def waiting(tool_context: Any) -> str:
    """Never end."""
    tool_context.state["began"] = True
    await asyncio.get_running_loop().create_future()
    return ""


LEFT: Mapping[str, tuple[Any, Mapping[str, Any], int]] = {
    "in a piece": (ECHO, {"a": ["0", slowly, "2"], "b": ["0", "2"]}, 3),
    "after an event": (ECHO, {"a": ["0", "1", "2"], "b": ["0", "2"]}, 2),
    "before a step": (
        Agent("a") >> S.set(z=1) >> Agent("b"),
        {"a": ["0", "1", "2"], "b": ["0", "2"]},
        2,
    ),
    "in branches": (
        (Agent("a") | Agent("c")) >> Agent("b").context(C.none()),
        {"a": ["0", slowly, "2"], "c": ["0", slowly, "2"], "b": ["0", "2"]},
        5,
    ),
    "in a fallback": (
        Agent("a") // Agent("b"),
        {"a": ["0", slowly, "2"], "b": "never"},
        3,
    ),
}


@pytest.mark.parametrize("together", [True, False], ids=["one session", "three sessions"])
@pytest.mark.parametrize("name", LEFT)
async def test_a_client_that_disconnects_spoils_nothing(name: str, together: bool) -> None:
    """A run that is left in the middle is left there again, and the runs around it stay whole."""
    expression, script, pieces = LEFT[name]
    tape, backend = Recorder(), mock_backend(script)
    watched = tape.install(expression)
    sessions = ["s"] * 3 if together else [*"stu"]
    await watched.run("0", backend=backend, session_id=sessions[0])
    async with aclosing(watched.stream("1", backend=backend, session_id=sessions[1])) as events:
        async for _ in events:
            if (pieces := pieces - 1) == 0:
                break
    await watched.run("2", backend=backend, session_id=sessions[2])
    recording = await same(tape.get_recording(), expression, [0, 0, 0])
    assert [run.left for run in recording.runs] == [False, True, False]
    if together:
        with pytest.raises(RecordingError, match="Run 2 of this recording was left by its caller"):
            recording.to_case()


async def test_a_task_that_is_cancelled_spoils_nothing() -> None:
    """A run whose task is cancelled while a tool is at work is left there; played alone, it says so."""
    expression = Agent("a").tool(waiting) >> Agent("b")
    script = {"a": [call_tool("waiting"), "2"], "b": "2"}
    tape, backend = Recorder(), mock_backend(script)
    watched = tape.install(expression)
    task = asyncio.create_task(watched.run("1", backend=backend))
    while not tape.get_recording().tool_interactions:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await watched.run("2", backend=backend)
    recording = await same(tape.get_recording(), expression, [0, 0])
    assert [run.left for run in recording.runs] == [True, False]
    with pytest.raises(ReplayError, match="The caller of run 1 left it in the recording while agent 'a'"):
        await expression.run("1", backend=ReplayerBackend(recording))


def price(item: str) -> int:
    """Find the price of an item."""
    return len(item)


CACHED: Mapping[str, Any] = {
    "an agent": Agent("a").middleware(cache()) >> Agent("b").context(C.none()),
    "an expression": (Agent("a") >> Agent("b").context(C.none())).middleware(cache()),
    "a summary": Agent("a") >> Agent("b").context(C.summarize()).middleware(cache()),
    "a loop": (Agent("a").context(C.none()) * 3).middleware(cache()),
    "a tool": Agent("a").tools(T.cache(price)),
}


@pytest.mark.parametrize("cold", [True, False], ids=["cold", "warm"])
@pytest.mark.parametrize("name", CACHED)
async def test_a_replay_answers_what_a_cache_held(name: str, cold: bool) -> None:
    """A cache that was filled before the recording began changes nothing in its replay."""
    expression, tape = CACHED[name], Recorder()
    scripted = [call_tool("price", item="tea"), "done"] * 3 if name == "a tool" else "x"
    backend = mock_backend({"a": scripted, "b": "y", "b:summarize": "z"})
    if not cold:
        await expression.run("Hi", backend=backend)
    for _ in range(2):
        await tape.install(expression).run("Hi", backend=backend)
    await same(tape.get_recording(), expression, [0, 0])
