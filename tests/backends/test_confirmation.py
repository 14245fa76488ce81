"""Tools that ask before they run: pause, approval, refusal, and what runs again."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event
from google.adk.runners import InMemoryRunner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, race, transfer
from adk_fluent.backends.events import RunResult, call_text
from adk_fluent.config import ExecutionConfig
from adk_fluent.errors import SessionError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import MockBackend, call_tool
from tests.backends.support import called, each, play, said, script, seen, speakers, system
from tests.limits import within_limit

A, B, C = Agent("a"), Agent("b"), Agent("c")


class Bank:
    """Notes the payments that really happen."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []

    def payer(self, name: str = "payer") -> Agent[str]:
        """An agent with a `pay` tool that asks first."""

        def pay(to: str, amount: int) -> str:
            """Pay somebody."""
            self.paid.append((to, amount))
            return f"paid {amount} to {to}"

        return Agent(name).tool(pay, require_confirmation=True)


def pays(to: str = "ann", amount: int = 5) -> list[Any]:
    """The script of an agent that pays and then says so."""
    return [call_tool("pay", to=to, amount=amount), f"done with {to}"]


async def answer(
    expression: Expr[Any], result: RunResult[Any], reply: object = True, *, backend: MockBackend
) -> RunResult[Any]:
    """Resume with one reply to everything the run waits for."""
    return await expression.resume(
        session_id=result.session_id,
        approvals={pending.id: reply for pending in result.pending},
        backend=backend,
    )


async def test_the_run_stops_before_the_tool_runs() -> None:
    """The run ends with a pending approval that names agent, tool and arguments; the tool did not run."""
    bank = Bank()
    result = await play(A >> bank.payer() >> B, {"payer": pays()})
    (pending,) = result.pending
    assert pending.agent == "payer"
    assert pending.payload == {"name": "pay", "args": {"to": "ann", "amount": 5}}
    assert pending.message == 'Run pay(to="ann", amount=5)?'
    assert bank.paid == []
    assert speakers(result) == ["a"]


async def test_approval_runs_the_tool_and_goes_on() -> None:
    """After approval the tool runs once, the model gets its result, and the next steps run."""
    bank = Bank()
    expression = A >> bank.payer().writes("said") >> B
    backend = script({"payer": pays()})
    result = await answer(expression, await expression.run("hi", backend=backend), backend=backend)
    assert bank.paid == [("ann", 5)]
    assert said(result) == [("payer", "done with ann"), ("b", "ok")]
    assert "paid 5 to ann" in str(backend.calls["payer"][1].contents)
    assert {name: len(calls) for name, calls in backend.calls.items()} == {"a": 1, "payer": 2, "b": 1}
    assert result.state["said"] == "done with ann"
    assert result.pending == []


