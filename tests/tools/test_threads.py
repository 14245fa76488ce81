"""Tools that are not async run in threads: other tasks meanwhile, their context, and their end."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import aclosing
from typing import Any, cast

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.code_executors.base_code_executor import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionResult
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import PrivateAttr

from adk_fluent import Agent, T
from adk_fluent.adopt import adopt
from adk_fluent.backends.adk import threads
from adk_fluent.config import ExecutionConfig
from adk_fluent.di import Resource
from adk_fluent.errors import AgentTimeoutError, ArgumentError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import retry
from adk_fluent.testing import call_tool, mock_backend
from tests.clock import advance, with_clock
from tests.limits import LIMIT, happens, in_thread, within_limit


def where(article: str = "") -> str:
    """The thread in which it is called."""
    return threading.current_thread().name


class Where:
    """A tool that is an object."""

    def __call__(self, article: str = "") -> str:
        """The thread in which it is called."""
        return where(article)

    def method(self, article: str = "") -> str:
        """The thread in which it is called."""
        return where(article)


class Renaming(FunctionTool):
    """A subclass that leaves the call to ADK."""


class Calling(FunctionTool):
    """A subclass that calls its function by itself."""

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return self.func(**args)


def in_threads(tool: Any, **options: Any) -> list[bool]:
    """For each call of a tool, whether it was called in a thread of ours."""
    name = getattr(tool, "name", None) or getattr(tool, "called", None) or getattr(tool, "__name__", None)
    backend = mock_backend({"a": [call_tool(name or type(tool).__name__), "done"]})
    run = asyncio.run(Agent("a").tools(tool).run("hi", backend=backend, **options))
    given = [response.result["result"] for event in run for response in event.tool_responses]
    return [result == "adk_fluent_call" for result in given]


partly = functools.partial(where, article="tea")
functools.update_wrapper(partly, where)

IN_THREADS: dict[str, Any] = {
    "a function": where,
    "a method": Where().method,
    "an object": Where(),
    "a partial": partly,
    "of T": T.fn(where),
    "with attempts": T.retry(where),
    "with a time limit": T.timeout(where, 60),
    "a function of ADK": FunctionTool(where),
    "a long-running one of ADK": LongRunningFunctionTool(where),
    "of a subclass": Renaming(where),
}


async def where_async(article: str = "") -> str:
    """The thread in which it is called."""
    return where(article)


IN_THE_LOOP: dict[str, Any] = {
    "an async function": where_async,
    "one that opts out": T.fn(where, in_thread=False),
    "of a subclass that calls it": Calling(where),
}


@pytest.mark.parametrize("tool", IN_THREADS.values(), ids=IN_THREADS)
def test_a_tool_that_is_not_async_is_called_in_a_thread(tool: Any) -> None:
    """Whatever kind of tool it is, a function that may block leaves the event loop to others."""
    assert in_threads(tool) == [True]


@pytest.mark.parametrize("tool", IN_THE_LOOP.values(), ids=IN_THE_LOOP)
def test_calls_that_stay_in_the_event_loop(tool: Any) -> None:
    """Async functions, those that opt out, and subclasses that call their function themselves stay there."""
    assert in_threads(tool) == [False]


def test_an_expression_opts_out() -> None:
    """`ExecutionConfig(tools_in_threads=False)` calls all tools of an expression in the event loop."""
    config = ExecutionConfig(tools_in_threads=False)
    assert in_threads(where, config=config) == [False]
    with pytest.raises(ArgumentError, match="tools_in_threads"):
        ExecutionConfig(tools_in_threads=cast(Any, "no"))
    with pytest.raises(ArgumentError, match=r"T.fn\(in_thread=\): it is True or False"):
        T.fn(where, in_thread=cast(Any, "no"))


async def test_a_blocking_tool_does_not_stop_other_runs() -> None:
    """While a tool of one run blocks, another run goes from its first call to its answer."""
    started, go_on = threading.Event(), threading.Event()

    def block() -> str:
        """Block."""
        started.set()
        assert go_on.wait(LIMIT)
        return "went on"

    blocking = mock_backend({"a": [call_tool("block"), "done"]})
    task = asyncio.ensure_future(Agent("a").tools(block).ask_async("hi", backend=blocking))
    await happens(started)
    other = mock_backend({"b": [call_tool("where"), "answer"]})
    assert await Agent("b").tools(where).ask_async("hi", backend=other) == "answer"
    assert not task.done()
    go_on.set()
    assert await task == "done"


async def test_on_adks_own_runner() -> None:
    """A built agent calls its tools in threads on ADK's own runner, too."""
    agent = Agent("a").tools(where)
    backend = mock_backend({"a": [call_tool("where"), "done"]})
    built = cast(LlmAgent, agent.build())
    built.model = cast(LlmAgent, backend.compile(agent.node).app.root_agent).model
    runner = Runner(
        agent=built, app_name="x", session_service=InMemorySessionService(), auto_create_session=True
    )
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
        responses = [response async for event in events for response in event.get_function_responses()]
    assert [response.response for response in responses] == [{"result": "adk_fluent_call"}]


REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("REQUEST")


def test_context_variables() -> None:
    """A tool in a thread sees the context variables of its run; what it sets there it alone sees."""
    seen: list[str] = []

    def look() -> str:
        """Look."""
        seen.append(REQUEST.get())
        REQUEST.set("changed")
        return "x"

    async def main() -> None:
        REQUEST.set("mine")
        backend = mock_backend({"a": [call_tool("look"), call_tool("look"), "done"]})
        await Agent("a").tools(look).run("hi", backend=backend)
        assert REQUEST.get() == "mine"

    asyncio.run(main())
    assert seen == ["mine", "mine"]


async def test_the_context_of_the_call() -> None:
    """`tool_context` can be used from the thread: what a tool writes to state is stored."""

    def note(text: str, tool_context: ToolContext) -> str:
        """Note."""
        tool_context.state["note"] = text
        return f"{tool_context.state['note']} {where()}"

    backend = mock_backend({"a": [call_tool("note", text="x"), "done"]})
    run = await Agent("a").tools(T.fn(note, writes=["note"])).run("hi", backend=backend)
    assert run.state == {"note": "x"}


def turn(*calls: tuple[str, dict[str, Any]]) -> types.Content:
    """A model's response with several calls at once."""
    made = (types.FunctionCall(name=name, args=args) for name, args in calls)
    return types.Content(role="model", parts=[types.Part(function_call=call) for call in made])


