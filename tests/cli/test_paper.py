"""Writing text as it comes: wrapped, indented, harmless; and the view on top of it."""

from __future__ import annotations

import io

import pytest

from adk_fluent.backends.events import AgentEvent
from adk_fluent.cli.paper import Paper, Style, paper
from adk_fluent.cli.screen import Screen, brief
from adk_fluent.ir import AgentNode
from tests.cli.commands import ROOT, Cli


def sheet(width: int | None) -> tuple[Paper, io.StringIO]:
    """Paper that can be read."""
    stream = io.StringIO()

    def put(text: str, style: Style) -> None:
        stream.write(text)

    return Paper(stream, width, put), stream


def test_words_stay_whole_however_the_pieces_come() -> None:
    """Text in pieces wraps like text in one, at the width, every line indented."""
    pieces, written = sheet(20)
    for piece in ("one tw", "o thr", "ee four", " five", " six"):
        pieces.say(piece, indent=2)
    pieces.end()
    assert written.getvalue() == "  one two three four\n  five six\n"


def test_lines_and_indentation_of_code_are_kept() -> None:
    """New lines, and white space at their beginning, are the author's."""
    whole, written = sheet(None)
    whole.say("def f():\n    return  1\n\nf()", indent=2)
    whole.end()
    assert written.getvalue() == "  def f():\n      return  1\n\n  f()\n"


def test_a_word_wider_than_the_line_is_not_cut() -> None:
    """A long word stands on a line of its own."""
    narrow, written = sheet(8)
    narrow.say("a incomprehensible b")
    narrow.end()
    assert written.getvalue() == "a\nincomprehensible\nb\n"


@pytest.mark.parametrize("steering", ["\x1b[2J", "\x1b[31;1m", "\x07", "\x9b", "\x7f", "\r"])
def test_nothing_steers_the_terminal(steering: str) -> None:
    """Escape sequences and control characters vanish, in running text and in lines."""
    whole, written = sheet(None)
    whole.say(f"a{steering}b")
    whole.line((f"c{steering}d", "agent"))
    assert written.getvalue() == "ab\ncd\n"


def test_a_pipe_gets_plain_text() -> None:
    """A stream that is no terminal gets unwrapped text without colour."""
    stream = io.StringIO()
    plain = paper(stream)
    plain.line(("x" * 200, "bad"))
    assert plain.width is None
    assert stream.getvalue() == "x" * 200 + "\n"


def test_siblings_are_held_back_until_the_speaker_is_done() -> None:
    """Pieces of two branches that come in turns are shown branch by branch, nothing lost."""
    out, written = sheet(None)
    screen = Screen(out, AgentNode(name="a"))
    for author, text, partial in [
        ("a", "one ", True),
        ("b", "eins ", True),
        ("a", "two", True),
        ("b", "zwei", True),
        ("b", "eins zwei", False),
        ("a", "one two", False),
    ]:
        screen.show(AgentEvent(author, text, is_partial=partial, is_final=not partial, branch=author))
    screen.end()
    assert written.getvalue() == "● a\n  one two\n\n● b\n  eins zwei\n"


def test_a_speaker_that_never_ends_does_not_hold_back_the_rest() -> None:
    """When a run stops in the middle, what siblings said so far is still shown."""
    out, written = sheet(None)
    screen = Screen(out, AgentNode(name="a"))
    for author, text in (("a", "one "), ("b", "eins "), ("b", "zwei ")):
        screen.show(AgentEvent(author, text, is_partial=True, branch=author))
    screen.end()
    assert written.getvalue() == "● a\n  one\n\n● b\n  eins zwei\n"


def test_a_failed_speaker_gives_way_on_its_own_branch() -> None:
    """The next agent of the same branch starts a line of its own after one that broke off."""
    out, written = sheet(None)
    screen = Screen(out, AgentNode(name="a"))
    screen.show(AgentEvent("a", "half an", is_partial=True))
    screen.show(AgentEvent("b", "whole", is_final=True))
    screen.end()
    assert written.getvalue() == "● a\n  half an\n\n● b\n  whole\n"


def test_brief_values() -> None:
    """A state value is shown on one line of at most sixty characters."""
    assert brief({"a": "ü"}) == '{"a": "ü"}'
    assert brief("two\n lines") == "two lines"
    assert len(brief("x" * 1000)) == 60


def test_the_example_is_a_target(cli: Cli) -> None:
    """`examples/support.py` is drawn without an attribute's name."""
    assert 'route -->|"booking"| booking' in cli("viz", ROOT / "examples" / "support.py").out
