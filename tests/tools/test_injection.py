"""`.inject`: what functions inside an expression are given, when it is opened and when it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent import Agent, FanOut, Loop, Route, S, T, gate, map_over, tap, transfer
from adk_fluent.backends.adk import resources as open_resources
from adk_fluent.di import Resource, close
from adk_fluent.errors import ArgumentError, ResourceError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import from_dict, to_dict
from adk_fluent.ir.tools import tool_name
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import Hang, called, replies, session_service
from tests.clock import Works, with_clock
from tests.samples import TERSE


class Shop:
    """A resource that has prices and notes if it is open."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_open = True

    def price(self, article: str) -> str:
        assert self.is_open
        return f"{article} {self.number}"


class Log:
    """Shops that are opened and closed, in several ways."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.shops: list[Shop] = []

    def open(self) -> Shop:
        self.shops.append(Shop(len(self.shops) + 1))
        self.log.append(f"open {len(self.shops)}")
        return self.shops[-1]

    def close(self, shop: Shop) -> None:
        assert shop.is_open
        shop.is_open = False
        self.log.append(f"close {shop.number}")

    @contextmanager
    def manager(self) -> Generator[Shop]:
        shop = self.open()
        try:
            yield shop
        finally:
            self.close(shop)

    @asynccontextmanager
    async def async_manager(self) -> AsyncGenerator[Shop]:
        async with asyncio.timeout(60):  # must be left in the task that entered it
            with self.manager() as shop:
                yield shop

    def generator(self) -> Generator[Shop]:
        with self.manager() as shop:
            yield shop

    async def async_generator(self) -> AsyncGenerator[Shop]:
        with self.manager() as shop:
            yield shop

    async def async_function(self) -> Shop:
        return self.open()


def price(article: str, shop: Shop) -> str:
    """The price of an article."""
    return shop.price(article)


async def price_async(article: str, shop: Shop) -> str:
    """The price of an article."""
    return shop.price(article)


TEA = call_tool("price", article="tea")
SCRIPT: dict[str, Any] = {"a": replies(lambda request: "done" if called(request) else TEA)}
ONCE = ["open 1", "close 1"]


def models(**more: Any) -> Any:
    """Scripted models; `a` asks for a price once, then is done."""
    return mock_backend({**SCRIPT, **more}, default="ok")


def clerk(log: Log, scope: Any = "invocation", tool: Any = price, **more: Any) -> Agent[str]:
    """An agent whose tool needs a shop."""
    return Agent("a").tools(tool).inject(shop=Resource(log.async_manager, scope=scope, **more))


def results(run: Any) -> list[Any]:
    """The results of a run's tools."""
    return [response.result for event in run for response in event.tool_responses]


# --- what is given --------------------------------------------------------------------------------

TOOLS: dict[str, Any] = {
    "a function": price,
    "an async function": price_async,
    "a function of T": T.fn(price),
    "a function of ADK": FunctionTool(price),
    "a long-running one of ADK": LongRunningFunctionTool(price),
    "with attempts": T.retry(price),
    "in a thread": T.timeout(T.cache(price, key=str), 60),
    "a function of ADK in a thread": T.timeout(FunctionTool(price), 60),
}


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
async def test_the_model_does_not_see_resources(tool: Any) -> None:
    """The function gets the resource; the model sees neither it nor anything else that is new."""
    name = "price_async" if tool is price_async else "price"
    backend = mock_backend({"a": [call_tool(name, article="tea"), "done"]})
    run = await clerk(Log(), tool=tool).run("hi", backend=backend)
    assert results(run) == [{"result": "tea 1"}]
    tools: Any = backend.calls["a"][0].config.tools
    (declared,) = tools[0].function_declarations
    shown = declared.model_dump(exclude_none=True)
    assert "article" in str(shown)
    assert "shop" not in str(shown)
    assert "tool_context" not in str(shown)
    assert declared.description.startswith("The price of an article.")


