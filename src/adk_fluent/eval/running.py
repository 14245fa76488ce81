"""Running a suite: each case as often as wanted, several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from adk_fluent import __version__
from adk_fluent.errors import BackendError, EvalError, MissingExtraError, install
from adk_fluent.eval.assertions import asserted
from adk_fluent.eval.cases import FluentCase, text_of
from adk_fluent.eval.metrics import BROUGHT, DEFAULT_THRESHOLD, GOAL, TRAITS, Expectation, PrebuiltMetrics
from adk_fluent.eval.progress import bar
from adk_fluent.eval.report import FluentEvalReport
from adk_fluent.eval.results import CaseResult, Score, TurnResult, too_low
from adk_fluent.eval.targets import cut
from adk_fluent.ir.base import Node
from adk_fluent.ir.predicates import plain
from adk_fluent.middleware.caching import bypassed

if TYPE_CHECKING:
    from adk_fluent.backends.adk.api import ADKBackend, Compiled
    from adk_fluent.backends.protocol import Backend
    from adk_fluent.config import ExecutionConfig
    from adk_fluent.eval.adk_services import Judged, Wanted
    from adk_fluent.eval.playthrough import Played
    from adk_fluent.eval.simulation import UserSimulation
    from adk_fluent.eval.suite import FluentEvalSuite, Progress

Chosen = Literal["adk", "light"]

BYPASSED: Final = "cache() was bypassed, so that every run asks the model."


async def run_suite(
    suite: FluentEvalSuite,
    *,
    backend: Backend | Callable[[], Backend] | None,
    config: ExecutionConfig | None,
    parallelism: int,
    progress: bool | Progress,
    engine: Literal["auto", "adk", "light"],
    tags: Collection[str],
    allow_unjudged: bool,
) -> FluentEvalReport:
    """What `FluentEvalSuite.run` does, once its options are checked."""
    scene = _Scene(suite, backend, config, _engine(engine, suite), allow_unjudged)
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
        notes=(BYPASSED,) if scene.bypassed else (),
    )


def _engine(engine: str, suite: FluentEvalSuite) -> Chosen:
    """Who judges; `auto` imports ADK's service, which takes seconds, only for metrics that ask a model."""
    from adk_fluent.eval.adk_services import has_local_service

    if engine not in ("auto", "adk", "light"):
        raise EvalError(f"run(engine={engine!r}): choose one of auto, adk, light.")
    offline = all(TRAITS[PrebuiltMetrics(metric)].judge == "offline" for metric in suite.metrics)
    if engine == "light" or (engine == "auto" and (offline or not has_local_service())):
        return "light"
    if not has_local_service():
        raise MissingExtraError(f"run(engine='adk') needs ADK's evaluation: {install('eval')}.")
    return "adk"


def _versions() -> Mapping[str, str]:
    return {"adk_fluent": __version__, "google-adk": version("google-adk")}


