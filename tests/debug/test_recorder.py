"""What a `Recorder` notes, and that it only looks on."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pydantic import BaseModel, field_serializer

from adk_fluent import Agent, C, S, gate, race
from adk_fluent.debug import Recorder, Recording, diff_events, diff_recordings, pipeline_hash
from adk_fluent.debug.requests import plain, request_lines
from adk_fluent.errors import ReplayError, RunError
from adk_fluent.middleware import Middleware, pii_filter, recorder, retry
from adk_fluent.testing import call_tool, mock_backend
from tests.debug.pipelines import slowly

DRAFT = Agent("draft").writes("text")
EDIT = Agent("edit").instruct("Edit {text}.")


def look_up(order: str) -> dict[str, Any]:
    """Look an order up."""
    return {"order": order, "paid": True}


async def recorded(expression: Any, script: Any, prompt: str = "hi", **options: Any) -> Recording:
    """What a recorder notes of a run."""
    tape = Recorder()
    await expression.run(prompt, backend=mock_backend(script), middleware=[tape], **options)
    return tape.get_recording()


async def test_it_notes_requests_and_answers() -> None:
    """Of a model call are noted the agent, all that was sent, what was answered, and the keys it read."""
    tape = await recorded(DRAFT >> EDIT, {"draft": "Helo.", "edit": "Hello."})
    first, second = tape.get_llm_interactions()
    assert [(call.agent_name, call.call, call.response_content) for call in (first, second)] == [
        ("draft", 1, "Helo."),
        ("edit", 1, "Hello."),
    ]
    assert second.request["instruction"].startswith("Edit Helo.")
    assert first.request_content == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert (second.prompt, second.state) == (("Edit {text}.",), {"text": "Helo."})
    assert second.model == second.request["model"]
    assert second.latency_ms >= 0
    assert tape.get_llm_interactions("edit") == [second]


async def test_it_notes_events_and_the_state_after_each() -> None:
    """Every event stands with the state right after it, whatever the state was given."""
    tape = await recorded(S.set(n=1) >> DRAFT >> S.drop("n"), {"draft": "Hi."}, state={"k": [1]})
    assert [event.author for event in tape.events] == ["set", "draft", "drop"]
    assert tape.state_snapshots == (
        {"k": [1], "n": 1},
        {"k": [1], "n": 1, "text": "Hi."},
        {"k": [1], "text": "Hi."},
    )
    assert tape.runs[0].state == {"k": [1]}
    assert tape.runs[0].text == "hi"


async def test_it_notes_tools() -> None:
    """Of a tool call are noted the agent, the arguments, the result, and what the tool did to the state."""

    def keep(order: str, tool_context: Any) -> str:
        """Keep an order."""
        tool_context.state["kept"] = order
        return "kept"

    script = {"a": [call_tool("look_up", order="7"), call_tool("keep", order="7"), "done"]}
    tape = await recorded(Agent("a").tools(look_up, keep), script)
    one, other = tape.get_tool_interactions()
    assert (one.tool_name, one.agent_name, one.args) == ("look_up", "a", {"order": "7"})
    assert one.result == {"order": "7", "paid": True}
    assert one.actions == {}
    assert (other.result, other.actions) == ("kept", {"state_delta": {"kept": "7"}})
    assert one.call_id == tape.events[0].tool_calls[0].call_id
    assert tape.get_tool_interactions("keep") == [other]


async def test_it_notes_streams_piece_by_piece() -> None:
    """Each piece of a streamed answer is noted with when it came; the events are the whole ones."""
    tape = Recorder()
    stream = Agent("a").stream("hi", backend=mock_backend({"a": "one two"}), middleware=[tape])
    async with aclosing(stream) as events:
        partial = [event.content async for event in events if event.is_partial]
    (call,) = tape.get_recording().llm_interactions
    texts = [chunk.response["content"]["parts"][0]["text"] for chunk in call.chunks]
    assert texts == [*partial, "one two"] == ["one ", "two", "one two"]
    assert [chunk.response.get("partial") for chunk in call.chunks] == [True, True, None]
    assert [chunk.at for chunk in call.chunks] == sorted(chunk.at for chunk in call.chunks)
    assert [event.content for event in tape.get_recording().events] == ["one two"]
    assert tape.get_recording().runs[0].streaming


async def test_it_notes_what_contexts_ask() -> None:
    """A question of a context to a helper model is a call of its own, named after the operation."""
    reader = Agent("reader").context(C.summarize())
    tape = await recorded(DRAFT >> reader, {"draft": "Long.", "reader:summarize": "Short.", "reader": "Ok."})
    assert [(call.key, call.response_content) for call in tape.llm_interactions] == [
        ("draft", "Long."),
        ("reader:summarize", "Short."),
        ("reader", "Ok."),
    ]


async def test_it_notes_what_failed() -> None:
    """A model that raises, each attempt of a retry, and the run that fails are noted with the error."""
    script = {"a": [ConnectionError("lost"), "here"]}
    tape = await recorded(Agent("a").middleware(retry(backoff_base=0)), script)
    assert [
        (call.call, call.error and call.error.type, call.response_content) for call in tape.llm_interactions
    ] == [
        (1, "ConnectionError", ""),
        (2, None, "here"),
    ]
    failing = Recorder()
    with pytest.raises(RunError):
        await Agent("a").run("hi", backend=mock_backend({"a": ValueError("no")}), middleware=failing)
    (run,) = failing.get_recording().runs
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("ValueError", "no")


async def test_it_notes_what_was_given_up() -> None:
    """The call of a branch that lost a race has no end."""

    async def never(request: object) -> AsyncIterator[str]:
        await asyncio.Event().wait()
        yield ""

    tape = await recorded(race(Agent("slow"), Agent("fast")), {"slow": never, "fast": "first"})
    ended = {call.agent_name: call.ended is not None for call in tape.llm_interactions}
    assert ended == {"slow": False, "fast": True}


async def test_it_sees_what_really_happens_wherever_it_stands() -> None:
    """Among other middleware it sees the user's own words, what models get, and events as they leave."""

    class Shout(Middleware):
        async def on_event(self, ctx: Any, event: Any) -> Any:
            from dataclasses import replace

            return replace(event, content=event.content.upper())

    for first in (True, False):
        tape, others = Recorder(), [pii_filter(), Shout()]
        stack = [tape, *others] if first else [*others, tape]
        backend = mock_backend({"a": "ok"})
        await Agent("a").run("I am ann@example.com", backend=backend, middleware=stack)
        recording = tape.get_recording()
        assert recording.runs[0].text == "I am ann@example.com"
        assert "ann@example.com" not in str(recording.llm_interactions[0].request)
        assert [event.content for event in recording.events] == ["OK"]


