"""Toolsets, such as connections to MCP servers: the last who uses one closes it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, T, gate, map_over, race
from adk_fluent.backends.adk.compat import mcp_sessions
from adk_fluent.backends.adk.running import toolsets as counted
from adk_fluent.backends.events import AgentEvent
from adk_fluent.errors import AgentTimeoutError, CompileError, RunError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.mcp_server import answer
from tests.backends.support import Hang, called, replies, script
from tests.clock import without_pauses
from tests.limits import LIMIT, begins, comes_true, in_thread, within_limit

# ADK deprecates how its own AgentTool and its own client for MCP use it.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:MCPTool class is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Use `streamable_http_client` instead:DeprecationWarning"),
]


class Connection(BaseToolset):
    """A toolset that notes when it is opened and closed; its tool works while it is open.

    Args:
        during: waited for by the tool, which gives `True`.
        closing: waited for while it is being closed.
    """

    def __init__(
        self,
        during: Callable[[], Awaitable[object]] | None = None,
        closing: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        super().__init__()
        self.log: list[str] = []
        self.is_open = False
        self._during, self._closing = during, closing
        self._lock = threading.Lock()

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        with self._lock:
            if not self.is_open:
                self.is_open = True
                self.log.append("open")
        return [FunctionTool(self.use)]

    async def use(self) -> bool:
        """Use the connection."""
        self.log.append("use")
        if self._during is not None:
            await self._during()
        return self.is_open

    async def close(self) -> None:
        if self.is_open:
            if self._closing is not None:
                await self._closing()
            self.is_open = False
            self.log.append("close")


ONCE = ["open", "use", "close"]
USES = {"a": replies(lambda request: "done" if called(request) else call_tool("use"))}
B = Agent("b")


def agent(connection: BaseToolset) -> Agent[str]:
    """An agent with a toolset."""
    return Agent("a").tool(connection)


def backend(**more: Any) -> Any:
    """Scripted models; `a` uses its connection, then is done."""
    return mock_backend({**USES, **more}, default="ok")


# --- every way to run -----------------------------------------------------------------------------


async def _run(expression: Expr[Any]) -> None:
    await expression.run("hi", backend=backend())


async def _ask(expression: Expr[Any]) -> None:
    await in_thread(partial(expression.ask, "hi", backend=backend()))


async def _ask_async(expression: Expr[Any]) -> None:
    await expression.ask_async("hi", backend=backend())


async def _stream(expression: Expr[Any]) -> None:
    assert [event async for event in expression.stream("hi", backend=backend())]


async def _session(expression: Expr[Any]) -> None:
    async with expression.session(backend=backend()) as chat:
        await chat.send("hi")


async def _turn(expression: Expr[Any]) -> None:
    await expression.session(backend=backend()).send("hi")


async def _map(expression: Expr[Any]) -> None:
    await expression.map(["hi"], backend=backend())


async def _preview(expression: Expr[Any]) -> None:
    await expression.preview("hi", {"a": [call_tool("use"), "done"]})


WAYS = [_run, _ask, _ask_async, _stream, _session, _turn, _map, _preview]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__[1:])
async def test_every_way_to_run_closes_what_it_opened(way: Callable[[Expr[Any]], Awaitable[None]]) -> None:
    """However an expression is run, its toolset is open while it runs and closed afterwards, each time."""
    connection = Connection()
    expression = agent(connection)
    for times in (1, 2):
        await way(expression)
        assert connection.log == ONCE * times


PLACES: dict[str, Callable[[Agent[Any]], Expr[Any]]] = {
    "a step": lambda a: a >> B,
    "a branch": lambda a: FanOut(a, B),
    "a loop": lambda a: Loop("l", a, max_iterations=1),
    "a fallback": lambda a: a // B,
    "a route": lambda a: Route("k").eq("x", B).otherwise(a),
    "a time limit": lambda a: a.timeout(60),
    "an item": lambda a: map_over("items", a),
    "a sub-agent": lambda a: Agent("boss").delegate(a),
    "a tool": lambda a: Agent("boss").tool(AgentTool(a.build())),
    "a tool in a tool": lambda a: Agent("boss").tool(
        AgentTool(LlmAgent(name="inner", model="none", tools=[AgentTool(a.build())]))
    ),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_wherever_the_agent_stands(place: Callable[[Agent[Any]], Expr[Any]]) -> None:
    """It is closed wherever in the expression its agent stands."""
    connection = Connection()

    def hand_on(request: LlmRequest) -> Any:
        if called(request):
            return "done"
        if "transfer_to_agent" in request.tools_dict:
            return call_tool("transfer_to_agent", agent_name="a")
        return call_tool(next(iter(request.tools_dict)), request="go")

    models = backend(boss=hand_on, inner=hand_on)
    await place(agent(connection)).run("hi", backend=models, state={"items": [1]})
    assert connection.log == ONCE


@pytest.mark.newest
async def test_in_a_workflow_that_is_a_tool() -> None:
    """The agents of ADK 2's workflows are found as well."""
    connection = Connection()
    flow: Any = Pipeline("flow", agent(connection), B).build(target="workflow")
    boss = Agent("boss").tool(flow)
    await boss.run("hi", backend=backend(boss=[call_tool("flow", request="go"), "done"]))
    assert connection.log[-1] == "close"
    assert not connection.is_open


