"""A run that must fail for want of a key is refused before a model is asked, and no other run is."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from adk_fluent import A, Agent, C, FanOut, P, Route, S, gate, map_over, race, transfer
from adk_fluent.analysis.facts import Facts
from adk_fluent.contracts import check
from adk_fluent.contracts.certainty import must_fail
from adk_fluent.errors import ADKFluentError, ContractError, MissingKeyError, UnfilledKeyError
from adk_fluent.expr.base import Expr
from adk_fluent.middleware import Middleware, retry
from adk_fluent.state import declares
from adk_fluent.testing import MockBackend, mock_backend
from tests.backends.support import ANYWAY

FIRST, OTHER = Agent("first").instruct("Begin."), Agent("other").instruct("Go on.")
READS = Agent("reader").instruct("Read {key}.")


def reads(state: Any) -> dict[str, object]:
    """Read the key in each call."""
    return {"seen": state["key"]}


def may_read(state: Any) -> dict[str, object]:
    """Read the key in some calls."""
    return {"seen": state["key"]} if state.get("other") else {}


@declares(reads=["key"])
def says_so(state: Any) -> dict[str, object]:
    """Read the key, which may be missing."""
    return {"seen": state.get("key")}


def has_key(state: Any) -> bool:
    """Read the key as a condition."""
    return bool(state["key"])


def skip(callback_context: Any) -> Any:
    """Answer in place of the agent."""
    return types.Content(role="model", parts=[types.Part(text="Skipped.")])


def hand_on(callback_context: Any) -> None:
    """Change the state in a way that no source shows."""
    print(callback_context, end="")


def note(callback_context: Any) -> None:
    """Write another key."""
    callback_context.state["noted"] = True


def leave(tool_context: Any) -> None:
    """Leave the loop."""
    tool_context.actions.escalate = True


class Own(Middleware):
    """A step that may do anything."""


FAILING: dict[str, Expr[Any]] = {
    "alone": READS,
    "the first of two": READS >> OTHER,
    "after an agent": FIRST >> READS,
    "before its writer": FIRST >> READS >> OTHER.writes("key"),
    "a prompt": FIRST >> Agent("reader").instruct(P.role("You read.") + P.task("Read {key}.")),
    "one of two": FIRST >> Agent("reader").instruct("{key?} {key}"),
    "temp": FIRST >> Agent("reader").instruct("Read {temp:key}."),
    "removed": FIRST.writes("key") >> S.drop("key") >> READS,
    "a branch beside others": READS | OTHER,
    "a fan-out": FIRST >> FanOut("all").branch(READS).branch(OTHER),
    "a loop": FIRST >> (OTHER >> READS) * 2,
    "a timeout": FIRST >> READS.timeout(60),
    "after a route": FIRST >> Route("x").eq("a", OTHER).otherwise(FIRST) >> READS,
    "after a fallback": (FIRST // OTHER) >> READS,
    "after a race": race(FIRST, OTHER) >> READS,
    "after a delegate": FIRST.delegate(OTHER) >> READS,
    "a map": FIRST >> map_over("key", OTHER),
    "S.transform": FIRST >> S.transform("key", str.upper),
    "S.compute": FIRST >> S.compute(seen=lambda state: state["key"]),
    "A.publish": FIRST >> A.publish("a.txt", from_key="key"),
    "a function": FIRST >> reads,
    "a tap": FIRST.tap(reads),
    "a condition": FIRST >> OTHER.proceed_if(has_key),
    "a transfer": FIRST >> transfer("other", condition=has_key) >> OTHER,
    "a callback that only notes": FIRST.before_agent(note) >> READS.before_agent(note),
    "our middleware": (FIRST >> READS).middleware(retry()),
}
"""Every run of these fails."""

UNCERTAIN: dict[str, Expr[Any]] = {
    "optional": FIRST >> Agent("reader").instruct("Read {key?}."),
    "shared by sessions": FIRST >> Agent("reader").instruct("Read {user:key}."),
    "in a context": FIRST >> OTHER.reads("key"),
    "in a part of a prompt": FIRST >> Agent("reader").instruct(P.role("x") + P.from_state("key")),
    "in a global instruction": FIRST >> OTHER.global_instruct("Read {key}."),
    "compared": FIRST >> Route("key").eq("a", OTHER).otherwise(FIRST),
    "on a branch": FIRST >> Route("x").eq("a", READS).otherwise(OTHER),
    "per item": S.set(items=[]) >> map_over("items", READS),
    "a fallback": FIRST >> (READS // OTHER),
    "a race": FIRST >> race(READS, OTHER),
    "a delegate": FIRST.delegate(READS),
    "after a gate": FIRST >> gate(lambda state: True, message="Go on?") >> READS,
    "after a transfer": FIRST >> transfer("other") >> READS >> OTHER,
    "after a tool that asks": FIRST.tool(leave, require_confirmation=True) >> READS,
    "after a tool that leaves": (FIRST.tool(leave) >> READS) * 2,
    "a callback that answers": FIRST >> READS.before_agent(skip),
    "a callback that writes": FIRST >> READS.before_agent(hand_on),
    "a middleware of the user's": (FIRST >> READS).middleware(Own()),
    "declared": FIRST >> says_so,
    "on some ways": FIRST >> may_read,
    "a guard": FIRST >> S.require("key"),
    "S.when": FIRST >> S.when(lambda state: bool(state.get("x")), S.transform("key", str.upper)),
    "a context with a window": FIRST >> OTHER.context(C.window(1) + C.from_state("key")),
}
"""Of these, some runs succeed, or nobody knows."""


def scripted() -> MockBackend:
    """Models that answer, whatever they are asked."""
    return mock_backend(default="Said.")


@pytest.mark.parametrize("expression", FAILING.values(), ids=FAILING.keys())
async def test_certain_failures_are_refused(expression: Expr[Any]) -> None:
    """A run that must fail is refused before a model is asked, every time; if it runs anyway, it fails."""
    backend = scripted()
    for _ in range(2):
        with pytest.raises(ContractError, match=r"key.* this run must fail\. .*contracts=\"log\"") as caught:
            await expression.run("hi", backend=backend)
        assert "\n" not in str(caught.value)
    assert backend.calls == {}
    with pytest.raises(ADKFluentError) as failed:
        await expression.run("hi", backend=backend, config=ANYWAY)
    assert not isinstance(failed.value, ContractError)


@pytest.mark.parametrize("expression", UNCERTAIN.values(), ids=UNCERTAIN.keys())
async def test_possible_failures_are_not_refused(expression: Expr[Any]) -> None:
    """Nothing else is refused, whatever becomes of it."""
    backend = scripted()
    try:
        await expression.run("hi", backend=backend)
    except ContractError as error:
        pytest.fail(str(error))
    except ADKFluentError:
        pass


async def test_the_text_of_the_error() -> None:
    """One line: the agent and the key, what to do, and how to run it anyway; it is a run's error, too."""
    pipeline = FIRST.writes("keys") >> READS
    with pytest.raises(UnfilledKeyError) as caught:
        await pipeline.run("hi", backend=scripted())
    assert isinstance(caught.value, MissingKeyError)
    assert caught.value.result is None
    assert str(caught.value) == (
        'reader reads {key} in instruction and never finds it, so this run must fail. No step writes "key", '
        'and it is not in the initial state. Did you mean "keys"? If you mean the text {key}, write \\{key}. '
        'No model was asked: ExecutionConfig(contracts="log") runs it anyway.'
    )