async def test_it_changes_nothing() -> None:
    """With and without a recorder a run gives the same events, state and requests."""
    script = {"draft": "Helo.", "edit": {"b": 1}}
    plain, watched = mock_backend(script), mock_backend(script)
    without = await (DRAFT >> EDIT).run("hi", backend=plain)
    with_it = await Recorder().install(DRAFT >> EDIT).run("hi", backend=watched)
    assert [(e.author, e.content, e.state_delta) for e in without] == [
        (e.author, e.content, e.state_delta) for e in with_it
    ]
    assert without.state == with_it.state
    assert [r.model_dump() for r in plain.calls["edit"]] == [r.model_dump() for r in watched.calls["edit"]]


async def test_it_says_which_pipeline_ran_and_where_each_agent_stands() -> None:
    """`ir_hash` is that of the pipeline without who looks on, and `places` are positions in the graph."""
    pipeline = (DRAFT >> (EDIT | Agent("check"))).named("line")
    tape = await recorded(pipeline, {"draft": "a", "edit": "b", "check": "c"})
    assert tape.ir_hash == pipeline_hash(pipeline) == pipeline_hash(Recorder().install(pipeline))
    assert tape.of_same_pipeline(pipeline)
    assert not tape.of_same_pipeline(DRAFT >> EDIT)
    assert tape.pipeline == "line"
    assert tape.places["check"] == "line[1].parallel[1].check"
    assert set(tape.versions) == {"adk-fluent", "google-adk", "python"}


