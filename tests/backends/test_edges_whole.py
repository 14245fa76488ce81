"""What an edge passes on in pieces is what it would pass on whole, whatever may still change the answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.code_executors import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionResult
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.planners import PlanReActPlanner
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from adk_fluent import Agent, C, FanOut, Loop, Pipeline, RemoteAgent, Route, S, map_over, tap
from adk_fluent.adopt import adopt
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import RunError
from adk_fluent.expr.base import Expr
from adk_fluent.ir.passage import cut
from adk_fluent.middleware import Middleware, cache, fallback_model, pii_filter, retry
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.limiting import Timeout
from adk_fluent.middleware.protocol import CallModel
from adk_fluent.testing import mock_backend
from tests.backends.support import PlainLlm, called, reply, script, system
from tests.backends.test_edges import Together, heard

WORDS = "one two three four five six seven"
UP = Agent("up").writes("draft")
DOWN = Agent("down").instruct("{draft?}|").writes("out")


def content(text: str) -> types.Content:
    """What a model says."""
    return types.Content(role="model", parts=[types.Part(text=text)])


def replaced(callback_context: CallbackContext, llm_response: LlmResponse) -> LlmResponse | None:
    """A guardrail on whole answers."""
    return None if llm_response.partial else reply("nothing to see here, move on")


def rescued(callback_context: CallbackContext, llm_request: LlmRequest, error: Exception) -> LlmResponse:
    """An answer in the place of a model that failed."""
    return reply("sorry, that did not work out")


def added(callback_context: CallbackContext) -> types.Content:
    """What is said behind the answer, or in its place."""
    return content("and that is all there is")


def silent(callback_context: CallbackContext) -> None:
    """Say nothing."""


def look(word: str) -> str:
    """Look."""
    return "found"


def looking(request: LlmRequest) -> Any:
    """Say something beside a call, and then the answer."""
    if called(request):
        return "it is five or six or so"
    call = types.FunctionCall(name="look", args={"word": "x"})
    return types.Content(
        role="model", parts=[types.Part(text="let me look at it first"), types.Part(function_call=call)]
    )


async def breaking(request: LlmRequest) -> AsyncIterator[str]:
    """Begin an answer and fail."""
    yield "one two three four "
    raise ValueError("broken")


class NoCode(BaseCodeExecutor):
    """Runs nothing."""

    def execute_code(self, invocation_context: Any, code_execution_input: Any) -> CodeExecutionResult:
        return CodeExecutionResult(stdout="5")


def coding(request: LlmRequest) -> str:
    """Write code, and then the answer."""
    parts = [part for each in request.contents for part in each.parts or []]
    has_run = any(part.code_execution_result or "5" in (part.text or "") for part in parts)
    return "the result of it is five" if has_run else "I will count.\n```python\nprint(5)\n```\n"


class Guard(Middleware):
    """Replaces whole answers."""

    async def after_model(self, ctx: Context, response: LlmResponse) -> str | None:
        return None if response.partial else "nothing to see here, move on"


class Around(Middleware):
    """Replaces the answer around the model."""

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse | str]:
        async for response in call(request):
            if response.partial:
                yield response
        yield "nothing to see here, move on"


class Closing(Middleware):
    """Says more behind every answer."""

    async def after_agent(self, ctx: Context, agent_name: str) -> str | None:
        return "and that is all there is" if agent_name == "up" else None


class Shorter(Timeout):
    """One of ours that does more."""

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        async for response in call(request):
            yield response if response.partial else reply("short")


class OnEvent(BasePlugin):
    """Changes events as they are stored."""

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        if event.author != "up" or event.partial or not event.content:
            return None
        return event.model_copy(update={"content": content("stored is something else here")})


class Own(BaseAgent):
    """An agent made with ADK alone."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(invocation_id=ctx.invocation_id, author=self.name, content=content(WORDS))


@dataclass(frozen=True)
class Case:
    """An upstream, what its model says, and what the check says of its edge."""

    up: Expr[Any]
    answer: Any = WORDS
    why: str = ""
    state: dict[str, Any] = field(default_factory=dict[str, Any])


MODEL = "gemini-2.5-flash"
PICTURE = types.Part(inline_data=types.Blob(data=b"\x89PNG\0", mime_type="image/png"))


class Report(BaseModel):
    """A text."""

    text: str


