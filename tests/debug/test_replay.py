"""Replaying what was recorded: the same happens again, and what differs is shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.genai.types import Blob, Content, FunctionCall, Part

from adk_fluent import Agent, C, FanOut, Route, S, T, gate, map_over, race, tap, until
from adk_fluent._tasks import Limit, next_limit
from adk_fluent.debug import Recorder, Recording, ReplayerBackend, diff_recordings
from adk_fluent.errors import ADKFluentError, AgentTimeoutError, ArgumentError, RecordingError, ReplayError
from adk_fluent.middleware import Middleware, cache
from adk_fluent.testing import call_tool, mock_backend
from tests.debug.pipelines import CALLED, PIPELINES, look_up, run_all, slowly
from tests.debug.releases import PIPELINE
from tests.limits import LIMIT, within_limit
from tests.properties.test_replay import replayed

A, B = Agent("a"), Agent("b")


def _calling(name: str, **args: Any) -> Part:
    return Part(function_call=FunctionCall(name=name, args=args))


async def recorded(expression: Any, script: Mapping[str, Any], turns: int = 1) -> Recording:
    """A recording, as it is read from its file."""
    tape = Recorder()
    await run_all(expression, script, tape, turns)
    return Recording.from_json(tape.get_recording().to_json())


@pytest.mark.parametrize("name", PIPELINES)
async def test_an_unchanged_pipeline_does_the_same(name: str) -> None:
    """Two turns of any pipeline are replayed with the same events, requests and tool calls; no tool runs."""
    expression, script = PIPELINES[name]
    recording = await recorded(expression, script, turns=2)
    CALLED.clear()
    again = await recording.replay(expression)
    assert str(diff_recordings(recording, again)) == diff_recordings(recording, again).summary
    assert not diff_recordings(recording, again)
    assert again.state_snapshots[-1] == recording.state_snapshots[-1]
    assert CALLED == []


async def test_branches_meet_in_the_recorded_order() -> None:
    """What happened at the same time happens in the recorded order, however fast the replay is."""
    expression, script = PIPELINES["parallel"]
    recording = await recorded(expression, script)
    assert [event.author for event in recording.events] == ["d", "b", "a", "reader"]
    for _ in range(3):
        again = await recording.replay(expression)
        assert [event.author for event in again.events] == ["d", "b", "a", "reader"]


async def test_a_race_is_won_by_who_won_it() -> None:
    """The winner of a race is that of the recording, whoever would be faster now."""
    pipeline = race(Agent("a"), Agent("b"))
    for fast, slow in (("a", "b"), ("b", "a")):
        recording = await recorded(pipeline, {fast: "first", slow: slowly(50, "second")})
        result = await pipeline.run("turn 0", backend=ReplayerBackend(recording))
        assert [event.author for event in result if event.content] == [fast]


async def test_a_tie_is_won_by_who_won_it() -> None:
    """Branches that end in the same round have the winner they had, since a recording says who won."""
    pipeline = race(S.set(n=1), S.set(n=2)) >> Agent("end").instruct("{n}")
    recording = await recorded(pipeline, {"end": "done"})
    assert [choice.winner for choice in recording.choices] == ["set"]
    (choice,) = recording.choices
    other = replace(recording, choices=(replace(choice, winner="set_2"),))
    backend = ReplayerBackend(other, "skip")
    result = await pipeline.run("turn 0", backend=backend)
    assert (result.state["n"], [mismatch.changed["state"] for mismatch in backend.mismatches]) == (
        2,
        [["- n = 1", "+ n = 2"]],
    )


async def test_a_merge_is_won_by_who_won_it() -> None:
    """A fan-out that goes on with the first has the winner it had, and what the others did by then."""
    pipeline = FanOut(S.set(n=1), S.set(n=2), merge="first_complete")
    recording = await recorded(pipeline, {})
    (choice,) = recording.choices
    assert (choice.winner, choice.taken) == ("set", ("set", "set_2", "set"))
    won = [("set", 1), ("set_2", 2)]
    for turns, told in (["set"], won[:1]), (["set", "set_2"], won), (["set_2", "set"], won[::-1]):
        other = replace(choice, winner=turns[-1], taken=(*turns, turns[-1]))
        backend = ReplayerBackend(replace(recording, choices=(other,)))
        result = await pipeline.run("turn 0", backend=backend)
        written = [(event.author, event.state_delta["n"]) for event in result if event.state_delta]
        assert (written, result.state["n"]) == (told, told[-1][1])


N, ALL = S.counter("n"), S.accumulate("n", into="all")
TIED = (
    (race(FanOut(N, S.set(x=2), merge="first_complete"), race(N, S.set(x=0))), [2, 1, 0, 1]),
    (FanOut(race(Agent("a"), N), race(Agent("a"), Agent("a")), merge="first_complete"), [3, 2, 3, 0]),
    (FanOut(race(N, ALL), Agent("c"), race(N, ALL), N, merge="first_complete"), [3, 2, 1, 1]),
    (race(race(Agent("a"), N), race(Agent("a"), Agent("c"))), [3, 1, 2, 1]),
)


@pytest.mark.parametrize(("pipeline", "pace"), TIED, ids=range(len(TIED)))
async def test_nested_ties_are_decided_as_they_were(pipeline: Any, pace: list[int]) -> None:
    """Races and merges inside each other, whose branches end in the same round, change nothing."""
    assert (await replayed(pipeline, pace)).startswith("No difference: ")


class Timeless(asyncio.SelectorEventLoop):
    """An event loop without a clock."""

    def call_at(self, *args: Any, **options: Any) -> asyncio.TimerHandle:
        """Nothing may ask to be called later."""
        raise AssertionError("a replay asks the clock")


async def without_a_clock() -> None:
    """Replays of all kinds, of unchanged and of changed pipelines."""
    for expression, script in PIPELINES.values():
        recording = await recorded(expression, script, turns=2)
        assert not diff_recordings(recording, await recording.replay(expression))
    for other in (A | B, race(B, A), A >> B, FanOut(A, A, B, merge="first_complete")):
        recording = await recorded(*PIPELINES["race"])
        live = mock_backend({}, default="new")
        backend = ReplayerBackend(recording, "live", live=live)
        assert (await other.run("turn 0", backend=backend)).text


def test_no_clock_is_asked() -> None:
    """A replay depends on no time: none of its waits is for seconds, whatever was changed."""
    with asyncio.Runner(loop_factory=Timeless) as runner:
        runner.run(without_a_clock())


async def test_what_was_given_up_is_not_waited_for_for_ever() -> None:
    """A call that a race gave up is a clear error where nothing else goes on."""
    recording = await recorded(race(Agent("a"), Agent("b")), {"a": slowly(60, "late"), "b": "first"})
    with pytest.raises(ReplayError, match="A call of agent 'a' was given up in the recording"):
        await Agent("a").run("turn 0", backend=ReplayerBackend(recording))


async def test_tools_at_the_same_time_end_in_the_recorded_order() -> None:
    """Calls of one answer that ran at once end in the order they had; one that fails fails again."""
    ended: list[str] = []

    async def wait(rounds: int) -> str:
        """Wait for some rounds."""
        for _ in range(rounds):
            await asyncio.sleep(0)
        return f"{rounds}"

    class Note(Middleware):
        async def after_tool(self, ctx: Any, tool_name: str, args: Any, result: Any) -> None:
            ended.append(args["rounds"])

    calls = Content(role="model", parts=[_calling("wait", rounds=n) for n in (60, 3, 30)])
    agent = Agent("a").tool(wait) | Agent("b")
    recording = await recorded(agent.middleware(Note()), {"a": [calls, "done"], "b": slowly(40, "b")})
    recorded_order, ended[:] = list(ended), []
    assert not diff_recordings(recording, await recording.replay(agent.middleware(Note())))
    assert ended == recorded_order == [3, 30, 60]


async def test_a_replay_waits_for_nothing_that_cannot_happen() -> None:
    """A branch that lost a race, a tool that is not called, an agent that is gone: none holds up a run."""
    async with asyncio.timeout(LIMIT):
        tapped = race(tap(lambda state: None), Agent("a"))
        recording = await recorded(tapped, {"a": "late"})
        assert not diff_recordings(recording, await recording.replay(tapped))

        expression, script = PIPELINES["parallel"]
        recording = await recorded(expression, script)
        fewer = Agent("a").writes("said") | Agent("b").writes("seen")
        result = await fewer.run("turn 0", backend=ReplayerBackend(recording))
        assert [event.author for event in result if event.content] == ["b", "a"]

        class Cached(Middleware):
            async def before_tool(self, ctx: Any, tool_name: str, args: Any) -> dict[str, Any]:
                return {"order": "7", "paid": True}

        # In the loop, so that its steps alone decide which branch is first.
        agent = Agent("a").tool(T.fn(look_up, in_thread=False)) | Agent("b")
        recording = await recorded(
            agent, {"a": [call_tool("look_up", order="7"), "done"], "b": slowly(99, "late")}
        )
        result = await agent.run("turn 0", backend=ReplayerBackend(recording), middleware=[Cached()])
        assert [event.content for event in result if event.content] == ["done", "late"]


class Look(Middleware):
    """Keeps the errors of models."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    async def on_model_error(self, ctx: Any, request: Any, error: Exception) -> None:
        self.errors.append(error)


