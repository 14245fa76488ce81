"""Streaming edges: what comes next starts before the answer is whole, and its results are joined."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.genai import types
from pydantic import BaseModel

from adk_fluent import Agent, C, FanOut, Loop, Pipeline, Route, S, gate, map_over, race, tap
from adk_fluent.backends.adk.steps.pieces import MOST_WAITING
from adk_fluent.backends.events import RunResult
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import CompileError, RunError, StepError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import walk
from adk_fluent.state import StateSchema
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import (
    Client,
    Hang,
    PlainLlm,
    called,
    failing,
    play,
    replies,
    reply,
    requested,
    said,
    script,
    seen,
    session_service,
    speakers,
    system,
)

WORDS = "one two three four five six seven"
UP = Agent("up").writes("draft").stream_to("chunked", chunk_size=3)
DOWN = Agent("down").writes("out")
PIECES = ["one two ", "three four ", "five six ", "seven"]


def heard(request: LlmRequest, author: str = "up") -> list[str]:
    """What an agent said, as the request quotes it: ADK's versions quote in different ways."""
    told = [part.text or "" for content in request.contents for part in content.parts or []]
    found: list[str] = []
    for text in told:
        _, mark, rest = text.partition(f"[{author}] said:")
        if mark:
            lines = rest.lstrip(" \n").splitlines(keepends=True)
            fence = [line for line in lines if not line.startswith(("<<<BEGIN", "<<<END"))]
            found.append("".join(fence).rstrip("\n"))
    return found


def shouting(request: LlmRequest) -> str:
    """A response: the piece in capitals."""
    return heard(request)[-1].strip().upper()


class Together:
    """Models that can only end if they run at the same time: `up` waits until `down` has been called.

    Attributes:
        order: what happened, in order.
    """

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces or ("one two ", "three ")
        self.order: list[str] = []
        self._called = asyncio.Event()

    async def up(self, request: LlmRequest) -> AsyncIterator[str]:
        for piece in self.pieces:
            yield piece
        await self._called.wait()
        self.order.append("up goes on")
        yield "four"

    async def down(self, request: LlmRequest) -> AsyncIterator[str]:
        self.order.append("down is asked")
        self._called.set()
        yield "D"


# --- chunked --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "sse"])
async def test_the_next_agent_starts_before_the_answer_is_whole(mode: Any) -> None:
    """`down` is asked while `up` still generates, whether or not the caller wants pieces."""
    models = Together()
    scripts = {"up": models.up, "down": models.down}
    result = await play(UP >> DOWN, scripts, config=ExecutionConfig(streaming_mode=mode))
    assert models.order == ["down is asked", "up goes on", "down is asked"]
    assert said(result) == [("up", "one two three four"), ("down", "D D")]


async def test_full_waits() -> None:
    """An edge that says `full`, or nothing, waits for the whole answer."""
    for edge in (UP.stream_to("full"), Agent("up").writes("draft")):
        backend = script({"up": WORDS, "down": "ok"})
        await (edge >> DOWN).run("hi", backend=backend)
        assert [heard(request) for request in backend.calls["down"]] == [[WORDS]]


async def test_each_piece_is_one_call_in_order() -> None:
    """The downstream is asked once per piece, in order; the pieces are the answer, cut between words."""
    backend = script({"up": WORDS, "down": shouting})
    result = await (UP >> DOWN).run("hi", backend=backend)
    told = [heard(request)[0] for request in backend.calls["down"]]
    assert [piece.strip() for piece in told] == [piece.strip() for piece in PIECES]
    assert result.text == WORDS.upper()
    assert result.state == {"draft": WORDS, "out": WORDS.upper()}


async def test_one_event_carries_the_joined_answer() -> None:
    """The text, the key and the final event come out once, joined; later agents see no pieces."""
    backend = script({"up": WORDS, "down": shouting, "last": "end"})
    result = await (UP >> DOWN >> Agent("last")).run("hi", backend=backend)
    assert said(result) == [("up", WORDS), ("down", WORDS.upper()), ("last", "end")]
    assert [event.state_delta for event in result if "out" in event.state_delta] == [{"out": WORDS.upper()}]
    request = backend.calls["last"][0]
    assert (heard(request), heard(request, "down")) == ([WORDS], [WORDS.upper()])


