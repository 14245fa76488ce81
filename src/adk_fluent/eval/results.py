"""What came of a case: once, and over its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from google.adk.evaluation.eval_result import EvalCaseResult
    from google.adk.evaluation.evaluator import EvalStatus


@dataclass(frozen=True, slots=True)
class Score:
    """What one metric says of one run of a case.

    Attributes:
        metric: its name; `response_contains` and `state` are what the case itself asserts, and
            `success_criteria` is the goal of a simulated user.
        value: from 0 to 1, or `None` if the metric gave none: then it judged nothing.
        threshold: the least value that passes.
        passed: whether it is reached.
        why: what is wrong, in one line each; empty if nothing is.
    """

    metric: str
    value: float | None
    threshold: float
    passed: bool
    why: tuple[str, ...] = ()


NOTHING_JUDGED: Final = (
    "not judged: the case states nothing that is expected, and no metric of the suite could score it"
)


def too_low(metric: str, value: float, threshold: float) -> str:
    """Say that a score does not pass, with as many digits as tell it from its threshold.

    >>> too_low("state", 0.4999, 0.5)
    'state is 0.4999, below 0.5'
    """
    pairs = ((f"{value:.{digits}g}", f"{threshold:.{digits}g}") for digits in range(3, 18))
    low, least = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    if not low or value > threshold:  # a metric of ADK's may have other reasons
        return f"{metric} did not pass: it is {value:.3g}, and the threshold {threshold:.3g}"
    return f"{metric} is {low}, below {least}"


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One turn as it was, beside what was expected.

    Attributes:
        said: what the user said.
        answer: what was answered.
        calls: the tools that were called, with their arguments.
        reference: the answer that was expected, if one was.
        expected_calls: the calls that were expected, or `None`; arguments are `None` where any would do.
        seconds: how long it took.
    """

    said: str
    answer: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    reference: str | None = None
    expected_calls: tuple[tuple[str, Mapping[str, Any] | None], ...] | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class CaseResult:
    """One run of one case.

    Attributes:
        eval_id: the name of the case.
        run: which run of it, from 1.
        passed: whether every metric passed, and there was one. A run that nothing judged has not passed,
            unless `run(allow_unjudged=True)` allowed it.
        scores: what each metric says.
        turns: the conversation.
        tags: those of the case.
        error: what ended it early, in one line.
        seconds: how long the pipeline took for all turns.
        tokens: what it used, input and output together.
        cost: in USD; `None` if the price of a model is not known.
        native: ADK's own result; a report that was loaded has none.
    """

    eval_id: str
    run: int = 1
    passed: bool = False
    scores: tuple[Score, ...] = ()
    turns: tuple[TurnResult, ...] = ()
    tags: tuple[str, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    tokens: int = 0
    cost: Decimal | None = None
    native: EvalCaseResult | None = field(default=None, compare=False, repr=False)

    @property
    def final_eval_status(self) -> EvalStatus:
        """`EvalStatus.PASSED` or `EvalStatus.FAILED` of ADK's."""
        from adk_fluent.eval.adk_evaluators import status

        return status(self.passed)

    @property
    def failures(self) -> tuple[str, ...]:
        """Why it failed, in one line each."""
        said = [self.error] if self.error else []
        for score in self.scores:
            if not score.passed and score.value is not None:
                said += score.why or (too_low(score.metric, score.value, score.threshold),)
        return (*said, *([] if self.passed else self.unjudged))

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Why a metric, or all of them, gave no score, in one line each; empty if everything was judged."""
        if self.error is None and not self.scores:
            return (NOTHING_JUDGED,)
        silent = (score for score in self.scores if score.value is None)
        return tuple(why for score in silent for why in score.why or (f"not judged: {score.metric}",))


@dataclass(frozen=True, slots=True)
class Spread:
    """A number over several runs."""

    mean: float
    low: float
    high: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """That of some values, of which there is at least one.

        >>> Spread.of([0.5, 1.0])
        Spread(mean=0.75, low=0.5, high=1.0, deviation=0.25)
        """
        return cls(fmean(values), min(values), max(values), pstdev(values))

    def __str__(self) -> str:
        shown = f"{self.mean:.3g}"
        return shown if self.low == self.high else f"{shown} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class CaseSummary:
    """All runs of one case.

    Attributes:
        eval_id: the name of the case.
        runs: its runs, in order.
    """

    eval_id: str
    runs: tuple[CaseResult, ...]

    @property
    def passes(self) -> int:
        """How many runs passed."""
        return sum(run.passed for run in self.runs)

    @property
    def passed(self) -> bool:
        """Whether every run passed."""
        return self.passes == len(self.runs)

    @property
    def pass_rate(self) -> float:
        """The share of runs that passed."""
        return self.passes / len(self.runs)

    @property
    def is_flaky(self) -> bool:
        """Whether some runs passed and some did not."""
        return 0 < self.passes < len(self.runs)

    @property
    def flake_rate(self) -> float:
        """The share of runs that went the other way than most."""
        return min(self.passes, len(self.runs) - self.passes) / len(self.runs)

    @cached_property
    def scores(self) -> Mapping[str, Spread]:
        """Metric → its scores over the runs."""
        return {name: Spread.of(values) for name, values in values_by_metric(self.runs).items()}

    @property
    def seconds(self) -> float:
        """What a run takes on average."""
        return fmean(run.seconds for run in self.runs)

    @property
    def cost(self) -> Decimal | None:
        """What all runs cost in USD, or `None` if that is not known."""
        return total_cost(self.runs)

    @property
    def failures(self) -> tuple[str, ...]:
        """Why runs failed, each reason once, the commonest first."""
        return tuple(
            why for why, _ in Counter(why for run in self.runs for why in run.failures).most_common()
        )

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Why a metric, or all of them, gave no score in a run, each reason once."""
        return tuple(dict.fromkeys(why for run in self.runs for why in run.unjudged))

    def __str__(self) -> str:
        mark = "passed" if self.passed else "flaky" if self.is_flaky else "FAILED"
        if not self.passed and all(run.failures == run.unjudged for run in self.runs):
            mark = "NOT JUDGED"
        runs = f" {self.passes}/{len(self.runs)}" if len(self.runs) > 1 else ""
        scores = "".join(f"  {name} {spread}" for name, spread in self.scores.items())
        cost = "" if not self.cost else f"  ${self.cost:.4f}"
        why = f"  – {self.failures[0]}" if self.failures else ""
        return f"{mark:<6}{runs}  {self.eval_id}{scores}  {self.seconds:.2f} s{cost}{why}"


def values_by_metric(results: Iterable[CaseResult]) -> dict[str, list[float]]:
    """Metric → its scores, in order, without the runs that it gave none."""
    found: dict[str, list[float]] = {}
    for result in results:
        for score in result.scores:
            if score.value is not None:
                found.setdefault(score.metric, []).append(score.value)
    return found


def total_cost(results: Iterable[CaseResult]) -> Decimal | None:
    """What some runs cost together, or `None` if that of one is not known."""
    total = Decimal(0)
    for result in results:
        if result.cost is None:
            return None
        total += result.cost
    return total
