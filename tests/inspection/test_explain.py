"""`.explain()`: everything about an expression in one value."""

from __future__ import annotations

import json
import sys

import pytest
from google.adk.agents import LlmAgent

from adk_fluent import Agent, Route, S, gate
from adk_fluent.backends.adk.compat import private
from adk_fluent.errors import CompileError
from adk_fluent.inspection import explain
from adk_fluent.ir import Match
from adk_fluent.middleware import retry, timeout
from tests.inspection.test_anatomy import Intent, lookup

PIPELINE = (
    Agent("classifier", "gemini-2.5-flash").describe("Sorts requests.").returns(Intent).writes("intent")
    >> Route("intent")
    .eq("booking", Agent("booker").instruct("Book {intent}").tool(lookup))
    .otherwise(Agent("x"))
    >> S.rename(intent="old")
    >> Agent("end").instruct("End {sumary}").delegate(Agent("helper"))
)


def note(callback_context: object) -> None:
    """Do nothing."""


def test_the_shape_is_an_outline() -> None:
    """The outline has every step with the keys that it reads and writes."""
    assert PIPELINE.explain().shape.splitlines() == [
        "sequence",
        "  classifier (agent) → intent",
        "  route intent →",
        "    booker (agent) intent →",
        "    x (agent)",
        "  rename (transform) intent → old",
        "  end (agent) sumary →",
        "    helper (agent)",
    ]


def test_the_shape_says_what_a_gate_asks_with_and_keeps() -> None:
    """A gate reads the keys of its predicate and of its message, and writes the key of the answer."""
    ask = gate(Match("score", "gt", 3), message="Refund {total} of {shop?}?", into="approval")
    assert ask.explain().shape.splitlines() == ["gate score, total, shop → approval"]
    assert (ask.node.reads_keys, ask.node.writes_keys) == ({"score", "total", "shop"}, {"approval"})


def test_every_concern_is_there() -> None:
    """Model, instruction, the five concerns, tools, callbacks, children, visibility and findings."""
    text = str(PIPELINE.explain().agents["booker"])
    for line in (
        "booker (agent)",
        "  model:        (not set — the model of the agent above, else ADK's default, "
        f"{LlmAgent.DEFAULT_MODEL})",
        '  instruction:  "Book {intent}"',
        "  reads:        C.default() — the whole conversation, {intent}",
        "  returns:      (not set — plain text)",
        "  history:      FULL: user, classifier",
        "  sees twice:   classifier",
        "  tools:        lookup",
        "  visibility:   internal",
    ):
        assert line in text.splitlines()
    end = PIPELINE.explain().agents["end"]
    assert end.children == ("helper",)
    assert [issue.code for issue in end.issues] == ["unresolved-template-var"]
    assert "  ✗ end reads {sumary} in instruction: ERROR" in str(end).splitlines()
    classifier = PIPELINE.explain().agents["classifier"]
    assert (classifier.model, classifier.description) == ("gemini-2.5-flash", "Sorts requests.")
    assert "  callbacks:    before_agent: note" in str(Agent("a").before_agent(note).explain()).splitlines()


def test_every_finding_is_told_once() -> None:
    """A finding is printed below its agent; findings about other steps are at the end."""
    pipeline = Agent("a").writes("x") >> Route("y").eq("1", Agent("b")) >> Agent("end")
    text = str(pipeline.explain())
    for issue in pipeline.check().issues:
        if issue.severity.value != "ok":
            assert text.count(issue.message) == 1
    assert pipeline.check().errors[0].agent == "route"


def test_it_is_json_too() -> None:
    """The JSON holds the same values and the version of its layout."""
    found = json.loads(PIPELINE.explain().to_json())
    assert found["version"] == 1
    assert [agent["agent"] for agent in found["agents"]] == ["classifier", "booker", "x", "end", "helper"]
    assert found["agents"][1]["anatomy"]["doubled"] == ["classifier"]
    assert found["report"] == json.loads(PIPELINE.check().to_json())


def test_a_single_agent_needs_no_outline() -> None:
    """The explanation of a single agent has no outline, nor has that of the agent built of it."""
    assert str(Agent("a").explain()).splitlines()[0] == "a (agent)"
    assert str(explain(Agent("a").build())) == str(Agent("a").explain())


def test_the_middleware_that_acts_on_an_agent_is_listed() -> None:
    """The outer middleware comes first, the agent's own last, each once, without that of other agents."""
    inner, outer = retry(), timeout(1)
    found = (Agent("a").middleware(inner, outer) >> Agent("b")).middleware(outer).explain().agents
    assert found["a"].middleware == ("Timeout", "Retry")
    assert found["b"].data()["middleware"] == ["Timeout"]
    assert "  middleware:   Timeout, Retry" in str(found["a"]).splitlines()
    assert "middleware" not in str(Agent("a").explain())


# --- the model of an agent that names none ---------------------------------------------------------


def test_the_default_model_is_the_one_that_adk_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The explanation names the default model that the program set, or the one in ADK's source."""
    line = "  model:        (not set — the model of the agent above, else ADK's default, {})"
    agent = Agent("a")
    if hasattr(LlmAgent, "set_default_model"):
        monkeypatch.setattr(LlmAgent, "_default_model", LlmAgent.DEFAULT_MODEL)
        LlmAgent.set_default_model("house-model")
        assert line.format("house-model") in str(agent.explain()).splitlines()
    monkeypatch.delitem(sys.modules, "google.adk.agents.llm_agent")
    assert line.format(LlmAgent.DEFAULT_MODEL) in str(agent.explain()).splitlines()


@pytest.mark.newest
def test_a_default_model_that_moved_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The private name that holds ADK's default model is probed like the others."""
    monkeypatch.delattr(LlmAgent, "_default_model")
    with pytest.raises(CompileError, match=r"has no LlmAgent\._default_model"):
        private.probe()
