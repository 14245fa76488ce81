"""`StateSchema`: a typed view of session state."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Never, Protocol, Self, cast

from adk_fluent.errors import (
    ArgumentError,
    ReadOnlyStateError,
    SchemaCompositionError,
    SchemaError,
    StateKeyError,
    UnknownFieldError,
)
from adk_fluent.ir.state_keys import PREFIXES, StateFieldRef
from adk_fluent.spelling import did_you_mean
from adk_fluent.state.delta import ReadOnlyState, detached
from adk_fluent.state.fidelity import type_text
from adk_fluent.state.field_types import field_title, field_type

_MISSING: Final = object()


class HasState(Protocol):
    """A session, or ADK's context in a tool, a callback or an instruction."""

    @property
    def state(self) -> Any: ...  # noqa: D102


class Gets(Protocol):
    """State itself: ADK's state, a dict, or the read-only view that functions receive."""

    def get(self, key: str, default: Any = None, /) -> Any: ...  # noqa: D102


class _SchemaMeta(type):
    """The metaclass of schemas: the error for a misspelt field suggests the nearest name."""

    if not TYPE_CHECKING:  # with this method, a type checker would accept any name

        def __getattr__(cls, name: str) -> Never:
            if name.startswith("_"):
                raise AttributeError(name)
            raise _unknown_field(cls, name)


class StateSchema(metaclass=_SchemaMeta):
    """A typed view of session state: its keys, with their types, scopes and defaults.

    Subclass it and annotate the fields. On the class a field is a `StateFieldRef`, for `.writes`, `.reads`
    and everything else that takes a state key. On a bound schema it is the value. Reading and writing check
    the value against its type; writing stores it as JSON types, under the key with its scope's prefix.

    A key that is missing or `None` gives the field's default, or `None` if the type allows it. Reading
    returns a copy of a list or dict; assign the field to change it.

    For a type checker `BillingState.intent` is a `str`, so `BillingState.bind(ctx).intent` is a `str`, too.
    Therefore `.writes` accepts any object, and raises an error for one that is not a field.

    Example:
        >>> from typing import Annotated
        >>> from adk_fluent.state import StateSchema, UserScoped
        >>> class Billing(StateSchema):
        ...     intent: str
        ...     attempts: int = 0
        ...     tier: Annotated[str, UserScoped] = "free"
        >>> Billing.tier.key
        'user:tier'
        >>> stored = {"intent": "refund"}
        >>> state = Billing.bind(stored)
        >>> state.attempts += 1
        >>> state.intent, state.tier, stored
        ('refund', 'free', {'intent': 'refund', 'attempts': 1})
    """

    __slots__ = ("_bound_to", "_get", "_set")

    _schema: ClassVar[Mapping[str, Field]] = MappingProxyType({})

    if TYPE_CHECKING:
        _bound_to: str
        _get: Callable[[str], Any]
        _set: Callable[[str, Any], None] | None

    def __init__(self) -> None:
        name = type(self).__name__
        raise SchemaError(f"{name} is a view of state, not a value: use {name}.bind(ctx).")

    def __init_subclass__(cls, **options: Any) -> None:
        from adk_fluent.state.schema_fields import (
            declared_fields,  # slow to import, and needed only to declare a schema
        )

        super().__init_subclass__(**options)
        frame = inspect.currentframe()
        caller = frame.f_back if frame else None  # the class statement's frame, for annotations that are text
        fields = _inherited(cls)
        for ref in declared_fields(cls, caller):
            _check_name(cls, ref)
            if inherited := fields.get(ref.name):
                _check_same_declaration(cls, inherited.ref, ref)
            fields[ref.name] = Field(ref, inherited.default if inherited else _MISSING)
        for name, field in fields.items():
            if name in cls.__dict__:
                fields[name] = field = Field(field.ref, cls.__dict__[name])
            setattr(cls, name, field)
        cls._schema = MappingProxyType(fields)

    @classmethod
    def bind(cls, ctx: HasState | Gets | Mapping[str, Any]) -> Self:
        """Bind this schema to the state of `ctx`.

        Args:
            ctx: ADK's context in a tool, callback or instruction, a session, state itself, or a dict.

        Raises:
            ArgumentError: `ctx` has no state.
        """
        state = ctx if isinstance(ctx, Mapping) else getattr(ctx, "state", ctx)
        get = getattr(state, "get", None)
        if get is None:
            raise ArgumentError(
                f"{cls.__name__}.bind() takes a context with state, or a dict, not {type(ctx).__name__}."
            )
        bound = object.__new__(cls)
        set_slot = object.__setattr__
        set_slot(bound, "_get", get)
        read_only = isinstance(state, ReadOnlyState)
        set_slot(bound, "_set", None if read_only else getattr(state, "__setitem__", None))
        set_slot(bound, "_bound_to", type(ctx).__name__)
        return bound

    @classmethod
    def fields(cls) -> Mapping[str, StateFieldRef]:
        """The fields by name, inherited ones first."""
        return MappingProxyType({name: field.ref for name, field in cls._schema.items()})

    def __setattr__(self, name: str, value: object) -> None:
        if not hasattr(type(self), name):
            raise _unknown_field(type(self), name)
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        values = {name: self._get(field.key) for name, field in self._schema.items()}
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items() if value is not None)
        return f"{type(self).__name__}({shown})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            raise _unknown_field(type(self), name)


