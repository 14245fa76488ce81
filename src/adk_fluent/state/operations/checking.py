"""The operations that change nothing: `guard`, `require` and `validate`; `log` and `identity`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from adk_fluent.errors import StateGuardError
from adk_fluent.ir.frozen import frozen
from adk_fluent.ir.functions import Access, access
from adk_fluent.ir.matching import Predicate, StateView, holds, lost
from adk_fluent.state.effects import Effect, Holds, KeyRead, Needs
from adk_fluent.state.operations.base import Changes, Keys, StateOperation, Text, each

if TYPE_CHECKING:
    from pydantic import BaseModel

logger: logging.Logger = logging.getLogger("adk_fluent.state")


@frozen
class Guard(StateOperation):
    """Raises unless a predicate holds."""

    name: ClassVar[str] = "guard"
    test: Predicate
    message: Text

    def __call__(self, state: StateView) -> Changes:
        if not holds(self.test, state, "S.guard"):
            raise StateGuardError(self.message)
        return {}

    def _reading(self) -> Iterable[KeyRead]:
        return each(access(self.test).reads, "tolerant")

    def _doing(self) -> Iterable[Effect]:
        return (Holds(self.test),)

    @property
    def functions(self) -> tuple[object, ...]:
        return (self.test,)


@frozen
class Require(StateOperation):
    """Raises unless all these keys are there."""

    name: ClassVar[str] = "require"
    keys: Keys

    def __call__(self, state: StateView) -> Changes:
        if missing := [key for key in self.keys if key not in state]:
            raise StateGuardError(
                f"State is missing {', '.join(map(repr, missing))}; an earlier step must write them."
                + next(filter(None, (lost(state, key) for key in missing)), "")
            )
        return {}

    def _reading(self) -> Iterable[KeyRead]:
        return each(self.keys, "tolerant")

    def _doing(self) -> Iterable[Effect]:
        return map(Needs, self.keys)


@frozen
class Validate(StateOperation):
    """Raises unless the state fits the fields of a pydantic model."""

    name: ClassVar[str] = "validate"
    model: type[BaseModel]

    def __call__(self, state: StateView) -> Changes:
        from pydantic import ValidationError

        model = self.model
        try:
            model.model_validate({key: state[key] for key in model.model_fields if key in state})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or model.__name__
            raise StateGuardError(
                f"State does not fit {model.__name__}: {where!r}: {first['msg']} "
                f"({error.error_count()} problem(s))."
            ) from error
        return {}

    def _reading(self) -> Iterable[KeyRead]:
        for name, field in self.model.model_fields.items():
            yield KeyRead(name, "operation", "tolerant" if field.is_required() else "optional")

    def _doing(self) -> Iterable[Effect]:
        return (Needs(name) for name, field in self.model.model_fields.items() if field.is_required())


@frozen
class Log(StateOperation):
    """Logs these keys, or the whole state."""

    name: ClassVar[str] = "log"
    keys: Keys
    label: Text

    def __call__(self, state: StateView) -> Changes:
        shown = {key: state.get(key) for key in self.keys} if self.keys else dict(state)
        logger.info("%s%s", f"{self.label}: " if self.label else "", shown)
        return {}

    def _reading(self) -> Iterable[KeyRead]:
        return each(self.keys, "tolerant")

    def _touched(self) -> Access:
        return Access(frozenset(self.keys), reads_known=bool(self.keys))


@frozen
class Identity(StateOperation):
    """Changes nothing."""

    name: ClassVar[str] = "identity"