async def test_usage_of_every_run_counts() -> None:
    """The tokens of every model call are in the result, with the call they belong to."""
    result = await play(UP >> DOWN, {"up": WORDS, "down": shouting})
    assert [usage.calls for (agent, _), usage in result.usage.items() if agent == "down"] == [4]
    numbers = [event.metadata.get("adk_fluent.piece") for event in result if event.author == "down"]
    assert numbers == [0, 1, 2, 3, None]


async def test_a_piece_stands_where_the_answer_would() -> None:
    """A run reads its piece under the upstream's key, and the answers so far under its own."""
    backend = script({"up": WORDS, "down": ["A", "B", "C", "D"]})
    await (UP >> DOWN.instruct("Do {draft}| So far: {out?}")).run("hi", backend=backend)
    told = [system(request).splitlines()[0] for request in backend.calls["down"]]
    assert told == [
        "Do one two | So far: ",
        "Do three four | So far: A",
        "Do five six | So far: A B",
        "Do seven| So far: A B C",
    ]


async def test_a_run_sees_its_piece_and_what_was_before() -> None:
    """No other piece, no earlier result and nothing else of the joined steps is in a run's conversation."""
    expression = Agent("first") >> (Agent("helper") >> UP).stream_to("chunked", chunk_size=3) >> DOWN
    backend = script({"first": "F", "helper": "H", "up": WORDS, "down": "D"})
    await expression.run("hi", backend=backend)
    for request in backend.calls["down"]:
        assert (heard(request, "first"), heard(request, "helper"), heard(request, "down")) == (["F"], [], [])
        assert len(heard(request)) == 1
        assert "hi" in seen(request)


async def test_the_whole_analysis_agrees() -> None:
    """`.llm_anatomy()` says the same: who is heard, in pieces, and who is not."""
    expression = (
        Agent("first") >> (Agent("helper") >> UP).stream_to("chunked", chunk_size=3) >> DOWN >> Agent("z")
    )
    anatomy = expression.llm_anatomy()
    assert anatomy["down"].sees == {"user", "first", "up"}
    assert anatomy["down"].history == "FULL: user, first, up (in pieces of 3 tokens)"
    assert anatomy["z"].sees == {"user", "first", "helper", "up", "down"}
    assert anatomy["z"].history == "FULL: user, first, helper, up, down"


async def test_a_context_spec_holds_for_each_run() -> None:
    """What `C` leaves out of the conversation is left out of every run."""
    backend = script({"up": WORDS, "down": "D"})
    await (UP >> DOWN.context(C.none()).instruct("Do {draft}")).run("hi", backend=backend)
    assert [heard(request) for request in backend.calls["down"]] == [[]] * 4


async def test_writes_of_earlier_runs_are_there() -> None:
    """The runs follow each other: what one writes the next one reads, and the last value stays."""
    counting = S.counter("n") >> Agent("down").instruct("{n}").writes("out")
    backend = script({"up": WORDS, "down": "D"})
    result = await (UP >> Pipeline("each", counting)).run("hi", backend=backend)
    assert [system(request).splitlines()[0] for request in backend.calls["down"]] == ["1", "2", "3", "4"]
    assert result.state["n"] == 4


async def test_several_agents_behind_the_edge() -> None:
    """A composite runs for each piece, and the answers of each of its agents are joined."""
    body = Pipeline("body", Agent("x").writes("mid"), Agent("y").instruct("{mid}").writes("out"))
    result = await play(UP >> body, {"up": WORDS, "x": ["1", "2", "3", "4"], "y": ["a", "b", "c", "d"]})
    assert said(result) == [("up", WORDS), ("x", "1 2 3 4"), ("y", "a b c d")]
    assert result.state == {"draft": WORDS, "mid": "1 2 3 4", "out": "a b c d"}


async def test_tools_behind_the_edge() -> None:
    """Each run may call tools; calls and results are in the events."""
    looked: list[str] = []

    def look(word: str) -> str:
        """Look."""
        looked.append(word)
        return "found"

    def answer(request: LlmRequest) -> Any:
        return "ok" if called(request) else call_tool("look", word=heard(request)[0].split()[0])

    result = await play(UP >> DOWN.tool(look), {"up": WORDS, "down": answer})
    assert looked == ["one", "three", "five", "seven"]
    assert [call.args["word"] for event in result for call in event.tool_calls] == looked
    assert result.text == "ok ok ok ok"


