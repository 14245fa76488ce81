"""Arguments of `check_all`, and the exact texts that building logs or raises."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from adk_fluent import Agent, Loop, Pipeline, Route, S, gate
from adk_fluent.config import ExecutionConfig
from adk_fluent.contracts import (
    ContractIssue,
    Severity,
    check,
    check_all,
    check_boundary_contracts,
    check_contracts,
    register_checker,
    unregister_checker,
)
from adk_fluent.errors import ArgumentError, ContractError, ExpressionError
from adk_fluent.expr.base import Expr
from adk_fluent.ir import Node, declares, walk
from adk_fluent.state import StateSchema

LOST = Agent("lost").instruct("Use {here} and {there}.")
ERRORS = "\n".join(
    f"✗ lost reads {{{key}}} in instruction: ERROR\n"
    f'  No step writes "{key}", and it is not in the initial state.\n'
    f'  Add .writes("{key}") to an agent before it, put S.set({key}=...) or S.capture("{key}") in front, or '
    f'pass state={{"{key}": ...}}.\n'
    f"  If you mean the text {{{key}}}, write \\{{{key}}}."
    for key in ("here", "there")
)
UNSURE = (
    Agent("c").instruct("Sort.").writes("kind")
    >> Route("kind").eq("a", Agent("a").instruct("Go.").writes("x")).otherwise(Agent("b").instruct("Go."))
    >> Agent("reader").instruct("{x}")
)
WARNING = (
    "⚠ reader reads {x} in instruction: WARN\n"
    "  \"x\" is written only when kind == 'a' ('a') runs, by a.\n"
    "  Give it a value before with S.default(x=...), or write {x?}."
)


@declares(reads=[])
def always(state: object) -> bool:
    """A gate that always asks."""
    return True


class Desk(StateSchema):
    """A schema with one field."""

    intent: str


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts as a new process would."""
    monkeypatch.setattr(check, "_logged", {})


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, str]]:
    """The logged lines."""
    return [(record.name, record.levelno, record.getMessage()) for record in caplog.records]


# --- what is taken --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schema": int}, "schema= takes a subclass of StateSchema, not int."),
        ({"schema": "Desk"}, "schema= takes a subclass of StateSchema, not 'Desk'."),
        ({"schema": ["x" * 90]}, f"schema= takes a subclass of StateSchema, not ['{'x' * 58}."),
        ({"config": 3}, "config= takes an ExecutionConfig, not int 3."),
        ({"state": 3}, 'state= takes a mapping of keys to values, such as {"topic": "tea"}, not int 3.'),
    ],
    ids=["another class", "its name", "something long", "config", "state"],
)
def test_options_of_another_kind_are_refused(options: dict[str, Any], said: str) -> None:
    """An option of the wrong kind is named with what was given, before anything is checked."""
    with pytest.raises(ArgumentError) as caught:
        check_all(LOST, **options)
    assert str(caught.value) == said


def test_a_schema_counts_for_the_report_and_for_the_list() -> None:
    """A key that the schema does not declare is an error of `check_all` and of `check_contracts`."""
    expression = Agent("a").writes("answer") >> Agent("b").instruct("{answer}")
    assert check_all(expression).ok
    assert [issue.code for issue in check_all(expression, schema=Desk).errors] == ["schema-violation"]
    assert [issue.code for issue in check_contracts(expression, Desk)] == ["schema-violation"]


def test_the_list_holds_errors_before_warnings() -> None:
    """`check_contracts` gives the errors, then the warnings, and neither notes nor what is fine."""
    found = check_contracts(UNSURE >> LOST)
    assert [(issue.severity, issue.key) for issue in found] == [
        (Severity.ERROR, "here"),
        (Severity.ERROR, "there"),
        (Severity.WARN, "x"),
    ]


@pytest.mark.parametrize(
    ("config", "codes"),
    [
        (None, []),
        (ExecutionConfig(resumable=True), []),
        (ExecutionConfig(resumable=False), ["not-resumable"]),
    ],
    ids=["unsaid", "yes", "no"],
)
def test_an_app_that_cannot_wait_is_reported(config: ExecutionConfig | None, codes: list[str]) -> None:
    """An app's setting for resuming counts like that of a configuration."""
    asks = gate(always) >> Agent("a")
    assert [issue.code for issue in check_all(asks.to_app(config)).errors] == codes
    assert [issue.code for issue in check_all(asks, config=config).errors] == codes


def test_a_configuration_goes_before_what_the_app_says() -> None:
    """`config=` is what the run will have, so it counts, whatever the app says."""
    app = (gate(always) >> Agent("a")).to_app(ExecutionConfig(resumable=False))
    assert not check_all(app).ok
    assert check_all(app, config=ExecutionConfig(resumable=True)).ok


# --- what building does ---------------------------------------------------------------------------


