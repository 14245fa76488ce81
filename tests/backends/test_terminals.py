"""Ways to run an expression: caching, prompts, results, streams, asking, concurrency."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, FanOut, Pipeline, S, gate
from adk_fluent.backends.adk.running import backend as adk_backend
from adk_fluent.backends.events import RunResult, final_text
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import ArgumentError, EventLoopError
from adk_fluent.expr.base import Expr
from adk_fluent.expr.expression_run import Run
from adk_fluent.ir import AgentNode, rewrite
from adk_fluent.testing import mock_backend
from tests.backends.support import (
    Crowd,
    Hang,
    PlainLlm,
    play,
    raises_from,
    replies,
    reply,
    said,
    script,
    seen,
    speakers,
    system,
)

A, B, C = Agent("a"), Agent("b"), Agent("c")
PNG = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")


class Size(BaseModel):
    size: int


# --- compiled once --------------------------------------------------------------------------------


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the roots that were compiled while the test ran."""
    roots: list[str] = []
    real = adk_backend.compile_tree

    def counting(named: Any, *args: Any, **options: Any) -> Any:
        roots.append(named.root.name)
        return real(named, *args, **options)

    monkeypatch.setattr(adk_backend, "compile_tree", counting)
    return roots


async def test_a_second_run_compiles_nothing(compiled: list[str]) -> None:
    """An expression is compiled once for all runs, asks, streams and turns with one backend."""
    expression, backend = Pipeline("p", A, B), script()
    for _ in range(3):
        await expression.run("hi", backend=backend)
    await expression.ask_async("hi", backend=backend)
    assert [event async for event in expression.stream("hi", backend=backend)]
    async with expression.session(backend=backend) as chat:
        await chat.send("hi")
    await expression.map(["x", "y"], backend=backend)
    assert compiled == ["p"]


async def test_each_configuration_is_compiled_once(compiled: list[str]) -> None:
    """Another configuration or backend is compiled for itself; an equal one is not."""
    backend = script()
    for limit in (1, 2, 1, 2):
        await A.run(
            "hi", backend=backend, config=ExecutionConfig(max_llm_calls=limit, custom_metadata={"k": [1]})
        )
    assert len(compiled) == 2
    await A.run("hi", backend=script())
    assert len(compiled) == 3


async def test_the_same_agents_run_each_time() -> None:
    """The native objects of a second run are those of the first."""
    expression, backend = A >> B, script()
    first, second = (Run(expression, {"backend": backend}).compiled for _ in range(2))
    assert first is second
    await expression.run("hi", backend=backend)
    assert Run(expression, {"backend": backend}).compiled.app is first.app


async def test_a_derived_expression_is_compiled_anew() -> None:
    """A method gives a new expression, which never runs what was compiled for the old one."""
    backend = script()
    await A.instruct("one").run("hi", backend=backend)
    await A.instruct("two").run("hi", backend=backend)
    assert ["two" in system(r) for r in backend.calls["a"]] == [False, True]


async def test_running_does_not_change_the_expression() -> None:
    """An expression compares and hashes the same before and after it ran."""
    one, two = Pipeline("p", A, B), Pipeline("p", A, B)
    before = (one == two, hash(one), repr(one))
    await play(one)
    assert (one == two, hash(one), repr(one)) == before


# --- prompts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        ("hi", [types.Part(text="hi")]),
        (PNG, [PNG]),
        (["look", PNG], [types.Part(text="look"), PNG]),
        (("look", PNG, "again"), [types.Part(text="look"), PNG, types.Part(text="again")]),
        (types.Content(role="user", parts=[PNG]), [PNG]),
        (types.Content(parts=[types.Part(text="no role")]), [types.Part(text="no role")]),
    ],
)
async def test_a_prompt_reaches_the_model(prompt: Any, parts: list[types.Part]) -> None:
    """Text, parts, lists of both and a whole `Content` reach the model as the user's message."""
    backend = script()
    await A.run(prompt, backend=backend)
    (content,) = backend.calls["a"][0].contents
    assert content.role == "user"
    assert content.parts == parts


