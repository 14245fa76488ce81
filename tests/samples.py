"""Named functions, models and one expression per node type, shared by tests of the pure part.

They stand at the top level of a module because only such functions have an import path.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel

from adk_fluent import A, Agent, Loop, Route, S, gate, map_over, race, tap, transfer
from adk_fluent.expr.base import Expr
from adk_fluent.ir import (
    AgentNode,
    AuthConfig,
    CaptureNode,
    ModelCandidate,
    ModelSelectorNode,
    Node,
    RemoteAgentNode,
    RetryConfig,
    declares,
)
from adk_fluent.ir.nodes import TransformFn

State = Mapping[str, Any]

TERSE = frozenset({"no-instruction", "undescribed-tool"})
"""The kinds of notes on agents and tools that say too little of themselves, as most in tests do."""


class Invoice(BaseModel):
    number: int
    total: float = 0.0


class Ticket(BaseModel):
    intent: str


class Mood(Enum):
    CALM = "calm"
    CROSS = "cross"


def is_done(state: State) -> bool:
    """A predicate."""
    return bool(state.get("done"))


def is_urgent(state: State) -> bool:
    """A predicate."""
    return state.get("priority") == "high"


@declares(reads=["draft"], writes=["words"])
def count_words(state: State) -> dict[str, int]:
    """A transform that says what it touches."""
    return {"words": len(str(state.get("draft", "")).split())}


def look(state: State) -> None:
    """See the state."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def to_text(value: object) -> str:
    """A function of a value."""
    return str(value)


def log_call(callback_context: object) -> None:
    """A callback that does nothing."""


def typed(fn: TransformFn) -> TransformFn:
    """`fn`; a lambda that stands here gets the types of its parameters."""
    return fn


class Judge:
    @staticmethod
    def accept(state: State) -> bool:
        return True


a, b, c = Agent("a"), Agent("b"), Agent("c")

EXPRESSIONS: Mapping[str, Expr[Any]] = {
    "agent": Agent("full", "some-model")
    .instruct("Answer {question} for {user:name?}.")
    .global_instruct("Be kind.")
    .static("Rules.")
    .describe("Answers.")
    .writes("answer")
    .returns(Invoice)
    .accepts(Ticket)
    .produces(Invoice)
    .consumes(Ticket)
    .tools(add)
    .tool(add, require_confirmation=True)
    .before_agent(log_call)
    .generate(temperature=0, stop_sequences=["END"])
    .stay()
    .delegate(a, b),
    "pipeline": (a >> b >> S.set(x=1)).named("line"),
    "fan_out": a | b | c,
    "fallback": a // b // c,
    "loop": Loop("again", a, b, max_iterations=3).until(is_done),
    "race": race(a, b),
    "route": Route("kind").eq("x", a).gt(3, b).when(is_urgent, c).otherwise(Agent("d")),
    "dict route": a.writes("kind") >> {"x": b, "y": c},
    "conditional": a.proceed_if(is_done),
    "timeout": a.timeout(2.5),
    "tap": a >> tap(look),
    "gate": a >> gate(is_urgent, message="Refund {total} of {shop?}?", into="approval"),
    "map": map_over("items", b, item_key="item", output_key="out", concurrency=2),
    "transfer": a >> transfer("a", condition=is_done),
    "capture": S.capture("said") >> a,
    "function": a >> count_words,
    "artifacts": a.artifacts(
        A.publish("cv.txt", from_key="cv", mime=A.mime.TEXT, metadata={"by": ["me", 1]}),
        A.when(
            is_done, A.snapshot("user:{kind}.csv", into_key="rows", version=0, decode="csv") >> A.delete("x")
        ),
    )
    >> Agent("eye").context(A.for_llm("cat.png")).tools(A.tool.save(), A.tool.list()),
    "transforms": S.pick("x", "y")
    >> S.drop("x")
    >> S.rename(y="z")
    >> S.set(n=1, m=None, k=[1, {"deep": (1, 2)}])
    >> S.default(lang="en")
    >> S.merge("x", "y", into="both", fn=add)
    >> S.transform("z", to_text)
    >> S.compute(w=is_done)
    >> S.fn(count_words)
    >> S.guard(is_done, "not done")
    >> S.require("x")
    >> S.validate(Ticket)
    >> S.log("x", label="now")
    >> S.identity()
    >> S.accumulate("x", into="all")
    >> S.counter("n", step=2)
    >> S.history("x", max_size=3)
    >> S.flatten("tree")
    >> S.unflatten()
    >> S.zip("x", "y", into="rows")
    >> S.group_by("rows", to_text, into="groups")
    >> S.when("x", S.set(y=1) >> S.drop("x"))
    >> S.branch("kind", x=S.set(y=1), y=S.drop("x"))
    >> (S.set(p=1) + S.drop("q") + S.set(r=1)),
}
"""One expression per way of making one."""

NODES: Mapping[str, Node] = {
    **{name: expression.node for name, expression in EXPRESSIONS.items()},
    "remote": RemoteAgentNode(
        name="far",
        endpoint="http://127.0.0.1:1",
        capabilities=("search",),
        auth=AuthConfig("api_key", "secret"),
        retry=RetryConfig(5, 0.5),
        fallback=AgentNode(name="near"),
        declared_reads=("q",),
        output_key="found",
        input_schema=Ticket,
    ),
    "selector": AgentNode(
        name="chooser",
        selector=ModelSelectorNode(
            strategy="budget_bounded",
            candidates=(ModelCandidate("small", 0.1, 0.2, condition=is_done), ModelCandidate("big")),
            budget_key="spent",
            fallback_model="small",
        ),
    ),
    "capture turns": CaptureNode(key="said", turns=3),
}
"""One tree per node type and field kind, the types without a fluent method yet included."""
