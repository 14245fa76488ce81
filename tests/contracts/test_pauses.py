"""Findings about `temp:` keys and pauses agree with real runs that wait and are resumed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent, FanOut, Loop, Pipeline, Route, S, gate, map_over, tap, transfer
from adk_fluent.analysis.state_walk import flow_of
from adk_fluent.backends.events import RunResult
from adk_fluent.config import ExecutionConfig
from adk_fluent.contracts import check_all, check_pauses
from adk_fluent.errors import MissingKeyError, PredicateError, StateGuardError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import declares
from adk_fluent.ir.predicates import Predicate
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import called, replies, script, speakers
from tests.contracts.corpus.pauses import ASK, PAUSES, PAYER, READERS, X
from tests.sampling import every

KEYS = ("temp:a", "temp:b")
CONFIG = ExecutionConfig(contracts="off")
PER_TEST = 40
SEEDS = every(3, (range(start, start + PER_TEST) for start in range(0, 240, PER_TEST)), before_changes=3)
"""240 pipelines on the newest ADK, 80 before each change and on older ones."""


def always(value: bool) -> Predicate:
    """A predicate that gives the same every time, and says that it reads nothing."""

    @declares(reads=[])
    def test(state: Mapping[str, Any]) -> bool:
        return value

    return test


@dataclass
class Maker:
    """Makes a random pipeline that writes and reads `temp:` keys and waits for people.

    Attributes:
        seen: name of a probe → the keys that were there, each time it ran.
    """

    dice: random.Random
    seen: dict[str, list[frozenset[str]]] = field(default_factory=dict[str, list[frozenset[str]]])
    count: int = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def probe(self) -> Expr[Any]:
        """A step that notes which keys are there."""
        name = self.name("probe")
        notes = self.seen.setdefault(name, [])

        @declares(reads=KEYS)
        def look(state: Mapping[str, Any]) -> None:
            notes.append(frozenset(key for key in KEYS if key in state))

        return tap(look).named(name)

    def write(self) -> Expr[Any]:
        return S.set(**{self.dice.choice(KEYS): self.count}).named(self.name("set"))

    def gate(self) -> Expr[Any]:
        return gate(always(self.dice.random() < 0.7)).named(self.name("gate"))

    def payer(self) -> Expr[Any]:
        """An agent whose tool asks."""
        return Agent(self.name("payer")).tool(pay, require_confirmation=True)

    def steps(self, depth: int) -> Expr[Any]:
        inner = [self.step(depth - 1) for _ in range(self.dice.randint(2, 4))]
        return Pipeline(*inner, name=self.name("line"))

    def branches(self, depth: int) -> Expr[Any]:
        return FanOut(*(self.steps(depth - 1) for _ in range(2)), name=self.name("fan"))

    def route(self, depth: int) -> Expr[Any]:
        chosen = Route().when(always(self.dice.random() < 0.5), self.steps(depth - 1))
        return (chosen.otherwise(self.steps(depth - 1)) if self.dice.random() < 0.5 else chosen).named(
            self.name("route")
        )

    def loop(self, depth: int) -> Expr[Any]:
        return Loop(self.steps(depth - 1), max_iterations=2, name=self.name("loop"))

    def fallback(self, depth: int) -> Expr[Any]:
        fails = S.guard(always(False), "no").named(self.name("guard"))
        first = Pipeline(self.steps(depth - 1), fails)
        return first.named(self.name("first")) // self.steps(depth - 1)

    def items(self, depth: int) -> Expr[Any]:
        return map_over("items", self.steps(depth - 1)).named(self.name("map"))

    def step(self, depth: int) -> Expr[Any]:
        small: list[Callable[[], Expr[Any]]] = [self.probe, self.probe, self.write, self.gate, self.payer]
        if depth <= 0 or self.dice.random() < 0.5:
            return self.dice.choice(small)()
        large = [self.steps, self.branches, self.route, self.loop, self.fallback, self.items]
        return self.dice.choice(large)(depth)


def pay(to: str) -> str:
    """Pay an invoice."""
    return f"paid {to}"


def pays(request: Any) -> Any:
    """The answer of a model that calls its tool, and then says so."""
    return "done" if called(request) else call_tool("pay", to="ann")


async def run(expression: Expr[Any], dice: random.Random) -> None:
    """Run to the end, answering some of what it waits for at a time."""
    backend, sessions = mock_backend({}, default=replies(pays)), InMemorySessionService()
    options: dict[str, Any] = {"backend": backend, "session_service": sessions, "config": CONFIG}
    result: RunResult[Any] = await expression.run(
        "hi", state={"items": [1, 2], "temp:a": 0}, session_id="s", **options
    )
    while result.pending:
        ids = [pending.id for pending in result.pending]
        chosen = dice.sample(ids, dice.randint(1, len(ids)))
        result = await expression.resume(session_id="s", approvals=dict.fromkeys(chosen, True), **options)


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: str(seeds.start))
async def test_findings_about_temp_keys_agree_with_runs(seeds: range) -> None:
    """A `temp:` key that is called `must` is there whatever a run waited for, one called `never` is not."""
    claims = Counter[str]()
    lies: list[str] = []
    for seed in seeds:
        dice = random.Random(seed)
        maker = Maker(dice)
        expression = maker.steps(3) >> maker.probe()
        flow = flow_of(expression.node, {"items": [1, 2], "temp:a": 0})
        await run(expression, dice)
        for step in flow.plan.steps:
            for read in flow.reads_of(step) if step.name in maker.seen else ():
                for there in maker.seen[step.name]:
                    where = f"seed {seed}: {step.name} reads {read.key}, called {read.status}"
                    lost = read.lost is not None
                    claims[f"{read.status} and {'there' if read.key in there else 'missing'}"] += 1
                    claims["lost"] += lost and read.key not in there
                    wrong = {"must": read.key not in there, "never": read.key in there}
                    lies += [where] * wrong.get(read.status, False)
    assert lies == []
    for claim in ("must and there", "never and missing", "may and there", "may and missing", "lost"):
        assert claims[claim] > PER_TEST // 8, claims


@pytest.mark.parametrize("name", PAUSES)
async def test_a_pause_takes_a_temp_key(name: str) -> None:
    """Wherever a run stops for a person, a `temp:` key from before is gone; the session's keys are not."""
    seen: list[Mapping[str, Any]] = []
    expression = X >> S.set(kept=1) >> PAUSES[name] >> tap(lambda state: seen.append(dict(state)))
    backend = mock_backend({}, default=replies(answers))
    result = await expression.run("hi", backend=backend, config=CONFIG)
    waited = bool(result.pending)
    while result.pending:
        approvals = {pending.id: True for pending in result.pending}
        result = await expression.resume(
            session_id=result.session_id, approvals=approvals, backend=backend, config=CONFIG
        )
    assert [("temp:x" in state, state["kept"]) for state in seen] == [(not waited, 1)]
    assert waited or name in ("a gate in a fallback", "a gate in a race")


