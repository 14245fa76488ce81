"""The live view, word by word and style by style: `<faint>` and the like stand for colours."""

from __future__ import annotations

import io
import sys

import pytest

from adk_fluent import Agent, Route
from adk_fluent.backends.events import AgentEvent, Pending, ToolCallInfo, ToolResponseInfo, Usage
from adk_fluent.cli.paper import Paper, Style, paper
from adk_fluent.cli.screen import Screen, brief

ROOT = Route("team").eq("a", Agent("clerk")).otherwise(Agent("other")) >> (Agent("left") | Agent("right"))
LAST = AgentEvent("end", "Done", visibility="internal", id="5", state_delta={"k": 1})
HALF = AgentEvent(
    "other",
    "Half",
    visibility="user",
    id="2",
    error="MAX_TOKENS",
    metadata={"adk_fluent.failed": {"blocked": "SAFETY: no"}},
)
EVENTS = [
    AgentEvent("set", visibility="zero_cost", state_delta={"x": 1, "gone": None}),
    AgentEvent("clerk", "Hel", visibility="internal", is_partial=True),
    AgentEvent("clerk", "lo", visibility="internal", is_partial=True),
    AgentEvent(
        "clerk", "Hello", visibility="internal", state_delta={"draft": "Hello", "n": 2}, usage=Usage(1, 3, 4)
    ),
    AgentEvent(
        "clerk",
        visibility="user",
        tool_calls=[ToolCallInfo("weather", {"city": "Rome", "n": 2}, "c1"), ToolCallInfo("pay", {}, "c2")],
        pending=(Pending("c2", "clerk", "Pay?"),),
    ),
    AgentEvent("clerk", visibility="user", tool_responses=[ToolResponseInfo("weather", {"r": "ü"}, "c1")]),
    AgentEvent("clerk", visibility="user", transfer_to="other"),
    HALF,
    AgentEvent("left", "one ", visibility="user", is_partial=True, branch="l"),
    AgentEvent("right", "eins", visibility="user", branch="r", usage=Usage(1, 1, 1)),
    AgentEvent("left", "two", visibility="user", is_partial=True, branch="l"),
    AgentEvent("left", "one two", visibility="user", branch="l", id="3"),
    LAST,
]

EVERYTHING = """\
<agent>ƒ </><agent>set</>
<faint>  → x = 1</>
<faint>  → gone removed</>

<faint>◆ team: a</>
<agent>● </><agent>clerk</><faint>  internal</>
<faint>  Hello</>
<faint>  → draft, n   7 tokens   6.0 s</>
<faint>  clerk calls weather(city=Rome, n=2)</>
<faint>  weather gave {"r": "ü"}</>
<faint>  » clerk hands over to other</>

<faint>◆ team: otherwise</>
<agent>● </><agent>other</><faint></>
  Half
<faint>  2.0 s</>
<bad>  blocked failed, the next one takes over: SAFETY: no</>
<faint>  cut short: MAX_TOKENS</>

<faint>∥ at the same time: left, right</>
<agent>● </><agent>left</><faint></>
  one two
<faint>  8.0 s</>

<agent>● </><agent>right</><faint></>
  eins
<faint>  2 tokens   4.0 s</>

<agent>● </><agent>end</><faint>  internal</>
<faint>  Done</>
<faint>  → k   2.0 s</>
"""

FOR_THE_USER = """\
<faint>ƒ set   → x, gone</>
<faint>◆ team: a</>
<faint>○ clerk   → draft, n</>
<faint>  clerk calls weather(city=Rome, n=2)</>
<faint>  weather gave {"r": "ü"}</>
<faint>  » clerk hands over to other</>

<faint>◆ team: otherwise</>
<agent>● </><agent>other</><faint></>
  Half
<bad>  blocked failed, the next one takes over: SAFETY: no</>
<faint>  cut short: MAX_TOKENS</>

<faint>∥ at the same time: left, right</>
<agent>● </><agent>left</><faint></>
  one two

<agent>● </><agent>right</><faint></>
  eins

<faint>○ end   → k</>

<agent>● </><agent>end</><faint></>
  Done
"""


def sheet(width: int | None = None) -> tuple[Paper, io.StringIO]:
    """Paper that can be read, its styles as tags."""
    stream = io.StringIO()

    def put(text: str, style: Style) -> None:
        stream.write(f"<{style}>{text}</>" if style != "" else text)

    return Paper(stream, width, put), stream


@pytest.mark.parametrize("verbose", [True, False])
def test_every_kind_of_event_is_shown(verbose: bool) -> None:
    """With a clock and all words, or without times and with what is meant for the user alone."""
    out, written = sheet()
    ticks = iter(range(0, 1000, 2))
    screen = Screen(out, ROOT.to_ir(), (lambda: next(ticks)) if verbose else None, verbose)
    for event in EVENTS:
        screen.show(event)
    screen.end()
    if not verbose:
        screen.answer([HALF, LAST])  # its words were not shown: it spoke to others
    screen.answer([LAST, HALF])
    screen.answer([])
    assert written.getvalue() == (EVERYTHING if verbose else FOR_THE_USER)
    assert screen.usage == Usage(2, 4, 5)


