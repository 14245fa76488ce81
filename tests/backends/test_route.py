"""Routes: which branch runs, and what is said when a test raises."""

from __future__ import annotations

from typing import Any

import pytest

from adk_fluent import Agent, Route, S
from adk_fluent.errors import PredicateError
from adk_fluent.testing import mock_backend
from tests.backends.support import ANYWAY, play, speakers

A, B, C = Agent("a"), Agent("b"), Agent("c")


@pytest.mark.parametrize(
    ("route", "value", "branch"),
    [
        (Route("k").eq("x", A).otherwise(B), "x", "a"),
        (Route("k").eq("x", A).otherwise(B), " x\n", "a"),
        (Route("k").eq("x", A).otherwise(B), "X", "b"),
        (Route("k").eq("x", A, ignore_case=True).otherwise(B), "X", "a"),
        (Route("k").eq(1, A).otherwise(B), 1, "a"),
        (Route("k").eq(1, A).otherwise(B), " 1\n", "a"),
        (Route("k").ne("x", A).otherwise(B), "y", "a"),
        (Route("k").ne("x", A).otherwise(B), None, "a"),
        (Route("k").gt(3, A).otherwise(B), 4, "a"),
        (Route("k").gt(3, A).otherwise(B), "4", "a"),
        (Route("k").gt(3, A).otherwise(B), 3, "b"),
        (Route("k").gte(3, A).otherwise(B), 3, "a"),
        (Route("k").lt(3, A).otherwise(B), 2.5, "a"),
        (Route("k").lte(3, A).otherwise(B), 3, "a"),
        (Route("k").lt(3, A).otherwise(B), None, "b"),
        (Route("k").contains("el", A).otherwise(B), "hello", "a"),
        (Route("k").contains("el", A).otherwise(B), ["el", "x"], "a"),
        (Route("k").contains("el", A).otherwise(B), ["hello"], "b"),
        (Route("k").matches(r"^\d+$", A).otherwise(B), " 42 ", "a"),
        (Route("k").matches(r"^\d+$", A).otherwise(B), "x42", "b"),
        (Route("k").when(lambda s: len(s["k"]) == 2, A).otherwise(B), [1, 2], "a"),
        (Route().when(lambda s: "k" in s, A).otherwise(B), None, "b"),
    ],
)
async def test_the_matching_branch_runs(route: Route[str], value: Any, branch: str) -> None:
    """Each comparison chooses its branch, or `otherwise`."""
    assert speakers(await play(route, state={"k": value})) == [branch]


async def test_the_first_match_wins() -> None:
    """Of several tests that hold, the first decides, and only its branch runs."""
    assert speakers(await play(Route("k").gt(1, A).gt(0, B).otherwise(C), state={"k": 5})) == ["a"]


async def test_later_tests_are_not_run_after_a_match() -> None:
    """A test behind the one that holds is never called, so it cannot raise."""
    route = Route("k").eq(1, A).when(lambda s: 1 / 0, B)
    assert speakers(await play(route, state={"k": 1})) == ["a"]


async def test_no_match_goes_on_without_output() -> None:
    """Without a match and without `otherwise` nothing runs, and the next step follows."""
    result = await play(Route("k").eq("x", A) >> B, state={"k": "y"})
    assert speakers(result) == ["b"]


async def test_no_match_alone_has_no_answer() -> None:
    """A route in which nothing matches gives an empty answer."""
    result = await play(Route("k").eq("x", A))
    assert result.text == ""


async def test_proceed_if_skips_only_its_expression() -> None:
    """`proceed_if` skips what it is attached to; what follows runs either way."""
    expression = A.proceed_if(lambda s: s.get("go")) >> B
    assert speakers(await play(expression)) == ["b"]
    assert speakers(await play(expression, state={"go": True})) == ["a", "b"]


async def test_a_route_reads_state_of_the_step_before() -> None:
    """The choice is made when the route is reached, not before."""
    assert speakers(await play(S.set(k="x") >> Route("k").eq("x", A).otherwise(B))) == ["a"]


async def test_an_async_test_is_awaited() -> None:
    """`when` takes async predicates too."""

    async def no(state: Any) -> bool:
        return False

    assert speakers(await play(Route().when(no, A).otherwise(B))) == ["b"]


async def test_a_test_that_raises_is_named() -> None:
    """The message names the route and the predicate, and the cause is chained."""

    def needs_total(state: Any) -> bool:
        return state["total"] > 3

    with pytest.raises(
        PredicateError, match=r"^'pick': its predicate 'needs_total' needs state key 'total'"
    ) as caught:
        await play(Route().when(needs_total, A).named("pick"), config=ANYWAY)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_comparison_that_raises_is_named() -> None:
    """Comparing text with a number names the comparison as the user wrote it."""
    with pytest.raises(PredicateError, match=r"'k > 3' cannot be tested: 'k' is 'many', which is no number"):
        await play(Route("k").gt(3, A), state={"k": "many"})


async def test_proceed_if_that_raises_is_named() -> None:
    """A predicate of `proceed_if` that raises is reported like any other."""
    with pytest.raises(
        PredicateError, match=r"predicate '<lambda>' raised ZeroDivisionError: division by zero"
    ):
        await play(A.proceed_if(lambda s: 1 / 0))


async def test_a_predicate_cannot_change_the_state() -> None:
    """A predicate gets copies, so what it does to them is lost."""

    def meddle(state: Any) -> bool:
        state["items"].append("meddled")
        return True

    result = await play(Route().when(meddle, A), state={"items": ["x"]})
    assert result.state == {"items": ["x"]}


@pytest.mark.parametrize(
    ("route", "value", "warned"),
    [
        (Route("k").eq("booking", A).otherwise(B), "Booking.", True),
        (Route("k").eq("booking", A), '"booking"', True),
        (Route("k").eq("booking", A).otherwise(B), "booking", False),
        (Route("k").eq("booking", A, ignore_case=True).otherwise(B), "Booking", False),
        (Route("k").eq("booking", A).otherwise(B), "bookings", False),
        (Route("k").eq("?", A).otherwise(B), "!", False),
        (Route("k").eq("x", A).ne("y", C), "X.", False),
    ],
)
async def test_a_label_that_differs_in_case_and_punctuation_is_logged(
    route: Route[Any], value: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """When no test holds, the log names the label that the model nearly wrote."""
    await route.run("Hi", state={"k": value}, backend=mock_backend({"a": "1", "b": "2", "c": "3"}))
    told = [record.getMessage() for record in caplog.records if record.name == "adk_fluent.route"]
    assert ["state key 'k' is not the label 'booking', but only in case" in each for each in told] == (
        [True] * warned
    )


@pytest.mark.newest
async def test_a_workflow_logs_a_missed_label_too(caplog: pytest.LogCaptureFixture) -> None:
    """The workflow target says the same of its routes."""
    from google.adk.runners import InMemoryRunner

    from adk_fluent.backends.adk.compile.workflow import build_workflow

    backend = mock_backend({"t": "X.", "a": "1", "b": "2"})
    pipeline = Agent("t").writes("k") >> Route("k").eq("x", A).otherwise(B)
    root = build_workflow(pipeline.to_ir(), backend.model_for)
    await InMemoryRunner(node=root).run_debug("Hi", quiet=True)
    assert [record.name for record in caplog.records].count("adk_fluent.route") == 1
