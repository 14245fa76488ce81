"""Pipelines that wait for a person: `temp:` keys that a pause takes, what gates ask with, and what they keep."""

# fmt: off
from __future__ import annotations

from typing import Any

from adk_fluent import Agent, C, FanOut, Loop, P, Pipeline, Route, S, gate, map_over, race, tap, transfer
from adk_fluent.cost import ModelCandidate
from adk_fluent.expr.base import Expr
from adk_fluent.ir import declares
from tests.contracts.corpus.cases import Correct, Fault, get_weather


@declares(reads=[])
def always(state: object) -> bool:
    return True


@declares(reads=["temp:x"])
def by_x(state: object) -> bool:
    return True


@declares(reads=["temp:x", "n"])
def by_x_or_n(state: object) -> bool:
    return True


@declares(reads=["temp:x"], writes=["y"])
def from_x(state: object) -> dict[str, Any]:
    return {"y": 1}


@declares(writes=["temp:x"])
def writes_x(callback_context: object) -> None:
    pass


@declares(reads=["temp:x"])
def looks_at_x(callback_context: object, llm_request: object) -> None:
    pass


@declares(reads=["temp:x"])
def tool_by_x(city: str) -> str:
    """Look something up."""
    return city


@declares(writes=["temp:x"])
def tool_writes_x(city: str) -> str:
    """Look something up."""
    return city


def by_city(city: str) -> bool:
    return city == "Rome"


def size(value: Any) -> int:
    return len(value)


X = S.set(**{"temp:x": ["a"]})
ASK = gate(always)
PAYER = Agent("payer").tool(get_weather, require_confirmation=True)
READER = Agent("reader").instruct("Use {temp:x}.")
Y = Agent("last").instruct("{y?}")
helper, other = Agent("helper").instruct("Help."), Agent("other").instruct("Help.")

READERS: dict[str, tuple[Expr[Any], str]] = {
    "an instruction": (READER, "reader"),
    "the instruction of an agent that may hand over": (READER.delegate(helper), "reader"),
    "reads": (Agent("reader").reads("temp:x"), "reader"),
    "from_state": (Agent("reader").context(C.user_only() + C.from_state("temp:x")), "reader"),
    "C.template": (Agent("reader").context(C.template("Use {temp:x}")), "reader"),
    "C.when": (Agent("reader").context(C.when(by_x, C.user_only())), "reader"),
    "P": (Agent("reader").instruct(P.task("Use {temp:x}")), "reader"),
    "P.from_state": (Agent("reader").instruct(P.from_state("temp:x")), "reader"),
    "P.when": (Agent("reader").instruct(P.task("Go") + P.when(by_x, P.task("on"))), "reader"),
    "a callback": (Agent("reader").before_model(looks_at_x), "reader"),
    "a tool": (Agent("reader").tool(tool_by_x), "reader"),
    "a route": (Route("temp:x").contains("a", helper).otherwise(other), "route"),
    "a route by a function": (Route().when(by_x, helper).otherwise(other), "route"),
    "proceed_if": (helper.proceed_if(by_x), "route"),
    "another gate": (gate(by_x).named("again"), "again"),
    "the message of another gate": (gate(always, message="{temp:x}?").named("again"), "again"),
    "until": (Loop(helper, S.counter("n")).until(by_x_or_n), "loop"),
    "a transfer": (Pipeline("p", transfer("helper", condition=by_x), other) >> helper, "to_helper"),
    "map_over": (map_over("temp:x", Agent("each").instruct("{_item}")), "map"),
    "a tap": (tap(by_x), "by_x"),
    "a function": (from_x >> Y, "from_x"),
    "S.transform": (S.transform("temp:x", size), "transform"),
    "S.compute": (S.compute(y=by_x) >> Y, "compute"),
    "S.merge": (S.merge("temp:x", into="y") >> Y, "merge"),
    "S.rename": (S.rename(**{"temp:x": "y"}) >> Y, "rename"),
    "S.require": (S.require("temp:x"), "require"),
    "S.guard": (S.guard(by_x, "no"), "guard"),
    "S.when": (S.when("temp:x", S.set(y=1)), "when"),
    "S.branch": (S.branch("temp:x", a=S.set(y=1)), "branch"),
    "S.log": (S.log("temp:x"), "log"),
    "S.accumulate": (S.accumulate("temp:x", into="y") >> Y, "accumulate"),
    "S.history": (S.history("temp:x"), "history"),
    "S.counter": (S.counter("temp:x"), "counter"),
    "S.flatten": (S.flatten("temp:x"), "flatten"),
    "S.zip": (S.set(z=[1]) >> S.zip("z", "temp:x", into="y") >> Y, "zip"),
    "S.group_by": (S.group_by("temp:x", size, into="y") >> Y, "group_by"),
    "a budget": (
        Agent("reader").model_select(
            strategy="budget_bounded", budget_key="temp:x", fallback_model="gemini-2.5-flash",
            candidates=[ModelCandidate("gemini-2.5-flash", 0.15, 0.60)],
        ),
        "reader",
    ),
}
"""Steps that read `temp:x`, each with the name of the step that does."""