def skipped(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse:
    """An answer in the place of the model's."""
    return reply("nobody was asked for this answer")


def said(*parts: types.Part) -> types.Content:
    """An answer of several parts."""
    return types.Content(role="model", parts=list(parts))


CASES: dict[str, Case] = {
    "nothing": Case(UP),
    "after_model": Case(UP.after_model(replaced), why="its after_model callback may change the answer"),
    "on_model_error": Case(UP.on_model_error(rescued), breaking, "may answer in the place of a model"),
    "after_agent": Case(UP.after_agent(added), why="its after_agent callback may say more"),
    "after_agent, silent": Case(UP.after_agent(silent), why="its after_agent callback may say more"),
    "after_agent, no key": Case(Agent("up").after_agent(added), why="may say more"),
    "before_agent": Case(UP.before_agent(added)),
    "before_agent, silent": Case(UP.before_agent(silent)),
    "planner": Case(
        UP.planner(PlanReActPlanner()),
        "/*PLANNING*/ think about it /*FINAL_ANSWER*/ the result of it is five",
        "its planner may take text for thoughts",
    ),
    "code": Case(UP.code_executor(NoCode()), coding, "its code_executor may take text for code"),
    "tool": Case(UP.tool(look), looking),
    "tool, no key": Case(Agent("up").tool(look), looking),
    "middleware": Case(UP.middleware(Guard()), why="the after_model of Guard may change the answer"),
    "middleware around": Case(
        UP.middleware(Around()), why="the around_model of Around may change the answer"
    ),
    "middleware behind": Case(
        UP.middleware(Closing()), why="the after_agent of Closing may change the answer"
    ),
    "a subclass": Case(UP.middleware(Shorter(9)), why="the around_model of Shorter may change the answer"),
    "plugin": Case(UP.middleware(OnEvent(name="on_event")), why="the on_event of OnEvent may change"),
    "private data": Case(UP.middleware(pii_filter()), "write to a@b.example or to me", "of PiiFilter may"),
    "remote": Case(
        RemoteAgent("up", endpoint="http://127.0.0.1:1").writes("draft"), why="up answers in another process"
    ),
    "made with ADK": Case(adopt(Own(name="up")), why="what an agent made with ADK alone does is not known"),
    "made with ADK, a model's": Case(
        adopt(LlmAgent(name="up", model=MODEL, output_key="draft", after_model_callback=replaced)),
        why="its after_model callback may change the answer",
    ),
    "typed": Case(UP @ Report, '{"text": "one two three four five six"}', "it answers in JSON"),
    "typed, asked again": Case(
        UP.returns(Report, retries=1),
        ['{"text": 3}', '{"text": "one two three four five six"}'] * 2,
        "it answers in JSON",
    ),
    "before_model": Case(UP.before_model(skipped)),
    "cache": Case(UP.middleware(cache())),
    "fallback model": Case(UP.middleware(fallback_model("other"))),
    "thoughts": Case(
        UP, said(types.Part(text="one two three four five", thought=True), types.Part(text=WORDS))
    ),
    "a file": Case(UP, said(types.Part(text=WORDS), PICTURE)),
    "a file alone": Case(UP, said(PICTURE)),
    "no answer": Case(UP, ""),
    "white space": Case(UP, " \n "),
    "a fallback": Case(UP // Agent("other"), why="it may fail and another answer in its place"),
    "delegate": Case(UP.delegate(Agent("kid")), why="another agent may answer in its place"),
    "in a sequence": Case(
        Pipeline("p", Agent("first"), UP.after_model(replaced)), why="its after_model callback may change"
    ),
    "around a sequence": Case(
        Pipeline("p", Agent("first"), UP).middleware(Guard()), why="of Guard may change"
    ),
    "in a route": Case(
        Route("go").eq(1, UP.after_model(replaced)), why="may change the answer", state={"go": 1}
    ),
    "in a loop": Case(Loop(UP.after_agent(added), max_iterations=2), why="only its last round counts"),
    "rewritten": Case(Pipeline("p", UP, S.transform("draft", str.upper)), why="runs after it has spoken"),
}


def chunked(up: Expr[Any]) -> Expr[Any]:
    """The step with an edge in pieces."""
    return up.stream_to("chunked", chunk_size=3)


async def passed_on(up: Expr[Any], case: Case) -> tuple[str, str, dict[str, Any]]:
    """What reaches `down` under the key and in the conversation, all its runs together, and the state."""
    down = DOWN.context(C.from_agents("up"))
    answers = {"down": "d"} if case is CASES["made with ADK"] else {"up": case.answer, "down": "d"}
    backend = script(answers)
    result = await (up >> down).run("hi", backend=backend, state=case.state)
    asked = backend.calls["down"]
    under_key = "".join(system(request).partition("|")[0] for request in asked)
    told = "".join("".join(heard(request)) for request in asked)
    return under_key, "".join(told.split()), {key: result.state[key] for key in result.state if key != "out"}


@pytest.mark.parametrize("kind", CASES)
async def test_pieces_are_the_whole(kind: str) -> None:
    """Whatever may change an answer after its first words, what goes on in pieces is what goes on whole."""
    case = CASES[kind]
    streamed, whole = await passed_on(chunked(case.up), case), await passed_on(case.up, case)
    if kind == "in a loop":  # its earlier rounds go on whole alone
        streamed, whole = (streamed[0], "", streamed[2]), (whole[0], "", whole[2])
    assert streamed == whole


@pytest.mark.parametrize("kind", CASES)
def test_the_check_says_which_edges_wait(kind: str) -> None:
    """The check names what makes an edge wait, and says nothing of one that does not."""
    case = CASES[kind]
    notes = [one for one in (chunked(case.up) >> DOWN).check().infos if one.code == "streaming-edge-waits"]
    assert len(notes) == bool(case.why)
    assert case.why in "".join(str(note) for note in notes)


# --- the answers of several agents -----------------------------------------------------------------

OTHER = Agent("other").writes("more")


def handing_over(request: LlmRequest) -> types.Content:
    """Say something, and hand over."""
    call = types.FunctionCall(name="transfer_to_agent", args={"agent_name": "other"})
    return said(types.Part(text="let me ask another agent"), types.Part(function_call=call))


def alternating() -> Callable[[LlmRequest], str]:
    """Fail at every second request."""
    asked = list[None]()

    def answer(request: LlmRequest) -> str:
        asked.append(None)
        if len(asked) % 2:
            raise ValueError("busy")
        return WORDS

    return answer


SEVERAL: dict[str, tuple[Callable[[], Expr[Any]], str]] = {
    "fan-out": (lambda: UP | OTHER, "the answer reaches down whole"),
    "interleaved": (lambda: FanOut(UP, OTHER, merge="interleave"), "the answer reaches down whole"),
    "one without a key": (lambda: UP | Agent("other"), "the answer reaches down whole"),
    "at the end of a sequence": (lambda: Agent("first") >> (UP | OTHER), "the answer reaches down whole"),
    "in a route": (lambda: Route("go").eq(1, UP | OTHER).otherwise(UP), "the answer reaches down whole"),
    "in a loop": (lambda: Loop(UP | OTHER, max_iterations=2), "the answer reaches down whole"),
    "in a fallback": (lambda: (UP | OTHER) // Agent("first"), "the answer reaches down whole"),
    "in a time limit": (lambda: (UP | OTHER).timeout(60), "the answer reaches down whole"),
    "map": (lambda: map_over("items", UP, output_key="more"), "the answer reaches down whole"),
    "first_complete": (lambda: FanOut(UP, OTHER, merge="first_complete"), "only when it has ended"),
    "delegate": (lambda: UP.delegate(OTHER), "only when it has ended"),
    "rounds": (
        lambda: Loop(Route("go").eq(1, UP >> S.set(go=2)).otherwise(OTHER), max_iterations=2),
        "only when it has ended",
    ),
}


@pytest.mark.parametrize("kind", SEVERAL)
async def test_the_answers_of_several_agents_go_on_together(kind: str) -> None:
    """Where several agents answer, the next one runs once, on all their answers; no text repeats."""
    make, note = SEVERAL[kind]
    down = Agent("down").instruct("{draft?} {more?}|")
    answers = {"up": handing_over if kind == "delegate" else WORDS, "other": WORDS.upper(), "down": "d"}
    runs: list[list[str]] = []
    for step in (make().named("step"), chunked(make().named("step"))):
        backend = mock_backend(answers, default="ok")
        await (step >> down).run("hi", backend=backend, state={"go": 1, "items": [1, 2]})
        runs.append([system(request).partition("|")[0] for request in backend.calls["down"]])
    assert runs[0] == runs[1]
    assert len(runs[1]) == 1
    (issue,) = [one for one in (step >> down).check().infos if one.code == "streaming-edge-waits"]
    assert note in issue.message


async def test_chunks_that_several_agents_answer_go_on_together() -> None:
    """Where another agent answers some of the chunks, all answers go on together at the end."""
    step = Agent("up").writes("draft") // OTHER
    end = Agent("end").instruct("{draft?} {more?}|")
    runs: list[list[str]] = []
    for taker in (step.named("step"), chunked(step.named("step"))):
        backend = script({"first": WORDS, "up": alternating(), "other": WORDS.upper(), "end": "e"})
        await (chunked(Agent("first")) >> taker >> end).run("hi", backend=backend)
        runs.append([system(request).partition("|")[0] for request in backend.calls["end"]])
    assert runs[0] == runs[1]
    assert len(runs[1]) == 1


def test_an_answer_to_each_chunk_that_may_come_from_another_agent_is_told() -> None:
    """The check says that an edge waits where each chunk may get the answer of another agent."""
    choice = Pipeline("choice", S.set(n=1), Route("go").eq(1, UP).otherwise(OTHER))
    found = (chunked(Agent("first")) >> chunked(choice) >> DOWN).check().infos
    (issue,) = [one for one in found if one.code == "streaming-edge-waits"]
    assert issue.agent == "choice"
    assert "another agent may answer each chunk" in issue.hint


async def test_a_tap_takes_the_chunks_of_several_answers() -> None:
    """A tap has no keys that could repeat, so it takes the chunks of each answer in turn."""
    got = list[str]()
    backend = script({"up": WORDS, "other": WORDS.upper()})
    await (chunked(UP | OTHER) >> tap(got.append)).run("hi", backend=backend)
    assert sorted(got) == sorted([*cut(WORDS, 12), *cut(WORDS.upper(), 12)])


@pytest.mark.parametrize("kind", ["after_model", "after_agent", "planner", "tool", "middleware", "rewritten"])
async def test_a_tap_gets_what_the_key_holds(kind: str) -> None:
    """The pieces that a tap takes are the answer as the key holds it, cut."""
    case, got = CASES[kind], list[str]()
    backend = script({"up": case.answer})
    result = await (chunked(case.up) >> tap(got.append)).run("hi", backend=backend)
    assert "".join(got) == result.state["draft"]
    assert len(got) > 1


@pytest.mark.parametrize("middleware", [retry(), Timeout(60), retry(2)], ids=lambda each: type(each).__name__)
async def test_middleware_that_keeps_answers_does_not_hold_them(middleware: Any) -> None:
    """Middleware that gives on what the model says lets pieces go on while it says more."""
    models = Together()
    up = chunked(UP.middleware(middleware))
    await (up >> DOWN).run("hi", backend=script({"up": models.up, "down": models.down}))
    assert models.order[:2] == ["down is asked", "up goes on"]
    assert "streaming-edge-waits" not in {issue.code for issue in (up >> DOWN).check().issues}


async def test_a_callback_that_says_nothing_more_keeps_the_pieces() -> None:
    """Where a callback behind an answer says nothing, the answer is cut when it is known."""
    backend = script({"up": WORDS, "down": "d"})
    await (chunked(UP.after_agent(silent)) >> DOWN).run("hi", backend=backend)
    assert len(backend.calls["down"]) == 4


async def test_messages_are_not_glued() -> None:
    """What a callback says behind an answer is no part of its last piece."""
    got = list[str]()
    await (chunked(Agent("up").after_agent(added)) >> tap(got.append)).run(
        "hi", backend=script({"up": WORDS})
    )
    assert got == ["one two ", "three four ", "five six ", "seven", "and that is ", "all there is"]


@pytest.mark.parametrize("keyed", [True, False])
async def test_answers_behind_an_edge_are_kept(keyed: bool) -> None:
    """What is said behind the answer to a piece does not take the place of that answer."""
    down = (Agent("down").writes("out") if keyed else Agent("down")).after_agent(
        lambda callback_context: content("!")
    )
    result = await (chunked(UP) >> down).run(
        "hi", backend=script({"up": WORDS, "down": ["a", "b", "c", "d"]})
    )
    assert result.by("down")[-1].content == ("a b c d" if keyed else "a\n! b\n! c\n! d\n!")
    assert result.state.get("out") == ("a b c d" if keyed else None)


@pytest.mark.parametrize("plugin", [OnEvent(name="on_event")])
async def test_plugins_of_a_runner_count(plugin: BasePlugin) -> None:
    """A plugin that only the runner has holds pieces back, too, though no check can know of it."""
    streamed, whole = [await _on_runner(up, plugin) for up in (chunked(UP), UP)]
    assert streamed == whole


async def _on_runner(up: Expr[Any], plugin: BasePlugin) -> str:
    backend = script({"up": WORDS, "down": "d"})
    app = backend.compile((up >> DOWN).node, ExecutionConfig()).published()
    app = app.model_copy(update={"plugins": [*app.plugins, plugin]})
    runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    async for _ in runner.run_async(user_id="u", session_id="s", new_message=content("hi")):
        pass
    return "".join("".join("".join(heard(request)) for request in backend.calls["down"]).split())


async def test_a_model_that_says_another_answer_is_named() -> None:
    """Pieces that have left of an answer which is another one as a whole end the run with one clear line."""

    async def other(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield reply("one two three four ", partial=True)
        yield reply("something else")

    with pytest.raises(RunError, match=r"'up' streamed an answer that is another .*stream_to\(\"full\"\)"):
        await (chunked(UP.model(PlainLlm.of(other))) >> tap(len)).run("hi")


async def test_a_whole_answer_may_say_more_than_its_pieces() -> None:
    """What the whole answer has beyond its pieces goes on as well."""

    async def more(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield reply("one two three four ", partial=True)
        yield reply("one two three four five")

    got = list[str]()
    await (chunked(UP.model(PlainLlm.of(more))) >> tap(got.append)).run("hi")
    assert "".join(got) == "one two three four five"


# --- any pipeline, any answer ---------------------------------------------------------------------

_WORDS = st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=12).map(" ".join)
_CHANGES: tuple[Callable[[Any], Any], ...] = (
    lambda up: up,
    lambda up: up.after_model(replaced),
    lambda up: up.after_agent(added),
    lambda up: up.after_agent(silent),
    lambda up: up.before_agent(silent),
    lambda up: up.planner(PlanReActPlanner()),
    lambda up: up.middleware(Guard()),
    lambda up: up.middleware(Closing()),
    lambda up: up.middleware(retry()),
    lambda up: up.tool(look),
)
_AROUND: tuple[Callable[[Any], Expr[Any]], ...] = (
    lambda up: up,
    lambda up: Pipeline("p", Agent("first"), up),
    lambda up: Pipeline("p", up, S.set(n=1)),
    lambda up: Pipeline("p", up, S.transform("draft", str.upper)),
    lambda up: Route("go").eq(1, up),
    lambda up: up.timeout(60),
    lambda up: up // Agent("other"),
    lambda up: Loop(up, max_iterations=2),
)


@settings(max_examples=25, deadline=None)
@given(
    said=_WORDS,
    beside=st.none() | _WORDS,
    changes=st.lists(st.sampled_from(_CHANGES), max_size=2, unique=True),
    around=st.sampled_from(_AROUND),
    size=st.integers(1, 4),
)
async def test_any_pipeline_passes_on_the_whole(
    said: str,
    beside: str | None,
    changes: list[Callable[[Any], Any]],
    around: Callable[[Any], Expr[Any]],
    size: int,
) -> None:
    """For any step and answer, the pieces that reach the next agent are the answer that its key holds."""

    def answer(request: LlmRequest) -> Any:
        if beside is None or called(request) or not request.tools_dict:
            return said
        call = types.FunctionCall(name="look", args={"word": "x"})
        return types.Content(role="model", parts=[types.Part(text=beside), types.Part(function_call=call)])

    up: Any = UP
    for change in changes:
        up = change(up)
    step, state = around(up), {"go": 1}
    found: list[tuple[str, Any]] = []
    for edge in (step.stream_to("chunked", chunk_size=size), step):
        backend = mock_backend({"up": answer, "down": "d"}, default="ok")
        result = await (edge >> DOWN).run("hi", backend=backend, state=state)
        told = "".join(system(request).partition("|")[0] for request in backend.calls["down"])
        found.append(("".join(told.split()), result.state["draft"]))  # white space alone is no piece
    assert found[0] == found[1]