class Adding:
    """A tool that adds to a key, and lets everything else of the program go on before it writes.

    Attributes:
        threads: those in which it was called.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.threads: list[threading.Thread] = []

    def add(self, letter: str, tool_context: ToolContext) -> str:
        """Add a letter."""
        self.threads.append(threading.current_thread())
        seen: str = tool_context.state.get("all", "")
        if threading.current_thread() is not threading.main_thread():
            for _ in range(20):
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(LIMIT)
        tool_context.state["all"] = seen + letter
        return letter


ONE_BY_ONE: dict[str, Callable[[Callable[..., Any]], Expr[Any]]] = {
    "a function": lambda add: Agent("a").tools(add),
    "of T": lambda add: Agent("a").tools(T.fn(add, writes=["all"])),
    "with attempts": lambda add: Agent("a").tools(T.retry(add)),
    "a tool of ADK": lambda add: Agent("a").tools(FunctionTool(add)),
    "of a subclass": lambda add: Agent("a").tools(Renaming(add)),
    "of an adopted agent": lambda add: adopt(LlmAgent(name="a", model="m", tools=[add])),
    "of an agent in a tool": lambda add: Agent("b").tools(T.agent(Agent("a").tools(add))),
    "with middleware": lambda add: Agent("a").tools(add).middleware(retry(tools=True)),
}


@pytest.mark.parametrize("make", ONE_BY_ONE.values(), ids=ONE_BY_ONE)
async def test_calls_of_one_turn_are_made_one_after_another(make: Callable[..., Expr[Any]]) -> None:
    """Calls of one turn that read and write one key keep all that they write, in the order of the calls."""
    adding = Adding()
    letters = [
        turn(*(("add", {"letter": letter}) for letter in "abc")),
        turn(("add", {"letter": "d"})),
        "done",
    ]
    script = {"a": letters, "b": [call_tool("a", request="x"), "done"]}
    run = await make(adding.add).run("hi", backend=mock_backend(script))
    assert run.state["all"] == "abcd"
    assert len(set(adding.threads)) == 1, "one thread for one run"


async def test_every_tool_takes_its_turn() -> None:
    """A tool in the event loop waits for those in threads; branches of a run wait for one another, too."""
    adding = Adding()

    def add_here(letter: str, tool_context: ToolContext) -> str:
        """Add a letter."""
        return adding.add(letter, tool_context)

    agent = Agent("a").tools(adding.add, T.fn(add_here, in_thread=False))
    calls = turn(("add", {"letter": "a"}), ("add_here", {"letter": "b"}), ("add", {"letter": "c"}))
    run = await agent.run("hi", backend=mock_backend({"a": [calls, "done"]}))
    assert run.state["all"] == "abc"

    at_work = list[str]()

    def alone(name: str) -> str:
        """Note the calls that run at the same time."""
        at_work.append(name)
        for _ in range(20):
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), adding.loop).result(LIMIT)
        assert at_work == [name]
        return at_work.pop()

    both = Agent("a").tools(alone) | Agent("b").tools(alone)
    script = {name: [turn(("alone", {"name": name})), "done"] for name in "ab"}
    await both.run("hi", backend=mock_backend(script))


AROUND: list[Callable[[Any], Any]] = [lambda tool: tool, T.retry, lambda tool: T.timeout(tool, 60)]


@pytest.mark.parametrize("make", AROUND)
async def test_calls_that_may_run_in_parallel(make: Callable[[Any], Any]) -> None:
    """With `T.fn(parallel=True)`, calls of one turn can wait for one another; their results are in order."""
    barrier = threading.Barrier(2)

    def meet(name: str) -> str:
        """Meet."""
        barrier.wait(LIMIT)
        return name

    both = turn(("meet", {"name": "x"}), ("meet", {"name": "y"}))
    tool = make(T.fn(meet, parallel=True))
    run = await Agent("a").tools(tool).run("hi", backend=mock_backend({"a": [both, "done"]}))
    given = [response.result for event in run for response in event.tool_responses]
    assert given == [{"result": "x"}, {"result": "y"}]


def test_values_of_parallel() -> None:
    """`parallel=` is a truth value, and means nothing in the event loop."""
    with pytest.raises(ArgumentError, match=r"T.fn\(parallel=\): it is True or False"):
        T.fn(where, parallel=cast(Any, "no"))
    with pytest.raises(ArgumentError, match="the event loop makes one call at a time"):
        T.fn(where, parallel=True, in_thread=False)


async def test_a_call_inside_a_call() -> None:
    """A tool may wait for another of its run, and for one that is async: both go on inside its turn."""
    loop, heard = asyncio.get_running_loop(), threading.Event()

    def outer(tool_context: ToolContext) -> list[str]:
        """Call the inner one, twice."""
        inner = cast(Any, tool_context)._invocation_context.agent.tools[1]
        calls = (inner.run_async(args={"name": name}, tool_context=tool_context) for name in "xy")
        called = [asyncio.run_coroutine_threadsafe(call, loop) for call in calls]
        assert heard.wait(LIMIT)
        return [call.result(LIMIT) for call in called]

    def inner(name: str) -> str:
        """Give the name."""
        return name

    async def tell() -> str:
        """Tell the outer one."""
        heard.set()
        return "told"

    script = {"a": [turn(("outer", {}), ("tell", {}), ("inner", {"name": "z"})), "done"]}
    run = await Agent("a").tools(outer, inner, tell).run("hi", backend=mock_backend(script))
    given = [response.result["result"] for event in run for response in event.tool_responses]
    assert given == [["x", "y"], "told", "z"]


async def test_a_call_that_waits_for_its_turn_is_given_up() -> None:
    """A cancelled run does not make a call that has not begun."""
    started, go_on, made = threading.Event(), threading.Event(), list[str]()

    def block(name: str) -> str:
        """Block."""
        started.set()
        assert go_on.wait(LIMIT)
        made.append(name)
        return name

    def connect() -> Generator[int]:
        yield 1

    def use(name: str, db: int) -> str:
        """Block, with what is open for the run."""
        return block(name)

    for tool in (block, use):
        started.clear()
        go_on.clear()
        agent = Agent("a").tools(tool).inject(db=Resource(connect, scope="invocation"))
        both = turn((tool.__name__, {"name": "x"}), (tool.__name__, {"name": "y"}))
        task = asyncio.ensure_future(agent.run("hi", backend=mock_backend({"a": [both, "done"]})))
        await happens(started)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await threads_have_ended()
    assert made == ["x", "x"]


@with_clock
async def test_a_time_limit_begins_with_the_turn() -> None:
    """`T.timeout` counts from when a call's turn comes, and one that it gave up holds up no other."""
    loop, stuck, go_on = asyncio.get_running_loop(), threading.Event(), threading.Event()

    def pass_time() -> str:
        """Let an hour pass."""

        async def passed() -> None:
            advance(3600)
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(passed(), loop).result(LIMIT)
        return "passed"

    def block() -> str:
        """Block, and let an hour pass."""
        loop.call_soon_threadsafe(advance, 3600)
        stuck.set()
        assert go_on.wait(LIMIT)
        return "too late"

    def quick() -> str:
        """Be quick."""
        return "quick"

    def fail(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, Any]:
        return {"result": "given up"}

    limited = [T.timeout(T.cache(tool), 60) for tool in (quick, block)]
    agent = Agent("a").tools(pass_time, *limited).on_tool_error(fail)
    script = {"a": [turn(("pass_time", {}), ("quick", {})), turn(("block", {}), ("quick", {})), "done"]}
    try:
        run = await agent.run("hi", backend=mock_backend(script))
    finally:
        go_on.set()
    given = [response.result["result"] for event in run for response in event.tool_responses]
    assert given == ["passed", "quick", "given up", "quick"]


