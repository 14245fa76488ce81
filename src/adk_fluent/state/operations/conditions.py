"""The operations that test the state or run other transforms.

`guard`, `require`, `validate`, `log` and `identity` change nothing. `when`, `branch` and the join of
transforms by `+` run other transforms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from adk_fluent.errors import StateGuardError, TransformError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.functions import Access
from adk_fluent.ir.keys import KeyRead, KeyReads, declared
from adk_fluent.ir.nodes import TransformNode
from adk_fluent.ir.predicates import Match, Predicate, StateView, holds, lost
from adk_fluent.ir.state_keys import takes_none
from adk_fluent.state.delta import changes, detached
from adk_fluent.state.effects import AtOnce, Effect, Holds, Needs, OneOf
from adk_fluent.state.field_types import at_path, by_either_name
from adk_fluent.state.operations.base import Changes, StateOperation, chain_changes, key_reads

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo


@frozen
class Guard(StateOperation):
    """Raises an error if a predicate does not hold."""

    name: ClassVar[str] = "guard"
    test: Predicate
    message: str

    def __call__(self, state: StateView) -> Changes:
        if not holds(self.test, state, "S.guard"):
            raise StateGuardError(self.message)
        return {}

    def _reading(self) -> KeyReads:
        return declared([self.test], "operation", "tolerant")

    def _doing(self) -> Iterable[Effect]:
        return (Holds(self.test),)

    @property
    def functions(self) -> tuple[object, ...]:
        return (self.test,)


@frozen
class Require(StateOperation):
    """Raises an error if one of these keys is absent."""

    name: ClassVar[str] = "require"
    keys: tuple[str, ...]

    def __call__(self, state: StateView) -> Changes:
        if missing := [key for key in self.keys if key not in state]:
            raise StateGuardError(
                f"State is missing {', '.join(map(repr, missing))}; an earlier step must write them."
                + next(filter(None, (lost(state, key) for key in missing)), "")
            )
        return {}

    def _reading(self) -> KeyReads:
        return key_reads(self.keys, "tolerant")

    def _doing(self) -> Iterable[Effect]:
        return map(Needs, self.keys)


@frozen
class Validate(StateOperation):
    """Raises an error if the state does not match the fields of a pydantic model."""

    name: ClassVar[str] = "validate"
    model: type[BaseModel]

    def __call__(self, state: StateView) -> Changes:
        model = self.model
        values = {key: state[key] for key in model.model_fields if key in state}
        error = _validation_error(model, values)
        if error is None:
            return {}
        problems = error.errors()
        # `None` in state means absent, so an absent key counts as `None` if the model allows that.
        if missing := {problem["loc"]: problem for problem in problems if problem["type"] == "missing"}:
            remaining = _validation_error(model, _with_none(values, missing))
            problems = [missing.get(p["loc"], p) for p in remaining.errors()] if remaining else []
        if problems:
            where = ".".join(map(str, problems[0]["loc"])) or model.__name__
            raise StateGuardError(
                f"State does not fit {model.__name__}: {where!r}: {problems[0]['msg']} "
                f"({len(problems)} problem(s))."
            ) from error
        return {}

    def _reading(self) -> KeyReads:
        for name, field in self.model.model_fields.items():
            yield KeyRead(name, "operation", "tolerant" if _is_required(field) else "optional")

    def _doing(self) -> Iterable[Effect]:
        return (Needs(name) for name, field in self.model.model_fields.items() if _is_required(field))


def _is_required(field: FieldInfo) -> bool:
    """True if a field has no default and its type does not allow `None`, which in state means absent."""
    return field.is_required() and not takes_none(field.annotation)


def _validation_error(model: type[BaseModel], values: Mapping[str, Any]) -> ValidationError | None:
    """The error for values that do not match a model; `None` if they match."""
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


@frozen
class Log(StateOperation):
    """Logs these keys, or the whole state."""

    name: ClassVar[str] = "log"
    keys: tuple[str, ...]
    label: str

    def __call__(self, state: StateView) -> Changes:
        import logging  # only a run needs it

        shown = {key: state.get(key) for key in self.keys} if self.keys else dict(state)
        logging.getLogger("adk_fluent.state").info("%s%s", f"{self.label}: " if self.label else "", shown)
        return {}

    def _reading(self) -> KeyReads:
        return key_reads(self.keys, "tolerant")

    def _touched(self) -> Access:
        return Access(frozenset(self.keys), reads_known=bool(self.keys))


@frozen
class Identity(StateOperation):
    """Changes nothing."""

    name: ClassVar[str] = "identity"


@frozen
class ConditionalTransform(StateOperation):
    """Runs other transforms if a predicate holds (`S.when`)."""

    name: ClassVar[str] = "when"
    test: Predicate
    steps: tuple[TransformNode, ...]

    def __call__(self, state: StateView) -> Changes:
        return chain_changes(state, self.steps) if holds(self.test, state, "S.when") else {}

    def _reading(self) -> KeyReads:
        return declared([self.test], "operation", "tolerant")

    def _doing(self) -> Iterable[Effect]:
        return (OneOf(((self.test, self.steps),)),)


@frozen
class Branch(StateOperation):
    """Runs the transforms of the case that the value of a key names; nothing if there is no such case."""

    name: ClassVar[str] = "branch"
    key: str
    cases: tuple[tuple[str, tuple[TransformNode, ...]], ...]

    def __call__(self, state: StateView) -> Changes:
        if (value := state.get(self.key)) is None:
            return {}
        label = value.strip() if isinstance(value, str) else str(value)
        return chain_changes(state, next((steps for case, steps in self.cases if case == label), ()))

    def _reading(self) -> KeyReads:
        return key_reads((self.key,))

    def _doing(self) -> Iterable[Effect]:
        return (OneOf(tuple((Match(self.key, "eq", case), steps) for case, steps in self.cases)),)


@frozen
class Together(StateOperation):
    """Runs several transforms on the same input, and merges their changes.

    If one of them replaces state, as `S.pick` does, its changes win over those of the others.
    """

    name: ClassVar[str] = "together"
    steps: tuple[TransformNode, ...]

    def __call__(self, state: StateView) -> Changes:
        deltas: dict[str, Any] = {}
        removed: dict[str, None] = {}
        renamed: dict[str, Any] = {}
        for step in self.steps:
            delta = changes(step, step.fn(state), state)
            if step.semantics != "merge":
                removed |= {key: None for key, value in delta.items() if value is None}
                renamed |= {key: value for key, value in delta.items() if value is not None}
                continue
            if clash := deltas.keys() & delta.keys():
                raise TransformError(
                    f"Two transforms joined by + both write {min(clash)!r}; chain them with >>."
                )
            deltas |= delta
        return deltas | removed | renamed

    def _reading(self) -> KeyReads:
        return (read for step in self.steps for read in declared([step.fn], "operation"))

    def _doing(self) -> Iterable[Effect]:
        return (AtOnce(self.steps),)
