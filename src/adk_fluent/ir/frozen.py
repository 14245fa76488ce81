"""Frozen dataclasses that inherit their methods and hold only what differs from their defaults.

`dataclasses.dataclass` writes and compiles up to seven methods per class. For the thirty-odd values that
expressions are made of this took longer than all else that importing adk_fluent does, so one set of methods
serves them all. And a node has some forty fields of which a user sets three: an instance keeps those in its
`__dict__` and finds the others in its class, so that making, copying, comparing and hashing it cost what was
said, not what could be. `dataclasses.fields`, `replace` and `is_dataclass` work as for any dataclass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields, is_dataclass
from inspect import Parameter, Signature
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar, cast, dataclass_transform

C = TypeVar("C", bound=type)
V = TypeVar("V")


class _Fields:
    """The signature of a class that takes its fields, for `help()`; made when it is asked for."""

    def __get__(self, instance: object, owner: type[Frozen]) -> Signature:
        if instance is not None or owner.__init__ is not Frozen.__init__ or not is_dataclass(owner):
            raise AttributeError("__signature__")
        named = fields(cast(Any, owner))
        parameters = [
            Parameter(
                each.name,
                Parameter.KEYWORD_ONLY if each.kw_only else Parameter.POSITIONAL_OR_KEYWORD,
                default=Parameter.empty if each.default is MISSING else each.default,
                annotation=each.type,
            )
            for each in sorted(named, key=lambda each: bool(each.kw_only))
        ]
        return Signature(parameters, __validate_parameters__=False)


class Frozen:
    """Base of every class that `frozen` or `node` decorates: what a frozen dataclass can do."""

    __slots__ = ("__dict__", "__weakref__", "_facts", "_hash", "_kept", "_used_at")

    _defaults: ClassVar[Mapping[str, object]] = {}
    """Every field in order; `MISSING` where a value must be given."""
    _required: ClassVar[frozenset[str]] = frozenset()
    _positional: ClassVar[tuple[str, ...]] = ()
    stored_as: ClassVar[type | None] = None
    """The class that a stored graph names in place of this one."""

    __signature__: Final = _Fields()

    def __init__(self, *args: object, **values: object) -> None:
        cls = type(self)
        if args:
            named = dict(zip(cls._positional, args, strict=False))
            if len(named) < len(args) or not named.keys().isdisjoint(values):
                raise TypeError(f"{cls.__name__} got too many positional arguments, or one field twice.")
            values = {**named, **values}
        self._fill(values)
        if cls._required and not cls._required <= values.keys():
            raise TypeError(f"{cls.__name__} needs {', '.join(sorted(cls._required - values.keys()))}.")

    def _fill(self, values: Mapping[str, object]) -> None:
        """Set fields while the value is being made; one that is its default is left to the class."""
        given, defaults = self.__dict__, self._defaults
        for name, value in values.items():
            if name not in defaults:
                raise TypeError(f"{type(self).__name__} has no field {name!r}.")
            default = defaults[name]
            if value is default or (type(value) is type(default) and value == default):
                given.pop(name, None)
            else:
                given[name] = value

    @property
    def given(self) -> Mapping[str, Any]:
        """The fields that differ from their defaults, in no particular order."""
        return self.__dict__

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return self.updated(changes)

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """Do the same as `replace`, with a mapping; twice as fast if the fields are in one already."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._fill(changes)
        return made

    def as_stored(self) -> Frozen:
        """The stored form of this value in a graph; by default the value itself."""
        return self

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> Frozen:
        """Restore a value from the fields of its stored form."""
        return cls(**values)

    if not TYPE_CHECKING:  # with these methods, a type checker would accept any attribute

        def __setattr__(self, name: str, value: object) -> None:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> None:
            raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        try:
            return cast(int, object.__getattribute__(self, "_hash"))
        except AttributeError:
            given = self.__dict__
            value = hash((type(self), frozenset(zip(given, map(_hash, given.values()), strict=True))))
            object.__setattr__(self, "_hash", value)
            return value

    def __repr__(self) -> str:
        from adk_fluent._redaction import (
            shown,  # late: it loads hashlib and urllib, which no expression needs
        )

        given = self.__dict__
        said = ", ".join(f"{name}={shown(name, given[name])!r}" for name in self._defaults if name in given)
        return f"{type(self).__qualname__}({said})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__  # without the hash, which differs between processes


class kept(Generic[V]):  # it is used as `property` is
    """A property of a frozen value that is made once, when it is first read; one in a class.

    It counts neither for equality nor for the hash, and a copy makes its own.
    """

    def __init__(self, make: Callable[[Any], V]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(self, value: Frozen, owner: type[Frozen] | None = None) -> V:
        try:
            return cast(V, object.__getattribute__(value, "_kept"))
        except AttributeError:
            made = self._make(value)
            object.__setattr__(value, "_kept", made)
            return made


def _hash(value: object) -> int:
    """A hash for any value; values that have none (dicts, pydantic models) hash by their type.

    Equality still compares them fully, so the hash is only coarser, never wrong.
    """
    try:
        return hash(value)
    except TypeError:
        if isinstance(value, tuple):
            return hash(tuple(_hash(item) for item in cast("tuple[object, ...]", value)))
        return hash(type(value))


def note_use(value: Frozen, frame: FrameType) -> None:
    """Keep where in the source a value is joined to another: `use_of` reads it.

    It counts neither for equality nor for the hash, and a copy does not have it.
    """
    object.__setattr__(value, "_used_at", (frame.f_code, frame.f_lasti))


def use_of(value: Frozen) -> tuple[CodeType, int] | None:
    """The code and the position in it that `note_use` has kept."""
    return getattr(value, "_used_at", None)


def freeze(cls: C, *, kw_only: bool = False) -> C:
    """Make a subclass of `Frozen` a dataclass over the methods it inherits."""
    made = cast(Any, dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls))
    made._defaults = {field.name: field.default for field in fields(made)}
    made._required = frozenset(name for name, default in made._defaults.items() if default is MISSING)
    made._positional = tuple(field.name for field in fields(made) if not field.kw_only)
    return made


@dataclass_transform(frozen_default=True)
def frozen(cls: C) -> C:
    """Make a subclass of `Frozen` a plain value, like `@dataclass(frozen=True)` at a fraction of its cost."""
    return freeze(cls)