async def test_a_tool_may_ask_in_its_own_words() -> None:
    """What a tool itself asks is what the person is asked; of the arguments nothing is left out."""

    def delete(path: str, tool_context: ToolContext) -> str:
        """Delete a file."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint=f"Really delete {path}?")
            return "waiting"
        return "deleted"

    expression = Agent("tidy").tool(delete) >> A
    config = ExecutionConfig(resumable=True)
    calls = {"tidy": [call_tool("delete", path='a "b"\n' + "x" * 500), "done"]}
    first = await play(expression, calls, config=config)
    (pending,) = first.pending
    assert pending.message == 'Really delete a "b"\n' + "x" * 500 + "?"
    assert call_text(pending.payload) == 'delete(path="a \\"b\\"\\n' + "x" * 500 + '")'


async def test_a_call_without_arguments_is_asked_for() -> None:
    """A tool without arguments is named as well."""

    def stop() -> str:
        """Stop."""
        return "stopped"

    result = await play(Agent("x").tool(stop, require_confirmation=True), {"x": call_tool("stop")})
    assert [pending.message for pending in result.pending] == ["Run stop()?"]


async def test_refusal_tells_the_model_and_goes_on() -> None:
    """A refused tool does not run; the model is told so, answers, and the next steps run."""
    bank = Bank()
    expression = A >> bank.payer() >> B
    backend = script({"payer": pays()})
    result = await answer(expression, await expression.run("hi", backend=backend), False, backend=backend)
    assert bank.paid == []
    assert "rejected" in str(backend.calls["payer"][1].contents)
    assert speakers(result) == ["payer", "b"]


@pytest.mark.parametrize("reply", [True, False], ids=["approved", "refused"])
async def test_an_answer_after_a_restart(tmp_path: Path, reply: bool) -> None:
    """Asked, then started anew, then answered: the run goes on behind the tool, and runs nothing again."""

    def started(*says: Any) -> tuple[Bank, Expr[Any], MockBackend]:
        bank, service = Bank(), SqliteSessionService(str(tmp_path / "s.db"))
        backend = MockBackend({"a": "ok", "payer": [*says], "b": "ok"}, session_service=service)
        return bank, A >> bank.payer().writes("said") >> B, backend

    _, expression, backend = started(*pays())
    first = await expression.run("hi", session_id="s", backend=backend)
    (pending,) = first.pending
    bank, expression, backend = started("told")
    result = await expression.resume(session_id="s", approvals={pending.id: reply}, backend=backend)
    assert bank.paid == [("ann", 5)] * reply
    assert said(result) == [("payer", "told"), ("b", "ok")]
    assert ("rejected" in str(backend.calls["payer"][0].contents)) is not reply
    assert result.state["said"] == "told"


async def test_one_answer_given_several_times_at_once(tmp_path: Path) -> None:
    """Two clicks on one button: one run goes on and pays, the other is told so, and nothing is lost."""
    bank, service = Bank(), SqliteSessionService(str(tmp_path / "s.db"))
    refusals: list[SessionError] = []
    both_refused = asyncio.Event()

    async def hold(state: object) -> dict[str, Any]:
        await within_limit(both_refused.wait())  # else a late answer finds a run that has ended
        return {}

    expression = bank.payer() >> hold >> B
    backend = MockBackend({"payer": pays(), "b": "ok"}, session_service=service)
    first = await expression.run("hi", session_id="s", backend=backend)

    async def click() -> RunResult[Any] | None:
        try:
            return await answer(expression, first, backend=backend)
        except SessionError as error:
            refusals.append(error)
            if len(refusals) == 2:
                both_refused.set()
            return None

    results = await asyncio.gather(*[click() for _ in range(3)])
    assert bank.paid == [("ann", 5)]
    assert {str(error) for error in refusals} == {
        f"Session 's' does not wait for {first.pending[0].id!r} any more: another resume() has answered it, "
        "and goes on."
    }
    (done,) = [result for result in results if result is not None]
    assert done.text == "ok"
    with pytest.raises(SessionError, match="it waits for nothing"):
        await answer(expression, first, backend=backend)


async def test_an_answer_that_another_process_gave_meanwhile() -> None:
    """ADK's own runner, too, takes an answer once: what it reads says that it was given."""
    bank = Bank()
    backend = MockBackend({"payer": [*pays(), "again"], "b": "ok"})
    runner = InMemoryRunner(app=backend.compile((bank.payer() >> B).to_ir()).app)
    await runner.session_service.create_session(app_name=runner.app_name, user_id="u", session_id="s")

    async def told(message: types.Content) -> list[Event]:
        given = runner.run_async(user_id="u", session_id="s", new_message=message)
        async with aclosing(given) as events:
            return [event async for event in events]

    events = await told(types.UserContent("hi"))
    calls = [call for event in events for call in event.get_function_calls()]
    asked = next(call for call in calls if call.name == "adk_request_confirmation")
    yes = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
    reply = types.Content(role="user", parts=[types.Part(function_response=yes)])
    await told(reply)
    with pytest.raises(RuntimeError, match="another resume\\(\\) has answered it"):
        await told(reply)
    assert bank.paid == [("ann", 5)]


