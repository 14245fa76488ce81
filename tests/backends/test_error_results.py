"""What an error that ends a run still holds: what ran until then, and the other answers of a `map`."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from pydantic import BaseModel

from adk_fluent import Agent, S, errors, gate
from adk_fluent.backends.events import AgentEvent, RunResult
from adk_fluent.backends.protocol import gathered
from adk_fluent.errors import (
    ADKFluentError,
    AgentTimeoutError,
    AnswerError,
    ArgumentError,
    ContractError,
    ModelError,
    RunError,
    SessionStoreError,
    StepError,
    ToolError,
)
from adk_fluent.expr.base import Expr
from adk_fluent.state import declares
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Hang, raises_from, replies, script, seen
from tests.limits import in_thread

A, B = Agent("a").writes("k"), Agent("b")


class Size(BaseModel):
    size: int


def divide(state: Any) -> Any:
    """Fail."""
    return 1 / 0


def broken() -> str:
    """Break."""
    raise LookupError("broken")


# --- what ran until then --------------------------------------------------------------------------


async def _run(expression: Expr[Any], **options: Any) -> None:
    await expression.run("hi", **options)


async def _ask(expression: Expr[Any], **options: Any) -> None:
    await expression.ask_async("hi", **options)


async def _blocking(expression: Expr[Any], **options: Any) -> None:
    await in_thread(partial(expression.ask, "hi", **options))


async def _map(expression: Expr[Any], **options: Any) -> None:
    await expression.map(["hi"], **options)


async def _stream(expression: Expr[Any], **options: Any) -> None:
    async with aclosing(expression.stream("hi", **options)) as events:
        async for _ in events:
            pass


async def _chat(expression: Expr[Any], **options: Any) -> None:
    async with expression.session(**options) as session:
        await session.send("hi")


async def _resume(expression: Expr[Any], **options: Any) -> None:
    gated = gate(lambda state: True, message="Go on?") >> expression
    waiting = await gated.run("hi", **options)
    approvals = {waiting.pending[0].id: True}
    await gated.resume(session_id=waiting.session_id, approvals=approvals, backend=options["backend"])


Way = Callable[..., Awaitable[None]]
every_way = pytest.mark.parametrize("way", [_run, _ask, _blocking, _map, _stream, _chat, _resume])

FAILING: dict[str, tuple[Expr[Any], dict[str, Any], type[RunError]]] = {
    "model": (A >> B, {"b": OSError("down")}, ModelError),
    "model's error": (A >> B, {"b": LlmResponse(error_code="SAFETY")}, RunError),
    "tool": (A >> B.tool(broken), {"b": call_tool("broken")}, ToolError),
    "step": (A >> S.fn(divide), {}, StepError),
    "time": (A >> B.timeout(0.01), {"b": Hang()}, AgentTimeoutError),
}


@every_way
@pytest.mark.parametrize("name", FAILING)
async def test_an_error_holds_what_ran(name: str, way: Way) -> None:
    """However an expression is run, the error that ends it has the events, the state and the usage so far."""
    expression, responses, kind = FAILING[name]
    with pytest.raises(kind) as caught:
        await way(expression, backend=mock_backend({"a": "said", **responses}), state={"x": 1})
    result = caught.value.result
    assert result is not None
    assert [event.content for event in result.by("a") if event.content] == ["said"]
    assert result.state == {"x": 1, "k": "said"}
    assert [agent for agent, _ in result.usage][:1] == ["a"]
    if name == "tool":
        assert [call.tool_name for call in result.by("b")[0].tool_calls] == ["broken"]


class Plain:
    """A backend that stores no sessions."""

    def compile(self, node: Any, config: Any = None) -> Any:
        return node

    async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
        return await gathered(self.stream(compiled, prompt, **options))

    async def stream(self, compiled: Any, prompt: Any, *_: Any, **options: Any) -> AsyncIterator[AgentEvent]:
        yield AgentEvent("a", "said", is_final=True, state_delta={"k": "said"})
        raise RunError("It is over.")


@pytest.mark.parametrize("way", [_run, _ask, _map, _stream, _chat])
async def test_a_backend_that_stores_no_sessions(way: Way) -> None:
    """The state is worked out from the events where no session is stored."""
    with pytest.raises(RunError, match=r"It is over\.") as caught:
        await way(A >> B, backend=Plain(), state={"x": 1})
    assert caught.value.result is not None
    assert [event.content for event in caught.value.result.by("a")] == ["said"]
    assert caught.value.result.state == {"x": 1, "k": "said"}


class Full(InMemorySessionService):
    """A store that is full after the first answer."""

    full, reads = False, 0

    async def append_event(self, session: Any, event: Any) -> Any:
        if event.author == "b":
            self.full = True
            raise OSError("no space left")
        return await super().append_event(session, event)

    async def get_session(self, **options: Any) -> Any:
        self.reads += self.full
        return await super().get_session(**options)


async def test_a_store_that_fails() -> None:
    """Where the store is what failed, it is not asked again: the state is that of the events."""
    service = Full()
    with pytest.raises(SessionStoreError) as caught:
        await (A >> B).run("hi", backend=script(), session_service=service, session_id="s")
    result = caught.value.result
    assert result is not None
    assert result.state == {"k": "ok"}
    assert (result.session_id, service.reads) == ("s", 0)


async def test_a_value_that_a_store_cannot_write_is_named(tmp_path: Path) -> None:
    """The error of a database names the key of such a value, and the step that wrote it."""

    @declares(reads=[], writes=["page"])
    def fetch(state: Any) -> dict[str, bytes]:
        return {"page": b"\xff"}

    held: list[object] = []
    held.append(held)
    told = "cannot store state key 'page'"
    for steps, state, says in (
        (S.fn(fetch) >> A, {"n": 1}, f"{told}, which 'fn' wrote: "),
        (S.set(n=2) >> A, {"n": 1, "page": held}, f"{told}: "),
    ):
        service = SqliteSessionService(str(tmp_path / "s.db"))
        with pytest.raises(SessionStoreError) as caught:
            await steps.run("hi", backend=script(), session_service=service, state=state)
        assert says in str(caught.value)


async def test_ask_holds_what_cannot_be_an_answer() -> None:
    """Where an agent's answer is not what it promised, or the run waits, the error has the whole result."""
    with pytest.raises(AnswerError) as caught:
        await (A >> B @ Size).ask_async("hi", backend=mock_backend({"a": "said", "b": "not JSON"}))
    assert caught.value.result is not None
    assert caught.value.result.state["k"] == "said"
    with pytest.raises(RunError, match="waits for approval") as waits:
        await (A >> gate(lambda state: True, message="Go on?")).ask_async("hi", backend=script())
    assert waits.value.result is not None
    assert [one.message for one in waits.value.result.pending] == ["Go on?"]