# --- however it ends ------------------------------------------------------------------------------


async def test_a_run_that_fails() -> None:
    """An error closes it, too."""
    connection = Connection()
    failing = agent(connection) >> B
    with pytest.raises(RunError, match="no"):
        await failing.run("hi", backend=backend(b=RunError("no")))
    assert connection.log == ONCE


async def test_a_tool_that_fails_inside_a_tool() -> None:
    """Where ADK's own `AgentTool` is left by an error and closes nothing, it is closed all the same."""

    async def fail() -> None:
        raise RunError("no")

    connection = Connection(fail)
    boss = Agent("boss").tool(AgentTool(agent(connection).build()))
    with pytest.raises(RunError, match="no"):
        await boss.run("hi", backend=backend(boss=call_tool("a", request="go")))
    assert connection.log == ONCE


@without_pauses
async def test_a_run_that_takes_too_long() -> None:
    """So does a time limit."""
    connection = Connection(asyncio.Event().wait)
    with pytest.raises(AgentTimeoutError):
        await agent(connection).timeout(0.2).run("hi", backend=backend())
    assert connection.log == ONCE


async def test_a_run_that_is_cancelled() -> None:
    """So does a cancellation."""
    connection, hang = Connection(), Hang()
    task = asyncio.ensure_future((agent(connection) >> B).run("hi", backend=backend(b=hang)))
    await hang.started.wait()
    assert connection.is_open
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connection.log == ONCE


async def test_a_stream_that_is_left() -> None:
    """So does who stops reading a stream."""
    connection = Connection()
    async with aclosing((agent(connection) >> B).stream("hi", backend=backend())) as events:
        async for _ in events:
            break
    assert connection.log == ["open", "close"]


async def test_a_run_that_waits_for_a_person() -> None:
    """Nothing stays open while a run waits; who goes on with it opens it anew."""
    connection = Connection()
    expression, models = agent(connection) >> gate(lambda state: True) >> agent(connection), backend()
    first = await expression.run("hi", backend=models)
    assert connection.log == ONCE
    await expression.resume(
        session_id=first.session_id, approvals={first.pending[0].id: True}, backend=models
    )
    assert connection.log == [*ONCE, "open", "use", "close"]


async def test_a_cancellation_while_it_is_being_closed() -> None:
    """Closing is not left half done; the cancellation is passed on afterwards."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def closing() -> None:
        begun.set()
        await go_on.wait()

    connection = Connection(closing=closing)
    task = asyncio.ensure_future(agent(connection).run("hi", backend=backend()))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connection.log == ONCE


async def test_a_toolset_that_cannot_be_closed(caplog: pytest.LogCaptureFixture) -> None:
    """An error while closing is logged and costs neither the answer nor the other toolsets."""

    async def fail() -> None:
        raise OSError("gone")

    broken, other = Connection(closing=fail), Connection()
    with caplog.at_level(logging.WARNING, "adk_fluent.tools"):
        expression = agent(broken) >> Agent("b").tool(other)
        result = await expression.run("hi", backend=backend(b=USES["a"]))
    assert result.text == "done"
    assert other.log == ONCE
    (said,) = caplog.messages
    assert said.startswith("Toolset Connection could not be closed: OSError at test_toolsets.py:")
    broken.is_open, broken.log[:] = False, []
    await agent(broken).run("hi", backend=backend())
    assert broken.log == ["open", "use"]


async def test_a_toolset_that_hangs_while_it_is_closed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not come to an end is given up after a while."""
    monkeypatch.setattr(counted, "PATIENCE", 0)
    with caplog.at_level(logging.WARNING, "adk_fluent.tools"):
        result = await agent(Connection(closing=asyncio.Event().wait)).run("hi", backend=backend())
    assert result.text == "done"
    (said,) = caplog.messages
    assert said.startswith("Toolset Connection could not be closed: TimeoutError at ")


