"""Checking state values against the type of their field; pydantic is imported when the first one is."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from adk_fluent.errors import StateTypeError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from adk_fluent.ir.fields import StateFieldRef

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


class FieldType:
    """The type of one field, as pydantic checks it; built when a value is first checked.

    Values are checked strictly: text is no number. What JSON cannot tell apart counts as equal, so a list
    from a session store is a tuple, text is a date or a member of an enumeration, a dict is a model.
    """

    __slots__ = ("_adapter", "_check", "_ref")

    def __init__(self, ref: StateFieldRef) -> None:
        self._ref = ref
        self._adapter: TypeAdapter[Any] | None = None
        self._check: Callable[..., Any] | None = None

    @property
    def adapter(self) -> TypeAdapter[Any]:
        """Pydantic's validator for the field.

        Raises:
            StateTypeError: pydantic cannot make one, as for a dataclass that holds a connection.
        """
        if self._adapter is None:
            from pydantic import TypeAdapter
            from pydantic.errors import PydanticUserError

            try:
                self._adapter = TypeAdapter(self._ref.annotation)
            except PydanticUserError as error:
                reason = str(error).partition("\n")[0]
                raise StateTypeError(f"{named(self._ref)} cannot be checked: {reason}") from error
        return self._adapter

    def _checking(self) -> Callable[..., Any]:
        """Pydantic's own function, without the layer around it: reading a field should cost little."""
        self._check = self.adapter.validator.validate_python
        return self._check

    def load(self, value: object, whose: str = "") -> Any:
        """A value from state, as its type.

        Args:
            whose: who wrote it, for the message.

        Raises:
            StateTypeError: it is not of the type, or breaks a constraint.
        """
        check = self._check or self._checking()
        try:
            return check(value, strict=True)
        except ValueError as error:
            if type(value) in _PLAIN and type(value) is not str:
                raise self._error(value, error, whose) from None
        from pydantic_core import to_json

        try:
            return self.adapter.validate_json(to_json(value), strict=True)
        except ValueError as error:  # pydantic's errors of both calls are ValueErrors
            raise self._error(value, error, whose) from None

    def dump(self, value: object, whose: str = "") -> Any:
        """A value as it is written to state: JSON types only.

        Args:
            whose: who writes it, for the message.

        Raises:
            StateTypeError: it is not of the type, breaks a constraint, or cannot be JSON.
        """
        checked = self.load(value, whose)
        if type(checked) in _PLAIN:
            return checked
        try:
            return self.adapter.dump_python(checked, mode="json")
        except ValueError as error:
            raise self._error(value, error, whose) from None

    def _error(self, value: object, error: Exception, whose: str) -> StateTypeError:
        return StateTypeError(
            f"{whose}{named(self._ref)} takes {shown(self._ref.type)}, not {value!r:.60}: {_reason(error)}."
        )


@lru_cache(maxsize=4096)
def field_type(ref: StateFieldRef) -> FieldType:
    """The checked type of a field; the same one at every call, since building it takes a while."""
    return FieldType(ref)


def named(ref: StateFieldRef) -> str:
    """A field as messages name it: schema, field, scope and key."""
    schema = ref.schema.__name__ if ref.schema else "State"
    return f"{schema}.{ref.name} ({ref.scope} key {ref.key!r})"


def shown(kind: object) -> str:
    """A type as messages name it."""
    return kind.__name__ if type(kind) is type else str(kind).replace("typing.", "")


def _reason(error: Exception) -> str:
    problems = getattr(error, "errors", None)
    if problems is None:
        return str(error).rstrip(".")
    first = problems(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return (f"{where}: " if where else "") + str(first["msg"]).rstrip(".")
