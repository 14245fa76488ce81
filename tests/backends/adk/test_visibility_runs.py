"""What the caller of a run sees: marks on every event, the answer, and what policies blank."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, C, FanOut, Loop, Pipeline, Route, S, final_text, gate, map_over, race, transfer
from adk_fluent.backends.events import AgentEvent, RunResult
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError, RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool
from adk_fluent.visibility import VisibilityPlugin, infer_visibility
from tests.backends.support import PlainLlm, failing, play, reply, said, script

a, b, c, d = (Agent(name) for name in "abcd")
HI = types.Content(role="user", parts=[types.Part(text="hi")])


class Size(BaseModel):
    size: int


def yes(state: object) -> bool:
    """A predicate."""
    return True


def no(state: object) -> bool:
    """A predicate."""
    return False


def look(word: str) -> str:
    """Look a word up."""
    return f"found {word}"


def classes(events: list[AgentEvent]) -> dict[str, str]:
    """Author → who sees what it says; the same on all of its events."""
    found = {event.author: event.visibility for event in events}
    assert all(found[event.author] == event.visibility for event in events)
    return found


Script = Mapping[str, Any]
SHAPES: dict[str, tuple[Expr[Any], Script, str]] = {
    "sequence": (a >> b, {}, "a:internal b:user"),
    "reuse": (a >> b >> a, {}, "a:internal a_2:user b:internal"),
    "branches": (a >> (b | c), {}, "a:internal b:user c:user"),
    "join": ((a | b) >> c, {}, "a:internal b:internal c:user"),
    "route": (
        a.writes("k") >> Route("k").eq("x", b >> c).otherwise(d),
        {"a": "x"},
        "a:internal b:internal c:user",
    ),
    "loop": (Loop(a, b, max_iterations=2) >> S.set(x=1), {}, "a:internal b:user set:zero_cost"),
    "map": (
        S.set(xs=[1, 2]) >> map_over("xs", a >> b),
        {},
        "a:internal b:user map:zero_cost set:zero_cost",
    ),
    "race": (race(a, d) >> c, {"d": RuntimeError("no")}, "a:internal c:user"),
    "race at the end": (race(a, b >> c), {"b": RuntimeError("no")}, "a:user"),
    "fallback": (a // b, {"a": RuntimeError("no")}, "b:user fallback:zero_cost"),
    "timeout": (a.timeout(60) >> b.timeout(60), {}, "a:internal b:user"),
    "transfer": (
        a >> transfer("c", condition=yes) >> b >> c,
        {},
        "a:internal c:user to_c:zero_cost",
    ),
    "delegate": (
        a >> b.delegate(c, d),
        {"b": call_tool("transfer_to_agent", agent_name="d")},
        "a:internal b:user d:user",
    ),
    "delegate to a pipeline": (
        a.delegate(Pipeline("p", b, c)),
        {"a": call_tool("transfer_to_agent", agent_name="p")},
        "a:user b:internal c:user",
    ),
    "capture": (S.capture("said") >> a, {}, "a:user capture:zero_cost"),
    "tool": (a.tool(look) >> b, {"a": [call_tool("look", word="w"), "done"]}, "a:internal b:user"),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_every_event_says_who_sees_it(shape: str) -> None:
    """Each event of a run carries the class that its author's place gives it, in a field and in metadata."""
    expression, responses, expected = SHAPES[shape]
    result = await play(expression, responses)
    assert " ".join(f"{name}:{who}" for name, who in sorted(classes(result).items())) == expected
    inferred = infer_visibility(expression)
    for event in result:
        assert event.visibility == inferred[event.author]
        assert event.metadata["adk_fluent.visibility"] == event.visibility
        assert event.metadata["adk_fluent.is_user_facing"] is (event.visibility == "user")


@pytest.mark.parametrize("shape", SHAPES)
async def test_every_way_to_run_marks_the_same(shape: str) -> None:
    """`stream`, `session`, the Runner of `to_runner()` and the App of `to_app()` mark events like `run`."""
    expression, responses, _ = SHAPES[shape]
    expected = classes(await play(expression, responses))
    async with expression.session(backend=script(responses)) as chat:
        assert classes(await chat.send("hi")) == expected
    async with aclosing(expression.stream("hi", backend=script(responses))) as stream:
        assert classes([event async for event in stream]) == expected
    for runner in _runners(expression, responses):
        native = runner.run_async(user_id="user", session_id="s", new_message=HI)
        marks = [(event.author, event.custom_metadata or {}) async for event in native]
        assert {author: metadata["adk_fluent.visibility"] for author, metadata in marks} == expected