# --- several at once ------------------------------------------------------------------------------


def meeting(count: int) -> Callable[[], Awaitable[object]]:
    """What lets nobody go on before `count` have come."""
    return asyncio.Barrier(count).wait


async def test_runs_at_the_same_time() -> None:
    """Of two runs of one expression, the one that ends first does not close what the other uses."""
    ended, using = asyncio.Event(), asyncio.Event()
    order = iter(["first", "second"])

    async def during() -> None:
        if next(order) == "first":
            using.set()
            await ended.wait()

    connection = Connection(during)
    expression, models = agent(connection), backend()
    slow = asyncio.ensure_future(expression.run("hi", backend=models))
    await using.wait()
    await expression.run("hi", backend=models)
    assert connection.is_open
    ended.set()
    results = await slow
    assert [r.result for e in results for r in e.tool_responses] == [{"result": True}]
    assert connection.log == ["open", "use", "use", "close"]


@pytest.mark.parametrize("held", [False, True])
async def test_what_is_around_a_toolset_does_not_close_it(held: bool) -> None:
    """A run that ends on another backend leaves it to the one that goes on, and to who holds it open."""
    ended, using = asyncio.Event(), asyncio.Event()
    order = iter(["first", "second"])

    async def during() -> None:
        if next(order) == "first":
            using.set()
            await ended.wait()

    connection = Connection(during)
    expression = Agent("a").tools(T.retry(T.toolset(connection)))
    async with expression if held else nullcontext():
        slow = asyncio.ensure_future(expression.run("hi", backend=backend()))
        await using.wait()
        await expression.run("hi", backend=backend())
        assert connection.is_open
        ended.set()
        results = await slow
        assert [r.result for e in results for r in e.tool_responses] == [{"result": True}]
        assert connection.is_open is held
    assert connection.log == ["open", "use", "use", "close"]


async def test_a_toolset_of_several_expressions() -> None:
    """Nor does it matter that the runs are of different expressions, on different backends."""
    connection = Connection(meeting(3))
    a = agent(connection)
    expressions: list[Expr[Any]] = [a, a >> B, Loop("l", a, max_iterations=1)]
    runs = [expression.run("hi", backend=backend()) for expression in expressions]
    for result in await asyncio.gather(*runs):
        assert [r.result for e in result for r in e.tool_responses] == [{"result": True}]
    assert connection.log == ["open", "use", "use", "use", "close"]


async def test_the_runs_of_a_map() -> None:
    """All prompts of a `map` share what the first of them opened, one after another and side by side."""
    for concurrency in (1, 2, 5):
        connection = Connection()
        await agent(connection).map(["x", "y", "z"], concurrency=concurrency, backend=backend())
        assert connection.log == ["open", "use", "use", "use", "close"]


async def test_a_failing_map() -> None:
    """It is closed when a `map` fails, after all of its runs have ended."""
    connection = Connection(asyncio.Event().wait)
    expression = agent(connection)

    def answer(request: Any) -> Any:
        if "bad" in str(request.contents):
            raise RunError("bad prompt")
        return call_tool("use")

    with pytest.raises(RunError, match="bad prompt"):
        await expression.map(["x", "bad", "y"], backend=backend(a=answer))
    assert not connection.is_open
    assert connection.log[-1] == "close"
    assert connection.log.count("open") == connection.log.count("close") == 1