def test_an_answer_for_others_is_shown_once_it_is_the_answer() -> None:
    """What was left out, since it was for others, is shown when nobody else spoke."""
    out, written = sheet()
    screen = Screen(out, Agent("a").to_ir())
    said = AgentEvent("a", "Hi", visibility="internal", id="1", usage=Usage(1, 3, 4))
    screen.show(said)
    screen.answer([said])
    assert written.getvalue() == "<faint>○ a</>\n\n<agent>● </><agent>a</><faint></>\n  Hi\n"


def test_two_siblings_are_held_back() -> None:
    """What two others say meanwhile is shown when the speaker is done, each in one piece; nothing is lost."""
    out, written = sheet()
    screen = Screen(out, Agent("a").to_ir())
    for author, text, partial in [
        ("a", "1", True), ("b", "2", True), ("c", "3", True), ("b", "2", False), ("c", "4", True),
        ("b", "5", False), ("a", "1", False), ("c", "34", False),
    ]:  # fmt: skip
        screen.show(AgentEvent(author, text, visibility="user", is_partial=partial, branch=author))
    screen.end()
    lines = [line for line in written.getvalue().splitlines() if line and "●" not in line]
    assert lines == ["  1", "  2", "  34", "  5"]


def test_routes_and_branches_are_announced() -> None:
    """Before the first step of a branch stands what led to it, for all it stands in; steps stand apart."""
    out, written = sheet()
    inner = Route().when(lambda state: True, Agent("a") | Agent("b")).otherwise(Agent("c"))
    screen = Screen(out, Route("k").eq("x", inner).to_ir(), verbose=True)
    for key, author in (("p", "s"), ("q", "b"), ("r", "c")):
        screen.show(AgentEvent(author, visibility="zero_cost", state_delta={key: "1"}))
    assert written.getvalue().replace("<faint>", "").replace("</>", "").replace("<agent>", "") == (
        "ƒ s\n  → p = 1\n\n◆ k: x\n◆ route: a test\n∥ at the same time: a, b\nƒ b\n  → q = 1\n\n"
        "◆ route: otherwise\nƒ c\n  → r = 1\n"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("two\n lines", "two lines"),
        ({"a": "ü", "b": {1}}, '{"a": "ü", "b": "{1}"}'),
        (None, "null"),
    ],
)
def test_values_are_brief(value: object, shown: str) -> None:
    """A value is one line of at most sixty characters, a cut one ends with an ellipsis."""
    assert brief(value) == shown


# --- paper ----------------------------------------------------------------------------------------


def test_lines_have_the_styles_of_their_pieces() -> None:
    """A piece without a style is plain; a line ends running text that came before."""
    out, written = sheet()
    out.say("running", "bad")
    out.line("plain ", ("good", "good"))
    out.line()
    out.say("two\twords  apart\nthen", "faint", indent=1)
    out.end("strong")
    assert written.getvalue() == (
        "running\nplain <good>good</>\n\n"
        "<faint> two</><faint>    words</><faint>  apart</>\n<strong> then</>\n"
    )


def test_paragraphs_are_wrapped_in_one_style() -> None:
    """A paragraph stands on lines of its own, each indented, no line wider than the paper."""
    out, written = sheet(10)
    out.say("before")
    out.paragraph("aaa bbb ccc ddd", "faint", indent=2)
    out.paragraph("eeee fffff")
    out.paragraph("gggg hhhhhh")
    assert written.getvalue() == (
        "before\n<faint>  aaa</><faint> bbb</>\n<faint>  ccc</><faint> ddd</>\neeee fffff\ngggg\nhhhhhh\n"
    )


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("200", 100)])
def test_a_dumb_terminal_is_wrapped_without_colour(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal that knows no colours gets plain text, at its width or at a hundred columns."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", columns)
    stream = Terminal()
    out = paper(stream)
    out.paragraph("word " * 100, "bad")
    assert out.width == width
    assert max(map(len, stream.getvalue().splitlines())) == width - 1
    assert set(stream.getvalue()) == set("word \n")


@pytest.mark.newest
def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """With rich installed, styles are colours, and nothing in the text is taken for markup."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    stream = Terminal()
    out = paper(stream)
    out.line("[bold]no[/] :smile: 12 ", ("bad", "bad"), ("faint", "faint"))
    out.line("x" * 60)
    assert out.width == 40
    assert stream.getvalue() == (
        f"[bold]no[/] :smile: 12 \x1b[1;31mbad\x1b[0m\x1b[90mfaint\x1b[0m\n{'x' * 60}\n"
    )


def test_a_terminal_without_rich_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rich is not installed, the words are there all the same, wrapped."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    paper(stream).paragraph("one two three four five", "bad")
    assert stream.getvalue() == "one two three four\nfive\n"


def test_words_for_other_agents_are_faint_from_the_first_on() -> None:
    """Each word has the style of its turn as soon as it is written; a piece without words writes none."""
    out, written = sheet(40)
    screen = Screen(out, ROOT.node, None, verbose=True)
    for piece in ("one ", None, "two ", "three"):
        screen.show(AgentEvent("clerk", piece, visibility="internal", is_partial=True))
    screen.end()
    assert written.getvalue().splitlines()[-1] == "<faint>  one</><faint> two</><faint> three</>"
