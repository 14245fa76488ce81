"""Conversion of state values from and to JSON types, checked against the type of their field.

Pydantic is imported when the first value is checked.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from json import JSONDecodeError
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from adk_fluent.errors import StateTypeError
from adk_fluent.state.fidelity import as_json, difference, type_text, unstorable

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

    from adk_fluent.ir.state_keys import StateFieldRef


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


class FieldType:
    """The type of one field, with pydantic's validator, which is built when a value is first checked.

    Values are checked strictly: a text is not a number. But types that have the same JSON form are converted:
    a list from a session store becomes a tuple, a text becomes a date, a number or text becomes a `Decimal`
    or a member of an enumeration, and a dict becomes a model.
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
            StateTypeError: pydantic cannot build one, for example for a dataclass that holds a connection.
        """
        if self._adapter is None:
            from pydantic import TypeAdapter
            from pydantic.errors import PydanticUserError

            try:
                self._adapter = TypeAdapter(readable_type(self._ref.annotation))
            except PydanticUserError as error:
                reason = str(error).partition("\n")[0]
                raise StateTypeError(f"{field_title(self._ref)} cannot be checked: {reason}") from error
        return self._adapter

    def _make_check(self) -> Callable[..., Any]:
        """Pydantic's inner function, without the layer around it, to make reading a field fast."""
        self._check = self.adapter.validator.validate_python
        return self._check

    def load(self, value: object, subject: str = "") -> Any:
        """Convert a value from state to its type.

        Args:
            subject: the start of the message, which names the writer; see `misfit_of`.

        Raises:
            StateTypeError: the value does not have the type, or breaks a constraint.
        """
        check = self._check or self._make_check()
        try:
            return check(value, strict=True)
        except ValueError:  # all errors of pydantic's validators are ValueErrors
            pass
        from pydantic_core import to_json

        given: object = value
        try:
            text = to_json(value)
            given = json.loads(text)
            return from_json(self.adapter, text, given)
        except ValueError as error:
            raise self._error(value, given, error, subject) from None

    def dump(self, value: object, subject: str = "") -> Any:
        """Convert a value to JSON types, for state.

        Args:
            subject: the start of the message, which names the writer; see `misfit_of`.

        Raises:
            StateTypeError: the value does not have the type, breaks a constraint, has no JSON form, cannot be
                held by a session store, or would read back as another value.
        """
        checked = self.load(value, subject)
        if type(checked) in _PLAIN:
            if refusal := unstorable(checked):
                raise self._refused(value, refusal, subject)
            return checked
        try:
            stored = self.adapter.dump_python(checked, mode="json")
        except ValueError as error:
            raise self._error(value, value, error, subject) from None
        if stored is None:
            raise self._refused(value, "its value is None, which means absent", subject)
        text = as_json(stored)
        refusal = unstorable(stored) if text is None else loss_of_value(self.adapter, checked, stored, text)
        if refusal:
            raise self._refused(value, refusal, subject)
        return stored

    def _refused(self, value: object, reason: str, subject: str) -> StateTypeError:
        return StateTypeError(f"{subject}{field_title(self._ref)} cannot hold {value!r:.60}: {reason}.")

    def _error(self, value: object, given: object, error: ValueError, subject: str) -> StateTypeError:
        return StateTypeError(
            f"{subject}{field_title(self._ref)} takes {type_text(self._ref.type)}, not {value!r:.60}: "
            f"{fault(error, given)}."
        )


def from_json(adapter: TypeAdapter[Any], text: bytes, given: object) -> Any:
    """Read a value from JSON text.

    `None` in state means absent, so a missing field may have been `None`. A computed field may be present
    although the type does not take it. Both are accepted, if the value then writes the same JSON again.

    Args:
        given: the value of `text`, as JSON types.

    Raises:
        ValidationError: the value does not have the type.
    """
    from pydantic import ValidationError
    from pydantic_core import to_json

    names = by_either_name()
    try:
        return adapter.validate_json(text, strict=True, **names)
    except ValidationError as error:
        completed = _completed(given, error)
        if completed is None:
            raise
        try:
            value = adapter.validate_json(to_json(completed), strict=True, **names)
        except ValidationError:
            raise error from None
        if _without_none(adapter.dump_python(value, mode="json")) != _without_none(given):
            raise
        return value