async def test_several_turns_are_several_runs() -> None:
    """Each turn of a conversation is a run, and says what the state was at its start."""
    tape = recorder()
    async with DRAFT.session(backend=mock_backend({"draft": ["a", "b"]}), middleware=[tape]) as chat:
        await chat.send("one")
        await chat.send("two")
    recording = tape.get_recording()
    assert [run.text for run in recording.runs] == ["one", "two"]
    assert [run.state for run in recording.runs] == [{}, {"text": "a"}]
    assert [step.run for step in recording.steps] == [0, 1]
    tape.clear()
    assert tape.get_recording().runs == ()


async def test_secrets_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of secret keys, keys of services and secrets of the environment are nowhere in a recording."""
    monkeypatch.setenv("SHOP_API_KEY", "correct-horse-battery")
    secret = "sk-abcdefghijklmnopqrst"

    def sign_in(token: str) -> dict[str, str]:
        """Sign in."""
        return {"password": "hunter22", "said": "correct-horse-battery"}

    tape = Recorder(redact=["ssn"])
    script = {"a": [call_tool("sign_in", token="abc12345"), f"Use {secret}."]}
    await (
        Agent("a")
        .tool(sign_in)
        .instruct("Key: {api_key}")
        .run(
            "hi",
            backend=mock_backend(script),
            middleware=[tape],
            state={"api_key": "zzz-999", "ssn": "123-45"},
        )
    )
    text = tape.get_recording().to_json()
    for word in ("correct-horse-battery", secret, "hunter22", "abc12345", "123-45"):
        assert word not in text
    assert '"[redacted]"' in text
    assert "Use [redacted]." in text


async def test_content_and_state_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without content no word of a run is kept, nor in the attributes of spans, and without state no key."""
    provider = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    tape = Recorder(capture_content=False, capture_state=False)
    backend = mock_backend({"draft": "secret words", "edit": "other words"})
    said = {"gcp.vertex.agent.llm_request": "my words", "gen_ai.agent.name": "draft", "n": 1}
    with provider.get_tracer("test").start_as_current_span("mine", attributes=said):
        await (DRAFT >> EDIT).run("my words", backend=backend, middleware=[tape], state={"k": "state words"})
    text = tape.get_recording().to_json()
    assert "words" not in text
    (mine,) = [span for span in tape.get_recording().spans if span["name"] == "mine"]
    assert mine["attributes"] == {"gen_ai.agent.name": "draft", "n": 1}
    assert [event.author for event in tape.get_recording().events] == ["draft", "edit"]