async def test_every_way_to_run_refuses() -> None:
    """`run`, `ask`, `stream`, `map`, `session` and `live` refuse alike."""
    pipeline, backend = FIRST >> READS, scripted()
    with pytest.raises(ContractError):
        await pipeline.ask_async("hi", backend=backend)
    with pytest.raises(ContractError):
        await pipeline.map(["hi"], backend=backend)
    with pytest.raises(ContractError):
        _ = [event async for event in pipeline.stream("hi", backend=backend)]
    with pytest.raises(ContractError):
        async with pipeline.session(backend=backend) as chat:
            await chat.send("hi")
    with pytest.raises(ContractError):
        async with pipeline.live(backend=backend):
            pass
    assert backend.calls == {}


async def test_state_that_is_given_or_not_known_is_not_refused() -> None:
    """The state of a run counts for that run alone, and a stored session may hold any key."""
    pipeline, backend = FIRST >> READS, scripted()
    for _ in range(2):
        assert (await pipeline.run("hi", backend=backend, state={"key": 1})).text == "Said."
        with pytest.raises(ContractError):
            await pipeline.run("hi", backend=backend, state={"other": 1})
    with pytest.raises(ADKFluentError) as caught:
        await pipeline.run("hi", backend=backend, session_id="kept")
    assert not isinstance(caught.value, ContractError)


async def test_a_run_that_was_let_pass_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run is not analysed again, nor is a new expression that is equal."""
    asked: list[Facts] = []

    def noting(facts: Facts) -> str:
        asked.append(facts)
        return must_fail(facts)

    monkeypatch.setattr(check, "must_fail", noting)
    for _ in range(2):
        pipeline = Agent("once").instruct("Only here.") >> FIRST
        for _ in range(2):
            await pipeline.run("hi", backend=scripted())
    assert len(asked) == 1
