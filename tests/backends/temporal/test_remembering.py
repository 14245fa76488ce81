"""Middleware that goes by earlier runs acts in the worker that asks the model, and in its order there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, ClassVar

import pytest
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent import Agent, C, S, T
from adk_fluent.backends import MockBackend, RunResult, TemporalBackend
from adk_fluent.backends.temporal.server import DevServer
from adk_fluent.config import ExecutionConfig
from adk_fluent.cost import ModelCandidate, Price
from adk_fluent.errors import BackendError, CircuitOpenError, ModelTimeoutError, RateLimitError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import (
    Middleware,
    cache,
    circuit_breaker,
    cost_attribution,
    fallback_model,
    pii_filter,
    rate_limiter,
    retry,
    timeout,
    token_budget,
)
from adk_fluent.middleware.hook_context import Context
from adk_fluent.middleware.protocol import CallModel
from adk_fluent.testing import mock_backend
from tests.backends.temporal.engine import Served, Workers
from tests.backends.temporal.test_steps import told
from tests.clock import ClockLoop, advance
from tests.limits import LIMIT, comes_true, within_limit

pytestmark = pytest.mark.newest

DOWN = ConnectionError("down")


class Outside(Middleware):
    """One of the user's, which acts where runs are decided."""

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse]:
        """Ask for short answers."""
        request.config.system_instruction = "Be short."
        async for response in call(request):
            yield response


def whole_stack() -> list[Middleware]:
    """The order that the page on middleware recommends."""
    return [
        token_budget(50_000),
        pii_filter(reversible=True),
        cache(),
        fallback_model("gemini-2.5-flash"),
        retry(backoff_base=0),
        circuit_breaker(),
        rate_limiter(1000),
        timeout(LIMIT),
        cost_attribution(prices={"gemini-2.5-flash": Price.per_million(input=1, output=2)}),
    ]


a = Agent("a", "gemini-2.5-pro")
CASES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "cache": (lambda: a.middleware(Outside(), cache()), {"a": ["one", "two"]}, 1),
    "all of them": (
        lambda: a.middleware(*whole_stack()),
        {"a": [DOWN, "Dear [EMAIL_1], of course.", "never asked"]},
        2,
    ),
    "another model": (
        lambda: a.middleware(cache(), fallback_model("gemini-2.5-flash"), retry(backoff_base=0)),
        {"a": DOWN, "gemini-2.5-flash": ["flash", "never asked"]},
        3,
    ),
    "helper": (lambda: (Agent("b") >> a.context(C.summarize())).middleware(cache()), {"a": ["one"]}, 1),
    "in a tool": (lambda: Agent("b").tools(T.agent(a)).middleware(cache()), {"b": ["one", "two"]}, 0),
    "chosen": (
        lambda: a.model_select(
            strategy="cost_optimized",
            candidates=[ModelCandidate("gemini-2.5-flash"), ModelCandidate("gemini-2.5-pro")],
        ).middleware(cache(), retry()),
        {"a": ["one", "two"]},
        1,
    ),
}


def _models(script: dict[str, Any]) -> MockBackend:
    return mock_backend(script, default="ok")


@pytest.mark.parametrize("case", CASES)
async def test_the_same_as_on_adk(workers: Workers, case: str) -> None:
    """The same events, and as many calls, the second time, too; though every task reads the history again."""
    make, script, calls = CASES[case]
    here, there = _models(script), _models(script)
    backend = Served(workers, {"models": there, "cached": 0})
    on_adk, durable = make(), make()
    for _ in range(2):
        expected = await on_adk.run("I am ann@example.org", backend=here)
        found = await durable.run("I am ann@example.org", backend=backend)
        assert told(found) == told(expected)
        assert [event.metadata for event in found] == [event.metadata for event in expected]
        assert found.state == expected.state
    assert len(there.calls.get("a", [])) == len(here.calls.get("a", [])) == calls