async def test_a_value_that_is_there() -> None:
    """A bare value is given as it is; a tool that wants ADK's context gets that, too."""

    def count(article: str, stock: dict[str, int], tool_context: ToolContext) -> int:
        """Return their number."""
        tool_context.state["asked"] = article
        return stock[article]

    agent = Agent("a").tools(T.fn(count, writes=["asked"])).inject(stock={"tea": 7})
    backend = mock_backend({"a": [call_tool("count", article="tea"), "done"]})
    run = await agent.run("hi", backend=backend)
    assert (results(run), run.state) == ([{"result": 7}], {"asked": "tea"})


async def dear(article: str, shop: Shop) -> bool:
    """True if a person is asked."""
    return shop.is_open and article == "gold"


def is_tea(article: str) -> bool:
    """True if a person is asked."""
    return article == "tea"


async def test_a_tool_that_asks_a_person() -> None:
    """The function that says whether a person is asked gets the arguments of the model alone."""
    agent = Agent("a").tools(T.fn(price, confirm=is_tea)).inject(shop=Shop(1))
    backend = models()
    first = await agent.run("hi", backend=backend)
    assert first.pending[0].message == 'Run price(article="tea")?'
    rest = await agent.resume(
        session_id=first.session_id, approvals={first.pending[0].id: True}, backend=backend
    )
    assert results(rest) == [{"result": "tea 1"}]


def weigh(article: str) -> str:
    """Return its weight."""
    return f"{article} is light"


ASKS: Any = dear
ASKING = [
    T.fn(price, confirm=ASKS),
    T.fn(weigh, confirm=ASKS),
    FunctionTool(weigh, require_confirmation=ASKS),
    T.confirm(price, when=ASKS),
    T.confirm(T.retry(weigh), when=ASKS),
]


@pytest.mark.parametrize("tool", ASKING)
async def test_confirmation_functions_get_resources(tool: Any) -> None:
    """The function that decides about a confirmation gets resources, with or without those of the tool."""
    log = Log()
    name = str(tool_name(tool))
    script = {"a": [call_tool(name, article="tea"), "done", call_tool(name, article="gold"), "done"]}
    backend, agent = mock_backend(script), clerk(log, tool=tool)
    assert {issue.code for issue in agent.check().issues} <= TERSE
    assert (await agent.run("hi", backend=backend)).pending == []
    assert [asked.payload for asked in (await agent.run("hi", backend=backend)).pending] == [
        {"name": name, "args": {"article": "gold"}}
    ]
    assert log.log == ["open 1", "close 1", "open 2", "close 2"]


async def test_callbacks_and_steps() -> None:
    """Callbacks of an agent, functions that are steps, and taps are given resources as well."""
    heard: list[str] = []

    def before(callback_context: Any, shop: Shop) -> None:
        heard.append(f"before {callback_context.agent_name} {shop.number}")

    async def after(callback_context: Any, llm_response: Any, shop: Shop) -> None:
        heard.append(f"after {shop.number}")

    def step(state: Any, shop: Shop) -> dict[str, int]:
        return {"number": shop.number}

    async def watch(state: Any, shop: Shop) -> None:
        heard.append(f"tap {state['number']} {shop.number}")

    log = Log()
    any_step: Any = step
    any_tap: Any = watch
    pipeline = (
        Agent("b").before_agent(cast(Any, before)).after_model(cast(Any, after)) >> any_step >> tap(any_tap)
    ).inject(shop=Resource(log.manager, scope="invocation"))
    run = await pipeline.run("hi", backend=models())
    assert run.state == {"number": 1}
    assert heard == ["before b 1", "after 1", "tap 1 1"]
    assert log.log == ONCE


def _step(test: Callable[[Any, Shop], bool]) -> Any:
    def step(state: Any, shop: Shop) -> dict[str, bool]:
        return {"x": test(state, shop)}

    return step


