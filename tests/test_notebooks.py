"""Notebook output of expressions, reports and runs: pictures, and tables without scripts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from adk_fluent import Agent, Pipeline, Route, S, gate
from adk_fluent.errors import RunError
from adk_fluent.testing import call_tool, mock_backend
from tests.backends.support import failing

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> & \"quoted\" 'text' $x$ ]]>"
TAGS = {"div", "table", "thead", "tbody", "tr", "th", "td", "pre"}


class Shown(HTMLParser):
    """The tags of a page, its text, and its tables as rows of cells; anything unexpected fails."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == [], "something is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        given = dict(attrs)
        assert set(given) <= {"class", "style"}
        assert not re.search(r"(?<!-)color:|background:(?!rgba)|url\(", given.get("style") or "")
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def shown(value: Any) -> Shown:
    """The table that a notebook shows for a value."""
    return Shown(value._repr_html_())


def look(city: str) -> str:
    """Look a city up."""
    return f"{city}: {HOSTILE}"


writer = Agent("writer", "gemini-2.5-flash").instruct(f"Write about {{topic}}. {HOSTILE}").writes("draft")
editor = Agent("editor").instruct("Shorten {draft}.").describe(HOSTILE).tool(look)
pipeline = writer >> editor


# --- pictures -------------------------------------------------------------------------------------


routed = Route("k").eq(HOSTILE, writer)
EXPRESSIONS = [writer, pipeline, writer | editor, writer * 2, writer // editor, S.set(x=1), routed]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=lambda expression: type(expression).__name__)
def test_an_expression_shows_itself_as_its_picture(expression: Any) -> None:
    """An expression on the last line of a cell is drawn, with Mermaid and plain text beside the image."""
    bundle = expression._repr_mimebundle_()
    assert set(bundle) == {"image/svg+xml", "text/vnd.mermaid", "text/plain"}
    assert bundle["image/svg+xml"] == expression.visualize("svg")
    assert bundle["text/vnd.mermaid"] == expression.visualize("mermaid")
    assert bundle["text/plain"] == repr(expression)
    drawn = ElementTree.fromstring(bundle["image/svg+xml"])
    tags = {element.tag.rpartition("}")[2] for element in drawn.iter()}
    assert "script" not in tags
    assert "img" not in tags


def test_what_cannot_be_drawn_yet_shows_its_text() -> None:
    """Two agents of one name cannot be drawn; a notebook still shows the expression."""
    clash = Agent("a").instruct("x") >> Agent("a").instruct("y")
    assert clash._repr_mimebundle_() == {"text/plain": repr(clash)}  # pyright: ignore[reportPrivateUsage]  # the name is Jupyter's


# --- tables ---------------------------------------------------------------------------------------


def test_a_report_is_a_table_of_findings() -> None:
    """`check()` counts the findings and lists each with agent, key and what to do; promises are left out."""
    page = shown(pipeline.check())
    assert page.text[0] == "1 error, 1 note"
    assert page.rows[0] == ["", "agent", "key", "finding", "what to do"]
    assert page.rows[1][:4] == ["✗", "writer", "topic", "writer reads {topic} in instruction"]
    assert page.rows[1][4].startswith('No step writes "topic"')
    assert [row[0] for row in page.rows[1:]] == ["✗", "⚠"]


def test_a_report_without_findings_says_so() -> None:
    """A pipeline that is fine gets one line."""
    report = Agent("a").instruct("Help.").check()
    assert shown(report).text == ["✓ No problems found"]
    assert shown(report).rows == []


def test_an_anatomy_is_a_table_per_agent() -> None:
    """`llm_anatomy()` shows each agent's six lines under its name, and so does one agent alone."""
    found = pipeline.llm_anatomy()
    page = shown(found)
    lines = ["System", "History", "Context", "Tools", "Constraint", "After"]
    assert [row[0] for row in page.rows] == lines * 2
    assert page.rows[0][1] == f'"Write about {{topic}}. {HOSTILE}"'
    assert page.rows[9] == ["Tools", "look"]
    assert [text for text in page.text if text in ("writer", "editor")] == ["writer", "editor"]
    assert shown(found["editor"]).rows == page.rows[6:]


def test_a_data_flow_is_a_table_per_agent() -> None:
    """`data_flow()` shows each agent's five concerns."""
    page = shown(pipeline.data_flow())
    assert [row[0] for row in page.rows] == ["reads", "accepts", "returns", "writes", "contract"] * 2
    assert page.rows[3] == ["writes", "state['draft']"]


def test_an_explanation_is_outline_tables_and_findings() -> None:
    """`explain()` shows the shape, each agent, and what the check finds."""
    page = shown(pipeline.explain())
    assert "writer (agent) topic → draft" in page.text[0]
    assert ["description", HOSTILE] in page.rows
    assert ["model", "gemini-2.5-flash"] in page.rows
    assert page.rows[-2][:3] == ["✗", "writer", "topic"]


def test_an_empty_collection_is_text() -> None:
    """A pipeline without an agent has no tables to show."""
    assert shown(S.set(x=1).llm_anatomy()).text == ["There is no agent here."]


async def test_a_run_is_readable() -> None:
    """A result shows the answer, who said and did what for whom, and the state after it."""
    backend = mock_backend({"writer": "A draft.", "editor": [call_tool("look", city="Rome"), HOSTILE]})
    steps = S.set(topic={"of": [1, HOSTILE]}) >> pipeline >> S.drop("topic")
    result = await steps.run("hi", backend=backend)
    page = shown(result)
    assert page.text[:2] == ["Answer", HOSTILE]
    events = page.rows[1:]
    assert ["writer", "internal", "A draft.", "draft = A draft."] in events
    assert ["editor", "user", "calls look(city=Rome)", ""] in events
    assert ["editor", "user", HOSTILE, ""] in events
    assert any(row[2].startswith("look gave {") and "onerror" in row[2] for row in events)
    assert ["set", "zero_cost", "", page.rows[1][3]] == page.rows[1]
    assert page.rows[1][3].startswith('topic = {"of": [1, "<script>')
    assert ["draft", "A draft."] in events
    assert "topic removed" in [row[3] for row in events if len(row) == 4]


async def test_a_run_that_waits_or_failed_says_so() -> None:
    """The table of a run lists the questions it waits for, and the errors of failure events."""
    waiting = await gate(lambda state: True, message=f"Send it? {HOSTILE}").run("hi", backend=mock_backend())
    assert shown(waiting).rows[-1][:3] == ["gate", "approval", f"Send it? {HOSTILE}"]
    with pytest.raises(RunError) as failed:
        await Agent("a").run("hi", backend=mock_backend({"a": failing("SAFETY", HOSTILE)}))
    assert ["a", "user", f"error: SAFETY: {HOSTILE}", ""] in shown(failed.value.result).rows


async def test_a_preview_is_text() -> None:
    """Requests are shown as their text, in the order of the calls."""
    found = await Pipeline(writer, editor).preview("hi", state={"topic": HOSTILE})
    assert "".join(shown(found).text).startswith("1. writer (gemini-2.5-flash)")


def test_long_texts_are_cut() -> None:
    """A cell holds only a part of a long text."""
    page = shown(Agent("a").instruct("x" * 10_000).llm_anatomy())
    assert len(page.rows[0][1]) == 2_000
    assert page.rows[0][1].endswith("…")