PAUSES: dict[str, Expr[Any]] = {
    "a gate": Pipeline("p", ASK, helper),
    "a tool": Pipeline("p", PAYER, helper),
    "a tool that decides by its arguments": Agent("payer").tool(get_weather, require_confirmation=by_city),
    "a gate in a sequence in a sequence": Pipeline("p", Pipeline("q", ASK), helper),
    "a gate in one branch": FanOut(Pipeline("p", ASK, helper), other),
    "tools in both branches": FanOut(PAYER, PAYER.named("clerk")),
    "a gate in a branch of a route": S.set(k="a") >> Route("k").eq("a", Pipeline("p", ASK, helper)).otherwise(other),
    "a gate in a loop": Loop(Pipeline("p", ASK, helper), max_iterations=2),
    "a gate in what may fail": Pipeline("p", ASK, helper) // other,
    "a gate in a fallback": helper // Pipeline("p", ASK, other),
    "a gate in a race": race(Pipeline("p", ASK, helper), other),
    "a gate in a map": S.set(items=[1]) >> map_over("items", Pipeline("p", ASK, helper)),
    "a tool within a time": PAYER.timeout(60),
    "a tool of a sub-agent": Agent("boss").delegate(PAYER),
    "a gate that was handed over to": Pipeline("p", transfer("q", condition=always), other) >> Pipeline("q", ASK, helper),
    "a gate that an agent hands over to": Agent("boss").delegate(Pipeline("p", ASK, helper)),
}
"""Steps at which a run may stop for a person."""

