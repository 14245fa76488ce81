"""`FluentEvalSuite`: cases, what they are judged by, and what they are run on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from adk_fluent.backends.protocol import Backend
from adk_fluent.errors import ArgumentError, EvalError
from adk_fluent.eval.cases import FluentCase, named, several
from adk_fluent.eval.judges import FluentJudge, check_score
from adk_fluent.eval.metrics import BROUGHT, TRAITS, PrebuiltMetrics, metric_name
from adk_fluent.eval.simulation import UserSimulation
from adk_fluent.eval.targets import cut, missing_keys, names, tools
from adk_fluent.ir.base import Node, root_of
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from google.adk.evaluation.eval_set import EvalSet

    from adk_fluent.config import ExecutionConfig
    from adk_fluent.eval.report import FluentEvalReport

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many runs are done, and how many there are."""


@dataclass(frozen=True)
class FluentEvalSuite:
    """Cases, what they are judged by, and the pipeline they are run on.

    Args:
        pipeline: an expression, or what was built of one.
        cases: the conversations, with what is expected of each.
        metrics: metrics of ADK's that judge every case which states what they need: `PrebuiltMetrics` or
            their names.
        thresholds: metric → the least score that passes; 0.5 for a listed metric where none is given.
            What a case expects is always judged: tool calls by `tool_trajectory_avg_score` and a reference by
            `response_match_score`, also where neither is listed; they must then reach 1.0 and 0.8, as in
            `adk eval` (a reference may be left to a judge of `custom_judges`).
        num_runs: how often each case is run.
        custom_judges: functions that score, beside the metrics.
        simulation: a model that plays the user; a case's input is then only how it begins.
        name: what the suite is called.
        tags: the tags that cases may have; any, if there are none here.
        trajectory_match: `exact`: the calls are those expected and no others; `in_order` and `any_order`:
            those expected are among them.
        judge_model: the model that metrics ask which need one.
        judge_samples: how often such a metric asks it per turn.
        rubrics: what metrics whose name begins with `rubric_based` look for, one sentence each.
        backend: what runs the cases unless `run` is given another; a function without parameters is called
            for each run of a case, so that each has a script of its own.

    Raises:
        EvalError: a case names a step, tool, tag or metric that does not exist (the nearest is named), or
            something is not what it should be.

    Example:
        >>> import asyncio
        >>> from adk_fluent import Agent
        >>> from adk_fluent.testing import mock_backend
        >>> suite = FluentEvalSuite(
        ...     pipeline=Agent("helper").instruct("Help."),
        ...     cases=[FluentCase("Hi", reference_response="Hello!")],
        ...     metrics=["response_match_score"],
        ...     backend=mock_backend({"helper": "Hello."}),
        ... )
        >>> asyncio.run(suite.run()).pass_rate
        1.0
    """

    pipeline: Any
    cases: Sequence[FluentCase] = ()
    metrics: Sequence[PrebuiltMetrics | str] = ()
    thresholds: Mapping[PrebuiltMetrics | str, float] = field(
        default_factory=dict["PrebuiltMetrics | str", float]
    )
    num_runs: int = 1
    custom_judges: Sequence[FluentJudge] = ()
    simulation: UserSimulation | None = None
    name: str = "eval"
    tags: Collection[str] = ()
    trajectory_match: Literal["exact", "in_order", "any_order"] = "exact"
    judge_model: str = "gemini-2.5-flash"
    judge_samples: int = 1
    rubrics: Sequence[str] = ()
    backend: Backend | Callable[[], Backend] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        lists = _check_types(self)
        cases = lists["cases"]
        if self.simulation is not None and not cases:
            cases = (FluentCase(self.simulation.starting_prompt, metadata={"id": "simulation"}),)
        for name, value in (
            *lists.items(),
            ("cases", cases),
            ("metrics", tuple(map(metric_name, lists["metrics"]))),
            ("thresholds", {metric_name(key): value for key, value in self.thresholds.items()}),
        ):
            object.__setattr__(self, name, value)
        _check_suite(self)

    @property
    def root(self) -> Node:
        """The tree that the cases are run on."""
        return root_of(self.pipeline)

    @property
    def named_cases(self) -> Mapping[str, FluentCase]:
        """The cases by name: `metadata["id"]`, or words of the input."""
        return named(self.cases)

    def simulation_of(self, case: FluentCase) -> UserSimulation | None:
        """What plays the user of a case; nothing if the case says all that the user does."""
        if self.simulation is None or case.metadata.get("simulated") is False:
            return None
        return self.simulation

    async def run(
        self,
        *,
        backend: Backend | Callable[[], Backend] | None = None,
        config: ExecutionConfig | None = None,
        parallelism: int = 4,
        progress: bool | Progress = False,
        engine: Literal["auto", "adk", "light"] = "auto",
        tags: Collection[str] = (),
        allow_unjudged: bool = False,
    ) -> FluentEvalReport:
        """Run every case `num_runs` times, and judge what it did.

        Each run of a case has a session, artifacts and memory of its own. A run that fails fails its case,
        and the others go on.

        Args:
            backend: what runs the cases; the suite's own by default, and else the models of the pipeline.
            config: how the pipeline is run.
            parallelism: how many runs go on at the same time.
            progress: a bar on the standard error output, or what is called with (done, total).
            engine: `adk` is ADK's `LocalEvalService`; `light` is the same metrics without what that needs;
                `auto` takes ADK's where it is installed and a metric asks a model.
            tags: run only cases that have one of these.
            allow_unjudged: a case passes although a metric gave no score, or nothing judged it. By default it
                fails and says why; `report.unjudged` lists such cases.

        Raises:
            EvalError: the suite has no cases, a metric needs a cloud service (nothing has run then), a tag is
                unknown, or an option is wrong.
            MissingExtraError: `engine="adk"`, or a metric, needs the extra `eval`.
            BackendError: the backend does not run on ADK.
        """
        from adk_fluent.eval.running import run_suite

        _check_run(self, parallelism, tags)
        return await run_suite(
            self,
            backend=backend if backend is not None else self.backend,
            config=config,
            parallelism=parallelism,
            progress=progress,
            engine=engine,
            tags=tags,
            allow_unjudged=allow_unjudged,
        )

    # --- files and ADK's objects ------------------------------------------------------------------

    def to_eval_set(self) -> EvalSet:
        """The cases as one of ADK's sets; see `to_eval_set_file` for what does not fit."""
        from adk_fluent.eval.files import to_eval_set

        return to_eval_set(self)

    def to_eval_set_file(
        self, path: str | PathLike[str], config: str | PathLike[str] | None = None
    ) -> tuple[str, ...]:
        """Write the cases as `adk eval` and ADK's web page read them.

        Args:
            path: the file, whose name should end in `.evalset.json`.
            config: also write the metrics here, for `adk eval --config_file_path`.

        Returns:
            What ADK's format cannot say, in one line each; it is not in the files.

        Raises:
            EvalError: something in a case cannot be written as JSON.
        """
        from adk_fluent.eval.files import to_eval_set_file

        return to_eval_set_file(self, path, config)

    @classmethod
    def from_eval_set(
        cls, source: str | PathLike[str] | EvalSet, pipeline: Any, **options: Any
    ) -> FluentEvalSuite:
        """A suite of one of ADK's sets, or of a file with one.

        Its cases get the verdicts of `adk eval`; the page on evaluation lists where they differ on purpose.

        Args:
            source: the set, or the path of a `.evalset.json` file.
            pipeline: what the cases are run on.
            options: anything else a suite takes; the metrics are ADK's own defaults unless given.

        Raises:
            EvalError: the file is none; the message names line and column.
        """
        from adk_fluent.eval.files import from_eval_set

        return from_eval_set(source, pipeline, options, FluentEvalSuite)

    def to_yaml(self, path: str | PathLike[str] | None = None) -> str:
        """The suite as YAML, without its pipeline, judges and backend; also written to `path`.

        Raises:
            EvalError: a case holds what YAML cannot, such as a predicate.
        """
        from adk_fluent.eval.files import to_yaml

        return to_yaml(self, path)

    @classmethod
    def from_yaml(cls, path: str | PathLike[str], pipeline: Any = None, **options: Any) -> FluentEvalSuite:
        """A suite of a YAML or JSON file. No code in it is run.

        Args:
            path: the file.
            pipeline: what the cases are run on.
            options: anything else a suite takes, in place of what the file says.

        Raises:
            EvalError: the file cannot be read, or holds something else; the message names line and column.
        """
        from adk_fluent.eval.files import from_yaml

        return from_yaml(path, pipeline, options, FluentEvalSuite)