async def test_an_error_of_another_run_is_told_of_this_one() -> None:
    """An error that a tool passes on from a run of its own tells of the run that it ends."""

    async def inner() -> str:
        """Ask somebody else."""
        return await Agent("inner").ask_async("hi", backend=mock_backend({"inner": OSError("down")}))

    outer = mock_backend({"a": "said", "b": call_tool("inner")})
    with pytest.raises(ModelError) as caught:
        await (A >> B.tool(inner)).run("hi", backend=outer)
    assert caught.value.result is not None
    assert [event.content for event in caught.value.result.by("a")] == ["said"]


def pickled(error: Any) -> Any:
    """What another process gets."""
    return pickle.loads(pickle.dumps(error))


KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, RunError)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("twin", [pickled, copy.deepcopy])
def test_an_error_travels_with_what_it_holds(kind: type[RunError], twin: Callable[[Any], Any]) -> None:
    """Pickle and deepcopy keep the message of an error, the result and the answers that it holds."""
    error = kind("It is over.")
    error.result = RunResult([AgentEvent("a", "said", is_final=True)], state={"k": 1})
    error.answers = {1: "one"}
    other = twin(error)
    assert (type(other), str(other), other.answers) == (kind, str(error), {1: "one"})
    assert (other.result.text, other.result.state) == ("said", {"k": 1})


async def test_the_error_of_a_run_can_be_pickled() -> None:
    """What a run raised goes through pickle with its result, as to another process."""
    with pytest.raises(ToolError) as caught:
        await (A >> B.tool(broken)).run("hi", backend=mock_backend({"a": "said", "b": call_tool("broken")}))
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    assert [event.content for event in error.result.by("a")] == ["said"]
    assert error.result.state == {"k": "said"}


# --- map ------------------------------------------------------------------------------------------


def shouts(request: LlmRequest) -> str:
    """Shout, unless the prompt is bad."""
    if "bad" in seen(request):
        raise ValueError("bad prompt")
    return seen(request).upper()