async def test_recorded_errors_are_caught_again() -> None:
    """An error is raised again as one of its own class; one of a provider as one of its name and status."""

    class ServerError(Exception):
        code = 503

    pipeline = Agent("a")
    for error in (TimeoutError("slow"), ServerError("busy")):
        recording = await recorded(pipeline // Agent("b"), {"a": error, "b": "instead"})
        (call, _) = recording.llm_interactions
        assert call.error is not None
        assert call.error.status == getattr(error, "code", None)
        look, backend = Look(), ReplayerBackend(recording)
        result = await (pipeline // Agent("b")).run("turn 0", backend=backend, middleware=[look])
        assert result.text == "instead"
        (seen,) = look.errors
        assert (type(seen).__name__, str(seen)) == (type(error).__name__, str(error))
        assert isinstance(seen, TimeoutError) == isinstance(error, TimeoutError)


async def test_tools_can_run_live() -> None:
    """Tools give what was recorded, or really run with the recorded arguments, by choice."""
    expression, script = PIPELINES["tools"]
    recording = await recorded(expression, script)
    CALLED.clear()
    again = await recording.replay(expression, tools="live")
    assert CALLED == ["7", "7"]
    assert not diff_recordings(recording, again)


async def test_it_can_be_replayed_as_a_stream() -> None:
    """A streamed run gives the same pieces again, and to a run that does not stream the whole answer."""
    tape, agent = Recorder(), Agent("a")
    async for _ in agent.stream("hi", backend=mock_backend({"a": "one two three"}), middleware=[tape]):
        pass
    recording = tape.get_recording()
    stream = agent.stream("hi", backend=ReplayerBackend(recording))
    pieces = [(event.content, event.is_partial) async for event in stream]
    assert pieces == [("one ", True), ("two ", True), ("three", True), ("one two three", False)]
    assert (await agent.run("hi", backend=ReplayerBackend(recording))).text == "one two three"
    assert not diff_recordings(recording, await recording.replay(agent))


class Embedder:
    """An embedding model of the user's."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed(self, texts: list[str]) -> list[list[float]]:
        """The length of each text."""
        self.asked.append(texts)
        return [[float(len(text)), 1.0] for text in texts]


async def test_vectors_are_recorded_and_replayed() -> None:
    """What a context looks up by vectors is a call like others: a replay asks no embedding model."""
    own = Embedder()
    for scorer, script in ((own, {}), ("vectors", {"end:relevant": by_length})):
        end = Agent("end").context(C.relevant(scorer=scorer, top_k=1))
        pipeline = Agent("a") >> Agent("b") >> end
        recording = await recorded(pipeline, {"a": "a text", "b": "another one", "end": "done"} | script)
        assert [call.key for call in recording.llm_interactions] == ["a", "b", "end:relevant", "end"]
        again = await recording.replay(pipeline)
        assert not diff_recordings(recording, again), str(diff_recordings(recording, again))
    assert len(own.asked) == 1
    end = Agent("end").context(C.relevant(scorer=own, top_k=1))
    changed = Agent("a") >> Agent("b").instruct("Other.") >> end
    backend = ReplayerBackend(recording, "live", live=mock_backend({"b": "new", "end": "done"}))
    await changed.run("turn 0", backend=backend)
    assert ([each.agent for each in backend.mismatches], len(own.asked)) == (["b", "end:relevant"], 2)


def by_length(request: LlmRequest) -> Content:
    """Vectors, as an embedding model gives them."""
    ((asked,),) = ((content.parts or []) for content in request.contents)
    vectors = [[float(len(text)), 1.0] for text in json.loads(asked.text or "")]
    data = json.dumps(vectors).encode()
    return Content(role="model", parts=[Part(inline_data=Blob(mime_type="application/json", data=data))])


async def test_answers_that_an_agent_remembers_are_recorded() -> None:
    """A context asks a question once: runs that take the answer over are recorded with it, and replayed."""
    reader = Agent("reader").context(C.summarize())
    pipeline, script = A >> reader, {"a": "a long text", "reader:summarize": "short", "reader": "read"}
    tape, backend = Recorder(), mock_backend(script)
    watched = tape.install(pipeline)
    await watched.run("Go", backend=backend)
    tape.clear()  # what the agent remembers stays
    for _ in range(2):
        await watched.run("Go", backend=backend)
    recording = Recording.from_json(tape.get_recording().to_json())
    said = [(each.key, each.remembered, each.response_content) for each in recording.llm_interactions]
    assert (
        said
        == [("a", False, "a long text"), ("reader:summarize", True, "short"), ("reader", False, "read")] * 2
    )
    again = await recording.replay(pipeline)
    assert str(diff_recordings(recording, again)).startswith("No difference: ")
    assert [each.remembered for each in again.llm_interactions] == [False, True, False] * 2
    assert len(backend.calls["reader:summarize"]) == 1


async def test_an_agent_asks_again_where_it_asked_again() -> None:
    """Two copies of an agent ask the same; a replay, in which one agent has both runs, asks twice as well."""
    pipeline, tape = A >> Agent("reader").context(C.summarize()), Recorder()
    backend = mock_backend({"a": "a long text", "reader:summarize": ["short", "other"], "reader": "read"})
    for _ in range(2):
        await tape.install(pipeline).run("Go", backend=backend)
    recording = Recording.from_json(tape.get_recording().to_json())
    said = [each.response_content for each in recording.get_llm_interactions("reader")]
    assert said == ["short", "read", "other", "read"]
    again = await recording.replay(pipeline)
    assert str(diff_recordings(recording, again)).startswith("No difference: ")
    assert [each.response_content for each in again.get_llm_interactions("reader")] == said


async def test_vectors_that_an_agent_remembers_are_recorded() -> None:
    """What an embedding model gave is remembered and replayed in the same way."""
    end = Agent("end").context(C.relevant(scorer="vectors", top_k=1))
    pipeline, tape = A >> B >> end, Recorder()
    backend = mock_backend({"a": "a text", "b": "another one", "end": "done", "end:relevant": by_length})
    watched = tape.install(pipeline)
    await watched.run("Go", backend=backend)
    tape.clear()
    await watched.run("Go", backend=backend)
    recording = Recording.from_json(tape.get_recording().to_json())
    assert [each.key for each in recording.llm_interactions if each.remembered] == ["end:relevant"]
    assert not diff_recordings(recording, await recording.replay(pipeline))


async def test_live_conversations_are_refused() -> None:
    """A live conversation is recorded with its events, and is said to be one where it would be replayed."""
    tape, agent = Recorder(), Agent("a")
    async with tape.install(agent).live(backend=mock_backend({"a": "one"}), modality="text") as live:
        await live.send("hi")
        async for event in live:
            if event.is_final:
                break
    recording = Recording.from_json(tape.get_recording().to_json())
    assert [event.content for event in recording.events if event.is_final] == ["one"]
    for attempt in (lambda: ReplayerBackend(recording), recording.to_case):
        with pytest.raises(RecordingError, match="live conversation"):
            attempt()
    backend = ReplayerBackend(await recorded(agent, {"a": "one"}))
    with pytest.raises(ReplayError, match=r"'a' cannot be run live on a recording: .* mock_backend"):
        async with agent.live(backend=backend, modality="text"):
            pass


# --- mismatches -----------------------------------------------------------------------------------


WRITER = Agent("writer").instruct("Write about {topic}.")
TOPIC = {"topic": "tea"}


async def on_tea() -> Recording:
    """A recording of `WRITER`."""
    tape = Recorder()
    backend = mock_backend({"writer": "Tea is hot."})
    await WRITER.run("Write.", backend=backend, middleware=[tape], state=TOPIC)
    return tape.get_recording()


@pytest.mark.parametrize(
    ("changed", "prompt", "state", "channels", "shows"),
    [
        (WRITER.instruct("Sing of {topic}."), "Write.", TOPIC, "prompt", ["- Write about", "+ Sing of"]),
        (WRITER, "Write.", {"topic": "rain"}, "state", ["- topic = tea", "+ topic = rain"]),
        (WRITER, "Sing.", TOPIC, "history", ["- user: Write.", "+ user: Sing."]),
        (WRITER.tool(look_up), "Write.", TOPIC, "tools", ["+ look_up"]),
        (WRITER.model("gemini-2.5-pro"), "Write.", TOPIC, "model", ["+ gemini-2.5-pro"]),
        (WRITER.generate(temperature=0), "Write.", TOPIC, "options", ["temperature"]),
        (WRITER.returns(dict[str, int]), "Write.", TOPIC, "answer", ["integer"]),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
async def test_a_mismatch_shows_what_changed(
    changed: Any, prompt: str, state: Any, channels: str, shows: list[str]
) -> None:
    """A request that was not recorded is an error that names the agent, the call, and what of it changed."""
    with pytest.raises(ReplayError) as caught:
        await changed.run(prompt, backend=ReplayerBackend(await on_tea()), state=state)
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("Agent 'writer', call 1: its request is not the one that was recorded (")
    assert channels in first
    for line in shows:
        assert any(line in each for each in rest)


async def test_a_mismatch_can_be_skipped_or_asked_live() -> None:
    """`skip` answers nothing, `live` asks the agent's own model; both are noted."""
    recording = await on_tea()
    live = mock_backend({"writer": "Rain is wet."})
    answers: list[str] = []
    for policy in ("skip", "live"):
        backend = ReplayerBackend(recording, policy, live=live)
        result = await WRITER.run("Write.", backend=backend, state={"topic": "rain"})
        answers.append(result.text)
        (mismatch,) = backend.mismatches
        assert (mismatch.agent, mismatch.call, [*mismatch.changed]) == ("writer", 1, ["state"])
    assert answers == ["", "Rain is wet."]


async def test_what_was_never_recorded_is_said() -> None:
    """An agent that is not in the recording, and one call more than it has, are said as such."""
    recording = await recorded(Agent("writer"), {"writer": "one"})
    with pytest.raises(ReplayError, match=r"'writr' was never asked .* Did you mean 'writer'\?"):
        await Agent("writr").run("turn 0", backend=ReplayerBackend(recording))
    backend = ReplayerBackend(recording)
    await Agent("writer").run("turn 0", backend=backend)
    with pytest.raises(ReplayError, match=r"(?s)'writer', call 2: the recording has only 1 call .*turn 1"):
        await Agent("writer").run("turn 1", backend=backend)


async def test_no_fallback_catches_a_mismatch() -> None:
    """A mismatch is no failure of a model: neither `//` nor a race goes on with another agent."""
    recording = await recorded(Agent("a") // Agent("b"), {"a": "one", "b": "two"})
    with pytest.raises(ReplayError, match="'a', call 1"):
        await (Agent("a").instruct("Other.") // Agent("b")).run("turn 0", backend=ReplayerBackend(recording))


async def test_tools_with_other_arguments_are_a_mismatch() -> None:
    """A recorded tool that is called with other arguments is said, with both."""
    agent = Agent("a").tool(look_up)
    recording = await recorded(agent, {"a": [call_tool("look_up", order="7"), "done"]})
    (call, _) = recording.llm_interactions
    (chunk,) = call.chunks
    other = {"role": "model", "parts": [{"function_call": {"name": "look_up", "args": {"order": "8"}}}]}
    changed = replace(call, chunks=(replace(chunk, response={"content": other}),))
    recording = replace(recording, llm_interactions=(changed, *recording.llm_interactions[1:]))
    with pytest.raises(ReplayError, match=r"(?s)Tool 'look_up' of agent 'a', call 1: .*'7'.*'8'"):
        await agent.run("turn 0", backend=ReplayerBackend(recording))
    backend = ReplayerBackend(recording, "skip")
    result = await agent.run("turn 0", backend=backend)
    assert [r.result for event in result for r in event.tool_responses] == [{}]


async def test_what_is_left_is_known() -> None:
    """What was recorded and is asked no longer can be listed."""
    recording = await recorded(Agent("a") >> Agent("b"), {"a": "one", "b": "two"})
    backend = ReplayerBackend(recording)
    assert [call.agent_name for call in backend.left] == ["a", "b"]
    await Agent("a").run("turn 0", backend=backend)
    assert [call.agent_name for call in backend.left] == ["b"]


async def test_a_changed_pipeline_does_not_hang() -> None:
    """Where what was recorded before no longer happens, what waits for it goes on after a while."""
    expression, script = PIPELINES["parallel"]
    recording = await recorded(expression, script)
    fewer = Agent("a").writes("said") | Agent("b").writes("seen")
    result = await within_limit(fewer.run("turn 0", backend=ReplayerBackend(recording)))
    assert {event.content for event in result} == {"one", "two"}


async def test_secrets_do_not_disturb() -> None:
    """A pipeline that works with a secret is replayed with it and without it."""

    def sign_in(who: str) -> dict[str, str]:
        """Sign in."""
        return {"token": "abc-12345", "who": who}

    agent = Agent("a").instruct("The key is {api_key}.").tool(sign_in) >> Agent("b")
    tape = Recorder()
    script = {"a": [call_tool("sign_in", who="Ann"), "My token is abc-12345."], "b": "ok"}
    await agent.run("hi", backend=mock_backend(script), middleware=[tape], state={"api_key": "zzz-999"})
    recording = tape.get_recording()
    assert "abc-12345" not in recording.to_json()
    assert not diff_recordings(recording, await recording.replay(agent))
    backend = ReplayerBackend(recording)
    assert (await agent.run("hi", backend=backend, state={"api_key": "zzz-999"})).text == "ok"


async def test_recordings_of_other_releases_are_replayed() -> None:
    """What a release of ADK words differently is no mismatch in a recording of another release."""
    pipeline = Agent("a").writes("said") >> Agent("b").instruct("Read {said}.")
    recording = await recorded(pipeline, {"a": "one", "b": "two"})
    other = tuple(
        replace(call, request={**call.request, "contents": [], "options": {"labels": {}}, "instruction": "?"})
        for call in recording.llm_interactions
    )
    older = replace(recording, llm_interactions=other, versions={"google-adk": "1.0.0"})
    again = await older.replay(pipeline)
    assert not diff_recordings(older, again)
    with pytest.raises(ReplayError, match="prompt changed"):
        await older.replay(Agent("a").writes("said") >> Agent("b").instruct("Sing {said}."))


async def test_wrong_arguments_are_refused() -> None:
    """A policy that there is not, what is no recording, and one without content, are one line each."""
    path: Any = "support.json"
    with pytest.raises(ArgumentError, match=r"not 'support.json'; Recording.load\(path\) reads one"):
        ReplayerBackend(path)
    wrongs: list[dict[str, Any]] = [{"on_mismatch": "ignore"}, {"tools": "no"}]
    for wrong in wrongs:
        with pytest.raises(ArgumentError, match=f"ReplayerBackend\\({next(iter(wrong))}=\\) is "):
            ReplayerBackend(Recording(), **wrong)
    tape = Recorder(capture_content=False)
    await Agent("a").run("hi", backend=mock_backend({"a": "b"}), middleware=[tape])
    with pytest.raises(RecordingError, match="capture_content=False"):
        ReplayerBackend(tape.get_recording())


async def test_runs_at_the_same_time_are_replayed_at_the_same_time() -> None:
    """Prompts that were mapped concurrently are replayed with each other."""
    tape, backend = (
        Recorder(),
        mock_backend({"a": lambda request: slowly(len(str(request)) % 7, "x")(request)}),
    )
    pipeline = Agent("a") >> S.counter("n")
    await tape.install(pipeline).map(["one", "two", "three"], concurrency=3, backend=backend)
    recording = tape.get_recording()
    assert len(recording.runs) == 3
    assert not diff_recordings(recording, await recording.replay(pipeline))


async def test_a_default_model_of_another_release_is_no_mismatch() -> None:
    """Where an agent names no model, another release asks another; one that is named must be the same."""
    for named, default, fits in (("old", "old", True), ("old", "older", False)):
        recording = await recorded(Agent("a"), {"a": "one"})
        (call,) = recording.llm_interactions
        older = replace(
            recording,
            llm_interactions=(replace(call, request={**call.request, "model": named}),),
            versions={"google-adk": "1.0.0"},
            metadata={"default_model": default},
        )
        if fits:
            assert not diff_recordings(older, await older.replay(Agent("a")))
        else:
            with pytest.raises(ReplayError, match=r"\(model changed\)"):
                await older.replay(Agent("a"))


@pytest.mark.parametrize("name", ["race", "first"])
async def test_contests_of_another_release_are_decided_as_they_were(name: str) -> None:
    """A race and a merge that were recorded on the oldest ADK have their winners here."""
    recording = Recording.load(Path(__file__).parent / f"recorded-{name}-1.25.0.json")
    again = await recording.replay(PIPELINES[name][0])
    assert not diff_recordings(recording, again), str(diff_recordings(recording, again))
    assert [each.winner for each in again.choices] == [each.winner for each in recording.choices]


@pytest.mark.parametrize("release", ["1.25.0", "1.39.1", "2.13.0"])
async def test_recordings_made_on_any_release_are_replayed_on_this_one(release: str) -> None:
    """What was recorded on the oldest, an old and the newest ADK happens again here."""
    recording = Recording.load(Path(__file__).parent / f"recorded-{release}.json")
    assert recording.versions["google-adk"] == release
    again = await recording.replay(PIPELINE)
    assert not diff_recordings(recording, again), str(diff_recordings(recording, again))
    assert [run.text for run in again.runs] == ["Write.", "Again."]
    assert again.state_snapshots[-1]["round"] == 2


async def test_a_pipeline_is_the_same_whatever_its_functions_have_counted() -> None:
    """A counter and a list in a closure, which each run changes, make no other pipeline."""
    count, seen = 0, list[int]()

    def note(state: Any) -> dict[str, int]:
        nonlocal count
        count += 1
        seen.append(count)
        return {"n": 1}

    pipeline = (A >> note) * until(lambda state: len(seen) > 0 and count > 0)
    recording = await recorded(pipeline, {"a": "one"}, turns=2)
    assert recording.of_same_pipeline(pipeline)
    difference = diff_recordings(recording, await recording.replay(pipeline))
    assert str(difference).startswith("No difference: ")
    assert "The pipelines differ" not in str(difference)


async def until_the_limit() -> Any:
    """Works until the time is over, which is now."""
    limit = next_limit()
    assert limit is not None
    limit.expire()
    await asyncio.get_running_loop().create_future()


def timing_out(request: LlmRequest) -> Any:
    """A model that does not answer in time."""

    async def answer() -> Any:
        yield await until_the_limit()

    return answer()


async def wait(order: str) -> str:
    """Wait for an order."""
    return await until_the_limit()


HOUR = 3600
LATE: Mapping[str, tuple[Any, Any]] = {
    "a model": (A.timeout(HOUR) // B, {"a": timing_out, "b": "two"}),
    "after another": ((B >> A).timeout(HOUR) // Agent("d"), {"b": "one", "a": timing_out, "d": "three"}),
    "a tool": (A.tool(wait).timeout(HOUR) // B, {"a": call_tool("wait", order="7"), "b": "two"}),
    "the inner one": (
        ((A.timeout(HOUR) // B) >> Agent("d")).timeout(2 * HOUR),
        {"a": timing_out, "b": "two", "d": "three"},
    ),
    "beside others": (
        (A.timeout(HOUR) // B) | Agent("d"),
        {"a": timing_out, "b": "two", "d": slowly(9, "three")},
    ),
    "uncaught": (B >> A.timeout(HOUR), {"b": "one", "a": timing_out}),
}


@pytest.mark.parametrize("name", LATE)
async def test_a_timeout_fires_again(name: str) -> None:
    """What was cut off by `.timeout` is cut off again where it was, without waiting for the time."""
    expression, script = LATE[name]
    tape, backend = Recorder(), mock_backend(script)
    for turn in ("first", "second"):
        with suppress(AgentTimeoutError):
            await tape.install(expression).run(turn, backend=backend, session_id="s")
    recording = Recording.from_json(tape.get_recording().to_json())
    again = await within_limit(recording.replay(expression))
    assert any(call.ended is None for call in (*again.llm_interactions, *again.tool_interactions))
    assert str(diff_recordings(recording, again)).startswith("No difference: ")
    assert [run.error for run in again.runs] == [run.error for run in recording.runs]


ONE, TWO = race(A, B), race(Agent("c"), Agent("d"))
END = Agent("z").instruct("{x?}").writes("x")
AT_ONCE = T.fn(look_up, in_thread=False)
"""In a thread, the tool would end by chance, and not by the schedule."""

NESTED: Mapping[str, Any] = {
    "two races": FanOut(ONE, TWO),
    "two races with tools": FanOut(race(A.tool(AT_ONCE), B.tool(AT_ONCE)), TWO),
    "two races that write": FanOut(
        race(A.writes("x"), B.writes("x")), race(Agent("c").writes("x"), Agent("d"))
    ),
    "two merges": FanOut(
        FanOut(A, B, merge="first_complete"), FanOut(Agent("c"), Agent("d"), merge="first_complete")
    ),
    "races in a loop": FanOut(ONE, TWO) * 2,
    "races of items": FanOut(S.set(items=["p", "q"]) >> map_over("items", ONE, concurrency=2), TWO),
    "a race in a race": FanOut(race(ONE, Agent("c")), Agent("d") // Agent("e")),
    "another way": FanOut(race(A // B, Agent("c")).timeout(HOUR), Agent("d")),
}

HARD: Mapping[str, int] = {"another way": 9, "races of items": 2}
"""Schedules that are hard to keep; for the others 3 is."""


class Schedule:
    """Models that answer when the test says so: in the order of its random numbers, one after the other."""

    def __init__(self, seed: int) -> None:
        self._random, self._waiting = Random(seed), dict[int, asyncio.Future[None]]()
        self._count = 0

    def answering(self, name: str) -> Any:
        """What a model answers in its turn."""

        async def answer(count: int) -> Any:
            waits = self._waiting[count] = asyncio.get_running_loop().create_future()
            await waits
            yield f"{name} {count}"

        def asked(request: LlmRequest) -> Any:
            self._count += 1
            has_tool = bool(getattr(request.config, "tools", None))
            if has_tool and len(request.contents) == 1:
                return call_tool("look_up", order="7")
            return answer(self._count)

        return asked

    async def go_on(self) -> None:
        """Let one model after the other answer, or two at once."""
        while True:
            for _ in range(self._random.choice((1, 5, 40))):
                await asyncio.sleep(0)
            if self._waiting:
                chosen = self._waiting.pop(self._random.choice(sorted(self._waiting)))
                if not chosen.done():
                    chosen.set_result(None)


async def scheduled(pipeline: Any, seed: int) -> Recording:
    """A run whose models answer in a random order."""
    schedule, tape = Schedule(seed), Recorder()
    script = {name: schedule.answering(name) for name in "abcdez"}
    going = asyncio.ensure_future(schedule.go_on())
    try:
        await within_limit(tape.install(pipeline).run("Go", backend=mock_backend(script)))
    finally:
        going.cancel()
    return Recording.from_json(tape.get_recording().to_json())


def met(recording: Recording) -> list[Any]:
    """What happened in which order where branches met."""
    events = [(step.seq, step.event.author, step.event.branch, step.lost) for step in recording.steps]
    races = [(each.seq, each.contest, each.branch, each.winner) for each in recording.choices if each.seq]
    return [what for _, *what in sorted([*events, *races])]


@pytest.mark.parametrize("name", NESTED)
async def test_races_inside_a_fan_out_meet_as_they_did(name: str) -> None:
    """Races that run at once are decided in the recorded order, and their events come in it, lost or not."""
    pipeline = NESTED[name] >> END
    recording = await scheduled(pipeline, HARD.get(name, 3))
    again = await within_limit(recording.replay(pipeline))
    assert str(diff_recordings(recording, again)).startswith("No difference: ")
    assert met(again) == met(recording)
    assert again.state_snapshots == recording.state_snapshots


@pytest.mark.parametrize("name", ["two races", "two races that write"])
async def test_a_race_is_decided_before_what_came_after_it(name: str) -> None:
    """One race is decided in the round of the event loop in which the other one gets its first answer."""
    pipeline = NESTED[name] >> END
    script = {"a": "a", "b": slowly(5, "b"), "c": slowly(5, "c"), "d": slowly(90, "d"), "z": "end"}
    recording = await recorded(pipeline, script)
    again = await within_limit(recording.replay(pipeline))
    assert met(again) == met(recording)


async def test_a_branch_that_ran_out_of_time_loses_again() -> None:
    """A timeout fires in the branch of a race that another wins later; the race's own end is no timeout."""
    pipeline = race(A.timeout(HOUR), B) >> END
    over = asyncio.Event()

    async def late(request: LlmRequest) -> Any:
        limit = next_limit()
        assert limit is not None
        asyncio.get_running_loop().call_soon(over.set)
        limit.expire()
        await asyncio.get_running_loop().create_future()
        yield ""

    async def first(request: LlmRequest) -> Any:
        await over.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        yield "first"

    recording = await recorded(pipeline, {"a": late, "b": first, "z": "end"})
    (choice,) = recording.choices
    assert choice.taken == ("timeout", "b", "b")
    again = await within_limit(recording.replay(pipeline))
    assert [each.taken for each in again.choices] == [choice.taken]
    assert [(each.key, each.limit) for each in again.llm_interactions] == [("a", 0), ("b", None), ("z", None)]


def at_the_limit(over: asyncio.Event, rounds: int) -> Any:
    """A model whose time is over after some rounds; then it lets another one go on."""

    async def answer(request: LlmRequest) -> Any:
        for _ in range(rounds):
            await asyncio.sleep(0)
        over.set()
        yield await until_the_limit()

    return answer


def after(over: asyncio.Event, rounds: int, error: Exception | None = None) -> Any:
    """A model that answers, or fails, some rounds after that."""

    async def answer(request: LlmRequest) -> Any:
        await over.wait()
        for _ in range(rounds):
            await asyncio.sleep(0)
        if error is not None:
            raise error
        yield "said"

    return answer


BROKEN: Mapping[str, Any] = {
    "a fan-out": FanOut(A.timeout(HOUR), B),
    "a map": S.set(items=["p", "q"]) >> map_over("items", (A >> A).timeout(HOUR), concurrency=2) | B,
    "a race inside": FanOut(A.timeout(HOUR), race(B, Agent("c"))),
    "a race around": race(FanOut(A.timeout(HOUR), B) >> Agent("d"), Agent("c")),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("rounds", range(0, 12, 2))
@pytest.mark.parametrize("fails", [True, False])
async def test_what_fails_at_the_same_time_fails_in_the_recorded_order(
    name: str, rounds: int, fails: bool
) -> None:
    """A timeout and an error, or the end of a race, in one moment: the first of them ends the run again."""
    pipeline, tape, over = BROKEN[name] >> END, Recorder(), asyncio.Event()
    error = ConnectionError("lost") if fails else None
    late, beside = at_the_limit(over, 6 - rounds // 2), after(over, rounds, error)
    script = {"a": [late, late, "a"], "b": beside, "c": after(over, rounds + 1), "d": "d", "z": "end"}
    watched, backend = tape.install(pipeline), mock_backend(script)
    for turn in ("first", "second"):
        with suppress(ADKFluentError):
            await within_limit(watched.run(turn, backend=backend, session_id=turn))
    recording = Recording.from_json(tape.get_recording().to_json())
    again = await within_limit(recording.replay(pipeline))
    assert str(diff_recordings(recording, again)).startswith("No difference: ")
    assert [run.error for run in again.runs] == [run.error for run in recording.runs]
    assert met(again) == met(recording)


NEVER = 10**6
"""Rounds of the event loop in which nothing comes to an end."""


class Lag(Middleware):
    """Lets steps begin and end late, by rounds that are other ones in a replay."""

    def __init__(self) -> None:
        self.rounds: Mapping[str, int] = {}

    async def before_agent(self, ctx: Any, agent_name: str) -> None:
        """A step is about to begin."""
        await self._wait(f"{agent_name} begins")

    def step(self, name: str, does: Callable[[Mapping[str, Any]], Any]) -> Any:
        """A step that does something, and then ends late, well or with an error."""

        async def late(state: Any) -> Any:
            done = does(state)
            await self._wait(name)
            if isinstance(done, Exception):
                raise done
            return done

        late.__name__ = name
        return late

    async def _wait(self, name: str) -> None:
        for _ in range(self.rounds.get(name, 0)):
            await asyncio.sleep(0)


Pace = Mapping[str, int]
SHIFTED: Mapping[str, tuple[Callable[[Lag], Any], Pace, Pace]] = {
    "the first error": (
        lambda lag: FanOut(
            lag.step("one", lambda state: ValueError("one")), lag.step("two", lambda state: ValueError("two"))
        ),
        {"one": NEVER},
        {"two": 50},
    ),
    "what a step reads when it begins": (
        lambda lag: FanOut(
            lag.step("writes", lambda state: {"x": 1}),
            lag.step("reads", lambda state: {"seen": state.get("x")}),
        ),
        {"writes": 9, "reads": 50},
        {"reads begins": 50},
    ),
    "a race that an error ends": (
        lambda lag: FanOut(
            lag.step("fails", lambda state: ValueError("no")),
            race(lag.step("one", lambda state: {"x": 1}), lag.step("two", lambda state: {"x": 2})),
        ),
        {"fails": 20, "one": NEVER, "two": NEVER},
        {"fails": 60},
    ),
}
"""Name → a pipeline, and the pace of its steps in the recording and in the replay."""


@pytest.mark.parametrize("name", SHIFTED)
async def test_steps_that_keep_another_pace_do_the_same(name: str) -> None:
    """Errors, the state that a step reads, and the events of a race come in the recorded order."""
    make, recorded_pace, replayed_pace = SHIFTED[name]
    lag, tape = Lag(), Recorder()
    pipeline = (make(lag) >> END).middleware(lag)
    lag.rounds = recorded_pace
    with suppress(ADKFluentError):
        await within_limit(tape.install(pipeline).run("Go", backend=mock_backend({"z": "end"})))
    recording = Recording.from_json(tape.get_recording().to_json())
    lag.rounds = replayed_pace
    again = await within_limit(recording.replay(pipeline))
    assert str(diff_recordings(recording, again)).startswith("No difference: ")
    assert [run.error for run in again.runs] == [run.error for run in recording.runs]
    assert met(again) == met(recording)


async def test_what_races_pass_on_comes_in_the_recorded_order() -> None:
    """One race is decided while another passes its winner's events on: they reach the next agent as then."""
    called, tape = asyncio.Event(), Recorder()

    class Hold(Middleware):
        rounds = 60

        async def on_event(self, ctx: Any, event: Any) -> None:
            if event.tool_calls:
                called.set()
                for _ in range(self.rounds):
                    await asyncio.sleep(0)

    hold, never = Hold(), after(asyncio.Event(), 0)
    pipeline = (FanOut(race(A.tool(AT_ONCE), B), TWO) >> END).middleware(hold)
    script = {"a": [call_tool("look_up", order="7"), "a"], "b": never, "c": never, "d": after(called, 0)}
    await within_limit(tape.install(pipeline).run("Go", backend=mock_backend({**script, "z": "end"})))
    recording = Recording.from_json(tape.get_recording().to_json())
    said = [event.author for event in recording.events if event.content]
    assert said == ["d", "a", "z"]
    hold.rounds = 0
    again = await within_limit(recording.replay(pipeline))
    assert str(diff_recordings(recording, again)).startswith("No difference: ")
    assert met(again) == met(recording)


async def test_a_limit_that_is_over_while_nothing_is_awaited_in_it() -> None:
    """It ends what is awaited in it next, and nothing outside."""
    limit = Limit(HOUR)
    with limit:
        await asyncio.sleep(0)
    limit.expire()
    await asyncio.sleep(0)
    with limit:
        await within_limit(asyncio.get_running_loop().create_future())
    assert limit.is_over


async def test_who_waits_for_a_cached_answer_waits_for_what_it_waits_for() -> None:
    """Of two equal calls one waits for the other; that waits for an agent that is not asked any more."""

    def pipeline(kind: str) -> Any:
        other = S.set(kind=kind) >> Route("kind").eq("b", B).otherwise(S.set(none=1))
        same = map_over("items", A.context(C.none()), concurrency=2)
        return FanOut(S.set(items=[1, 2]) >> same, other).middleware(cache())

    recording = await recorded(pipeline("b"), {"a": slowly(300, "a"), "b": "b"})
    assert [call.key for call in recording.llm_interactions] == ["b", "a"]
    again = await within_limit(recording.replay(pipeline("c")), 5)
    assert sum(event.author == "a" for event in again.events) == 2


async def test_a_replay_in_which_all_waits_says_so() -> None:
    """Where the recorded winner waits for a person now, and the others may not win, nothing could go on."""
    one, other = S.set(m=1).named("one"), S.set(n=1).named("other")
    recording = await recorded(race(one, other), {})
    assert [choice.winner for choice in recording.choices] == ["one"]
    asking = race(gate(lambda state: True).named("one"), other)
    with pytest.raises(
        ReplayError, match=r"cannot go on: all that runs waits for what '(race|one)' did next"
    ):
        await within_limit(recording.replay(asking), 5)