def loss_of_value(adapter: TypeAdapter[Any], value: object, stored: object, text: bytes) -> str | None:
    """The difference between a value and the value that its type reads back from state; `None` if equal.

    A secret is stored as asterisks, an excluded field is not stored, and a serializer may write JSON that the
    type does not accept.

    Args:
        stored: the value as JSON types, as state holds it.
        text: `stored` as JSON text.
    """
    try:
        back = adapter.validator.validate_json(text, strict=True, **by_either_name())
    except ValueError:
        try:
            back = from_json(adapter, text, stored)
        except ValueError as error:
            if not by_either_name():  # this pydantic takes a field under its alias alone
                return None
            return f"state would hold {stored!r:.60}, which is not read back: {fault(error, stored)}"
    return difference(value, back)


@cache
def by_either_name() -> dict[str, Any]:
    """Options that let pydantic accept a field under its name and its alias; empty for older versions."""
    from pydantic import TypeAdapter

    parameters = inspect.signature(cast(Any, TypeAdapter).validate_json).parameters
    return {"by_alias": True, "by_name": True} if "by_name" in parameters else {}


def _completed(given: object, error: ValidationError) -> object | None:
    """The value with `None` for missing fields and without extra fields; `None` if it has another fault."""
    completed = copy.deepcopy(given)
    for problem in error.errors(include_url=False):
        *path, last = problem["loc"] or ("",)
        holder = at_path(completed, path)
        if isinstance(holder, dict) and problem["type"] == "missing":
            holder[last] = None
        elif isinstance(holder, dict) and problem["type"] == "extra_forbidden":
            del holder[last]
        else:
            return None
    return completed


def at_path(value: Any, path: list[int | str]) -> Any:
    """The part of a JSON value at a path; `None` if the path does not exist."""
    try:
        for step in path:
            value = value[step]
    except (LookupError, TypeError):
        return None
    return value


