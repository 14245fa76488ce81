"""The operations around the calls of tools: approvals, time limits, caches, retries, changes and stubs."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from adk_fluent import Agent, FanOut, Loop, Route, T, map_over
from adk_fluent.backends.adk.tools import around
from adk_fluent.backends.events import RunResult
from adk_fluent.di import Resource
from adk_fluent.errors import ArgumentError, ResourceError, ToolError
from adk_fluent.expr.base import Expr
from adk_fluent.ir.functions import declares
from adk_fluent.middleware import retrying
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import called, replies, session_service
from tests.clock import without_pauses
from tests.limits import LIMIT
from tests.tools.every import Box, half, shout, weather


def calling(*calls: Any) -> dict[str, Any]:
    """A script: agent `a` makes these calls one after another, then says `done`."""
    return {"a": [*calls, "done"]}


async def given(tool: Any, *calls: Any) -> list[Any]:
    """The results of a tool's calls."""
    result = await Agent("a").tools(tool).run("hi", backend=mock_backend(calling(*calls)))
    assert result.text == "done"
    return results(result)


def results(run: RunResult[Any]) -> list[Any]:
    """The results of a run's tools."""
    found: list[Any] = [response.result for event in run for response in event.tool_responses]
    return [one.get("result", one) for one in found]


class Counter:
    """A function that counts its calls and fails a given number of times."""

    def __init__(self, failures: int = 0) -> None:
        self.calls = 0
        self.failures = failures

    async def look(self, place: str) -> str:
        """Look somewhere."""
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError(f"failure {self.calls}")
        return f"{place} {self.calls}"

    def look_at_once(self, place: str) -> str:
        """Look somewhere, not async."""
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError(f"failure {self.calls}")
        return f"{place} {self.calls}"