async def test_an_image_reaches_every_agent() -> None:
    """The second agent of a sequence gets the image of the user's message too."""
    backend = script()
    await (A >> B).run(["look", PNG], backend=backend)
    assert PNG in [part for content in backend.calls["b"][0].contents for part in content.parts or []]


async def test_an_answer_may_hold_other_parts() -> None:
    """Content that is not text is in `parts` of its event, and `content` holds the text."""
    answer = types.Content(role="model", parts=[types.Part(text="see "), PNG, types.Part(text="this")])
    result = await play(A, {"a": answer})
    assert result[-1].content == "see this"
    assert result[-1].parts == (PNG,)
    assert result.text == "see this"


async def test_thoughts_are_not_the_answer() -> None:
    """What the model marks as thought is in neither content nor text."""
    answer = types.Content(
        role="model", parts=[types.Part(text="let me think", thought=True), types.Part(text="four")]
    )
    assert (await play(A, {"a": answer})).text == "four"


@pytest.mark.parametrize(
    "prompt", ["", [], (), [""], types.Content(role="user"), types.Content(role="user", parts=[])]
)
async def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    """A message without anything in it is an error before anything runs."""
    backend = script()
    with pytest.raises(ArgumentError, match="The prompt is empty"):
        await A.run(prompt, backend=backend, session_id="never-created")
    assert backend.calls.get("a", []) == []


@pytest.mark.parametrize("prompt", [None, 3, b"bytes", {"text": "hi"}, ["ok", 3], [b"bytes"], object()])
async def test_a_wrong_prompt_is_refused(prompt: Any) -> None:
    """Anything that a message cannot hold is an error that says what can be."""
    with pytest.raises(ArgumentError, match=r"A prompt is text, .*from_bytes"):
        await play(A, prompt=prompt)


async def test_a_wrong_prompt_changes_nothing() -> None:
    """A refused prompt creates no session and writes no state, however it is given."""
    service = InMemorySessionService()
    for call in (A.run, A.ask_async):
        with pytest.raises(ArgumentError):
            await call("", session_service=service, session_id="s", state={"x": 1}, backend=script())
    with pytest.raises(ArgumentError):
        await A.map(["fine", ""], session_service=service, backend=script(), concurrency=1)
    with pytest.raises(ArgumentError):
        _ = [event async for event in A.stream("", session_service=service, session_id="s")]
    found = await service.list_sessions(app_name="adk_fluent_app", user_id="user")
    assert [session.id for session in found.sessions if session.id == "s"] == []


# --- results --------------------------------------------------------------------------------------


async def test_the_result_is_the_list_of_events() -> None:
    """`run` gives the events in order, each with its author, text and what it wrote."""
    result = await play(S.set(x=1) >> A.writes("said"))
    assert isinstance(result, list)
    assert [(e.author, e.content, e.state_delta) for e in result] == [
        ("set", None, {"x": 1}),
        ("a", "ok", {"said": "ok"}),
    ]
    assert len({e.id for e in result}) == 2
    assert {e.invocation_id for e in result} == {result.invocation_id}
    assert all(e.raw is not None and e.timestamp > 0 for e in result)


async def test_state_leaves_out_what_is_absent() -> None:
    """`.state` holds no `None`."""
    result = await play(S.set(x=1, y=2) >> S.drop("x") >> A, state={"z": None})
    assert result.state == {"y": 2}


async def test_usage_by_agent_and_model() -> None:
    """`.usage` sums the calls and tokens that the model reports, by agent and model."""

    def counted(text: str, asked: int, answered: int) -> LlmResponse:
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=asked, candidates_token_count=answered, thoughts_token_count=1
        )
        return reply(text, usage_metadata=usage, model_version="m-1")

    result = await play(
        A >> B >> A, {"a": [counted("x", 10, 2), counted("y", 20, 3)], "b": counted("z", 5, 5)}
    )
    used = {
        key: (u.calls, u.input_tokens, u.output_tokens, u.total_tokens) for key, u in result.usage.items()
    }
    assert used == {("a", "m-1"): (2, 30, 7, 37), ("b", "m-1"): (1, 5, 6, 11)}


