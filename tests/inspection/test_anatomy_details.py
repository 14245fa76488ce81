"""Anatomies of several runs, of transfers, and of the global instruction."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent, C, P, Pipeline, S
from adk_fluent.expr.base import Expr
from adk_fluent.testing import call_tool
from tests.backends.support import play, script, seen, system

A, B, D = Agent("a"), Agent("b"), Agent("d")


# --- earlier runs ---------------------------------------------------------------------------------

EARLIER: dict[str, tuple[Expr[Any], set[str]]] = {
    "the conversation": (A >> B, {"user", "a", "b"}),
    "none of it": (A >> B.context(C.none()), set()),
    "no words but the user's": (A >> B.context(C.user_only()), {"user"}),
    "the running turn": (A >> B.context(C.window(1)), set()),
    "two turns": (A >> B.context(C.window(2)), {"user", "a", "b"}),
    "the last words": (A >> B.include_contents("none"), set()),
    "agents alone": (A >> B.context(C.select(author=("a", "b"))), {"a", "b"}),
    "all agents but one": (A >> B.context(C.exclude_agents("a")), {"user", "b"}),
    "one agent": (A >> B.context(C.from_agents("a")), {"user", "a"}),
    "what stays in a key": (A >> B.context(C.none()).instruct("{k?}").writes("k"), {"b"}),
    "what stays with a user": (
        A >> B.context(C.none()).instruct("{user:k?}") >> D.writes("user:k"),
        {"d"},
    ),
    "what does not outlive a run": (
        A >> B.context(C.none()).instruct("{temp:k?}") >> D.writes("temp:k"),
        set(),
    ),
    "what a temp: key was made of": (
        B.context(C.none()).instruct("{temp:k?}") >> A.writes("k") >> S.rename(k="temp:k"),
        set(),
    ),
    "what the user said": (B.context(C.none()).instruct("{k?}") >> S.capture("k") >> A, {"user"}),
}
"""A session of two runs, and whose words of the first reach `b` in the second."""


@pytest.mark.parametrize("kind", EARLIER)
async def test_whose_words_of_an_earlier_run_reach_an_agent(kind: str) -> None:
    """`.earlier` names exactly the authors whose text the second run of a session can show."""
    expression, authors = EARLIER[kind]
    assert expression.llm_anatomy()["b"].earlier == authors
    service = InMemorySessionService()
    responses = {name: f"first {name}" for name in "abd"}
    await play(expression, responses, "first user", session_id="s", session_service=service)
    backend = script({name: f"second {name}" for name in "abd"}, session_service=service)
    await expression.run("second user", backend=backend, session_id="s", session_service=service)
    told = seen(backend.calls["b"][0]) + system(backend.calls["b"][0])
    assert {author for author in ("user", "a", "b", "d") if f"first {author}" in told} == authors


COPIES: dict[str, Expr[Any]] = {
    "moved": S.rename(k="c"),
    "made": S.compute(c=lambda state: dict(state).get("k")),
    "by a step": Pipeline("copy", lambda state: {"c": dict(state).get("k")}),
}


@pytest.mark.parametrize("how", COPIES)
async def test_anybodys_words_may_stand_in_a_copy(how: str) -> None:
    """A transformed value may hold the text of every author of an earlier run."""
    expression = COPIES[how] >> B.context(C.none()).instruct("{c?}") >> A.writes("k")
    assert expression.llm_anatomy()["b"].earlier == {"user", "a", "b"}
    backend = script({"a": "first a"})
    await expression.run("hi", backend=backend, session_id="s")
    await expression.run("hi", backend=backend, session_id="s")
    assert "first a" in system(backend.calls["b"][1])


# --- who can be handed over to --------------------------------------------------------------------

LEAF = Agent("leaf").describe("Knows leaves.")
BOSS = Agent("boss").delegate(
    Agent("left").describe("Left.").delegate(LEAF),
    Agent("middle").describe("Middle.").no_peers(),
    Agent("right").describe("Right.").isolate(),
    Agent("last").describe("Last.").stay(),
)
TARGETS = {
    "boss": ["left", "middle", "right", "last"],
    "left": ["leaf", "boss", "middle", "right", "last"],
    "middle": ["boss"],
    "right": [],
    "last": ["left", "middle", "right"],
    "leaf": ["left"],
}


@pytest.mark.parametrize("name", TARGETS)
async def test_who_an_agent_can_hand_over_to(name: str) -> None:
    """The targets are those that ADK offers the model after `stay`, `no_peers` and `isolate`."""
    anatomy = BOSS.llm_anatomy()[name]
    _, _, told = anatomy.after.partition("hands over to ")
    assert re.findall(r"\b(?!and\b|or\b)\w+", told) == TARGETS[name]
    assert ("transfer_to_agent" in anatomy.tool_names) == bool(TARGETS[name])
    way = {"boss": [], "leaf": ["left", "leaf"]}.get(name, [name])
    calls = {
        agent: call_tool("transfer_to_agent", agent_name=to)
        for agent, to in zip(["boss", *way], way, strict=False)
    }
    backend = script(calls)
    await BOSS.run("hi", backend=backend)
    offered = re.findall(r"Agent name: (\w+)", system(backend.calls[name][0]))
    assert offered == TARGETS[name]


# --- the instruction of the whole tree ------------------------------------------------------------

KIND = Agent("a").instruct("Work.").global_instruct("Be kind.")
HELPER = Agent("b").describe("Helps.").instruct("Help.")
GLOBAL: dict[str, tuple[Expr[Any], dict[str, str]]] = {
    "alone": (KIND, {"a": '"Be kind."\n\n"Work."'}),
    "none of its own": (Agent("a").global_instruct("Be kind."), {"a": '"Be kind."'}),
    "a prompt": (
        KIND.global_instruct(P.role("Be kind.")),
        {"a": '"Be kind."\n\n"Work."'},
    ),
    "a delegate": (KIND.delegate(HELPER), {"a": '"Be kind."\n\n"Work."', "b": '"Be kind."\n\n"Help."'}),
    "a delegate of a delegate": (
        KIND.delegate(Agent("c").describe("Leads.").delegate(HELPER)),
        {"a": '"Be kind."\n\n"Work."', "c": '"Be kind."', "b": '"Be kind."\n\n"Help."'},
    ),
    "a step of a delegate": (
        KIND.delegate(Pipeline("steps", HELPER, S.set(x=1)).describe("Steps.")),
        {"a": '"Be kind."\n\n"Work."', "b": '"Be kind."\n\n"Help."'},
    ),
    "of a delegate": (
        Agent("a").instruct("Work.").delegate(HELPER.global_instruct("Be rude.")),
        {"a": '"Work."', "b": '"Help."'},
    ),
    "in a sequence": (KIND >> HELPER, {"a": '"Work."', "b": '"Help."'}),
    "in a wrapper": (KIND.timeout(60), {"a": '"Work."'}),
}
"""Where a global instruction stands, and the instructions of the agents."""


@pytest.mark.parametrize("kind", GLOBAL)
async def test_a_global_instruction_is_told_where_it_counts(kind: str) -> None:
    """The root's global instruction comes first in every agent of the tree; others are not sent."""
    expression, systems = GLOBAL[kind]
    assert {name: found.system for name, found in expression.llm_anatomy().items()} == systems
    for name, told in systems.items():
        way = {"b": ["c", "b"] if "c" in systems else ["steps" if "step" in kind else "b"], "c": ["c"]}
        targets = way.get(name, []) if "delegate" in kind else []
        calls = {
            agent: call_tool("transfer_to_agent", agent_name=to)
            for agent, to in zip(["a", *targets], targets, strict=False)
        }
        backend = script(calls)
        await expression.run("hi", backend=backend)
        sent = system(backend.calls[name][0])
        assert sent.startswith(told.replace('"', ""))
        assert ("Be kind." in sent, "Be rude." in sent) == ("Be kind." in told, False)