async def test_spans_of_the_run_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program has set up OpenTelemetry, the spans of recorded runs are noted, and no others."""
    provider = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    tracer = provider.get_tracer("test")
    tape = Recorder()
    with tracer.start_as_current_span("mine", attributes={"api_key": "zzz-999", "n": 1}):
        await Agent("a").run("hi", backend=mock_backend({"a": "ok"}), middleware=[tape])
    with tracer.start_as_current_span("other"):
        pass
    spans = [span for span in tape.get_recording().spans if span["name"] in ("mine", "other")]
    assert [span["attributes"] for span in spans] == [{"api_key": "[redacted]", "n": 1}]
    assert tape.get_recording().from_json(tape.get_recording().to_json()) == tape.get_recording()


async def test_events_are_those_of_the_run() -> None:
    """What a branch did that lost a race is recorded, and is no event of the run, round by round."""
    pipeline = race(S.counter("n") >> Agent("a"), Agent("b")) * 2
    tape = Recorder()
    script = {"a": [slowly(30, "late"), "first"], "b": ["first", slowly(30, "late")]}
    result = await tape.install(pipeline).run("go", backend=mock_backend(script))
    recording = tape.get_recording()
    assert not diff_events(recording.events, result), str(diff_events(recording.events, result))
    assert [event.author for event in recording.events if event.content] == ["b", "a"]
    assert [choice.winner for choice in recording.choices] == ["b", "sequence"]
    assert not diff_recordings(recording, await recording.replay(pipeline))


async def test_a_secret_written_to_state_during_a_run_is_not_kept(tmp_path: Path) -> None:
    """A secret that a step or a tool writes to the state is in no event, delta, snapshot or later request."""

    def sign_in(user: str, tool_context: Any) -> str:
        """Sign in."""
        tool_context.state["refreshToken"] = "r-471108159-abc"
        return "Signed in."

    written = S.set(db={"dbPassword": "plain-471108159"}, said="It is plain-471108159.")
    pipeline = Agent("a").tool(sign_in) >> written
    tape = Recorder()
    script = {"a": [call_tool("sign_in", user="Ann"), "Done."], "reader": "Read."}
    reader = Agent("reader").instruct("Use {db}, {said} and {refreshToken}.")
    await (pipeline >> reader).run("hi", backend=mock_backend(script), middleware=[tape])
    text = tape.save(tmp_path / "r.json").to_json()
    assert "471108159" not in text
    recording = Recording.load(tmp_path / "r.json")
    assert recording.state_snapshots[-1]["refreshToken"] == "[redacted]"
    assert recording.state_snapshots[-1]["db"] == {"dbPassword": "[redacted]"}
    assert [use.actions for use in recording.tool_interactions] == [
        {"state_delta": {"refreshToken": "[redacted]"}}
    ]
    assert not diff_recordings(recording, await recording.replay(pipeline >> reader))


async def test_secrets_that_are_numbers_or_ordinary_words_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A secret such as 12345678 or `user` leaves a recording that is saved, loaded and replayed."""
    monkeypatch.setenv("DB_PASSWORD", "user")
    monkeypatch.setenv("OTHER_SECRET", "model")

    def pay(pin: str) -> dict[str, Any]:
        """Pay."""
        return {"token": 12345678, "password": "parts", "said": "12345678 for the user", "n": 3}

    agent = Agent("user_agent").tool(pay).instruct("Help the user with {password}.")
    tape = Recorder()
    script = {"user_agent": [call_tool("pay", pin="1"), "The user has paid."]}
    options: dict[str, Any] = {"state": {"password": "text"}, "backend": mock_backend(script)}
    await agent.run("I am the user.", middleware=[tape], **options)
    tape.save(tmp_path / "r.json")
    recording = Recording.load(tmp_path / "r.json")
    assert "12345678" not in recording.to_json()
    assert recording.tool_interactions[0].result == {
        "token": "[redacted]",
        "password": "[redacted]",
        "said": "[redacted] for the user",
        "n": 3,
    }
    assert recording.llm_interactions[0].request["contents"][0]["role"] == "user"
    assert not diff_recordings(recording, await recording.replay(agent))


async def test_pieces_of_a_stream_hold_no_part_of_a_secret() -> None:
    """A secret that is split between two pieces of a streamed answer is in neither of them."""

    async def answer(request: object) -> AsyncIterator[str]:
        yield "Use sk-abcdef"
        yield "ghijklmnop1234 now."

    tape = Recorder()
    backend = mock_backend({"a": answer})
    async with aclosing(Agent("a").stream("hi", backend=backend, middleware=[tape])) as events:
        _ = [event async for event in events]
    recording = tape.get_recording()
    assert "abcdef" not in recording.to_json()
    assert "ghij" not in recording.to_json()
    assert recording.llm_interactions[0].response_content == "Use [redacted] now."
    assert not diff_recordings(recording, await recording.replay(Agent("a")))


