"""Reports: their contents, text and stored form, and the subjects of a check."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from adk_fluent import Agent, Route, tap
from adk_fluent.analysis.facts import analyse
from adk_fluent.contracts import (
    ContractIssue,
    ContractReport,
    Severity,
    UnresolvedTemplateVar,
    built_in_checks,
    check_all,
    check_contracts,
    check_template_contracts,
    checks,
    register_checker,
    unregister_checker,
)
from adk_fluent.errors import ADKFluentError, ArgumentError, ContractError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import Node, walk

classifier = Agent("classifier").instruct("Sort.").writes("intent")
booker = Agent("booker").instruct("Intent: {intent}")
PIPELINE = classifier >> Route("intent").eq("booking", booker).otherwise(Agent("other"))
PLACE = re.compile(r"@check\(place=(\d+)\)")
PRESENTER = Agent("presenter").instruct("Present {summary}.")


def test_the_lines_read_as_plain_sentences() -> None:
    """A report prints a mark, a sentence and a severity per finding, and below it why and what to do."""
    assert str(check_all(classifier >> booker >> PRESENTER)) == (
        "✗ presenter reads {summary} in instruction: ERROR\n"
        '  No step writes "summary", and it is not in the initial state.\n'
        '  Add .writes("summary") to an agent before it, put S.set(summary=...) or S.capture("summary") in '
        'front, or pass state={"summary": ...}.\n'
        "  If you mean the text {summary}, write \\{summary}.\n"
        '⚠ booker has C.default() with predecessor classifier.outputs("intent"): INFO\n'
        "  booker will see what classifier says in the conversation AND via {intent}.\n"
        "  This is duplication. Consider .context(C.user_only()), "
        '.context(C.exclude_agents("classifier")) or .reads("intent").\n'
        "✓ booker reads {intent} in instruction: OK\n"
        '  State key "intent" is produced by classifier before booker runs.'
    )


def test_the_report_names_the_writer_of_a_routes_key() -> None:
    """A report also lists keys without a problem, such as the writer of a route's key."""
    assert '✓ classifier.outputs("intent") → Route("intent"): OK' in str(check_all(PIPELINE))


def test_nothing_to_report() -> None:
    """A pipeline with nothing to say about gives an empty report that says so."""
    report = check_all(Agent("a").instruct("Go."))
    assert report == ContractReport()
    assert report.ok
    assert str(report) == "✓ Nothing to report."
    assert report.to_markdown() == "Nothing to report.\n"
    report.raise_if_errors()


def test_findings_are_sorted_into_severities() -> None:
    """`errors`, `warnings`, `infos` and `oks` are the findings of each severity, and together all of them."""
    report = check_all(
        PIPELINE >> Route("intent").eq("x", Agent("y").writes("z")) >> Agent("w").instruct("{z} {q}")
    )
    groups = (report.errors, report.warnings, report.infos, report.oks)
    assert [group[0].severity for group in groups] == list(Severity)
    assert sum(groups, ()) == report.issues
    assert not report.ok


def test_strict_makes_everything_an_error() -> None:
    """Under `strict=True` warnings and notes are errors too; what is fine stays fine."""
    report = check_all(PIPELINE, strict=True)
    assert report.errors
    assert report.warnings == report.infos == ()
    assert report.oks


def test_json_is_stable() -> None:
    """The JSON holds a version, whether all is well, counts, and every finding field by field."""
    data = json.loads(check_all(PRESENTER).to_json())
    hint = data["issues"][0].pop("hint")
    assert hint.startswith('No step writes "summary"')
    assert data == {
        "version": 1,
        "ok": False,
        "counts": {"error": 1, "warn": 0, "info": 0, "ok": 0},
        "issues": [
            {
                "severity": "error",
                "code": "unresolved-template-var",
                "agent": "presenter",
                "key": "summary",
                "message": "presenter reads {summary} in instruction",
            }
        ],
    }


def test_markdown_is_a_table() -> None:
    """The Markdown has a row per finding, and characters that would break the table are escaped."""
    issue = ContractIssue(severity=Severity.WARN, code="c", agent="a|b", message="<x>", hint="one\ntwo")
    rows = ContractReport((issue,)).to_markdown().splitlines()
    assert rows[2:] == ["| WARN | `c` | a\\|b |  | &lt;x><br>one<br>two |"]


def test_errors_can_be_raised() -> None:
    """`raise_if_errors` raises one error of ours that holds every error of the report, and no warning."""
    report = check_all(PRESENTER >> Agent("b").instruct("{other}"))
    with pytest.raises(ContractError, match="presenter reads") as caught:
        report.raise_if_errors()
    assert isinstance(caught.value, ADKFluentError)
    assert "b reads {other}" in str(caught.value)


def test_findings_are_values() -> None:
    """A finding is built by keyword, compares by its fields, cannot be changed, and knows its code."""
    issue = UnresolvedTemplateVar(severity=Severity.ERROR, agent="a", key="k", message="m", hint="h")
    assert issue == UnresolvedTemplateVar(severity=Severity.ERROR, agent="a", key="k", message="m", hint="h")
    assert issue.code == "unresolved-template-var"
    with pytest.raises(AttributeError):
        issue.agent = "b"  # pyright: ignore[reportAttributeAccessIssue]  # the point of the test


def test_whatever_can_be_checked_gives_one_report() -> None:
    """An expression, its node, the agent built of it and the app around that give the same findings."""
    pipeline = classifier >> PRESENTER
    reports = [check_all(x) for x in (pipeline, pipeline.to_ir(), pipeline.build(), pipeline.to_app())]
    assert all(report == reports[0] for report in reports)
    assert reports[0].errors