async def test_usage_of_a_stream_is_not_counted_twice() -> None:
    """Partial events do not add to the usage."""
    config = ExecutionConfig(streaming_mode="sse")
    plain, streamed = (
        await play(A, {"a": "one two three"}),
        await play(A, {"a": "one two three"}, config=config),
    )
    assert len(streamed) > len(plain)
    assert streamed.usage == plain.usage


async def test_an_empty_result() -> None:
    """A run that said nothing has an empty text, no usage, nothing pending, and its state."""
    result = await play(Pipeline("p", lambda s: None), state={"x": 1})
    assert (list(result), result.text, result.output, result.usage, result.pending) == ([], "", "", {}, [])
    assert result.invocation_id == ""
    assert result.state == {"x": 1}


async def test_final_text_skips_everything_that_is_no_answer() -> None:
    """Neither state-only, partial, tool nor empty events are the final text."""
    result = await play(
        A.writes("x") >> S.set(y=1), config=ExecutionConfig(streaming_mode="sse", resumable=True)
    )
    assert result[-1].content is None
    assert final_text(result) == "ok"
    assert final_text([]) == ""
    assert final_text(event for event in result if event.is_partial) == ""


@pytest.mark.parametrize(
    ("answer", "final"),
    [
        ("four", True),
        (types.Content(role="model", parts=[PNG]), True),
        (types.Content(role="model", parts=[types.Part(text="let me think", thought=True)]), False),
        (types.Content(role="model", parts=[]), False),
    ],
)
async def test_an_event_is_final_with_content_only(answer: Any, final: bool) -> None:
    """An answer in text or in other parts is final; thoughts alone and nothing at all are not."""
    assert (await play(A, {"a": answer}))[-1].is_final is final


async def test_what_only_writes_or_asks_is_not_final() -> None:
    """Events that change state, keep a place, or ask a person are final responses to ADK, and not here."""
    expression = A.writes("x") >> S.set(y=1) >> gate(lambda state: True, message="Send?") >> B
    result = await play(expression, config=ExecutionConfig(resumable=True))
    assert [(event.author, event.content) for event in result if event.is_final] == [("a", "ok")]
    assert sum(event.raw is not None and event.raw.is_final_response() for event in result) > 1
    assert result.pending


# --- streams --------------------------------------------------------------------------------------


async def test_a_stream_gives_pieces_then_the_whole() -> None:
    """While streaming, partial events come first and the whole answer follows; only the whole is stored."""
    service = InMemorySessionService()
    backend = script({"a": "one two three"})
    events = [e async for e in A.stream("hi", backend=backend, session_service=service, session_id="s")]
    assert [(e.content, e.is_partial) for e in events] == [
        ("one ", True), ("two ", True), ("three", True), ("one two three", False)
    ]  # fmt: skip
    session = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    assert session is not None
    assert [e.author for e in session.events] == ["user", "a"]


async def test_pieces_carry_no_state() -> None:
    """Partial events write nothing; the whole one does, once."""
    events = [e async for e in A.writes("said").stream("hi", backend=script({"a": "one two"}))]
    assert [e.state_delta for e in events] == [{}, {}, {"said": "one two"}]


async def test_pieces_come_while_the_model_generates() -> None:
    """A piece is given before the model makes the next one."""
    more = asyncio.Event()

    async def slow(request: LlmRequest) -> AsyncIterator[str]:
        yield "first "
        await more.wait()
        yield "second"

    texts: list[str | None] = []
    async with aclosing((A >> B).stream("hi", backend=script({"a": slow}))) as events:
        async for event in events:
            texts.append(event.content)
            if event.content == "first ":
                more.set()
    assert texts[:3] == ["first ", "second", "first second"]