KINDS: dict[str, Callable[[Counter], Any]] = {
    "a function": lambda counter: counter.look_at_once,
    "an async function": lambda counter: counter.look,
    "a tool of T": lambda counter: T.fn(counter.look),
    "a tool of ADK": lambda counter: FunctionTool(counter.look),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
LOOK = call_tool("look", place="x")


def named(kind: Callable[[Counter], Any], counter: Counter) -> tuple[Any, Any]:
    """The tool, and a call of it."""
    tool = kind(counter)
    return tool, call_tool(getattr(tool, "__name__", "look"), place="x")


# --- a wrapper keeps what a model knows of a tool -------------------------------------------------


WRAPPERS: list[Callable[[Any], Any]] = [
    lambda tool: T.timeout(tool, 60),
    lambda tool: T.cache(tool, key=str),
    T.retry,
    T.confirm,
    lambda tool: T.transform(tool, post=shout),
    lambda tool: T.mock(tool, returns=1),
    lambda tool: T.timeout(T.cache(T.retry(tool), key=str), 60),
]


@pytest.mark.parametrize("wrap", WRAPPERS)
async def test_the_model_gets_the_same_declaration(wrap: Callable[[Any], Any]) -> None:
    """Name, description and schema are those of the tool itself: a function, a tool or toolset of ADK's."""
    for plain in (weather, FunctionTool(half), Box(), AgentTool(Agent("b").describe("Helps.").build())):
        requests: list[Any] = []
        for tool in (plain, wrap(plain)):
            backend = mock_backend({"a": "done"})
            await Agent("a").tools(tool).run("hi", backend=backend)
            requests.append(backend.calls["a"][0])
        declared = [request.config.tools for request in requests]
        assert declared[0] == declared[1]
        assert set(requests[0].tools_dict) == set(requests[1].tools_dict)


async def test_each_tool_of_a_toolset() -> None:
    """A wrapper over a toolset is around each of its tools."""
    calls = [call_tool("weather", city="Ulm"), call_tool("half", number=4)]
    assert await given(T.transform(Box(), post=shout), *calls) == ["RAIN IN ULM.", "2.0"]
    assert await given(T.transform(T.toolset(Box()), post=shout), *calls) == ["RAIN IN ULM.", "2.0"]


# --- retry ----------------------------------------------------------------------------------------


@every_kind
async def test_a_tool_that_fails_is_called_again(
    kind: Callable[[Counter], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """As often as it may be called; each failure is logged."""
    tool, call = named(kind, counter := Counter(failures=2))
    with caplog.at_level(logging.INFO, "adk_fluent.middleware"):
        assert await given(T.retry(tool, 3, backoff_base=0), call) == ["x 3"]
    pattern = r"a: tool look\w*: ConnectionError at \w+\.py:\d+; trying again in 0\.0 s"
    assert [bool(re.fullmatch(pattern, message)) for message in caplog.messages] == [True, True]
    assert counter.calls == 3


async def test_the_last_failure_counts() -> None:
    """A tool that always fails ends the run with the last error, which names agent and tool."""
    counter = Counter(failures=9)
    with pytest.raises(ToolError, match=r"^Agent 'a': its tool 'look' raised ConnectionError: failure 2\.$"):
        await given(T.retry(counter.look, 2, backoff_base=0), LOOK)
    assert counter.calls == 2


async def test_waits_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts double, or last as long as the error asks, as in the middleware."""
    waits = list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    class Busy(ConnectionError):
        retry_after = 7.0

    errors = [ConnectionError("x"), ConnectionError("x"), Busy("x")]

    async def look(place: str) -> str:
        """Look somewhere."""
        if errors:
            raise errors.pop(0)
        return place

    monkeypatch.setattr(retrying, "asyncio", SimpleNamespace(sleep=sleep))
    assert await given(T.retry(look, 4, backoff_base=0.5, jitter=False), LOOK) == ["x"]
    assert waits == [0.5, 1.0, 7.0]


async def test_errors_that_are_worth_another_call() -> None:
    """By default those that may pass; else those that `on` names."""
    counter = Counter()

    async def look(place: str) -> str:
        """Look somewhere."""
        counter.calls += 1
        if counter.calls < 3:
            raise KeyError(place)
        return place

    with pytest.raises(ToolError, match="raised KeyError"):
        await given(T.retry(look, backoff_base=0), LOOK)
    assert counter.calls == 1
    assert await given(T.retry(look, backoff_base=0, on=lambda error: "x" in str(error)), LOOK) == ["x"]
    assert counter.calls == 3
    with pytest.raises(ArgumentError, match=r"retry\(on=\) is an exception class"):
        T.retry(look, on=cast(Any, "KeyError"))


def timed(tool: Any) -> Any:
    """A tool within others."""
    return T.retry(T.timeout(T.fn(tool), 60))


@pytest.mark.parametrize("wrap", [T.fn, timed, FunctionTool])
async def test_a_tool_that_is_not_idempotent_is_called_once(wrap: Callable[[Any], Any]) -> None:
    """A payment whose answer got lost is not made again."""
    calls = list[float]()

    @declares(idempotent=False)
    def pay(amount: float) -> str:
        """Pay."""
        calls.append(amount)
        raise ConnectionError("the answer got lost")

    with pytest.raises(ToolError, match="the answer got lost"):
        await given(T.retry(wrap(pay), backoff_base=0), call_tool("pay", amount=5))
    assert calls == [5]


async def test_each_attempt_gets_the_same_arguments() -> None:
    """An attempt that changes its arguments does not change those of the next attempt."""
    seen: list[list[int]] = []

    def take(numbers: list[int]) -> str:
        """Take them."""
        seen.append(list(numbers))
        numbers.clear()
        if len(seen) < 3:
            raise ConnectionError("again")
        return "ok"

    assert await given(T.retry(take, backoff_base=0), call_tool("take", numbers=[1, 2])) == ["ok"]
    assert seen == [[1, 2]] * 3


# --- timeout --------------------------------------------------------------------------------------


@without_pauses
async def test_a_call_that_takes_too_long() -> None:
    """A call over its time limit is cancelled, and the error names agent, tool and seconds."""
    ended: list[str] = []

    async def hang() -> None:
        """Never end."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with pytest.raises(
        ToolError, match=r"'a': its tool 'hang' raised TimeoutError: it took longer than 0.05 s"
    ):
        await given(T.timeout(hang, 0.05), call_tool("hang"))
    assert ended == ["cancelled"]


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda function: function,
    T.fn,
    T.retry,
    FunctionTool,
    lambda function: T.cache(T.fn(function)),
]


@pytest.mark.parametrize("wrap", FUNCTIONS)
async def test_a_function_that_blocks(wrap: Callable[[Any], Any]) -> None:
    """A function that is not async is given up as well, and blocks nothing meanwhile."""
    go_on = threading.Event()

    def block() -> bool:
        """Block the thread."""
        return go_on.wait(LIMIT)

    try:
        with pytest.raises(ToolError, match="it took longer than"):
            await given(T.timeout(wrap(block), 0.05), call_tool("block"))
    finally:
        go_on.set()


@every_kind
async def test_a_call_in_time(kind: Callable[[Counter], Any]) -> None:
    """A call that takes no longer than it may gives what it gives."""
    tool, call = named(kind, Counter())
    assert await given(T.timeout(tool, 60), call) == ["x 1"]


async def test_a_timeout_of_the_tool_itself() -> None:
    """A `TimeoutError` that the tool raises by itself stays what it is."""

    async def fail() -> None:
        """Fail."""
        raise TimeoutError("of its own")

    with pytest.raises(ToolError, match="raised TimeoutError: of its own"):
        await given(T.timeout(fail, 60), call_tool("fail"))


async def test_a_blocking_function_has_its_context() -> None:
    """In its thread a function has ADK's context, and what it writes lands."""

    def keep(text: str, tool_context: ToolContext) -> str:
        """Keep it."""
        tool_context.state["kept"] = text
        return threading.current_thread().name

    agent = Agent("a").tools(T.timeout(T.fn(keep, writes=["kept"]), 60))
    result = await agent.run("hi", backend=mock_backend(calling(call_tool("keep", text="x"))))
    assert result.state == {"kept": "x"}
    assert results(result) != [threading.current_thread().name]


# --- cache ----------------------------------------------------------------------------------------


@every_kind
async def test_the_same_call_is_made_once(kind: Callable[[Counter], Any]) -> None:
    """A cache returns the stored result for equal arguments, also in other runs of the expression."""
    tool, call = named(kind, counter := Counter())
    other = call_tool(call.name, place="y")
    agent = Agent("a").tools(T.cache(tool))
    backend = mock_backend({"a": replies(lambda request: "done" if called(request) else call)})
    runs = [results(await agent.run("hi", backend=backend)) for _ in range(2)]
    assert runs == [["x 1"], ["x 1"]]
    assert await given(T.cache(tool), call, other, call) == ["x 2", "y 3", "x 2"]
    assert counter.calls == 3


async def test_results_that_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result is kept as long as `ttl` says."""
    now = iter([0.0, 5.0, 11.0, 11.0])
    monkeypatch.setattr(around, "monotonic", lambda: next(now))
    caching, made = around.Caching(10, None), list[Any]()

    async def proceed(args: dict[str, Any]) -> int:
        made.append(args)
        return len(made)

    call = around.Call("t", {"x": 1}, context=cast(Any, None), proceed=proceed)
    assert [await caching(call) for _ in range(3)] == [1, 1, 2]


async def test_the_key_of_a_cache() -> None:
    """`key` says it, of the arguments."""
    counter = Counter()
    calls = [call_tool("look", place=place) for place in ("Ulm", "ULM", "Bonn")]
    tool = T.cache(counter.look, key=lambda args: args["place"].lower())
    assert await given(tool, *calls) == ["Ulm 1", "Ulm 1", "Bonn 2"]


def balance(account: str, tool_context: ToolContext) -> str:
    """The balance of an account of the user."""
    return f"{account} of {tool_context.user_id}"


async def test_a_key_that_sees_who_calls() -> None:
    """A key of two arguments is given the context of the call, so that each user has results of their own."""
    seen = list[str]()

    def counted(account: str, tool_context: ToolContext) -> str:
        """The balance of an account."""
        seen.append(tool_context.user_id)
        return balance(account, tool_context)

    tool = T.cache(counted, key=lambda args, context: (context.user_id, args["account"]))
    agent, call = Agent("a").tools(tool), call_tool("counted", account="main")
    backend = mock_backend({"a": replies(lambda request: "done" if called(request) else call)})
    runs = [results(await agent.run("hi", user_id=user, backend=backend)) for user in ("ann", "bob", "ann")]
    assert runs == [["main of ann"], ["main of bob"], ["main of ann"]]
    assert seen == ["ann", "bob"]


async def test_an_equal_expression_has_another_cache() -> None:
    """Two expressions that are made alike do not share cached results."""
    counter = Counter()
    assert [await given(T.cache(counter.look), LOOK) for _ in range(2)] == [["x 1"], ["x 2"]]


class Native(BaseTool):
    """A tool of ADK's own kind, which is given the context."""

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> str:
        """Return the caller."""
        return tool_context.user_id


class Balance:
    """An object that can be called."""

    def __call__(self, account: str, tool_context: ToolContext) -> str:
        """The balance."""
        return balance(account, tool_context)


SEEING: dict[str, Any] = {
    "a function": balance,
    "a partial": functools.partial(balance, account="main"),
    "an object": Balance(),
    "T.fn": T.fn(balance, reads=["x"]),
    "wrapped": T.timeout(T.retry(balance), 5),
    "of ADK": FunctionTool(balance),
    "T.agent": T.agent(Agent("b").describe("Helps.")),
    "T.a2a": T.a2a("https://museum.example/guide"),
    "an agent of ADK": AgentTool(Agent("b").describe("Helps.").build()),
    "a native": Native(name="native", description="Who calls."),
    "one of two": T.fn(weather) | T.fn(balance),
}


@pytest.mark.parametrize("tool", SEEING.values(), ids=SEEING)
def test_a_tool_that_sees_who_calls_needs_a_key(tool: Any) -> None:
    """A cache without a key would give one user what another asked for, so it is refused at once."""
    with pytest.raises(
        ArgumentError, match=r"^T\.cache\(\) of .* needs key=, because the tool sees who calls it"
    ):
        T.cache(tool)
    T.cache(tool, key=str)


async def test_a_tool_of_a_set_that_sees_who_calls_needs_a_key() -> None:
    """The tools of a set are known when it is opened: the call is refused."""

    class Bank(BaseToolset):
        async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
            return [FunctionTool(balance)]

    call = call_tool("balance", account="main")
    with pytest.raises(ArgumentError, match=r"T\.cache\(\) of 'balance' needs key="):
        await given(T.cache(Bank()), call)
    assert await given(T.cache(Bank(), key=str), call) == ["main of user"]


@pytest.mark.parametrize("scope", ["session", "invocation"])
def test_a_tool_with_a_resource_of_a_session_needs_a_key(scope: Any) -> None:
    """Check finds it, and building refuses it; a resource of the whole app is for everybody."""

    def price(article: str, shop: Shop) -> int:
        """The price of an article."""
        return shop[article]

    agent = Agent("a").tools(T.timeout(T.cache(T.retry(price)), 60))
    wrong = agent.inject(shop=Resource(Shop, scope=scope))
    assert [finding.code for finding in wrong.check().errors] == ["shared-cache"]
    with pytest.raises(
        ResourceError, match=r"a: T\.cache\(\) of its tool 'price' gives all users the same result"
    ):
        wrong.build()
    for right in (
        agent.inject(shop=Resource(Shop)),
        Agent("a").tools(T.cache(price, key=str)).inject(shop=Resource(Shop, scope=scope)),
    ):
        assert right.check().ok
        right.build()


class Shop(dict[str, int]):
    """Prices."""


async def test_errors_are_not_cached() -> None:
    """A cache keeps neither a raised error nor one that a tool reports in its result."""
    counter = Counter(failures=1)
    assert await given(T.retry(T.cache(counter.look), 2, backoff_base=0), LOOK, LOOK) == ["x 2", "x 2"]

    def report(place: str) -> dict[str, str]:
        """Report an error."""
        counter.calls += 1
        return {"error": f"no {counter.calls}"}

    call = call_tool("report", place="x")
    assert await given(T.cache(report), call, call) == [{"error": "no 3"}, {"error": "no 4"}]


async def test_a_result_is_not_changed_by_who_gets_it() -> None:
    """A callback that changes a result does not change the next result."""

    def listing() -> dict[str, list[int]]:
        """List."""
        return {"items": [1]}

    def spoil(tool: Any, args: Any, tool_context: Any, tool_response: Any) -> None:
        tool_response["items"].append(2)

    agent = Agent("a").tools(T.cache(listing)).after_tool(spoil)
    result = await agent.run("hi", backend=mock_backend(calling(call_tool("listing"), call_tool("listing"))))
    assert results(result) == [{"items": [1, 2]}] * 2


async def test_a_cache_holds_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full cache drops the least used result first."""
    monkeypatch.setattr(around, "SIZE", 2)
    counter = Counter()
    calls = [call_tool("look", place=place) for place in "ababcab"]
    found = await given(T.cache(counter.look), *calls)
    assert found == ["a 1", "b 2", "a 1", "b 2", "c 3", "a 4", "b 5"]


# --- transform, mock ------------------------------------------------------------------------------


async def test_arguments_and_results_are_transformed() -> None:
    """Arguments are changed before, results after; either function may be async."""

    async def upper(args: dict[str, Any]) -> dict[str, Any]:
        return {"city": args["city"].upper()}

    call = call_tool("weather", city="Ulm")
    assert await given(T.transform(weather, pre=upper), call) == ["Rain in ULM."]
    assert await given(T.transform(weather, post=len), call) == [12]
    assert await given(T.transform(weather, pre=upper, post=shout), call) == ["RAIN IN ULM."]
    with pytest.raises(ToolError, match=r"pre= of T.transform gave str in place of a dict"):
        await given(T.transform(weather, pre=str), call)


def tell_all(topic: str) -> str:
    """Tell all."""
    return f"all of {topic}"


MOCKS: dict[str, tuple[Any, list[Any]]] = {
    "a value": (T.mock("news", returns={"n": [1]}), [{"n": [1]}, {"n": [1]}]),
    "nothing": (T.mock("news"), [None, None]),
    "a function": (T.mock("news", side_effect=tell_all), ["all of x", "all of x"]),
    "a list": (T.mock("news", side_effect=["first", "last"]), ["first", "last", "last"]),
    "a list with an error": (
        T.retry(T.mock("news", side_effect=[ConnectionError("no"), "yes"]), backoff_base=0),
        ["yes"],
    ),
}


@pytest.mark.parametrize(("tool", "expected"), MOCKS.values(), ids=MOCKS)
async def test_a_tool_stub_returns_its_script(tool: Any, expected: list[Any]) -> None:
    """A tool stub returns its scripted results for all arguments."""
    assert await given(tool, *[call_tool("news", topic="x")] * len(expected)) == expected


async def test_a_tool_stub_that_fails() -> None:
    """An error in the script is raised as if the tool had raised it."""
    for error in (ValueError("gone"), ValueError):
        with pytest.raises(ToolError, match="Agent 'a': its tool 'news' raised ValueError"):
            await given(T.mock("news", side_effect=error), call_tool("news"))


async def test_a_tool_stub_for_a_toolset() -> None:
    """A stub for a toolset replaces each tool of it, with the tool's schema."""
    calls = [call_tool("weather", city="Ulm"), call_tool("half", number=4)]
    assert await given(T.mock(Box(), returns="ok"), *calls) == ["ok", "ok"]


async def test_the_model_gets_the_parameters_of_a_tool_stub() -> None:
    """A function that plays a tool says what that takes, under the tool's name."""

    async def play(topic: str, count: int = 1) -> str:
        """The news about a topic."""
        return f"{count} {topic}"

    backend = mock_backend(calling(call_tool("news", topic="x", count=2)))
    result = await Agent("a").tools(T.mock("news", side_effect=play)).run("hi", backend=backend)
    tools: Any = backend.calls["a"][0].config.tools
    (declared,) = tools[0].function_declarations
    assert (declared.name, declared.description) == ("news", "The news about a topic.")
    assert results(result) == ["2 x"]


# --- confirm --------------------------------------------------------------------------------------


def is_over_three(number: int) -> bool:
    """True if a person must approve the call."""
    return number > 3


ASKING: dict[str, Any] = {
    "a function": T.confirm(half),
    "a function of T": T.fn(half, confirm=True),
    "a tool of ADK": T.confirm(FunctionTool(half)),
    "a toolset": T.confirm(Box()),
    "around others": T.confirm(T.retry(T.timeout(half, 60))),
    "inside others": T.retry(T.cache(T.transform(T.confirm(half), post=lambda result: result))),
    "when it is large": T.confirm(half, when=is_over_three),
    "the method": None,
}


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("tool", ASKING.values(), ids=ASKING)
async def test_a_person_is_asked(tool: Any, approved: bool, tmp_path: Path) -> None:
    """The run pauses before the call and continues after a restart; the model receives a refusal."""
    agent = Agent("a").tools(tool) if tool else Agent("a").tool(Box(), require_confirmation=True)
    expression = agent >> Agent("b").instruct("Say goodbye.")
    script = {
        "a": replies(lambda request: "done" if called(request) else call_tool("half", number=4)),
        "b": "bye",
    }

    def restarted() -> Any:
        return mock_backend(script, session_service=session_service("sqlite", tmp_path))

    first = await expression.run("hi", backend=restarted(), session_id="s")
    (pending,) = first.pending
    assert (pending.agent, pending.message) == ("a", "Run half(number=4)?")
    assert first.text == ""
    rest = await expression.resume(session_id="s", approvals={pending.id: approved}, backend=restarted())
    assert results(rest) == [2.0 if approved else {"error": "This tool call is rejected."}]
    assert rest.text == "bye"
    assert [event.author for event in rest if event.content] == ["a", "b"]


async def test_a_person_is_asked_only_when_needed() -> None:
    """A function of the arguments, which may be async, says whether a person must be asked."""

    async def large(number: int) -> bool:
        return number > 100

    def any_large(**arguments: int) -> bool:
        return arguments["number"] > 100

    ways: list[Any] = [large, any_large]
    for when in ways:
        assert await given(T.confirm(half, when=when), call_tool("half", number=4)) == [2.0]
        result = (
            await Agent("a")
            .tools(T.confirm(half, when=when))
            .run("hi", backend=mock_backend(calling(call_tool("half", number=400))))
        )
        assert result.pending[0].payload == {"name": "half", "args": {"number": 400}}


# --- wherever the agent stands --------------------------------------------------------------------

B = Agent("b")
PLACES: dict[str, Callable[[Agent[Any]], Expr[Any]]] = {
    "a step": lambda a: a >> B,
    "a branch": lambda a: FanOut(a, B),
    "a loop": lambda a: Loop("l", a, max_iterations=1),
    "a fallback": lambda a: a // B,
    "a route": lambda a: Route("k").eq("x", B).otherwise(a),
    "an item": lambda a: map_over("items", a),
    "a sub-agent": lambda a: Agent("boss").delegate(a),
    "a tool": lambda a: Agent("boss").tools(T.agent(a)),
    "a tool of ADK": lambda a: Agent("boss").tool(AgentTool(a.build())),
}


# AgentTool of newer ADKs hands plugins to its runner in a way that ADK itself deprecates.
@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_in_every_composite(place: Callable[[Agent[Any]], Expr[Any]]) -> None:
    """A wrapper applies wherever the agent of its tool is, also in a loop of attempts."""
    counter = Counter(failures=1)
    agent = Agent("a").tools(T.cache(T.retry(counter.look)) | T.timeout(weather, 60))

    def hand_on(request: LlmRequest) -> Any:
        if called(request):
            return "done"
        if "transfer_to_agent" in request.tools_dict:
            return call_tool("transfer_to_agent", agent_name="a")
        return call_tool(next(iter(request.tools_dict)), request="go")

    backend = mock_backend({"a": [LOOK, LOOK, "found"], "boss": hand_on}, default="ok")
    await place(agent).run("hi", backend=backend, state={"items": [1]})
    assert counter.calls == 2
    answers = [
        part.function_response.response
        for content in backend.calls["a"][-1].contents
        for part in content.parts or []
        if part.function_response
    ]
    assert answers == [{"result": "x 2"}] * 2


def test_an_async_key_of_a_cache_is_refused() -> None:
    """A cache refuses an async key function, whose result would be another coroutine for each call."""

    async def later(args: dict[str, Any]) -> str:
        return ""

    with pytest.raises(ArgumentError, match=r"^T\.cache\(key=\) takes a plain function, not an async one"):
        T.cache(results, key=cast(Any, later))