def test_findings_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each finding is logged once per tree: its code, its text, and the level of its severity."""
    caplog.set_level(logging.INFO, "adk_fluent.contracts")
    for _ in range(2):
        LOST.to_app()
        UNSURE.to_app()
    codes = "unresolved-template-var"
    note = next(issue for issue in check_all(UNSURE).infos)
    assert told(caplog) == [
        ("adk_fluent.contracts", logging.ERROR, f"{codes}: {error}")
        for error in (f"✗{part}" for part in ERRORS.split("✗")[1:])
        for error in [error.strip("\n")]
    ] + [
        ("adk_fluent.contracts", logging.WARNING, f"{codes}: {WARNING}"),
        ("adk_fluent.contracts", logging.INFO, f"{note.code}: {note}"),
    ]


@pytest.mark.parametrize(
    ("expression", "mode", "said"),
    [
        (LOST, "error", ERRORS),
        (LOST.strict(), "off", ERRORS),
        (UNSURE.strict(), "log", WARNING),
        (UNSURE.strict() >> LOST, "off", f"{ERRORS}\n{WARNING}"),
        (UNSURE >> LOST, "error", ERRORS),
        (LOST, "log", None),
        (LOST, "off", None),
        (UNSURE, "error", None),
    ],
    ids=["errors", "strict", "strict warns", "both", "errors alone", "logged", "silent", "a warning"],
)
def test_the_error_holds_the_refused_findings(expression: Expr[Any], mode: Any, said: str | None) -> None:
    """The error of building holds every finding that the mode refuses, and none that it lets pass."""
    config = ExecutionConfig(contracts=mode)
    if said is None:
        assert expression.to_app(config).root_agent
        return
    for _ in range(2):
        with pytest.raises(ContractError) as caught:
            expression.to_app(config)
        assert str(caught.value) == said


def test_refusing_comes_after_logging_too(caplog: pytest.LogCaptureFixture) -> None:
    """A tree that was logged before is still refused where errors are, and logged no second time."""
    LOST.to_app()
    assert len(caplog.records) == 2
    with pytest.raises(ContractError):
        LOST.to_app(ExecutionConfig(contracts="error"))
    LOST.to_app()
    assert len(caplog.records) == 2


def test_a_configuration_is_held_against_the_tree(caplog: pytest.LogCaptureFixture) -> None:
    """Building checks under the configuration that it is given."""
    (gate(always) >> Agent("a")).to_app(ExecutionConfig(resumable=False))
    assert [message.partition(":")[0] for _, _, message in told(caplog)] == ["not-resumable"]


def test_steps_that_stand_too_deep_are_refused_under_any_mode() -> None:
    """Sixty nested steps are built; one more is refused before any other check runs."""

    def nested(depth: int) -> Expr[Any]:
        expression: Expr[Any] = Agent("a")
        for _ in range(depth):
            expression = Loop(expression)
        return expression

    fine, deep = nested(59), nested(60)
    assert check_all(fine).ok
    assert fine.to_app(ExecutionConfig(contracts="off")).root_agent
    said = (
        "loop nests steps 61 levels deep, and a run can take at most 60. Write steps that follow each "
        "other as one sequence and the cases of a choice as one Route, or run the inner part by itself, as a "
        "tool of an agent."
    )
    for ask in (deep.to_app, deep.llm_anatomy, deep.build):
        with pytest.raises(ExpressionError) as caught:
            ask()
        assert str(caught.value) == said


def test_only_so_many_trees_are_remembered_as_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest tree is forgotten first: it is logged again, and the ones after it are not."""
    monkeypatch.setattr(check, "_REMEMBERED", 3)
    trees = [Agent(f"a{number}").instruct("{lost}") for number in range(4)]

    for tree in trees[:3]:
        tree.to_app()
    caplog.clear()
    trees[3].to_app()
    assert len(caplog.records) == 1
    caplog.clear()
    for tree in reversed(trees[1:]):
        tree.to_app()
    assert told(caplog) == []
    trees[0].to_app()
    assert len(caplog.records) == 1


# --- checks of one's own --------------------------------------------------------------------------


def shouting(root: Node) -> list[ContractIssue]:
    """A check of a user, which is given the root."""
    return [
        ContractIssue(agent=node.name, message=f"{node.name} shouts")
        for node in walk(root)
        if node.name.isupper()
    ]


def whispering(root: Node) -> list[ContractIssue]:
    """Another one."""
    return [ContractIssue(agent=root.name, message=f"{root.name} leads")]


def test_own_checks_run_after_the_others_in_order() -> None:
    """Findings of a user's checks follow the built-in ones; each check can be removed, even twice."""
    expression = Pipeline("p", Agent("LOUD").instruct("{x?}"), S.log("y"))
    own = lambda: [i.message for i in check_all(expression).warnings]  # noqa: E731
    ours = own()
    assert register_checker(shouting) is shouting
    register_checker(whispering)
    try:
        register_checker(shouting)
        assert own() == [*ours, "LOUD shouts", "p leads"]
        unregister_checker(shouting)
        unregister_checker(shouting)
        assert own() == [*ours, "p leads"]
    finally:
        unregister_checker(shouting)
        unregister_checker(whispering)
    assert own() == ours


def test_a_check_must_be_callable() -> None:
    """The refusal shows what was given, cut where it is long."""
    given: Any = "n" * 90
    with pytest.raises(ArgumentError) as caught:
        register_checker(given)
    assert str(caught.value) == f"register_checker() takes a function of the root node, not '{'n' * 39}."


def test_an_async_check_is_refused() -> None:
    """Nothing awaits a check of your own, so an async one is refused when it is registered."""

    async def later(root: Node) -> list[ContractIssue]:
        return []

    with pytest.raises(ArgumentError, match=r"^register_checker\(\) takes a plain function"):
        register_checker(later)  # pyright: ignore[reportArgumentType]  # what is refused


def test_each_check_finds_what_is_its_own() -> None:
    """A check that is called alone reports its own kind of fault, and what several find stands there once."""
    lost = S.set(**{"temp:k": 1}) >> Agent("b").instruct("{temp:k}").execution_boundary()
    (alone,) = check_boundary_contracts(lost)
    (found,) = [one for one in check_all(lost).issues if one.code == "boundary-temp-key"]
    assert (alone.code, str(alone)) == ("boundary-temp-key", str(found))


def test_no_hint_names_a_key_that_is_quite_another() -> None:
    """Two words that share some letters are no slips of each other."""
    (error,) = check_all(Agent("a").writes("note") >> Agent("b").instruct("{intent}").reads("note")).errors
    assert "Did you mean" not in error.hint