def _without_none(value: Any) -> Any:
    """A JSON value without the entries of its objects that are `None`."""
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in cast("dict[str, Any]", value).items() if v is not None}
    return [_without_none(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


@lru_cache(maxsize=4096)
def field_type(ref: StateFieldRef) -> FieldType:
    """The checked type of a field; the same object at every call, because building it is slow."""
    return FieldType(ref)


def field_title(ref: StateFieldRef) -> str:
    """The name of a field in messages: schema, field, scope and key."""
    schema = ref.schema.__name__ if ref.schema else "State"
    return f"{schema}.{ref.name} ({ref.scope} key {ref.key!r})"


def misfit_of(agent: str) -> str:
    """The start of a message about a value that an agent wrote and that does not fit."""
    return f"Agent {agent!r} wrote what does not fit: "


def readable_type(kind: Any) -> Any:
    """The type with its enumerations, at any depth, changed so that pydantic reads them from their JSON.

    Without this change, pydantic writes a member whose value is a date as text, and then does not find that
    text among the values of the enumeration.
    """
    if isinstance(kind, type) and issubclass(cast(Any, kind), Enum):
        return _readable_enum(cast("type[Enum]", kind))
    origin, args = get_origin(kind), get_args(kind)
    if not args or origin is Literal:
        return kind
    if origin is Annotated:
        return Annotated[(readable_type(args[0]), *args[1:])]
    parts = tuple(part if part is ... else readable_type(part) for part in args)
    if parts == args:
        return kind
    return Union[parts] if origin is UnionType else cast(Any, origin)[parts]  # noqa: UP007  # parts are a value


def _readable_enum(kind: type[Enum]) -> Any:
    from pydantic import BeforeValidator
    from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

    try:
        stored = {to_json(member.value): member for member in kind}
        stored_as_is = all(to_jsonable_python(member.value) == member.value for member in kind)
    except PydanticSerializationError:  # a value has no stored form at all
        return kind
    return kind if stored_as_is else Annotated[kind, BeforeValidator(_enum_reader(kind, stored))]


def _enum_reader(kind: type[Enum], stored: Mapping[bytes, Enum]) -> Callable[[object], object]:
    from pydantic_core import to_json

    def read(value: object) -> object:
        return value if isinstance(value, kind) else stored.get(to_json(value), value)

    return read


# --- messages for values that do not match their type ---------------------------------------------


def fault(error: ValueError, given: object) -> str:
    """Describe an error of pydantic or `json`: the path to the first fault, and the number of other faults.

    For a union it describes the first fault for each member.

    Args:
        error: the error that pydantic or `json` raised.
        given: the checked value, as JSON types. In a path, pydantic puts the names of a union's members
            between the steps; the value shows which are steps.
    """
    list_problems = getattr(error, "errors", None)
    if list_problems is None:
        not_json = "it is not JSON: " if isinstance(error, JSONDecodeError) else ""
        return not_json + str(error).rstrip(".")
    problems = cast("list[dict[str, Any]]", list_problems(include_url=False))
    faults = [_Fault.of(problem, given) for problem in problems]
    if not faults[0].members:
        more = len(faults) - 1
        return faults[0].text + (f" (and {more} more)" if more else "")
    members: dict[str, str] = {}
    for one_fault in faults:
        if one_fault.union == faults[0].union and one_fault.members:
            members.setdefault(one_fault.members[0], one_fault.text)
    texts = [f"as {member}, {text}" for member, text in members.items()]
    return "; ".join(texts[:_MAX_MEMBERS]) + ("; ..." if len(texts) > _MAX_MEMBERS else "")


_MAX_MEMBERS: Final = 4
"""The most members of a union that a message describes."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """One fault of a value.

    Attributes:
        text: its description, with the path to it.
        members: the members of unions on the path.
        union: the path to the first of these unions.
    """

    text: str
    members: tuple[str, ...]
    union: str

    @classmethod
    def of(cls, problem: Mapping[str, Any], given: object) -> _Fault:
        """Describe one fault that pydantic reports."""
        loc: Sequence[int | str] = problem["loc"]
        path, union, members = "", "", list[str]()
        for index, step in enumerate(loc):
            absent = problem["type"] == "missing" and index == len(loc) - 1
            if isinstance(given, Mapping) and (step in given or absent):
                path += f".{step}" if str(step).isidentifier() else f"[{step!r}]"
                given = cast("Mapping[Any, object]", given).get(step)
            elif isinstance(given, list | tuple) and isinstance(step, int):
                path += f"[{step}]"
                items = cast("Sequence[object]", given)
                given = items[step] if step < len(items) else None
            elif step == "[key]":
                path += " (the key)"
            else:
                union = union if members else path
                members.append(str(step))
        return cls(_description(problem, path.removeprefix(".")), tuple(members), union)


def _description(problem: Mapping[str, Any], path: str) -> str:
    """The description of one fault at a path."""
    kind, message = problem["type"], str(problem["msg"]).rstrip(".")
    if kind == "missing":
        return f"{path} is missing"
    if kind == "json_invalid":
        return f"it is not JSON: {message.removeprefix('Invalid JSON: ')}"
    if kind == "extra_forbidden":
        return f"{path} is not one of its fields"
    value_at_path = f"{path or 'it'} is {problem['input']!r:.40}"
    subject, should, rule = message.partition(" should ")
    if should and subject in ("Input", "Value"):
        return f"{value_at_path} but should {rule}" if path else f"it should {rule}"
    return f"{value_at_path}: {message}" if path else message