async def test_a_run_that_begins_while_it_is_being_closed() -> None:
    """It waits until that is done, and opens it anew."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def closing() -> None:
        begun.set()
        await go_on.wait()

    connection = Connection(closing=closing)
    expression = agent(connection)
    first = asyncio.ensure_future(expression.run("hi", backend=backend()))
    await begun.wait()
    second = asyncio.ensure_future(expression.run("hi", backend=backend()))
    given_up = asyncio.ensure_future(expression.run("hi", backend=backend()))
    for _ in range(10):
        await asyncio.sleep(0)
    assert connection.log == ["open", "use"]
    given_up.cancel()
    go_on.set()
    await asyncio.gather(first, second, given_up, return_exceptions=True)
    assert given_up.cancelled()
    assert connection.log == ONCE * 2


def test_asking_in_several_threads() -> None:
    """Threads, each with an event loop of its own, may use one toolset."""
    all_there = threading.Barrier(3, timeout=LIMIT)

    async def during() -> None:
        all_there.wait()

    connection = Connection(during)
    expression = agent(connection)
    with ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(expression.ask, "hi", backend=backend()) for _ in range(3)]
        assert [answer.result() for answer in answers] == ["done"] * 3
    assert connection.log[-1] == "close"
    assert connection.log.count("open") == connection.log.count("close") == 1


# --- kept open ------------------------------------------------------------------------------------


async def test_it_stays_open_over_a_conversation() -> None:
    """The turns of a conversation share what the first of them opened; its end closes it."""
    connection = Connection()
    models = mock_backend({"a": [call_tool("use"), "done"] * 3})
    async with agent(connection).session(backend=models) as chat:
        for _ in range(3):
            await chat.send("hi")
        assert connection.is_open
    assert connection.log == ["open", "use", "use", "use", "close"]


async def test_it_stays_open_over_runs_if_asked_to() -> None:
    """`async with expression:` around runs saves them from opening it each time."""
    connection = Connection()
    expression = agent(connection)
    async with expression as same:
        assert same is expression
        for _ in range(2):
            await expression.run("hi", backend=backend())
        await (expression >> B).ask_async("hi", backend=backend())
        assert connection.is_open
    assert connection.log == ["open", "use", "use", "use", "close"]


async def test_closing_what_was_built() -> None:
    """What ADK's own runner opened, which does not close it by itself, `aclose` closes."""
    connection = Connection()
    expression = Agent("a", script(USES).model_for(agent(connection).node, "a")).tool(connection)
    runner = expression.to_runner()
    hi = types.Content(role="user", parts=[types.Part(text="hi")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=hi)) as events:
        async for _ in events:
            pass
    assert connection.log == ["open", "use"]
    await expression.aclose()
    assert connection.log == ONCE
    await expression.aclose()
    assert connection.log == ONCE


async def test_closing_what_is_in_use() -> None:
    """`aclose` leaves to its users what is in use; they close it when they are done."""
    connection = Connection()
    expression = agent(connection)
    async with expression.session(backend=backend()) as chat:
        await chat.send("hi")
        await expression.aclose()
        assert connection.is_open
    assert connection.log == ONCE


async def test_closing_an_expression_without_toolsets() -> None:
    """An expression that has nothing to close can be closed, and entered."""
    async with B as same:
        assert same is B
    await (B >> B).aclose()


async def test_nothing_is_remembered() -> None:
    """Whoever used a toolset, and however that ended, nothing is kept of it when it is closed."""
    connection = Connection()
    expression = agent(connection)
    async with expression, expression.session(backend=backend()) as chat:
        await chat.send("hi")
        with pytest.raises(RunError, match="no"):
            await (expression >> B).map(["x", "y"], backend=backend(b=RunError("no")))
    assert vars(counted)["_uses"] == {}


# --- a real server --------------------------------------------------------------------------------


def processes(log: Path) -> list[int]:
    """The processes of the servers that were started."""
    return [int(line.split()[1]) for line in log.read_text().splitlines()]