# --- what is wrong with a suite, found before anything runs -----------------------------------------

_MATCHES: Final = ("exact", "in_order", "any_order")
_LISTS: Final = (
    ("cases", object, ""),
    ("metrics", object, ""),
    ("custom_judges", object, ""),
    ("tags", str, " of text"),
    ("rubrics", str, " of text"),
)


def _check_types(suite: FluentEvalSuite) -> dict[str, tuple[Any, ...]]:
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


def _check_suite(suite: FluentEvalSuite) -> None:
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


def _check_run(suite: FluentEvalSuite, parallelism: object, tags: Collection[str]) -> None:
    """Refuse a run that would judge nothing or needs Google Cloud, and options that cannot be.

    Raises:
        EvalError: it is one; the message says what to use in its place.
    """
    if type(parallelism) is not int or parallelism < 1:
        raise EvalError(f"run(parallelism=) takes a positive number, not {parallelism!r}.")
    if not suite.cases:
        raise EvalError(f"Suite {suite.name!r} has no cases, so it would judge nothing: give it cases=[...].")
    if isinstance(tags, str) or not isinstance(cast(object, tags), Iterable):
        raise EvalError(f"run(tags=) takes tags, as tags=['billing'], not {tags!r:.40}.")
    known = sorted({tag for case in suite.cases for tag in case.tags})
    _all_known(f"Suite {suite.name!r}", "tag", tags, known)
    for metric in suite.metrics:
        if TRAITS[PrebuiltMetrics(metric)].judge == "cloud":
            raise EvalError(
                f"The metric {metric!s} is computed by a service of Google Cloud, so nothing was run. Judge "
                "with response_match_score, a FluentJudge, or a metric that asks a model, such as "
                "final_response_match_v2."
            )
