"""What is wrong with a suite, found before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent.backends.protocol import Backend
from adk_fluent.errors import ArgumentError, EvalError
from adk_fluent.eval.cases import FluentCase, named, several
from adk_fluent.eval.judges import FluentJudge, check_score
from adk_fluent.eval.metrics import BROUGHT, TRAITS, PrebuiltMetrics
from adk_fluent.eval.simulation import UserSimulation
from adk_fluent.eval.targets import cut, missing_keys, names, tools
from adk_fluent.ir.base import root_of
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from adk_fluent.eval.suite import FluentEvalSuite

_MATCHES: Final = ("exact", "in_order", "any_order")
_LISTS: Final = (
    ("cases", object, ""),
    ("metrics", object, ""),
    ("custom_judges", object, ""),
    ("tags", str, " of text"),
    ("rubrics", str, " of text"),
)


def check_types(suite: FluentEvalSuite) -> dict[str, tuple[Any, ...]]:
    """Refuse arguments of another type than a suite takes; gives its lists by name.

    Raises:
        EvalError: there is one; the message names it.
    """
    lists: dict[str, tuple[Any, ...]] = {}
    for name, kind, of in _LISTS:
        given: object = getattr(suite, name)
        if (values := several(given, kind)) is None:
            raise EvalError(f"FluentEvalSuite({name}=) takes a list{of}, not {given!r:.40}.")
        lists[name] = values
    for metric in lists["metrics"]:
        if isinstance(metric, FluentJudge):
            raise EvalError(
                f"FluentEvalSuite(metrics=): {metric.name!r} is a judge of your own, which goes into "
                "custom_judges=[...]."
            )
    for name, kind, what in (
        ("thresholds", Mapping, "a dict"),
        ("simulation", UserSimulation | None, "a UserSimulation(...)"),
        ("name", str, "text"),
        ("judge_model", str, "text"),
    ):
        if not isinstance(given := getattr(suite, name), kind):
            raise EvalError(f"FluentEvalSuite({name}=) takes {what}, not {given!r:.40}.")
    for name in ("num_runs", "judge_samples"):
        if type(given := getattr(suite, name)) is not int or given < 1:
            raise EvalError(f"FluentEvalSuite({name}=) takes a positive number, not {given!r:.40}.")
    backend = cast(object, suite.backend)
    if not (backend is None or callable(backend) or isinstance(backend, Backend)):
        raise EvalError(
            f"FluentEvalSuite(backend=) takes a backend, or a function that makes one, not {backend!r:.40}."
        )
    return lists


def check_suite(suite: FluentEvalSuite) -> None:
    """Refuse a suite that cannot be run.

    Raises:
        EvalError: something in it is wrong; the message names the case, and the nearest of what exists.
    """
    try:
        root = root_of(suite.pipeline)
    except ArgumentError as error:
        raise EvalError(f"FluentEvalSuite(pipeline=): {error}") from error
    if suite.trajectory_match not in _MATCHES:
        raise EvalError(
            f"FluentEvalSuite(trajectory_match={suite.trajectory_match!r}): "
            f"choose one of {', '.join(_MATCHES)}."
        )
    _judges(suite)
    _metrics(suite)
    for case in suite.cases:
        if not isinstance(case, FluentCase):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise EvalError(f"FluentEvalSuite(cases=) takes FluentCase objects, not {case!r:.40}.")
    known, (called, opened) = names(root), tools(root)
    for name, case in named(suite.cases).items():
        where = f"Case {name!r}"
        _thresholds(where, case.thresholds, suite)
        if suite.tags:
            _all_known(where, "tag", case.tags, suite.tags)
        _all_known(
            where, "agent or step", (*(case.state_after or ()), *filter(None, [case.target_node])), known
        )
        if not opened:
            expected = [call.name for turn in case.turns for call in turn.calls or ()]
            _all_known(where, "tool", (*(case.mock_tool_outputs or ()), *expected), called)
        if case.target_node is not None:
            lost = missing_keys(root, cut(root, case.target_node), case.initial_state or {})
            for key, writer in lost.items():
                raise EvalError(
                    f"{where}: {case.target_node!r} reads {key!r}, which {writer!r} writes before it in the "
                    f"pipeline. Say what it would be: initial_state={{{key!r}: ...}}."
                )


def _judges(suite: FluentEvalSuite) -> None:
    prebuilt = {metric.value for metric in PrebuiltMetrics}
    seen: set[str] = set()
    for judge in suite.custom_judges:
        if not isinstance(judge, FluentJudge):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise EvalError(f"FluentEvalSuite(custom_judges=) takes FluentJudge objects, not {judge!r:.40}.")
        if judge.name in seen | prebuilt:
            raise EvalError(f"FluentJudge({judge.name!r}): a metric of that name is there already.")
        seen.add(judge.name)


def _metrics(suite: FluentEvalSuite) -> None:
    _all_known(
        "FluentEvalSuite(metrics=)", "metric", suite.metrics, [metric.value for metric in PrebuiltMetrics]
    )
    for metric in suite.metrics:
        traits = TRAITS[PrebuiltMetrics(metric)]
        if traits.by_rubrics and not suite.rubrics:
            raise EvalError(f"The metric {metric!s} looks for rubrics: FluentEvalSuite(rubrics=[...]).")
        if traits.of_user and suite.simulation is None:
            raise EvalError(
                f"The metric {metric!s} judges a simulated user: FluentEvalSuite(simulation=...)."
            )
    _thresholds("FluentEvalSuite", suite.thresholds, suite)


def _thresholds(where: str, given: Mapping[Any, object], suite: FluentEvalSuite) -> None:
    judges = [judge.name for judge in suite.custom_judges]
    brought = [metric.value for metric, _ in BROUGHT.values()]
    _all_known(f"{where} thresholds", "metric", given, [*suite.metrics, *judges, *brought])
    for name, value in given.items():
        check_score("threshold", name, value)


def _all_known(where: str, what: str, given: Iterable[object], known: Collection[str]) -> None:
    for name in map(str, given):
        if name not in known:
            raise EvalError(f"{where}: there is no {what} {name!r}.{did_you_mean(name, known)}")


def check_tags(suite: FluentEvalSuite, tags: Iterable[str]) -> None:
    """Refuse tags that no case has.

    Raises:
        EvalError: there is one; the message names the nearest.
    """
    if isinstance(tags, str) or not isinstance(cast(object, tags), Iterable):
        raise EvalError(f"run(tags=) takes tags, as tags=['billing'], not {tags!r:.40}.")
    _all_known(
        f"Suite {suite.name!r}", "tag", tags, sorted({tag for case in suite.cases for tag in case.tags})
    )


def refuse_cloud(suite: FluentEvalSuite) -> None:
    """Refuse metrics that a service of Google Cloud computes.

    Raises:
        EvalError: there is one; the message says what to use in its place.
    """
    for metric in suite.metrics:
        if TRAITS[PrebuiltMetrics(metric)].judge == "cloud":
            raise EvalError(
                f"The metric {metric!s} is computed by a service of Google Cloud, so nothing was run. Judge "
                "with response_match_score, a FluentJudge, or a metric that asks a model, such as "
                "final_response_match_v2."
            )