async def test_a_cache_knows_the_call_before() -> None:
    """The second of two equal calls of one turn gets the result that `T.cache` kept."""
    made = list[str]()

    def look(name: str) -> str:
        """Look."""
        made.append(name)
        return name

    both = turn(("look", {"name": "x"}), ("look", {"name": "x"}))
    await Agent("a").tools(T.cache(look)).run("hi", backend=mock_backend({"a": [both, "done"]}))
    assert made == ["x"]


async def test_calls_that_share_a_resource_of_the_run_do_not() -> None:
    """Calls that use what was opened for the run alone are made in one thread, one after another."""
    log: list[tuple[str, int]] = []

    def connect() -> Generator[int]:
        log.append(("open", threading.get_ident()))
        yield 1
        log.append(("close", threading.get_ident()))

    def use(name: str, db: int) -> str:
        """Use it."""
        log.append((f"begin {name}", threading.get_ident()))
        log.append((f"end {name}", threading.get_ident()))
        return name

    parts = [
        types.Part(function_call=types.FunctionCall(name="use", args={"name": name})) for name in ("x", "y")
    ]
    both = types.Content(role="model", parts=parts)
    agent = Agent("a").tools(use).inject(db=Resource(connect, scope="invocation"))
    await agent.run("hi", backend=mock_backend({"a": [both, "done"]}))
    assert [what for what, _ in log] == ["open", "begin x", "end x", "begin y", "end y", "close"]
    assert len({thread for _, thread in log}) == 1


async def test_an_exception_is_that_of_the_tool() -> None:
    """The run reports the error that a tool raises in its thread; `StopIteration` becomes another error."""

    def fails() -> str:
        """Fail."""
        raise ValueError("no tea")

    def stops() -> str:
        """Stop."""
        return next(iter(cast("list[str]", [])))

    for tool, message in ((fails, "no tea"), (stops, "StopIteration")):
        name = tool.__name__
        with pytest.raises(Exception, match=message):
            await Agent("a").tools(tool).run("hi", backend=mock_backend({"a": [call_tool(name), "x"]}))


