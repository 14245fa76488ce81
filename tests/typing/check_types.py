"""Types of agents, operators and terminals; pyright reads this file, and it never runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Never, assert_type

from google.adk.agents import LlmAgent
from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App
from google.adk.runners import Runner

from adk_fluent import (
    Agent,
    FanOut,
    Loop,
    Pipeline,
    Preset,
    Route,
    S,
    agent,
    final_text,
    gate,
    loop_until,
    map_over,
    race,
    tap,
    transfer,
    until,
)
from adk_fluent.backends.events import AgentEvent, RunResult
from adk_fluent.backends.preview import Preview
from adk_fluent.contracts import ContractIssue
from adk_fluent.errors import ADKFluentError
from adk_fluent.expr.base import Conditional, Step, Timeout
from adk_fluent.expr.conversations import Chat
from adk_fluent.expr.transforms import Transform
from adk_fluent.expr.workflow import Fallback, MapOver, Race
from adk_fluent.inspection import DataFlow, Explanation, LlmAnatomy
from adk_fluent.ir import AgentNode, Node, RouteNode
from adk_fluent.testing import ModelRequest
from tests.samples import Invoice, State, Ticket, add, count_words, is_done, log_call, look

Maybe = Invoice | None
text = Agent("text", "m")
invoice = Agent("invoice").returns(Invoice)
ticket = Agent("ticket") @ Ticket

# --- an agent's type is what it answers -----------------------------------------------------------

assert_type(text, Agent[str])
assert_type(Agent(name="x", model="m"), Agent[str])
assert_type(invoice, Agent[Invoice])
assert_type(ticket, Agent[Ticket])
assert_type(text.returns(list[Invoice]), Agent[list[Invoice]])
assert_type(invoice.returns(Ticket), Agent[Ticket])
assert_type(text.returns(Invoice | Ticket), Agent[Invoice | Ticket])
assert_type(text.returns(Invoice | None), Agent[Invoice | None])
assert_type(text.returns(list[Invoice] | None).writes("k"), Agent[list[Invoice] | None])
assert_type(text.returns(Maybe), Agent[Invoice | None])
assert_type(text.returns(Invoice | None).ask("hi"), Invoice | None)
assert_type((text @ (Invoice | Ticket)).ask("hi"), Invoice | Ticket)
assert_type((text @ (Invoice | None)).ask("hi"), Invoice | None)
assert_type((text >> text @ (Invoice | None)).ask("hi"), Invoice | None)
assert_type((text @ Maybe).ask("hi"), Invoice | None)
assert_type(
    invoice.model("m")
    .instruct("Do {it}.")
    .describe("d")
    .tool(add, require_confirmation=True)
    .tools(add)
    .writes("k")
    .generate(temperature=0)
    .accepts(Ticket)
    .produces(Invoice)
    .consumes(Ticket)
    .delegate(text)
    .isolate()
    .before_agent(log_call)
    .use(Preset(model="m"))
    .named("other"),
    Agent[Invoice],
)
assert_type(text.node, AgentNode)
assert_type((text >> invoice).node, Node)
assert_type(text.name, str)


@agent("poet", model="m")
def poet() -> None:
    """Write."""


assert_type(poet, Agent[str])

# --- operators ------------------------------------------------------------------------------------

assert_type(text >> invoice, Pipeline[Invoice])
assert_type(invoice >> text, Pipeline[str])
assert_type(text >> invoice >> ticket, Pipeline[Ticket])
assert_type(text >> (invoice >> ticket), Pipeline[Ticket])
assert_type(invoice >> count_words, Pipeline[Invoice])
assert_type(count_words >> invoice, Pipeline[Invoice])
assert_type(text.writes("k") >> {"x": invoice, "y": invoice}, Pipeline[Invoice])
assert_type(text.writes("k") >> {1: invoice}, Pipeline[Invoice])
# a lambda has a typed argument wherever it is one: behind an operator, checkers judge operands apart
assert_type(Pipeline("p").step(lambda state: {"n": state["x"]}).step(invoice), Pipeline[Invoice])
assert_type(invoice * until(lambda state: state["done"]), Loop[Invoice])
assert_type(invoice >> tap(lambda state: print(state["x"])), Pipeline[Invoice])
assert_type(invoice >> gate(lambda state: state["n"] > 3), Pipeline[Invoice])
assert_type(invoice >> S.compute(n=lambda state: state["x"] + 1), Pipeline[Invoice])
assert_type(invoice.proceed_if(lambda state: state.get("ok")), Conditional[Invoice])
assert_type(text | invoice, FanOut[str | Invoice])
assert_type(text | invoice | ticket, FanOut[str | Invoice | Ticket])
assert_type(invoice | invoice, FanOut[Invoice])
assert_type(text // invoice, Fallback[str | Invoice])
assert_type(invoice // invoice, Fallback[Invoice])
assert_type(invoice * 3, Loop[Invoice])
assert_type((text >> invoice) * until(is_done, max=3), Loop[Invoice])
assert_type((text | invoice) >> ticket, Pipeline[Ticket])
assert_type(text >> (invoice | ticket), Pipeline[Invoice | Ticket])

# --- steps that say nothing keep the type of what came before -------------------------------------

assert_type(invoice >> S.set(x=1), Pipeline[Invoice])
assert_type(invoice >> S.drop("x") >> S.counter("n"), Pipeline[Invoice])
assert_type(invoice >> tap(look), Pipeline[Invoice])
assert_type(invoice >> gate(is_done) >> transfer("x"), Pipeline[Invoice])
assert_type(invoice.tap(look), Pipeline[Invoice])
assert_type(S.set(x=1) >> invoice, Pipeline[Invoice])
assert_type(S.capture("q") >> invoice, Pipeline[Invoice])
assert_type(S.set(x=1) >> S.set(y=1), Pipeline[Never])
assert_type(S.set(x=1) + S.set(y=1), Transform)
assert_type(S.when("k", S.set(x=1) >> S.drop("y")), Transform)
assert_type(S.branch("k", x=S.set(x=1)), Transform)
assert_type(S.set(x=1)({}), dict[str, Any])
assert_type((S.set(x=1) >> S.drop("y"))({}), dict[str, Any])
assert_type((S.set(x=1) + S.drop("y"))({}), dict[str, Any])
assert_type(S.capture("q"), Step)
assert_type(tap(look), Step)

# --- wrappers -------------------------------------------------------------------------------------

assert_type(invoice.timeout(1), Timeout[Invoice])
assert_type(invoice.proceed_if(is_done), Conditional[Invoice])
assert_type(invoice.until(is_done), Loop[Invoice])
assert_type(loop_until(is_done, invoice), Loop[Invoice])
assert_type(race(text, text), Race[str])
assert_type(race(text, invoice), Race[str | Invoice])
assert_type(map_over("items", invoice), MapOver[Invoice])
assert_type(invoice.timeout(1).named("x"), Timeout[Invoice])

# --- constructors ---------------------------------------------------------------------------------

assert_type(Pipeline(text, invoice), Pipeline[Invoice])
assert_type(Pipeline("p", text, invoice), Pipeline[Invoice])
assert_type(Pipeline(text, invoice, name="p"), Pipeline[Invoice])
assert_type(Pipeline("p"), Pipeline[Never])
assert_type(Pipeline(name="p"), Pipeline[Never])
assert_type(Pipeline("p").step(text).step(invoice), Pipeline[Invoice])
assert_type(Pipeline("p").step(text).describe("x"), Pipeline[str])
assert_type(Pipeline(*[text, text]), Pipeline[str])
assert_type(Pipeline("p").step(invoice).step(S.set(x=1)).step(count_words), Pipeline[Invoice])
assert_type(Pipeline("p").step(text.writes("k")).step({"x": invoice}), Pipeline[Invoice])
assert_type(Pipeline(text, invoice, S.set(x=1)), Pipeline[Invoice])
assert_type(Pipeline("p", invoice, count_words), Pipeline[Invoice])
assert_type(Pipeline(invoice, S.set(x=1), tap(look)), Pipeline[object])
assert_type(Pipeline(count_words, S.set(x=1), invoice), Pipeline[Invoice])
assert_type(FanOut(text, invoice), FanOut[str | Invoice])
assert_type(FanOut("f", text, text), FanOut[str])
assert_type(FanOut("f"), FanOut[Never])
assert_type(FanOut(name="f"), FanOut[Never])
assert_type(FanOut("f").branch(text).branch(invoice), FanOut[str | Invoice])
assert_type(Loop(text, invoice, max_iterations=3), Loop[Invoice])
assert_type(Loop("l").step(text).step(invoice).max_iterations(2).until(is_done), Loop[Invoice])
assert_type(Loop(invoice, S.counter("n"), max_iterations=3), Loop[Invoice])
assert_type(Loop("l").step(invoice).step(S.counter("n")), Loop[Invoice])
assert_type(Loop(*[text, text], max_iterations=2), Loop[str])
assert_type(Loop("l"), Loop[Never])
assert_type(Loop(name="l", max_iterations=2), Loop[Never])

# --- routes ---------------------------------------------------------------------------------------

assert_type(Route("k"), Route[Never])
assert_type(Route("k").eq("x", invoice), Route[Invoice])
assert_type(Route("k").eq("x", invoice).gt(5, ticket).otherwise(text), Route[Invoice | Ticket | str])
assert_type(Route().when(is_done, invoice), Route[Invoice])
assert_type(Route("k").eq("x", text).node, RouteNode)
assert_type(text.writes("k") >> Route("k").eq("x", invoice).otherwise(ticket), Pipeline[Invoice | Ticket])
assert_type(Route("k").eq("x", S.set(x=1)).otherwise(text), Route[str])

# --- terminals ------------------------------------------------------------------------------------

assert_type(text.ask("hi"), str)
assert_type(invoice.ask("hi"), Invoice)
assert_type((text >> invoice).ask("hi"), Invoice)
assert_type((text | invoice).ask("hi"), str | Invoice)
assert_type((invoice // text).ask("hi", state={"x": 1}, user_id="u"), Invoice | str)
assert_type(invoice.stream("hi"), AsyncGenerator[AgentEvent])
assert_type(invoice.session(), Chat[Invoice])
assert_type(invoice.build(), BaseAgent)
assert_type(invoice.to_agent(), BaseAgent)
assert_type(invoice.to_app(), App)
assert_type(invoice.to_runner(), Runner)
assert_type(invoice.to_ir(), Node)


async def running() -> None:
    """Types of what is awaited."""
    assert_type(await invoice.ask_async("hi"), Invoice)
    assert_type(await (text >> invoice).run("hi"), RunResult[Invoice])
    assert_type((await (text @ (Invoice | Ticket)).run("hi")).output, Invoice | Ticket)
    result = await (text >> invoice).run("hi")
    assert_type(result.output, Invoice)
    assert_type(result.text, str)
    assert_type(result[0], AgentEvent)
    assert_type(result.state, dict[str, Any])
    assert_type(await invoice.map(["a", "b"], concurrency=2), list[Invoice])
    assert_type(await invoice.map(["a"], return_exceptions=False), list[Invoice])
    assert_type(await invoice.map(["a"], return_exceptions=True), list[Invoice | ADKFluentError])
    assert_type(await invoice.resume(session_id="s", approvals={"id": True}), RunResult[Invoice])
    assert_type(final_text(result), str)
    async with invoice.session(state={"x": 1}) as chat:
        assert_type(chat, Chat[Invoice])
        assert_type((await chat.send("hi")).output, Invoice)
    async for event in invoice.stream("hi"):
        assert_type(event, AgentEvent)


# --- agents of ADK's own --------------------------------------------------------------------------

native = LlmAgent(name="native")
assert_type(native >> text, Pipeline[str])
assert_type(text >> native, Pipeline[Any])
assert_type(text | native, FanOut[Any])
assert_type(native // text, Fallback[Any])
assert_type(Pipeline(native), Pipeline[Any])
assert_type(Pipeline("p", native, invoice), Pipeline[Invoice])
assert_type(Pipeline(invoice, native), Pipeline[Any])
assert_type(Pipeline(invoice, native, S.set(x=1)), Pipeline[Any])
assert_type(Pipeline(native, count_words, name="p"), Pipeline[Any])
assert_type(Pipeline(*[native, native]), Pipeline[Any])
assert_type(Pipeline("p").step(native), Pipeline[Any])
assert_type(FanOut(native, text), FanOut[Any])
assert_type(FanOut("f", native).branch(native), FanOut[Any])
assert_type(Loop(text, native, max_iterations=3), Loop[Any])
assert_type(Loop(native, S.set(x=1)), Loop[Any])
assert_type(Loop("l").step(native), Loop[Any])
assert_type(loop_until(is_done, native), Loop[Any])
assert_type(race(text, native), Race[Any])
assert_type(map_over("k", native), MapOver[Any])
assert_type(Route("k").eq("x", native), Route[str])
assert_type(text.delegate(native), Agent[str])

# --- looking --------------------------------------------------------------------------------------

assert_type(text.data_flow()["text"], DataFlow)
assert_type((text >> invoice).llm_anatomy()["text"], LlmAnatomy)
assert_type(text.llm_anatomy()["text"].sees, frozenset[str])
assert_type(text.explain(), Explanation)
assert_type(text.explain().agents["text"].issues, tuple[ContractIssue, ...])


async def look_at_requests() -> None:
    """Requests that a preview gathers."""
    preview = await (text >> invoice).preview("hi", {"text": "hello"}, state={"k": 1})
    assert_type(preview, Preview)
    assert_type(preview["text"], list[ModelRequest])


# --- pictures -------------------------------------------------------------------------------------

assert_type(text.visualize(), str)
assert_type(text.visualize("svg"), str)
assert_type(invoice.visualize(format="html"), str)
assert_type((text >> invoice).visualize(format="png"), bytes)


# --- functions that users write -------------------------------------------------------------------


def reads(state: State) -> dict[str, int] | None:
    """A transform as a user writes it."""
    return {"n": int(state["n"]) + 1}


async def later(state: State) -> bool:
    """A predicate that waits."""
    return bool(state.get("done"))


async def waits(state: State) -> dict[str, int]:
    """A transform that waits."""
    return {"n": 1}


_ = text >> reads >> waits >> invoice
_ = S.fn(waits) >> text.proceed_if(later)
_ = text.until(lambda state: state.get("done")).tap(lambda state: print(state["x"]))
_ = Route("k").when(lambda state: state["score"] > 5, text).when(later, text)
_ = S.compute(n=lambda state: state["a"] + 1).tap(print)