@pytest.mark.parametrize("expression", [A, A >> B, FanOut("f", A, B), A.timeout(60), A // B], ids=repr)
async def test_a_model_that_fails_half_way_stores_nothing_of_it(expression: Any) -> None:
    """When a model breaks off in the middle of a stream, the pieces are in neither history nor state."""

    async def broken(request: LlmRequest) -> AsyncIterator[str]:
        yield "half an "
        raise ConnectionError("cut off")

    service = InMemorySessionService()
    backend = script({"a": broken, "b": broken})
    pieces: list[str | None] = []

    async def read() -> None:
        events = expression.stream("hi", backend=backend, session_service=service, session_id="s")
        async for event in events:
            pieces.append(event.content)

    with raises_from(ConnectionError, match="cut off"):
        await read()
    assert "half an " in pieces
    session = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    assert session is not None
    assert "half an" not in session.model_dump_json()
    backend = script()
    await Agent("next").run("and now?", backend=backend, session_service=service, session_id="s")
    assert "half an" not in seen(backend.calls["next"][0])


@pytest.mark.parametrize("expression", [A, A >> B, FanOut("f", A), A.timeout(60), A // B, A * 2], ids=repr)
@pytest.mark.parametrize("own", [False, True])
async def test_closing_a_stream_early_ends_the_model_call(expression: Any, own: bool) -> None:
    """A caller that closes the stream ends the model's generator at once, scripted or hand-written."""
    hang = Hang("piece")

    async def answer(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        async with aclosing(hang(request)) as pieces:
            async for piece in pieces:
                yield reply(piece, partial=True)

    if own:
        model = PlainLlm.of(answer)
        expression = _with_model(expression, model)
        options: dict[str, Any] = {}
    else:
        options = {"backend": script({"a": hang})}
    async with aclosing(expression.stream("hi", **options)) as events:
        async for event in events:
            assert event.is_partial
            break
    assert len(hang.ended) == 1


def _with_model(expression: Expr[Any], model: PlainLlm) -> Expr[Any]:
    node = rewrite(expression.node, lambda n: n.replace(model=model) if isinstance(n, AgentNode) else n)
    return expression.from_node(node)


async def test_a_stream_can_be_left_without_closing() -> None:
    """Breaking out of `async for` ends the run too, once the loop gets to it."""
    hang = Hang("piece")
    async for _ in A.stream("hi", backend=script({"a": hang})):
        break
    while not hang.ended:
        await asyncio.sleep(0)
    assert len(hang.ended) == 1


async def test_a_stream_that_is_never_read_does_nothing() -> None:
    """Nothing runs before the first event is asked for."""
    backend = script()
    A.stream("hi", backend=backend)
    assert backend.calls == {}


# --- asking ---------------------------------------------------------------------------------------


def test_ask_waits_for_the_answer() -> None:
    """`ask` gives the text, again and again, without an event loop of the caller's."""
    backend = script({"a": ["one", "two"]})
    assert [A.ask("hi", backend=backend), A.ask("hi", backend=backend)] == ["one", "two"]


def test_ask_gives_the_model() -> None:
    """`ask` of an agent with `returns` gives the parsed model."""
    assert (B >> A @ Size).ask("hi", backend=script({"a": {"size": 3}})) == Size(size=3)


async def test_ask_in_a_running_loop() -> None:
    """Inside an event loop `ask` is an error that names `ask_async`, and nothing is left unawaited."""
    with pytest.raises(EventLoopError, match="ask_async"):
        A.ask("hi", backend=script())


def test_asking_twice_with_a_service_of_ones_own() -> None:
    """Several `ask` calls, each in its own event loop, go on in one session."""
    service, backend = InMemorySessionService(), script()
    expression = S.counter("n") >> A.instruct("{n}")
    for _ in range(2):
        expression.ask("hi", backend=backend, session_service=service, session_id="s")
    assert [system(r)[0] for r in backend.calls["a"]] == ["1", "2"]


async def test_map_keeps_the_order() -> None:
    """`map` gives the answers in the order of the prompts, each from a session of its own."""
    backend = script({"a": replies(lambda r: seen(r).upper())})
    assert await A.map(["x", "y", "z"], backend=backend) == ["X", "Y", "Z"]
    assert await A.map([], backend=backend) == []


@pytest.mark.parametrize(("allowed", "running"), [(1, 1), (2, 2), (7, 7), (50, 7), (None, 5)])
async def test_map_is_bounded(allowed: int | None, running: int) -> None:
    """As many runs are under way at once as `concurrency` allows, by default five, and never more."""
    crowd, prompts = Crowd(7), ["hi"] * 7
    held = script({"a": crowd.held})
    asking = A.map(prompts, backend=held, concurrency=allowed) if allowed else A.map(prompts, backend=held)
    answers, _ = await asyncio.gather(
        asking,
        A.map(prompts, backend=script({"a": crowd.twin}), concurrency=7),
    )
    assert crowd.most == running
    assert answers == ["done"] * 7


async def test_the_first_error_of_a_map_cancels_the_rest() -> None:
    """An error of one prompt is raised, and the other runs' model calls are cancelled."""
    hang, problem = Hang(), ValueError("bad prompt")

    async def answer(request: LlmRequest) -> AsyncIterator[str]:
        if "bad" in seen(request):
            await hang.started.wait()
            raise problem
        async with aclosing(hang(request)) as pieces:
            async for piece in pieces:
                yield piece

    with raises_from(ValueError, match="bad prompt") as caught:
        await A.map(["x", "bad", "y"], backend=script({"a": answer}))
    assert caught.value.__cause__ is problem
    assert hang.ended == ["CancelledError"] * 2


@pytest.mark.parametrize(
    ("prompts", "options"),
    [
        ("text", {}),
        (["x"], {"concurrency": 0}),
        (["x"], {"concurrency": 1.5}),
        (["x"], {"session_id": "s"}),
        (3, {}),
    ],
)
async def test_a_wrong_map_is_refused(prompts: Any, options: Any) -> None:
    """`map` takes a list of prompts, a positive number, and no session."""
    with pytest.raises(ArgumentError, match=r"map\(\)"):
        await A.map(prompts, backend=script(), **options)


# --- at the same time -----------------------------------------------------------------------------


async def test_concurrent_runs_do_not_disturb_each_other() -> None:
    """Many runs of one expression at once each keep their own state, history and answer."""
    expression = S.capture("said") >> FanOut(A.writes("loud"), S.counter("n")) >> A.named("z")
    backend = script({"a": replies(lambda r: seen(r).upper())})
    runs = await asyncio.gather(*(expression.run(f"prompt {n}", backend=backend) for n in range(10)))
    for n, result in enumerate(runs):
        assert result.state == {"said": f"prompt {n}", "loud": f"PROMPT {n}", "n": 1}
    assert len({result.session_id for result in runs}) == 10


async def test_cancelling_one_run_leaves_the_others() -> None:
    """When one of two runs of an expression is cancelled, the other goes on."""
    hang, free = Hang(), asyncio.Event()

    async def answer(request: LlmRequest) -> AsyncIterator[str]:
        if "first" in seen(request):
            async with aclosing(hang(request)) as pieces:
                async for piece in pieces:
                    yield piece
        await free.wait()
        yield "done"

    expression, backend = (A | B) >> C, script({"a": answer})
    first = asyncio.ensure_future(expression.run("first", backend=backend))
    second = asyncio.ensure_future(expression.run("second", backend=backend))
    await hang.started.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    free.set()
    assert "c" in speakers(await second)
    assert hang.ended == ["CancelledError"]


async def test_many_failing_runs_leave_nothing_behind() -> None:
    """Runs that fail, one after another, leave no task running."""
    for expression in (A, A >> B, A | B, A.timeout(60), A // A.named("z")):
        backend = mock_backend(default=RuntimeError("no"))
        for _ in range(3):
            with raises_from(RuntimeError):
                await expression.run("hi", backend=backend)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


# --- the backends' names --------------------------------------------------------------------------


def test_results_can_be_made_by_hand() -> None:
    """A `RunResult` of events alone has text and state, for backends and tests."""
    result: RunResult[str] = RunResult([], state={"x": 1, "y": None})
    assert (result.text, result.state, result.pending) == ("", {"x": 1}, [])


async def test_events_are_plain_values() -> None:
    """An event's data, without the native one, can be written as JSON."""
    (event,) = await play(A)
    data = {key: getattr(event, key) for key in ("author", "content", "state_delta", "metadata", "branch")}
    assert json.loads(json.dumps(data))["content"] == "ok"
    assert said([event]) == [("a", "ok")]