CHOICES: dict[str, Callable[[Any], Expr[Any]]] = {
    "a test of a route": lambda test: Route().when(test, Agent("b")).otherwise(Agent("c")),
    "proceed_if": lambda test: Agent("b").proceed_if(test) >> Agent("c"),
    "until": lambda test: Loop(Agent("b"), max_iterations=3).until(test),
    "a gate": lambda test: gate(test, message="Well?") >> Agent("b"),
    "a transfer": lambda test: Agent("b") >> transfer("b", condition=test) >> Agent("c"),
    "a step with its keys": lambda test: S.fn(_step(test), writes=["x"]) >> Agent("b"),
}


@pytest.mark.parametrize("make", CHOICES.values(), ids=CHOICES)
async def test_predicates_of_steps_get_resources(make: Callable[[Any], Expr[Any]]) -> None:
    """Predicates of steps are given resources as well, async ones too."""
    log, seen = Log(), list[int]()

    async def test(state: Any, shop: Shop) -> bool:
        seen.append(shop.number)
        return len(seen) == 2

    def at_once(state: Any, shop: Shop) -> bool:
        seen.append(shop.number)
        return False

    expression = make(at_once if make is CHOICES["a step with its keys"] else test)
    assert expression.inject(shop=Resource(log.manager)).check().ok
    await expression.inject(shop=Resource(log.manager, scope="invocation")).run("hi", backend=models())
    assert seen == [1] * len(seen) != []
    assert log.log == ONCE


async def test_the_inner_one_counts() -> None:
    """A resource of an inner expression replaces an outer one of the same name; others are inherited."""

    def both(shop: Shop, name: str = "x", house: str = "") -> str:
        """Both."""
        return f"{shop.number} {house}"

    script = {"a": [call_tool("both"), "done"], "b": [call_tool("both"), "done"]}
    inner, outer = Agent("a").tools(both).inject(shop=Shop(1)), Agent("b").tools(both)
    run = await (inner >> outer).inject(shop=Shop(2), house="h").run("hi", backend=mock_backend(script))
    assert results(run) == [{"result": "1 h"}, {"result": "2 h"}]


async def test_inside_an_agent_that_is_a_tool() -> None:
    """Agents inside `T.agent` are given what is injected around, and share what is open in the run."""
    log = Log()
    boss = Agent("boss").tools(T.agent(Agent("a").tools(price)) | T.fn(price))
    script = {"boss": [call_tool("a", request="x"), TEA, "done"]}
    expression = boss.inject(shop=Resource(log.async_manager, scope="invocation"))
    run = await expression.run("hi", backend=models(**script))
    assert log.log == ONCE
    assert results(run)[-1] == {"result": "tea 1"}


# --- how it is opened and closed ------------------------------------------------------------------

WAYS = ["manager", "async_manager", "generator", "async_generator"]


@pytest.mark.parametrize("way", WAYS)
async def test_every_kind_of_factory(way: str) -> None:
    """Context managers and generators, async or not, are opened and closed once in each run."""
    log = Log()
    agent = Agent("a").tools(price).inject(shop=Resource(getattr(log, way), scope="invocation"))
    for _ in range(2):
        await agent.run("hi", backend=models())
    assert log.log == [*ONCE, "open 2", "close 2"]


async def test_a_factory_that_only_opens() -> None:
    """A plain function, async or not, opens; there is nothing to close."""
    for way in ("open", "async_function"):
        log = Log()
        agent = Agent("a").tools(price).inject(shop=Resource(getattr(log, way), scope="invocation"))
        assert results(await agent.run("hi", backend=models())) == [{"result": "tea 1"}]
        assert log.log == ["open 1"]


async def test_a_resource_is_opened_on_demand() -> None:
    """A run that does not need it opens nothing, and two calls in one run share it."""
    log = Log()
    await clerk(log).run("hi", backend=mock_backend({"a": "nothing to do"}))
    assert log.log == []
    await clerk(log).run("hi", backend=mock_backend({"a": [TEA, TEA, "done"]}))
    assert log.log == ONCE