def _runners(expression: Expr[Any], responses: Script) -> list[Runner]:
    ours, theirs = (script(responses) for _ in "ab")
    services = ours.services()
    published = theirs.compile(expression.node).published()
    return [
        ours.compile(expression.node).runner(services),
        Runner(app=published, session_service=InMemorySessionService(), auto_create_session=True),
    ]


# AgentTool of newer ADKs hands plugins to its runner in a way that ADK itself deprecates.
@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
async def test_what_runs_inside_a_tool_does_not_surface() -> None:
    """Of an agent that is a tool of another the caller gets no event, only the tool's result."""
    inner = script({"inner": "a secret"}).compile(Agent("inner").node).app.root_agent
    outer = Agent("outer").tool(AgentTool(inner))  # pyright: ignore[reportArgumentType]  # ADK 2 allows more roots
    backend = script({"outer": [call_tool("inner", request="go"), "done"]})
    result = await outer.run("hi", backend=backend)
    assert classes(result) == {"outer": "user"}
    published = script({"outer": [call_tool("inner", request="go"), "done"]}).compile(outer.node).published()
    runner = Runner(app=published, session_service=InMemorySessionService(), auto_create_session=True)
    native = [e async for e in runner.run_async(user_id="user", session_id="s", new_message=HI)]
    assert {e.author for e in native} == {"outer"}


@pytest.mark.newest
async def test_a_workflow_that_is_a_tool_speaks_to_its_agent() -> None:
    """ADK 2 gives out the events of a workflow that is a tool: they are internal, and filtered like all."""
    flow = Pipeline("flow", Agent("inner")).build(target="workflow")
    outer = Agent("outer").tool(flow)  # pyright: ignore[reportArgumentType]  # a node is a tool from ADK 2 on
    responses = {"outer": [call_tool("flow", request="go"), "done"], "inner": "a secret"}
    result = await play(outer, responses)
    assert ("inner", "a secret") in said(result)
    assert {event.visibility for event in result if event.author in ("inner", "flow")} == {"internal"}
    assert result.text == "done"
    assert said(await play(outer.filtered(), responses)) == [("outer", "done")]


def _saying(text: str) -> Any:
    async def answer(request: object) -> Any:
        yield reply(text)

    return answer


class Nosy(BasePlugin):
    """Notes every event it is asked about."""

    def __init__(self) -> None:
        super().__init__(name="nosy")
        self.heard: list[str] = []

    async def on_event_callback(self, *, invocation_context: object, event: Any) -> None:
        """Note it."""
        self.heard.append(event.author)


async def test_the_plugin_works_in_an_app_written_by_hand() -> None:
    """`VisibilityPlugin` marks the events of any app, and the plugins before it hear them too."""
    backend, nosy = script(), Nosy()
    pipeline = a >> b
    root = backend.compile(pipeline.node).app.root_agent
    for of, expected in (
        (pipeline, {"a": "internal", "b": "user"}),
        ({"a": "user", "b": "zero_cost"}, {"a": "user", "b": "zero_cost"}),
    ):
        app = App(name="mine", root_agent=root, plugins=[nosy, VisibilityPlugin(of)])
        runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
        native = [e async for e in runner.run_async(user_id="user", session_id="s", new_message=HI)]
        assert {e.author: (e.custom_metadata or {})["adk_fluent.visibility"] for e in native} == expected
    assert nosy.heard == ["a", "b", "a", "b"]
    with pytest.raises(ArgumentError, match="int"):
        VisibilityPlugin(3)


def test_the_app_brings_its_plugin() -> None:
    """`to_app()` has the plugin, so that ADK's own server shows the marks."""
    plugins = (a >> b).to_app().plugins
    assert isinstance(plugins[-1], VisibilityPlugin)


# --- the answer -----------------------------------------------------------------------------------


async def test_the_answer_is_what_the_user_should_see() -> None:
    """`.text`, `.output`, `ask`, `map` and a session give the last words that are for the user."""
    noted = a >> b.show() >> c.hide()
    words = {"a": "draft", "b": "answer", "c": "log entry"}
    result = await play(noted, words)
    assert (result.text, result.output, final_text(result)) == ("answer",) * 3
    assert [event.author for event in result.visible] == ["b"]
    assert await noted.ask_async("hi", backend=script(words)) == "answer"
    assert await noted.map(["hi", "ho"], backend=script(words)) == ["answer", "answer"]
    async with noted.session(backend=script(words)) as chat:
        assert (await chat.send("hi")).text == "answer"


def test_asking_gives_the_answer() -> None:
    """`ask` gives what the user should see."""
    assert (a.show() >> b.hide()).ask("hi", backend=script({"a": "answer"})) == "answer"


