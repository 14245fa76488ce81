"""Whose time a limit counts: that of the agents, not that of whoever reads or stores their events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.genai import types

from adk_fluent import Agent, FanOut, Loop, Pipeline, S, map_over, race
from adk_fluent.backends.adk.steps.scripted import Script, ScriptedLlm
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import AgentTimeoutError, RunError
from tests.backends.support import Hang, play, speakers
from tests.clock import Works, advance, on_clock

LIMIT = 3600.0
CONFIG = ExecutionConfig(timeout_seconds=LIMIT)


def quick(name: str, *responses: Any) -> Agent[str]:
    """An agent with a scripted model of its own, which answers within a second unless told otherwise."""
    model = ScriptedLlm.of(Script(name, [*responses] or [Works(1)], "repeat", []), merge_state=False)
    return Agent(name, model)


A, B = quick("a"), quick("b")


async def streamed(expression: Any, config: ExecutionConfig | None) -> AsyncGenerator[Any, None]:
    """The events of `stream`."""
    async with aclosing(expression.stream("hi", config=config)) as events:
        async for event in events:
            yield event


async def of_runner(runner: Runner) -> AsyncGenerator[Any, None]:
    """The events of a native runner."""
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
        async for event in events:
            yield event


def of_our_runner(expression: Any, config: ExecutionConfig | None) -> AsyncGenerator[Any, None]:
    """The events of the runner of `to_runner`."""
    return of_runner(expression.to_runner(config, session_service=InMemorySessionService()))


def of_adks_runner(expression: Any, config: ExecutionConfig | None) -> AsyncGenerator[Any, None]:
    """The events of ADK's own runner on the app of `to_app`."""
    service = InMemorySessionService()
    return of_runner(Runner(app=expression.to_app(config), session_service=service, auto_create_session=True))


async def read(source: AsyncGenerator[Any, None], seconds: float = 2 * LIMIT) -> list[Any]:
    """What a reader gets who takes that long for each event."""
    found: list[Any] = []
    async with aclosing(source) as events:
        async for event in events:
            advance(seconds)
            await tick()
            found.append(event)
    return found


async def tick() -> None:
    """Let the loop run what is due now."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    await done.wait()


class SlowStore(InMemorySessionService):
    """A session service that takes long to store an event."""

    async def append_event(self, session: Session, event: Event) -> Event:
        advance(2 * LIMIT)
        await tick()
        return await super().append_event(session, event)


# --- the reader's time ----------------------------------------------------------------------------

EXPRESSIONS: list[Any] = [
    A.timeout(LIMIT),
    (A >> S.set(x=1) >> B).timeout(LIMIT),
    Pipeline("p", A.timeout(LIMIT), B.timeout(LIMIT)),
    (A >> B.timeout(LIMIT)).timeout(LIMIT),
    (A * 3).timeout(LIMIT),
    (A // B).timeout(LIMIT),
    FanOut(A, B).timeout(LIMIT),
    race(A, B).timeout(LIMIT),
    (S.set(names=[1, 2]) >> map_over("names", A)).timeout(LIMIT),
]


@pytest.mark.parametrize("read_by", [streamed, of_our_runner, of_adks_runner])
@pytest.mark.parametrize("expression", EXPRESSIONS, ids=repr)
def test_the_readers_time_does_not_count(expression: Any, read_by: Callable[..., Any]) -> None:
    """However long a reader takes for each event, an expression that is quick itself is in time."""
    assert on_clock(read(read_by(expression, None)))


@pytest.mark.parametrize("read_by", [streamed, of_our_runner, of_adks_runner])
def test_the_readers_time_does_not_count_for_the_whole_run(read_by: Callable[..., Any]) -> None:
    """The same holds for the limit of a run."""
    events = on_clock(read(read_by(Pipeline("p", A, B), CONFIG)))
    assert list(dict.fromkeys(event.author for event in events)) == ["a", "b"]


def test_the_time_for_a_partial_answer_does_not_count() -> None:
    """A reader may also be slow with each piece of an answer."""
    talker = quick("a", Works(1, "one ", "two ", "three")).timeout(LIMIT)
    events = on_clock(read(streamed(talker, None)))
    assert [event.content for event in events if event.is_partial] == ["one ", "two ", "three"]


def test_the_time_of_the_store_does_not_count() -> None:
    """Storing an event is not the agent's work."""
    result = on_clock((A >> B).timeout(LIMIT).run("hi", session_service=SlowStore()))
    assert speakers(result) == ["a", "b"]


