"""Functions that score answers: which numbers are scores, and what happens where one gives none."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from typing import Any

import pytest

from adk_fluent.eval import FluentCase, FluentJudge
from tests.eval.support import desk, scores

ENGINES = ["light", pytest.param("adk", marks=pytest.mark.newest)]


class _Number:
    """As numpy's numbers are: no float, but a number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


@pytest.mark.parametrize(
    ("given", "score"),
    [
        (Fraction(1, 2), 0.5),
        (Decimal("0.25"), 0.25),
        (_Number(0.75), 0.75),
        (1.0000000000000002, 1.0),
        (-1e-17, 0.0),
        (True, 1.0),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
async def test_any_kind_of_number_is_a_score(given: Any, score: float, engine: Any) -> None:
    """A judge may compute with whatever it likes; a rounding error is no reason to reject its score."""
    judge = FluentJudge("own", lambda answer, reference, tools: given, threshold=0.0)
    report = await desk(FluentCase("x"), custom_judges=[judge]).run(engine=engine)
    assert scores(report) == {"own": score}
    assert report.passed


@pytest.mark.newest
@pytest.mark.parametrize("engine", ENGINES)
async def test_numbers_of_numpy_are_scores(engine: Any) -> None:
    """Of any of its types; its NaN is none."""
    numpy: Any = import_module("numpy")
    given = [
        numpy.float32(0.25),
        numpy.int64(1),
        numpy.bool_(True),
        numpy.float64("nan"),
        numpy.float32("inf"),
    ]
    judges = [
        FluentJudge(f"j{index}", lambda answer, reference, tools, one=one: one, threshold=0.0)
        for index, one in enumerate(given)
    ]
    report = await desk(FluentCase("x"), custom_judges=judges).run(engine=engine)
    passed = {score.metric: score.value for score in report.case_results[0].scores if score.passed}
    assert passed == {"j0": 0.25, "j1": 1, "j2": 1}


@pytest.mark.parametrize("engine", ENGINES)
async def test_no_threshold_is_missed_by_the_rounding_of_a_mean(engine: Any) -> None:
    """Three turns that score 0.7 have a mean of 0.7."""
    judge = FluentJudge("own", lambda answer, reference, tools: 0.7, threshold=0.7)
    report = await desk(FluentCase(["a", "b", "c"]), custom_judges=[judge]).run(engine=engine)
    assert report.passed, report.summary


NUMBERS = ["0.5", None, float("nan"), float("inf"), Decimal("NaN"), 1.1, -0.1, object(), 10**400]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("given", NUMBERS)
async def test_anything_else_is_no_score(given: Any, engine: Any) -> None:
    """Text, `None`, NaN and numbers outside 0 to 1 fail the case, which names the judge."""
    judge = FluentJudge("own", lambda answer, reference, tools: given, threshold=0.0)
    (result,) = (await desk(FluentCase("x"), custom_judges=[judge]).run(engine=engine)).case_results
    assert not result.passed
    assert "judge 'own' gave " in result.failures[0]


async def test_a_score_just_below_its_threshold_is_told_apart_from_it() -> None:
    """The line shows as many digits as it takes."""
    judge = FluentJudge("own", lambda answer, reference, tools: 0.49999, threshold=0.5)
    (result,) = (await desk(FluentCase("x"), custom_judges=[judge]).run(engine="light")).case_results
    assert result.failures == ("own is 0.49999, below 0.5",)


async def test_thresholds_of_suite_case_and_judge() -> None:
    """A case's threshold wins over the suite's, and that over a judge's own and the default of one half."""
    half = FluentJudge("half", lambda answer, reference, tools: 0.5, threshold=0.6)
    for suite_level, case_level, passes in [
        ({}, {}, False),
        ({"half": 0.4}, {}, True),
        ({"half": 0.4}, {"half": 0.7}, False),
    ]:
        suite = desk(FluentCase("x", thresholds=case_level), custom_judges=[half], thresholds=suite_level)
        assert (await suite.run(engine="light")).passed is passes


async def test_judges_are_metrics_of_their_own() -> None:
    """A judge gets answer, reference and the names of the tools; it may be async."""
    got: list[Any] = []

    async def judge(answer: str, reference: str | None, tools: list[str]) -> float:
        await asyncio.sleep(0)
        got.append((answer, reference, tools))
        return 0.9

    suite = desk(FluentCase("x", reference_response="r"), custom_judges=[FluentJudge("q", judge, 0.8)])
    report = await suite.run(engine="light")
    assert report.passed
    assert scores(report) == {"q": 0.9}
    assert got == [("Your ticket T-1 is open.", "r", ["open_ticket"])]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "judge 'q' gave 7, and a score is a number from 0 to 1"),
        ("good", "judge 'q' gave 'good', and a score is a number from 0 to 1"),
        (float("nan"), "judge 'q' gave nan, and a score is a number from 0 to 1"),
        (None, "judge 'q' gave None, and a score is a number from 0 to 1"),
        (ValueError("bad day"), "judge 'q' raised ValueError: bad day"),
    ],
)
async def test_a_broken_judge_fails_its_case_by_name(given: Any, said: str) -> None:
    """One that raises or gives anything but a score; even with a threshold of 0."""

    def judge(answer: str, reference: str | None, tools: list[str]) -> Any:
        if isinstance(given, Exception):
            raise given
        return given

    report = await desk(FluentCase("x"), custom_judges=[FluentJudge("q", judge, 0.0)]).run(engine="light")
    (result,) = report.case_results
    assert not result.passed
    assert result.failures == (said,)