async def test_content_that_is_switched_off_is_not_kept() -> None:
    """Without content and state, no delta, error text, question, tool argument or metadata is kept either."""

    def write(word: str, tool_context: Any) -> str:
        """Write a word."""
        tool_context.state["secretly"] = "private delta"
        return "private result"

    class Noting(Middleware):
        async def on_event(self, ctx: Any, event: Any) -> Any:
            from dataclasses import replace

            return replace(event, metadata={**event.metadata, "note": "private note"})

    tape = Recorder(capture_content=False, capture_state=False)
    pipeline = (
        Agent("a").instruct("A private instruction.").tool(write).writes("said")
        >> S.set(k="private value")
        >> gate(lambda state: True, message="A private question?")
        >> Agent("b")
    )
    script = {
        "a": [call_tool("write", word="private word"), "private answer"],
        "b": ValueError("private error"),
    }
    backend = mock_backend(script)
    stack: list[Any] = [Noting(), tape]
    options: dict[str, Any] = {"backend": backend, "session_id": "s", "middleware": stack}
    result = await pipeline.run("private prompt", state={"p": "private state"}, **options)
    (asked,) = result.pending
    with pytest.raises(RunError):
        await pipeline.resume(approvals={asked.id: {"why": "private reason"}}, **options)
    recording = tape.get_recording()
    assert "private" not in recording.to_json()
    assert [event.state_delta for event in recording.events] == [{}] * len(recording.events)
    assert [pending.agent for event in recording.events for pending in event.pending] == ["gate"]
    assert recording.runs[1].error is not None
    assert (recording.runs[1].error.type, recording.runs[1].error.message) == ("ValueError", "")


async def test_values_that_json_lacks_lose_nothing(tmp_path: Path) -> None:
    """A tool result or state of any type leaves a recording that is saved and loaded."""

    class Broken:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compare me not")

        def __hash__(self) -> int:
            return 1

    class Model(BaseModel):
        amount: Decimal = Decimal("1.50")

        @field_serializer("amount")
        def no(self, value: Decimal) -> str:
            raise RuntimeError("serialise me not")

    odd: dict[str, Any] = {
        "decimal": Decimal("1.5"),
        "time": datetime(2026, 1, 2, tzinfo=UTC),
        "bytes": b"\xff\x00",
        "nan": float("nan"),
        "set": {1},
        "tuple": (1, b"x"),
        "broken": Broken(),
        "model": Model(),
        "lone": "\ud800",
        "kind": Model,
    }
    odd["itself"] = odd
    tape = Recorder()

    def find(what: str) -> dict[str, Any]:
        """Find something."""
        return {key: value for key, value in odd.items() if key in ("decimal", "time", "nan", "tuple")}

    class Writes(Middleware):
        async def before_agent(self, ctx: Any, agent_name: str) -> None:
            ctx.state["temp:odd"] = odd

    agent = Agent("a").tool(find)
    script = {"a": [call_tool("find", what="x"), "ok"]}
    await agent.run("hi", backend=mock_backend(script), middleware=[Writes(), tape])
    tape.save(tmp_path / "r.json")
    recording = Recording.load(tmp_path / "r.json")
    (used,) = recording.tool_interactions
    assert (used.result["decimal"], used.result["nan"], used.result["tuple"]) == ("1.5", None, [1, "eA=="])
    held = plain(odd)
    assert (held["itself"], held["model"], held["broken"]) == ("<dict>", "<Model>", "<Broken>")
    Recording(metadata={"when": datetime(2026, 1, 2, tzinfo=UTC)}).save(tmp_path / "own.json")
    assert Recording.load(tmp_path / "own.json").metadata["when"].startswith("2026-01-02")


async def test_a_secret_of_ordinary_letters_written_during_a_run_is_not_kept() -> None:
    """A step's secret that is a word is in no delta and no snapshot, though texts may hold that word."""
    tape = Recorder()
    await S.set(dbPassword="zebra").run("hi", backend=mock_backend({}), middleware=[tape])
    assert "zebra" not in tape.get_recording().to_json()