async def test_the_output_is_parsed_as_the_agent_that_the_user_sees_promised() -> None:
    """`.output` belongs to the visible agent, not to a hidden one after it."""
    result = await play((a @ Size).show() >> b.hide(), {"a": '{"size": 3}', "b": "noted"})
    assert result.output == Size(size=3)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (a >> b.proceed_if(no), "from a"),
        (a >> b.proceed_if(yes), "from b"),
        (a >> (b >> c).proceed_if(no) >> d.proceed_if(no), "from a"),
        (a >> S.set(xs=[]) >> map_over("xs", b), "from a"),
        (a >> b.hide(), "from a"),
        (a >> b >> c.hide(), "from b"),
        (a >> (d // S.set(x=1)), "from a"),
        (a.hide() >> b.proceed_if(no), ""),
        ((a >> b).hide(), ""),
        (a >> Route("k").eq("x", b), ""),
        (a.writes("k") >> Route("k").eq("x", b).eq("from a", S.set(x=1)), ""),
        (a >> gate(yes) >> b, ""),
        (S.set(x=1), ""),
    ],
    ids=repr,
)
async def test_who_answers_where_nobody_visible_spoke(expression: Expr[Any], text: str) -> None:
    """The words before skipped or hidden steps are the answer; words hidden on purpose, and labels, never."""
    responses = {name: f"from {name}" for name in "abc"} | {"d": RuntimeError("no")}
    result = await play(expression, responses)
    assert result.text == text
    filtered = await play(expression.filtered(), responses)
    assert filtered.text == text


async def test_a_refusal_is_for_the_user() -> None:
    """What a gate asks and says when it is refused is for the user, even where it is hidden."""
    asked = (a >> gate(yes, message="Send it?").hide() >> b).filtered()
    backend, service = script(), InMemorySessionService()
    first = await asked.run("hi", backend=backend, session_service=service, session_id="s")
    (pending,) = first.pending
    assert {e.author for e in first.visible} == {"gate"}
    refused = await asked.resume(
        session_id="s", approvals={pending.id: False}, backend=backend, session_service=service
    )
    assert refused.text == "Not approved: Send it?"
    assert [event.author for event in refused.visible] == ["gate"]