async def test_a_payload_reaches_the_tool() -> None:
    """A payload approves, and the tool can read it."""
    got: list[Any] = []

    def pay(amount: int, tool_context: ToolContext) -> str:
        """Pay."""
        assert tool_context.tool_confirmation is not None
        got.append(tool_context.tool_confirmation.payload)
        return "paid"

    expression = Agent("payer").tool(pay, require_confirmation=True)
    backend = script({"payer": [call_tool("pay", amount=5), "done"]})
    first = await expression.run("hi", backend=backend)
    await answer(expression, first, {"limit": 3}, backend=backend)
    assert got == [{"limit": 3}]


async def test_an_agent_alone() -> None:
    """An agent that is the whole expression pauses and goes on too."""
    bank = Bank()
    expression = bank.payer()
    backend = script({"payer": pays()})
    first = await expression.run("hi", backend=backend)
    assert len(first.pending) == 1
    result = await answer(expression, first, backend=backend)
    assert result.text == "done with ann"
    assert bank.paid == [("ann", 5)]
    assert result.pending == []


async def test_confirmation_that_depends_on_the_arguments() -> None:
    """A function may decide by the arguments whether to ask."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def large(amount: int) -> bool:
        return amount > 10

    expression = Agent("payer").tool(pay, require_confirmation=large) >> A
    little = await play(expression, {"payer": [call_tool("pay", amount=1), "done"]})
    much = await play(expression, {"payer": [call_tool("pay", amount=11), "done"]})
    assert (little.pending, len(much.pending)) == ([], 1)
    assert paid == [1]


async def test_a_native_tool_that_asks() -> None:
    """A tool made with ADK's own flag makes the expression resumable just as well."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    expression = Agent("payer").tool(FunctionTool(pay, require_confirmation=True)) >> A
    backend = script({"payer": [call_tool("pay", amount=5), "done"]})
    first = await expression.run("hi", backend=backend)
    assert paid == []
    result = await answer(expression, first, backend=backend)
    assert paid == [5]
    assert speakers(result) == ["payer", "a"]


async def test_two_tools_of_one_answer() -> None:
    """Two calls in one model answer ask for two approvals; answered together, both are heeded."""
    bank = Bank()

    both = types.Content(
        role="model",
        parts=[
            types.Part(function_call=types.FunctionCall(name="pay", args={"to": to, "amount": 1}))
            for to in ("ann", "bob")
        ],
    )
    expression = bank.payer() >> A
    backend = script({"payer": [both, "done"]})
    first = await expression.run("hi", backend=backend)
    assert [pending.payload["args"]["to"] for pending in first.pending] == ["ann", "bob"]
    result = await expression.resume(
        session_id=first.session_id,
        approvals={first.pending[0].id: True, first.pending[1].id: False},
        backend=backend,
    )
    assert bank.paid == [("ann", 1)]
    assert speakers(result) == ["payer", "a"]


async def test_a_second_call_asks_again() -> None:
    """Each call of the tool needs an approval of its own."""
    bank = Bank()
    expression = bank.payer() >> A
    calls = [call_tool("pay", to=to, amount=1) for to in ("ann", "bob")]
    backend = script({"payer": [*calls, "done"]})
    second = await answer(expression, await expression.run("hi", backend=backend), backend=backend)
    assert bank.paid == [("ann", 1)]
    assert [pending.payload["args"]["to"] for pending in second.pending] == ["bob"]
    third = await answer(expression, second, backend=backend)
    assert bank.paid == [("ann", 1), ("bob", 1)]
    assert speakers(third) == ["payer", "a"]


def two_branches(bank: Bank) -> Expr[Any]:
    """Two branches whose agents both ask, one that does not, and a step after them."""
    left, right = Pipeline("left", bank.payer("one"), A), Pipeline("right", bank.payer("two"), B)
    return FanOut("fan", left, right, C) >> Agent("after")


PAYING = {"one": pays("ann"), "two": pays("bob")}


async def test_two_branches_answered_together() -> None:
    """Both tools run, each once, both branches go on, and then the step after them runs."""
    bank = Bank()
    expression, backend = two_branches(bank), script(PAYING)
    first = await expression.run("hi", backend=backend)
    assert sorted(pending.agent for pending in first.pending) == ["one", "two"]
    assert speakers(first) == ["c"]
    result = await answer(expression, first, backend=backend)
    assert sorted(bank.paid) == [("ann", 5), ("bob", 5)]
    assert sorted(speakers(result)[:-1]) == ["a", "b", "one", "two"]
    assert speakers(result)[-1] == "after"
    assert len(backend.calls["c"]) == 1