async def test_a_value_of_many_levels_does_not_break_the_run() -> None:
    """What a tool gives 200 levels deep is recorded down to 100; the run goes on, and the file is read."""

    def nest(levels: int) -> dict[str, Any]:
        """Nest."""
        found: dict[str, Any] = {}
        for _ in range(levels):
            found = {"in": found}
        return found

    tape, agent = Recorder(), Agent("a").tool(nest)
    script = {"a": [call_tool("nest", levels=200), "ok"]}
    assert (await agent.run("hi", backend=mock_backend(script), middleware=[tape])).text == "ok"
    recording = Recording.from_json(tape.get_recording().to_json())
    assert str(recording.tool_interactions[0].result).count("in") == 100
    assert not diff_recordings(recording, await recording.replay(agent))


@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "latin-1"])
async def test_secrets_in_files_are_not_kept(codec: str) -> None:
    """What a user attaches, a tool saves or a model gives has no secret in a recording, and is replayed."""
    text = "Für mich: API_KEY=zebra-4711, sk-abcdefghijklmnop12"
    blob = types.Part(inline_data=types.Blob(data=text.encode(codec), mime_type="text/plain"))
    encoded = base64.b64encode(text.encode(codec)).decode()
    link = types.Part(file_data=types.FileData(file_uri=f"data:text/plain;base64,{encoded}"))

    async def keep(tool_context: Any) -> dict[str, Any]:
        """Keep a file."""
        await tool_context.save_artifact("notes.txt", blob)
        return {"file": encoded}

    tape, agent = Recorder(), Agent("a").tool(keep)
    script = {"a": [call_tool("keep"), types.Content(role="model", parts=[types.Part(text="Here."), blob])]}
    await agent.run(["Read.", blob, link], backend=mock_backend(script), middleware=[tape])
    recording = Recording.from_json(tape.get_recording().to_json())
    found = re.findall(r"[A-Za-z0-9+/_-]{24,}=*", recording.to_json())
    runs = [run.replace("-", "+").replace("_", "/") for run in found if len(run) % 4 != 1]
    held = [base64.b64decode(f"{run}==") for run in runs]
    for secret in ("zebra-4711", "sk-abcdefghijklmnop12"):
        assert secret not in recording.to_json()
        assert all(secret.encode(form) not in each for each in held for form in (codec, "utf-16-le"))
    assert sum("Für mich: API_KEY=[redacted]".encode(codec)[2:] in each for each in held) > 3
    assert not diff_recordings(recording, await recording.replay(agent))


async def test_compressed_files_are_not_kept() -> None:
    """A note stands for a compressed file that is attached, saved or given; a replay compares its hash."""
    secret = "API_KEY=zebra-4711"
    packed = gzip.compress(secret.encode(), mtime=0)
    blob = types.Part(inline_data=types.Blob(data=packed, mime_type="application/gzip"))

    async def keep(tool_context: Any) -> dict[str, Any]:
        """Keep a file."""
        await tool_context.save_artifact("notes.gz", blob)
        return {"file": base64.b64encode(packed).decode()}

    def pipeline(file: bytes) -> Any:
        text = base64.b64encode(file).decode()
        return S.set(file=text) >> Agent("a").tool(keep).instruct("Read {file}.")

    script = {"a": [call_tool("keep"), types.Content(role="model", parts=[types.Part(text="Here."), blob])]}
    tape = Recorder()
    await pipeline(packed).run(["Read.", blob], backend=mock_backend(script), middleware=[tape])
    recording = Recording.from_json(tape.get_recording().to_json())
    digest = hashlib.sha256(packed).hexdigest()
    note = f"[left out: application/gzip, {len(packed)} bytes, sha256 {digest}]"
    kept = base64.b64encode(note.encode()).decode()
    text = recording.to_json().replace("-", "+").replace("_", "/")
    assert base64.b64encode(packed).decode()[:30] not in text
    assert text.count(kept) > 3
    assert f"<application/gzip, {note}>" in request_lines(recording.llm_interactions[0].request)
    assert not diff_recordings(recording, await recording.replay(pipeline(packed)))
    with pytest.raises(ReplayError, match="Agent 'a', call 1"):
        await recording.replay(pipeline(gzip.compress(b"another", mtime=0)))
