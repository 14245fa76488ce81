"""The fields that a schema class declares: the markers of its annotations, and the check of its types."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections import abc
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import FrameType
from typing import Annotated, Any, ClassVar, Final, Literal, NewType, Union, get_args, get_origin
from uuid import UUID

from adk_fluent.errors import SchemaError
from adk_fluent.ir.frozen import Frozen, frozen
from adk_fluent.ir.state_keys import Scope, StateFieldRef
from adk_fluent.state.fidelity import LOSS_REMEDY, loss


@frozen
class ScopeMarker(Frozen):
    """Sets the scope of a field; one of `SessionScoped`, `UserScoped`, `AppScoped` and `Temp`."""

    scope: Scope


SessionScoped: Final = ScopeMarker("session")
"""The value belongs to the session, under the plain name. This is the default."""

UserScoped: Final = ScopeMarker("user")
"""The value belongs to the user, in all their sessions: the key is `user:` and the name."""

AppScoped: Final = ScopeMarker("app")
"""All users of the app share the value: the key is `app:` and the name."""

Temp: Final = ScopeMarker("temp")
"""The value is removed when the run ends, and never stored: the key is `temp:` and the name."""


@frozen
class CapturedBy(Frozen):
    """Names the writer of a field if it is not an agent; for readers and checks, without effect on a run.

    Args:
        by: the factory or step, such as `S.capture`.
    """

    by: object


_SCALARS: Final = (str, int, float, bool, type(None), date, datetime, time, timedelta, Decimal, UUID, object)
_CONTAINERS: Final = (
    list,
    dict,
    tuple,
    set,
    frozenset,
    abc.Sequence,
    abc.MutableSequence,
    abc.Mapping,
    abc.MutableMapping,
    abc.Set,
)
_VALIDATES_ITSELF: Final = ("__get_pydantic_core_schema__", "__pydantic_core_schema__")


def declared_fields(cls: type[Any], frame: FrameType | None) -> list[StateFieldRef]:
    """The fields that `cls` itself declares, without those of its parents, in order.

    Args:
        frame: the frame of the class statement; annotations that are text may use its local names.

    Raises:
        SchemaError: an annotation cannot be resolved, has two scopes, or names a type that state would not
            give back as it was.
    """
    annotations = inspect.get_annotations(cls)
    try:
        # Resolve only the annotations of this class; those of a parent were resolved when it was defined.
        holder = type(cls.__name__, (), {"__annotations__": annotations, "__module__": cls.__module__})
        module = sys.modules.get(cls.__module__)  # None if the source runs by `exec`
        global_names = vars(module) if module else frame.f_globals if frame else {}
        local_names = dict(frame.f_locals) if frame else {}
        hints = typing.get_type_hints(holder, global_names, local_names, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise SchemaError(
            f"{cls.__name__}: an annotation cannot be resolved: {error}. Use types that are defined where "
            "the schema is."
        ) from error
    return [_field(cls, name, hints[name]) for name in annotations if not _is_class_var(hints[name])]


def _is_class_var(annotation: object) -> bool:
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _field(cls: type[Any], name: str, annotation: Any) -> StateFieldRef:
    bare, extras = annotation, ()
    if get_origin(annotation) is Annotated:
        bare, *extras = get_args(annotation)
    scopes = list(dict.fromkeys(extra for extra in extras if isinstance(extra, ScopeMarker)))
    if len(scopes) > 1:
        scope_names = " and ".join(repr(marker.scope) for marker in scopes)
        raise SchemaError(f"{cls.__name__}.{name} is in two scopes, {scope_names}. Keep one.")
    if (part := unsupported_part(bare)) is not None:
        part_name = getattr(part[0], "__qualname__", None) or repr(part[0])
        instead = (
            "Before Python 3.12 pydantic needs the TypedDict of typing_extensions."
            if typing.is_typeddict(part[0])
            else "State is stored as JSON: use str, int, float, bool, list, dict, Literal, an Enum, a date, "
            "a Path, a dataclass or a pydantic model."
        )
        raise SchemaError(f"{cls.__name__}.{name}: state cannot hold {part_name}. {instead}")
    if lost := loss(annotation):
        raise SchemaError(f"{cls.__name__}.{name}: {lost}. {LOSS_REMEDY}")
    producers = [extra.by for extra in extras if isinstance(extra, CapturedBy)]
    return StateFieldRef(
        name=name,
        type=bare,
        scope=scopes[0].scope if scopes else "session",
        schema=cls,
        constraints=tuple(extra for extra in extras if not isinstance(extra, ScopeMarker | CapturedBy)),
        captured_by=producers[0] if producers else None,
    )


def unsupported_part(annotation: Any) -> tuple[object] | None:
    """The part of a type that session state cannot hold, in a tuple; `None` if it can hold all of it.

    >>> unsupported_part(dict[str, list[int]])
    >>> unsupported_part(list[type])
    (<class 'type'>,)
    """
    origin = get_origin(annotation)
    if annotation is Any or origin is Literal:
        return None
    if origin is Annotated:
        return unsupported_part(get_args(annotation)[0])
    if isinstance(annotation, NewType):
        return unsupported_part(annotation.__supertype__)
    if type(annotation).__name__ == "TypeAliasType":  # `type X = ...`, from Python 3.12 on
        return unsupported_part(annotation.__value__)
    if origin in (Union, types.UnionType) or origin in _CONTAINERS:
        parts = (unsupported_part(part) for part in get_args(annotation) if part is not Ellipsis)
        return next((part for part in parts if part is not None), None)
    cls: Any = annotation if isinstance(annotation, type) else origin
    return None if isinstance(cls, type) and _is_storable(cls) else (annotation,)


def _is_typed_dict(cls: Any) -> bool:
    """True if pydantic accepts the class as a TypedDict."""
    return hasattr(cls, "__required_keys__") and (sys.version_info >= (3, 12) or not typing.is_typeddict(cls))


def _is_storable(cls: Any) -> bool:
    return (
        cls in _SCALARS
        or cls in _CONTAINERS
        or issubclass(cls, Enum | PurePath)
        or is_dataclass(cls)
        or _is_typed_dict(cls)
        or (hasattr(cls, "_fields") and issubclass(cls, tuple))
        or any(hasattr(cls, name) for name in _VALIDATES_ITSELF)
    )