def alive(process: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


SERVER = str(Path(__file__).with_name("mcp_server.py"))


class ByHand(BaseToolset):
    """A connection to a server in a process of its own, which speaks its protocol by itself."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = str(log)
        self._process: asyncio.subprocess.Process | None = None

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        if self._process is None:
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, SERVER, self._log, stdin=pipe, stdout=pipe
            )
        return [FunctionTool(self.shout)]

    async def shout(self, text: str) -> str:
        """Say it loud."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        call = {"id": 1, "method": "tools/call", "params": {"arguments": {"text": text}}}
        process.stdin.write(json.dumps(call).encode() + b"\n")
        (said,) = json.loads(await within_limit(process.stdout.readline()))["result"]["content"]
        return said["text"]

    async def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await within_limit(self._process.wait())
            self._process = None


def through_adk(log: Path, *options: str, limit: float = LIMIT) -> BaseToolset:
    """A connection through ADK's own client, which needs the package `mcp`."""
    from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
    from google.adk.tools.mcp_tool.mcp_toolset import McpToolset

    parameters: Any = import_module("mcp").StdioServerParameters(
        command=sys.executable, args=[SERVER, str(log), *options]
    )
    return McpToolset(connection_params=StdioConnectionParams(server_params=parameters, timeout=limit))


CLIENTS: dict[str, Callable[[Path], BaseToolset]] = {"by hand": ByHand}
if find_spec("mcp"):
    CLIENTS["through ADK"] = through_adk
every_client = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
SHOUTS = {"a": replies(lambda request: "done" if called(request) else call_tool("shout", text="hey"))}


def heard(events: list[AgentEvent]) -> bool:
    """Whether the server has answered."""
    return "HEY" in str([response.result for event in events for response in event.tool_responses])


@every_client
async def test_no_process_is_left_behind(client: Callable[[Path], BaseToolset], tmp_path: Path) -> None:
    """A server that a run, a branch or a failing run started has ended with it."""
    log = tmp_path / "log"
    expression = agent(client(log))
    assert heard(await expression.run("hi", backend=mock_backend(SHOUTS)))
    assert heard(await (expression | B).run("hi", backend=mock_backend(SHOUTS, default="ok")))
    with pytest.raises(RunError, match="no"):
        await (expression >> B).run("hi", backend=mock_backend({**SHOUTS, "b": RunError("no")}))
    started = processes(log)
    assert len(started) == 3
    assert not any(map(alive, started))


@every_client
async def test_no_process_of_a_cancelled_run(client: Callable[[Path], BaseToolset], tmp_path: Path) -> None:
    """Nor does a cancelled run leave one."""
    log, hang = tmp_path / "log", Hang()
    expression = agent(client(log)) >> B
    task = asyncio.ensure_future(expression.run("hi", backend=mock_backend({**SHOUTS, "b": hang})))
    await hang.started.wait()
    (started,) = processes(log)
    assert alive(started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(started)


WAYS_TO_END: dict[str, Callable[[Agent[Any]], Expr[Any]]] = {
    "cancelled": lambda one: one,
    "out of time": lambda one: one.timeout(1),
    "beaten": lambda one: race(one, Agent("b")),
    "too slow": lambda one: one,
}
every_way_to_end = pytest.mark.parametrize("way", WAYS_TO_END if find_spec("mcp") else [])


@every_way_to_end
async def test_no_process_that_was_about_to_start(way: str, tmp_path: Path) -> None:
    """A run that ends while its server starts leaves neither the process nor a task."""
    log, before = tmp_path / "log", asyncio.all_tasks()
    one = Agent("a").tools(through_adk(log, "never", limit=1 if way == "too slow" else LIMIT))

    async def started(request: LlmRequest) -> AsyncGenerator[str, None]:
        await comes_true(log.exists, "the server starts")
        yield "won"

    backend = mock_backend({"a": "x", "b": started})
    task = asyncio.ensure_future(WAYS_TO_END[way](one).run("hi", backend=backend))
    await comes_true(lambda: log.exists() or task.done(), "the server starts")
    if way == "cancelled":
        task.cancel()
    await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), LIMIT)
    assert not any(map(alive, processes(log) if log.exists() else []))
    assert asyncio.all_tasks() <= {*before, task}


class Silent:
    """An HTTP server of MCP tools that falls silent: it takes every request, and answers no more.

    Args:
        until: how long it answers: `never`, or to the first request of this method.

    Attributes:
        silent: set once there is a request that it does not answer.
        connections: those that are open.
    """

    def __init__(self, until: str) -> None:
        self._until = until
        self.silent = asyncio.Event()
        self.connections = set[asyncio.StreamWriter]()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str]:
        """Inside, it listens at this address."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int((re.findall(r"content-length: (\d+)", head) or ["0"])[0])
                request = json.loads(await reader.readexactly(length) or b"{}")
                self._answer(head.startswith("get"), request, writer)
        except (EOFError, ConnectionError):
            pass
        finally:
            self.connections.discard(writer)
            writer.close()

    def _answer(self, is_stream: bool, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        method = request.get("method", "")
        if self._until in ("never", method) or self.silent.is_set():
            self.silent.set()
        elif is_stream or "id" not in request:
            writer.write(
                b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % (b"405 No" if is_stream else b"202 Yes")
            )
        else:
            result = answer(method, request.get("params") or {})
            body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
            head = (
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: 1\r\nContent-Length: "
            )
            writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)


def by_http(kind: str, url: str) -> BaseToolset:
    """A connection through ADK's own client, which waits for each answer longer than a test does."""
    from google.adk.tools.mcp_tool import mcp_session_manager as managers
    from google.adk.tools.mcp_tool.mcp_toolset import McpToolset

    made = managers.SseConnectionParams if kind == "sse" else managers.StreamableHTTPConnectionParams
    return McpToolset(connection_params=made(url=url, timeout=1.5 * LIMIT))


