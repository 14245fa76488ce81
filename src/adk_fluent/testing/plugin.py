"""The pytest plugin: fixtures, readable differences, and no real model by accident.

It is found by pytest where adk-fluent is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import pytest

from adk_fluent import _real_models

if TYPE_CHECKING:
    from adk_fluent.backends.mock import MockBackend
    from adk_fluent.expr.base import Expr
    from adk_fluent.testing.harness import AgentHarness


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--allow-real-models`."""
    parser.getgroup("adk-fluent").addoption(
        "--allow-real-models",
        action="store_true",
        help="let tests ask real models, which costs money and gives other answers each time",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker `real_model`; and apps look after the models of all their agents."""
    _real_models.watch()
    config.addinivalue_line("markers", "real_model: this test may ask real models")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    """No test asks a real model, unless it is marked or the option allows it."""
    allowed = item.config.getoption("allow_real_models", False) or item.get_closest_marker("real_model")
    with nullcontext() if allowed else _real_models.forbidden():
        yield


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """What differs between two lists of events, or two requests, where `==` failed."""
    if op != "==":
        return None
    if _is_events(left) and _is_events(right):
        from adk_fluent.debug.diffing import diff_events

        lines = str(diff_events(cast(Any, left), cast(Any, right))).splitlines()
        return ["the events differ (- left, + right):", *lines]
    if {type(left).__name__, type(right).__name__} <= {"LlmRequest", "ModelRequest"}:
        from adk_fluent.debug.requests import Asked, changed_channels, request_json

        before, after = (Asked(request_json(cast(Any, each))) for each in (left, right))
        changed = changed_channels(before, after)
        lines = [line for channel, found in changed.items() for line in (f"{channel}:", *found)]
        return ["the requests differ (- left, + right):", *lines]
    return None


def _is_events(value: object) -> bool:
    if not isinstance(value, list | tuple) or not value:
        return False
    items = cast("Sequence[object]", value)
    return all(type(item).__module__ == "adk_fluent.backends.events" for item in items)


@pytest.fixture
def fluent_mock() -> Callable[..., MockBackend]:
    """`fluent_mock({agent: response, ...})`: a mock backend; see `mock_backend`."""
    from adk_fluent.backends.mock import mock_backend

    return mock_backend


@pytest.fixture
def fluent_harness() -> Callable[..., AgentHarness]:
    """`fluent_harness(expr, {agent: response, ...})`: a conversation with a scripted expression."""
    from adk_fluent.backends.mock import mock_backend
    from adk_fluent.testing.harness import AgentHarness

    def make(
        expression: Expr[Any], responses: Mapping[str, Any] | None = None, **options: Any
    ) -> AgentHarness:
        return AgentHarness(expression, mock_backend(responses), **options)

    return make
