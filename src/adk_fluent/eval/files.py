"""Suites in files: YAML of ours, and the sets of ADK's tools."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent.errors import EvalError
from adk_fluent.eval.cases import ExpectedCall, FluentCase, key_of
from adk_fluent.eval.metrics import DEFAULT_THRESHOLD, TRAITS, PrebuiltMetrics
from adk_fluent.eval.simulation import UserSimulation
from adk_fluent.eval.stored import write
from adk_fluent.spelling import did_you_mean

if TYPE_CHECKING:
    from google.adk.evaluation.eval_set import EvalSet

    from adk_fluent.eval.places import Document, Path
    from adk_fluent.eval.suite import FluentEvalSuite

_OPTIONS: Final = (
    *("name", "metrics", "thresholds", "num_runs", "trajectory_match"),
    *("judge_model", "judge_samples", "rubrics", "tags"),
)
"""The fields of a suite that stand in a file as they are."""

_SUITE: Final = (*_OPTIONS, "simulation", "cases")
_CASE: Final = ("id", *(one.name for one in fields(FluentCase)))
_SIMULATION: Final = tuple(one.name for one in fields(UserSimulation))

_PLAIN: Final = (str, int, float, bool, type(None))


# --- YAML -----------------------------------------------------------------------------------------


def from_yaml(
    path: str | PathLike[str], pipeline: Any, options: Mapping[str, Any], make: type[FluentEvalSuite]
) -> FluentEvalSuite:
    """What `FluentEvalSuite.from_yaml` does."""
    from adk_fluent.eval.places import Document

    document = Document.of(path)
    given = _mapping(document, (), document.data, "a suite", _SUITE)
    cases = given.pop("cases", None)
    if not isinstance(cases, list):
        raise document.error(("cases",), "a suite has cases: a list.")
    listed = enumerate(cast("list[Any]", cases))
    read: dict[str, Any] = {"cases": [_case(document, index, case) for index, case in listed]}
    if given.get("simulation") is not None:
        said = _mapping(document, ("simulation",), given["simulation"], "a simulation", _SIMULATION)
        read["simulation"] = _made(document, ("simulation",), UserSimulation, said)
    read |= {name: given[name] for name in _OPTIONS if given.get(name) is not None}
    return _suite(document, pipeline, {**read, **options}, make)


def _case(document: Document, index: int, given: object) -> FluentCase:
    path = ("cases", index)
    values = _mapping(document, path, given, "a case", _CASE)
    name = values.pop("id", None)
    if name is not None:
        values["metadata"] = {**(values.get("metadata") or {}), "id": name}
    said = {key: value for key, value in values.items() if value is not None}
    return _made(document, path, FluentCase, said)


def _made(document: Document, path: Path, make: type[Any], values: Mapping[str, Any]) -> Any:
    try:
        return make(**values)
    except (EvalError, TypeError, AttributeError) as error:
        raise document.error(path, str(error)) from error


def _suite(
    document: Document, pipeline: Any, options: Mapping[str, Any], make: type[FluentEvalSuite]
) -> FluentEvalSuite:
    try:
        return make(pipeline=pipeline, **options)
    except EvalError as error:
        raise EvalError(f"{document.path}: {error}") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise EvalError(f"{document.path}: something in it is of the wrong type: {error}.") from error


def _mapping(
    document: Document, path: Path, given: object, what: str, known: Sequence[str]
) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise document.error(path, f"{what} is a mapping, not {given!r:.40}.")
    found = cast("dict[Any, Any]", given)
    for key in found:
        if key not in known:
            raise document.error((*path, key), f"{what} has no {key!r}.{did_you_mean(str(key), known)}")
    return dict(found)


_BREAKS: Final = frozenset("\x85\u2028\u2029")
"""Line breaks to YAML, which would be read back as spaces unless they are escaped."""


def _dumper() -> Any:
    """PyYAML's safe dumper, which quotes text with such a break."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: Any, value: str) -> Any:
        style = None if _BREAKS.isdisjoint(value) else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def to_yaml(suite: FluentEvalSuite, path: str | PathLike[str] | None) -> str:
    """What `FluentEvalSuite.to_yaml` does."""
    import yaml

    whole: dict[str, Any] = {}
    for one in fields(suite):
        if one.name in _OPTIONS and (value := getattr(suite, one.name)) != _default(one):
            whole[one.name] = _plain(value, f"suite {suite.name!r}, {one.name}")
    if suite.simulation is not None:
        whole["simulation"] = {name: getattr(suite.simulation, name) for name in _SIMULATION}
    whole["cases"] = [dict(_written(name, case)) for name, case in suite.named_cases.items()]
    text = yaml.dump(whole, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100)
    if path is not None:
        write(path, text)
    return text