class Field:
    """One field of a schema: its reference on the class, and its value in state on a bound schema."""

    __slots__ = ("default", "key", "ref", "type")

    def __init__(self, ref: StateFieldRef, default: Any) -> None:
        self.ref: StateFieldRef = ref
        self.key: str = ref.key
        self.type: Any = field_type(ref)
        self.default: Any = default

    def __get__(self, bound: StateSchema | None, owner: type[StateSchema]) -> Any:
        if bound is None:
            return self.ref
        value = bound._get(self.key)  # pyright: ignore[reportPrivateUsage]  # a field is part of its schema
        return self._absent(bound) if value is None else self.type.load(detached(value))

    def __set__(self, bound: StateSchema, value: object) -> None:
        self._write(bound, self.type.dump(value))

    def __delete__(self, bound: StateSchema) -> None:
        self._write(bound, None)

    def _write(self, bound: StateSchema, value: object) -> None:
        write = bound._set  # pyright: ignore[reportPrivateUsage]  # a field is part of its schema
        if write is None:
            bound_to = bound._bound_to  # pyright: ignore[reportPrivateUsage]  # a field is part of its schema
            raise ReadOnlyStateError(
                f"{field_title(self.ref)} cannot be written here: {bound_to} is read-only. Write it in a "
                "tool or a callback, or return it from a transform."
            )
        write(self.key, value)

    def _absent(self, bound: StateSchema) -> Any:
        if self.default is not _MISSING:
            checked = self.type.load(self.default, "The default of ")
            return copy.deepcopy(checked)
        if self.ref.allows_none:
            return None
        raise StateKeyError(f"{field_title(self.ref)} is not set.{self._hint(bound)}")

    def _hint(self, bound: StateSchema) -> str:
        """A hint for a missing value: the same name in another scope, or a similar key."""
        get = bound._get  # pyright: ignore[reportPrivateUsage]  # a field is part of its schema
        for prefix in PREFIXES.values():
            if get(prefix + self.ref.name) is not None:
                return f" State has {prefix + self.ref.name!r}, which is another scope."
        state: Any = getattr(get, "__self__", None)
        values: Any = state.to_dict() if hasattr(state, "to_dict") else state
        keys = list(cast("Mapping[str, Any]", values)) if isinstance(values, Mapping) else []
        near = did_you_mean(self.key, (key for key in keys if get(key) is not None))
        return near or " An earlier step must write it; or give the field a default."


def defaults_of(schema: type[StateSchema]) -> Mapping[str, Any]:
    """The defaults of a schema: state key → default, for the fields that have one.

    >>> class Billing(StateSchema):
    ...     intent: str
    ...     attempts: int = 0
    >>> defaults_of(Billing)
    {'attempts': 0}
    """
    fields = schema._schema.values()  # pyright: ignore[reportPrivateUsage]  # of the same module
    return {field.key: field.default for field in fields if field.default is not _MISSING}


def _inherited(cls: type[StateSchema]) -> dict[str, Field]:
    """The fields of all parents; a field is the same object in every class that inherits it."""
    inherited: dict[str, Field] = {}
    for parent in cls.__bases__:
        if not issubclass(parent, StateSchema):
            continue
        for name, field in parent._schema.items():  # pyright: ignore[reportPrivateUsage]  # of the same class
            if name in inherited:
                _check_same_declaration(cls, inherited[name].ref, field.ref)
            else:
                inherited[name] = field
    return inherited


def _check_same_declaration(cls: type[StateSchema], first: StateFieldRef, second: StateFieldRef) -> None:
    """Raise an error if two declarations of one field differ."""
    for part, first_part, second_part in (
        ("scope", first.scope, second.scope),
        ("type", type_text(first.type), type_text(second.type)),
        ("constraints", repr(first.constraints), repr(second.constraints)),
    ):
        if first_part != second_part:
            raise SchemaCompositionError(
                f"{cls.__name__}.{first.name} is declared twice with a different {part}: {first_part} in "
                f"{_declarer(first)}, {second_part} in {_declarer(second)}. Rename one of them, or make them "
                "equal."
            )


def _declarer(ref: StateFieldRef) -> str:
    return ref.schema.__name__ if ref.schema else "a schema"


def _check_name(cls: type[StateSchema], ref: StateFieldRef) -> None:
    is_taken = hasattr(StateSchema, ref.name) or ref.name == "model_config"  # of the model of an answer
    if is_taken or ref.name.startswith("__"):
        raise SchemaError(f"{cls.__name__}.{ref.name}: StateSchema uses that name itself; choose another.")


def _unknown_field(cls: type[StateSchema], name: str) -> UnknownFieldError:
    fields = cls.fields()
    near = did_you_mean(name, fields)
    return UnknownFieldError(
        f"{cls.__name__} has no field {name!r}.{near} It has {', '.join(fields) or 'none'}."
    )