async def test_pieces_of_answers_reach_the_caller() -> None:
    """`stream` gives pieces of both while they are generated; those of each make up its answer."""
    models, told = Together(), list[tuple[str, str]]()
    backend = script({"up": models.up, "down": models.down})
    async with aclosing((UP >> DOWN).stream("hi", backend=backend)) as events:
        async for event in events:
            if event.is_partial:
                told.append((event.author, event.content or ""))
    assert told.index(("down", "D")) < told.index(("up", "four"))
    assert "".join(text for author, text in told if author == "down") == "D D"
    assert "".join(text for author, text in told if author == "up") == "one two three four"


async def test_no_pieces_for_a_caller_who_wants_none() -> None:
    """`run` gives whole events only, though the model was asked to stream."""
    result = await play(UP >> DOWN, {"up": WORDS, "down": shouting})
    assert [event for event in result if event.is_partial] == []


async def test_a_model_that_gives_no_pieces() -> None:
    """The whole answer of a model that does not stream is cut likewise."""

    async def whole(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield reply(WORDS)

    async def piece(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield reply(shouting(request))

    result = await (UP.model(PlainLlm.of(whole)) >> DOWN.model(PlainLlm.of(piece))).run("hi")
    assert result.text == WORDS.upper()
    assert said(result) == [("up", WORDS), ("down", WORDS.upper())]


async def test_a_chain_runs_all_at_once() -> None:
    """Three steps in a row all work at the same time, each on pieces of the one before."""
    called_last, order = asyncio.Event(), list[str]()

    async def first(request: LlmRequest) -> AsyncIterator[str]:
        yield "one two three four "
        await called_last.wait()
        order.append("first goes on")
        yield "five"

    async def last(request: LlmRequest) -> AsyncIterator[str]:
        order.append("last is asked")
        called_last.set()
        yield heard(request, "mid")[0].strip()

    mid = Agent("mid").stream_to("chunked", chunk_size=2)
    expression = UP >> mid >> Agent("last")
    result = await play(expression, {"up": first, "mid": "m1 m2 m3 m4", "last": last})
    assert order[:2] == ["last is asked", "first goes on"]
    assert speakers(result) == ["up", "mid", "last"]
    assert result.text == result.by("mid")[-1].content


async def test_an_empty_answer_is_one_run() -> None:
    """Where the upstream says nothing, the downstream runs once, as behind any silent step."""
    backend = script({"up": "", "down": "alone"})
    result = await (UP >> DOWN).run("hi", backend=backend)
    assert (len(backend.calls["down"]), result.text) == (1, "alone")


async def test_white_space_stands_between_answers() -> None:
    """What stood between two pieces stands between their answers; where nothing did, nothing does."""
    lines = Agent("up").stream_to("chunked", chunk_size=1)
    assert (await play(lines >> DOWN, {"up": "ab\ncd ef", "down": ["1", "2", "3"]})).text == "1\n2 3"
    assert (await play(lines >> DOWN, {"up": "abcdefgh", "down": ["1", "2"]})).text == "12"


# --- failing, leaving -----------------------------------------------------------------------------


async def test_a_failure_behind_the_edge_ends_the_upstream() -> None:
    """When a run raises, the upstream's model call is cancelled and the error names the agent."""
    hang = Hang("one two three ")
    with pytest.raises(RunError, match="Agent 'down' got no answer"):
        await play(UP >> DOWN, {"up": hang, "down": ValueError("bad")})
    assert hang.ended == ["CancelledError"]


async def test_a_failure_that_is_reported() -> None:
    """An error event of a run ends the run of the whole, and a fallback catches it."""
    scripts: dict[str, Any] = {"up": WORDS, "down": ["ok", failing()]}
    with pytest.raises(RunError, match="'down' gave no answer but an error: SAFETY: blocked"):
        await play(UP >> DOWN >> Agent("last"), scripts)
    assert (await play((UP >> DOWN) // Agent("other"), {**scripts, "other": "caught"})).text == "caught"


async def test_a_failure_of_the_upstream() -> None:
    """When the upstream fails nothing of what came of its first pieces is passed on."""

    async def breaking(request: LlmRequest) -> AsyncIterator[str]:
        yield "one two three four "
        raise ValueError("broken")

    service = InMemorySessionService()
    with pytest.raises(RunError, match="broken"):
        await play(UP >> DOWN, {"up": breaking}, session_service=service, session_id="s")
    session = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    assert session is not None
    assert [event.author for event in session.events if event.author == "down"] == []


async def test_leaving_a_loop_behind_the_edge() -> None:
    """A run that ends the loop is the last; the upstream's answer still comes whole."""
    from google.adk.tools import exit_loop  # here, where it is used

    def answer(request: LlmRequest) -> Any:
        return call_tool("exit_loop") if "three" in seen(request) else "go"

    backend = script({"up": WORDS, "down": answer})
    result = await Loop(UP, DOWN.tool(exit_loop), max_iterations=3).run("hi", backend=backend)
    assert (len(backend.calls["up"]), len(backend.calls["down"])) == (1, 2)
    assert result.by("up")[-1].content == WORDS


# --- back-pressure --------------------------------------------------------------------------------


@pytest.mark.parametrize("bounded", [True, False])
async def test_backpressure_bounds_what_waits(bounded: bool) -> None:
    """With a consumer that stands still, no more pieces wait than the bound; without it, all do."""
    made, going, stuck = list[int](), asyncio.Event(), asyncio.Event()

    async def many(request: LlmRequest) -> AsyncIterator[str]:
        for number in range(100):
            made.append(number)
            yield f"{number} "

    async def slow(piece: str) -> None:
        stuck.set()
        await going.wait()

    up = Agent("up").stream_to("token", backpressure=bounded)
    running = asyncio.ensure_future(play(up >> tap(slow), {"up": many}))
    await stuck.wait()
    before = -1
    while before < len(made):  # until it makes no more
        before = len(made)
        for _ in range(100):
            await asyncio.sleep(0)
    standing = len(made)
    going.set()
    await running
    assert len(made) == 100
    # One is in the consumer's hands, one in the producer's, and one is being made.
    assert standing <= MOST_WAITING + 3 if bounded else standing == 100


# --- token ----------------------------------------------------------------------------------------


async def test_a_tap_gets_each_piece() -> None:
    """A tap behind a token edge is called with each piece of text while the answer is generated."""
    got, ready = list[str](), asyncio.Event()

    async def up(request: LlmRequest) -> AsyncIterator[str]:
        yield "one "
        await ready.wait()
        yield "two"

    def look(piece: str) -> None:
        got.append(piece)
        ready.set()

    result = await play(Agent("up").stream_to("token") >> tap(look) >> DOWN, {"up": up})
    assert got == ["one ", "two"]
    assert said(result) == [("up", "one two"), ("down", "ok")]


async def test_a_tap_gets_chunks() -> None:
    """Behind a chunked edge a tap gets the chunks; behind any other the state, as ever."""
    got: list[str] = []
    await play(UP >> tap(got.append), {"up": WORDS})
    assert got == PIECES
    states: list[object] = []
    await play(UP.stream_to() >> tap(states.append), {"up": WORDS})
    assert states == [{"draft": WORDS}]


async def test_a_function_takes_the_pieces() -> None:
    """A function whose parameter is an `AsyncIterator[str]` takes them as they come, and writes its dict."""
    begun = asyncio.Event()

    async def up(request: LlmRequest) -> AsyncIterator[str]:
        yield "a b "
        await begun.wait()
        yield "c"

    async def count(pieces: AsyncIterator[str]) -> dict[str, int]:
        total = 0
        async for piece in pieces:
            begun.set()
            total += len(piece.split())
        return {"words": total}

    result = await play(Agent("up").stream_to("token") >> count >> DOWN.instruct("{words}"), {"up": up})
    assert result.state == {"words": 3, "out": "ok"}
    assert [event.author for event in result] == ["up", "count", "down"]


async def test_a_function_that_leaves_early() -> None:
    """A function that returns before the end wants no more pieces, and the answer still comes whole."""

    async def first(pieces: AsyncIterator[str]) -> dict[str, str]:
        async for piece in pieces:
            return {"first": piece}
        return {}

    up = Agent("up").stream_to("token", backpressure=True)
    text = " ".join(map(str, range(50)))
    result = await play(up >> first, {"up": text})
    assert (result.state, result.text) == ({"first": "0 "}, text)


async def test_a_function_that_raises_is_named() -> None:
    """What a tap raises on a piece ends the run, names the step, and cancels the model call."""
    hang = Hang("x")

    def refuse(piece: str) -> None:
        raise ValueError(f"no {piece}")

    with pytest.raises(StepError, match="'refuse' raised ValueError: no x"):
        await play(Agent("up").stream_to("token") >> tap(refuse), {"up": hang})
    assert hang.ended == ["CancelledError"]


async def test_runs_inside_a_tap_take_nothing_of_it() -> None:
    """An expression that a tap runs has taps of its own, which get their state."""
    inner: list[object] = []

    async def run(piece: str) -> None:
        await (S.set(n=1) >> tap(inner.append)).run("hi")

    await play(Agent("up").stream_to("token") >> tap(run), {"up": "one"})
    assert inner == [{"n": 1}]


# --- what waits -----------------------------------------------------------------------------------


class Texts(StateSchema):
    """A key that is written by its field."""

    draft: str


class Shape(BaseModel):
    """An answer in JSON."""

    size: int


LATE: dict[str, tuple[Expr[Any], str]] = {
    "loop": (Loop(Agent("up"), max_iterations=2), "only its last round counts"),
    "fallback": (Agent("bad") // Agent("up"), "it may fail"),
    "race": (race(Agent("up"), Agent("slow")), "it may fail"),
    "parallel": (Agent("up") | S.set(n=1), "its branches run at the same time"),
    "several one after another": (
        Loop(Route("r").eq(1, Agent("nobody")).otherwise(Agent("up")), max_iterations=1),
        "only its last round",
    ),
    "step after": (Pipeline("p", Agent("up"), S.set(n=1)), "set runs after it has spoken"),
}


@pytest.mark.parametrize("kind", LATE)
async def test_an_answer_that_is_settled_late_is_cut_then(kind: str) -> None:
    """Where only the end tells what the answer is, it is cut when it stands, and the check says so."""
    upstream, why = LATE[kind]
    expression = upstream.stream_to("chunked", chunk_size=3) >> DOWN
    agents = {node.name for node in walk(expression.node)}
    scripts = {"up": WORDS, "bad": failing(), "slow": Hang(), "nobody": "", "down": shouting}
    backend = script({name: answer for name, answer in scripts.items() if name in agents})
    result = await expression.run("hi", backend=backend)
    assert [heard(request)[0].strip() for request in backend.calls["down"]] == [p.strip() for p in PIECES]
    assert result.text == WORDS.upper()
    (issue,) = [issue for issue in expression.check().infos if issue.code == "streaming-edge-waits"]
    assert "in chunks only when it has ended" in issue.message
    assert why in issue.hint


BESIDE: dict[str, tuple[Callable[[Expr[Any]], Expr[Any]], str]] = {
    "a branch of a route": (lambda up: Route().when(lambda state: True, up), "route"),
    "the end of a branch": (lambda up: Route().when(lambda state: True, Agent("x") >> up), "route"),
    "a parallel branch": (lambda up: up | Agent("x"), "parallel"),
    "a branch of a race": (lambda up: race(up, Agent("slow")), "race"),
    "a fallback": (lambda up: up // Agent("x"), "fallback"),
    "a loop": (lambda up: Loop(up, max_iterations=1), "loop"),
    "an item of a map": (lambda up: map_over("items", up), "map"),
    "who is handed over to": (lambda up: Agent("boss").delegate(up), "boss"),
}


@pytest.mark.parametrize("place", BESIDE)
async def test_an_edge_of_a_part_is_told(place: str) -> None:
    """An edge of what is one of several in a step does not lead out of it; the check says where to say so."""
    make, around = BESIDE[place]
    answers = {"up": WORDS, "x": "so", "slow": Hang(), "boss": "so", "down": "ok"}
    expression = make(UP) >> DOWN
    backend = mock_backend(answers)
    await expression.run("hi", backend=backend, state={"items": [1]})
    assert len(backend.calls["down"]) == 1
    (issue,) = [issue for issue in expression.check().infos if issue.code == "streaming-edge-waits"]
    assert issue.agent == "up"
    assert f"down follows {around}, of which up is a part" in issue.hint
    said_outside = make(Agent("up")).stream_to("chunked", chunk_size=3) >> DOWN
    assert "of which up is a part" not in str(said_outside.check())
    assert "streaming-edge-waits" not in {issue.code for issue in make(UP).check().issues}


WHOLE: dict[str, tuple[Expr[Any], str]] = {
    "a person": (Pipeline("ask", Agent("x"), gate(lambda state: False)), "asked once"),
    "no model": (S.set(n=1), "no model answers in set"),
    "JSON": (Agent("x").returns(Shape), "cannot be joined"),
    "tokens": (Agent("x"), ""),
}


@pytest.mark.parametrize("kind", WHOLE)
async def test_what_cannot_take_pieces_gets_the_whole(kind: str) -> None:
    """A step that pieces make no sense for runs once, on the whole answer, and the check says why."""
    downstream, why = WHOLE[kind]
    up = Agent("up").stream_to("token") if kind == "tokens" else UP
    backend = script({"up": WORDS, **({} if kind == "no model" else {"x": '{"size": 1}'})})
    await (up >> downstream).run("hi", backend=backend)
    if kind != "no model":
        assert [heard(request) for request in backend.calls["x"]] == [[WORDS]]
    codes = {issue.code: issue for issue in (up >> downstream).check().issues}
    if why:
        assert why in codes["streaming-edge-waits"].hint
    else:
        assert "streaming-model-conflict" in codes
        assert "streaming-edge-waits" not in codes


async def test_an_upstream_that_answers_in_json_is_whole() -> None:
    """Half a JSON document says nothing, so it is not cut."""
    backend = script({"up": {"size": 2}, "down": "ok"})
    await (Agent("up").returns(Shape).stream_to("chunked", chunk_size=1) >> DOWN).run("hi", backend=backend)
    assert len(backend.calls["down"]) == 1


def words(pieces: Any) -> Any:
    """Set below: its parameter is annotated there."""


words.__annotations__["pieces"] = AsyncIterator[str]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            S.set(n=1).stream_to("token") >> Agent("a"),
            r'set.stream_to\(buffering="token"\): no agent answers',
        ),
        (tap(print).stream_to("chunked") >> Agent("a"), "no agent answers in print"),
        (Agent("a") >> words, "words takes an answer in chunks, and no step before it streams one"),
        (Agent("a").stream_to("token") >> Agent("b") >> words, "words takes an answer in chunks"),
        (Route("k").eq(1, Pipeline(words)).otherwise(Agent("a")), "words takes an answer in chunks"),
    ],
    ids=["of a transform", "of a tap", "no edge", "an edge elsewhere", "in a branch"],
)
def test_what_cannot_be_is_refused(expression: Expr[Any], message: str) -> None:
    """An edge out of a step that says nothing, and pieces that nobody gives, are one clear line."""
    with pytest.raises(CompileError, match=message):
        expression.build()
    found = [issue for issue in expression.check().errors if issue.code == "streaming-source-missing"]
    assert len(found) == 1


# --- inside composites ----------------------------------------------------------------------------

EDGE = Pipeline("edge", UP, DOWN)
INSIDE: dict[str, Callable[[], Expr[Any]]] = {
    "sequence": lambda: S.set(n=1) >> EDGE >> S.set(m=2),
    "parallel": lambda: EDGE | Agent("other"),
    "first_complete": lambda: FanOut(EDGE, Agent("slow"), merge="first_complete"),
    "loop": lambda: Loop(UP, DOWN, max_iterations=2),
    "route": lambda: S.set(go=1) >> Route("go").eq(1, EDGE),
    "fallback": lambda: Agent("bad") // EDGE,
    "race": lambda: race(EDGE, Agent("slow")),
    "map": lambda: S.set(items=[1, 2]) >> map_over("items", EDGE),
    "timeout": lambda: EDGE.timeout(100),
    "delegate": lambda: Agent("boss").delegate(EDGE),
    "behind an edge": lambda: Agent("top").stream_to("chunked", chunk_size=100) >> EDGE,
}
SCRIPTS: dict[str, Any] = {
    **{"up": WORDS, "bad": failing(), "other": "ok", "top": "start"},
    "boss": call_tool("transfer_to_agent", agent_name="edge"),
}


def scripted(expression: Expr[Any], backend_options: dict[str, Any] | None = None) -> Any:
    """A backend with scripts for the agents that an expression has."""
    agents = {node.name for node in walk(expression.node)}
    scripts = {**SCRIPTS, "slow": Hang(), "down": shouting}
    return script({n: said for n, said in scripts.items() if n in agents}, **(backend_options or {}))


@pytest.mark.parametrize("kind", INSIDE)
async def test_inside_every_composite(kind: str) -> None:
    """An edge streams wherever its two steps stand."""
    expression = INSIDE[kind]()
    backend = scripted(expression)
    result = await expression.run("hi", backend=backend)
    times = 2 if kind in ("loop", "map") else 1
    assert len(backend.calls["down"]) == 4 * times
    assert [text for author, text in said(result) if author == "down"] == [WORDS.upper()] * times


@pytest.mark.parametrize("kind", INSIDE)
async def test_pieces_come_through_every_composite(kind: str) -> None:
    """`stream` gives the pieces of the joined answers through every composite."""
    expression = INSIDE[kind]()
    told: list[str] = []
    async with aclosing(expression.stream("hi", backend=scripted(expression))) as events:
        async for event in events:
            if event.is_partial and event.author == "down":
                told.append(event.content or "")
    if kind == "map":  # whose items run at the same time
        assert sorted("".join(told)) == sorted(WORDS.upper() * 2)
    else:
        assert "".join(told) == WORDS.upper() * (2 if kind == "loop" else 1)


# --- pausing --------------------------------------------------------------------------------------


async def _through(
    expression: Expr[Any], backend: Any, service: BaseSessionService
) -> tuple[RunResult[Any], RunResult[Any]]:
    """A run that waits for a person, and what follows when it is approved."""
    first = await expression.run("hi", backend=backend, session_service=service, session_id="s")
    approvals = {pending.id: True for pending in first.pending}
    assert approvals
    more = await expression.resume(
        session_id="s", approvals=approvals, backend=backend, session_service=service
    )
    return first, more


GATE = gate(lambda state: True, message="Go?")
PAUSING: dict[str, tuple[Expr[Any], list[str], list[str]]] = {
    "before": (GATE >> UP >> DOWN, [], ["up", "down"]),
    "after": (UP >> DOWN >> GATE >> Agent("z"), ["up", "down"], ["z"]),
    "in the upstream": (
        Pipeline("p", UP, GATE).stream_to("chunked", chunk_size=3) >> DOWN >> Agent("z"),
        ["up"],
        ["down", "z"],
    ),
    "in another branch": ((UP >> DOWN) | GATE, ["up", "down"], []),
    "in a loop": (Loop(UP, DOWN, GATE, max_iterations=1), ["up", "down"], []),
}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("kind", PAUSING)
async def test_edges_around_a_pause(kind: str, store: str, tmp_path: Path) -> None:
    """A run that waits goes on behind what has finished, and an answer that is stored is cut as before."""
    expression, before, after = PAUSING[kind]
    backend = script({"up": WORDS, "down": shouting, **({"z": "end"} if "z" in str(after) else {})})
    first, more = await _through(expression, backend, session_service(store, tmp_path))
    assert (speakers(first), speakers(more)) == (before, after)
    assert len(backend.calls["up"]) == 1
    assert len(backend.calls["down"]) == 4
    assert more.state["out"] == WORDS.upper()


async def test_a_run_that_broke_off_takes_the_stored_answer() -> None:
    """A run that broke off behind the upstream goes on by its invocation: the stored answer is cut again."""
    up = UP.stream_to("chunked", chunk_size=100)  # one piece, which leaves when the answer stands
    expression, config = up >> DOWN >> Agent("z"), ExecutionConfig(resumable=True)
    sessions = InMemorySessionService()

    def runner(**scripts: Any) -> Runner:
        app = script(scripts).compile(expression.node, config).published()
        return Runner(app=app, session_service=sessions, auto_create_session=True)

    message = types.Content(role="user", parts=[types.Part(text="hi")])
    with pytest.raises(ValueError, match="crash"):
        await _texts(runner(up=WORDS, down=ValueError("crash")), new_message=message)
    (stored,) = (await sessions.list_sessions(app_name="adk_fluent_app", user_id="u")).sessions
    session = await sessions.get_session(app_name="adk_fluent_app", user_id="u", session_id=stored.id)
    assert session is not None
    assert [event.author for event in session.events if event.content] == ["user", "up"]
    later = runner(up="again", down=shouting, z="end")
    told = await _texts(later, invocation_id=session.events[-1].invocation_id)
    assert told == [WORDS.upper(), "end"]


async def _texts(runner: Runner, **options: Any) -> list[str]:
    """What is said in a run on ADK's runner."""
    told: list[str] = []
    async with aclosing(runner.run_async(user_id="u", session_id="s", **options)) as events:
        async for event in events:
            told += [part.text for part in (event.content and event.content.parts) or [] if part.text]
    return told


async def test_on_adks_own_runner() -> None:
    """An app of `to_app()` streams its edges on ADK's runner, also behind a pause."""
    models = Together()
    backend = script({"up": models.up, "down": models.down})
    events = await Client.of(UP >> DOWN, backend).say("hi")
    assert models.order[:2] == ["down is asked", "up goes on"]
    assert [e.author for e in events if e.content] == ["up", "down"]
    client = Client.of(UP >> DOWN >> GATE >> Agent("z"), script({"up": WORDS, "down": shouting}))
    (request,) = requested(await client.say("hi"))
    assert [e.author for e in await client.confirm(request) if e.content] == ["z"]


# --- pieces through every composite, without edges ------------------------------------------------

A, B = Agent("a"), Agent("b")
PLAIN: dict[str, Expr[Any]] = {
    ">>": S.set(n=1) >> A,
    "|": A | B,
    "first_complete": FanOut(A, Agent("slow"), merge="first_complete"),
    "interleave": FanOut(A, B, merge="interleave"),
    "race": race(A, Agent("slow")),
    "loop": Loop(A, max_iterations=1),
    "route": S.set(go=1) >> Route("go").eq(1, A),
    "map_over": S.set(items=[1]) >> map_over("items", A),
    "fallback": Agent("bad") // A,
    "timeout": A.timeout(100),
    "delegate": Agent("boss").delegate(Pipeline("edge", A)),
}


@pytest.mark.parametrize("kind", PLAIN)
async def test_partial_answers_come_as_they_are_generated(kind: str) -> None:
    """A piece reaches the caller of `stream` before the model goes on, through every composite."""
    expression, heard_first, order = PLAIN[kind], asyncio.Event(), list[str]()

    async def answer(request: LlmRequest) -> AsyncIterator[str]:
        yield "first "
        await heard_first.wait()
        order.append("goes on")
        yield "second"

    agents = {node.name for node in walk(expression.node)}
    scripts = {**SCRIPTS, "slow": Hang(), "a": answer, "b": "quick"}
    backend = script({name: said for name, said in scripts.items() if name in agents})
    async with aclosing(expression.stream("hi", backend=backend)) as events:
        async for event in events:
            if event.author == "a" and event.is_partial and not heard_first.is_set():
                order.append("heard")
                heard_first.set()
    assert order == ["heard", "goes on"]


async def test_pieces_of_losers_are_stored_nowhere() -> None:
    """A race gives pieces of all its branches, and in the session there is the winner's answer alone."""
    slow, service = Hang("never "), InMemorySessionService()

    async def winner(request: LlmRequest) -> AsyncIterator[str]:
        await slow.started.wait()
        yield "won"

    backend = script({"a": winner, "slow": slow}, session_service=service)
    told: list[tuple[str, bool]] = []
    async with aclosing(race(A, Agent("slow")).stream("hi", backend=backend, session_id="s")) as events:
        async for event in events:
            told.append((event.author, event.is_partial))
    assert told == [("slow", True), ("a", True), ("a", False)]
    session = await service.get_session(app_name="adk_fluent_app", user_id="user", session_id="s")
    assert session is not None
    assert [event.author for event in session.events] == ["user", "a"]


async def test_an_edge_to_the_client_changes_nothing() -> None:
    """Where nothing follows, the caller of `stream` gets the pieces as the model gives them, as ever."""
    for buffering in ("full", "token", "chunked"):
        backend = script({"a": "one two three"})
        async with aclosing(A.stream_to(buffering).stream("hi", backend=backend)) as events:
            told = [event.content async for event in events]
        assert told == ["one ", "two ", "three", "one two three"]


async def test_a_field_of_a_schema_stands_for_its_key() -> None:
    """A piece stands under the key of a schema's field as well."""
    backend = script({"up": WORDS, "down": "D"})
    up = Agent("up").writes(Texts.draft).stream_to("chunked", chunk_size=3)
    await (up >> DOWN.instruct("Do {draft}|")).run("hi", backend=backend)
    assert system(backend.calls["down"][0]).startswith("Do one two |")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("stripped", [False, True], ids=["as it is", "stripped"])
async def test_no_white_space_is_lost(size: int, stripped: bool) -> None:
    """Pieces of white space alone stand between the answers, whatever the size, streamed and not."""
    text = f"One two.\n\nThree{' ' * 30}four.{chr(10) * 40}Five  six\tseven."

    async def words(request: LlmRequest) -> AsyncIterator[str]:
        for start in range(0, len(text), 5):
            yield text[start : start + 5]

    def echo(request: LlmRequest) -> str:
        piece = system(request).rpartition("|")[0]
        return piece.strip() if stripped else piece

    upstream = Agent("up").writes("said").stream_to("chunked", chunk_size=size)
    pipeline = upstream >> Agent("down").instruct("{said}|")
    scripts = {"up": words, "down": replies(echo)}
    result = await play(pipeline, scripts)
    assert result.text == text
    streamed = [event async for event in pipeline.stream("hi", backend=script(scripts))]
    pieces = [event.content or "" for event in streamed if event.is_partial and event.author == "down"]
    assert "".join(pieces) == text