@pytest.mark.parametrize("thing", [None, "a", 3, object()])
def test_other_subjects_are_refused(thing: object) -> None:
    """Anything else is refused by the name of its type."""
    with pytest.raises(ArgumentError, match=type(thing).__name__):
        check_all(thing)


def test_check_contracts_gives_the_bad_ones() -> None:
    """`check_contracts` is the list of errors and warnings, without notes and what is fine."""
    assert check_contracts(PIPELINE) == []
    assert [issue.code for issue in check_contracts(PRESENTER)] == ["unresolved-template-var"]


def test_initial_state_counts() -> None:
    """A key that the session holds before the run is there; one that it holds as `None` fills no text."""
    assert check_all(PRESENTER, state={"summary": "x"}).issues[0].severity is Severity.OK
    held = check_all(PRESENTER, state={"summary": None})
    assert held.ok
    assert [(type(issue), issue.severity) for issue in held.issues] == [
        (UnresolvedTemplateVar, Severity.WARN)
    ]


def test_every_check_works_alone() -> None:
    """Each check is a plain function that takes what `check_all` takes."""
    for check in built_in_checks():
        assert check(classifier >> booker) == check((classifier >> booker).to_ir())
    assert [issue.key for issue in check_template_contracts(PRESENTER)] == ["summary"]


def test_facts_are_kept_with_the_tree() -> None:
    """Each tree is analysed once; an equal tree, or the agent built of it, has its own facts."""
    pipeline = Agent("a") >> PRESENTER
    facts = analyse(pipeline)
    assert analyse(pipeline.node) is facts
    assert analyse(pipeline.node.replace()) is not facts
    assert analyse(pipeline.build()) is not facts
    assert not check_all(pipeline).ok
    assert check_all(pipeline, state={"summary": "x"}).ok
    assert not check_all(pipeline).ok


def test_a_check_that_comes_later_sees_a_tree_that_was_checked() -> None:
    """Findings of the built-in checks are cached; a user's check runs each time."""
    shouting = Agent("LOUD")
    assert check_all(shouting).warnings == ()
    register_checker(no_shouting)
    try:
        assert [issue.agent for issue in check_all(shouting).warnings] == ["LOUD"]
    finally:
        unregister_checker(no_shouting)
    assert check_all(shouting).warnings == ()


def mystery(state: Mapping[str, Any]) -> dict[str, Any]:
    """A function that neither says nor shows what it touches."""
    return {**state, "x": 1}


def no_shouting(root: Node) -> Iterator[ContractIssue]:
    """A check of a user."""
    for node in walk(root):
        if node.name.isupper():
            yield ContractIssue(severity=Severity.WARN, code="shouting", agent=node.name, message="Shouts")


def test_own_checks_can_be_registered() -> None:
    """A registered check gets the root node, runs once however often it is registered, and can go."""
    register_checker(no_shouting)
    assert register_checker(no_shouting) is no_shouting
    try:
        assert [issue.agent for issue in check_all(Agent("LOUD")).warnings] == ["LOUD"]
    finally:
        unregister_checker(no_shouting)
    assert check_all(Agent("LOUD")).warnings == ()
    with pytest.raises(ArgumentError, match="function of the root node"):
        register_checker("no")  # pyright: ignore[reportArgumentType]  # the point of the test


def test_unknown_functions_are_named_once() -> None:
    """However many functions hide what they touch, one note names them, and no error is guessed."""
    pipeline: Expr[object] = Agent("a") >> mystery >> mystery >> tap(print)
    report = check_all(pipeline >> Agent("b").instruct("{x}") >> Agent("c").instruct("{y}"))
    (note,) = [issue for issue in report.infos if issue.code == "unknown-access"]
    assert "mystery_2" in note.message
    assert "'x', 'y'" in note.hint
    assert report.ok
    assert not [issue for issue in report.oks if issue.key in ("x", "y")]


def test_certain_keys_stay_known_after_an_unknown_function() -> None:
    """A function that may write anything does not make a key unknown that was certainly there."""
    report = check_all(classifier >> mystery >> booker)
    assert [issue.key for issue in report.oks] == ["intent"]


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 12, 13, 80])
def test_every_writer_is_named(count: int) -> None:
    """The report names all agents that may have written a value; a long list ends with "more"."""
    route = Route("r")
    for number in range(count):
        route = route.eq(number, Agent(f"w{number}").writes("k"))
    pipeline = route.otherwise(Agent("other").writes("k")) >> Agent("end").instruct("Use {k}.")
    (told,) = [issue.hint for issue in pipeline.check().oks if issue.key == "k"]
    names = [*(f"w{number}" for number in range(count)), "other"]
    if len(names) <= 12:
        shown = ", ".join(names[:-1]) + f" and {names[-1]}"
        assert pipeline.llm_anatomy()["end"].doubled == set(names)
    else:
        first = max(len(names) - 64, 0)
        shown = ", ".join(names[first : first + 12]) + " and others"
    assert told == f'State key "k" is produced by {shown} before end runs.'


def test_a_check_registers_itself_where_it_stands() -> None:
    """Each module of the checks holds at least one, and no two checks have the same place."""
    folder = Path(checks.__file__ or "").parent
    modules = {path.stem: path.read_text("utf-8") for path in folder.glob("*.py") if path.stem != "__init__"}
    places = {name: PLACE.findall(text) for name, text in modules.items()}
    registered = Counter(find.__module__.rpartition(".")[2] for find in built_in_checks())
    assert registered == {name: len(found) for name, found in places.items()}
    every = [place for found in places.values() for place in found]
    assert len({*every}) == len(every) > 20