@pytest.mark.parametrize("index", [0, 1])
async def test_two_branches_answered_one_at_a_time(index: int) -> None:
    """A branch that still waits is not taken for done when the other is answered."""
    bank = Bank()
    expression, backend = two_branches(bank), script(PAYING)
    first = await expression.run("hi", backend=backend)
    chosen, other = first.pending[index], first.pending[1 - index]
    second = await expression.resume(
        session_id=first.session_id, approvals={chosen.id: True}, backend=backend
    )
    assert [pending.id for pending in second.pending] == [other.id]
    assert len(bank.paid) == 1
    assert "after" not in speakers(second)
    third = await answer(expression, second, backend=backend)
    assert sorted(bank.paid) == [("ann", 5), ("bob", 5)]
    assert speakers(third)[-1] == "after"
    assert {name: len(calls) for name, calls in backend.calls.items()} == {
        "one": 2, "two": 2, "a": 1, "b": 1, "c": 1, "after": 1
    }  # fmt: skip


async def test_a_gate_and_a_tool_pending_at_once() -> None:
    """A gate in one branch and a tool in another are answered on their own."""
    bank = Bank()
    expression = FanOut(Pipeline("l", gate(lambda s: True), A), Pipeline("r", bank.payer(), B)) >> C
    backend = script({"payer": pays()})
    first = await expression.run("hi", backend=backend)
    ids = {pending.agent: pending.id for pending in first.pending}
    second = await expression.resume(
        session_id=first.session_id, approvals={ids["gate"]: True}, backend=backend
    )
    assert speakers(second) == ["a"]
    assert bank.paid == []
    third = await expression.resume(
        session_id=first.session_id, approvals={ids["payer"]: True}, backend=backend
    )
    assert speakers(third) == ["payer", "b", "c"]
    assert bank.paid == [("ann", 5)]