# --- the agents' time -----------------------------------------------------------------------------


def test_the_work_of_all_steps_adds_up() -> None:
    """What each step worked counts together, with the reader's time in between left out."""
    last = Works(0.4 * LIMIT)
    steps = quick("a", Works(0.4 * LIMIT)) >> quick("b", Works(0.4 * LIMIT))
    assert on_clock(read(streamed(steps.timeout(LIMIT), None)))
    with pytest.raises(AgentTimeoutError, match="did not finish within 3600 seconds"):
        on_clock(read(streamed((steps >> quick("c", last)).timeout(LIMIT), None)))
    assert last.ended == ["CancelledError"]


def test_the_work_on_the_pieces_of_an_answer_adds_up() -> None:
    """A model that takes a while for each piece is cut in the middle of its answer."""
    slow = Works(0.4 * LIMIT, "one ", "two ", "three")
    pieces: list[str] = []

    async def follow() -> None:
        async for event in streamed(quick("a", slow).timeout(LIMIT), None):
            advance(2 * LIMIT)
            pieces.append(event.content)

    with pytest.raises(AgentTimeoutError):
        on_clock(follow())
    assert pieces == ["one ", "two "]
    assert slow.ended == ["CancelledError"]


def test_the_work_of_all_rounds_adds_up() -> None:
    """A limit around a loop is for all its rounds, one inside it for each."""
    slow = quick("a", Works(0.4 * LIMIT))
    assert on_clock(read(streamed(Loop(slow.timeout(LIMIT), max_iterations=4), None)))
    with pytest.raises(AgentTimeoutError):
        on_clock(read(streamed(Loop(slow, max_iterations=4).timeout(LIMIT), None)))


def test_a_slow_reader_does_not_save_a_slow_agent() -> None:
    """An agent that works longer than it may is cut, reader or not."""
    slow = quick("slow", Works(2 * LIMIT))
    with pytest.raises(AgentTimeoutError):
        on_clock(read(streamed(A >> slow.timeout(LIMIT), None)))
    with pytest.raises(AgentTimeoutError):
        on_clock(read(streamed(A >> slow, CONFIG)))


def test_each_run_has_all_its_time() -> None:
    """One compiled expression, used for several runs at once and one after another, limits each by itself."""
    slow = quick("a", Works(0.6 * LIMIT)).timeout(LIMIT)

    async def both() -> int:
        first = await slow.run("hi")
        return len(first + await slow.run("again"))

    assert on_clock(both()) == 2


# --- who cancels ----------------------------------------------------------------------------------


def test_a_cancelled_task_has_limits_too() -> None:
    """In the clean-up of a task that was cancelled, a limit raises our error as anywhere else."""

    async def cleaning_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await play(A.timeout(LIMIT), {"a": Works(2 * LIMIT)})

    async def main() -> None:
        task = asyncio.ensure_future(cleaning_up())
        await tick()
        task.cancel()
        with pytest.raises(AgentTimeoutError):
            await task

    on_clock(main())


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_caller_who_cancels_at_the_same_moment_is_heard(before: bool) -> None:
    """When the caller cancels in the instant in which the time is up, the run is cancelled, not too slow."""

    async def main() -> tuple[bool, int]:
        hang = Hang()
        task = asyncio.ensure_future(play(A.timeout(LIMIT), {"a": hang}))
        await hang.started.wait()
        loop = asyncio.get_running_loop()
        loop.call_at(loop.time() + LIMIT * (0.5 if before else 2), task.cancel)
        advance(4 * LIMIT)
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled(), task.cancelling()

    assert on_clock(main()) == (True, 1)