_MORE: dict[str, tuple[Expr[Any], str]] = {
    "the instruction of the agent whose tool asks": (X >> PAYER.instruct("Use {temp:x}."), "payer"),
    "the context of the agent whose tool asks": (X >> PAYER.reads("temp:x"), "payer"),
    "a step of the next round of a loop": (X >> Loop(READER, ASK, max_iterations=2), "reader"),
    "the predicate in the next round of a loop": (X >> Loop(gate(by_x), helper, max_iterations=2), "gate"),
    "until of a loop that asks": (X >> Loop(ASK, S.counter("n")).until(by_x_or_n), "loop"),
    "what another branch wrote by then": (FanOut(Pipeline("p", ASK, helper), Agent("w").writes("temp:x")) >> READER, "reader"),
    "what a branch wrote before the other was answered": (
        FanOut(Pipeline("p", ASK, helper.writes("temp:x")), Pipeline("q", ASK.named("again"), other)) >> READER, "reader"
    ),
    "behind a gate in the same branch": (X >> FanOut(Pipeline("p", ASK, READER), other), "reader"),
    "behind a gate of an item": (X >> S.set(items=[1]) >> map_over("items", Pipeline("p", ASK, READER)), "reader"),
    "after what failed": (X >> (Pipeline("p", ASK, helper) // READER), "reader"),
    "what a tool's writer may have written": (Agent("a").before_agent(writes_x) >> ASK >> READER, "reader"),
    "what a tool may write again": (X >> ASK >> Agent("a").tool(tool_writes_x) >> READER, "reader"),
    "what another branch may write again": (X >> ASK >> FanOut(READER, Agent("w").writes("temp:x")), "reader"),
    "read behind two gates": (X >> ASK >> helper >> ASK.named("again") >> READER, "reader"),
}
_GIVEN = Fault(
    name="given with the run", expression=ASK >> READER, state={"temp:x": 1}, code="pause-temp-key", agent="reader",
    key="temp:x", severity="warn",
)


def _lost(name: str, expression: Expr[Any], agent: str) -> Fault:
    return Fault(
        name=name, expression=expression, code="pause-temp-key", agent=agent, key="temp:x", severity="warn"
    )


FAULTY: list[Fault] = [
    _GIVEN,
    *(_lost(f"read by {name}", X >> ASK >> reader, agent) for name, (reader, agent) in READERS.items()),
    *(_lost(f"lost by {name}", X >> pause >> READER, "reader") for name, pause in PAUSES.items()),
    *(_lost(f"more: {name}", expression, agent) for name, (expression, agent) in _MORE.items()),
    Fault(
        name="never: the message of a gate", expression=gate(always, message="Refund {total}?"),
        code="unresolved-template-var", agent="gate", key="total",
    ),
    Fault(
        name="may: the message of a gate",
        expression=S.set(k="a") >> Route("k").eq("a", helper.writes("total")).otherwise(other) >> gate(always, message="{total}"),
        code="unresolved-template-var", agent="gate", key="total", severity="warn",
    ),
    Fault(
        name="may: what a gate keeps", expression=gate(always, into="approval") >> Agent("pay").instruct("{approval}"),
        code="unresolved-template-var", agent="pay", key="approval", severity="warn",
    ),
    Fault(
        name="may: a gate decides by what a gate keeps",
        expression=gate(always, into="temp:x") >> gate(by_x).named("again"),
        code="read-before-write", agent="again", key="temp:x", severity="warn",
    ),
    Fault(
        name="a typo in the message of a gate", expression=S.set(total=1) >> gate(always, message="Pay {totl?}?"),
        code="placeholder-typo", agent="gate", key="totl", severity="warn",
    ),
    Fault(
        name="a near miss in the message of a gate",
        expression=S.set(the_sum=1) >> gate(always, message="Pay {the sum}?") >> Agent("a").instruct("{the_sum}"),
        code="placeholder-typo", agent="gate", key="the_sum", severity="warn",
    ),
    Fault(
        name="a gate keeps what the state has in another scope",
        expression=gate(always, into="user:approval") >> Agent("pay").instruct("{approval?}") >> Agent("b").instruct("{temp:approval}"),
        code="scope-mismatch", agent="b", key="temp:approval",
    ),
]

_NOTES = {
    "the message of a gate": ("literal-placeholder",),
    "written by the agent that asks": ("channel-duplication",),
    "written in the branch that waits": ("channel-duplication",),
    "written at the end of each item": ("dead-state", "unread-item"),
}
"""What is noted about some of the correct ones."""

CORRECT: list[Correct] = [
    Correct(name=f"pause: {name}", expression=expression, notes=_NOTES.get(name, ()))
    for name, expression in {
        "read before": X >> READER >> ASK,
        "the predicate and the message read before": X >> gate(by_x, message="Use {temp:x}?") >> helper,
        "written again after": X >> READER >> ASK >> X.named("again") >> READER.named("late"),
        "a default after": X >> READER >> ASK >> S.default(**{"temp:x": "b"}) >> READER.named("late"),
        "a key of the session": S.set(x=1) >> ASK >> Agent("a").instruct("{x}"),
        "a key of the user": S.set(**{"user:x": 1}) >> ASK >> Agent("a").instruct("{user:x}"),
        "expected to be gone": X >> READER >> ASK >> Agent("a").instruct("{temp:x?}"),
        "expected to be gone, in a context": X >> ASK >> Agent("a").context(C.template("{temp:x?}")),
        "written by the agent that asks": PAYER.writes("temp:x") >> READER,
        "written anew each time the agent begins": PAYER.before_agent(writes_x).instruct("{temp:x}"),
        "in a branch that does not wait": X >> FanOut(Pipeline("p", ASK, helper), READER),
        "written in the branch that waits": FanOut(Pipeline("p", ASK, helper.writes("temp:x")), other) >> READER,
        "written at the end of each item": S.set(items=[1]) >> map_over("items", Pipeline("p", ASK, Agent("i").writes("temp:x"))) >> helper,
        "in each round before the gate": Loop(X, READER, ASK, max_iterations=3),
        "required again": X >> READER >> ASK >> X.named("again") >> S.require("temp:x"),
        "dropped after": X >> READER >> ASK >> S.drop("temp:x") >> helper,
        "dropped with others after": X >> READER >> helper.writes("draft") >> ASK >> Agent("a").instruct("{draft}").context(C.none()) >> S.drop("draft", "temp:x"),
        "dropped after an agent that asks": X >> READER >> PAYER >> S.drop("temp:x") >> helper,
        "dropped under a condition": X >> READER >> ASK >> S.when(always, S.drop("temp:x")) >> helper,
        "a tool without confirmation": X >> Agent("a").tool(get_weather) >> READER,
        "the message of a gate": helper.writes("total") >> gate(always, message="Refund {total}? {note?} {not a key}"),
        "a default before what a gate keeps": S.default(ok=False) >> gate(always, into="ok") >> Agent("a").instruct("{ok}"),
        "a default after what a gate keeps": gate(always, into="ok") >> S.default(ok=True) >> Agent("a").instruct("{ok}"),
        "what a gate keeps, if it asks": gate(always, into="ok") >> Agent("a").instruct("{ok?}"),
        "what a gate keeps outlives the next": gate(always, into="ok") >> ASK.named("again") >> Agent("a").instruct("{ok?}"),
    }.items()
]
