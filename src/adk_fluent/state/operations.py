"""What each `S` transform does: pure functions from state to the values to write.

An `Operation` names one of them with its parameters. It is a frozen value, so it compares, hashes,
prints and stores; being callable, it is what a `TransformNode` runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from adk_fluent.errors import MissingKeyError, StateGuardError, TransformError
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.functions import NO_ACCESS, Access
from adk_fluent.ir.keys import KeyRead, KeyReads, Level, declared
from adk_fluent.ir.matching import Predicate, StateView, holds, lost
from adk_fluent.ir.nodes import StateOperation, TransformFn, TransformNode
from adk_fluent.state.delta import ReadOnlyState, changes, detached, is_session_scoped
from adk_fluent.state.values import at_path, by_either_name

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

logger: logging.Logger = logging.getLogger("adk_fluent.state")

Result = Mapping[str, Any]

_LEVELS: Final[Mapping[str, Level]] = {
    "pick": "lenient",
    "rename": "lenient",
    "merge": "tolerant",
    "require": "tolerant",
    "guard": "tolerant",
    "log": "tolerant",
    "counter": "optional",
    "flatten": "tolerant",
}
"""Operations that do not mind a missing key; the others raise or compute nonsense."""


@frozen
class Operation(Frozen, StateOperation):
    """One named state operation with its parameters.

    Attributes:
        name: which operation, a key of `OPERATIONS`.
        params: its keyword parameters, as pairs.
        access: the state keys it touches.
    """

    name: str
    params: tuple[tuple[str, Any], ...] = ()
    access: Access = NO_ACCESS

    @property
    def step_label(self) -> str:
        """What a step that runs this operation is called."""
        return self.name

    @property
    def names_keys_as_it_runs(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # read-only
        """Whether only a run tells which keys it touches."""
        return self.name in ("flatten", "unflatten")

    def key_reads(self) -> KeyReads:
        """The keys it reads, each with how much a missing one matters."""
        params = dict(self.params)
        match self.name:
            case "accumulate" | "history":
                yield KeyRead(params["key"], "operation", "tolerant")
            case "when":
                yield from declared([params["test"]], "operation", "tolerant")
            case "branch":
                yield KeyRead(params["key"], "operation")
            case "validate":
                for name, field in params["model"].model_fields.items():
                    yield KeyRead(name, "operation", "tolerant" if field.is_required() else "optional")
            case name:
                for key in sorted(self.access.reads):
                    yield KeyRead(key, "operation", _LEVELS.get(name, "required"))

    def __call__(self, state: StateView) -> Result:
        """What to write."""
        return OPERATIONS[self.name](state, **dict(self.params))


def pick(state: StateView, keys: tuple[str, ...]) -> Result:
    return {key: state[key] for key in keys if key in state}


def nothing(state: StateView) -> Result:
    return {}


def rename(state: StateView, pairs: tuple[tuple[str, str], ...]) -> Result:
    return {new: state[old] for old, new in pairs if old in state}


def default(state: StateView, values: tuple[tuple[str, Any], ...]) -> Result:
    return {key: value for key, value in values if key not in state}


def assign(state: StateView, values: tuple[tuple[str, Any], ...]) -> Result:
    return dict(values)


def merge(state: StateView, keys: tuple[str, ...], into: str, fn: Callable[..., Any] | None) -> Result:
    if fn is not None:
        return {into: fn(*(state.get(key) for key in keys))}
    return {into: "\n".join(str(state[key]) for key in keys if key in state)}


def transform(state: StateView, key: str, fn: Callable[[Any], Any]) -> Result:
    return {key: fn(_required(state, key, "transform"))}


def compute(state: StateView, values: tuple[tuple[str, Callable[[StateView], Any]], ...]) -> Result:
    return {key: fn(state) for key, fn in values}


def call(state: StateView, fn: TransformFn) -> object:
    return cast("Result | None", fn(state))  # or an awaitable of it, which the backend awaits


def guard(state: StateView, test: Predicate, message: str) -> Result:
    if not holds(test, state, "S.guard"):
        raise StateGuardError(message)
    return {}


def require(state: StateView, keys: tuple[str, ...]) -> Result:
    if missing := [key for key in keys if key not in state]:
        raise StateGuardError(
            f"State is missing {', '.join(map(repr, missing))}; an earlier step must write them."
            + next(filter(None, (lost(state, key) for key in missing)), "")
        )
    return {}


def validate(state: StateView, model: type[BaseModel]) -> Result:
    values = {key: state[key] for key in model.model_fields if key in state}
    error = _misfit(model, values)
    if error is None:
        return {}
    problems = error.errors()
    # `None` in state means absent, so what is not there may be `None`, where the model allows it.
    if missing := {problem["loc"]: problem for problem in problems if problem["type"] == "missing"}:
        left = _misfit(model, _with_none(values, missing))
        problems = [missing.get(p["loc"], p) for p in left.errors()] if left else []
    if problems:
        where = ".".join(map(str, problems[0]["loc"])) or model.__name__
        raise StateGuardError(
            f"State does not fit {model.__name__}: {where!r}: {problems[0]['msg']} "
            f"({len(problems)} problem(s))."
        ) from error
    return {}


def _misfit(model: type[BaseModel], values: Mapping[str, Any]) -> ValidationError | None:
    """What of these values does not fit a model, if anything."""
    from pydantic import ValidationError

    try:
        model.model_validate(values, **by_either_name())
    except ValidationError as error:
        return error
    return None


def _with_none(values: Mapping[str, Any], paths: Iterable[tuple[int | str, ...]]) -> Mapping[str, Any]:
    """The values with `None` at these paths."""
    filled = detached(dict(values))
    for *path, last in paths:
        if isinstance(holder := at_path(filled, path), dict):
            holder[last] = None
    return filled


def log(state: StateView, keys: tuple[str, ...], label: str) -> Result:
    shown = {key: state.get(key) for key in keys} if keys else dict(state)
    logger.info("%s%s", f"{label}: " if label else "", shown)
    return {}


def accumulate(state: StateView, key: str, into: str) -> Result:
    return {into: [*_list(state, into), state[key]]} if key in state else {}


def counter(state: StateView, key: str, step: int | float) -> Result:
    count = state.get(key, 0)
    if not isinstance(count, int | float) or isinstance(count, bool):
        raise TransformError(f"S.counter({key!r}) found {count!r:.40}, which is not a number.")
    return {key: count + step}


def history(state: StateView, key: str, max_size: int) -> Result:
    into = f"{key}_history"
    return {into: [*_list(state, into), state[key]][-max_size:]} if key in state else {}


def flatten(state: StateView, key: str) -> Result:
    value = state.get(key)
    if not isinstance(value, dict) or not value:
        return {}
    dropped = {key: None} if is_session_scoped(key) else {}
    return {**dropped, **_leaves(key, cast("dict[str, Any]", value))}


def unflatten(state: StateView) -> Result:
    out: dict[str, Any] = {}
    for key in state:
        root, *path = key.split(".")
        if path and is_session_scoped(key) and all((root, *path)):
            out[key] = None
            _graft(out.setdefault(root, state.get(root, {})), path, state[key], key)
    return out


def _graft(branch: object, path: list[str], value: object, key: str) -> None:
    for part in path[:-1]:
        if isinstance(branch, dict):
            branch = cast("dict[str, object]", branch).setdefault(part, {})
    if not isinstance(branch, dict) or path[-1] in branch:
        raise TransformError(f"S.unflatten cannot put {key!r} back: another key holds a value on its way.")
    branch[path[-1]] = value


def zip_lists(state: StateView, keys: tuple[str, ...], into: str) -> Result:
    columns = [_items(state, key, "zip") for key in keys]
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(f"{key!r} has {len(column)}" for key, column in zip(keys, columns, strict=True))
        raise TransformError(f"S.zip needs lists of one length: {lengths}.")
    return {into: [list(row) for row in zip(*columns, strict=True)]}


def group_by(state: StateView, key: str, fn: Callable[[Any], Any], into: str) -> Result:
    groups: dict[str, list[Any]] = {}
    for item in _items(state, key, "group_by"):
        groups.setdefault(str(fn(item)), []).append(item)
    return {into: groups}


def when(state: StateView, test: Predicate, steps: tuple[TransformNode, ...]) -> Result:
    return _chain(state, steps) if holds(test, state, "S.when") else {}


def branch(state: StateView, key: str, cases: tuple[tuple[str, tuple[TransformNode, ...]], ...]) -> Result:
    if (value := state.get(key)) is None:
        return {}
    label = value.strip() if isinstance(value, str) else str(value)
    steps = next((steps for case, steps in cases if case == label), ())
    return _chain(state, steps)


def together(state: StateView, steps: tuple[TransformNode, ...]) -> Result:
    """All steps on the same input; what a replacement removes or writes wins over a delta."""
    deltas: dict[str, Any] = {}
    removed: dict[str, None] = {}
    moved: dict[str, Any] = {}
    for step in steps:
        delta = changes(step, step.fn(state), state)
        if step.semantics != "merge":
            removed |= {key: None for key, value in delta.items() if value is None}
            moved |= {key: value for key, value in delta.items() if value is not None}
            continue
        if clash := deltas.keys() & delta.keys():
            raise TransformError(f"Two transforms joined by + both write {min(clash)!r}; chain them with >>.")
        deltas |= delta
    return deltas | removed | moved


def _chain(state: StateView, steps: tuple[TransformNode, ...]) -> Result:
    """All steps one after another, each on the result of the one before."""
    total: dict[str, Any] = {}
    for step in steps:
        view = state.over(total) if isinstance(state, ReadOnlyState) else ReadOnlyState({**state, **total})
        total |= changes(step, step.fn(view), view)
    return total


def _required(state: StateView, key: str, operation: str) -> Any:
    if key not in state:
        raise MissingKeyError(
            f"S.{operation} needs state key {key!r}, which is not set."
            + (lost(state, key) or " Write it before, or put S.default in front.")
        )
    return state[key]


def _items(state: StateView, key: str, operation: str) -> list[Any]:
    value = _required(state, key, operation)
    if not isinstance(value, list | tuple):
        raise TransformError(f"S.{operation} needs a list at {key!r}, which holds {value!r:.40}.")
    return list(cast("list[Any]", value))


def _list(state: StateView, key: str) -> list[Any]:
    value = state.get(key, [])
    if not isinstance(value, list):
        raise TransformError(f"State key {key!r} holds {value!r:.40}, not the list that is kept there.")
    return cast("list[Any]", value)


def _leaves(prefix: str, value: Mapping[str, Any]) -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for part, inner in value.items():
        if not isinstance(part, str) or "." in part or not part:  # pyright: ignore[reportUnnecessaryIsInstance]  # values come from state
            raise TransformError(
                f"S.flatten cannot name the entry {part!r} of {prefix!r}: keys must be text without dots."
            )
        path = f"{prefix}.{part}"
        leaves |= (
            _leaves(path, cast("Mapping[str, Any]", inner))
            if isinstance(inner, dict) and inner
            else {path: inner}
        )
    return leaves


OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "pick": pick,
    "drop": nothing,
    "rename": rename,
    "default": default,
    "set": assign,
    "merge": merge,
    "transform": transform,
    "compute": compute,
    "fn": call,
    "guard": guard,
    "require": require,
    "validate": validate,
    "log": log,
    "identity": nothing,
    "accumulate": accumulate,
    "counter": counter,
    "history": history,
    "flatten": flatten,
    "unflatten": unflatten,
    "zip": zip_lists,
    "group_by": group_by,
    "when": when,
    "branch": branch,
    "together": together,
}