@dataclass
class _Scene:
    """What all runs of a suite have in common.

    Attributes:
        bypassed: whether a run asked a model past a cache.
    """

    suite: FluentEvalSuite
    given: Backend | Callable[[], Backend] | None
    config: ExecutionConfig | None
    engine: Chosen
    allow_unjudged: bool

    def __post_init__(self) -> None:
        self.bypassed: bool = False
        self._made: dict[str | None, Compiled] = {}
        self._root = self.suite.root
        # a function makes a backend for each run, so that each has a script of its own
        self._fresh = callable(self.given) and not hasattr(self.given, "compile")

    def _backend(self) -> ADKBackend:
        from adk_fluent.backends.adk.api import ADKBackend, default_backend

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
        from adk_fluent.backends.adk.api import fresh_services
        from adk_fluent.eval.adk_services import judge
        from adk_fluent.eval.adk_sets import eval_case
        from adk_fluent.eval.playthrough import play, user_of

        backend = self._backend()
        compiled = self._compiled(backend, case.target_node)
        simulation = self.suite.simulation_of(case)
        native = eval_case(name, case, compiled.config.app_name, simulation)
        services = fresh_services()
        mocks = case.mock_tool_outputs or {}
        with bypassed() as caches:  # not around the judges, whose own agents may have one
            played = await play(
                backend,
                compiled,
                native,
                user_of(native, simulation),
                services=services,
                session_id=f"{name}-{run}",
                mocks={tool: _of_run(output) for tool, output in mocks.items()},
                watched=tuple(case.state_after or ()),
            )
        self.bypassed |= bool(caches)
        judged = await judge(
            native,
            played,
            list(self._wanted(case)),
            engine=self.engine,
            agent=compiled.app.root_agent,
            sessions=services.session_service,
        )
        scores = [*_scores(judged, case, played), *self._cannot_judge(case)]
        if simulation is not None and simulation.success_criteria and played.error is None:
            scores.append(_goal(simulation, played))
        return _result(name, case, run, played, judged, scores, allow_unjudged=self.allow_unjudged)

    def _wanted(self, case: FluentCase) -> Iterator[Wanted]:
        """The metrics that judge a case: those that need nothing which it does not state."""
        from adk_fluent.eval.adk_services import Wanted

        suite = self.suite
        scripted = suite.simulation_of(case) is None
        for metric, default in judging(suite, case).items():
            needs = TRAITS[metric].needs
            stated = () if needs is None else expects(case, needs)
            if needs is None or (scripted and any(stated)):
                least = self._threshold(case, metric.value, default)
                yield Wanted(metric.value, least, options_of(suite, metric), stated)
        for judge in suite.custom_judges:
            threshold = case.thresholds.get(judge.name, suite.thresholds.get(judge.name, judge.threshold))
            yield Wanted(judge.name, threshold, judge=judge)

    def _cannot_judge(self, case: FluentCase) -> Iterator[Score]:
        """Expectations that no metric can judge, since a model decides what the user says in each turn."""
        if self.suite.simulation_of(case) is None:
            return
        for needs, (metric, _) in BROUGHT.items():
            if any(expects(case, needs)):
                what = "expected_trajectory" if needs == "trajectory" else "reference_response"
                yield Score(
                    metric.value,
                    None,
                    0.0,
                    False,
                    (
                        f"not judged: {what} names what a turn should give, and a model plays the user here. "
                        "Use rubrics or state_assertions, or script the case: metadata={'simulated': False}",
                    ),
                )

    def _threshold(self, case: FluentCase, name: str, default: float) -> float:
        return case.thresholds.get(name, self.suite.thresholds.get(name, default))


def expects(case: FluentCase, what: Expectation) -> tuple[bool, ...]:
    """For each turn, whether the case says which tool calls, or which answer, it expects."""
    return tuple((turn.calls if what == "trajectory" else turn.reference) is not None for turn in case.turns)


def judging(suite: FluentEvalSuite, case: FluentCase) -> dict[PrebuiltMetrics, float]:
    """Metric → default threshold: those that the suite lists, and those that a case's expectations bring."""
    found = dict.fromkeys(map(PrebuiltMetrics, suite.metrics), DEFAULT_THRESHOLD)
    compared = {TRAITS[metric].needs for metric in found}
    if suite.custom_judges:
        compared.add("reference")  # each judge is given it
    for needs, (metric, threshold) in BROUGHT.items():
        if needs not in compared and _brings(case, needs):
            found[metric] = threshold
    return found


def _brings(case: FluentCase, what: Expectation) -> bool:
    """Whether the case says what it expects; the empty answer of ADK's sets says nothing by itself."""
    return any(turn.calls is not None if what == "trajectory" else turn.reference for turn in case.turns)


def _goal(simulation: UserSimulation, played: Played) -> Score:
    """Score 1 if the simulated user ended the conversation, which it does when it has what it wants."""
    goal, most = simulation.success_criteria, simulation.max_turns
    why = f"{goal!r} was not reached: the simulated user had not ended the conversation after {most} messages"
    return Score(GOAL, float(played.content), 1.0, played.content, () if played.content else (why,))


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


# --- from what happened to a result ---------------------------------------------------------------


