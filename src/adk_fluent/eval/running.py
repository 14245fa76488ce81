"""Running a suite: each case as often as wanted, several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, cast

from adk_fluent import __version__
from adk_fluent.errors import BackendError, EvalError, MissingExtraError
from adk_fluent.eval.assertions import asserted
from adk_fluent.eval.cases import FluentCase, text_of
from adk_fluent.eval.checking import check_tags, refuse_cloud
from adk_fluent.eval.metrics import DEFAULT_THRESHOLD, TRAITS, PrebuiltMetrics
from adk_fluent.eval.progress import bar
from adk_fluent.eval.report import FluentEvalReport
from adk_fluent.eval.results import CaseResult, Score, TurnResult
from adk_fluent.eval.targets import cut
from adk_fluent.ir.base import Node
from adk_fluent.ir.matching import plain

if TYPE_CHECKING:
    from adk_fluent.backends.adk.evaluation.playing import Played
    from adk_fluent.backends.adk.evaluation.services import Judged, Wanted
    from adk_fluent.backends.adk.running.backend import ADKBackend, Compiled
    from adk_fluent.backends.protocol import Backend
    from adk_fluent.config import ExecutionConfig
    from adk_fluent.eval.suite import FluentEvalSuite, Progress

Chosen = Literal["adk", "light"]


async def run_suite(
    suite: FluentEvalSuite,
    *,
    backend: Backend | Callable[[], Backend] | None,
    config: ExecutionConfig | None,
    parallelism: int,
    progress: bool | Progress,
    engine: Literal["auto", "adk", "light"],
    tags: Collection[str],
) -> FluentEvalReport:
    """What `FluentEvalSuite.run` does."""
    if type(parallelism) is not int or parallelism < 1:
        raise EvalError(f"run(parallelism=) takes a positive number, not {parallelism!r}.")
    check_tags(suite, tags)
    refuse_cloud(suite)
    scene = _Scene(suite, backend, config, _engine(engine))
    cases = {name: c for name, c in suite.named_cases.items() if not tags or set(tags) & set(c.tags)}
    runs = [(name, case, run) for name, case in cases.items() for run in range(1, suite.num_runs + 1)]
    gate = asyncio.Semaphore(parallelism)
    tell: Progress | None = bar(suite.name) if progress is True else progress or None
    if tell is not None:
        plain(tell, "run(progress=)")
    done = 0

    async def one(name: str, case: FluentCase, run: int) -> CaseResult:
        nonlocal done
        async with gate:
            result = await scene.result(name, case, run)
        done += 1
        if tell is not None:
            tell(done, len(runs))
        return result

    scene.prepare(cases.values())
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*each)) for each in runs]
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
    return FluentEvalReport(
        case_results=tuple(task.result() for task in tasks),
        fluent_cases=tuple(cases.values()),
        name=suite.name,
        engine=scene.engine,
        versions=_versions(),
    )


def _engine(engine: str) -> Chosen:
    from adk_fluent.backends.adk.evaluation.services import has_local_service

    if engine not in ("auto", "adk", "light"):
        raise EvalError(f"run(engine={engine!r}): choose one of auto, adk, light.")
    if engine == "light" or (engine == "auto" and not has_local_service()):
        return "light"
    if not has_local_service():
        raise MissingExtraError("run(engine='adk') needs ADK's evaluation: pip install 'adk-fluent[eval]'.")
    return "adk"


def _versions() -> Mapping[str, str]:
    return {"adk_fluent": __version__, "google-adk": version("google-adk")}


@dataclass
class _Scene:
    """What all runs of a suite have in common."""

    suite: FluentEvalSuite
    given: Backend | Callable[[], Backend] | None
    config: ExecutionConfig | None
    engine: Chosen

    def __post_init__(self) -> None:
        self._made: dict[str | None, Compiled] = {}
        self._root = self.suite.root
        # a function makes a backend for each run, so that each has a script of its own
        self._fresh = callable(self.given) and not hasattr(self.given, "compile")

    def _backend(self) -> ADKBackend:
        from adk_fluent.backends.adk.running.backend import ADKBackend, default_backend

        given = cast("Callable[[], Backend]", self.given)() if self._fresh else self.given
        if given is None:
            return default_backend()
        if not isinstance(given, ADKBackend):
            raise BackendError(
                f"An evaluation runs on ADK, which {type(given).__name__} does not: use ADKBackend(), "
                "mock_backend({...}) or another that is based on them."
            )
        return given

    def prepare(self, cases: Iterable[FluentCase]) -> None:
        """Compile what the cases run on, so that what cannot run is told before anything has."""
        backend = self._backend()
        for target in {case.target_node for case in cases}:
            self._compiled(backend, target)

    def _compiled(self, backend: ADKBackend, target: str | None) -> Compiled:
        if self._fresh or target not in self._made:
            node: Node = self._root if target is None else cut(self._root, target)
            self._made[target] = backend.compile(node, self.config, state=None)
        return self._made[target]

    async def result(self, name: str, case: FluentCase, run: int) -> CaseResult:
        """Run a case once."""
        from adk_fluent.backends.adk.evaluation.playing import play
        from adk_fluent.backends.adk.evaluation.services import judge
        from adk_fluent.backends.adk.evaluation.sets import eval_case
        from adk_fluent.backends.adk.evaluation.users import user_of
        from adk_fluent.backends.adk.running.runner import fresh_services

        backend = self._backend()
        compiled = self._compiled(backend, case.target_node)
        simulation = self.suite.simulation_of(case)
        native = eval_case(name, case, compiled.config.app_name, simulation)
        services = fresh_services()
        mocks = case.mock_tool_outputs or {}
        played = await play(
            backend,
            compiled,
            native,
            user_of(native, simulation),
            services=services,
            session_id=f"{name}-{run}",
            mocks={tool: partial(_mocked, _of_run(output)) for tool, output in mocks.items()},
            watched=tuple(case.state_after or ()),
        )
        judged = await judge(
            native,
            played,
            list(self._wanted(case)),
            engine=self.engine,
            agent=compiled.app.root_agent,
            sessions=services.session_service,
        )
        return _result(name, case, run, played, judged)

    def _wanted(self, case: FluentCase) -> Iterator[Wanted]:
        """The metrics that judge a case: those that need nothing which it does not state."""
        from adk_fluent.backends.adk.evaluation.services import Wanted

        suite = self.suite
        for name in suite.metrics:
            metric = PrebuiltMetrics(name)
            needs = TRAITS[metric].needs
            stated: tuple[bool, ...] = ()
            if needs is not None:
                fields = [turn.calls if needs == "trajectory" else turn.reference for turn in case.turns]
                stated = tuple(field is not None for field in fields)
                if suite.simulation_of(case) is not None or not any(stated):
                    continue
            yield Wanted(metric.value, self._threshold(case, metric.value), options_of(suite, metric), stated)
        for judge in suite.custom_judges:
            threshold = case.thresholds.get(judge.name, suite.thresholds.get(judge.name, judge.threshold))
            yield Wanted(judge.name, threshold, judge=judge)

    def _threshold(self, case: FluentCase, name: str) -> float:
        return case.thresholds.get(name, self.suite.thresholds.get(name, DEFAULT_THRESHOLD))


def _of_run(output: Any) -> Any:
    """What a tool gives in one run; what was recorded begins anew in each."""
    anew = getattr(output, "per_run", None)
    return anew() if callable(output) and callable(anew) else output


def options_of(suite: FluentEvalSuite, metric: PrebuiltMetrics) -> dict[str, Any]:
    """What the evaluator of a metric wants to know beside the threshold."""
    traits = TRAITS[metric]
    if metric is PrebuiltMetrics.TOOL_TRAJECTORY_AVG_SCORE:
        return {"match_type": suite.trajectory_match.upper()}
    if traits.judge != "model":
        return {}
    options: dict[str, Any] = {
        "judge_model_options": {"judge_model": suite.judge_model, "num_samples": suite.judge_samples}
    }
    if traits.by_rubrics:
        options["rubrics"] = [
            {"rubric_id": f"rubric_{number}", "rubric_content": {"text_property": text}}
            for number, text in enumerate(suite.rubrics, 1)
        ]
    if traits.of_user and suite.simulation is not None:
        options["stop_signal"] = suite.simulation.stop_signal
    return options


def _mocked(output: object, **args: Any) -> object:
    """What a mocked tool gives."""
    if isinstance(output, BaseException):
        raise output
    return output(**args) if callable(output) else output


# --- from what happened to a result ---------------------------------------------------------------


def _result(name: str, case: FluentCase, run: int, played: Played, judged: Judged) -> CaseResult:
    turns = tuple(_turns(case, played))
    scores = list(_scores(judged))
    if played.error is None:
        scores += asserted(case, turns[-1].answer if turns else "", played.state, played.after)
    used = list(played.usage.values())
    costs = [usage.cost for usage in used]
    return CaseResult(
        eval_id=name,
        run=run,
        passed=played.error is None and all(score.passed for score in scores),
        scores=tuple(scores),
        turns=turns,
        tags=tuple(case.tags),
        error=played.error,
        seconds=sum(played.seconds),
        tokens=sum(usage.total_tokens for usage in used),
        cost=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
        native=judged.native,
    )


def _scores(judged: Judged) -> Iterator[Score]:
    for one in judged.native.overall_eval_metric_results:
        passed = one.eval_status.name == "PASSED"
        why = () if passed else _why(one.metric_name, one.score, judged.complaints.get(one.metric_name, ()))
        yield Score(one.metric_name, one.score, one.threshold or 0.0, passed, why)


def _why(metric: str, score: float | None, complaints: Sequence[str]) -> tuple[str, ...]:
    """Why there is no score, or none that counts; nothing where it is only too low."""
    if any(line.startswith("judge ") for line in complaints):  # a judge of the user's, whose score is 0 then
        return tuple(complaints)
    if score is not None:
        return ()
    silent = ("it gave no score, since the model that judges did not answer as it should",)
    return tuple(f"{metric}: {line}" for line in complaints or silent)


def _turns(case: FluentCase, played: Played) -> Iterator[TurnResult]:
    from adk_fluent.backends.adk.evaluation.evaluators import text_of as words
    from adk_fluent.backends.adk.evaluation.evaluators import tool_calls

    for index, turn in enumerate(played.invocations):
        wanted = case.turns[index] if index < len(case.turns) else None
        yield TurnResult(
            said=text_of(turn.user_content),
            answer=words(turn.final_response),
            calls=tuple((call.name or "", dict(call.args or {})) for call in tool_calls(turn)),
            reference=wanted.reference if wanted else None,
            expected_calls=None
            if wanted is None or wanted.calls is None
            else tuple((call.name, call.args) for call in wanted.calls),
            seconds=played.seconds[index] if index < len(played.seconds) else 0.0,
        )
