"""`FluentEvalReport`: what came of a suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from os import PathLike
from statistics import fmean
from typing import TYPE_CHECKING, Self, cast

from adk_fluent.errors import EvalError
from adk_fluent.eval.results import CaseResult, CaseSummary, Spread, total_cost, values_by_metric
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from adk_fluent.eval.cases import FluentCase
    from adk_fluent.eval.comparing import RegressionReport


class _Named(dict[str, "TagSummary"]):
    """Summaries by name; one that is not there is told with the nearest."""

    def __missing__(self, tag: str) -> TagSummary:
        raise KeyError(f"No case has the tag {tag!r}.{did_you_mean(tag, self)}")


@dataclass(frozen=True)
class TagSummary:
    """Every run of the cases that have a tag.

    Attributes:
        cases: how many cases there are.
        runs: how often they ran.
        passes: how many runs passed.
        scores: metric → its scores over these runs.
    """

    cases: int
    runs: int
    passes: int
    scores: Mapping[str, Spread]

    @property
    def pass_rate(self) -> float:
        """The share of runs that passed."""
        return self.passes / self.runs if self.runs else 0.0

    @classmethod
    def from_results(cls, results: Sequence[CaseResult]) -> Self:
        """The summary of some runs."""
        scores = {name: Spread.of(values) for name, values in values_by_metric(results).items()}
        return cls(
            cases=len({result.eval_id for result in results}),
            runs=len(results),
            passes=sum(result.passed for result in results),
            scores=scores,
        )


@dataclass(frozen=True)
class FluentEvalReport:
    """What came of a suite.

    Attributes:
        case_results: every run of every case, the runs of a case one after the other.
        fluent_cases: the cases; a report that was loaded has none.
        name: that of the suite.
        engine: what judged: `adk`, ADK's `LocalEvalService`, or `light`, the same metrics without it.
        versions: those of `adk_fluent` and `google-adk`.
        notes: what to know about how the cases ran, in one line each.
    """

    case_results: tuple[CaseResult, ...]
    fluent_cases: tuple[FluentCase, ...] = field(default=(), compare=False, repr=False)
    name: str = "eval"
    engine: str = "adk"
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "case_results", tuple(self.case_results))
        object.__setattr__(self, "fluent_cases", tuple(self.fluent_cases))

    # --- numbers ----------------------------------------------------------------------------------

    @property
    def passed(self) -> bool:
        """Whether every run of every case passed, and there was one."""
        return bool(self.case_results) and all(result.passed for result in self.case_results)

    @property
    def pass_rate(self) -> float:
        """The share of runs that passed; 0 where there is none."""
        results = self.case_results
        return sum(result.passed for result in results) / len(results) if results else 0.0

    @cached_property
    def cases(self) -> Mapping[str, CaseSummary]:
        """Name of a case → all its runs."""
        found: dict[str, list[CaseResult]] = {}
        for result in self.case_results:
            found.setdefault(result.eval_id, []).append(result)
        return {name: CaseSummary(name, tuple(runs)) for name, runs in found.items()}

    @cached_property
    def per_tag(self) -> Mapping[str, TagSummary]:
        """Tag → its cases; a tag that no case has raises `KeyError`, which names the nearest."""
        return _Named(_grouped((tag, result) for result in self.case_results for tag in result.tags))

    @cached_property
    def per_metric(self) -> Mapping[str, Spread]:
        """Metric → its scores over all runs that it judged."""
        return {name: Spread.of(values) for name, values in values_by_metric(self.case_results).items()}

    @property
    def flake_rate(self) -> float:
        """The share of cases that passed in some runs and failed in others."""
        cases = self.cases.values()
        return sum(case.is_flaky for case in cases) / len(cases) if cases else 0.0

    @property
    def failed(self) -> tuple[CaseSummary, ...]:
        """The cases of which a run failed."""
        return tuple(case for case in self.cases.values() if not case.passed)

    @property
    def unjudged(self) -> Mapping[str, tuple[str, ...]]:
        """Name of a case → why a metric gave no score in one of its runs, or why nothing judged it."""
        return {name: case.unjudged for name, case in self.cases.items() if case.unjudged}

    @property
    def cost(self) -> Decimal | None:
        """What all runs cost in USD, or `None` if that is not known."""
        return total_cost(self.case_results)

    @property
    def seconds(self) -> float:
        """What a run of a case takes on average; 0 where there is none."""
        return fmean(result.seconds for result in self.case_results) if self.case_results else 0.0

    # --- words ------------------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """One line a case, then one for all, then the notes."""
        cases = self.cases.values()
        ends = f"{sum(case.passed for case in cases)} of {len(cases)} cases passed"
        flaky = sum(case.is_flaky for case in cases)
        skipped = len(self.unjudged)
        ends += f", {flaky} flaky" if flaky else ""
        ends += f", {skipped} not wholly judged" if skipped else ""
        return "\n".join([*map(str, cases), f"{ends}.", *self.notes])

    def __str__(self) -> str:
        return self.summary

    def compare(self, baseline: FluentEvalReport, alpha: float = 0.05) -> RegressionReport:
        """What changed since another report, case by case, told from noise.

        Passes are compared with Fisher's exact test, scores with a permutation test; see `RegressionReport`.

        Args:
            baseline: the report from before.
            alpha: how likely a change that is called one may be chance.
        """
        from adk_fluent.eval.comparing import compared

        if not isinstance(cast(object, baseline), FluentEvalReport):
            raise EvalError(
                f"compare() takes a report, not {baseline!r:.40}; FluentEvalReport.load(path) reads one."
            )
        return compared(self.cases, baseline.cases, alpha)

    def to_markdown(self) -> str:
        """The report as Markdown: totals, a table of the cases, and why they failed."""
        from adk_fluent.eval.markdown import to_markdown

        return to_markdown(self)

    def to_json(self) -> str:
        """The report as JSON, which `load` reads."""
        from adk_fluent.eval.stored import to_json

        return to_json(self)

    def to_junit(self) -> str:
        """The report as JUnit XML: one test case per case, with its failures."""
        from adk_fluent.eval.junit import to_junit

        return to_junit(self)

    def to_html(self, baseline: FluentEvalReport | None = None) -> str:
        """The report as a page of its own, with the turns of failed cases beside what was expected."""
        from adk_fluent.eval.page import to_html

        return to_html(self, baseline)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the report as JSON, whole or not at all."""
        from adk_fluent.eval.stored import write

        write(path, self.to_json())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> FluentEvalReport:
        """A report that was saved. No code in it is run.

        Raises:
            EvalError: it cannot be read, is not JSON, or is no report of a version known here; the message
                names line and column.
        """
        from adk_fluent.eval.stored import load

        return load(path, FluentEvalReport)


def _grouped(pairs: Iterable[tuple[str, CaseResult]]) -> dict[str, TagSummary]:
    found: dict[str, list[CaseResult]] = {}
    for tag, result in pairs:
        found.setdefault(tag, []).append(result)
    return {tag: TagSummary.from_results(results) for tag, results in found.items()}