async def test_a_call_that_was_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """A cancelled run ends at once; its call continues in its thread, and a later error is logged."""
    started, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        """Take long."""
        started.set()
        assert go_on.wait(LIMIT)
        raise ValueError("late")

    backend = mock_backend({"a": [call_tool("slow"), "done"]})
    task = asyncio.ensure_future(Agent("a").tools(slow).run("hi", backend=backend))
    await happens(started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    slots = vars(threads)["_slots"].here()
    while slots._value < threads.LIMIT:
        await asyncio.sleep(0)
    said = "'slow' failed in its thread after it was given up: ValueError at test_threads.py:"
    assert caplog.messages[-1].startswith(said)


def test_a_tool_may_ask_an_expression() -> None:
    """A tool in a thread can call `ask()`, which runs in a separate event loop there."""

    def expert(question: str) -> str:
        """Ask an expert."""
        backend = mock_backend({"expert": [call_tool("where"), f"{question}!"]})
        return Agent("expert").tools(where).ask(question, backend=backend)

    def boss(question: str) -> str:
        """Ask the boss."""
        backend = mock_backend({"boss": [call_tool("expert", question=question), "asked"]})
        return Agent("boss").tools(expert).ask(question, backend=backend)

    backend = mock_backend({"a": [call_tool("boss", question="Tea"), "done"]})
    assert Agent("a").tools(boss).ask("hi", backend=backend) == "done"


async def test_the_number_of_threads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a limited number of calls run at the same time; the others wait until one ends."""
    monkeypatch.setattr(threads, "LIMIT", 3)
    at_once, most, lock = 0, 0, threading.Lock()

    def count() -> int:
        """Count."""
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        with lock:
            at_once -= 1
        return 1

    async def calls() -> list[int]:
        return await asyncio.gather(*(threads.in_thread(count) for _ in range(50)))

    assert await calls() == [1] * 50
    assert 1 <= most <= 3


async def threads_have_ended() -> None:
    """Wait until the threads of tools have ended."""
    for thread in threading.enumerate():
        if thread.name == "adk_fluent_call":
            await in_thread(thread.join, LIMIT)


async def test_no_thread_is_left() -> None:
    """After the runs no thread is left, neither of tools nor of resources."""

    def use(db: list[int]) -> str:
        """Use it."""
        return where()

    agent = Agent("a").tools(use).inject(db=Resource(list, scope="invocation"))
    for _ in range(20):
        await agent.run("hi", backend=mock_backend({"a": [call_tool("use"), "done"]}))
    await threads_have_ended()
    assert "adk_fluent_call" not in [thread.name for thread in threading.enumerate()]


# --- nothing is kept ------------------------------------------------------------------------------


class Handle:
    """The resources of one user's request."""


def use_handle(db: Handle) -> str:
    """Use it."""
    return type(db).__name__


async def use_handle_async(db: Handle) -> str:
    """Use it."""
    return type(db).__name__


@pytest.mark.newest  # google-adk 1.39 keeps the last 1,024 functions that it has looked at
@pytest.mark.parametrize("tool", [use_handle, use_handle_async, T.fn(use_handle), FunctionTool(use_handle)])
async def test_a_handle_of_a_request_is_not_kept(tool: Any) -> None:
    """A value injected for one request is collected after it, with its expression."""
    name = "use_handle_async" if tool is use_handle_async else "use_handle"
    kept: list[weakref.ref[Handle]] = []

    async def request() -> None:
        handle = Handle()
        kept.append(weakref.ref(handle))
        backend = mock_backend({"a": [call_tool(name), "done"]})
        assert await Agent("a").tools(tool).inject(db=handle).ask_async("hi", backend=backend) == "done"

    for _ in range(5):
        await request()
    await threads_have_ended()
    gc.collect()
    assert [each() for each in kept] == [None] * 5


def test_an_event_loop_is_not_kept() -> None:
    """`ask` has an event loop for each call, which is collected after it, whatever was opened there."""
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    def use(db: Handle, cache: Handle) -> str:
        """Use them."""
        return "x"

    async def look() -> Handle:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        return Handle()

    agent = Agent("a").tools(use).inject(db=Resource(look), cache=Resource(Handle, scope="session"))
    for _ in range(3):
        agent.ask("hi", backend=mock_backend({"a": [call_tool("use"), "done"]}))
    asyncio.run(threads_have_ended())  # a thread has its loop for a moment after it gave the result
    gc.collect()
    assert [each() for each in loops] == [None] * 3


MAKERS: list[Callable[[Callable[..., Any]], Any]] = [lambda f: f, T.fn, T.retry]


@pytest.mark.newest  # google-adk 1.39 keeps the last 1,024 functions that it has looked at
@pytest.mark.parametrize("make", MAKERS)
async def test_a_tool_made_for_a_request_is_not_kept(make: Callable[[Callable[..., Any]], Any]) -> None:
    """ADK's cache of declarations does not keep the tools that are called in threads."""
    handles: list[weakref.ref[Handle]] = []

    async def request() -> None:
        handle = Handle()
        handles.append(weakref.ref(handle))

        def inner() -> str:
            """Use it."""
            return type(handle).__name__

        backend = mock_backend({"a": [call_tool("inner"), "done"]})
        await Agent("a").tools(make(inner)).ask_async("hi", backend=backend)

    await request()
    await threads_have_ended()
    gc.collect()
    assert [each() for each in handles] == [None]


# --- code that a model writes ---------------------------------------------------------------------


class Waiting(BaseCodeExecutor):
    """Runs code until it is let go."""

    _began: threading.Event = PrivateAttr(default_factory=threading.Event)
    _go_on: threading.Event = PrivateAttr(default_factory=threading.Event)
    _asked: list[str] = PrivateAttr(default_factory=list[str])

    @property
    def asked(self) -> list[str]:
        """The code that it was given."""
        return self._asked

    def execute_code(self, invocation_context: Any, code_execution_input: Any) -> CodeExecutionResult:
        self._asked.append(code_execution_input.code.strip())
        self._began.set()
        assert self._go_on.wait(LIMIT), "the event loop was blocked"
        return CodeExecutionResult(stdout=f"{len(self._asked)}")

    async def begins(self) -> None:
        """Wait until it runs code."""
        await happens(self._began)

    def let_go(self) -> None:
        """Let it end."""
        self._go_on.set()


CODE = "I count.\n```python\nprint({})\n```\n"


async def test_code_of_a_model_is_run_in_a_thread() -> None:
    """Other runs go on while an executor runs code; each block is run once, and told with its result."""
    executor = Waiting()
    agent = Agent("a").code_executor(executor)
    backend = mock_backend({"a": [CODE.format(1), CODE.format(2), "Two."]})
    task = asyncio.ensure_future(agent.run("hi", backend=backend))
    try:
        await executor.begins()
    finally:
        executor.let_go()
    run = await within_limit(task)
    assert executor.asked == ["print(1)", "print(2)"]
    codes = [part.executable_code for event in run for part in event.parts if part.executable_code]
    results = [
        part.code_execution_result for event in run for part in event.parts if part.code_execution_result
    ]
    assert [str(code.code).strip() for code in codes] == ["print(1)", "print(2)"]
    assert [str(result.output).split()[-1] for result in results] == ["1", "2"]
    assert run[-1].content == "Two."


@with_clock
async def test_a_limit_holds_while_code_runs() -> None:
    """A time limit ends an agent whose executor is still running code."""
    executor = Waiting()
    agent = Agent("a").code_executor(executor).timeout(3600)
    backend = mock_backend({"a": [CODE.format(1), "One."]})
    task = asyncio.ensure_future(agent.run("hi", backend=backend))
    try:
        await executor.begins()
        advance(3600)
        with pytest.raises(AgentTimeoutError):
            await within_limit(task)
        assert executor.asked == ["print(1)"]
    finally:
        task.cancel()
        executor.let_go()
