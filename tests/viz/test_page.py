"""The HTML page's data: the same facts that the checks and `.llm_anatomy()` use."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_fluent import Agent, C, S
from adk_fluent.errors import DuplicateNameError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import resolve_names, walk
from adk_fluent.viz import to_html
from adk_fluent.viz.page import Author, KeyReadFacts, KeyWritten, StepFacts, page_facts
from tests.properties.strategies import EXPRESSIONS
from tests.sampling import examples
from tests.viz.pipelines import good_enough, small


def step(expression: Expr[Any], name: str) -> StepFacts:
    """The page's data about one step."""
    return next(step for step in page_facts(expression.node).steps if step.name == name)


def data_of(page: str) -> dict[str, Any]:
    """The facts in a page."""
    found = re.search(r'<script type="application/json" id="facts">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


@given(EXPRESSIONS)
@settings(max_examples=examples(60))
def test_every_step_has_its_facts(expression: Expr[Any]) -> None:
    """The page knows every step of any expression, in running order."""
    facts = data_of(to_html(expression.node))
    assert [one["name"] for one in facts["steps"]] == [
        node.name for node in walk(resolve_names(expression.node).root)
    ]


def test_the_channels_of_an_agent() -> None:
    """Conversation, state and prompt each say what reaches the model, and from whom."""
    writer = Agent("writer").instruct("Write.").writes("draft")
    critic = Agent("critic", "some-model").instruct("Judge {draft}.").writes("score").describe("Judges.")
    seen = step(writer >> critic >> Agent("end").context(C.none()), "critic")
    assert (seen.kind, seen.about, seen.visibility) == ("agent", "some-model — Judges.", "internal")
    assert seen.heard == "Only other agents see what it says."
    assert seen.conversation is not None
    assert seen.conversation.summary == "FULL"
    assert seen.conversation.sees == (Author("user", certain=True), Author("writer", certain=True))
    assert seen.conversation.hides == ("end",)
    assert seen.state == (KeyReadFacts("draft", "in the instruction", ("writer",), ("writer",)),)
    assert seen.prompt is not None
    assert seen.prompt.text == '"Judge {draft}."'
    assert seen.writes == (KeyWritten("score", ()),)
    assert seen.notes == (
        "These words may reach it twice, in the conversation and through state: those of writer.",
    )


def test_a_hidden_conversation() -> None:
    """An agent that is shown no history says so, and names the key it is given instead."""
    seen = step(Agent("a").writes("x") >> Agent("b").reads("x"), "b")
    assert seen.conversation is not None
    assert seen.conversation.summary == "SUPPRESSED"
    assert seen.state == (KeyReadFacts("x", "beside the conversation", ("a",), ("a",)),)


def test_a_step_without_a_model() -> None:
    """A state step has keys, and neither conversation nor prompt."""
    seen = step(Agent("a").writes("x") >> S.rename(x="y") >> Agent("b").instruct("{y}"), "rename")
    assert (seen.kind, seen.conversation, seen.prompt, seen.heard) == ("state step", None, None, "")
    assert seen.state == (KeyReadFacts("x", "", ("a",)),)
    assert seen.writes == (KeyWritten("y", ("b",)),)


def test_diagnostics_stand_at_their_steps() -> None:
    """Each finding is in the list of the whole, the worst first, and at the step it is about."""
    facts = page_facts(small.node)
    helper = next(step for step in facts.steps if step.name == "helper")
    (number,) = helper.issues
    assert number == 0
    issue = facts.issues[number]
    assert (issue.severity, issue.step, issue.key) == ("error", "helper", "intnt")
    assert 'Did you mean "intent"?' in issue.hint


def test_two_agents_of_one_name() -> None:
    """The error for a tree that cannot be drawn gives the reason."""
    with pytest.raises(DuplicateNameError, match="same"):
        to_html((Agent("same") >> Agent("same").instruct("other")).node)


@given(st.text())
def test_no_text_can_leave_its_place(text: str) -> None:
    """Whatever an instruction or a message holds, the page has its own scripts and style and no more."""
    tree = Agent("a").instruct(text + "</script><script>alert(1)</script>") >> S.set(x=1).tap(good_enough)
    page = to_html(tree.named("line").node)
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert page.count("<style") == 1
    assert "</script><script>alert(1)</script>" in data_of(page)["steps"][1]["prompt"]["text"]


def test_the_page_refers_to_nothing_outside() -> None:
    """No address, import or file is named in the page but the namespace of SVG."""
    page = to_html(small.node).replace("http://www.w3.org/2000/svg", "")
    assert not re.search(
        r"https?:|//|@import|url\((?!#)|src=|href=", re.sub(r"^\s*//.*$", "", page, flags=re.M)
    )
