"""`RegressionReport`: what got worse since a baseline, told from noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from random import Random
from statistics import fmean
from typing import Final, Literal

from adk_fluent.eval.results import CaseSummary, values_by_metric

Verdict = Literal["regressed", "improved", "declined", "noise", "same"]

_EXACT: Final = 20_000
"""Up to this many ways to deal the scores out again, all are looked at; beyond, as many at random."""
_CLOSE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class CaseChange:
    """One case, before and after.

    Attributes:
        eval_id: the name of the case.
        baseline: its runs before.
        current: its runs now.
        verdict: `regressed` where it passes less often, `declined` where it still passes as often but a
            score fell, `improved` where it passes more often or as often with better scores, `noise` where
            a change may be chance, else `same`.
        p_value: how likely chance alone makes it pass so much less, or more, often.
        declines: metrics whose scores fell → (mean before, mean now).
    """

    eval_id: str
    baseline: CaseSummary
    current: CaseSummary
    verdict: Verdict
    p_value: float
    declines: Mapping[str, tuple[float, float]]

    def __str__(self) -> str:
        before, now = self.baseline, self.current
        runs = f"{before.passes}/{len(before.runs)} → {now.passes}/{len(now.runs)} runs pass"
        fell = ", ".join(f"{name} {was:.3g} → {now:.3g}" for name, (was, now) in self.declines.items())
        why = f" – {now.failures[0]}" if self.verdict == "regressed" and now.failures else ""
        fell = fell and f"; {fell}"
        return f"{self.verdict}: {self.eval_id}  {runs} (p = {self.p_value:.2g}){fell}{why}"


@dataclass(frozen=True, slots=True)
class RegressionReport:
    """What changed between two reports, case by case.

    Whether a case passes more or less often is tested with Fisher's exact test, one-sided, on how many of its
    runs passed before and now. Where all runs agreed in both reports, the runs show no noise at all, and a
    case that goes from passed to failed is a regression however few they are. A metric is said to have
    declined when the mean of its scores fell, by a permutation test of the difference of the means,
    one-sided: exact where there are up to 20,000 ways to deal the scores out, else by as many drawn with a
    fixed seed; scores that do not vary at all within each of the two need two runs each.

    Sources: R. A. Fisher, "The Design of Experiments", 1935 (both tests).

    Attributes:
        changes: every case that both reports have.
        added: cases that only the new report has.
        removed: cases that only the baseline has.
        alpha: how likely a change that is called one may be chance.
    """

    changes: tuple[CaseChange, ...]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    alpha: float = 0.05

    def _those(self, verdict: Verdict) -> tuple[CaseChange, ...]:
        return tuple(change for change in self.changes if change.verdict == verdict)

    @property
    def regressed(self) -> tuple[CaseChange, ...]:
        """The cases that pass less often."""
        return self._those("regressed")

    @property
    def improved(self) -> tuple[CaseChange, ...]:
        """The cases that pass more often, or as often with better scores."""
        return self._those("improved")

    @property
    def declined(self) -> tuple[CaseChange, ...]:
        """The cases that pass as often, with worse scores."""
        return self._those("declined")

    @property
    def noise(self) -> tuple[CaseChange, ...]:
        """The cases that changed by no more than chance may."""
        return self._those("noise")

    @property
    def ok(self) -> bool:
        """Whether nothing got worse."""
        return not self.regressed and not self.declined

    @property
    def summary(self) -> str:
        """One line for each case that changed, then one for all."""
        order: Sequence[Verdict] = ("regressed", "declined", "improved", "noise")
        lines = [str(change) for verdict in order for change in self._those(verdict)]
        lines += [f"new: {name}" for name in self.added] + [f"gone: {name}" for name in self.removed]
        counts = [f"{len(found)} {verdict}" for verdict in order if (found := self._those(verdict))]
        cases = f"{len(self.changes)} case{'s' * (len(self.changes) != 1)}"
        ends = f"{', '.join(counts) or 'Nothing changed'}; {cases} compared."
        if not self.changes:
            ends = "Nothing is compared: no case is in both reports."
        return "\n".join([*lines, ends])

    def __str__(self) -> str:
        return self.summary


def compared(
    now: Mapping[str, CaseSummary], before: Mapping[str, CaseSummary], alpha: float
) -> RegressionReport:
    """What changed between the cases of two reports, by their names."""
    return RegressionReport(
        changes=tuple(_change(before[name], now[name], alpha) for name in now if name in before),
        added=tuple(name for name in now if name not in before),
        removed=tuple(name for name in before if name not in now),
        alpha=alpha,
    )


def _change(before: CaseSummary, now: CaseSummary, alpha: float) -> CaseChange:
    was, then, is_, runs = before.passes, len(before.runs), now.passes, len(now.runs)
    worse = is_ / runs < was / then
    p = fisher(was, then, is_, runs) if worse else fisher(is_, runs, was, then)
    declines, gains = _falls(before, now, alpha), _falls(now, before, alpha)
    verdict: Verdict = "same"
    if is_ / runs != was / then:
        unanimous = not before.is_flaky and not now.is_flaky
        sure = unanimous or p <= alpha
        verdict = ("regressed" if worse else "improved") if sure else "noise"
    if verdict in ("same", "noise") and (declines or gains):
        verdict = "declined" if declines else "improved"
    elif verdict == "same" and _means(before) != _means(now):
        verdict = "noise"
    return CaseChange(now.eval_id, before, now, verdict, p, declines)


def _means(case: CaseSummary) -> dict[str, float]:
    return {name: round(spread.mean, 9) for name, spread in case.scores.items()}


def _falls(before: CaseSummary, now: CaseSummary, alpha: float) -> dict[str, tuple[float, float]]:
    """The metrics whose scores are worse in the second → both means."""
    was, is_ = values_by_metric(before.runs), values_by_metric(now.runs)
    return {
        name: (fmean(was[name]), fmean(is_[name]))
        for name in was
        if name in is_ and _fell(was[name], is_[name], alpha)
    }


def _fell(was: Sequence[float], is_: Sequence[float], alpha: float) -> bool:
    if fmean(is_) >= fmean(was) - _CLOSE:
        return False
    if len(set(was)) == len(set(is_)) == 1 and min(len(was), len(is_)) > 1:
        return True
    return permutation(was, is_) <= alpha


def fisher(passes: int, runs: int, other_passes: int, other_runs: int) -> float:
    """Fisher's exact test: how likely chance gives the other so few of the passes, or fewer.

    >>> round(fisher(5, 5, 0, 5), 4), fisher(1, 1, 0, 1)
    (0.004, 0.5)
    """
    total = passes + other_passes
    least = max(0, total - runs)
    ways = sum(comb(runs, total - k) * comb(other_runs, k) for k in range(least, other_passes + 1))
    return ways / comb(runs + other_runs, total)


def permutation(was: Sequence[float], is_: Sequence[float]) -> float:
    """A permutation test: how likely chance gives the second so low a mean, or a lower one.

    >>> permutation([0.9, 0.8, 0.9], [0.2, 0.3, 0.1])
    0.05
    """
    scores, size = [*was, *is_], len(is_)
    limit = sum(is_) + _CLOSE
    if comb(len(scores), size) <= _EXACT:
        ways = [sum(chosen) for chosen in combinations(scores, size)]
        return sum(way <= limit for way in ways) / len(ways)
    random = Random(0)
    drawn = sum(sum(random.sample(scores, size)) <= limit for _ in range(_EXACT))
    return (drawn + 1) / (_EXACT + 1)
