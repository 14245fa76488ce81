"""`rate_limiter`, `circuit_breaker`, `timeout` and `fallback_model` around real runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.models.llm_request import LlmRequest
from google.genai import errors

from adk_fluent import Agent, FanOut
from adk_fluent.errors import (
    ArgumentError,
    CircuitOpenError,
    MiddlewareError,
    ModelError,
    ModelTimeoutError,
    RateLimitError,
    RunError,
)
from adk_fluent.middleware import (
    CallModel,
    Context,
    Middleware,
    circuit_breaker,
    fallback_model,
    rate_limiter,
    retry,
    timeout,
)
from adk_fluent.testing import MockBackend, mock_backend
from tests.backends.support import Hang, failing, play, script
from tests.clock import still

A, B = Agent("a", "m"), Agent("b", "m")


async def _asked_at(expression: Any, count: int, limited: list[float]) -> list[float]:
    loop = asyncio.get_running_loop()
    start = loop.time()

    def note(request: LlmRequest) -> str:
        limited.append(loop.time() - start)
        return "ok"

    backend = mock_backend({"a": note, "b": note})
    await asyncio.gather(*(expression.run("hi", backend=backend) for _ in range(count)))
    return limited


def asked_at(expression: Any, count: int) -> list[float]:
    """When the model was asked, in seconds, by so many runs that start together."""
    return [round(at, 6) for at in still(_asked_at(expression, count, []))]


# --- rate_limiter ---------------------------------------------------------------------------------


def test_runs_wait_for_their_turn() -> None:
    """Of ten runs at once two pass now, and one each half second after that."""
    agent = A.middleware(rate_limiter(2, per=1.0))
    assert asked_at(agent, 10) == [0, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]


def test_what_has_a_rate_of_its_own() -> None:
    """Agents on one model share its rate by default; by agent, each has its own."""
    both = FanOut(A, B)
    assert asked_at(both.middleware(rate_limiter(1)), 1) == [0, 1]
    assert asked_at(both.middleware(rate_limiter(1, key="agent")), 1) == [0, 0]
    assert asked_at(both.middleware(rate_limiter(1, key=lambda ctx: ctx.agent_name)), 1) == [0, 0]


async def test_a_limiter_that_refuses_says_when_to_come_back() -> None:
    """A refused call is not made; its error names agent, rate and seconds, and a `//` catches it."""
    limiter = rate_limiter(1, per=100, on_limit="refuse")
    backend = script({"a": "one", "b": "other"})
    assert (await A.middleware(limiter).run("hi", backend=backend)).text == "one"
    with pytest.raises(
        RateLimitError, match=r"'a' was not let through: the rate of 'm' is 1 in 100 s"
    ) as caught:
        await A.middleware(limiter).run("hi", backend=backend)
    assert 99 < caught.value.retry_after <= 100
    assert len(backend.calls["a"]) == 1
    assert (await (A.middleware(limiter) // B).run("hi", backend=backend)).text == "other"


def test_a_retry_around_it_comes_back() -> None:
    """What a limiter refuses, a retry around it tries again when a call may pass."""
    agent = A.middleware(retry(jitter=False), rate_limiter(1, per=30, on_limit="refuse"))
    assert asked_at(agent, 2) == [0, 30]


async def test_a_limiter_keeps_no_more_than_is_in_use() -> None:
    """A key for each of 1,000 users leaves only those behind who may not ask again yet."""
    numbers = iter(range(1000))
    limiter = rate_limiter(1e9, key=lambda ctx: f"user {next(numbers)}")
    backend = script({"a": "ok"})
    for _ in range(300):
        await A.middleware(limiter).run("hi", backend=backend)
    assert len(vars(limiter)["_buckets"].current) <= 64


async def test_a_key_that_is_none_is_named() -> None:
    """A function that gives a list is told that this is no key."""
    with pytest.raises(MiddlewareError, match=r"'a': rate_limiter\(key=\) gave \['m'\], which is no key"):
        await play(A.middleware(rate_limiter(1, key=lambda ctx: ["m"])))  # pyright: ignore[reportArgumentType]  # what a hurried user types


# --- circuit_breaker ------------------------------------------------------------------------------


async def outcomes(agent: Any, backend: MockBackend, count: int) -> list[str]:
    """The answers, or the names of the errors, of so many runs."""
    seen: list[str] = []
    for _ in range(count):
        try:
            seen.append((await agent.run("hi", backend=backend)).text)
        except RunError as error:
            seen.append(type(error).__name__)
    return seen


async def _circuit() -> None:
    breaker = circuit_breaker(failure_threshold=3, reset_timeout=30)
    backend = mock_backend({"a": [*[ConnectionError("down")] * 4, "well"]})
    agent = A.middleware(breaker)
    assert await outcomes(agent, backend, 5) == ["ModelError"] * 3 + ["CircuitOpenError"] * 2
    assert (breaker.state("m"), len(backend.calls["a"])) == ("open", 3)
    await asyncio.sleep(30)
    assert await outcomes(agent, backend, 2) == ["ModelError", "CircuitOpenError"]
    await asyncio.sleep(30)
    assert await outcomes(agent, backend, 2) == ["well", "well"]
    assert breaker.state("m") == "closed"


def test_a_circuit_opens_tries_and_closes() -> None:
    """Three failures open it; after 30 s one call tries and fails; after 30 more one closes it."""
    still(_circuit())


async def test_a_refusal_names_agent_model_and_time() -> None:
    """Whoever is refused reads why and when."""
    backend = mock_backend({"a": ConnectionError("down")})
    agent = A.middleware(circuit_breaker(1))
    await outcomes(agent, backend, 1)
    with pytest.raises(
        CircuitOpenError, match=r"'a' did not ask 'm': it has failed 1 times .* again in (29|30) s"
    ):
        await agent.run("hi", backend=backend)


async def test_circuits_are_per_model() -> None:
    """A model that fails leaves others alone, and a fallback model has a circuit of its own."""
    breaker = circuit_breaker(1)
    agent = A.middleware(fallback_model("other"), breaker)
    backend = mock_backend({"a": ConnectionError("down"), "other": "other says"})
    assert await outcomes(agent, backend, 3) == ["other says"] * 3
    assert (breaker.state("m"), breaker.state("other"), len(backend.calls["a"])) == ("open", "closed", 1)


async def test_what_is_wrong_with_a_request_is_no_failure_of_the_model() -> None:
    """Errors that say the request is wrong, and content filters, do not open the circuit."""
    wrong = errors.ClientError(400, {"error": {"message": "bad"}})
    breaker = circuit_breaker(2)
    backend = mock_backend({"a": [wrong, wrong, wrong, failing(), failing(), "well"]})
    assert (await outcomes(A.middleware(breaker), backend, 6))[-1] == "well"


async def test_one_call_tries_while_others_are_refused() -> None:
    """While one call tries, others are refused; cancelled, it leaves the question to the next."""
    breaker = circuit_breaker(1, reset_timeout=1e-9)
    hang = Hang()
    backend = mock_backend({"a": [ConnectionError("down"), hang, "well"]})
    agent = A.middleware(breaker)
    await outcomes(agent, backend, 1)
    probe = asyncio.ensure_future(agent.run("hi", backend=backend))
    while len(backend.calls["a"]) < 2:
        await asyncio.sleep(0)
    assert breaker.state("m") == "half-open"
    assert await outcomes(agent, backend, 2) == ["CircuitOpenError"] * 2
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert await outcomes(agent, backend, 1) == ["well"]


# --- timeout --------------------------------------------------------------------------------------


class Slow:
    """A stream whose pieces take a number of seconds each."""

    def __init__(self, seconds: float, *pieces: str) -> None:
        self.seconds, self.pieces = seconds, pieces
        self.cancelled = 0

    async def __call__(self, request: LlmRequest) -> AsyncGenerator[str, None]:
        for piece in self.pieces:
            try:
                await asyncio.sleep(self.seconds)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            yield piece


async def _timed_out(slow: Slow) -> float:
    loop = asyncio.get_running_loop()
    start = loop.time()
    with pytest.raises(ModelTimeoutError, match=r"^'a' got no whole answer within 5 seconds"):
        await A.middleware(timeout(5)).run("hi", backend=mock_backend({"a": slow}))
    return loop.time() - start


def test_a_slow_call_is_cancelled() -> None:
    """A call that takes longer is really cancelled, after its seconds, in the middle of a stream too."""
    for slow in (Slow(100, "late"), Slow(2, "a", "b", "c", "d")):
        assert still(_timed_out(slow)) == 5
        assert slow.cancelled == 1


async def _slow_reader() -> list[str]:
    backend = mock_backend({"a": Slow(1, "one ", "two")})
    seen: list[str] = []
    async for event in A.middleware(timeout(3)).stream("hi", backend=backend):
        await asyncio.sleep(60)
        seen.append(event.content or "")
    return [text for text in seen if text]


def test_a_slow_reader_takes_no_time_from_the_call() -> None:
    """What is done with the pieces meanwhile does not count."""
    assert still(_slow_reader()) == ["one ", "two", "one two"]


def test_a_retry_around_it_tries_again() -> None:
    """Each attempt has its own seconds, and a `//` catches the last error."""

    async def run() -> tuple[str, str]:
        slow = Slow(100, "late")
        agent = A.middleware(retry(2, backoff_base=0), timeout(5))
        again = await agent.run("hi", backend=mock_backend({"a": [slow, "soon"]}))
        other = await (A.middleware(timeout(5)) // B).run(
            "hi", backend=mock_backend({"a": slow, "b": "other"})
        )
        return again.text, other.text

    assert still(run()) == ("soon", "other")


# --- fallback_model -------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [ConnectionError("down"), failing("SAFETY", "blocked"), ValueError("any")])
async def test_another_model_takes_over(bad: Any) -> None:
    """Errors and error responses go to the other model; the event says what happened."""
    backend = script({"a": bad, "other": "other says"})
    result = await A.middleware(fallback_model("other")).run("hi", backend=backend)
    note = result.by("a")[-1].metadata["adk_fluent.fallback"]
    assert (result.text, note["failed"], note["answered"]) == ("other says", "m", "other")
    assert result.by("a")[-1].model == "other"  # by which its price is known, where the provider does not say
    assert backend.calls["other"][0].model == "other"


async def test_a_chain_of_models() -> None:
    """The innermost is asked first; what has worked is asked no further."""
    chain = A.middleware(fallback_model("c"), fallback_model("b2"))
    assert (
        await play(chain, {"a": ConnectionError("x"), "b2": ConnectionError("y"), "c": "c says"})
    ).text == "c says"
    backend = script({"a": "fine", "b2": "no", "c": "no"})
    assert (await chain.run("hi", backend=backend)).text == "fine"
    assert not backend.calls.get("b2")


CHAINS: dict[str, tuple[Any, ...]] = {
    "one object": (fallback_model("b2", "c", "d"),),
    "three objects": (fallback_model("d"), fallback_model("c"), fallback_model("b2")),
    "two objects": (fallback_model("c", "d"), fallback_model("b2")),
}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
async def test_each_model_of_a_chain_is_asked_once_and_named(chain: str, streaming: bool) -> None:
    """Of four models that fail each is asked once, in order, and the error lists all with what they said."""
    order = list[str]()

    def fails(name: str) -> Any:
        def answer(request: LlmRequest) -> Any:
            order.append(request.model or "")
            raise ConnectionError(f"{name} is down")

        return answer

    backend = script({"a": fails("m"), "b2": fails("b2"), "c": fails("c"), "d": fails("d")})
    agent = A.middleware(*CHAINS[chain])

    async def run() -> None:
        if not streaming:
            await agent.run("hi", backend=backend)
        async for _ in agent.stream("hi", backend=backend):
            pass

    with pytest.raises(ModelError) as caught:
        await run()
    assert order == ["m", "b2", "c", "d"]
    for name in order:
        assert f"'{name}': ConnectionError: {name} is down" in str(caught.value)


@pytest.mark.parametrize("chain", CHAINS)
async def test_each_attempt_of_a_retry_asks_the_chain_once(chain: str) -> None:
    """A retry around a chain asks each model once more, and the answer says which ones failed."""
    down = ConnectionError("down")
    backend = script({"a": down, "b2": down, "c": [down, "c says"], "d": down})
    agent = A.middleware(retry(2, backoff_base=0), *CHAINS[chain])
    result = await agent.run("hi", backend=backend)
    assert {name: len(calls) for name, calls in backend.calls.items()} == {"a": 2, "b2": 2, "c": 2, "d": 1}
    note = result.by("a")[-1].metadata["adk_fluent.fallback"]
    assert (result.text, note["failed"], note["answered"]) == ("c says", "m, b2", "c")


async def test_an_error_response_of_the_last_model_names_them_all() -> None:
    """Where the last model reports an error and raises none, the message names all models."""
    backend = script({"a": ConnectionError("down"), "b2": failing("SAFETY", "blocked")})
    with pytest.raises(RunError, match=r"'m': ConnectionError: down; 'b2': SAFETY: blocked"):
        await A.middleware(fallback_model("b2")).run("hi", backend=backend)


async def test_a_chain_within_serves_a_model_that_another_middleware_chooses() -> None:
    """A middleware that asks another model gets the fallbacks within, too: only chains are one chain."""

    class Cheap(Middleware):
        async def around_model(
            self, ctx: Context, request: LlmRequest, call: CallModel
        ) -> AsyncGenerator[Any, None]:
            async for response in call(request, model="cheap"):
                yield response

    backend = script({"a": "no", "cheap": ConnectionError("down"), "b2": "b2 says"})
    assert (await A.middleware(Cheap(), fallback_model("b2")).run("hi", backend=backend)).text == "b2 says"


async def test_what_was_said_is_not_said_again() -> None:
    """A stream that breaks after its first piece is no case for another model."""

    async def breaks_off(request: LlmRequest) -> AsyncGenerator[str, None]:
        yield "One "
        raise ConnectionError("lost")

    backend = script({"a": breaks_off, "other": "other"})
    with pytest.raises(ModelError, match="lost"):
        async for _ in A.middleware(fallback_model("other")).stream("hi", backend=backend):
            pass
    assert not backend.calls.get("other")


async def test_an_async_function_gives_the_key_of_a_rate() -> None:
    """`key` may be async: it is awaited, and each key has a rate of its own."""

    async def user(ctx: Context) -> str:
        await asyncio.sleep(0)
        return ctx.user_id

    agent = A.middleware(rate_limiter(1, per=3600, on_limit="refuse", key=user))
    backend = mock_backend({"a": "ok"})
    for name in ("ann", "bob"):
        assert (await agent.run("hi", user_id=name, backend=backend)).text == "ok"
    with pytest.raises(RateLimitError, match="of 'ann'"):
        await agent.run("hi", user_id="ann", backend=backend)


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (rate_limiter, {"rate": 0}, "rate_limiter(rate=) is a positive number, not 0."),
        (rate_limiter, {"rate": 1, "per": -1}, "rate_limiter(per=) is a positive number, not -1."),
        (rate_limiter, {"rate": "5"}, "rate_limiter(rate=) is a positive number, not '5'."),
        (
            rate_limiter,
            {"rate": 1, "on_limit": "drop"},
            "rate_limiter(on_limit=) is one of 'wait', 'refuse', not",
        ),
        (
            rate_limiter,
            {"rate": 1, "key": "user"},
            "rate_limiter(key=) is 'model', 'agent' or a function of the",
        ),
        (
            circuit_breaker,
            {"failure_threshold": 0},
            "circuit_breaker(failure_threshold=) is a whole number, at",
        ),
        (
            circuit_breaker,
            {"reset_timeout": 0},
            "circuit_breaker(reset_timeout=) is a positive number, not 0.",
        ),
        (timeout, {"seconds": 0}, "timeout(seconds=) is a positive number, not 0."),
        (timeout, {"seconds": None}, "timeout(seconds=) is a positive number, not None."),
        (fallback_model, {"model": ""}, "fallback_model() takes the name of a model, not an empty text."),
        (lambda: fallback_model("b", ""), {}, "fallback_model() takes the name of a model, not an empty"),
        (fallback_model, {"model": 3}, "fallback_model() takes the name of a model or a BaseLlm, not 3."),
    ],
)
def test_wrong_arguments(make: Any, arguments: dict[str, Any], message: str) -> None:
    """Each wrong argument is one clear line."""
    with pytest.raises(ArgumentError) as caught:
        make(**arguments)
    assert str(caught.value).startswith(message)