@pytest.mark.parametrize(
    "wrap",
    each(
        lambda body: Pipeline("p", body),
        lambda body: Route().when(lambda s: True, body),
        lambda body: body.timeout(60),
        lambda body: body // C,
        lambda body: Loop("l", body, max_iterations=1),
        lambda body: FanOut("f", body),
        lambda body: race(body, Agent("fails")),
        lambda body: Pipeline(
            "p", Pipeline("q", FanOut("f", Route().when(lambda s: True, body.timeout(60))))
        ),
        lambda body: Loop("l", FanOut("f", Loop("k", body // C, max_iterations=1)), max_iterations=1),
    ),
)
async def test_a_tool_inside_other_composites(wrap: Any) -> None:
    """Wherever the agent stands, the run pauses at its tool and goes on with it, once."""
    bank = Bank()
    expression = Agent("before") >> wrap(Pipeline("body", A, bank.payer(), B)) >> Agent("after")
    backend = script({"payer": pays(), "fails": RuntimeError("no")})
    first = await expression.run("hi", backend=backend)
    assert speakers(first) == ["before", "a"]
    assert len(first.pending) == 1
    result = await answer(expression, first, backend=backend)
    assert speakers(result) == ["payer", "b", "after"]
    assert bank.paid == [("ann", 5)]
    assert len(backend.calls["before"]) == len(backend.calls["a"]) == 1


async def test_a_tool_in_each_round_of_a_loop() -> None:
    """Each round's call asks anew, and earlier rounds are not run again."""
    bank = Bank()
    expression = Loop(bank.payer(), S.counter("n"), max_iterations=2) >> B
    backend = script({"payer": [*pays("ann"), *pays("bob")]})
    second = await answer(expression, await expression.run("hi", backend=backend), backend=backend)
    assert second.state == {"n": 1}
    third = await answer(expression, second, backend=backend)
    assert bank.paid == [("ann", 5), ("bob", 5)]
    assert third.state == {"n": 2}
    assert speakers(third) == ["payer", "b"]


async def test_tools_in_the_items_of_a_map() -> None:
    """Each item's tool asks for itself, also when they are answered one at a time."""
    bank = Bank()
    to_item = {"one": "ann", "two": "bob"}

    def payer(request: Any) -> Any:
        text = system(request)
        name = next(name for name in to_item if f"Pay {name}" in text)
        done = called(request)
        return f"did {name}" if done else call_tool("pay", to=to_item[name], amount=1)

    expression = map_over("items", bank.payer().instruct("Pay {_item}")) >> A
    backend = script({"payer": payer})
    first = await expression.run("hi", backend=backend, state={"items": ["one", "two"]})
    assert sorted(pending.payload["args"]["to"] for pending in first.pending) == ["ann", "bob"]
    second = await expression.resume(
        session_id=first.session_id, approvals={first.pending[0].id: True}, backend=backend
    )
    assert len(bank.paid) == 1
    assert [pending.id for pending in second.pending] == [first.pending[1].id]
    assert "results" not in second.state
    third = await answer(expression, second, backend=backend)
    assert sorted(bank.paid) == [("ann", 1), ("bob", 1)]
    assert third.state["results"] == ["did one", "did two"]
    assert speakers(third)[-1] == "a"


async def test_tools_in_the_items_answered_together() -> None:
    """Approvals of several items at once run each tool once."""
    bank = Bank()
    expression = map_over("items", bank.payer())

    def payer(request: Any) -> Any:
        done = called(request)
        return "done" if done else call_tool("pay", to="x", amount=1)

    backend = script({"payer": payer})
    first = await expression.run("hi", backend=backend, state={"items": [1, 2, 3]})
    assert len(first.pending) == 3
    result = await answer(expression, first, backend=backend)
    assert len(bank.paid) == 3
    assert result.state["results"] == ["done"] * 3


async def test_a_transfer_target_that_asks() -> None:
    """An agent that was handed over to can pause; the rest of the sequence stays skipped."""
    bank = Bank()
    expression = Pipeline("main", transfer("payer"), A) >> Route("never").eq("x", bank.payer()) >> B
    backend = script({"payer": pays()})
    first = await expression.run("hi", backend=backend)
    assert len(first.pending) == 1
    result = await answer(expression, first, backend=backend)
    assert speakers(result) == ["payer", "b"]
    assert bank.paid == [("ann", 5)]


async def test_a_delegate_that_asks() -> None:
    """An agent that a model handed over to can pause and go on."""
    bank = Bank()
    expression = Agent("boss").delegate(bank.payer().describe("Pays."))
    backend = script({"boss": call_tool("transfer_to_agent", agent_name="payer"), "payer": pays()})
    first = await expression.run("hi", backend=backend)
    assert len(first.pending) == 1
    result = await answer(expression, first, backend=backend)
    assert said(result) == [("payer", "done with ann")]
    assert bank.paid == [("ann", 5)]


async def test_a_sequence_below_a_model_that_asks() -> None:
    """A sequence that a model handed over to pauses inside and goes on behind its tool."""
    bank = Bank()
    steps = Pipeline("steps", A, bank.payer(), B)
    expression = Agent("boss").delegate(steps) >> C
    backend = script({"boss": call_tool("transfer_to_agent", agent_name="steps"), "payer": pays()})
    first = await expression.run("hi", backend=backend)
    assert speakers(first) == ["a"]
    result = await answer(expression, first, backend=backend)
    assert speakers(result) == ["payer", "b", "c"]
    assert len(backend.calls["a"]) == 1


async def test_the_conversation_after_approval_is_clean() -> None:
    """What the next agent sees holds the tool's call and result, and nothing of the approval."""
    bank = Bank()
    expression = bank.payer() >> B
    backend = script({"payer": pays()})
    await answer(expression, await expression.run("pay ann", backend=backend), backend=backend)
    text = seen(backend.calls["b"][0])
    assert "pay ann" in text
    assert "done with ann" in text
    assert "adk_request_confirmation" not in str(backend.calls["b"][0].contents)