class Tiring(BaseLlm):
    """Answers twice, then never again."""

    _asked: int = PrivateAttr(default=0)

    @property
    def asked(self) -> int:
        """How often it was asked."""
        return self._asked

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The answer."""
        self._asked += 1
        if self._asked > 2:
            await asyncio.Event().wait()
        part = types.Part(text=f"answer {self._asked}")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


@pytest.mark.parametrize("refusing", ["circuit_breaker", "rate_limiter"])
async def test_a_refused_call_is_the_same_error(workers: Workers, refusing: str) -> None:
    """Its class, its message and when to come back, as on ADK; nobody is asked."""
    by_rate = refusing == "rate_limiter"
    kind = RateLimitError if by_rate else CircuitOpenError
    script = {"a": ["one" if by_rate else DOWN, "never asked"]}
    models = _models(script)

    def make() -> Expr[str]:
        strict = rate_limiter(1, per=3600, on_limit="refuse")
        return a.middleware(strict if by_rate else circuit_breaker(1, reset_timeout=3600))

    backend = Served(workers, {"models": models})
    refused, before = list[Exception](), time.monotonic()
    for expression, where in ((make(), mock_backend(script)), (make(), backend)):
        await asyncio.gather(expression.run("hi", backend=where), return_exceptions=True)
        with pytest.raises(kind) as found:
            await expression.run("hi", backend=where)
        refused.append(found.value)
    expected, error = refused
    assert str(error).partition(" in 3")[0] == str(expected).partition(" in 3")[0]
    assert isinstance(error, kind)
    assert 3600 - (time.monotonic() - before) <= error.retry_after <= 3600
    assert len(models.calls["a"]) == 1


async def test_a_fallback_takes_over(workers: Workers) -> None:
    """A circuit that is open is a failure of the model, which `//` and an outer middleware catch."""
    broken = circuit_breaker(1, reset_timeout=3600)
    expression = a.middleware(retry(max_attempts=2, backoff_base=0), broken) // Agent("b")
    models = _models({"a": DOWN})
    backend = Served(workers, {"models": models})
    for _ in range(2):
        assert (await expression.run("hi", backend=backend)).text == "ok"
    assert (len(models.calls["a"]), broken.state("gemini-2.5-pro")) == (1, "open")


async def test_what_stands_inside_acts_inside(temporal: DevServer) -> None:
    """A timeout inside of a circuit counts as a failure, and waiting for its turn takes none of its time."""
    broken, model, there = circuit_breaker(1, reset_timeout=3600), Tiring(model="tiring"), list[str]()

    def key(ctx: Context) -> str:
        there.append(ctx.session_id)
        return "one"

    slow = Agent("a", model).middleware(broken, rate_limiter(1, per=200, key=key), timeout(100))
    workers = Workers(temporal.address, loop := ClockLoop())
    try:
        backend = Served(workers)
        running = asyncio.gather(*(slow.run("hi", backend=backend) for _ in range(3)), return_exceptions=True)
        await comes_true(lambda: (len(there), model.asked) == (3, 1), "two that wait for their turn")
        for turn in (2, 3):
            loop.call_soon_threadsafe(advance, 200)
            await comes_true(lambda turn=turn: model.asked == turn, f"call number {turn} of the model")
        loop.call_soon_threadsafe(advance, 100)
        runs = await within_limit(running)
    finally:
        workers.close()
    late = [one for one in runs if isinstance(one, ModelTimeoutError)]
    assert (len(late), broken.state("tiring")) == (1, "open")
    assert sorted(one.text for one in runs if isinstance(one, RunResult)) == ["answer 1", "answer 2"]


async def test_streams_are_replayed_in_pieces(workers: Workers) -> None:
    """The first time as they come, later from the store; whole answers are others."""
    kept = cache()
    expression, models = a.middleware(kept), _models({"a": "one two three"})
    backend = Served(workers, {"models": models, "cached": 0})
    read = list[list[tuple[str | None, bool]]]()
    for _ in range(2):
        stream = expression.stream("hi", backend=backend)
        read.append([(event.content, event.is_partial) async for event in stream])
    expected = [
        (event.content, event.is_partial)
        async for event in a.stream("hi", backend=mock_backend({"a": "one two three"}))
    ]
    assert len(expected) > 2
    assert read == [expected, expected]
    assert len(models.calls["a"]) == 1


async def test_all_calls_count(workers: Workers) -> None:
    """Those that a worker repeats count towards the limit of the run, also where they fail."""
    for most, text in ((3, "ok"), (2, None)):
        attempts = a.middleware(circuit_breaker(), retry(max_attempts=2, backoff_base=0))
        expression = attempts // Agent("b")
        run = expression.run(
            "hi",
            config=ExecutionConfig(max_llm_calls=most),
            backend=Served(workers, {"models": _models({"a": DOWN})}),
        )
        if text is not None:
            assert (await run).text == text
        else:
            with pytest.raises(Exception, match="Max number of llm calls limit of `2` exceeded"):
                await run


async def test_a_key_may_go_by_the_state(workers: Workers) -> None:
    """What says whose rate it is sees where the run is."""
    seen = list[object]()

    def whose(ctx: Context) -> str:
        where = (ctx.user_id, ctx.session_id, ctx.agent_name)
        seen.append((*where, ctx.state["tenant"], ctx.operation, ctx.streaming))
        return str(ctx.state["tenant"])

    limited = (Agent("b") >> a.context(C.summarize())).middleware(rate_limiter(5, key=whose))
    backend = Served(workers, {"models": _models({})})
    await (S.set(tenant="x") >> limited).run("hi", user_id="u", session_id="s", backend=backend)
    where = ("u", "s")
    assert seen == [
        (*where, "b", "x", None, False),
        (*where, "a", "x", "summarize", False),
        (*where, "a", "x", None, False),
    ]


class Remembering(Middleware):
    """One of the user's that goes by earlier runs."""

    remembers: ClassVar[bool] = True

    def __init__(self) -> None:
        self.asked = 0

    async def around_model(
        self, ctx: Context, request: LlmRequest, call: CallModel
    ) -> AsyncIterator[LlmResponse | str]:
        """Ask once."""
        self.asked += 1
        if self.asked > 1:
            yield "not again"
            return
        async for response in call(request):
            yield response