SILENT = [("http", "never"), ("sse", "never"), ("http", "tools/list"), ("http", "tools/call")]
OVER: dict[str, Callable[[Agent[Any]], Expr[Any]]] = {
    "cancelled": lambda one: one,
    "out of time": lambda one: one.timeout(0.5),
    "beaten": lambda one: race(one, Agent("b")),
    "replaced": lambda one: one.timeout(0.5) // Agent("c"),
}


@pytest.mark.parametrize("way", OVER if find_spec("mcp") else [])
@pytest.mark.parametrize(("kind", "until"), SILENT)
async def test_no_connection_to_a_server_that_is_silent(
    way: str, kind: str, until: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends while its server does not answer ends at once, and leaves no connection and no task."""
    monkeypatch.setenv("GOOGLE_API_USE_CLIENT_CERTIFICATE", "false")  # for which ADK would ask Google
    monkeypatch.setattr(counted, "PATIENCE", 1.5 * LIMIT)
    server = Silent(until)

    async def last(request: LlmRequest) -> AsyncGenerator[str, None]:
        await server.silent.wait()
        yield "won"

    async with server.listening() as url:
        before = asyncio.all_tasks()
        expression = OVER[way](Agent("a").tool(by_http(kind, url)))
        models = mock_backend({"a": [call_tool("shout", text="hey"), "x"], "b": last, "c": "instead"})
        task = asyncio.ensure_future(expression.run("hi", backend=models))
        if way == "cancelled":
            await begins(server.silent, task)
            task.cancel()
        await within_limit(asyncio.gather(task, return_exceptions=True))
        await comes_true(lambda: not server.connections, "all connections are closed")
        assert asyncio.all_tasks() <= {*before, task}


@every_client
def test_no_process_of_an_ask(client: Callable[[Path], BaseToolset], tmp_path: Path) -> None:
    """Nor does `ask`, whose event loop ends with it."""
    log = tmp_path / "log"
    expression = agent(client(log))
    assert [expression.ask("hi", backend=mock_backend(SHOUTS)) for _ in range(2)] == ["done", "done"]
    started = processes(log)
    assert len(started) == 2
    assert not any(map(alive, started))


@every_client
async def test_one_process_for_a_conversation(client: Callable[[Path], BaseToolset], tmp_path: Path) -> None:
    """The turns of a conversation, and what is asked beside it, are served by one process."""
    log = tmp_path / "log"
    expression = agent(client(log))
    models = mock_backend({"a": [call_tool("shout", text="hey"), "done"] * 2})
    async with expression.session(backend=models) as chat:
        for _ in range(2):
            assert heard(await chat.send("hi"))
        assert await expression.ask_async("hi", backend=mock_backend(SHOUTS)) == "done"
        (started,) = processes(log)
        assert alive(started)
    assert not alive(started)


@pytest.mark.parametrize("name", ["_run", "_client", "_run_guarded"])
def test_a_name_of_adks_connections_that_moved_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends a connection that is still being opened uses private names of ADK, and probes them."""
    managers = import_module("google.adk.tools.mcp_tool.mcp_session_manager")
    contexts = import_module("google.adk.tools.mcp_tool.session_context")
    kind, opener = managers.MCPSessionManager, contexts.SessionContext
    assert mcp_sessions.probe(kind) is opener
    if name == "_run_guarded" and not hasattr(opener, name):
        return  # this release does not watch the connection during a call
    moved = {"__init__": BaseToolset.__init__} if name == "_client" else {name: None}
    monkeypatch.setattr(contexts, "SessionContext", type("SessionContext", (opener,), moved))
    with pytest.raises(CompileError, match=f"has no SessionContext.{name}"):
        mcp_sessions.probe(kind)