async def test_a_map_can_give_errors_in_place_of_answers() -> None:
    """With `return_exceptions` an error stands where its answer would; the others are asked."""
    backend = script({"a": replies(shouts)})
    found = await A.map(["x", "bad", "y"], concurrency=1, return_exceptions=True, backend=backend)
    assert [found[0], found[2]] == ["X", "Y"]
    assert isinstance(found[1], ModelError)
    assert isinstance(found[1].__cause__, ValueError)
    assert found[1].result is not None
    assert await A.map(["x"], return_exceptions=False, backend=backend) == ["X"]


async def test_the_error_of_a_map_has_the_other_answers() -> None:
    """The first error that ends a `map` has the answers that were given until then, by index."""
    backend = script({"a": replies(shouts)})
    with raises_from(ValueError) as caught:
        await A.map(["x", "y", "bad", "z"], concurrency=1, backend=backend)
    assert caught.value.answers == {0: "X", 1: "Y"}


async def test_an_answer_counts_while_its_session_is_deleted() -> None:
    """An answer is kept from the moment that it is there, though its run is cancelled while it tidies up."""
    tidying, never = asyncio.Event(), asyncio.Event()

    class Slow(InMemorySessionService):
        async def delete_session(self, **options: Any) -> None:
            tidying.set()
            await never.wait()

    async def answer(request: LlmRequest) -> AsyncIterator[str]:
        if "bad" in seen(request):
            await tidying.wait()
            raise ValueError("bad prompt")
        yield "paid for"

    backend = mock_backend({"a": answer})
    backend.keep_in(backend.services({"session_service": Slow()}))
    mapped = asyncio.ensure_future(A.map(["x", "bad"], backend=backend))
    await tidying.wait()
    never.set()
    with raises_from(ValueError) as caught:
        await mapped
    assert caught.value.answers == {0: "paid for"}


async def test_no_prompt_is_asked_after_the_first_error() -> None:
    """Once a prompt has failed, those that wait for their turn are not asked any more."""
    asked: list[str] = []

    class Failing(Plain):
        async def run(self, compiled: Any, prompt: Any, **options: Any) -> list[AgentEvent]:
            asked.append(prompt)
            raise RunError("It is over.")

    with pytest.raises(RunError, match=r"It is over\."):
        await A.map(["x", "y", "z"], concurrency=1, backend=Failing())
    assert asked == ["x"]


async def test_an_error_of_the_engine_has_the_other_answers() -> None:
    """So has an error that is none of the run's own, such as an engine that is gone."""

    class Leaving(Plain):
        left = 1

        async def stream(
            self, compiled: Any, prompt: Any, *_: Any, **options: Any
        ) -> AsyncIterator[AgentEvent]:
            if not self.left:
                raise self.problem
            self.left -= 1
            yield AgentEvent("a", "paid for", is_final=True)

        def __init__(self, problem: BaseException) -> None:
            self.problem = problem

    with pytest.raises(errors.EngineError) as caught:
        await A.map(["x", "y"], concurrency=1, backend=Leaving(errors.EngineError("It is gone.")))
    assert caught.value.answers == {0: "paid for"}
    for problem in (OSError("It is gone."), asyncio.CancelledError()):
        with raises_from(type(problem), match=r"^Prompt 1 of map\(\)") as wrapped:
            await A.map(["x", "y"], concurrency=1, backend=Leaving(problem))
        assert wrapped.value.answers == {0: "paid for"}
        found = await A.map(["x", "y"], concurrency=1, return_exceptions=True, backend=Leaving(problem))
        assert found[0] == "paid for"
        assert isinstance(found[1], RunError)


async def test_a_prompt_that_cannot_be_asked_is_found_first() -> None:
    """Nothing is asked, and paid for, where one prompt is empty or the expression cannot run."""
    backend = script()
    for given in (False, True):
        with pytest.raises(ArgumentError, match="empty"):
            await A.map(["x", ""], return_exceptions=given, backend=backend)
    with pytest.raises(ContractError):
        await A.instruct("{missing}").strict().map(["x"], return_exceptions=True, backend=backend)
    assert backend.calls == {}


async def test_a_cancelled_map_is_cancelled() -> None:
    """Whoever cancels a `map` cancels its runs, also where errors are returned."""
    hang = Hang()
    mapped = asyncio.ensure_future(A.map(["x"], return_exceptions=True, backend=script({"a": hang})))
    await hang.started.wait()
    mapped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await mapped
    assert hang.ended == ["CancelledError"]


def test_other_errors_hold_nothing() -> None:
    """An error that ended no run and no `map` has neither."""
    assert RunError("x").result is None
    assert ADKFluentError("x").answers is None