def _default(one: Any) -> object:
    value = one.default if one.default is not MISSING else one.default_factory()
    return value


def _written(name: str, case: FluentCase) -> Iterator[tuple[str, Any]]:
    """The fields of a case that say something."""
    where = f"case {name!r}"
    yield "id", name
    said = [_plain(turn.said, f"{where}, input") for turn in case.turns]
    yield "input", said[0] if len(said) == 1 else said
    for one in fields(case):
        value = getattr(case, one.name)
        if one.name == "input" or value is None or value == _default(one):
            continue
        if one.name == "expected_trajectory":
            calls = [None if turn.calls is None else [*map(_call, turn.calls)] for turn in case.turns]
            value = calls[0] if len(calls) == 1 else calls
        elif one.name == "metadata":
            value = {key: each for key, each in value.items() if key != "id"}
            if not value:
                continue
        yield one.name, _plain(value, f"{where}, {one.name}")


def _call(call: ExpectedCall) -> str | dict[str, Any]:
    if call.bare:
        return {call.name: None}
    return call.name if call.args is None else {call.name: dict(call.args)}


def _plain(value: object, where: str) -> Any:
    """A value as YAML has it.

    Raises:
        EvalError: it has none for it.
    """
    if isinstance(value, Mapping):
        return {
            str(key_of(key)): _plain(each, where) for key, each in cast("Mapping[Any, Any]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_plain(each, where) for each in cast("Sequence[object]", value)]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, _PLAIN):
        return value
    raise EvalError(
        f"{where[0].upper()}{where[1:]}: a file has no form for {type(value).__name__} {value!r:.60}; it "
        "holds text, numbers, lists and dicts."
    )


# --- ADK's sets -----------------------------------------------------------------------------------

_ADK_DEFAULTS: Final = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
"""What `adk eval` judges by when nobody says."""

_NOT_THERE: Final = (
    *("expected_response_contains", "mock_tool_outputs", "state_after", "target_node", "tags", "thresholds"),
)
"""The fields of a case for which ADK's format has no place."""


def to_eval_set(suite: FluentEvalSuite) -> EvalSet:
    """The cases of a suite as one of ADK's sets."""
    from adk_fluent.config import ExecutionConfig
    from adk_fluent.eval.adk_sets import eval_set

    simulated = {name: suite.simulation_of(case) for name, case in suite.named_cases.items()}
    return eval_set(suite.name, suite.named_cases, ExecutionConfig().app_name, simulated)


def to_eval_set_file(
    suite: FluentEvalSuite, path: str | PathLike[str], config: str | PathLike[str] | None
) -> tuple[str, ...]:
    """What `FluentEvalSuite.to_eval_set_file` does."""
    from pydantic_core import PydanticSerializationError

    try:
        text = to_eval_set(suite).model_dump_json(indent=2, exclude_none=True)
    except PydanticSerializationError as error:
        raise EvalError(f"Suite {suite.name!r} holds what JSON has no form for: {error}.") from error
    write(path, f"{text}\n")
    if config is not None:
        write(config, f"{json.dumps(_config(suite), indent=2)}\n")
    return tuple(_left_out(suite))


def _config(suite: FluentEvalSuite) -> dict[str, Any]:
    """The metrics of a suite as `adk eval` reads them."""
    from adk_fluent.eval.playthrough import simulator_config
    from adk_fluent.eval.running import options_of

    criteria = {
        name: {"threshold": float(suite.thresholds.get(name, DEFAULT_THRESHOLD))}
        | options_of(suite, PrebuiltMetrics(name))
        for name in suite.metrics
    }
    if (trajectory := criteria.get(PrebuiltMetrics.TOOL_TRAJECTORY_AVG_SCORE)) is not None:
        trajectory["ignore_args"] = any(map(_by_name, _calls(suite)))
    found: dict[str, Any] = {"criteria": criteria}
    if suite.simulation is not None:
        found["user_simulator_config"] = simulator_config(suite.simulation).model_dump(exclude_none=True)
    return found


def _calls(suite: FluentEvalSuite) -> Iterator[ExpectedCall]:
    return (call for case in suite.cases for turn in case.turns for call in turn.calls or ())


def _by_name(call: ExpectedCall) -> bool:
    return call.args is None and not call.bare


def _left_out(suite: FluentEvalSuite) -> Iterator[str]:
    """What ADK's format cannot say."""
    from adk_fluent.eval.adk_evaluators import IGNORES_ARGS

    for name, case in suite.named_cases.items():
        yield from (f"case {name!r}: {field}" for field in _NOT_THERE if getattr(case, field))
        if any(callable(value) for value in (case.state_assertions or {}).values()):
            yield f"case {name!r}: predicates and types in state_assertions"
        if case.state_assertions:
            yield f"case {name!r}: state_assertions are in the file, but `adk eval` does not judge by them"
        for metric in suite.metrics:
            needs = TRAITS[PrebuiltMetrics(metric)].needs
            stated = [turn.calls if needs == "trajectory" else turn.reference for turn in case.turns]
            if needs is not None and None in stated and suite.simulation_of(case) is None:
                yield f"case {name!r}: a turn states no {needs}, which `adk eval` takes for an empty one"
    kinds = set(map(_by_name, _calls(suite)))
    if True in kinds and not IGNORES_ARGS:
        yield "calls by name: `adk eval` of this release compares arguments, too"
    if kinds == {True, False}:
        yield "calls by name beside calls with arguments: `adk eval` is told to look at names alone"
    if suite.num_runs > 1:
        yield "num_runs"
    yield from (f"custom judge {judge.name!r}" for judge in suite.custom_judges)


def from_eval_set(
    source: str | PathLike[str] | EvalSet,
    pipeline: Any,
    options: Mapping[str, Any],
    make: type[FluentEvalSuite],
) -> FluentEvalSuite:
    """What `FluentEvalSuite.from_eval_set` does."""
    from adk_fluent.eval.adk_sets import fields_of, read_set
    from adk_fluent.eval.places import Document

    if isinstance(source, str | PathLike):
        document = Document.of(source) if not os.fspath(source).endswith((".yaml", ".yml")) else None
        if document is None:
            raise EvalError(f"{os.fspath(source)} is YAML: use FluentEvalSuite.from_yaml.")
        found = read_set(document.data, document.error)
    else:
        found = source
    cases: list[FluentCase] = []
    for case in found.eval_cases:
        try:
            cases.append(FluentCase(**fields_of(case)))
        except EvalError as error:
            raise EvalError(f"Case {case.eval_id!r} of set {found.eval_set_id!r}: {error}") from error
    defaults: dict[str, Any] = {"name": found.eval_set_id}
    if not {"metrics", "thresholds"} & set(options):
        defaults |= {"metrics": tuple(_ADK_DEFAULTS), "thresholds": _ADK_DEFAULTS}
    if any("conversation_plan" in case.metadata for case in cases):
        defaults["simulation"] = UserSimulation()
    defaults["cases"] = cases
    return make(pipeline=pipeline, **{**defaults, **options})
