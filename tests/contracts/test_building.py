"""Building and running log the findings once, or refuse the pipeline."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.adk.sessions import InMemorySessionService

from adk_fluent import Agent, Route
from adk_fluent.config import ExecutionConfig
from adk_fluent.contracts import check
from adk_fluent.errors import ArgumentError, ContractError
from adk_fluent.expr.base import Expr
from adk_fluent.testing import mock_backend

LOGGER = "adk_fluent.contracts"
LOST = Agent("lost").instruct("Use {nothing_here}.")
UNSURE = Agent("c").writes("kind") >> Route("kind").eq("a", Agent("a").writes("x")).otherwise(Agent("b"))
MAYBE = UNSURE >> Agent("reader").instruct("{x}")


@pytest.fixture(autouse=True)
def nothing_logged_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts as a new process would."""
    monkeypatch.setattr(check, "_logged", {})


def test_building_logs_each_finding_once(caplog: pytest.LogCaptureFixture) -> None:
    """The first app logs the findings at their level on `adk_fluent.contracts`; later ones are silent."""
    caplog.set_level(logging.INFO, LOGGER)
    LOST.build()
    assert not caplog.records
    LOST.to_app()
    LOST.to_app()
    (record,) = caplog.records
    assert (record.name, record.levelno) == (LOGGER, logging.ERROR)
    assert "unresolved-template-var" in record.message
    MAYBE.to_app()
    assert {record.levelno for record in caplog.records[1:]} == {logging.WARNING, logging.INFO}


def test_building_can_refuse_errors() -> None:
    """Under `contracts="error"` building raises what the check calls an error, and lets warnings pass."""
    config = ExecutionConfig(contracts="error")
    with pytest.raises(ContractError, match="nothing_here"):
        LOST.to_app(config)
    assert MAYBE.to_app(config).name == "adk_fluent_app"


def test_building_can_be_silent(caplog: pytest.LogCaptureFixture) -> None:
    """Under `contracts="off"` nothing is logged."""
    LOST.to_app(ExecutionConfig(contracts="off"))
    assert caplog.records == []


def test_a_strict_expression_refuses_warnings_too() -> None:
    """`.strict()` anywhere in a tree makes building refuse errors and warnings, under any configuration."""
    for bad in (LOST.strict(), MAYBE.strict(), Agent("x").strict() >> MAYBE):
        with pytest.raises(ContractError, match=r"reads \{"):
            bad.to_app(ExecutionConfig(contracts="off"))
    assert (Agent("a").writes("x") >> Agent("b").instruct("{x}")).strict().build().name == "sequence"


def test_an_unknown_mode_is_refused() -> None:
    """`contracts=` takes one of its three words."""
    with pytest.raises(ArgumentError, match="contracts"):
        ExecutionConfig(contracts="loud")  # pyright: ignore[reportArgumentType]  # the point of the test


async def test_the_state_of_a_run_counts(caplog: pytest.LogCaptureFixture) -> None:
    """A key that `run(state=...)` gives is not reported, nor one that a session of before may hold."""
    backend = mock_backend(default="ok", session_service=InMemorySessionService())
    await LOST.run("hi", backend=backend, state={"nothing_here": "x"})
    await LOST.named("again").run("hi", backend=backend, session_id="s", state={"nothing_here": "x"})
    assert caplog.records == []


async def _run(expression: Expr[Any], **options: Any) -> str:
    return (await expression.run("hi", **options)).text


async def _stream(expression: Expr[Any], **options: Any) -> str:
    events = [event async for event in expression.stream("hi", **options)]
    return "".join(event.content or "" for event in events if not event.is_partial)


async def _ask(expression: Expr[Any], **options: Any) -> str:
    return str(await expression.ask_async("hi", **options))


async def _session(expression: Expr[Any], **options: Any) -> str:
    async with expression.session(**options) as chat:
        return (await chat.send("hi")).text


@pytest.mark.parametrize("terminal", [_run, _stream, _ask, _session])
@pytest.mark.parametrize("strict", [False, True])
async def test_keys_of_a_named_session_count(terminal: Callable[..., Awaitable[str]], strict: bool) -> None:
    """The check before a run knows that a named session may hold what no step writes; a new one cannot."""
    expression = Agent("reader").instruct("Use {stored} and {said}.")
    expression = expression.strict() if strict else expression
    options: dict[str, Any] = {
        "backend": mock_backend(default="ok", session_service=InMemorySessionService())
    }
    await Agent("first").writes("said").run("hi", session_id="s", state={"stored": "x"}, **options)
    if not strict:
        options["config"] = ExecutionConfig(contracts="error")
    assert await terminal(expression, session_id="s", **options) == "ok"
    with pytest.raises(ContractError, match="stored"):
        await terminal(expression, **options)
    with pytest.raises(ContractError, match="stored"):
        await terminal(expression, state={"said": "x"}, **options)
    assert await terminal(expression, state={"stored": "x", "said": "x"}, **options) == "ok"


async def test_a_run_without_the_state_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The same run without the key logs what it is about to fail for."""
    with pytest.raises(KeyError, match="nothing_here"):
        await LOST.run("hi", backend=mock_backend(default="ok"), config=ExecutionConfig(contracts="log"))
    assert "nothing_here" in caplog.records[0].message