def answers(request: Any) -> Any:
    """Scripted answers for pipelines that wait: a call of the agent's tool, then `ok`."""
    tools = request.tools_dict
    if called(request) or not tools:
        return "ok"
    if "transfer_to_agent" in tools and "get_weather" not in tools:
        target = "payer" if "payer" in str(request.config.system_instruction) else "p"
        return call_tool("transfer_to_agent", agent_name=target)
    return call_tool("get_weather", city="Rome")


def needs(state: Mapping[str, Any]) -> bool:
    """A function of the user that cannot do without the key."""
    return bool(state["temp:x"])


def makes(state: Mapping[str, Any]) -> dict[str, Any]:
    """The same as a step."""
    return {"y": state["temp:x"]}


NEEDING: dict[str, Expr[Any]] = {
    **{
        name: READERS[name][0]
        for name in (
            *("an instruction", "C.template", "P", "the message of another gate", "map_over"),
            *("S.transform", "S.require", "S.zip", "S.group_by"),
        )
    },
    "another gate": gate(needs),
    "a route": Route().when(needs, Agent("helper")),
    "until": Loop(Agent("helper")).until(needs),
    "a transfer": Pipeline("p", transfer("helper", condition=needs)) >> Agent("helper"),
    "a tap": tap(needs),
    "a function": S.set(z=1) >> makes,
    "S.compute": S.compute(y=needs),
    "S.guard": S.guard(needs, "no"),
    "S steps in one": S.when(lambda state: True, S.set(z=1) >> S.transform("temp:x", str.upper)),
}
"""Steps that cannot do without `temp:x`."""


@pytest.mark.parametrize("step", NEEDING.values(), ids=NEEDING)
async def test_the_error_names_the_pause(step: Expr[Any]) -> None:
    """The error for a key that a pause removed names the pause and the repair."""
    expression, backend = X >> ASK >> step, script()
    first = await expression.run("hi", backend=backend, config=CONFIG)
    approvals = {pending.id: True for pending in first.pending}
    with pytest.raises((MissingKeyError, PredicateError, StateGuardError)) as caught:
        await expression.resume(
            session_id=first.session_id, approvals=approvals, backend=backend, config=CONFIG
        )
    message = str(caught.value)
    assert "'temp:x'" in message
    assert "temp: keys do not outlive a pause, and this run has waited for a person." in message
    assert "Write it after that, or use a key without temp:" in message
    assert "Nothing in this pipeline writes it" not in message


async def test_a_coordinator_that_only_hands_on_needs_nothing() -> None:
    """After a pause in a sub-agent, its coordinator does not run again, so it needs no `temp:` keys."""
    boss = Agent("boss").instruct("Use {temp:x}.").delegate(PAYER.isolate())
    expression, backend = X >> boss >> Agent("after"), mock_backend({"after": "ok"}, default=replies(answers))
    assert check_pauses(expression) == []
    first = await expression.run("hi", backend=backend, config=CONFIG)
    approvals = {pending.id: True for pending in first.pending}
    result = await expression.resume(
        session_id=first.session_id, approvals=approvals, backend=backend, config=CONFIG
    )
    assert speakers(result) == ["payer", "after"]


async def test_a_missing_temp_key_without_a_pause() -> None:
    """In a run that never waited, the message is the usual one."""
    with pytest.raises(MissingKeyError, match=r"Nothing in this pipeline writes it\."):
        await Agent("reader").instruct("{temp:x}").run("hi", backend=script(), config=CONFIG)


def test_the_check_alone_and_in_the_report() -> None:
    """The check works alone, and the report says the same once."""
    expression = X >> ASK >> Agent("reader").instruct("Use {temp:x}.")
    (issue,) = check_pauses(expression)
    assert [found for found in check_all(expression).warnings if found.key == "temp:x"] == [issue]
    assert check_all(expression).errors == ()