def _result(
    name: str,
    case: FluentCase,
    run: int,
    played: Played,
    judged: Judged,
    scores: list[Score],
    *,
    allow_unjudged: bool,
) -> CaseResult:
    turns = tuple(_turns(case, played))
    if played.error is None:
        scores += asserted(case, turns[-1].answer if turns else "", played.state, played.after)
    used = list(played.usage.values())
    costs = [usage.cost for usage in used]
    return CaseResult(
        eval_id=name,
        run=run,
        passed=played.error is None
        and (bool(scores) or allow_unjudged)
        and all(score.passed or (allow_unjudged and score.value is None) for score in scores),
        scores=tuple(scores),
        turns=turns,
        tags=tuple(case.tags),
        error=played.error,
        seconds=sum(played.seconds),
        tokens=sum(usage.total_tokens for usage in used),
        cost=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
        native=judged.native,
    )


def _scores(judged: Judged, case: FluentCase, played: Played) -> Iterator[Score]:
    for one in judged.native.overall_eval_metric_results:
        passed = one.eval_status.name == "PASSED"
        why = () if passed else _why(one.metric_name, one.score, judged.complaints.get(one.metric_name, ()))
        if not passed and not why and one.score is not None:
            low = too_low(one.metric_name, one.score, one.threshold or 0.0)
            seen = _unseen(case, one.metric_name, played)
            reasons = (*_absent(case, one.metric_name), *seen, *played.waiting)
            why = tuple(f"{low}: {reason}" for reason in reasons)
        yield Score(one.metric_name, one.score, one.threshold or 0.0, passed, why)


def _why(metric: str, score: float | None, complaints: Sequence[str]) -> tuple[str, ...]:
    """Why there is no score, or none that counts; nothing where it is only too low."""
    if any(line.startswith("judge ") for line in complaints):  # a judge of the user's, whose score is 0 then
        return tuple(complaints)
    if score is not None:
        return ()
    silent = ("it gave no score, since the model that judges did not answer as it should",)
    return tuple(f"not judged: {metric}: {line}" for line in complaints or silent)


def _absent(case: FluentCase, metric: str) -> Iterator[str]:
    """Why a turn that one of ADK's sets leaves open lowers a score, as it does in `adk eval`."""
    needs = TRAITS[PrebuiltMetrics(metric)].needs if metric in set(PrebuiltMetrics) else None
    for number, turn in enumerate(case.turns, 1):
        if needs == "reference" and turn.reference == "":
            yield f"turn {number} expects an empty answer, as `adk eval` does without a final response"
        for call in turn.calls or () if needs == "trajectory" else ():
            if call.bare:
                yield (
                    f"turn {number} expects {call.name!r} without arguments, which `adk eval` tells from "
                    'empty ones: "args": {}'
                )


def _unseen(case: FluentCase, metric: str, played: Played) -> Iterator[str]:
    """What a metric of ADK's counts, or leaves out, though the case does not show it."""
    from adk_fluent.eval.adk_evaluators import tool_calls
    from adk_fluent.eval.rouge import words

    for number, (turn, did) in enumerate(zip(case.turns, played.invocations, strict=False), 1):
        reference = text_of(turn.reference or "")
        if metric == PrebuiltMetrics.RESPONSE_MATCH_SCORE and reference and not words(reference):
            yield f"turn {number} expects an answer without words, and this metric compares words alone"
        called = {call.name for call in tool_calls(did)} - {call.name for call in turn.calls or ()}
        if metric == PrebuiltMetrics.TOOL_TRAJECTORY_AVG_SCORE and _ANSWERS in called:
            yield (
                f"turn {number} calls {_ANSWERS!r}, by which an agent with tools gives a typed answer. ADK "
                "counts that call: expect it, too, or take trajectory_match='in_order'"
            )


_ANSWERS: Final = "set_model_response"


def _turns(case: FluentCase, played: Played) -> Iterator[TurnResult]:
    from adk_fluent.eval.adk_evaluators import tool_calls
    from adk_fluent.eval.adk_sets import words

    for index, turn in enumerate(played.invocations):
        wanted = case.turns[index] if index < len(case.turns) else None
        yield TurnResult(
            said=text_of(turn.user_content),
            answer=words(turn.final_response),
            calls=tuple((call.name or "", dict(call.args or {})) for call in tool_calls(turn)),
            reference=None if wanted is None or wanted.reference is None else text_of(wanted.reference),
            expected_calls=None
            if wanted is None or wanted.calls is None
            else tuple((call.name, {} if call.bare else call.args) for call in wanted.calls),
            seconds=played.seconds[index] if index < len(played.seconds) else 0.0,
        )
