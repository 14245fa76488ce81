"""Names of keys that an f-string puts into an instruction, where the value was meant."""

from __future__ import annotations

import ast
import linecache
import sys
from dataclasses import dataclass
from enum import Enum
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent

from adk_fluent import Agent, P, S, StateSchema
from adk_fluent.adopt import adopt
from adk_fluent.contracts import check_all, check_formatted_keys
from adk_fluent.expr.base import Expr
from tests.contracts import pipelines

INTENT = "intent"
MOOD = "mo" + "od"
Many = "intent"
Many = "mood"
PROMPT = f"Handle the {INTENT} in case 1."
TEMPLATE = "Handle the {} in case 2."


class Desk(StateSchema):
    """The state of a desk."""

    intent: str


class Keys(Enum):
    """The keys."""

    INTENT = "intent"


class Names:
    """The same."""

    INTENT = "intent"


@dataclass(frozen=True)
class Config:
    """The same once more."""

    key: str = "intent"


CONFIG = Config()
FIRST = Agent("a").instruct("Sort.").writes("intent")


def _local() -> str:
    key = "intent"
    return f"Handle the {key} in case 4."


def _given(key: str) -> str:
    return f"Care for the {key} by all means."


def found(expression: Expr[Any], **options: Any) -> list[tuple[str, str | None]]:
    """The agents and keys of the findings."""
    return [(one.agent, one.key) for one in check_formatted_keys(expression)]


@pytest.mark.parametrize(
    "text",
    [
        f"Handle the {INTENT} in case 5.",
        f"Handle the {Desk.intent} in case 6.",
        f"Handle the {Keys.INTENT.value} in case 7.",
        f"Handle the {Names.INTENT!s} in case 8.",
        f"Handle the {CONFIG.key} in case 9.",
        f"Handle the {pipelines.__name__[:0]}{INTENT} in case 10.",
        PROMPT,
        _local(),
        TEMPLATE.format(INTENT),
        "Handle the {key} in case 11.".format(key=INTENT),  # noqa: UP032  # people write so
        "Handle the {0} in case 12.".format(INTENT),  # noqa: UP030, UP032  # likewise
        "Handle the %s in case 13." % INTENT,  # noqa: UP031  # people write so
        "Handle the %s of %s in case 14." % (INTENT, len(PROMPT)),  # noqa: UP031  # likewise
        "Handle the " + INTENT + " in case 15.",
        "Handle the " + str(Desk.intent) + " in case 16.",
        " ".join(["Handle the", INTENT, "in case 17."]),
        dedent(
            f"""
            Handle the {INTENT}
            in case 18.
            """
        ),
        P.role("A clerk.") + P.task(f"Handle the {INTENT} in case 19."),
        f"<intent>{INTENT}</intent> is what you handle.",
    ],
)
def test_a_constant_that_names_a_key_is_found(text: Any) -> None:
    """However the text is made, the key is reported, and it says where and what to write."""
    (issue,) = check_formatted_keys(FIRST >> Agent("b").instruct(text))
    assert (issue.agent, issue.key) == ("b", "intent")
    assert "(test_templates.py, line " in issue.hint
    assert "{intent}" in issue.hint


@pytest.mark.parametrize(
    "expression",
    [
        FIRST >> Agent("b").instruct("Handle the intent with care."),
        FIRST >> Agent("b").instruct("You handle the intent at once."),
        FIRST >> Agent("b").instruct(f"Handle the {INTENT}: {{{INTENT}}} at once, all of it."),
        FIRST >> Agent("b").instruct(f"Handle the {INTENT} of this.").reads("intent"),
        FIRST >> Agent("b").instruct(f"Improve the {INTENT} you see.").writes("intent"),
        FIRST >> Agent("b").instruct(f'Answer with the field "{INTENT}" of it.'),
        FIRST >> Agent("b").instruct(f"Write the file {INTENT}.txt for me."),
        FIRST >> Agent("b").instruct(f"Mind the {Many} of this person."),
        FIRST >> Agent("b").instruct(f"Tell my {INTENT}s to me."),
        Agent("a").instruct("Sort.").writes("other") >> Agent("b").instruct(f"Find the {INTENT} in it."),
        Agent("b").instruct(f"Find out the {INTENT} first.") >> FIRST,
        Agent("intent").writes("intent") >> Agent("b").instruct(f"Ask the {INTENT} agent for it."),
        FIRST >> Agent("b").instruct(_given("intent")),
        *(FIRST >> Agent("b").instruct(f"Look for the {word} here.") for word in ["intent", "mood"]),
    ],
)
def test_ordinary_texts_are_not_reported(expression: Expr[Any]) -> None:
    """A word, a name that the agent has to do with, and a value that may differ are no fault."""
    codes = {issue.code for issue in check_all(expression).issues}
    assert "formatted-key" not in codes


def test_a_key_that_only_may_be_there_is_not_reported() -> None:
    """Only what a placeholder would certainly find counts, or what the state has from the start."""
    maybe = S.when("user:x", S.set(mood="cross"))
    assert found(maybe >> Agent("b").instruct(f"Handle my {MOOD} at once.")) == []
    told = Agent("b").instruct(f"Handle my {MOOD} at once.")
    assert [issue.key for issue in check_all(told, state={"mood": "cross"}).warnings] == ["mood"]


def test_agents_made_with_adk_are_read_too() -> None:
    """The text of an adopted agent is looked up as any other."""
    told = LlmAgent(name="b", model="gemini-2.5-flash", instruction=f"Handle the {INTENT} of ADK.")
    assert found(FIRST >> adopt(told)) == [("b", "intent")]


def test_code_without_source_gives_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of code without a file is silent; with its source it is reported."""
    source = 'KEY = "intent"\ntext = f"Sort out every {KEY} now."\n'
    module = ModuleType("unread")
    exec(source, vars(module))
    monkeypatch.setitem(sys.modules, "unread", module)
    pipeline = FIRST >> Agent("b").instruct(module.__dict__["text"])
    assert found(pipeline) == []
    module.__file__ = "unread.py"
    monkeypatch.setitem(
        linecache.cache, "unread.py", (len(source), None, source.splitlines(keepends=True), "unread.py")
    )
    again = FIRST >> Agent("c").instruct(module.__dict__["text"])
    assert found(again) == [("c", "intent")]


def test_only_files_with_the_words_of_the_text_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may have thousands of modules; one word of the text beside a quote is not enough."""
    parsed: list[object] = []
    parse = ast.parse

    def noted(source: Any, *args: Any, **more: Any) -> Any:
        parsed.append(source)
        return parse(source, *args, **more)

    monkeypatch.setattr(ast, "parse", noted)
    sources = {
        "near": 'KEY = "intent"\nLABEL = f"no {KEY}"\nTEXT = "mind the "\n',
        "made": 'KEY = "intent"\ntext = ("Now mind " f"no {KEY} of it.")\n',
    }
    for name, source in sources.items():
        module = ModuleType(f"module_{name}")
        exec(source, vars(module))
        module.__file__ = f"{name}.py"
        monkeypatch.setitem(sys.modules, module.__name__, module)
        lines = source.splitlines(keepends=True)
        monkeypatch.setitem(linecache.cache, f"{name}.py", (len(source), None, lines, f"{name}.py"))
    text = sys.modules["module_made"].__dict__["text"]
    assert found(FIRST >> Agent("b").instruct(text)) == [("b", "intent")]
    assert [name for name, source in sources.items() if source in parsed] == ["made"]