async def test_what_a_fallback_withdrew_is_not_visible() -> None:
    """`.visible` leaves out the words of a branch that failed, though they were given as they came."""
    result = await play((a >> c) // b, {"a": "half an answer", "c": RuntimeError("no")})
    assert [event.author for event in result.visible if event.content] == ["b"]
    assert result.text == "ok"


def test_events_without_a_mark_are_for_the_user() -> None:
    """`final_text` of events that nobody marked is the last words among them, as ever."""
    events = [AgentEvent("a", "first", is_final=True), AgentEvent("b", "last", is_final=True)]
    assert final_text(events) == "last"
    assert RunResult[str](events).visible == events


# --- policies -------------------------------------------------------------------------------------


async def test_filtered_blanks_what_is_not_for_the_user() -> None:
    """Under `.filtered()` events of inner agents lose their words and keep what they did."""
    pipeline = (a.writes("k").tool(look) >> b).filtered()
    responses = {"a": [call_tool("look", word="w"), "a label"], "b": "answer"}
    result = await play(pipeline, responses)
    inner = [event for event in result if event.author == "a"]
    assert len(inner) == 3
    for event in inner:
        assert (event.content, event.parts, event.tool_calls, event.tool_responses) == (None, (), [], [])
        assert event.raw is not None
        assert event.raw.content is None
    assert inner[-1].state_delta == {"k": "a label"}
    assert said(result) == [("b", "answer")]
    assert result.state == {"k": "a label"}


def _wordy() -> LlmResponse:
    """An answer that repeats its word wherever a model's response can hold words."""
    said = types.Candidate(
        grounding_metadata=types.GroundingMetadata(
            web_search_queries=["grounded secret"],
            grounding_supports=[types.GroundingSupport(segment=types.Segment(text="secret"))],
        ),
        citation_metadata=types.CitationMetadata(citations=[types.Citation(title="cited secret")]),
        logprobs_result=types.LogprobsResult(
            chosen_candidates=[types.LogprobsResultCandidate(token="likely secret")]
        ),
    )
    return reply(
        "a said secret",
        grounding_metadata=said.grounding_metadata,
        citation_metadata=said.citation_metadata,
        logprobs_result=said.logprobs_result,
        input_transcription=types.Transcription(text="heard secret"),
        output_transcription=types.Transcription(text="spoken secret"),
    )


async def _wordily(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
    yield _wordy()


WORDS = ["cited secret", "grounded secret", "heard secret", "likely secret", "said secret", "spoken secret"]


async def test_filtered_words_leave_no_trace() -> None:
    """No field of a blanked event repeats what was said, as metadata do; the stored session keeps all."""
    pipeline = (Agent("a", PlainLlm.of(_wordily)) >> Agent("b", PlainLlm.of(_saying("done")))).filtered()

    def words(events: Iterable[Event | None]) -> list[str]:
        told = "".join(event.model_dump_json() for event in events if event)
        return [word for word in WORDS if word in told]

    service = InMemorySessionService()
    result = await pipeline.run("hi", session_id="s", session_service=service)
    assert words(event.raw for event in result) == []
    assert "secret" not in "".join(event.to_json() for event in result)
    assert [event.author for event in result] == ["a", "b"]
    stored = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    assert stored is not None
    assert words(stored.events) == WORDS
    run = pipeline.to_runner().run_async(user_id="user", session_id="s", new_message=HI)
    assert words([event async for event in run]) == []
    assert words(event.raw for event in await pipeline.annotated().run("hi")) == WORDS


@pytest.mark.newest
async def test_filtered_output_leaves_no_trace() -> None:
    """What a node of an inner workflow gives on as its `output` is blanked like its words."""
    from google.adk.workflow import START, Workflow

    def secret() -> str:
        """Say something."""
        return "a secret"

    flow: Any = Workflow(name="flow", description="Flow.", edges=[(START, secret)])
    outer = Agent("outer").tool(flow)
    responses = {"outer": [call_tool("flow", request="go"), "done"]}
    whole, blank = await play(outer, responses), await play(outer.filtered(), responses)
    given = [event.raw.output for event in whole if event.raw is not None and event.raw.output is not None]
    assert "a secret" in given
    assert [e.raw.output for e in blank if e.raw is not None and e.author != "outer"] == [None] * len(given)


@pytest.mark.parametrize("streaming", [False, True])
async def test_every_terminal_filters(streaming: bool) -> None:
    """`run`, `stream`, `session` and the Runner of `to_runner` blank alike, pieces of answers included."""
    pipeline = (a.writes("k") >> b).filtered()
    responses = {"a": _pieces("a", "label"), "b": _pieces("an", "answer")}
    config = ExecutionConfig(streaming_mode="sse" if streaming else "none")
    options: Any = {"config": config}
    gathered: dict[str, list[tuple[str, str | None, bool]]] = {}

    def told(events: list[AgentEvent]) -> list[tuple[str, str | None, bool]]:
        return [(event.author, event.content, event.is_partial) for event in events]

    gathered["run"] = told(await pipeline.run("hi", backend=script(responses), **options))
    stream = pipeline.stream("hi", backend=script(responses), **options)
    gathered["stream"] = told([event async for event in stream])
    async with pipeline.session(backend=script(responses), **options) as chat:
        gathered["session"] = told(await chat.send("hi"))
    backend = script(responses)
    runner = backend.compile(pipeline.node, config).runner(backend.services())
    native = runner.run_async(user_id="user", session_id="f", new_message=HI)
    gathered["runner"] = [
        (
            e.author,
            "".join(p.text or "" for p in e.content.parts or []) if e.content else None,
            bool(e.partial),
        )
        async for e in native
    ]
    partial = [("a", None, True)] * 2 * streaming, [("b", "an", True), ("b", "answer", True)] * streaming
    whole = [*partial[0], ("a", None, False), *partial[1], ("b", "ananswer", False)]
    assert gathered == dict.fromkeys(("run", "stream", "session", "runner"), whole)


def _pieces(*texts: str) -> Any:
    def respond(request: object) -> Any:
        async def chunks() -> Any:
            for text in texts:
                yield text

        return chunks()

    return respond


async def test_the_runner_of_a_filtered_expression_filters() -> None:
    """`to_runner()` gives the runner that blanks, also through ADK's synchronous `run`."""
    model = PlainLlm.of(_saying("words"))
    runner = (Agent("a", model) >> Agent("b", model)).filtered().to_runner()
    events = await asyncio.to_thread(
        lambda: list(runner.run(user_id="user", session_id="sync", new_message=HI))
    )
    assert [(e.author, e.content is None) for e in events] == [("a", True), ("b", False)]


async def test_a_policy_holds_for_the_part_it_was_set_on() -> None:
    """A filtered part of a larger pipeline is blanked, and the rest is not; an inner policy wins inside."""
    inner = (a >> b).filtered()
    assert said(await play(inner >> c)) == [("c", "ok")]
    assert said(await play(d >> inner >> c)) == [("d", "ok"), ("c", "ok")]
    assert said(await play(((a >> b).annotated() >> c >> d).filtered())) == [
        ("a", "ok"),
        ("b", "ok"),
        ("d", "ok"),
    ]
    limited = ExecutionConfig(timeout_seconds=60)
    assert said(await play((a >> b).filtered(), config=limited)) == [("b", "ok")]


async def test_transparent_shows_everybody() -> None:
    """Under `.transparent()` all agents are for the user, but one that is hidden; nothing is blanked."""
    result = await play((a >> b.hide() >> c).transparent())
    assert classes(result) == {"a": "user", "b": "internal", "c": "user"}
    assert [event.author for event in result.visible] == ["a", "c"]
    assert len(said(result)) == 3


async def test_annotated_gives_everything() -> None:
    """`.annotated()`, which is the default, blanks nothing."""
    assert said(await play((a >> b).annotated())) == said(await play(a >> b)) == [("a", "ok"), ("b", "ok")]


async def test_show_and_hide_win_over_filtered() -> None:
    """A shown agent keeps its words under `.filtered()`, a hidden one loses them even at the end."""
    result = await play((a.show() >> b >> c.hide()).filtered())
    assert said(result) == [("a", "ok")]
    assert result.text == "ok"


async def test_a_question_to_a_person_is_never_blanked() -> None:
    """A tool of an inner agent that needs approval reaches the caller under `.filtered()`, and can go on."""
    pipeline = (a.tool(look, require_confirmation=True) >> b).filtered()
    responses = {"a": [call_tool("look", word="w"), "done"], "b": "answer"}
    backend, service = script(responses), InMemorySessionService()
    first = await pipeline.run("hi", backend=backend, session_service=service, session_id="s")
    (pending,) = first.pending
    (asking,) = first.visible
    assert (asking.author, asking.pending) == ("a", (pending,))
    rest = await pipeline.resume(
        session_id="s", approvals={pending.id: True}, backend=backend, session_service=service
    )
    assert rest.text == "answer"
    assert said(rest) == [("b", "answer")]


async def test_a_failure_is_still_told_when_its_words_are_blanked() -> None:
    """What went wrong in a hidden agent stays on its event."""
    with pytest.raises(RunError, match="'a' gave no answer but an error: SAFETY: blocked") as caught:
        await play((a >> b).filtered(), {"a": failing()})
    result = caught.value.result
    assert result is not None
    assert [event.error for event in result if event.author == "a"] == ["SAFETY: blocked"]


async def test_state_and_artifacts_of_blanked_events_stay() -> None:
    """Every field of a blanked event but its words is as it was."""
    pipeline = a.context(C.none()).writes("k") >> FanOut(b.writes("l"), c.writes("m")) >> d
    whole = await play(pipeline, session_id="one")
    blank = await play(pipeline.filtered(), session_id="two")
    assert [(e.author, e.state_delta, e.is_final, e.branch, e.metadata) for e in whole] == [
        (e.author, e.state_delta, e.is_final, e.branch, e.metadata) for e in blank
    ]


class Line(BaseLlmConnection):
    """A live connection on which the model says one thing."""

    async def send_history(self, history: list[types.Content]) -> None:
        """Take it."""

    async def send_content(self, content: types.Content) -> None:
        """Take it."""

    async def send_realtime(self, blob: Any) -> None:
        """Take it."""

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """Say it."""
        yield reply("a secret")
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing is open."""


class Live(BaseLlm):
    """A model for live conversations."""

    @asynccontextmanager
    async def connect(self, llm_request: object) -> AsyncGenerator[BaseLlmConnection, None]:
        """Open a line."""
        yield Line()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Not used."""
        yield reply("not live")


@pytest.mark.parametrize("filtered", [False, True])
async def test_a_live_conversation_is_marked_and_filtered(filtered: bool) -> None:
    """The Runner of `to_runner()` marks and blanks the events of ADK's `run_live`, too."""
    agent = Agent("a", Live(model="live")).hide()
    runner = (agent.filtered() if filtered else agent).to_runner(session_service=InMemorySessionService())
    await runner.session_service.create_session(app_name=runner.app_name, user_id="user", session_id="s")
    queue = LiveRequestQueue()
    live = runner.run_live(user_id="user", session_id="s", live_request_queue=queue)
    async with aclosing(live) as events:
        event = await anext(events)
    assert (event.custom_metadata or {})["adk_fluent.visibility"] == "internal"
    assert (event.content is None) is filtered
