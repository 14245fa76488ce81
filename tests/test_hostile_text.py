"""Text from users, models and files costs time in proportion to its length, whatever stands in it."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import adk_fluent
from adk_fluent import Agent, C, P, Route, S, gate
from adk_fluent.cli.pairs import pairs
from adk_fluent.cli.paper import Paper
from adk_fluent.cli.screen import brief
from adk_fluent.context.entries import Entry, Rejected
from adk_fluent.context.selection import Selection, scene_of, select, selecting
from adk_fluent.context.spec import Context
from adk_fluent.errors import ADKFluentError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import from_dict, ir_hash, to_dict
from adk_fluent.ir.graph import check_name
from adk_fluent.ir.predicates import Match
from adk_fluent.ir.state_keys import is_key
from adk_fluent.ir.template import Placeholder, is_portable, segments
from adk_fluent.local.messages import without_fences
from adk_fluent.spelling import Spelling, did_you_mean
from adk_fluent.viz.images import escape
from adk_fluent.viz.shapes import text_width, wrapped
from tests.hostile import ENDS, Steps, lines_run, texts
from tests.sampling import every

pytestmark = pytest.mark.newest  # the same on every release

SOURCE = Path(adk_fluent.__file__).parent
SIZE, TIMES = 40, 4


def not_linear(cost: Callable[[str], int], ends: tuple[tuple[str, str], ...] = ENDS) -> list[str]:
    """The texts of which one that is four times as long costs more than about four times as much."""
    both = zip(texts(SIZE, 1, ends), texts(SIZE, TIMES, ends), strict=True)
    return [small[:20] for small, large in both if cost(large) > 1.3 * TIMES * cost(small) + 200]


# --- regular expressions --------------------------------------------------------------------------


def patterns() -> Iterator[tuple[str, int]]:
    """Every regular expression that the library writes down, with its flags."""
    sources = (path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py")))
    for source in filter(re.compile(r"\bre\.").search, sources):  # to parse all of them takes long
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."):
                pattern = node.args[0] if node.args else None
                if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str):
                    yield pattern.value, re.DOTALL if "DOTALL" in ast.unparse(node) else 0


PATTERNS = sorted(set(patterns()))


def test_the_patterns_are_found() -> None:
    """The search finds the grammar of templates, and more."""
    assert any("{" in pattern for pattern, _ in PATTERNS)
    assert len(PATTERNS) > 8


@pytest.mark.parametrize(("pattern", "flags"), PATTERNS)
def test_regular_expressions_take_linear_time(pattern: str, flags: int) -> None:
    """No pattern of the library goes back and forth over hostile text."""
    assert not_linear(Steps(pattern, flags).over) == []


@pytest.mark.parametrize("expression", every(8, PATTERNS, before_changes=4), ids=repr)
def test_the_steps_are_counted_of_the_same_matches(expression: tuple[str, int]) -> None:
    """The matcher that counts steps finds the same matches as Python."""
    pattern, flags = expression
    steps = Steps(pattern, flags)
    for text in texts(12):
        steps.over(text)
        assert steps.spans == [match.span() for match in re.finditer(pattern, text, flags)]


@pytest.mark.parametrize("slow", [r"(\{+)[^{}]*(\}+)", r"```\s*(.*?)```", r"\s+$"])
def test_a_slow_pattern_would_be_noticed(slow: str) -> None:
    """The count tells patterns that take quadratic time or more."""
    assert not_linear(Steps(slow, re.DOTALL).over) != []


# --- what Python does -----------------------------------------------------------------------------


def entries(text: str) -> list[Entry]:
    """A conversation in which an agent says a text, and the user another."""
    return [
        Entry(author="user", text="go", turn=1, index=0),
        Entry(author="a", text=text, turn=1, index=1),
        Entry(author="a", text=text + "x", turn=1, index=2),
        Entry(author="user", text="on", turn=2, index=3),
    ]


def seen(spec: Context) -> Callable[[str], object]:
    """Evaluating a spec on that conversation."""
    return lambda text: select(spec, entries(text), agent="me")


class Found(BaseModel):
    a: int = 0


def answered(spec: Context) -> Callable[[str], object]:
    """Evaluating a spec whose helper model answers with a text; what it says to that, or selects."""

    def evaluate(text: str) -> object:
        asking = selecting(spec, scene_of(entries("x"), agent="me", now=0))
        next(asking)
        try:
            return asking.send(text)
        except StopIteration as done:
            return done.value

    return evaluate


RELEVANT = answered(C.relevant(query="q", top_k=1))
EXTRACT = answered(C.extract(Found, into="k"))


def written(text: str) -> None:
    """Write a text on a terminal, whole and in pieces."""
    paper = Paper(io.StringIO(), 60, lambda piece, style: None)
    paper.paragraph(text)
    for piece in text:
        paper.say(piece)
    paper.end()


def pipeline(text: str) -> Expr[Any]:
    """A pipeline with a text wherever one can stand."""
    agent = Agent("a").instruct(text).describe(text).writes("k").context(C.template(text))
    route = Route("k").eq(text, Agent("b").reads(f"k{text}"))
    return agent >> gate(is_asked, message=text) >> route >> S.set(x=text)


def is_asked(state: object) -> bool:
    """A predicate."""
    return True


def prompt(text: str) -> str:
    """A prompt with a text wherever one can stand."""
    return (P.task(text) + P.section(f"x{text}", text) + P.when("k", P.role(text))).render({"k": 1})


PARSERS: dict[str, Callable[[str], object]] = {
    "template": lambda text: segments.__wrapped__(text),
    "portable": lambda text: is_portable.__wrapped__(text),
    "prompt": prompt,
    "fingerprint": lambda text: P.versioned(P.task(text), tag=text).fingerprint,
    "key": is_key,
    "name": check_name,
    "attribute": lambda text: getattr(Agent("a"), f"x{text}"),
    "nearest name": lambda text: did_you_mean(text, ["instruct", text[1:], f"{text}x"]),
    "spelling": lambda text: (Spelling([text, "draft"]).like(f"{text}x"), Spelling(["k"]).like(text)),
    "comparison": lambda text: [Match("k", op, "1")({"k": text}) for op in ("eq", "contains")],
    "number": lambda text: Match("k", "eq", 1)({"k": text}),
    "stored graph": lambda text: from_dict(json.loads(json.dumps(to_dict(Agent("a").instruct(text).node)))),
    "stored name": lambda text: from_dict({"version": 1, "root": {"$ref": text}}),
    "stored tag": lambda text: from_dict({"version": 1, "root": {text: text}}),
    "hash": lambda text: ir_hash(Agent("a").instruct(text).node),
    "option": lambda text: pairs("--state", [f"a={text}", f"{text}=1", text]),
    "paper": written,
    "brief": brief,
    "fences": without_fences,
    "extracted": EXTRACT,
    "relevant": RELEVANT,
    "shown template": seen(C.template("{a} \\{b}") + C.default()),
    "dedup": seen(C.dedup("normalized")),
    "alike": seen(C.dedup("semantic")),
    "compact": seen(C.compact()),
    "truncate": seen(C.truncate(max_tokens=9)),
    "budget": seen(C.budget(9)),
    "redact": seen(C.redact("secret")),
    "wrapped": lambda text: wrapped(text, 20),
    "width": lambda text: text_width(text, 9),
    "escaped": escape,
}
WHOLE: dict[str, Callable[[str], object]] = {
    "check": lambda text: str(pipeline(text).check()),
    "explain": lambda text: str(pipeline(text).explain()),
    "mermaid": lambda text: pipeline(text).visualize("mermaid"),
    "svg": lambda text: pipeline(text).visualize("svg"),
    "html": lambda text: pipeline(text).visualize("html"),
    "build": lambda text: pipeline(text).build(),
}


def doubled(text: str) -> None:
    """Go through a text for each of its braces."""
    for character in text:
        if character == "{":
            for _ in text:
                pass


def lines(call: Callable[[str], object]) -> Callable[[str], int]:
    """The lines that a call runs, whether or not it refuses the text."""

    def run(text: str) -> None:
        with suppress(ADKFluentError, AttributeError):
            call(text)

    return lambda text: lines_run(run, text)


@pytest.mark.parametrize("parser", PARSERS)
def test_parsers_take_linear_time(parser: str) -> None:
    """A parser runs a number of lines in proportion to the length of the text, or refuses it."""
    cost = lines(PARSERS[parser])
    cost("{once}, for what is imported and kept")
    assert not_linear(cost) == []


def test_a_slow_parser_would_be_noticed() -> None:
    """The count tells loops within loops."""
    assert not_linear(lines(doubled)) != []


@pytest.mark.parametrize("what", WHOLE)
def test_whole_pipelines_take_linear_time(what: str) -> None:
    """Checking, explaining, drawing and building a pipeline do so, too, wherever the text stands in it."""
    lines(WHOLE[what])("once, for what is imported and kept")
    assert not_linear(lines(WHOLE[what]), (("", ""),)) == []


# --- and what it does not do ----------------------------------------------------------------------


@given(st.text(alphabet="{}\\$a?: ", max_size=14))
def test_templates_mean_what_they_meant(text: str) -> None:
    """The grammar that takes one pass finds the placeholders of the plain one that goes back and forth."""
    found: list[str | Placeholder] = []
    position = 0
    for match in re.finditer(r"([\\$]?)(\{+)([^{}]*)(\}+)", text):
        (inner,) = segments(f"{{{match[3]}}}")
        if isinstance(inner, Placeholder) and match[1] != "$":
            found.append(text[position : match.start()])
            position = match.end()
            pairs_of = min(len(match[2]), len(match[4]))
            plain = (match[0][1:],) if match[1] else (match[2][pairs_of:], inner, match[4][pairs_of:])
            found += plain
    found.append(text[position:])
    joined: list[str | Placeholder] = []
    for piece in found:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        else:
            joined.append(piece)
    assert segments(text) == tuple(piece for piece in joined if piece != "")


def test_long_words_are_no_slips() -> None:
    """A name that is longer than names are is not compared letter by letter."""
    long = "k" * 101
    assert did_you_mean(long, [f"{long}x"]) == ""
    assert did_you_mean("k" * 100, ["k" * 99]) != ""
    assert Spelling([long]).like(f"{long}x") is None
    assert Spelling([long]).meant(long.upper()) == long
    assert Spelling(["k" * 99]).meant("k" * 100) == "k" * 99


@pytest.mark.parametrize("text", ["{" * 1000, "x " + "{" * 1000 + "name}"])
async def test_adk_gets_no_template_that_takes_it_minutes(text: str) -> None:
    """Older releases of ADK go back and forth over long runs of braces, so such a text is rendered here."""
    assert not is_portable(text)
    built: Any = Agent("a").instruct(text).build()
    assert callable(built.instruction)
    preview = await Agent("a").instruct(text).preview("hi", state={"name": "Ann"})
    config: Any = preview["a"][0].config
    assert str(config.system_instruction).startswith(text.replace("{name}", "Ann"))


def test_what_is_cut_off_a_label_is_not_wrapped() -> None:
    """A label shows the beginning of its text, whatever follows, and how far it follows does not matter."""
    beginning = "word " * 60
    assert wrapped(beginning + "!" * 9, 20) == wrapped(beginning + "!" * 99_999, 20)
    assert wrapped("a  b\n c", 20) == ("a b c",)


@pytest.mark.parametrize("value", ["[" * 100_000, '{"a":' * 100_000, "1" * 5_000])
def test_a_value_that_python_reads_no_json_of_is_text(value: str) -> None:
    """On the command line, what is nested too deeply and a number that is too long are text."""
    assert pairs("--state", [f"k={value}"]) == {"k": value}


def test_a_number_that_no_message_has_names_none() -> None:
    """A model that answers with a very long number has chosen nothing, and the selection stays."""
    assert isinstance(RELEVANT("1" * 5_000), Rejected)
    assert isinstance(RELEVANT("2"), Selection)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ('{"a": 1}', True),
        ('```json\n{"a": 1}\n```', True),
        ('```\n{"a": 1}\n```', True),
        ('Here:\n```\n{"a": 1}```\nDone.', True),
        ('```json {"a": 1}', False),
        ("```", False),
        ("``````", False),
    ],
)
def test_a_fence_around_what_is_extracted_is_taken_off(answer: str, found: bool) -> None:
    """The first fenced block of an answer is the answer; without a closing fence it is all of it."""
    result = EXTRACT(answer)
    assert isinstance(result, Selection if found else Rejected)
    if isinstance(result, Selection):
        assert result.writes == (("k", {"a": 1}),)