async def test_two_calls_at_once_open_it_once() -> None:
    """Calls side by side wait for the one who opens it."""
    log = Log()
    parts = [types.Part(function_call=types.FunctionCall(name="price", args={"article": "x"}))] * 2
    both = types.Content(role="model", parts=parts)
    run = await clerk(log).run("hi", backend=mock_backend({"a": [both, "done"]}))
    assert results(run) == [{"result": "x 1"}] * 2
    assert log.log == ONCE


async def test_runs_at_once_get_their_own() -> None:
    """Each run has its own, also where they run at the same time."""
    log, barrier = Log(), asyncio.Barrier(2)

    async def meet(article: str, shop: Shop) -> str:
        """Meet."""
        await barrier.wait()
        return shop.price(article)

    agent = clerk(log, tool=meet)
    script = {"a": replies(lambda request: "done" if called(request) else call_tool("meet", article="x"))}
    runs = await asyncio.gather(*(agent.run("hi", backend=mock_backend(script)) for _ in range(2)))
    assert sorted(str(results(run)) for run in runs) == ["[{'result': 'x 1'}]", "[{'result': 'x 2'}]"]
    assert sorted(log.log) == ["close 1", "close 2", "open 1", "open 2"]


async def _fails(agent: Agent[str]) -> None:
    with pytest.raises(Exception, match="boom"):
        await (agent >> Agent("b")).run("hi", backend=models(b=ValueError("boom")))


async def _cancelled(agent: Agent[str]) -> None:
    hang = Hang()
    task = asyncio.ensure_future((agent >> Agent("b")).run("hi", backend=models(b=hang)))
    await hang.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _left(agent: Agent[str]) -> None:
    async with aclosing((agent >> Agent("b")).stream("hi", backend=models())) as events:
        async for event in events:
            if event.tool_responses:
                break


HOUR = 3600.0


async def _times_out(agent: Agent[str]) -> None:
    with pytest.raises(TimeoutError):
        await (agent >> Agent("b")).timeout(HOUR).run("hi", backend=models(b=Works(2 * HOUR)))


async def _alone_left(agent: Agent[str]) -> None:
    async with aclosing(agent.stream("hi", backend=models())) as events:
        async for event in events:
            if event.tool_responses:
                break


@pytest.mark.parametrize("end", [_fails, _cancelled, _left, _times_out, _alone_left])
@with_clock
async def test_however_a_run_ends(end: Callable[[Agent[str]], Any]) -> None:
    """A run that fails, is cancelled, is left early or takes too long closes the resources it opened."""
    log = Log()
    await end(clerk(log))
    assert log.log == ONCE


async def test_a_run_that_waits_for_a_person(tmp_path: Path) -> None:
    """Nothing stays open while a run waits; a process that resumes the run opens the resource again."""
    log = Log()
    agent = clerk(log, tool=T.fn(price))
    expression = agent >> gate(lambda state: True) >> agent
    script = {"a": [TEA, "done"], "a_2": [TEA, "done"]}

    def restarted() -> Any:
        return mock_backend(script, session_service=session_service("sqlite", tmp_path))

    first = await expression.run("hi", backend=restarted(), session_id="s")
    assert log.log == ONCE
    await expression.resume(session_id="s", approvals={first.pending[0].id: True}, backend=restarted())
    assert log.log == [*ONCE, "open 2", "close 2"]
    assert first.state == {}


A_PLACES: dict[str, Callable[[Expr[Any]], Expr[Any]]] = {
    "a step": lambda a: Agent("z") >> a,
    "a branch": lambda a: FanOut(a, Agent("z")),
    "a loop": lambda a: Loop("l", a, max_iterations=1),
    "a fallback": lambda a: a // Agent("z"),
    "a route": lambda a: Route("k").eq("x", Agent("z")).otherwise(a),
    "an item": lambda a: map_over("items", a),
    "a time limit": lambda a: a.timeout(60),
}


