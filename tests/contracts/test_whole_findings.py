"""Findings word for word: what was found about which agent, how bad it is, why, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools import AgentTool

from adk_fluent import Agent, C, FanOut, Pipeline, Route, S, T, transfer
from adk_fluent.contracts import ContractReport, check_all
from adk_fluent.expr.base import Expr
from tests.contracts.corpus.cases import Case, get_news, get_weather
from tests.contracts.corpus.texts import CASES, text_of, texts, title

BOOK = texts()


@pytest.mark.parametrize("case", CASES, ids=title)
def test_the_whole_text_of_what_is_found(case: Case) -> None:
    """The book holds severity, code, agent, key, message and hint of each finding about a pipeline."""
    assert text_of(case) == BOOK[title(case)]


def test_the_book_holds_the_corpus_and_no_more() -> None:
    """No text is left of a pipeline that is gone, and no two pipelines share one."""
    titles = [title(case) for case in CASES]
    assert sorted(titles) == sorted(BOOK)


# --- families that a table of pipelines cannot hold ------------------------------------------------


def mystery(state: Mapping[str, Any]) -> dict[str, Any]:
    """A function that neither says nor shows what it touches."""
    return dict(state)


def looks(state: Mapping[str, Any]) -> bool:
    """A predicate that neither says nor shows what it reads."""
    return len(state) > 3


class Nameless:
    """Something to call that has no name."""

    def __call__(self, state: Mapping[str, Any]) -> dict[str, Any]:
        return dict(state)


class Named(Nameless):
    """Something to call that has one, as tools have."""

    name = "clerk"


DECLARE = 'Declare it: @declares(reads=["..."], writes=["..."]) from adk_fluent.state.'


@pytest.mark.parametrize(
    ("expression", "what", "about"),
    [
        (Pipeline(mystery), "mystery in mystery reads or writes", ""),
        (Agent("a").proceed_if(looks), "looks in route reads", ""),
        (Agent("a") >> Pipeline(Nameless()), "Nameless in transform reads or writes", ""),
        (Agent("a") >> Pipeline(Named()), "clerk in transform reads or writes", ""),
        (
            Pipeline(mystery) >> Agent("b").instruct("{y} {x} {user:z} {x?}"),
            "mystery in mystery reads or writes",
            " So it is unknown whether 'x', 'y' will be in state.",
        ),
        (
            Agent("a").proceed_if(looks) >> mystery,
            "looks in route, mystery in mystery reads or writes",
            "",
        ),
    ],
    ids=["a function", "a predicate", "no name", "a name of its own", "before reads", "both"],
)
def test_one_sentence_names_what_is_unknown(expression: Expr[Any], what: str, about: str) -> None:
    """The note names the functions, each with its step, and the keys of the session that they leave open."""
    (note,) = [issue for issue in check_all(expression).infos if issue.code == "unknown-access"]
    assert str(note) == (
        f"⚠ What {what} is unknown: INFO\n"
        f"  The source of these functions does not show it.{about}\n  {DECLARE}"
    )
    assert note.key == ("x" if about else None)


@pytest.mark.parametrize("count", range(1, 9))
def test_five_unknown_functions_are_named_and_the_rest_counted(count: int) -> None:
    """However many steps are unknown, the note is one line: five of them in order, and how many more."""
    (note,) = check_all(Pipeline("p", *[mystery] * count)).infos
    names = ["mystery", *(f"mystery_{number}" for number in range(2, count + 1))]
    shown = ", ".join(f"mystery in {name}" for name in names[:5])
    more = f" and {count - 5} more" if count > 5 else ""
    assert (note.agent, note.message) == ("mystery", f"What {shown}{more} reads or writes is unknown")


def test_a_type_is_looked_at_where_a_key_may_be_missing() -> None:
    """A key that is written on one branch only, and compared with the wrong type, is reported for both."""
    sometimes = Agent("c").writes("k") >> Route("k").eq("a", S.set(n=3)).otherwise(Agent("o"))
    report = check_all(sometimes >> Route("n").gt("5", Agent("x")).otherwise(Agent("y")))
    assert str(ContractReport((*report.errors, *report.warnings))) == (
        "✗ route_2 cannot use \"n\": the test n > '5' raises, and set gives an int: ERROR\n"
        "  Compare with the number: gt(5, ...).\n"
        '⚠ Route("n") (route_2) reads "n": WARN\n'
        "  \"n\" is written only when k == 'a' ('set') runs, by set.\n"
        "  Give it a value before with S.default(n=...)."
    )


def test_calls_of_an_agent_that_never_runs_are_not_missed() -> None:
    """An agent after an unconditional transfer makes no tool calls that a context could leave out."""
    caller = Agent("caller").instruct("Call.").tool(get_weather)
    late = Agent("late").instruct("Call.").tool(get_news).context(C.none())
    assert [issue.code for issue in check_all(caller >> late).infos] == ["tool-history"]
    report = check_all(transfer("late") >> caller >> late)
    assert [issue.code for issue in (*report.warnings, *report.infos)] == ["unreachable-branch"]


@pytest.mark.parametrize("keys", [("x",), ("x", "y"), ("x", "y", "z")], ids=len)
def test_each_key_that_two_branches_write_has_one_warning(keys: tuple[str, ...]) -> None:
    """Three branches that all write the same keys give one warning per key, about the first two of them."""
    branches = [S.set(**dict.fromkeys(keys, 1)).named(f"s{number}") for number in range(3)]
    warnings = check_all(FanOut("all", *branches)).warnings
    assert [(issue.key, issue.message) for issue in warnings] == [
        (key, f's0 and s1 both write "{key}" at the same time') for key in keys
    ]


def test_transfers_are_left_alone_while_two_agents_share_a_name() -> None:
    """If two agents share a name, the target of a transfer is open, so only the clash is reported."""
    twins = Agent("a").instruct("x") >> Agent("a").instruct("y")
    report = check_all(Pipeline("p", twins, transfer("p")))
    assert [issue.code for issue in report.errors] == ["duplicate-name"]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("aside", [False, True], ids=["a ring", "a ring with a tail"])
def test_transfers_in_a_ring_never_end(count: int, aside: bool) -> None:
    """However many transfers lead back to each other, each of them is reported; one into them is not."""
    ring = [
        Pipeline(f"p{n}", Agent(f"a{n}"), transfer(f"p{(n + 1) % count}").named(f"t{n}"))
        for n in range(count)
    ]
    tail = [Pipeline("tail", Agent("b"), transfer("p0").named("in"))] if aside else []
    errors = check_all(Pipeline("all", *tail, *ring)).errors
    assert [(issue.code, issue.agent, issue.message) for issue in errors] == [
        (
            "endless-transfer",
            f"t{n}",
            f't{n} hands over to "p{(n + 1) % count}", which always leads back to it',
        )
        for n in range(count)
    ]


def as_it_is(tool: Any) -> Any:
    """The same tool."""
    return tool


def in_time(tool: Any) -> Any:
    """The same tool with a limit of time."""
    return T.timeout(tool, 5)


@pytest.mark.parametrize("wrap", [as_it_is, in_time], ids=["plain", "wrapped"])
def test_an_agent_tool_of_adk_gets_advice_that_can_be_followed(wrap: Callable[[Any], Any]) -> None:
    """No one can declare the keys of ADK's `AgentTool`; `T.agent` of its agent is read by the check."""
    expert = LlmAgent(name="expert", model="m", instruction="Answer.", output_key="fact")
    reader = Agent("b").instruct("Use {fact}.")
    (note,) = check_all(Agent("a").instruct("Ask.").tools(wrap(AgentTool(expert))) >> reader).infos
    assert note.hint == (
        "The check does not read an agent inside ADK's AgentTool. So it is unknown whether 'fact' will be in "
        "state.\nGive the agent of expert to T, and the check reads it: .tools(T.agent(agent))."
    )
    followed = check_all(Agent("a").instruct("Ask.").tools(wrap(T.agent(expert))) >> reader)
    assert "unknown-access" not in {issue.code for issue in followed.issues}


def test_functions_and_agent_tools_are_advised_apart() -> None:
    """If both are unknown, the note says how to declare a function, and what to do with an agent."""
    expert = AgentTool(LlmAgent(name="expert", model="m", instruction="Answer."))
    (note,) = [
        one for one in check_all(Agent("a").tools(expert) >> mystery).infos if one.code == "unknown-access"
    ]
    assert DECLARE in str(note)
    assert ".tools(T.agent(agent))" in str(note)