async def test_one_of_the_users(workers: Workers) -> None:
    """It acts there, too, and sees each call once."""
    mine = Remembering()
    expression, backend = a.middleware(mine), Served(workers, {"models": _models({}), "cached": 0})
    assert [(await expression.run("hi", backend=backend)).text for _ in range(2)] == ["ok", "not again"]
    assert mine.asked == 2


class WithAHook(Remembering):
    """It has another hook."""

    async def before_model(self, ctx: Context, request: LlmRequest) -> None:
        """Look."""


class Keeping(Remembering):
    """It keeps something for each run."""

    def __init__(self) -> None:
        super().__init__()
        self.mine = self.per_run(list[str])


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        ((cache(), token_budget(5)), "TokenBudget at 'a' stands inside of Cache"),
        ((rate_limiter(1), retry(), Outside()), "Outside at 'a' stands inside of RateLimiter"),
        ((WithAHook(),), "WithAHook at 'a' goes by earlier runs.* its hook before_model"),
        ((Keeping(),), "Keeping at 'a' goes by earlier runs.* what it keeps in 'mine'"),
    ],
)
def test_what_cannot_act_there_is_named(stack: tuple[Middleware, ...], said: str) -> None:
    """With what to do, before anything runs; in agents inside tools, too."""
    for expression in (S.set(x=1) >> a.middleware(*stack), Agent("b").tools(T.agent(a.middleware(*stack)))):
        with pytest.raises(BackendError, match=said) as found:
            TemporalBackend("127.0.0.1:9").compile(expression.node)
        assert "\n" not in str(found.value)