@pytest.mark.parametrize("place", A_PLACES.values(), ids=A_PLACES)
async def test_wherever_the_agent_stands(place: Callable[[Expr[Any]], Expr[Any]]) -> None:
    """A resource is passed wherever its agent stands, injected there or around it, and is closed once."""
    ways: list[Callable[[Log], Expr[Any]]] = [
        lambda log: place(clerk(log)),
        lambda log: place(Agent("a").tools(price)).inject(shop=Resource(log.manager, scope="invocation")),
    ]
    for expression in ways:
        log = Log()
        run = await expression(log).run("hi", backend=models(), state={"items": [1]})
        assert results(run) == [{"result": "tea 1"}]
        assert log.log == ONCE


@pytest.mark.parametrize("what", ["app", "agent"])
async def test_on_adks_own_runner(what: str) -> None:
    """Agents of `to_app` and `build` open and close their resources on any runner, without a plugin."""
    log = Log()
    app = models().compile(clerk(log).node).published()
    given: Any = {"app": app} if what == "app" else {"agent": app.root_agent, "app_name": "shop"}
    runner = Runner(**given, session_service=InMemorySessionService(), auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
        assert [event async for event in events]
    assert log.log == ONCE


# --- the three scopes -----------------------------------------------------------------------------


async def test_a_resource_of_the_app() -> None:
    """One of the app is opened once for all runs, sessions and expressions, until it is closed."""
    log = Log()
    shop = Resource(log.async_manager)
    one, other = (
        Agent("a").tools(price).inject(shop=shop),
        Agent("a").tools(price).inject(shop=shop) >> Agent("b"),
    )
    for expression in (one, one, other):
        assert results(await expression.run("hi", backend=models())) == [{"result": "tea 1"}]
    assert log.log == ["open 1"]
    await close()
    assert log.log == ONCE
    await one.run("hi", backend=models())
    await close(shop)
    assert log.log == [*ONCE, "open 2", "close 2"]


def test_one_for_the_app_ends_with_its_loop() -> None:
    """Open resources are closed when the event loop ends: each `ask` has a separate loop."""
    log = Log()
    agent = clerk(log, scope="app")
    for _ in range(2):
        assert agent.ask("hi", backend=models()) == "done"
    assert log.log == [*ONCE, "open 2", "close 2"]


async def test_a_runner_closes_what_its_app_injects() -> None:
    """`to_runner().close()` closes the resources of the app."""
    log = Log()
    runner = models().compile(clerk(log, scope="app").node).runner(models().services())
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async with aclosing(runner.run_async(user_id="u", session_id="s", new_message=message)) as events:
        assert [event async for event in events]
    assert log.log == ["open 1"]
    await runner.close()
    assert log.log == ONCE


async def test_a_resource_is_not_closed_during_a_run() -> None:
    """The resources of a run are closed when the run ends."""
    log, started, go_on = Log(), asyncio.Event(), asyncio.Event()

    async def work(article: str, shop: Shop) -> str:
        """Work."""
        started.set()
        await go_on.wait()
        return shop.price(article)

    backend = mock_backend({"a": [call_tool("work", article="x"), "done"]})
    task = asyncio.ensure_future(clerk(log, scope="app", tool=work).run("hi", backend=backend))
    await started.wait()
    await close()
    assert log.log == ["open 1"]
    go_on.set()
    assert results(await task) == [{"result": "x 1"}]
    assert log.log == ONCE


async def test_a_resource_of_a_session() -> None:
    """Each session has its own over all its turns, and it is closed when the session is forgotten."""
    log = Log()
    agent = clerk(log, scope="session")
    backend = models(a=[TEA, "done"] * 4)
    async with agent.session(backend=backend) as one, agent.session(backend=backend) as other:
        found = [results(await chat.send("hi"))[0]["result"] for chat in (one, other, one, other)]
        assert found == ["tea 1", "tea 2"] * 2
        assert log.log == ["open 1", "open 2"]
    assert sorted(log.log) == ["close 1", "close 2", "open 1", "open 2"]
    await agent.ask_async("hi", backend=models())
    assert log.log[-2:] == ["open 3", "close 3"]


async def test_an_idle_resource_of_a_session() -> None:
    """A resource that is idle for its time is closed, and the next run opens it again."""
    closed = asyncio.Event()

    class Noting(Log):
        def close(self, shop: Shop) -> None:
            super().close(shop)
            closed.set()

    log = Noting()
    agent = clerk(log, scope="session", idle=0.05)
    backend = models(a=[TEA, "done"] * 2)
    await agent.run("hi", backend=backend, session_id="s")
    await closed.wait()
    assert log.log == ONCE
    await agent.run("hi", backend=backend, session_id="s")
    assert log.log[2] == "open 2"
    await close()


async def test_nothing_is_left_in_tables() -> None:
    """After everything is closed, nothing is kept, and no resource was ever in the state."""
    log = Log()
    run = await clerk(log, scope="session").run("hi", backend=models(), session_id="s")
    await clerk(log, scope="app").run("hi", backend=models())
    assert run.state == {}
    await close()
    here = vars(open_resources)["_loops"].here()
    assert (here.runs, here.shared, here.idle) == ({}, {}, {})


# --- in tests, and what goes wrong ----------------------------------------------------------------


async def test_resources_of_mock_backends() -> None:
    """`mock_backend(resources=)` gives functions something else, and opens nothing."""
    log = Log()
    backend = mock_backend(SCRIPT, resources={"shop": Shop(99)})
    for expression in (clerk(log), clerk(log) >> S.set(x=1)):
        run = await expression.run("hi", backend=backend)
        assert results(run) == [{"result": "tea 99"}]
    assert log.log == []
    with pytest.raises(ArgumentError, match=r"nothing injects 'shp'. Did you mean 'shop'"):
        await clerk(log).run("hi", backend=mock_backend(SCRIPT, resources={"shp": 1}))


@pytest.mark.parametrize("scope", ["app", "session", "invocation"])
async def test_a_factory_that_fails(scope: Any) -> None:
    """One line names agent, tool and resource; the next run tries again."""
    attempts: list[int] = []

    def connect() -> Shop:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("no route")
        return Shop(1)

    agent = Agent("a").tools(price).inject(shop=Resource(connect, scope=scope))
    message = r"^Agent 'a': its tool 'price' needs the resource 'shop', which cannot be opened: OSError: no"
    with pytest.raises(ResourceError, match=message):
        await agent.run("hi", backend=models())
    assert results(await agent.run("hi", backend=models())) == [{"result": "tea 1"}]
    await close()


async def test_callbacks_and_steps_are_named_when_a_resource_fails() -> None:
    """Callbacks and steps are named as well."""

    def connect() -> Shop:
        raise OSError("no route")

    def step(state: Any, shop: Shop) -> None: ...

    def before(callback_context: Any, shop: Shop) -> None: ...

    any_step: Any = step
    with pytest.raises(ResourceError, match="Step 'step' needs the resource 'shop'"):
        await (Agent("b") >> any_step).inject(shop=Resource(connect)).run("hi", backend=models())
    with pytest.raises(Exception, match="'b': its callback 'before' needs the resource 'shop'"):
        await (
            Agent("b")
            .before_agent(cast(Any, before))
            .inject(shop=Resource(connect))
            .run("hi", backend=models())
        )


async def test_a_resource_that_cannot_be_closed(caplog: pytest.LogCaptureFixture) -> None:
    """An error while one of the app is closed is logged, and costs the other resources nothing."""
    log = Log()

    def broken() -> Generator[Shop]:
        yield Shop(0)
        raise OSError("gone")

    def both(shop: Shop, other: Shop) -> int:
        """Both."""
        return shop.number

    agent = Agent("a").tools(both).inject(other=Resource(log.manager), shop=Resource(broken))
    run = await agent.run("hi", backend=mock_backend({"a": [call_tool("both"), "done"]}))
    assert run.text == "done"
    await close()
    assert log.log == ONCE
    (said,) = caplog.messages
    assert said.startswith("Resource 'shop' could not be closed: OSError at test_injection.py:")


MISTAKES: dict[str, Any] = {
    "needs at least one resource": lambda: Agent("a").inject(),
    "functions are given something else under this name": lambda: Agent("a").inject(state=1),
    "say what makes it": lambda: Agent("a").inject(db=Resource),
    r"not dict. A value that is there already stands as it is: inject\(db=value\)": lambda: Agent("a").inject(
        db=Resource(cast(Any, {}))
    ),
    "scope= is 'app', 'session' or 'invocation', not 'sesion'. Did you mean 'session'": lambda: Agent(
        "a"
    ).inject(db=Resource(Log, scope=cast(Any, "sesion"))),
    "idle= is a positive number of seconds": lambda: Agent("a").inject(db=Resource(Log, idle=0)),
}


@pytest.mark.parametrize(("message", "make"), MISTAKES.items(), ids=MISTAKES)
def test_mistakes(message: str, make: Any) -> None:
    """An invalid resource is an error at the call of `inject`."""
    with pytest.raises(ArgumentError, match=message):
        make()


async def test_a_resource_without_a_source() -> None:
    """A parameter without a source, or a misspelt one, is an error before the run that names the agent."""
    alone = Agent("a").tools(price)
    with pytest.raises(ResourceError, match=r"^a: its tool 'price' takes 'shop', which no model can give"):
        await alone.run("hi", backend=models())
    near = r"Add .inject\(shop=...\) to a, or around it. Did you mean 'shp'\?$"
    with pytest.raises(ResourceError, match=near):
        await alone.inject(shp=Shop(1)).run("hi", backend=models())


class Caller:
    """A tool that is an object, or a method of one."""

    def __call__(self, article: str, shop: Shop) -> str:
        """The price of an article."""
        return shop.price(article)

    def price(self, article: str, shop: Shop | None = None) -> str:
        """The price of an article."""
        return shop.price(article) if shop else ""


def listed(names: Annotated[list[str], ["no hash"]], tool_context: ToolContext, end: str = "") -> str:
    """A tool of whose parameters models can be told."""
    return end


def calls_back(then: Callable[[], int]) -> str:
    """A tool that takes a function."""
    return str(then())


@pytest.mark.parametrize("tool", [Caller(), Caller().price, T.retry(calls_back), FunctionTool(price)])
def test_parameters_that_must_be_injected(tool: Any) -> None:
    """Whatever a tool is, a parameter of a type that ADK cannot tell models about has to be injected."""
    agent = Agent("a").tools(tool)
    (issue,) = agent.check().errors
    assert (issue.code, issue.agent) == ("missing-resource", "a")
    assert agent.inject(shop=Shop(1), then=len).check().ok


@pytest.mark.parametrize("tool", [listed, len, partial(price, shop=Shop(1)), T.mock("m")])
def test_parameters_that_models_can_fill(tool: Any) -> None:
    """A parameter that models fill, that has a value, or that checks cannot judge is no finding."""
    assert Agent("a").tools(tool).check().ok


def test_resources_are_part_of_the_value() -> None:
    """Injected resources compare, add up, and can be stored when their factories can be named."""
    agent = Agent("a").inject(shop=Resource(Log))
    assert agent == Agent("a").inject(shop=Resource(Log)) != Agent("a")
    assert agent.inject(x=1) == Agent("a").inject(shop=Resource(Log), x=1)
    assert from_dict(to_dict(agent.node)) == agent.node


async def test_equal_sessions_of_two_services_share_nothing() -> None:
    """Two session services with equal ids of app, user and session have a resource each."""
    log = Log()
    agent = clerk(log, scope="session")
    found = list[Any]()
    backend, services = models(a=[TEA, "done"] * 4), [InMemorySessionService(), InMemorySessionService()]
    for service in (*services, *services):
        run = await agent.run("hi", backend=backend, session_id="s", session_service=service)
        found.append(results(run)[0]["result"])
    assert found == ["tea 1", "tea 2"] * 2
    await close()