def test_a_limit_leaves_no_request_to_cancel_behind() -> None:
    """The task in which a limit ran out goes on as one that nobody cancelled."""

    async def main() -> int:
        with pytest.raises(AgentTimeoutError):
            await play(A.timeout(LIMIT), {"a": Works(2 * LIMIT)})
        task = asyncio.current_task()
        assert task is not None
        await tick()
        return task.cancelling()

    assert on_clock(main()) == 0


def test_two_limits_that_end_together_are_one_error() -> None:
    """When an inner and an outer limit run out in one instant, one of them is reported, and nothing else."""
    with pytest.raises(AgentTimeoutError, match=r"'(a|p)' did not finish"):
        on_clock(play(Pipeline("p", A.timeout(LIMIT)).timeout(LIMIT), {"a": Works(2 * LIMIT)}))


async def hold_out(request: Any) -> AsyncGenerator[str, None]:
    """A model that goes on although it was cancelled."""
    advance(2 * LIMIT)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        yield "too late"


def breaks_down(error: Exception) -> Any:
    """A model that cannot clean up when it is cancelled."""

    async def respond(request: Any) -> AsyncGenerator[str, None]:
        advance(2 * LIMIT)
        try:
            await asyncio.Event().wait()
        finally:
            raise error
        yield ""

    return respond


def test_an_agent_that_ignores_being_cancelled_is_too_slow_all_the_same() -> None:
    """What an agent says after its time was up is not heard."""
    with pytest.raises(AgentTimeoutError) as caught:
        on_clock(play(A.timeout(LIMIT), {"a": hold_out}))
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "error", [ConnectionError("could not hang up"), TimeoutError("own"), AgentTimeoutError("own")], ids=repr
)
def test_an_error_while_cleaning_up_is_the_cause(error: Exception) -> None:
    """An agent that fails in its clean-up after the time was up was too slow; the failure is chained."""
    with pytest.raises(AgentTimeoutError, match=r"'a' did not finish within 3600 seconds") as caught:
        on_clock(play(A.timeout(LIMIT), {"a": breaks_down(error)}))
    assert caught.value.__cause__ is error


def has_own_limit(own: float, passed: float) -> Any:
    """A model that gives itself `own` seconds, and waits while `passed` go by."""

    async def respond(request: Any) -> AsyncGenerator[str, None]:
        async with asyncio.timeout(own):
            advance(passed)
            await asyncio.Event().wait()
        yield ""

    return respond


def raises_late(passed: float) -> Any:
    """A model whose request times out by itself, noticed after so many seconds without a pause."""

    async def respond(request: Any) -> AsyncGenerator[str, None]:
        advance(passed)
        raise TimeoutError("own")
        yield ""

    return respond


@pytest.mark.parametrize(
    ("model", "ours"),
    [
        (has_own_limit(LIMIT / 2, 0.75 * LIMIT), False),
        (has_own_limit(LIMIT / 2, 2 * LIMIT), True),
        (has_own_limit(LIMIT, LIMIT), True),
        (has_own_limit(2 * LIMIT, 1.5 * LIMIT), True),
        (has_own_limit(2 * LIMIT, 4 * LIMIT), True),
        (raises_late(LIMIT / 2), False),
        (raises_late(2 * LIMIT), False),
    ],
)
def test_an_agents_own_timeout_is_told_from_the_limit(model: Any, ours: bool) -> None:
    """A `TimeoutError` of the agent's own is the agent's, unless our seconds are over too when it comes."""

    async def main() -> int:
        with pytest.raises(TimeoutError if ours else RunError) as caught:
            await play(A.timeout(LIMIT), {"a": model})
        assert isinstance(caught.value, AgentTimeoutError) is ours
        assert (type(caught.value.__cause__) is TimeoutError) is not ours
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert on_clock(main()) == 0
